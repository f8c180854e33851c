/* Makes a JPEG of a record again: the same coefficients, with Huffman codes. */
#include <stdlib.h>
#include <string.h>

#include "workspace.h"

#include <jerror.h>

/* What libjpeg writes goes into a buffer of ours. libjpeg's own memory destination tells its caller where the
 * bytes lie only when all went well: after an error nobody knows what is to be freed. */
typedef struct {
    struct jpeg_compress_struct codec;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf escape;
    reason *why;
    buffer *to;
} jpeg_encoder;

enum { FIRST_ROOM = 1 << 16 };

static _Noreturn void on_error(j_common_ptr common) {
    jpeg_encoder *encoder = common->client_data;
    char text[JMSG_LENGTH_MAX];
    common->err->format_message(common, text);
    bad(encoder->why, "%s", text);
    longjmp(encoder->escape, 1);
}

static void on_text(j_common_ptr common) { (void)common; }

/* What lies behind the bytes that were written is free. */
static void reserve_behind(j_compress_ptr common, size_t written, size_t room) {
    jpeg_encoder *encoder = common->client_data;
    buffer *to = encoder->to;
    if (buffer_grow(to, written + room)) ERREXIT1(common, JERR_OUT_OF_MEMORY, 0);
    encoder->destination.next_output_byte = (uint8_t *)to->bytes + written;
    encoder->destination.free_in_buffer = to->size - written;
}

static void begin_output(j_compress_ptr codec) { reserve_behind(codec, 0, FIRST_ROOM); }

static boolean grow_output(j_compress_ptr codec) {
    const jpeg_encoder *encoder = codec->client_data;
    reserve_behind(codec, encoder->to->size, 1); /* all of it is full; buffers grow by half */
    return TRUE;
}

static void end_output(j_compress_ptr codec) { (void)codec; }

static void describe(struct jpeg_compress_struct *codec, const record *from) {
    static const J_COLOR_SPACE spaces[] = {JCS_GRAYSCALE, JCS_YCbCr, JCS_RGB};
    codec->image_width = (JDIMENSION)from->width;
    codec->image_height = (JDIMENSION)from->height;
    codec->input_components = from->components;
    codec->in_color_space = spaces[from->colours];
    jpeg_set_defaults(codec);
    jpeg_set_colorspace(codec, spaces[from->colours]);
    for (int component = 0; component < from->components; component++) {
        jpeg_component_info *info = &codec->comp_info[component];
        unsigned int table[BLOCK];
        for (int place = 0; place < BLOCK; place++) table[place] = (uint16_t)from->tables[component][place];
        info->h_samp_factor = blocks_across(from, component);
        info->v_samp_factor = blocks_down(from, component);
        info->quant_tbl_no = from->bytes[5 + component]; /* a table that several use is written once */
        jpeg_add_quant_table(codec, info->quant_tbl_no, table, 100, FALSE);
    }
}

static void request_arrays(struct jpeg_compress_struct *codec, const record *from, jvirt_barray_ptr *arrays) {
    for (int component = 0; component < from->components; component++) {
        JDIMENSION across = (JDIMENSION)(from->mcus * blocks_across(from, component));
        JDIMENSION down = (JDIMENSION)(from->mcu_rows * blocks_down(from, component));
        arrays[component] = codec->mem->request_virt_barray((j_common_ptr)codec, JPOOL_IMAGE, TRUE, across, down,
                                                            (JDIMENSION)blocks_down(from, component));
    }
}

static void copy_tile(struct jpeg_compress_struct *codec, const record *from, jvirt_barray_ptr *arrays, int row,
                      int mcu, const tile *of, const int16_t *block) {
    for (int component = 0; component < from->components; component++) {
        int wide = blocks_across(from, component), high = blocks_down(from, component);
        JBLOCKARRAY lines = codec->mem->access_virt_barray((j_common_ptr)codec, arrays[component],
                                                           (JDIMENSION)(row * high), (JDIMENSION)high, TRUE);
        for (int line = 0; line < high; line++)
            for (int column = mcu * wide; column < (mcu + of->mcus) * wide; column++, block += BLOCK)
                for (int place = 0; place < BLOCK; place++) lines[line][column][place] = block[place];
    }
}

