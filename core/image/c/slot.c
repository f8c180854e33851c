/* Writes rows of levels to where a batch wants them. */
#include <string.h>

#include "pixels.h"
#include "kernel.h"

/* Values of a batch that are turned into floats in one go: whole pixels, and no more than an int. */
enum { STRETCH = PERIOD << 20 };

static void put_run(const slot *out, uint8_t *to, const uint8_t *shown, int pixels) {
    if (out->levels)
        passes_in_use()->floats(shown, out->levels, CHANNELS * pixels, (float *)(void *)to);
    else
        memcpy(to, shown, (size_t)pixels * CHANNELS);
}

static void put_row(const slot *out, uint8_t *to, const uint8_t *shown, ptrdiff_t pixel_bytes) {
    if (out->pixel_stride == pixel_bytes) {
        put_run(out, to, shown, out->width);
        return;
    }
    for (int pixel = 0; pixel < out->width; pixel++)
        put_run(out, to + pixel * out->pixel_stride, shown + CHANNELS * pixel, 1);
}

void put_rows(const slot *out, int first, int rows, const uint8_t *shown) {
    ptrdiff_t pixel_bytes = CHANNELS * (ptrdiff_t)(out->levels ? sizeof(float) : 1);
    uint8_t *to = out->bytes + first * out->row_stride;
    if (out->pixel_stride == pixel_bytes && out->row_stride == out->width * pixel_bytes) {
        put_run(out, to, shown, rows * out->width);
        return;
    }
    for (int row = 0; row < rows; row++)
        put_row(out, to + row * out->row_stride, shown + (ptrdiff_t)row * out->width * CHANNELS,
                pixel_bytes);
}

void put_floats(const uint8_t *shown, const float *levels, size_t values, float *to) {
    const passes *use = passes_in_use();
    for (size_t at = 0; at < values; at += STRETCH) {
        size_t left = values - at;
        use->floats(shown + at, levels, (int)(left < STRETCH ? left : STRETCH), to + at);
    }
}
