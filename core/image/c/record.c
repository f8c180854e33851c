/* Reads what a record says of itself: its fixed part, and where its tiles lie. */
#include "record.h"

#include <string.h>

static uint32_t u32_at(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static uint16_t u16_at(const uint8_t *bytes) { return (uint16_t)(bytes[0] | bytes[1] << 8); }

static int rounded_up(int value, int unit) { return (value + unit - 1) / unit; }

static int is_sound(const uint8_t *fixed) {
    int components = fixed[1], colours = fixed[2], sampling = fixed[3], tables = fixed[16];
    int subsampled = sampling == 0x21 || sampling == 0x12 || sampling == 0x22;
    uint32_t width = u32_at(fixed + 8), height = u32_at(fixed + 12);
    if (fixed[0] != RECORD_FORMAT || fixed[4] < 1 || fixed[4] > MOST_MCUS) return 0;
    if (components != (colours == COLOUR_GREY ? 1 : COMPONENTS) || colours > COLOUR_RGB) return 0;
    if (sampling != 0x11 && !(subsampled && colours == COLOUR_YCC)) return 0;
    if (tables < 1 || tables > COMPONENTS || fixed[17] || fixed[18] || fixed[19]) return 0;
    for (int component = 0; component < COMPONENTS; component++)
        if (fixed[5 + component] >= (component < components ? tables : 1)) return 0;
    return width >= 1 && width <= 65535 && height >= 1 && height <= 65535;
}

static void read_fixed(record *made, const uint8_t *fixed) {
    made->components = fixed[1];
    made->colours = (colour)fixed[2];
    made->across = fixed[3] >> 4;
    made->down = fixed[3] & 15;
    made->tile_mcus = fixed[4];
    made->width = (int)u32_at(fixed + 8);
    made->height = (int)u32_at(fixed + 12);
    made->head_size = u32_at(fixed + 20);
    made->mcus = rounded_up(made->width, 8 * made->across);
    made->mcu_rows = rounded_up(made->height, 8 * made->down);
    made->tiles = rounded_up(made->mcus, made->tile_mcus);
}

/* A JPEG that is made again could not have others. */
static int has_plain_tables(const uint8_t *fixed) {
    int plain = 1;
    for (int place = 0; place < fixed[16] * BLOCK; place++) {
        int number = u16_at(fixed + RECORD_FIXED + 2 * place);
        plain &= number >= 1 && number <= MOST_QUANTUM;
    }
    return plain;
}

static void read_tables(record *made) {
    for (int component = 0; component < made->components; component++) {
        const uint8_t *table = made->bytes + RECORD_FIXED + made->bytes[5 + component] * 2 * BLOCK;
        for (int place = 0; place < BLOCK; place++)
            made->tables[component][place] = (int16_t)u16_at(table + 2 * place);
    }
}

size_t record_index_bytes(const uint8_t *fixed, size_t size) {
    record made;
    if (size < RECORD_FIXED || !is_sound(fixed)) return 0;
    read_fixed(&made, fixed);
    return RECORD_FIXED + (size_t)fixed[16] * 2 * BLOCK + (size_t)made.mcu_rows * (4 + 2 * (size_t)made.tiles);
}

static size_t tile_size(const record *of, int row, int number) {
    return u16_at(of->tile_sizes + 2 * ((size_t)row * (size_t)of->tiles + (size_t)number));
}

static int mcus_of(const record *of, int number) {
    int left = of->mcus - number * of->tile_mcus;
    return left < of->tile_mcus ? left : of->tile_mcus;
}

static status check_lists(const record *of, reason *why) {
    int blocks = of->across * of->down + of->components - 1; /* of an MCU */
    for (int row = 0; row < of->mcu_rows; row++) {
        size_t from, to, sum = 0;
        record_stretch(of, row, row, &from, &to);
        if (from > to) return bad(why, "the tiles of row %d end before they begin", row);
        for (int number = 0; number < of->tiles; number++) {
            size_t size = tile_size(of, row, number);
            if (size < TILE_HEAD + (size_t)(mcus_of(of, number) * blocks))
                return bad(why, "a tile of row %d has fewer bytes than blocks", row);
            sum += size;
        }
        if (from + sum != to) return bad(why, "the tiles of row %d do not add up to the row", row);
    }
    return STATUS_OK;
}

status record_open(record *made, const uint8_t *bytes, size_t size, reason *why) {
    if (size < RECORD_FIXED + RECORD_SLACK || !is_sound(bytes))
        return bad(why, "it does not begin as a record does");
    made->bytes = bytes;
    made->size = size;
    read_fixed(made, bytes);
    size_t rows = (size_t)made->mcu_rows, start = RECORD_FIXED + (size_t)bytes[16] * 2 * BLOCK;
    size_t index = record_index_bytes(bytes, size);
    if (index + made->head_size + RECORD_SLACK > size) return bad(why, "the record is cut short");
    made->row_ends = bytes + start;
    made->tile_sizes = made->row_ends + 4 * rows;
    made->data = bytes + index;
    if (index + u32_at(made->row_ends + 4 * (rows - 1)) + made->head_size + RECORD_SLACK != size)
        return bad(why, "the record is not as long as it says");
    made->head = bytes + size - RECORD_SLACK - made->head_size;
    if (!has_plain_tables(bytes)) return bad(why, "a number of its tables is not one of 1 to %d", MOST_QUANTUM);
    read_tables(made);
    return check_lists(made, why);
}

void record_stretch(const record *of, int first, int last, size_t *from, size_t *to) {
    *from = first ? u32_at(of->row_ends + 4 * (size_t)(first - 1)) : 0;
    *to = u32_at(of->row_ends + 4 * (size_t)last);
}

size_t record_row(const record *of, int row, int first) {
    size_t start, end;
    record_stretch(of, row, row, &start, &end);
    for (int number = 0; number < first; number++) start += tile_size(of, row, number);
    return start;
}

void record_tile(const record *of, int row, int number, size_t start, tile *made) {
    made->bytes = of->data + start;
    made->size = tile_size(of, row, number);
    made->room = (size_t)(of->bytes + of->size - made->bytes);
    made->mcus = mcus_of(of, number);
    made->components = of->components;
    made->blocks = 0;
    for (int component = 0; component < of->components; component++) {
        made->of_component[component] = made->mcus * blocks_across(of, component) * blocks_down(of, component);
        made->blocks += made->of_component[component];
    }
}
