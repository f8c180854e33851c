/* Packs a tile; to be compiled once for each kind of processor. */
#ifndef DDLP_RECORD_PACKING_H
#define DDLP_RECORD_PACKING_H

#include "record_tile.h"

/* Bits one after the other, the lowest first; the memory is large enough. Fewer than 8 are held. */
typedef struct {
    uint8_t *at;
    uint64_t held;
    int bits;
} bit_writer;

/* At most 56 bits. */
INLINE void put_bits(bit_writer *to, uint64_t value, int width) {
    to->held |= value << to->bits;
    to->bits += width;
    memcpy(to->at, &to->held, sizeof to->held);
    to->at += to->bits >> 3;
    to->held >>= to->bits & 0x38;
    to->bits &= 7;
}

INLINE uint8_t *put_end(bit_writer *to) {
    if (to->bits) *to->at++ = (uint8_t)to->held;
    return to->at;
}

INLINE uint32_t folded(int value) { return (uint32_t)value << 1 ^ (uint32_t)(value >> 31); }

/* The widths of each place in all ways, side by side. */
#define AT_0(widths) ((widths) >> 28 & 15)
#define AT_1(widths) ((widths) >> 24 & 15)
#define AT_2(widths) ((widths) >> 20 & 15)
#define AT_3(widths) ((widths) >> 16 & 15)
#define AT_4(widths) ((widths) >> 12 & 15)
#define AT_5(widths) ((widths) >> 8 & 15)
#define AT_6(widths) ((widths) >> 4 & 15)
#define AT_7(widths) ((widths) & 15)
static const uint8_t widths_at[8][PATCHES * WAYS] = {
    {RECORD_WIDTHS(AT_0)}, {RECORD_WIDTHS(AT_1)}, {RECORD_WIDTHS(AT_2)}, {RECORD_WIDTHS(AT_3)},
    {RECORD_WIDTHS(AT_4)}, {RECORD_WIDTHS(AT_5)}, {RECORD_WIDTHS(AT_6)}, {RECORD_WIDTHS(AT_7)},
};

/* Numbers side by side; a compiler has vectors for these on every processor. */
typedef uint8_t each_way __attribute__((vector_size(WAYS)));
typedef int16_t each_place __attribute__((vector_size(16)));

/* The values of a patch. */
typedef struct {
    each_place codes;   /* folded, less one; 0 where there is none */
    each_place present; /* all bits where there is one */
} patch_values;

/* The bits of all of them together. */
INLINE unsigned together(each_place numbers) {
    uint64_t halves[2];
    memcpy(halves, &numbers, sizeof halves);
    uint64_t all = halves[0] | halves[1];
    all |= all >> 32;
    return (unsigned)((all | all >> 16) & 0xFFFF);
}

INLINE patch_values values_of(const int16_t *block, int patch, each_place *too_large) {
    const int16_t *first = block + patch_start(patch);
    each_place found;
    memcpy(&found, first, 8);
    memcpy((uint8_t *)&found + 8, first + 8, 8);
    if (!patch) found[0] = 0; /* the DC goes elsewhere */
    *too_large |= (found > MOST_VALUE) | (found < -MOST_VALUE);
    const each_place present = found != 0;
    return (patch_values){(((found << 1) ^ (found >> 15)) - 1) & present, present};
}

/* How many bits each code needs: one, and one more for each power of two that it reaches. */
INLINE each_place bits_needed(const patch_values *values) {
    each_place needed = -values->present;
    for (int16_t power = 2; power <= 1024; power = (int16_t)(2 * power)) needed -= values->codes >= power;
    return needed;
}

/* The place of the smallest of some numbers, the first of several. */
typedef unsigned find_smallest(const each_way *numbers);

/* The way that takes the fewest bits for the values that there are; the first of several. Sums stay
 * below 128, so the top bit says that a way is too narrow. */
INLINE unsigned best_way(int patch, const patch_values *values, find_smallest *smallest) {
    const each_place needed = bits_needed(values);
    each_way sums = {0}, narrow = {0}, widths;
    for (int place = 0; place < 8; place++) { /* all of them: no branch that nobody can foresee */
        memcpy(&widths, widths_at[place] + patch * WAYS, sizeof widths);
        sums += widths & (uint8_t)values->present[place];
        narrow |= widths - (uint8_t)needed[place];
    }
    sums |= narrow & 128;
    return smallest(&sums);
}

