/* The inverse DCT to blocks of 4, 2 or 1 samples a side with AVX2: four or eight blocks at a time. */
#if defined(__x86_64__)
#include "record_avx2.h"
#include "record_reduced.h"

/* Eight rows to four, the last four of which may be known to be zero. */
AVX2 ALWAYS void pass_to_4(const __m256i rows[8], int lower, int shift, __m256i made[4]) {
    const __m256i half = _mm256_set1_epi32(1 << (shift - 1)), zero = _mm256_setzero_si256();
    wide first = add(shifted(rows[0], IDCT_BITS + 1), (wide){half, half});
    wide even = times(zipped(rows[2], lower ? rows[6] : zero), pair(F_1_847, -F_0_765));
    wide sum = add(first, even), difference = subtract(first, even), one_three = zipped(rows[1], rows[3]);
    wide outer = times(one_three, pair(F_2_562, F_0_899)), inner = times(one_three, pair(F_1_061, -F_2_172));
    if (lower) {
        wide five_seven = zipped(rows[5], rows[7]);
        outer = add(outer, times(five_seven, pair(-F_0_601, -F_0_509)));
        inner = add(inner, times(five_seven, pair(F_1_451, -F_0_211)));
    }
    made[0] = narrowed(add(sum, outer), shift);
    made[1] = narrowed(add(difference, inner), shift);
    made[2] = narrowed(subtract(difference, inner), shift);
    made[3] = narrowed(subtract(sum, outer), shift);
}

/* What the odd rows give to two samples. */
AVX2 ALWAYS wide odd_sums(const __m256i rows[8], int lower) {
    wide odd = times(zipped(rows[1], rows[3]), pair(F_3_624, -F_1_272));
    return lower ? add(odd, times(zipped(rows[5], rows[7]), pair(F_0_850, -F_0_720))) : odd;
}

AVX2 ALWAYS wide descaled(wide sums, int shift) {
    return (wide){_mm256_srai_epi32(sums.low, shift), _mm256_srai_epi32(sums.high, shift)};
}

/* The rows of two blocks that a reduced transform reads. */
AVX2 ALWAYS void load_two(const int16_t *a, const int16_t *b, const int16_t *table, int lower, __m256i rows[8]) {
    for (int row = 0; row < (lower ? 8 : 4); row++) rows[row] = dequantised(a, b, table, row);
}

/* Some blocks, the last one again where there are fewer; gives which patches any of them has. */
AVX2 ALWAYS unsigned choose(const int16_t *blocks, const uint8_t *patches, int left, int count,
                            const int16_t *chosen[]) {
    unsigned found = 0;
    for (int block = 0; block < count; block++) {
        const int number = block < left ? block : left - 1;
        chosen[block] = blocks + number * BLOCK;
        found |= patches[number];
    }
    return found;
}

AVX2 ALWAYS void put_16(uint8_t *to, ptrdiff_t stride, __m256i two_rows) {
    _mm_storeu_si128((__m128i *)(void *)to, _mm256_castsi256_si128(two_rows));
    _mm_storeu_si128((__m128i *)(void *)(to + stride), _mm256_extracti128_si256(two_rows, 1));
}

/* Columns of levels, of the blocks 0 and 1 in one half and 2 and 3 in the other, as four rows. */
AVX2 ALWAYS void put_four(const __m256i columns[4], uint8_t *to, ptrdiff_t stride) {
    const __m256i shift = _mm256_set1_epi8((char)-128);
    __m256i even = _mm256_packs_epi16(columns[0], columns[2]), odd = _mm256_packs_epi16(columns[1], columns[3]);
    __m256i left = _mm256_unpacklo_epi8(even, odd), right = _mm256_unpackhi_epi8(even, odd);
    __m256i first = _mm256_xor_si256(_mm256_unpacklo_epi16(left, right), shift);
    __m256i second = _mm256_xor_si256(_mm256_unpackhi_epi16(left, right), shift);
    put_16(to, stride, _mm256_permute4x64_epi64(_mm256_unpacklo_epi32(first, second), 0xD8));
    put_16(to + 2 * stride, stride, _mm256_permute4x64_epi64(_mm256_unpackhi_epi32(first, second), 0xD8));
}

/* Where four times a number is more than 16 bits can hold. */
AVX2 ALWAYS __m256i too_large(__m256i numbers) {
    __m256i twice = _mm256_adds_epi16(numbers, numbers);
    return _mm256_xor_si256(_mm256_adds_epi16(twice, twice), _mm256_slli_epi16(numbers, 2));
}

