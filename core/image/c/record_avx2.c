/* Coefficients to samples to pixels with AVX2: two blocks at a time, one in each half of a register;
 * values of a patch are spread by one `pdep` where that is fast. */
#if defined(__x86_64__)
#include "record_avx2.h"
#include "record_packing.h"

#define PDEP __attribute__((target("avx2,bmi,bmi2,popcnt")))
/* Packing */

/* The numbers with their places behind them, of which one instruction finds the least. */
AVX2 static inline unsigned smallest(const each_way *numbers) {
    const __m128i low = _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7), eight = _mm_set1_epi16(8);
    const __m256i spaced = _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)numbers)), 4);
    const __m128i first = _mm_or_si128(_mm256_castsi256_si128(spaced), low);
    const __m128i second = _mm_or_si128(_mm256_extracti128_si256(spaced, 1), _mm_or_si128(low, eight));
    return (unsigned)_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_min_epu16(first, second))) & 15;
}

AVX2 static uint8_t *pack(tile_maker *maker, uint8_t *to) { return pack_tile(maker, to, smallest); }

/* Unpacking */

AVX2 static int unpack(const tile *from, unpacked *to) {
    tile_parts parts;
    memset(to->blocks, 0, (size_t)from->blocks * BLOCK * sizeof(int16_t));
    return open_tile(from, list_patches(from, to), to, &parts) && take_values(&parts, to);
}

#define EACH_BYTE 0x0101010101010101ull
#define EACH_WORD 0x0001000100010001ull
/* Of each patch, a byte each: where it begins, and its number. */
#define STARTS 0x3430242014100400ull
#define NUMBERS 0x0706050403020100ull

/* The bits of each value of a patch: in a byte each where none has more than 8 and one load has them
 * all, else 0; and in 16 bits each. */
#define WIDTH(widths, place) ((widths##u) >> (28 - 4 * (place)) & 15)
#define BITS(widths, place) (((uint64_t)1 << WIDTH(widths, place)) - 1)
#define FITS(widths, place) (WIDTH(widths, place) <= 8)
#define FOUR_FIT(widths, from) \
    (FITS(widths, from) && FITS(widths, from + 1) && FITS(widths, from + 2) && FITS(widths, from + 3))
#define FOUR_SUM(widths, from) \
    (WIDTH(widths, from) + WIDTH(widths, from + 1) + WIDTH(widths, from + 2) + WIDTH(widths, from + 3))
#define FOUR_AT(widths, from, size) \
    (BITS(widths, from) | BITS(widths, from + 1) << (size) | BITS(widths, from + 2) << 2 * (size) | \
     BITS(widths, from + 3) << 3 * (size))
#define IN_BYTES(widths) \
    FOUR_FIT(widths, 0) && FOUR_FIT(widths, 4) && FOUR_SUM(widths, 0) + FOUR_SUM(widths, 4) <= 57 \
        ? FOUR_AT(widths, 0, 8) | FOUR_AT(widths, 4, 8) << 32 \
        : 0
#define IN_WORDS(widths) {FOUR_AT(widths, 0, 16), FOUR_AT(widths, 4, 16)}
static const uint64_t value_bytes[PATCHES * WAYS] = {RECORD_WIDTHS(IN_BYTES)};
static const uint64_t value_words[PATCHES * WAYS][2] = {RECORD_WIDTHS(IN_WORDS)};

/* All bits of each byte whose bit is set in a mask. */
PDEP ALWAYS uint64_t bytes_of(unsigned mask) { return _pdep_u64(mask, EACH_BYTE) * 255; }

/* The same of 16 bits, for four bits of a mask. */
PDEP ALWAYS uint64_t words_of(unsigned mask) { return _pdep_u64(mask, EACH_WORD) * 65535; }

PDEP ALWAYS int list_patches_pdep(const tile *from, unpacked *to) {
    const uint8_t *patches = from->bytes + TILE_HEAD;
    int at = 0;
    for (int block = 0; block < from->blocks; block++) {
        const uint64_t named = bytes_of(patches[block]), numbers = _pext_u64(NUMBERS, named);
        const __m128i starts = _mm_cvtsi64_si128((long long)_pext_u64(STARTS, named));
        const __m128i places = _mm_add_epi16(_mm_cvtepu8_epi16(starts), _mm_set1_epi16((short)(block * BLOCK)));
        _mm_storeu_si128((__m128i *)(void *)(to->places + at), places);
        memcpy(to->patches + at, &numbers, sizeof numbers);
        at += _mm_popcnt_u32(patches[block]);
    }
    return at;
}

