/* Decodes just the rows and columns of a JPEG that a view needs, with the pixels of a full decode.
 *
 * Entropy-coded data must be read from the start, but neither the inverse DCT nor the colour
 * conversion of what lies outside is done, and nothing after the last row is read at all. A margin
 * keeps the crop's edge away from the place where chroma upsampling would take the crop's border
 * for the image's.
 */
#include "jpeg_rows.h"

#include <string.h>

#include <jerror.h>

#include "workspace.h"

static _Noreturn void on_error(j_common_ptr common) {
    jpeg_decoder *decoder = common->client_data;
    char text[JMSG_LENGTH_MAX];
    common->err->format_message(common, text);
    bad(decoder->why, "%s", text);
    longjmp(decoder->escape, 1);
}

/* Damaged data that can be passed over: counted, as libjpeg itself does. */
static void on_warning(j_common_ptr common, int level) {
    if (level < 0) common->err->num_warnings++;
}

static void on_text(j_common_ptr common) { (void)common; }

/* A codec serves one image only: it would lend its tables to a next one that lacks its own. */
void jpeg_decoder_make(jpeg_decoder *decoder) {
    memset(&decoder->codec, 0, sizeof decoder->codec);
    decoder->codec.err = jpeg_std_error(&decoder->errors);
    decoder->errors.error_exit = on_error;
    decoder->errors.emit_message = on_warning;
    decoder->errors.output_message = on_text;
    decoder->codec.client_data = decoder;
    jpeg_create_decompress(&decoder->codec);
}

int jpeg_ran_out_of_memory(const jpeg_decoder *decoder) {
    return decoder->errors.msg_code == JERR_OUT_OF_MEMORY;
}

void jpeg_open(jpeg_decoder *decoder, const uint8_t *data, size_t size) {
    jpeg_mem_src(&decoder->codec, data, (unsigned long)size);
    jpeg_read_header(&decoder->codec, TRUE);
}

/* What Pillow does with the inverted CMYK that every encoder writes. */
static void cmyk_to_rgb(uint8_t *row, int columns) {
    for (uint8_t *pixel = row; pixel < row + 4 * (size_t)columns; pixel += 4) {
        int white = pixel[3];
        for (int channel = 0; channel < 3; channel++) {
            int ink = (255 - pixel[channel]) * white + 128;
            int value = white - ((ink + (ink >> 8)) >> 8);
            pixel[channel] = (uint8_t)(value < 0 ? 0 : value);
        }
    }
}

static status next_row(row_source *rows, uint8_t *row) {
    jpeg_decoder *decoder = (jpeg_decoder *)rows;
    JSAMPROW pointer = row;
    if (jpeg_read_scanlines(&decoder->codec, &pointer, 1) != 1)
        return bad(decoder->why, "it has fewer rows than it says");
    if (decoder->cmyk) cmyk_to_rgb(row, rows->columns);
    return STATUS_OK;
}

/* Whether a progressive picture lacks scans: libjpeg then smooths what is there, across the edges
 * of any crop and not the same in every release. */
static int is_unfinished(const struct jpeg_decompress_struct *codec) {
    if (!codec->coef_bits) return 0;
    for (int component = 0; component < codec->num_components; component++)
        for (int coefficient = 0; coefficient < DCTSIZE2; coefficient++)
            if (codec->coef_bits[component][coefficient]) return 1;
    return 0;
}

int jpeg_read_whole(jpeg_decoder *decoder) {
    struct jpeg_decompress_struct *codec = &decoder->codec;
    codec->buffered_image = TRUE;
    codec->out_color_space = JCS_EXT_RGBX;
    jpeg_start_decompress(codec);
    while (!jpeg_input_complete(codec)) jpeg_consume_input(codec);
    return !decoder->errors.num_warnings && !is_unfinished(codec);
}

