/* Coefficients to samples to pixels in portable C: the same whole numbers as libjpeg-turbo's. */
#include "record_packing.h"
#include "record_planes.h"
#include "record_reduced.h"

static unsigned smallest(const each_way *numbers) {
    uint8_t each[WAYS];
    unsigned found = 0;
    memcpy(each, numbers, sizeof each);
    for (unsigned way = 1; way < WAYS; way++) found = each[way] < each[found] ? way : found;
    return found;
}

static uint8_t *pack(tile_maker *maker, uint8_t *to) { return pack_tile(maker, to, smallest); }

static int unpack(const tile *from, unpacked *to) {
    tile_parts parts;
    memset(to->blocks, 0, (size_t)from->blocks * BLOCK * sizeof(int16_t));
    return open_tile(from, list_patches(from, to), to, &parts) && take_values(&parts, to);
}

void record_means(const int16_t *blocks, const uint8_t *patches, int count, const int16_t *table,
                  uint8_t *to, ptrdiff_t stride) {
    (void)patches, (void)stride;
    for (int block = 0; block < count; block++) to[block] = mean_level(blocks[block * BLOCK], table[0]);
}

static void idct_2(const int16_t *blocks, const uint8_t *patches, int count, const int16_t *table,
                   uint8_t *to, ptrdiff_t stride) {
    (void)patches;
    for (int block = 0; block < count; block++) idct_block_2(blocks + block * BLOCK, table, to + 2 * block, stride);
}

static void idct_4(const int16_t *blocks, const uint8_t *patches, int count, const int16_t *table,
                   uint8_t *to, ptrdiff_t stride) {
    for (int block = 0; block < count; block++, blocks += BLOCK, to += 4) {
        if (patches[block])
            idct_block_4(blocks, table, to, stride);
        else
            flat_block(dc_level_4(blocks[0], table[0]), 4, to, stride);
    }
}

static void idct(const int16_t *blocks, const uint8_t *patches, int count, const int16_t *table,
                 uint8_t *to, ptrdiff_t stride) {
    for (int block = 0; block < count; block++, blocks += BLOCK, to += 8) {
        if (patches[block])
            idct_block(blocks, table, to, stride);
        else
            flat_block(dc_level(blocks[0], table[0]), 8, to, stride);
    }
}

static void wider(const uint8_t *row, int samples, uint8_t *to) { widen(row, samples, to); }

static void wider_between(const uint8_t *near, const uint8_t *far, int samples, uint8_t *to) {
    widen_between(near, far, samples, to);
}

static void between(const uint8_t *near, const uint8_t *far, int samples, int bias, uint8_t *to) {
    fill_between(near, far, samples, bias, to);
}

static void ycc(const uint8_t *const planes[COMPONENTS], int pixels, uint8_t *row) {
    ycc_pixels(planes, pixels, row);
}

static void grey(const uint8_t *levels, int pixels, uint8_t *row) { grey_pixels(levels, pixels, row); }

const record_passes portable_record_passes = {
    pack, unpack, {record_means, idct_2, idct_4, idct}, wider, wider_between, between, ycc, grey,
};
