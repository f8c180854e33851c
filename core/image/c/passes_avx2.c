/* The two passes with AVX2: the same sums in the same whole numbers, 32 bytes at a time. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "pixels.h"
#include "kernel.h"
#include "record.h"

#define AVX2 __attribute__((target("avx2")))

static inline int32_t pair_of(const int16_t *weights, int tap, int taps) {
    uint32_t second = tap + 1 < taps ? (uint16_t)weights[tap + 1] : 0;
    return (int32_t)((uint16_t)weights[tap] | second << 16);
}

/* Two rows at once: their bytes become pairs of 16 bits, which one instruction weighs and adds. */
AVX2 static inline void add_rows(__m256i sums[4], const uint8_t *a, const uint8_t *b, __m256i pair) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i first = _mm256_loadu_si256((const __m256i *)a);
    __m256i second = _mm256_loadu_si256((const __m256i *)b);
    __m256i low = _mm256_unpacklo_epi8(first, second), high = _mm256_unpackhi_epi8(first, second);
    __m256i parts[4] = {_mm256_unpacklo_epi8(low, zero), _mm256_unpackhi_epi8(low, zero),
                        _mm256_unpacklo_epi8(high, zero), _mm256_unpackhi_epi8(high, zero)};
    for (int part = 0; part < 4; part++)
        sums[part] = _mm256_add_epi32(sums[part], _mm256_madd_epi16(parts[part], pair));
}

AVX2 static inline void keep(const __m256i sums[4], int16_t *between) {
    const int shift = WEIGHT_BITS - KEPT_BITS;
    __m256i shifted[4];
    for (int part = 0; part < 4; part++) shifted[part] = _mm256_srai_epi32(sums[part], shift);
    __m256i low = _mm256_packs_epi32(shifted[0], shifted[1]);
    __m256i high = _mm256_packs_epi32(shifted[2], shifted[3]);
    _mm256_storeu_si256((__m256i *)between, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256((__m256i *)(between + 16), _mm256_permute2x128_si256(low, high, 0x31));
}

AVX2 static inline __attribute__((always_inline)) void down_taps(
    const uint8_t *const *rows, const int16_t *weights, int taps, size_t bytes, int16_t *between) {
    const __m256i half = _mm256_set1_epi32(1 << (WEIGHT_BITS - KEPT_BITS - 1));
    for (size_t at = 0; at < bytes; at += 32) {
        __m256i sums[4] = {half, half, half, half};
        for (int tap = 0; tap < taps; tap += 2) {
            const uint8_t *other = rows[tap + 1 < taps ? tap + 1 : tap];
            add_rows(sums, rows[tap] + at, other + at,
                     _mm256_set1_epi32(pair_of(weights, tap, taps)));
        }
        keep(sums, between + at);
    }
}

AVX2 static void down(const uint8_t *const *rows, const int16_t *weights, int taps, size_t bytes,
                      int16_t *between) {
    switch (taps) { /* the usual numbers, unrolled */
    case 1: down_taps(rows, weights, 1, bytes, between); break;
    case 2: down_taps(rows, weights, 2, bytes, between); break;
    case 3: down_taps(rows, weights, 3, bytes, between); break;
    case 4: down_taps(rows, weights, 4, bytes, between); break;
    default: down_taps(rows, weights, taps, bytes, between);
    }
}

/* Four taps of one output pixel: neighbours' channels side by side, weighed and added in pairs. */
AVX2 static inline __m256i add_group(__m256i sums, const int16_t *from, const int16_t *packed) {
    const __m256i zip = _mm256_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15, 0, 1,
                                         8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    __m256i pixels = _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)from), zip);
    return _mm256_add_epi32(
        sums, _mm256_madd_epi16(pixels, _mm256_loadu_si256((const __m256i *)packed)));
}

/* Adds the halves of four pixels' sums, rounds, and gives their 12 bytes (and 4 more). */
AVX2 static inline __m128i levels_of(const __m256i sums[4]) {
    const __m256i half = _mm256_set1_epi32(1 << (WEIGHT_BITS + KEPT_BITS - 1));
    const __m128i without_fourth = _mm_setr_epi8(0, 1, 2, 8, 9, 10, 4, 5, 6, 12, 13, 14, -1, -1, -1, -1);
    __m256i two[2];
    for (int side = 0; side < 2; side++) {
        __m256i a = sums[2 * side], b = sums[2 * side + 1];
        __m256i whole = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                         _mm256_permute2x128_si256(a, b, 0x31));
        two[side] = _mm256_srai_epi32(_mm256_add_epi32(whole, half), WEIGHT_BITS + KEPT_BITS);
    }
    __m256i words = _mm256_packs_epi32(two[0], two[1]);
    __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    return _mm_shuffle_epi8(bytes, without_fourth);
}

AVX2 static inline __attribute__((always_inline)) void across_groups(
    const int16_t *between, const int *places, const int16_t *packed, int groups, int size,
    uint8_t *shown) {
    for (int place = 0; place < size; place += 4) {
        __m256i sums[4];
        for (int lane = 0; lane < 4; lane++) {
            const int16_t *from = between + places[place + lane];
            sums[lane] = _mm256_setzero_si256();
            for (int group = 0; group < groups; group++)
                sums[lane] = add_group(sums[lane], from + 16 * group, packed + 16 * group);
            packed += 16 * groups;
        }
        _mm_storeu_si128((__m128i *)(shown + 3 * (size_t)place), levels_of(sums));
    }
}

AVX2 static void across(const int16_t *between, const int *places, const int16_t *packed,
                        int groups, int size, uint8_t *shown) {
    switch (groups) {
    case 1: across_groups(between, places, packed, 1, size, shown); break;
    case 2: across_groups(between, places, packed, 2, size, shown); break;
    default: across_groups(between, places, packed, groups, size, shown);
    }
}

AVX2 static void floats(const uint8_t *shown, const float *levels, int values, float *to) {
    levels_to_floats(shown, levels, values, to);
}

/* Five pixels a step, 15 of the 16 bytes that a register holds. */
AVX2 static void mirror(const uint8_t *row, int pixels, uint8_t *to) {
    const __m128i turn = _mm_setr_epi8(12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2, -1);
    for (; pixels >= 5; pixels -= 5, to += 5 * CHANNELS) {
        const uint8_t *last = row + CHANNELS * (pixels - 5);
        __m128i five = _mm_loadu_si128((const __m128i *)last);
        _mm_storeu_si128((__m128i *)to, _mm_shuffle_epi8(five, turn));
    }
    mirror_pixels(row, pixels, to);
}

const passes avx2_passes = {"avx2", down, across, floats, mirror, &avx2_record_passes};
const passes pdep_passes = {"avx2-pdep", down, across, floats, mirror, &pdep_record_passes};
#endif