/* Leaves out the columns that no tap reads, and passes over the rows before the first. */
static void crop(jpeg_decoder *decoder, const resizer *work) {
    struct jpeg_decompress_struct *codec = &decoder->codec;
    int margin = 2 * codec->max_h_samp_factor, end = filter_end(&work->across) + margin;
    JDIMENSION column = 0, columns = codec->output_width;
    if (work->across.first[0] > margin) column = (JDIMENSION)(work->across.first[0] - margin);
    if (end < (int)columns) columns = (JDIMENSION)end;
    columns -= column;
    /* libjpeg-turbo crops the reduced planes of a picture subsampled by more than two wrongly. */
    int exact = codec->scale_denom == 1 || codec->max_h_samp_factor <= 2;
    if (columns < codec->output_width && exact)
        jpeg_crop_scanline(codec, &column, &columns);
    else
        column = 0, columns = codec->output_width;
    if (work->down.first[0] > 0) jpeg_skip_scanlines(codec, (JDIMENSION)work->down.first[0]);
    decoder->rows = (row_source){next_row, (int)columns, (int)column};
}

static status decode(jpeg_decoder *decoder, resizer *work, span across, span down, int reduce,
                     const slot *out) {
    struct jpeg_decompress_struct *codec = &decoder->codec;
    int reduction = reduce ? allowed_reduction(&across, &down) : 1;
    decoder->cmyk = codec->num_components == 4;
    codec->out_color_space = decoder->cmyk ? JCS_CMYK : JCS_EXT_RGBX;
    codec->scale_num = 1;
    codec->scale_denom = (unsigned)reduction;
    span columns = reduced_span(across, reduction, (int)codec->image_width);
    span rows = reduced_span(down, reduction, (int)codec->image_height);
    if (filter_make(&work->across, &columns) || filter_make(&work->down, &rows))
        return STATUS_NO_MEMORY;
    jpeg_start_decompress(codec);
    if (is_unfinished(codec)) return STATUS_UNUSUAL;
    crop(decoder, work);
    return resize_rows(work, &decoder->rows, out);
}

/* Reads what follows the pixels, which may be damaged in a way that a full decode would find. */
static status finish(jpeg_decoder *decoder, buffer *spare) {
    struct jpeg_decompress_struct *codec = &decoder->codec;
    if (buffer_reserve(spare, (size_t)codec->output_width * 4 + ROW_SLACK)) return STATUS_NO_MEMORY;
    JDIMENSION left = codec->output_height - codec->output_scanline;
    /* The last row is read: skipping it too would skip what follows. */
    if (left > 1) jpeg_skip_scanlines(codec, left - 1);
    status read = left ? next_row(&decoder->rows, spare->bytes) : STATUS_OK;
    if (!read) jpeg_finish_decompress(codec);
    return read;
}

static status check(const jpeg_head *head, const jpeg_file *file, reason *why) {
    if (!head->usual) return bad(why, "it is a JPEG of another kind than when it was indexed");
    if (head->width != file->width || head->height != file->height)
        return bad(why, "it is %d × %d pixels, not %d × %d as when it was indexed", head->width,
                   head->height, file->width, file->height);
    return STATUS_OK;
}

status render_jpeg(workspace *mine, const jpeg_file *file, span across, span down, int reduce,
                   const slot *out, reason *why) {
    jpeg_decoder *decoder = &mine->decoder;
    jpeg_head head;
    if (jpeg_walk(file->data, file->size, &head, why) || check(&head, file, why)) return STATUS_BAD;
    decoder->why = why;
    if (setjmp(decoder->escape)) {
        int no_memory = jpeg_ran_out_of_memory(decoder);
        jpeg_destroy_decompress(&decoder->codec);
        return no_memory ? STATUS_NO_MEMORY : STATUS_BAD;
    }
    jpeg_decoder_make(decoder);
    jpeg_open(decoder, file->data, file->size);
    status rendered = decode(decoder, &mine->work, across, down, reduce, out);
    if (!rendered && head.more) rendered = finish(decoder, &mine->work.shown);
    jpeg_destroy_decompress(&decoder->codec);
    return rendered;
}
