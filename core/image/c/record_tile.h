/* Unpacks a tile; to be compiled once for each kind of processor. */
#ifndef DDLP_RECORD_TILE_H
#define DDLP_RECORD_TILE_H

#include <string.h>

#include "record.h"
#include "record_widths.h"

#define INLINE static inline __attribute__((always_inline))

enum { DC_BITS = 12 };

/* What an 8-bit JPEG's coefficients can be: a record has no other, and a packer writes none. */
enum { DC_RANGE = 1024, MOST_VALUE = 1023 };

/* The parts of a tile. */
typedef struct {
    const uint8_t *patches, *masks, *ways, *values;
    int named;          /* patches that hold something */
    size_t value_bytes; /* up to the tile's end */
    size_t room;        /* from the first value to the end of the record */
} tile_parts;

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are read as they lie");

/* Bits from `at` on, as the lowest ones; at least 57 of them are there. */
INLINE uint64_t bits_at(const uint8_t *bytes, size_t at) {
    uint64_t loaded;
    memcpy(&loaded, bytes + (at >> 3), sizeof loaded);
    return loaded >> (at & 7);
}

INLINE int unfolded(uint32_t value) { return (int)(value >> 1) ^ -(int)(value & 1); }

INLINE int patch_start(int patch) { return (patch >> 1) * 16 + (patch & 1) * 4; }

INLINE size_t dc_bytes(const tile *from, const int widths[COMPONENTS]) {
    size_t bits = 0;
    for (int component = 0; component < from->components; component++)
        bits += DC_BITS + (size_t)(from->of_component[component] - 1) * (size_t)widths[component];
    return (bits + 7) / 8;
}

/* 0 where one is out of range. */
INLINE int unpack_dc(const tile *from, const uint8_t *bytes, const int widths[COMPONENTS],
                     int16_t *block) {
    size_t at = 0;
    uint32_t beyond = 0;
    for (int component = 0; component < from->components; component++) {
        const uint32_t mask = (1u << widths[component]) - 1;
        uint32_t dc = (uint32_t)bits_at(bytes, at) & 0xFFF;
        dc |= 0u - (dc & 0x800);
        at += DC_BITS;
        for (int left = from->of_component[component];; block += BLOCK) {
            block[0] = (int16_t)dc;
            beyond |= (dc + DC_RANGE) & ~(2 * DC_RANGE - 1u);
            if (!--left) break;
            dc += (uint32_t)unfolded((uint32_t)bits_at(bytes, at) & mask);
            at += (size_t)widths[component];
        }
        block += BLOCK;
    }
    return !beyond;
}

/* Finds the parts of a tile and takes the DCs; 0 where they do not fit into it, where a DC is out of range,
 * or where a patch is named that holds nothing. Its patches were listed, and all blocks are zero. */
INLINE int open_tile(const tile *from, int named, unpacked *to, tile_parts *parts) {
    const uint8_t *patches = from->bytes + TILE_HEAD;
    size_t before = TILE_HEAD + (size_t)from->blocks + (size_t)named + ((size_t)named + 1) / 2;
    int widths[COMPONENTS] = {from->bytes[0] & 15, from->bytes[0] >> 4, from->bytes[1] & 15};
    size_t dcs = dc_bytes(from, widths);
    if (before + dcs > from->size) return 0;
    const uint8_t *masks = patches + from->blocks;
    if (!unpack_dc(from, from->bytes + before, widths, to->blocks) || memchr(masks, 0, (size_t)named)) return 0;
    *parts = (tile_parts){patches, masks, masks + named, from->bytes + before + dcs, named,
                          from->size - before - dcs, from->room - before - dcs};
    return 1;
}

#define AS_IT_IS(widths) widths
static const uint32_t record_widths[PATCHES * WAYS] = {RECORD_WIDTHS(AS_IT_IS)};

/* Which of its ways a named patch has. */
INLINE unsigned way_of(const tile_parts *parts, int at) { return parts->ways[at >> 1] >> (at & 1) * 4 & 15; }

INLINE int width_at(uint32_t widths, int place) { return (int)(widths >> (28 - 4 * place) & 15); }

/* The values one by one, none from beyond the tile's end; 0 where they are not as many as fill it, or where
 * one is out of range. */
INLINE int take_values(const tile_parts *parts, unpacked *to) {
    const size_t end = 8 * parts->value_bytes;
    size_t at = 0;
    uint32_t largest = 0;
    for (int patch = 0; patch < parts->named; patch++) {
        const uint32_t widths = record_widths[(unsigned)to->patches[patch] * WAYS + way_of(parts, patch)];
        int16_t *block = to->blocks + to->places[patch];
        for (unsigned left = parts->masks[patch]; left; left &= left - 1) {
            const int place = __builtin_ctz(left), width = width_at(widths, place);
            if (at + (size_t)width > end) return 0;
            const uint32_t code = (uint32_t)bits_at(parts->values, at) & ((1u << width) - 1);
            if (code > largest) largest = code;
            block[(place >> 2) * 8 + (place & 3)] |= (int16_t)unfolded(code + 1);
            at += (size_t)width;
        }
    }
    return (at + 7) / 8 == parts->value_bytes && largest < 2 * MOST_VALUE;
}

/* Lists the named patches of a tile; gives how many there are. */
INLINE int list_patches(const tile *from, unpacked *to) {
    const uint8_t *patches = from->bytes + TILE_HEAD;
    int named = 0;
    for (int block = 0; block < from->blocks; block++)
        for (unsigned left = patches[block]; left; left &= left - 1, named++) {
            const int patch = __builtin_ctz(left);
            to->patches[named] = (uint8_t)patch;
            to->places[named] = (uint16_t)(block * BLOCK + patch_start(patch));
        }
    return named;
}

#endif