/* Eight values of at most 8 bits, and one more where there is a value. */
PDEP ALWAYS __m128i narrow_codes(const uint8_t *values, size_t *at, uint64_t bytes, uint64_t widths) {
    const uint64_t bits = bytes & widths, spread = _pdep_u64(bits_at(values, *at), bits);
    const __m128i ones = _mm_cvtepi8_epi16(_mm_cvtsi64_si128((long long)bytes));
    *at += (size_t)_mm_popcnt_u64(bits);
    return _mm_sub_epi16(_mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)spread)), ones);
}

PDEP ALWAYS uint64_t four_codes(const uint8_t *values, size_t *at, uint64_t words, uint64_t widths) {
    const uint64_t bits = words & widths, spread = _pdep_u64(bits_at(values, *at), bits);
    *at += (size_t)_mm_popcnt_u64(bits);
    return spread + (words & EACH_WORD);
}

PDEP ALWAYS __m128i wide_codes(const uint8_t *values, size_t *at, unsigned mask, const uint64_t widths[2]) {
    const uint64_t low = four_codes(values, at, words_of(mask & 15), widths[0]);
    const uint64_t high = four_codes(values, at, words_of(mask >> 4), widths[1]);
    return _mm_set_epi64x((long long)high, (long long)low);
}

PDEP ALWAYS __m128i unfolded_codes(__m128i codes) {
    const __m128i sign = _mm_sub_epi16(_mm_setzero_si128(), _mm_and_si128(codes, _mm_set1_epi16(1)));
    return _mm_xor_si128(_mm_srli_epi16(codes, 1), sign);
}

/* `largest` is of the codes that may be out of range. */
PDEP ALWAYS void spread_patch(const tile_parts *parts, unpacked *to, int patch, unsigned way, size_t *at,
                              __m128i *largest) {
    int16_t *block = to->blocks + to->places[patch];
    const unsigned mask = parts->masks[patch], entry = (unsigned)to->patches[patch] * WAYS + way;
    __m128i codes;
    if (__builtin_expect(value_bytes[entry] != 0, 1)) {
        codes = narrow_codes(parts->values, at, bytes_of(mask), value_bytes[entry]);
    } else {
        codes = wide_codes(parts->values, at, mask, value_words[entry]);
        *largest = _mm_max_epi16(*largest, codes);
    }
    const __m128i before = _mm_loadl_epi64((const __m128i *)(void *)block); /* the DC, if any */
    const __m128i made = _mm_or_si128(unfolded_codes(codes), before);
    _mm_storel_epi64((__m128i *)(void *)block, made);
    _mm_storeh_pd((double *)(void *)(block + 8), _mm_castsi128_pd(made));
}

/* All values of a tile that lies far enough from the record's end to read on without looking. */
PDEP ALWAYS int spread_values(const tile_parts *parts, unpacked *to) {
    size_t at = 0;
    int patch = 0;
    __m128i largest = _mm_setzero_si128();
    for (; patch + 2 <= parts->named; patch += 2) {
        const unsigned ways = parts->ways[patch / 2];
        spread_patch(parts, to, patch, ways & 15, &at, &largest);
        spread_patch(parts, to, patch + 1, ways >> 4, &at, &largest);
    }
    if (patch < parts->named) spread_patch(parts, to, patch, way_of(parts, patch), &at, &largest);
    const __m128i beyond = _mm_cmpgt_epi16(largest, _mm_set1_epi16(2 * MOST_VALUE));
    return (at + 7) / 8 == parts->value_bytes && !_mm_movemask_epi8(beyond);
}

PDEP static int unpack_pdep(const tile *from, unpacked *to) {
    tile_parts parts;
    memset(to->blocks, 0, (size_t)from->blocks * BLOCK * sizeof(int16_t));
    if (!open_tile(from, list_patches_pdep(from, to), to, &parts)) return 0;
    const size_t most = (size_t)parts.named * PATCHES * 2 + 8; /* eight values of 15 bits, and a load */
    return most <= parts.room ? spread_values(&parts, to) : take_values(&parts, to);
}

/* The inverse DCT */

