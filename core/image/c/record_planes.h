/* From coefficients to pixels in plain C, to be compiled once for each kind of processor.
 *
 * The arithmetic is that of libjpeg-turbo with vector instructions: its accurate inverse DCT
 * (Loeffler, Ligtenberg and Moschytz; 13 bits of fraction), its triangle filter for chroma, its
 * conversion with 16 bits of fraction. Products with the quantisation table and a few sums wrap at 16
 * bits, what lies between the passes saturates, but wraps where a block has one row only: so every variant
 * does, even on nonsense.
 */
#ifndef DDLP_RECORD_PLANES_H
#define DDLP_RECORD_PLANES_H

#include <string.h>

#include "record.h"

#define INLINE_PLANES static inline __attribute__((always_inline))

/* Constants of the inverse DCT, times 2^13. */
enum {
    F_0_298 = 2446,
    F_0_390 = 3196,
    F_0_541 = 4433,
    F_0_765 = 6270,
    F_0_899 = 7373,
    F_1_175 = 9633,
    F_1_501 = 12299,
    F_1_847 = 15137,
    F_1_961 = 16069,
    F_2_053 = 16819,
    F_2_562 = 20995,
    F_3_072 = 25172,
    IDCT_BITS = 13,
    FIRST_SHIFT = 11, /* the first pass keeps two bits of fraction */
    SECOND_SHIFT = 18,
};

/* Of the conversion to RGB, times 2^16, less the whole part. */
enum { CR_RED = 26345, CB_GREEN = -22554, CR_GREEN = 18734, CB_BLUE = -14942 };

INLINE_PLANES int16_t wrapped(int value) { return (int16_t)(uint16_t)value; }

INLINE_PLANES int16_t saturated(int32_t value) {
    if (value > 32767) return 32767;
    return value < -32768 ? -32768 : (int16_t)value;
}

INLINE_PLANES int32_t weighed(int16_t a, int16_t weight_a, int16_t b, int16_t weight_b) {
    return (int32_t)((uint32_t)(a * weight_a) + (uint32_t)(b * weight_b));
}

INLINE_PLANES int32_t plus(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }

INLINE_PLANES int32_t minus(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }

/* One pass over the eight rows of a block, in place: the columns are transformed side by side, in a
 * loop for which a compiler finds its vectors. */
INLINE_PLANES void idct_rows(int16_t *block, int shift) {
    int16_t *r0 = block, *r1 = block + 8, *r2 = block + 16, *r3 = block + 24;
    int16_t *r4 = block + 32, *r5 = block + 40, *r6 = block + 48, *r7 = block + 56;
    const int32_t half = 1 << (shift - 1);
    for (int at = 0; at < 8; at++) {
        int32_t sum = plus(wrapped(r0[at] + r4[at]) * (1 << IDCT_BITS), half);
        int32_t difference = plus(wrapped(r0[at] - r4[at]) * (1 << IDCT_BITS), half);
        int32_t low = weighed(r2[at], F_0_541, r6[at], F_0_541 - F_1_847);
        int32_t high = weighed(r2[at], F_0_541 + F_0_765, r6[at], F_0_541);
        int16_t z3 = wrapped(r7[at] + r3[at]), z4 = wrapped(r5[at] + r1[at]);
        int32_t third = weighed(z3, F_1_175 - F_1_961, z4, F_1_175);
        int32_t fourth = weighed(z3, F_1_175, z4, F_1_175 - F_0_390);
        int32_t odd0 = plus(weighed(r7[at], -F_0_899, r1[at], F_1_501 - F_0_899), fourth);
        int32_t odd1 = plus(weighed(r5[at], -F_2_562, r3[at], F_3_072 - F_2_562), third);
        int32_t odd2 = plus(weighed(r5[at], F_2_053 - F_2_562, r3[at], -F_2_562), fourth);
        int32_t odd3 = plus(weighed(r7[at], F_0_298 - F_0_899, r1[at], -F_0_899), third);
        int32_t even0 = plus(sum, high), even1 = plus(difference, low);
        int32_t even2 = minus(difference, low), even3 = minus(sum, high);
        r0[at] = saturated(plus(even0, odd0) >> shift);
        r1[at] = saturated(plus(even1, odd1) >> shift);
        r2[at] = saturated(plus(even2, odd2) >> shift);
        r3[at] = saturated(plus(even3, odd3) >> shift);
        r4[at] = saturated(minus(even3, odd3) >> shift);
        r5[at] = saturated(minus(even2, odd2) >> shift);
        r6[at] = saturated(minus(even1, odd1) >> shift);
        r7[at] = saturated(minus(even0, odd0) >> shift);
    }
}

