/* Small loops over rows of pixels, to be compiled once for each kind of processor. */
#ifndef DDLP_PIXELS_H
#define DDLP_PIXELS_H

#include <stdint.h>

enum { CHANNELS = 3, PERIOD = 24 };

/* Eight pixels at a time, so that whole vectors serve the three channels. */
static inline __attribute__((always_inline)) void levels_to_floats(const uint8_t *shown,
                                                                   const float *levels, int values,
                                                                   float *to) {
    float multiply[PERIOD], add[PERIOD];
    for (int lane = 0; lane < PERIOD; lane++) {
        multiply[lane] = levels[lane % CHANNELS];
        add[lane] = levels[CHANNELS + lane % CHANNELS];
    }
    int at = 0;
    for (; at + PERIOD <= values; at += PERIOD)
        for (int lane = 0; lane < PERIOD; lane++)
            to[at + lane] = (float)shown[at + lane] * multiply[lane] + add[lane];
    for (int lane = 0; at < values; at++, lane++)
        to[at] = (float)shown[at] * multiply[lane] + add[lane];
}

static inline void mirror_pixels(const uint8_t *row, int pixels, uint8_t *to) {
    for (const uint8_t *from = row + CHANNELS * pixels; from > row; to += CHANNELS) {
        from -= CHANNELS;
        to[0] = from[0];
        to[1] = from[1];
        to[2] = from[2];
    }
}

#endif