/* One pass over eight rows; the columns are transformed side by side. The rounding is added once. */
AVX2 ALWAYS void idct_pass(__m256i rows[8], int shift) {
    const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
    const wide halves = {half, half};
    __m256i sums = _mm256_add_epi16(rows[0], rows[4]), differences = _mm256_sub_epi16(rows[0], rows[4]);
    wide sum = add(shifted(sums, IDCT_BITS), halves);
    wide difference = add(shifted(differences, IDCT_BITS), halves);
    wide two_six = zipped(rows[2], rows[6]);
    wide low = times(two_six, pair(F_0_541, F_0_541 - F_1_847));
    wide high = times(two_six, pair(F_0_541 + F_0_765, F_0_541));
    wide even[4] = {add(sum, high), add(difference, low), subtract(difference, low), subtract(sum, high)};
    wide z = zipped(_mm256_add_epi16(rows[7], rows[3]), _mm256_add_epi16(rows[5], rows[1]));
    wide third = times(z, pair(F_1_175 - F_1_961, F_1_175));
    wide fourth = times(z, pair(F_1_175, F_1_175 - F_0_390));
    wide seven_one = zipped(rows[7], rows[1]), five_three = zipped(rows[5], rows[3]);
    wide odd[4] = {
        add(times(seven_one, pair(-F_0_899, F_1_501 - F_0_899)), fourth),
        add(times(five_three, pair(-F_2_562, F_3_072 - F_2_562)), third),
        add(times(five_three, pair(F_2_053 - F_2_562, -F_2_562)), fourth),
        add(times(seven_one, pair(F_0_298 - F_0_899, -F_0_899)), third),
    };
    for (int place = 0; place < 4; place++) {
        rows[place] = narrowed(add(even[place], odd[place]), shift);
        rows[7 - place] = narrowed(subtract(even[place], odd[place]), shift);
    }
}

/* The same where the last four rows are zero. */
AVX2 ALWAYS void idct_upper_pass(__m256i rows[8], int shift) {
    const __m256i half = _mm256_set1_epi32(1 << (shift - 1)), zero = _mm256_setzero_si256();
    wide sum = add(shifted(rows[0], IDCT_BITS), (wide){half, half});
    wide two = zipped(rows[2], zero), three_one = zipped(rows[3], rows[1]);
    wide low = times(two, pair(F_0_541, 0)), high = times(two, pair(F_0_541 + F_0_765, 0));
    wide even[4] = {add(sum, high), add(sum, low), subtract(sum, low), subtract(sum, high)};
    wide odd[4] = {
        times(three_one, pair(F_1_175, F_1_175 - F_0_390 + F_1_501 - F_0_899)),
        times(three_one, pair(F_1_175 - F_1_961 + F_3_072 - F_2_562, F_1_175)),
        times(three_one, pair(F_1_175 - F_2_562, F_1_175 - F_0_390)),
        times(three_one, pair(F_1_175 - F_1_961, F_1_175 - F_0_899)),
    };
    for (int place = 0; place < 4; place++) {
        rows[place] = narrowed(add(even[place], odd[place]), shift);
        rows[7 - place] = narrowed(subtract(even[place], odd[place]), shift);
    }
}

/* Columns of levels, as eight rows of 16 bytes. */
AVX2 ALWAYS void put_columns(const __m256i columns[8], uint8_t *to, ptrdiff_t stride) {
    const __m256i shift = _mm256_set1_epi8((char)-128);
    __m256i even = _mm256_packs_epi16(columns[0], columns[2]), odd = _mm256_packs_epi16(columns[1], columns[3]);
    __m256i later_even = _mm256_packs_epi16(columns[4], columns[6]);
    __m256i later_odd = _mm256_packs_epi16(columns[5], columns[7]);
    __m256i a = _mm256_unpacklo_epi8(even, odd), b = _mm256_unpackhi_epi8(even, odd);
    __m256i c = _mm256_unpacklo_epi8(later_even, later_odd), d = _mm256_unpackhi_epi8(later_even, later_odd);
    __m256i left[2] = {_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)};
    __m256i right[2] = {_mm256_unpacklo_epi16(c, d), _mm256_unpackhi_epi16(c, d)};
    for (int at = 0; at < 4; at++) {
        __m256i rows = at % 2 ? _mm256_unpackhi_epi32(left[at / 2], right[at / 2])
                              : _mm256_unpacklo_epi32(left[at / 2], right[at / 2]);
        rows = _mm256_xor_si256(_mm256_permute4x64_epi64(rows, 0xD8), shift);
        _mm_storeu_si128((__m128i *)(void *)(to + 2 * at * stride), _mm256_castsi256_si128(rows));
        _mm_storeu_si128((__m128i *)(void *)(to + (2 * at + 1) * stride), _mm256_extracti128_si256(rows, 1));
    }
}

