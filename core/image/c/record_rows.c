/* Rows of pixels out of a record: decodes the tiles that a view needs, one MCU row after the other.
 *
 * Each component keeps the samples of two MCU rows. Chroma that is stretched needs a neighbour on each
 * side: beyond the picture's own edge that is the edge's sample again, which is put there.
 */
#include "record.h"

#include "workspace.h"

enum { KEPT_ROWS = 2, MARGIN = 32 };

static int rounded_up(int value, int unit) { return (value + unit - 1) / unit; }

static uint8_t *plane_row(const plane *of, int row) {
    int kept = KEPT_ROWS * of->rows; /* a power of two */
    return of->samples + (row & (kept - 1)) * of->stride;
}

record_scale record_reduced(const record *of, int reduction) {
    int halved = reduction > 1 && of->across == 2 && of->down == 2, side = 8 / reduction;
    int chroma_side = halved ? 2 * side : side;
    record_scale made = {
        .width = rounded_up(of->width, reduction),
        .height = rounded_up(of->height, reduction),
        .chroma_width = rounded_up(of->width * chroma_side, 8 * of->across),
        .chroma_height = rounded_up(of->height * chroma_side, 8 * of->down),
        .side = side,
        .chroma_side = chroma_side,
        .across = halved ? 1 : of->across,
        .down = halved ? 1 : of->down,
    };
    /* libjpeg repeats what is too small to interpolate. */
    made.smooth = side > 1 && (made.across == 1 || made.chroma_width > 2);
    return made;
}

/* A sample more on each side of the picture. */
static void mend_edges(const record_decoder *decoder, int component, int first_row) {
    const plane *of = &decoder->planes[component];
    int wide = of->side * blocks_across(&decoder->of, component);
    int start = decoder->first_mcu * wide, end = decoder->last_mcu * wide;
    for (int row = first_row; row < first_row + of->rows; row++) {
        uint8_t *samples = plane_row(of, row);
        if (!start) samples[-1] = samples[0];
        if (end >= of->width) samples[of->width - start] = samples[of->width - start - 1];
    }
}

/* The blocks of a tile that are wanted, into the planes. */
static void place_tile(record_decoder *decoder, const tile *from, int mcu) {
    const record *of = &decoder->of;
    const int16_t *block = decoder->coefficients->blocks;
    const uint8_t *patches = from->bytes + TILE_HEAD;
    int first = mcu > decoder->first_mcu ? mcu : decoder->first_mcu, last = mcu + from->mcus;
    if (last > decoder->last_mcu) last = decoder->last_mcu;
    for (int component = 0; component < of->components; component++) {
        const plane *to = &decoder->planes[component];
        int wide = blocks_across(of, component), skip = (first - mcu) * wide;
        for (int line = 0; line < blocks_down(of, component); line++) {
            uint8_t *samples = plane_row(to, decoder->made * to->rows + to->side * line);
            samples += (first - decoder->first_mcu) * wide * to->side;
            to->idct(block + skip * BLOCK, patches + skip, (last - first) * wide, of->tables[component],
                     samples, to->stride);
            block += from->mcus * wide * BLOCK;
            patches += from->mcus * wide;
        }
    }
}

static status make_mcu_row(record_decoder *decoder) {
    const record *of = &decoder->of;
    size_t start = record_row(of, decoder->made, decoder->first_tile);
    for (int number = decoder->first_tile; number < decoder->last_tile; number++) {
        tile next;
        record_tile(of, decoder->made, number, start, &next);
        if (!decoder->use->unpack(&next, decoder->coefficients))
            return bad(decoder->why, "tile %d of row %d does not add up", number, decoder->made);
        place_tile(decoder, &next, number * of->tile_mcus);
        start += next.size;
    }
    if (decoder->scale.across > 1)
        for (int component = 1; component < of->components; component++)
            mend_edges(decoder, component, decoder->made * decoder->planes[component].rows);
    decoder->made++;
    return STATUS_OK;
}

/* The chroma rows that a row of pixels lies between, the nearer one first; both are the same where
 * nothing is interpolated. */
