/* Resamples a stream of rows: keeps as many rows as one output row needs, the vertical pass first. */
#include <string.h>

#include "kernel.h"

/* Weights as the horizontal pass reads them: four taps a group, each pair of neighbours side by side
 * and repeated for the four bytes of a pixel: w0 w1 w0 w1 w0 w1 w0 w1 w2 w3 w2 w3 w2 w3 w2 w3. */
enum { TAPS_A_GROUP = 4, WEIGHTS_A_GROUP = 16, PLACES_A_STEP = 4 };

static size_t rounded_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

static int groups_of(const filter *across) {
    return (across->longest + TAPS_A_GROUP - 1) / TAPS_A_GROUP;
}

static void pack_place(const filter *across, int from, int groups, int16_t *packed) {
    const int16_t *weights = across->weights + (size_t)from * (size_t)across->longest;
    for (int tap = 0; tap < groups * TAPS_A_GROUP; tap++) {
        int16_t weight = tap < across->longest ? weights[tap] : 0;
        int16_t *pair = packed + tap / TAPS_A_GROUP * WEIGHTS_A_GROUP + tap % TAPS_A_GROUP / 2 * 8;
        for (int channel = 0; channel < 4; channel++) pair[2 * channel + tap % 2] = weight;
    }
}

/* Where each output pixel's taps begin within a row that starts at `column`, and their weights; in
 * reverse for a mirrored slot. Places are filled up to a whole step with ones that weigh nothing. */
static status pack_across(resizer *work, int column, int mirrored) {
    const filter *across = &work->across;
    int groups = groups_of(across);
    size_t places = rounded_up((size_t)across->size, PLACES_A_STEP);
    size_t group_bytes = (size_t)groups * WEIGHTS_A_GROUP * sizeof(int16_t);
    if (buffer_reserve(&work->row_places, places * sizeof(int)) ||
        buffer_reserve(&work->packed, places * group_bytes))
        return STATUS_NO_MEMORY;
    int *begins = work->row_places.bytes;
    int16_t *packed = work->packed.bytes;
    memset(begins, 0, places * sizeof(int));
    memset(packed, 0, places * group_bytes);
    for (int place = 0; place < across->size; place++) {
        int from = mirrored ? across->size - 1 - place : place;
        begins[place] = (across->first[from] - column) * 4;
        pack_place(across, from, groups, packed + (size_t)place * (size_t)groups * WEIGHTS_A_GROUP);
    }
    return STATUS_OK;
}

/* A slot whose pixels run backwards, as one that runs forwards and is filled in reverse. */
static slot forwards(const slot *out, int *mirrored) {
    slot same = *out;
    *mirrored = out->pixel_stride < 0;
    if (*mirrored) {
        same.bytes += (out->width - 1) * out->pixel_stride;
        same.pixel_stride = -out->pixel_stride;
    }
    return same;
}

static status reserve_rows(resizer *work, int columns, size_t *stride) {
    size_t reach = (size_t)columns + (size_t)groups_of(&work->across) * TAPS_A_GROUP;
    *stride = rounded_up((size_t)columns * 4 + ROW_SLACK, ROW_SLACK);
    size_t kept = (size_t)work->down.longest;
    if (buffer_reserve(&work->rows, rounded_up(kept * sizeof(uint8_t *), ROW_SLACK) + BESIDE_ALIGNED + kept * *stride) ||
        buffer_reserve(&work->between, reach * 4 * sizeof(int16_t) + 2 * ROW_SLACK) ||
        buffer_reserve(&work->shown, rounded_up((size_t)work->across.size, PLACES_A_STEP) * 3 + ROW_SLACK))
        return STATUS_NO_MEMORY;
    return STATUS_OK;
}

status resize_rows(resizer *work, row_source *rows, const slot *out) {
    const filter *down = &work->down;
    const passes *use = passes_in_use();
    int mirrored, kept = down->longest, read = down->first[0];
    slot target = forwards(out, &mirrored);
    size_t stride;
    if (reserve_rows(work, rows->columns, &stride) || pack_across(work, rows->column, mirrored))
        return STATUS_NO_MEMORY;
    const uint8_t **taps = work->rows.bytes;
    uint8_t *ring = (uint8_t *)taps + rounded_up((size_t)kept * sizeof *taps, ROW_SLACK) + BESIDE_ALIGNED;
    for (int place = 0; place < down->size; place++) {
        int first = down->first[place], count = down->count[place];
        for (; read < first + count; read++) {
            status got = rows->next(rows, ring + (size_t)(read % kept) * stride);
            if (got) return got;
        }
        for (int tap = 0; tap < count; tap++)
            taps[tap] = ring + (size_t)((first + tap) % kept) * stride;
        use->down(taps, down->weights + (size_t)place * (size_t)kept, count,
                  (size_t)rows->columns * 4, work->between.bytes);
        use->across(work->between.bytes, work->row_places.bytes, work->packed.bytes,
                    groups_of(&work->across), work->across.size, work->shown.bytes);
        put_rows(&target, place, 1, work->shown.bytes);
    }
    return STATUS_OK;
}

void resizer_free(resizer *work) {
    filter_free(&work->across);
    filter_free(&work->down);
    buffer_free(&work->rows);
    buffer_free(&work->row_places);
    buffer_free(&work->between);
    buffer_free(&work->shown);
    buffer_free(&work->packed);
}