/* All bits of a half whose block has nothing below its first row. */
AVX2 ALWAYS __m256i without_rows(const int16_t *a, const int16_t *b, const uint8_t of[2]) {
    const __m128i second_a = _mm_load_si128((const __m128i *)(const void *)(a + 8));
    const __m128i second_b = _mm_load_si128((const __m128i *)(const void *)(b + 8));
    const long long one = -(long long)(!(of[0] & BELOW_PATCHES) && _mm_testz_si128(second_a, second_a));
    const long long other = -(long long)(!(of[1] & BELOW_PATCHES) && _mm_testz_si128(second_b, second_b));
    return _mm256_set_epi64x(other, other, one, one);
}

/* The first pass over blocks that have but one row: there libjpeg-turbo wraps instead of saturating. */
AVX2 ALWAYS void mend_one_row(__m256i first, __m256i where, __m256i rows[8]) {
    const __m256i shown = _mm256_slli_epi16(first, IDCT_BITS - FIRST_SHIFT);
    for (int row = 0; row < 8; row++) rows[row] = _mm256_blendv_epi8(rows[row], shown, where);
}

AVX2 ALWAYS void idct_two(const int16_t *a, const int16_t *b, const uint8_t of[2], const int16_t *table,
                          uint8_t *to, ptrdiff_t stride) {
    const unsigned patches = of[0] | of[1];
    const __m256i first = dequantised(a, b, table, 0);
    __m256i rows[8];
    if (patches & LOWER_PATCHES) {
        for (int row = 0; row < 8; row++) rows[row] = dequantised(a, b, table, row);
        idct_pass(rows, FIRST_SHIFT);
    } else {
        for (int row = 0; row < 4; row++) rows[row] = dequantised(a, b, table, row);
        idct_upper_pass(rows, FIRST_SHIFT);
    }
    if (!(of[0] & BELOW_PATCHES) || !(of[1] & BELOW_PATCHES)) mend_one_row(first, without_rows(a, b, of), rows);
    transpose(rows);
    if (patches & RIGHT_PATCHES)
        idct_pass(rows, SECOND_SHIFT);
    else
        idct_upper_pass(rows, SECOND_SHIFT);
    put_columns(rows, to, stride);
}

AVX2 ALWAYS void flat_two(uint8_t a, uint8_t b, uint8_t *to, ptrdiff_t stride) {
    __m128i levels = _mm_unpacklo_epi64(_mm_set1_epi8((char)a), _mm_set1_epi8((char)b));
    for (int row = 0; row < 8; row++) _mm_storeu_si128((__m128i *)(void *)(to + row * stride), levels);
}

AVX2 static void idct(const int16_t *blocks, const uint8_t *patches, int count, const int16_t *table,
                      uint8_t *to, ptrdiff_t stride) {
    for (int block = 0; block < count; block += 2, to += 16) {
        const int16_t *a = blocks + block * BLOCK, *b = block + 1 < count ? a + BLOCK : a;
        const uint8_t of[2] = {patches[block], patches[b == a ? block : block + 1]};
        if (of[0] | of[1])
            idct_two(a, b, of, table, to, stride);
        else
            flat_two(dc_level(a[0], table[0]), dc_level(b[0], table[0]), to, stride);
    }
}

/* Planes to pixels */

AVX2 ALWAYS __m256i words_at(const uint8_t *bytes) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)bytes));
}

AVX2 ALWAYS __m256i thrice(__m256i words) { return _mm256_add_epi16(words, _mm256_add_epi16(words, words)); }

/* The bytes of two rows of 16 bits, in turn. */
AVX2 ALWAYS void put_in_turn(__m256i even, __m256i odd, uint8_t *to) {
    __m256i both = _mm256_or_si256(even, _mm256_slli_epi16(odd, 8));
    _mm256_storeu_si256((__m256i *)(void *)to, both);
}