INLINE_PLANES uint8_t level_of(int value) {
    if (value < -128) return 0;
    return value > 127 ? 255 : (uint8_t)(value + 128);
}

/* Whether the first row is all that counts of a block; one of the others may not count. There the first pass
 * of libjpeg-turbo wraps instead of saturating. */
INLINE_PLANES int has_one_row(const int16_t *block, int uncounted) {
    uint64_t halves[16], found = 0; /* of the rows */
    memcpy(halves, block, sizeof halves);
    for (int row = 1; row < 8; row++) found |= row == uncounted ? 0 : halves[2 * row] | halves[2 * row + 1];
    return !found;
}

INLINE_PLANES void idct_block(const int16_t *block, const int16_t *table, uint8_t *to,
                              ptrdiff_t stride) {
    int16_t work[BLOCK], turned[BLOCK];
    for (int place = 0; place < BLOCK; place++) work[place] = wrapped(block[place] * table[place]);
    if (has_one_row(block, 0))
        for (int place = BLOCK; place--;) work[place] = wrapped(work[place % 8] * 4);
    else
        idct_rows(work, FIRST_SHIFT);
    for (int row = 0; row < 8; row++)
        for (int column = 0; column < 8; column++) turned[8 * row + column] = work[8 * column + row];
    idct_rows(turned, SECOND_SHIFT);
    for (int row = 0; row < 8; row++)
        for (int column = 0; column < 8; column++)
            to[row * stride + column] = level_of(turned[8 * column + row]);
}

/* What the transform makes of a block that has nothing but a DC: the same level everywhere. */
INLINE_PLANES uint8_t dc_level(int16_t dc, int16_t quantum) {
    int16_t between = wrapped(wrapped(dc * quantum) * 4);
    return level_of((between * (1 << IDCT_BITS) + (1 << (SECOND_SHIFT - 1))) >> SECOND_SHIFT);
}

INLINE_PLANES void flat_block(uint8_t level, int side, uint8_t *to, ptrdiff_t stride) {
    for (int row = 0; row < side; row++) memset(to + row * stride, level, (size_t)side);
}

INLINE_PLANES void widen(const uint8_t *row, int samples, uint8_t *to) {
    for (int at = 0; at < samples; at++) {
        to[2 * at] = (uint8_t)((3 * row[at] + row[at - 1] + 1) >> 2);
        to[2 * at + 1] = (uint8_t)((3 * row[at] + row[at + 1] + 2) >> 2);
    }
}

INLINE_PLANES int sum_at(const uint8_t *near, const uint8_t *far, int at) { return 3 * near[at] + far[at]; }

INLINE_PLANES void widen_between(const uint8_t *near, const uint8_t *far, int samples, uint8_t *to) {
    for (int at = 0; at < samples; at++) {
        int sum = 3 * sum_at(near, far, at);
        to[2 * at] = (uint8_t)((sum + sum_at(near, far, at - 1) + 8) >> 4);
        to[2 * at + 1] = (uint8_t)((sum + sum_at(near, far, at + 1) + 7) >> 4);
    }
}

INLINE_PLANES void fill_between(const uint8_t *near, const uint8_t *far, int samples, int bias,
                                uint8_t *to) {
    for (int at = 0; at < samples; at++) to[at] = (uint8_t)((sum_at(near, far, at) + bias) >> 2);
}

INLINE_PLANES uint8_t clamped_level(int value) {
    if (value < 0) return 0;
    return value > 255 ? 255 : (uint8_t)value;
}

INLINE_PLANES void ycc_pixels(const uint8_t *const planes[COMPONENTS], int pixels, uint8_t *row) {
    const int half = 1 << 15;
    for (int at = 0; at < pixels; at++, row += 4) {
        int y = planes[0][at], cb = planes[1][at] - 128, cr = planes[2][at] - 128;
        row[0] = clamped_level(y + cr + ((CR_RED * cr + half) >> 16));
        row[1] = clamped_level(y - cr + ((CB_GREEN * cb + CR_GREEN * cr + half) >> 16));
        row[2] = clamped_level(y + 2 * cb + ((CB_BLUE * cb + half) >> 16));
        row[3] = 0;
    }
}

INLINE_PLANES void grey_pixels(const uint8_t *levels, int pixels, uint8_t *row) {
    for (int at = 0; at < pixels; at++, row += 4) memset(row, levels[at], 4);
}

#endif
