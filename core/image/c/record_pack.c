/* Makes a record of a JPEG, and believes it only when the pixels of both are the same.
 *
 * libjpeg-turbo reads the whole file once, in the mode in which it keeps all coefficients: they are
 * packed, and then it makes the pixels that those of the record are compared with.
 */
#include <string.h>

#include "workspace.h"

/* All coefficients of a picture are in memory at once. */
enum { USUAL_MCUS = 8, SUBSAMPLED_MCUS = 4, MOST_PIXELS = 1 << 26 };

/* The most bytes that a tile can have; less than 16 bits can say. */
enum { MOST_TILE_BYTES = 2 + MOST_BLOCKS * (1 + PATCHES + PATCHES / 2 + 2 * BLOCK + 2) + 16 };

static void put_u16(uint8_t *to, unsigned value) {
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

static void put_u32(uint8_t *to, size_t value) {
    put_u16(to, (unsigned)(value & 0xFFFF));
    put_u16(to + 2, (unsigned)(value >> 16 & 0xFFFF));
}

/* Which pictures can be records. */
static int is_codable(const struct jpeg_decompress_struct *codec) {
    const jpeg_component_info *components = codec->comp_info;
    if (codec->data_precision != 8 || (size_t)codec->image_width * codec->image_height > MOST_PIXELS) return 0;
    if (codec->num_components == 1) return codec->jpeg_color_space == JCS_GRAYSCALE;
    if (codec->num_components != COMPONENTS) return 0;
    for (int component = 1; component < COMPONENTS; component++)
        if (components[component].h_samp_factor != 1 || components[component].v_samp_factor != 1) return 0;
    int across = components[0].h_samp_factor, down = components[0].v_samp_factor;
    if (codec->jpeg_color_space == JCS_RGB) return across == 1 && down == 1;
    /* Chroma of one or two samples is not stretched as any wider one is. */
    int wide = across == 1 || components[1].downsampled_width > 2;
    return codec->jpeg_color_space == JCS_YCbCr && across <= 2 && down <= 2 && wide;
}

/* Tables that an encoder could write: others would not come back from a JPEG that is made again. */
static int has_plain_tables(const struct jpeg_decompress_struct *codec) {
    for (int component = 0; component < codec->num_components; component++) {
        const JQUANT_TBL *table = codec->comp_info[component].quant_table;
        for (int place = 0; place < BLOCK; place++)
            if (!table || !table->quantval[place] || table->quantval[place] > MOST_QUANTUM) return 0;
    }
    return 1;
}

static void describe(record *of, const struct jpeg_decompress_struct *codec) {
    const jpeg_component_info *first = &codec->comp_info[0];
    int grey = codec->num_components == 1;
    *of = (record){.components = codec->num_components, .across = grey ? 1 : first->h_samp_factor};
    of->down = grey ? 1 : first->v_samp_factor;
    of->colours = grey ? COLOUR_GREY : codec->jpeg_color_space == JCS_RGB ? COLOUR_RGB : COLOUR_YCC;
    of->tile_mcus = of->across * of->down == 1 ? USUAL_MCUS : SUBSAMPLED_MCUS;
    of->width = (int)codec->image_width;
    of->height = (int)codec->image_height;
    of->mcus = (of->width + 8 * of->across - 1) / (8 * of->across);
    of->mcu_rows = (of->height + 8 * of->down - 1) / (8 * of->down);
    of->tiles = (of->mcus + of->tile_mcus - 1) / of->tile_mcus;
}

/* The fixed part and the tables, each once; gives how many bytes that is. */
static size_t put_fixed(const record *of, const struct jpeg_decompress_struct *codec, size_t head_size,
                          uint8_t *to) {
    memset(to, 0, RECORD_FIXED);
    to[0] = RECORD_FORMAT;
    to[1] = (uint8_t)of->components;
    to[2] = (uint8_t)of->colours;
    to[3] = (uint8_t)(of->across << 4 | of->down);
    to[4] = (uint8_t)of->tile_mcus;
    put_u32(to + 8, (size_t)of->width);
    put_u32(to + 12, (size_t)of->height);
    put_u32(to + 20, head_size);
    for (int component = 0; component < of->components; component++) {
        uint8_t made[2 * BLOCK];
        for (int place = 0; place < BLOCK; place++)
            put_u16(made + 2 * place, codec->comp_info[component].quant_table->quantval[place]);
        int same = 0;
        while (same < to[16] && memcmp(to + RECORD_FIXED + same * 2 * BLOCK, made, sizeof made)) same++;
        if (same == to[16]) memcpy(to + RECORD_FIXED + to[16]++ * 2 * BLOCK, made, sizeof made);
        to[5 + component] = (uint8_t)same;
    }
    return RECORD_FIXED + (size_t)to[16] * 2 * BLOCK;
}

/* Lists the blocks of a tile; rows of blocks that the file does not have are zero. */
static void list_blocks(struct jpeg_decompress_struct *codec, jvirt_barray_ptr *arrays, const record *of,
                        int row, int number, tile_maker *maker) {
    static const int16_t nothing[BLOCK];
    int mcu = number * of->tile_mcus, mcus = of->mcus - mcu < of->tile_mcus ? of->mcus - mcu : of->tile_mcus;
    maker->count = 0;
    maker->components = of->components;
    for (int component = 0; component < of->components; component++) {
        const jpeg_component_info *info = &codec->comp_info[component];
        int wide = blocks_across(of, component), high = blocks_down(of, component), before = maker->count;
        /* The arrays are filled up to whole MCUs, but for a picture of one component. */
        int columns = (int)(info->width_in_blocks + (unsigned)wide - 1) / wide * wide;
        int lines = (int)(info->height_in_blocks + (unsigned)high - 1) / high * high;
        for (int line = row * high; line < (row + 1) * high; line++) {
            JBLOCKARRAY blocks = NULL;
            if (line < lines)
                blocks = codec->mem->access_virt_barray((j_common_ptr)codec, arrays[component], (JDIMENSION)line, 1, FALSE);
            for (int column = mcu * wide; column < (mcu + mcus) * wide; column++)
                maker->blocks[maker->count++] = blocks && column < columns ? blocks[0][column] : nothing;
        }
        maker->of_component[component] = maker->count - before;
    }
}

/* Rows of tiles behind their index, which begins at `index`; gives where they end. */
static status put_tiles(struct jpeg_decompress_struct *codec, const record *of, tile_maker *maker,
                        buffer *to, size_t index, size_t *end) {
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(codec);
    size_t sizes = index + 4 * (size_t)of->mcu_rows;
    size_t data = sizes + 2 * (size_t)of->mcu_rows * (size_t)of->tiles, at = data;
    for (int row = 0; row < of->mcu_rows; row++) {
        for (int number = 0; number < of->tiles; number++, sizes += 2) {
            if (buffer_grow(to, at + MOST_TILE_BYTES)) return STATUS_NO_MEMORY;
            uint8_t *bytes = to->bytes;
            list_blocks(codec, arrays, of, row, number, maker);
            uint8_t *next = passes_in_use()->records->pack(maker, bytes + at);
            if (!next) return STATUS_UNUSUAL;
            put_u16(bytes + sizes, (unsigned)(next - bytes - (ptrdiff_t)at));
            at = (size_t)(next - bytes);
        }
        if (at - data > UINT32_MAX) return STATUS_UNUSUAL;
        put_u32((uint8_t *)to->bytes + index + 4 * (size_t)row, at - data);
    }
    *end = at;
    return STATUS_OK;
}

/* From the beginning of a file up to its first scan. */
static size_t head_bytes(const uint8_t *data, size_t size) {
    size_t at = 2;
    while (at + 4 <= size && data[at] == 0xFF && data[at + 1] != 0xDA)
        at += data[at + 1] == 0xFF ? 1 : 2 + (size_t)(data[at + 2] << 8 | data[at + 3]);
    return at <= size ? at : 0;
}

/* Rows of four bytes a pixel, of which the last does not count. */
static int same_pixels(const uint8_t *a, const uint8_t *b, int pixels) {
    uint32_t different = 0, one, other;
    for (int at = 0; at < pixels; at++) {
        memcpy(&one, a + 4 * at, 4);
        memcpy(&other, b + 4 * at, 4);
        different |= one ^ other;
    }
    memcpy(&one, (const uint8_t[]){255, 255, 255, 0}, 4);
    return !(different & one);
}

/* Whether the pixels that libjpeg-turbo makes are those of the record. */
static status compare(workspace *mine, const uint8_t *made, size_t size, reason *why) {
    struct jpeg_decompress_struct *codec = &mine->decoder.codec;
    record_decoder *ours = &mine->records;
    int width = (int)codec->image_width, height = (int)codec->image_height;
    size_t row_bytes = (size_t)width * 4 + ROW_SLACK;
    if (buffer_reserve(&mine->work.rows, 2 * row_bytes + BESIDE_ALIGNED)) return STATUS_NO_MEMORY;
    JSAMPROW theirs = (uint8_t *)mine->work.rows.bytes + BESIDE_ALIGNED;
    uint8_t *row = theirs + row_bytes;
    if (record_open(&ours->of, made, size, why)) return STATUS_UNUSUAL;
    ours->scale = record_reduced(&ours->of, 1);
    status next = record_rows(ours, 0, width, 0, why);
    for (int y = 0; y < height && !next; y++) {
        if (jpeg_read_scanlines(codec, &theirs, 1) != 1) return STATUS_UNUSUAL;
        next = ours->rows.next(&ours->rows, row);
        if (!next && !same_pixels(theirs, row, width)) return STATUS_UNUSUAL;
    }
    return next == STATUS_BAD ? STATUS_UNUSUAL : next;
}

static status pack(workspace *mine, const uint8_t *data, size_t size, int keep_head, buffer *to,
                   size_t *made, reason *why) {
    struct jpeg_decompress_struct *codec = &mine->decoder.codec;
    record of;
    jpeg_open(&mine->decoder, data, size);
    if (!is_codable(codec) || !jpeg_read_whole(&mine->decoder) || !has_plain_tables(codec)) return STATUS_UNUSUAL;
    describe(&of, codec);
    size_t head_size = keep_head ? head_bytes(data, size) : 0, end = 0;
    size_t index = (size_t)of.mcu_rows * (4 + 2 * (size_t)of.tiles);
    if (buffer_reserve(&mine->maker, sizeof(tile_maker)) ||
        buffer_reserve(to, RECORD_FIXED + COMPONENTS * 2 * BLOCK + index + size + size / 2))
        return STATUS_NO_MEMORY;
    size_t fixed = put_fixed(&of, codec, head_size, to->bytes);
    status packed = put_tiles(codec, &of, mine->maker.bytes, to, fixed, &end);
    if (packed) return packed;
    *made = end + head_size + RECORD_SLACK;
    if (buffer_grow(to, *made)) return STATUS_NO_MEMORY;
    memcpy((uint8_t *)to->bytes + end, data, head_size);
    memset((uint8_t *)to->bytes + end + head_size, 0, RECORD_SLACK);
    jpeg_start_output(codec, codec->input_scan_number);
    return compare(mine, to->bytes, *made, why);
}

status record_pack(workspace *mine, const uint8_t *data, size_t size, int keep_head, buffer *to,
                   size_t *made, reason *why) {
    jpeg_decoder *decoder = &mine->decoder;
    jpeg_head head;
    if (jpeg_walk(data, size, &head, why)) return STATUS_BAD;
    if (!head.usual) return STATUS_UNUSUAL;
    decoder->why = why;
    status packed;
    if (setjmp(decoder->escape)) {
        packed = jpeg_ran_out_of_memory(decoder) ? STATUS_NO_MEMORY : STATUS_UNUSUAL;
    } else {
        jpeg_decoder_make(decoder);
        packed = pack(mine, data, size, keep_head, to, made, why);
    }
    jpeg_destroy_decompress(&decoder->codec);
    return packed;
}