AVX2 static void wider(const uint8_t *row, int samples, uint8_t *to) {
    const __m256i one = _mm256_set1_epi16(1), two = _mm256_set1_epi16(2);
    for (int at = 0; at < samples; at += 16) {
        __m256i here = thrice(words_at(row + at));
        __m256i even = _mm256_add_epi16(_mm256_add_epi16(here, words_at(row + at - 1)), one);
        __m256i odd = _mm256_add_epi16(_mm256_add_epi16(here, words_at(row + at + 1)), two);
        put_in_turn(_mm256_srli_epi16(even, 2), _mm256_srli_epi16(odd, 2), to + 2 * at);
    }
}

AVX2 ALWAYS __m256i sums_at(const uint8_t *near, const uint8_t *far, int at) {
    return _mm256_add_epi16(thrice(words_at(near + at)), words_at(far + at));
}

AVX2 static void wider_between(const uint8_t *near, const uint8_t *far, int samples, uint8_t *to) {
    const __m256i eight = _mm256_set1_epi16(8), seven = _mm256_set1_epi16(7);
    for (int at = 0; at < samples; at += 16) {
        __m256i here = thrice(sums_at(near, far, at));
        __m256i even = _mm256_add_epi16(_mm256_add_epi16(here, sums_at(near, far, at - 1)), eight);
        __m256i odd = _mm256_add_epi16(_mm256_add_epi16(here, sums_at(near, far, at + 1)), seven);
        put_in_turn(_mm256_srli_epi16(even, 4), _mm256_srli_epi16(odd, 4), to + 2 * at);
    }
}

AVX2 static void between(const uint8_t *near, const uint8_t *far, int samples, int bias, uint8_t *to) {
    fill_between(near, far, samples, bias, to);
}

AVX2 ALWAYS __m256i centred(const uint8_t *levels) {
    return _mm256_sub_epi16(words_at(levels), _mm256_set1_epi16(128));
}

/* (value * weight + 2^15) >> 16, by way of the doubled product. */
AVX2 ALWAYS __m256i share(__m256i values, int weight) {
    __m256i twice = _mm256_mulhi_epi16(_mm256_add_epi16(values, values), _mm256_set1_epi16((short)weight));
    return _mm256_srai_epi16(_mm256_add_epi16(twice, _mm256_set1_epi16(1)), 1);
}

AVX2 ALWAYS __m256i green_share(__m256i cb, __m256i cr) {
    const __m256i half = _mm256_set1_epi32(1 << 15);
    wide sums = add(times(zipped(cb, cr), pair(CB_GREEN, CR_GREEN)), (wide){half, half});
    return narrowed(sums, 16);
}

/* Sixteen pixels of red, green, blue and zero. */
AVX2 ALWAYS void put_pixels(__m256i red, __m256i green, __m256i blue, uint8_t *row) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i first = _mm256_packus_epi16(red, green), last = _mm256_packus_epi16(blue, zero);
    __m256i red_green = _mm256_unpacklo_epi8(first, _mm256_srli_si256(first, 8));
    __m256i blue_zero = _mm256_unpacklo_epi8(last, zero);
    __m256i low = _mm256_unpacklo_epi16(red_green, blue_zero), high = _mm256_unpackhi_epi16(red_green, blue_zero);
    _mm256_storeu_si256((__m256i *)(void *)row, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256((__m256i *)(void *)(row + 32), _mm256_permute2x128_si256(low, high, 0x31));
}

AVX2 static void ycc(const uint8_t *const planes[COMPONENTS], int pixels, uint8_t *row) {
    for (int at = 0; at < pixels; at += 16, row += 64) {
        __m256i y = words_at(planes[0] + at), cb = centred(planes[1] + at), cr = centred(planes[2] + at);
        __m256i red = _mm256_add_epi16(_mm256_add_epi16(y, cr), share(cr, CR_RED));
        __m256i green = _mm256_add_epi16(_mm256_sub_epi16(y, cr), green_share(cb, cr));
        __m256i blue = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(cb, cb)), share(cb, CB_BLUE));
        put_pixels(red, green, blue, row);
    }
}

AVX2 static void grey(const uint8_t *levels, int pixels, uint8_t *row) {
    for (int at = 0; at < pixels; at += 16, row += 64) {
        __m256i level = words_at(levels + at);
        put_pixels(level, level, level, row);
    }
}

const record_passes avx2_record_passes = {
    pack, unpack, {record_means, idct_2_avx2, idct_4_avx2, idct}, wider, wider_between, between, ycc, grey,
};
const record_passes pdep_record_passes = {
    pack, unpack_pdep, {record_means, idct_2_avx2, idct_4_avx2, idct}, wider, wider_between, between, ycc, grey,
};
#endif