/* The codes that are there, one after the other. */
INLINE void put_codes(bit_writer *to, const patch_values *values, uint32_t widths) {
    uint16_t codes[8], present[8];
    uint64_t words[2] = {0, 0}; /* four codes have at most 44 bits */
    int bits[2] = {0, 0};
    memcpy(codes, &values->codes, sizeof codes);
    memcpy(present, &values->present, sizeof present);
    for (int place = 0; place < 8; place++) {
        words[place / 4] |= (uint64_t)codes[place] << bits[place / 4];
        bits[place / 4] += width_at(widths, place) & present[place];
    }
    put_bits(to, words[0], bits[0]);
    put_bits(to, words[1], bits[1]);
}

/* Which patches of a block hold something beside the DC. */
INLINE unsigned patches_of(const int16_t *block) {
    uint64_t halves[16]; /* of the rows */
    memcpy(halves, block, sizeof halves);
    halves[0] &= ~(uint64_t)0xFFFF;
    unsigned patches = 0;
    for (int patch = 0; patch < PATCHES; patch++) {
        const int upper = 4 * (patch >> 1) + (patch & 1);
        patches |= (unsigned)((halves[upper] | halves[upper + 2]) != 0) << patch;
    }
    return patches;
}

/* The values of a block, its masks and ways to where `named` has come; gives its patches. */
INLINE unsigned pack_block(tile_maker *maker, const int16_t *block, bit_writer *values, int *named,
                           each_place *too_large, find_smallest *smallest) {
    const each_place bits = {1, 2, 4, 8, 16, 32, 64, 128};
    const unsigned patches = patches_of(block);
    for (unsigned left = patches; left; left &= left - 1) {
        const int patch = __builtin_ctz(left);
        const patch_values found = values_of(block, patch, too_large);
        const unsigned way = together(found.codes & ~1) ? best_way(patch, &found, smallest) : 0;
        put_codes(values, &found, record_widths[(unsigned)patch * WAYS + way]);
        maker->masks[*named] = (uint8_t)together(found.present & bits);
        maker->ways[(*named)++] = (uint8_t)way;
    }
    return patches;
}

/* The DCs of one component; 0 where one is too large. */
INLINE int pack_dcs(const int16_t *const *blocks, int count, bit_writer *to, int *width) {
    uint32_t all = 0;
    for (int at = 0; at < count; at++) {
        if (blocks[at][0] < -DC_RANGE || blocks[at][0] >= DC_RANGE) return 0;
        if (at) all |= folded(blocks[at][0] - blocks[at - 1][0]);
    }
    *width = all ? 32 - __builtin_clz(all) : 0;
    put_bits(to, (uint32_t)blocks[0][0] & 0xFFF, DC_BITS);
    for (int at = 1; at < count; at++) put_bits(to, folded(blocks[at][0] - blocks[at - 1][0]), *width);
    return 1;
}

/* Writes a tile; NULL where it cannot be packed. */
INLINE uint8_t *pack_tile(tile_maker *maker, uint8_t *to, find_smallest *smallest) {
    each_place too_large = {0};
    bit_writer values = {maker->values, 0, 0}, dcs = {maker->dcs, 0, 0};
    int named = 0, first = 0, widths[COMPONENTS] = {0};
    for (int component = 0; component < maker->components; component++) {
        if (!pack_dcs(maker->blocks + first, maker->of_component[component], &dcs, &widths[component])) return NULL;
        first += maker->of_component[component];
    }
    *to++ = (uint8_t)(widths[0] | widths[1] << 4);
    *to++ = (uint8_t)widths[2];
    for (int block = 0; block < maker->count; block++)
        *to++ = (uint8_t)pack_block(maker, maker->blocks[block], &values, &named, &too_large, smallest);
    if (together(too_large)) return NULL;
    memcpy(to, maker->masks, (size_t)named);
    to += named;
    for (int at = 0; at < named; at += 2)
        *to++ = (uint8_t)(maker->ways[at] | (at + 1 < named ? maker->ways[at + 1] << 4 : 0));
    const size_t dc_size = (size_t)(put_end(&dcs) - maker->dcs);
    const size_t value_size = (size_t)(put_end(&values) - maker->values);
    memcpy(to, maker->dcs, dc_size);
    memcpy(to + dc_size, maker->values, value_size);
    return to + dc_size + value_size;
}

#endif
