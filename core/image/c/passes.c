/* The two passes in portable C, and the choice among the variants. */
#include <stdatomic.h>

#include "pixels.h"
#include "kernel.h"

/* Written so that a compiler finds its vectors: a strip of sums, to which one row after the other
 * is added. */
enum { STRIP = 64 };

static void down_strip(const uint8_t *const *rows, const int16_t *weights, int taps, size_t at,
                       size_t lanes, int16_t *between) {
    const int shift = WEIGHT_BITS - KEPT_BITS;
    int32_t sums[STRIP];
    for (size_t lane = 0; lane < lanes; lane++) sums[lane] = 1 << (shift - 1);
    for (int tap = 0; tap < taps; tap++) {
        const uint8_t *row = rows[tap] + at;
        const int16_t weight = weights[tap];
        for (size_t lane = 0; lane < lanes; lane++) sums[lane] += (int16_t)row[lane] * weight;
    }
    for (size_t lane = 0; lane < lanes; lane++) between[at + lane] = (int16_t)(sums[lane] >> shift);
}

static void down(const uint8_t *const *rows, const int16_t *weights, int taps, size_t bytes,
                 int16_t *between) {
    size_t at = 0;
    for (; at + STRIP <= bytes; at += STRIP) down_strip(rows, weights, taps, at, STRIP, between);
    if (at < bytes) down_strip(rows, weights, taps, at, bytes - at, between);
}

static uint8_t level(int32_t sum) {
    int32_t value = (sum + (1 << (WEIGHT_BITS + KEPT_BITS - 1))) >> (WEIGHT_BITS + KEPT_BITS);
    if (value < 0) return 0;
    return value > 255 ? 255 : (uint8_t)value;
}

static void across(const int16_t *between, const int *places, const int16_t *packed, int groups,
                   int size, uint8_t *shown) {
    for (int place = 0; place < size; place++) {
        const int16_t *from = between + places[place];
        int32_t sums[4] = {0, 0, 0, 0};
        for (int tap = 0; tap < 4 * groups; tap++, from += 4) {
            const int16_t weight = packed[tap / 4 * 16 + tap % 4 / 2 * 8 + tap % 2];
            for (int channel = 0; channel < 4; channel++) sums[channel] += from[channel] * weight;
        }
        packed += 16 * groups;
        for (int channel = 0; channel < 3; channel++) *shown++ = level(sums[channel]);
    }
}

static void floats(const uint8_t *shown, const float *levels, int values, float *to) {
    levels_to_floats(shown, levels, values, to);
}

static void mirror(const uint8_t *row, int pixels, uint8_t *to) {
    mirror_pixels(row, pixels, to);
}

const passes portable_passes = {"portable", down, across, floats, mirror};

static atomic_int vectors_wanted = 1;

void passes_choose(int vectors) { atomic_store(&vectors_wanted, vectors); }

const passes *passes_in_use(void) {
#if defined(__x86_64__)
    if (atomic_load(&vectors_wanted) && __builtin_cpu_supports("avx2")) return &avx2_passes;
#endif
    return &portable_passes;
}