static void chroma_rows(const record_scale *scale, int row, int *near, int *far) {
    *near = row / scale->down;
    *far = scale->down == 1 || !scale->smooth ? *near : row % 2 ? *near + 1 : *near - 1;
    if (*far < 0) *far = 0;
    if (*far >= scale->chroma_height) *far = scale->chroma_height - 1;
}

void record_rows_needed(const record_scale *scale, int first, int end, int *low, int *high) {
    int near, far;
    chroma_rows(scale, first, &near, &far);
    *low = (near < far ? near : far) / scale->chroma_side;
    chroma_rows(scale, end - 1, &near, &far);
    *high = (near > far ? near : far) / scale->chroma_side;
}

static status make_up_to(record_decoder *decoder, int chroma_row) {
    while (decoder->made * decoder->scale.chroma_side <= chroma_row) {
        status made = make_mcu_row(decoder);
        if (made) return made;
    }
    return STATUS_OK;
}

static void repeated(const uint8_t *row, int samples, uint8_t *to) {
    for (int at = 0; at < samples; at++) to[2 * at] = to[2 * at + 1] = row[at];
}

/* A component's samples for a row of pixels, as many as there are pixels. */
static const uint8_t *stretched(record_decoder *decoder, int component, int near, int far) {
    const plane *of = &decoder->planes[component];
    const record_passes *use = decoder->use;
    const record_scale *scale = &decoder->scale;
    int start = decoder->first_mcu * of->side, column = decoder->rows.column, end = column + decoder->rows.columns;
    const uint8_t *a = plane_row(of, near) - start, *b = plane_row(of, far) - start;
    uint8_t *wide = (uint8_t *)decoder->wide.bytes + (size_t)(component - 1) * (decoder->wide.size / 2);
    if (scale->across == 1) {
        if (scale->down == 1 || !scale->smooth) return a + column;
        use->between(a + column, b + column, end - column, decoder->row % 2 ? 2 : 1, wide);
        return wide;
    }
    int first = column / 2, samples = rounded_up(end, 2) - first;
    if (!scale->smooth)
        repeated(a + first, samples, wide);
    else if (scale->down == 1)
        use->wider(a + first, samples, wide);
    else
        use->wider_between(a + first, b + first, samples, wide);
    return wide + column % 2;
}

static void rgb_pixels(const uint8_t *const planes[COMPONENTS], int pixels, uint8_t *row) {
    for (int at = 0; at < pixels; at++, row += 4)
        for (int channel = 0; channel < COMPONENTS; channel++) row[channel] = planes[channel][at];
}

static status next_row(row_source *rows, uint8_t *row) {
    record_decoder *decoder = (record_decoder *)rows;
    const record *of = &decoder->of;
    int near, far, y = decoder->row;
    chroma_rows(&decoder->scale, y, &near, &far);
    status made = make_up_to(decoder, far > near ? far : near);
    if (made) return made;
    int column = rows->column - decoder->first_mcu * decoder->scale.side * of->across;
    const uint8_t *planes[COMPONENTS] = {plane_row(&decoder->planes[0], y) + column, NULL, NULL};
    for (int component = 1; component < of->components; component++)
        planes[component] = stretched(decoder, component, near, far);
    if (of->colours == COLOUR_YCC)
        decoder->use->ycc(planes, rows->columns, row);
    else if (of->colours == COLOUR_GREY)
        decoder->use->grey(planes[0], rows->columns, row);
    else
        rgb_pixels(planes, rows->columns, row);
    decoder->row++;
    return STATUS_OK;
}

/* Which MCUs and tiles a view needs: one chroma sample more on each side. */
static void choose_columns(record_decoder *decoder, int column, int columns) {
    const record *of = &decoder->of;
    const record_scale *scale = &decoder->scale;
    int margin = scale->across > 1 ? 2 : 0, wide = scale->side * of->across;
    int low = column - margin > 0 ? column - margin : 0, high = column + columns + margin;
    decoder->rows = (row_source){next_row, columns, column};
    decoder->first_mcu = low / wide;
    decoder->last_mcu = rounded_up(high < scale->width ? high : scale->width, wide);
    decoder->first_tile = decoder->first_mcu / of->tile_mcus;
    decoder->last_tile = rounded_up(decoder->last_mcu, of->tile_mcus);
}

