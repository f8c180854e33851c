/* Blocks in the registers of AVX2, one in each half: what all of its inverse DCTs are made of. */
#ifndef DDLP_RECORD_AVX2_H
#define DDLP_RECORD_AVX2_H

#include <immintrin.h>

#include "record_planes.h"

#define AVX2 __attribute__((target("avx2,bmi,popcnt")))
#define ALWAYS static inline __attribute__((always_inline))

AVX2 ALWAYS __m256i pair(int a, int b) {
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)(uint16_t)b << 16));
}

typedef struct {
    __m256i low, high;
} wide;

/* Words as 32 bits each, times a power of two. */
AVX2 ALWAYS wide shifted(__m256i words, int bits) {
    const __m256i zero = _mm256_setzero_si256();
    return (wide){_mm256_srai_epi32(_mm256_unpacklo_epi16(zero, words), 16 - bits),
                  _mm256_srai_epi32(_mm256_unpackhi_epi16(zero, words), 16 - bits)};
}

AVX2 ALWAYS wide zipped(__m256i a, __m256i b) {
    return (wide){_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)};
}

AVX2 ALWAYS wide times(wide pairs, __m256i weights) {
    return (wide){_mm256_madd_epi16(pairs.low, weights), _mm256_madd_epi16(pairs.high, weights)};
}

AVX2 ALWAYS wide add(wide a, wide b) {
    return (wide){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

AVX2 ALWAYS wide subtract(wide a, wide b) {
    return (wide){_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}

AVX2 ALWAYS __m256i narrowed(wide sums, int shift) {
    return _mm256_packs_epi32(_mm256_srai_epi32(sums.low, shift), _mm256_srai_epi32(sums.high, shift));
}

/* Rows and columns change places, in each half by itself. */
AVX2 ALWAYS void transpose(__m256i rows[8]) {
    __m256i a[8], b[8];
    for (int at = 0; at < 4; at++) {
        a[2 * at] = _mm256_unpacklo_epi16(rows[2 * at], rows[2 * at + 1]);
        a[2 * at + 1] = _mm256_unpackhi_epi16(rows[2 * at], rows[2 * at + 1]);
    }
    for (int at = 0; at < 2; at++)
        for (int side = 0; side < 2; side++) {
            b[4 * at + 2 * side] = _mm256_unpacklo_epi32(a[4 * at + side], a[4 * at + 2 + side]);
            b[4 * at + 2 * side + 1] = _mm256_unpackhi_epi32(a[4 * at + side], a[4 * at + 2 + side]);
        }
    for (int at = 0; at < 4; at++) {
        rows[2 * at] = _mm256_unpacklo_epi64(b[at], b[4 + at]);
        rows[2 * at + 1] = _mm256_unpackhi_epi64(b[at], b[4 + at]);
    }
}

AVX2 ALWAYS __m256i dequantised(const int16_t *a, const int16_t *b, const int16_t *table, int row) {
    __m256i both = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_load_si128((const __m128i *)(const void *)(a + 8 * row))),
        _mm_load_si128((const __m128i *)(const void *)(b + 8 * row)), 1);
    __m128i weights = _mm_loadu_si128((const __m128i *)(const void *)(table + 8 * row));
    return _mm256_mullo_epi16(both, _mm256_broadcastsi128_si256(weights));
}

enum { LOWER_PATCHES = 0xF0, RIGHT_PATCHES = 0xAA, BELOW_PATCHES = 0xFC };

/* To blocks of 2 and 4 samples a side. */
inverse_dct idct_2_avx2, idct_4_avx2;

#endif
