/* The inverse DCT to blocks of 4, 2 or 1 samples a side, in plain C, to be compiled as record_planes.h is.
 *
 * The arithmetic is libjpeg-turbo's for reduced pictures: to four samples it leaves out the row and the
 * column 4, to two all even ones but the first. A pass shifts by a bit more each time the side is halved.
 */
#ifndef DDLP_RECORD_REDUCED_H
#define DDLP_RECORD_REDUCED_H

#include "record_planes.h"

/* Constants of the reduced transforms, times 2^13. */
enum {
    F_0_211 = 1730,
    F_0_509 = 4176,
    F_0_601 = 4926,
    F_0_720 = 5906,
    F_0_850 = 6967,
    F_1_061 = 8697,
    F_1_272 = 10426,
    F_1_451 = 11893,
    F_2_172 = 17799,
    F_3_624 = 29692,
};

/* Eight rows to four; the columns are transformed side by side. */
INLINE_PLANES void rows_to_4(const int16_t *from, int columns, int shift, int16_t *to) {
    const int16_t *r1 = from + columns, *r2 = r1 + columns, *r3 = r2 + columns;
    const int16_t *r5 = r3 + 2 * columns, *r6 = r5 + columns, *r7 = r6 + columns;
    const int32_t half = 1 << (shift - 1);
    for (int at = 0; at < columns; at++) {
        int32_t first = plus(from[at] * (2 << IDCT_BITS), half);
        int32_t even = weighed(r2[at], F_1_847, r6[at], -F_0_765);
        int32_t sum = plus(first, even), difference = minus(first, even);
        int32_t outer = plus(weighed(r1[at], F_2_562, r3[at], F_0_899), weighed(r5[at], -F_0_601, r7[at], -F_0_509));
        int32_t inner = plus(weighed(r1[at], F_1_061, r3[at], -F_2_172), weighed(r5[at], F_1_451, r7[at], -F_0_211));
        to[at] = saturated(plus(sum, outer) >> shift);
        to[columns + at] = saturated(plus(difference, inner) >> shift);
        to[2 * columns + at] = saturated(minus(difference, inner) >> shift);
        to[3 * columns + at] = saturated(minus(sum, outer) >> shift);
    }
}

/* The first pass where there is but one row. */
INLINE_PLANES void one_row_to_4(const int16_t *row, int16_t *to) {
    for (int place = 0; place < 4 * 8; place++) to[place] = wrapped(row[place % 8] * 4);
}

INLINE_PLANES void idct_block_4(const int16_t *block, const int16_t *table, uint8_t *to, ptrdiff_t stride) {
    int16_t work[BLOCK], between[BLOCK / 2], turned[BLOCK / 2];
    for (int place = 0; place < BLOCK; place++) work[place] = wrapped(block[place] * table[place]);
    if (has_one_row(block, 4))
        one_row_to_4(work, between);
    else
        rows_to_4(work, 8, FIRST_SHIFT + 1, between);
    for (int row = 0; row < 8; row++)
        for (int column = 0; column < 4; column++) turned[4 * row + column] = between[8 * column + row];
    rows_to_4(turned, 4, SECOND_SHIFT + 1, work);
    for (int row = 0; row < 4; row++)
        for (int column = 0; column < 4; column++) to[row * stride + column] = level_of(work[4 * column + row]);
}

/* The level of four by four samples that have nothing but a DC. */
INLINE_PLANES uint8_t dc_level_4(int16_t dc, int16_t quantum) {
    return level_of((wrapped(wrapped(dc * quantum) * 4) + 16) >> 5);
}

/* The odd rows or columns of a block, to two samples. */
INLINE_PLANES int32_t odd_share(int16_t one, int16_t three, int16_t five, int16_t seven) {
    return plus(weighed(one, F_3_624, three, -F_1_272), weighed(five, F_0_850, seven, -F_0_720));
}

/* The two samples of a row. The first column comes as it is, without having been saturated. */
INLINE_PLANES void put_two(const int32_t *columns, uint8_t *to) {
    int32_t first = plus((int32_t)((uint32_t)columns[0] << (IDCT_BITS + 2)), 1 << (SECOND_SHIFT + 1));
    int32_t odd = odd_share(saturated(columns[1]), saturated(columns[3]), saturated(columns[5]), saturated(columns[7]));
    to[0] = level_of(plus(first, odd) >> (SECOND_SHIFT + 2));
    to[1] = level_of(minus(first, odd) >> (SECOND_SHIFT + 2));
}

INLINE_PLANES void idct_block_2(const int16_t *block, const int16_t *table, uint8_t *to, ptrdiff_t stride) {
    int16_t work[BLOCK];
    int32_t upper[8], lower[8];
    for (int place = 0; place < BLOCK; place++) work[place] = wrapped(block[place] * table[place]);
    for (int at = 0; at < 8; at++) {
        int32_t first = plus(work[at] * (4 << IDCT_BITS), 1 << (FIRST_SHIFT + 1));
        int32_t odd = odd_share(work[8 + at], work[24 + at], work[40 + at], work[56 + at]);
        upper[at] = plus(first, odd) >> (FIRST_SHIFT + 2);
        lower[at] = minus(first, odd) >> (FIRST_SHIFT + 2);
    }
    put_two(upper, to);
    put_two(lower, to + stride);
}

/* A block's mean. libjpeg has no vectors here: it does not wrap the product, but the level, at 10 bits. */
INLINE_PLANES uint8_t mean_level(int16_t dc, int16_t quantum) {
    int mean = (dc * quantum + 4) >> 3;
    return level_of(((mean & 1023) ^ 512) - 512);
}

#endif