static void shape_plane(const record_decoder *decoder, int component, plane *made) {
    const record_scale *scale = &decoder->scale;
    int blocks = (decoder->last_mcu - decoder->first_mcu) * blocks_across(&decoder->of, component);
    made->side = component ? scale->chroma_side : scale->side;
    made->idct = decoder->use->idct[__builtin_ctz((unsigned)made->side)];
    made->rows = made->side * blocks_down(&decoder->of, component);
    made->width = component ? scale->chroma_width : scale->width;
    made->stride = MARGIN + blocks * made->side + ROW_SLACK + MARGIN;
}

static status reserve(record_decoder *decoder) {
    const record *of = &decoder->of;
    size_t needed = 0;
    for (int component = 0; component < of->components; component++) {
        plane *made = &decoder->planes[component];
        shape_plane(decoder, component, made);
        needed += (size_t)made->stride * (size_t)made->rows * KEPT_ROWS;
    }
    size_t row = (size_t)decoder->rows.columns + 2 * ROW_SLACK + MARGIN;
    if (buffer_reserve(&decoder->samples, needed + ROW_SLACK) || buffer_reserve(&decoder->wide, 2 * row))
        return STATUS_NO_MEMORY;
    uint8_t *at = decoder->samples.bytes;
    for (int component = 0; component < of->components; component++) {
        decoder->planes[component].samples = at + MARGIN;
        at += decoder->planes[component].stride * decoder->planes[component].rows * KEPT_ROWS;
    }
    if (!decoder->coefficients) {
        buffer memory = {0};
        if (buffer_reserve(&memory, sizeof *decoder->coefficients)) return STATUS_NO_MEMORY;
        decoder->coefficients = memory.bytes;
    }
    return STATUS_OK;
}

status record_rows(record_decoder *decoder, int column, int columns, int row, reason *why) {
    choose_columns(decoder, column, columns);
    decoder->use = passes_in_use()->records;
    decoder->why = why;
    decoder->row = row;
    int last;
    record_rows_needed(&decoder->scale, row, row + 1, &decoder->made, &last);
    return reserve(decoder);
}

void record_decoder_free(record_decoder *decoder) {
    buffer coefficients = {decoder->coefficients, sizeof *decoder->coefficients};
    buffer_free(&decoder->samples);
    buffer_free(&decoder->wide);
    buffer_free(&coefficients);
    decoder->coefficients = NULL;
}

static status open_record(workspace *mine, const record_file *file, reason *why) {
    record *of = &mine->records.of;
    status opened = file->data ? record_open(of, file->data, file->part.size, why)
                               : record_read_index(&file->part, &mine->packed, of, why);
    if (opened || (of->width == file->width && of->height == file->height)) return opened;
    return bad(why, "it is %d × %d pixels, not %d × %d as when it was indexed", of->width, of->height,
               file->width, file->height);
}

status render_record(workspace *mine, const record_file *file, span across, span down, int reduce,
                     const slot *out, reason *why) {
    resizer *work = &mine->work;
    record_decoder *decoder = &mine->records;
    status ready = open_record(mine, file, why);
    if (ready) return ready;
    int reduction = reduce ? allowed_reduction(&across, &down) : 1, first, last;
    across = reduced_span(across, reduction, decoder->of.width);
    down = reduced_span(down, reduction, decoder->of.height);
    if (filter_make(&work->across, &across) || filter_make(&work->down, &down)) return STATUS_NO_MEMORY;
    decoder->scale = record_reduced(&decoder->of, reduction);
    record_rows_needed(&decoder->scale, work->down.first[0], filter_end(&work->down), &first, &last);
    if (!file->data) ready = record_read_rows(&file->part, &decoder->of, first, last, why);
    if (ready) return ready;
    int column = work->across.first[0], columns = filter_end(&work->across) - column;
    ready = record_rows(decoder, column, columns, work->down.first[0], why);
    return ready ? ready : resize_rows(work, &decoder->rows, out);
}
