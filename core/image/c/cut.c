/* Cuts whole pixels out of images that lie in memory as they are: the path of small arrays. */
#include <string.h>

#include "pixels.h"
#include "workspace.h"

/* Rows are cut in bands of about this many pixels: few calls for small images, and a band stays in
 * the nearest cache. */
enum { BAND_PIXELS = 4096 };

/* One row of a cut; what lies outside the image is black. */
static void cut_row(const uint8_t *row, int width, int64_t left, int count, uint8_t *to) {
    int64_t begin = left < 0 ? -left : 0, end = width - left;
    if (begin > count) begin = count;
    if (end > count) end = count;
    if (!row || end <= begin) {
        memset(to, 0, (size_t)count * CHANNELS);
        return;
    }
    memset(to, 0, (size_t)begin * CHANNELS);
    memcpy(to + begin * CHANNELS, row + (left + begin) * CHANNELS, (size_t)(end - begin) * CHANNELS);
    memset(to + end * CHANNELS, 0, (size_t)(count - end) * CHANNELS);
}

/* The memory has room for a line, to be mirrored, and for a band after it, each with slack. */
static void cut_image(const cuts *wanted, int64_t at, const slot *out, int band, uint8_t *line) {
    uint8_t *memory = line + (size_t)out->width * CHANNELS + ROW_SLACK;
    int turn = wanted->mirrored[at];
    size_t row_bytes = (size_t)wanted->width * CHANNELS;
    const uint8_t *image = wanted->pixels + (size_t)wanted->samples[at] * row_bytes * (size_t)wanted->height;
    for (int done = 0; done < out->height; done += band) {
        int rows = out->height - done < band ? out->height - done : band;
        for (int row = 0; row < rows; row++) {
            int64_t y = wanted->top[at] + done + row;
            const uint8_t *from = y >= 0 && y < wanted->height ? image + (size_t)y * row_bytes : NULL;
            uint8_t *to = memory + (size_t)row * (size_t)out->width * CHANNELS;
            cut_row(from, wanted->width, wanted->left[at], out->width, turn ? line : to);
            if (turn) passes_in_use()->mirror(line, out->width, to);
        }
        put_rows(out, done, rows, memory);
    }
}

status cut_images(workspace *mine, const cuts *wanted, const slot *first, ptrdiff_t slot_bytes) {
    int band = first->width < BAND_PIXELS ? BAND_PIXELS / first->width : 1;
    buffer *memory = &mine->work.shown;
    if (buffer_reserve(memory, (size_t)(band + 1) * (size_t)first->width * CHANNELS + 2 * ROW_SLACK))
        return STATUS_NO_MEMORY;
    for (int64_t at = 0; at < wanted->count; at++) {
        slot out = *first;
        out.bytes += at * slot_bytes;
        cut_image(wanted, at, &out, band, memory->bytes);
    }
    return STATUS_OK;
}
