/* The two passes in portable C, and the choice among the variants. */
#include <stdatomic.h>
#include <string.h>

#include "pixels.h"
#include "kernel.h"
#include "record.h"

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

/* The four channels of a pixel side by side; a compiler has vectors for these on every processor. */
typedef int16_t pixel16 __attribute__((vector_size(8)));
typedef int32_t pixel32 __attribute__((vector_size(16)));

static void across(const int16_t *between, const int *places, const int16_t *packed, int groups,
                   int size, uint8_t *shown) {
    for (int place = 0; place < size; place++) {
        const int16_t *from = between + places[place];
        pixel32 sums = {0};
        for (int group = 0; group < groups; group++, packed += 16)
            for (int tap = 0; tap < 4; tap++, from += 4) {
                pixel16 pixel;
                memcpy(&pixel, from, sizeof pixel);
                sums += __builtin_convertvector(pixel, pixel32) * packed[tap / 2 * 8 + tap % 2];
            }
        for (int channel = 0; channel < 3; channel++) *shown++ = level(sums[channel]);
    }
}

static void floats(const uint8_t *shown, const float *levels, int values, float *to) {
    levels_to_floats(shown, levels, values, to);
}

static void mirror(const uint8_t *row, int pixels, uint8_t *to) {
    mirror_pixels(row, pixels, to);
}

const passes portable_passes = {"portable", down, across, floats, mirror, &portable_record_passes};

int passes_possible(const passes *found[MOST_VARIANTS]) {
    int count = 0;
    found[count++] = &portable_passes;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt")) {
        found[count++] = &avx2_passes;
        /* The first two generations of Zen have the instruction, but take it apart. */
        if (__builtin_cpu_supports("bmi2") && !__builtin_cpu_is("znver1") && !__builtin_cpu_is("znver2"))
            found[count++] = &pdep_passes;
    }
#endif
    return count;
}

static _Atomic(const passes *) chosen;

int passes_choose(const char *name) {
    const passes *found[MOST_VARIANTS];
    int count = passes_possible(found), at = count - 1;
    while (name && at >= 0 && strcmp(found[at]->name, name)) at--;
    if (at < 0) return 0;
    atomic_store(&chosen, found[at]);
    return 1;
}

const passes *passes_in_use(void) {
    const passes *use = atomic_load(&chosen);
    if (!use) {
        passes_choose(NULL);
        use = atomic_load(&chosen);
    }
    return use;
}