static status fill_arrays(workspace *mine, struct jpeg_compress_struct *codec, const record *from,
                          jvirt_barray_ptr *arrays, reason *why) {
    buffer *memory = &mine->maker;
    if (buffer_reserve(memory, sizeof(unpacked))) return STATUS_NO_MEMORY;
    unpacked *blocks = memory->bytes;
    for (int row = 0; row < from->mcu_rows; row++) {
        size_t start = record_row(from, row, 0);
        for (int number = 0; number < from->tiles; number++) {
            tile next;
            record_tile(from, row, number, start, &next);
            if (!passes_in_use()->records->unpack(&next, blocks))
                return bad(why, "tile %d of row %d does not add up", number, row);
            copy_tile(codec, from, arrays, row, number * from->tile_mcus, &next, blocks->blocks);
            start += next.size;
        }
    }
    return STATUS_OK;
}

static int is_own(const struct jpeg_compress_struct *codec, int marker, const uint8_t *body, size_t size) {
    if (marker == 0xE0 && codec->write_JFIF_header) return size >= 5 && !memcmp(body, "JFIF", 5);
    return marker == 0xEE && codec->write_Adobe_marker && size >= 5 && !memcmp(body, "Adobe", 5);
}

/* What the file said beside its picture: EXIF, colour profiles, comments. */
static void copy_markers(struct jpeg_compress_struct *codec, const record *from) {
    const uint8_t *head = from->head;
    for (size_t at = 2; at + 4 <= from->head_size && head[at] == 0xFF;) {
        int marker = head[at + 1];
        size_t length = (size_t)(head[at + 2] << 8 | head[at + 3]);
        if (marker == 0xFF) {
            at++;
            continue;
        }
        if (length < 2 || length > from->head_size - at - 2) return;
        int wanted = (marker >= 0xE0 && marker <= 0xEF) || marker == 0xFE;
        if (wanted && !is_own(codec, marker, head + at + 4, length - 2))
            jpeg_write_marker(codec, marker, head + at + 4, (unsigned)(length - 2));
        at += 2 + length;
    }
}

static status encode(workspace *mine, jpeg_encoder *encoder, const record *from) {
    struct jpeg_compress_struct *codec = &encoder->codec;
    jvirt_barray_ptr arrays[COMPONENTS];
    describe(codec, from);
    codec->optimize_coding = TRUE;
    request_arrays(codec, from, arrays);
    jpeg_write_coefficients(codec, arrays);
    copy_markers(codec, from);
    status filled = fill_arrays(mine, codec, from, arrays, encoder->why);
    if (!filled) jpeg_finish_compress(codec);
    return filled;
}

status record_to_jpeg(workspace *mine, const record *from, buffer *to, size_t *made, reason *why) {
    jpeg_encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder) return STATUS_NO_MEMORY;
    encoder->codec.err = jpeg_std_error(&encoder->errors);
    encoder->errors.error_exit = on_error;
    encoder->errors.output_message = on_text;
    encoder->destination.init_destination = begin_output;
    encoder->destination.empty_output_buffer = grow_output;
    encoder->destination.term_destination = end_output;
    encoder->codec.client_data = encoder;
    encoder->why = why;
    encoder->to = to;
    status written;
    if (setjmp(encoder->escape)) {
        written = encoder->errors.msg_code == JERR_OUT_OF_MEMORY ? STATUS_NO_MEMORY : STATUS_BAD;
    } else {
        jpeg_create_compress(&encoder->codec);
        encoder->codec.dest = &encoder->destination;
        written = encode(mine, encoder, from);
    }
    *made = written ? 0 : to->size - encoder->destination.free_in_buffer;
    jpeg_destroy_compress(&encoder->codec);
    free(encoder);
    return written;
}