AVX2 ALWAYS void idct_four(const int16_t *const of[4], int lower, int right, const int16_t *table,
                           uint8_t *to, ptrdiff_t stride) {
    __m256i rows[8], between[8], columns[4], large = _mm256_setzero_si256();
    for (int two = 0; two < 2; two++) {
        load_two(of[two], of[two + 2], table, lower, rows);
        large = _mm256_or_si256(large, too_large(rows[0]));
        pass_to_4(rows, lower, FIRST_SHIFT + 1, between + 4 * two);
    }
    if (__builtin_expect(!_mm256_testz_si256(large, large), 0)) { /* some of this may wrap: one by one */
        for (int block = 0; block < 4; block++) idct_block_4(of[block], table, to + 4 * block, stride);
        return;
    }
    transpose(between);
    pass_to_4(between, right, SECOND_SHIFT + 1, columns);
    put_four(columns, to, stride);
}

AVX2 ALWAYS void flat_four(const int16_t *const of[4], int16_t quantum, uint8_t *to, ptrdiff_t stride) {
    uint32_t levels[4];
    for (int block = 0; block < 4; block++) levels[block] = dc_level_4(of[block][0], quantum) * 0x01010101u;
    for (int row = 0; row < 4; row++) memcpy(to + row * stride, levels, sizeof levels);
}

AVX2 void idct_4_avx2(const int16_t *blocks, const uint8_t *patches, int count, const int16_t *table,
                      uint8_t *to, ptrdiff_t stride) {
    for (int block = 0; block < count; block += 4, to += 16) {
        const int16_t *of[4];
        const unsigned found = choose(blocks + block * BLOCK, patches + block, count - block, 4, of);
        if (!found)
            flat_four(of, table[0], to, stride);
        else if (found & (LOWER_PATCHES | RIGHT_PATCHES))
            idct_four(of, 1, 1, table, to, stride);
        else
            idct_four(of, 0, 0, table, to, stride);
    }
}

/* Columns of levels, of the blocks 0 to 3 in one half and 4 to 7 in the other, as two rows. */
AVX2 ALWAYS void put_eight(const __m256i columns[2], uint8_t *to, ptrdiff_t stride) {
    const __m256i shift = _mm256_set1_epi8((char)-128);
    const __m128i turned = _mm_setr_epi8(0, 8, 2, 10, 4, 12, 6, 14, 1, 9, 3, 11, 5, 13, 7, 15);
    __m256i levels = _mm256_xor_si256(_mm256_packs_epi16(columns[0], columns[1]), shift);
    levels = _mm256_shuffle_epi8(levels, _mm256_broadcastsi128_si256(turned));
    put_16(to, stride, _mm256_permute4x64_epi64(levels, 0xD8));
}

/* The first column of four pairs of blocks, which is not saturated, from the sums of their rows. */
AVX2 ALWAYS __m256i first_column(const wide sums[4]) {
    return _mm256_unpacklo_epi64(_mm256_unpacklo_epi32(sums[0].low, sums[1].low),
                                 _mm256_unpacklo_epi32(sums[2].low, sums[3].low));
}

AVX2 ALWAYS void idct_eight(const int16_t *const of[8], int lower, int right, const int16_t *table,
                            uint8_t *to, ptrdiff_t stride) {
    const __m256i half = _mm256_set1_epi32(1 << (FIRST_SHIFT + 1));
    const __m256i later_half = _mm256_set1_epi32(1 << (SECOND_SHIFT + 1));
    __m256i rows[8];
    wide sums[8];
    for (int two = 0; two < 4; two++) {
        load_two(of[two], of[two + 4], table, lower, rows);
        wide first = add(shifted(rows[0], IDCT_BITS + 2), (wide){half, half}), odd = odd_sums(rows, lower);
        sums[2 * two] = descaled(add(first, odd), FIRST_SHIFT + 2);
        sums[2 * two + 1] = descaled(subtract(first, odd), FIRST_SHIFT + 2);
    }
    for (int row = 0; row < 8; row++) rows[row] = narrowed(sums[row], 0);
    transpose(rows);
    wide first = {_mm256_slli_epi32(first_column(sums), IDCT_BITS + 2),
                  _mm256_slli_epi32(first_column(sums + 4), IDCT_BITS + 2)};
    wide odd = odd_sums(rows, right);
    first = add(first, (wide){later_half, later_half});
    rows[0] = narrowed(add(first, odd), SECOND_SHIFT + 2);
    rows[1] = narrowed(subtract(first, odd), SECOND_SHIFT + 2);
    put_eight(rows, to, stride);
}

AVX2 void idct_2_avx2(const int16_t *blocks, const uint8_t *patches, int count, const int16_t *table,
                      uint8_t *to, ptrdiff_t stride) {
    for (int block = 0; block < count; block += 8, to += 16) {
        const int16_t *of[8];
        const unsigned found = choose(blocks + block * BLOCK, patches + block, count - block, 8, of);
        if (found & (LOWER_PATCHES | RIGHT_PATCHES))
            idct_eight(of, 1, 1, table, to, stride);
        else
            idct_eight(of, 0, 0, table, to, stride);
    }
}
#endif
