/* Decoded pixels as a source of rows. */
#include "workspace.h"

typedef struct {
    row_source rows;
    const uint8_t *at;
    ptrdiff_t stride;
} pixel_rows;

static status next_row(row_source *rows, uint8_t *row) {
    pixel_rows *source = (pixel_rows *)rows;
    const uint8_t *from = source->at;
    for (int pixel = 0; pixel < rows->columns; pixel++, from += 3, row += 4) {
        row[0] = from[0];
        row[1] = from[1];
        row[2] = from[2];
    }
    source->at += source->stride;
    return STATUS_OK;
}

status render_pixels(workspace *mine, const picture *source, span across, span down,
                     const slot *out) {
    resizer *work = &mine->work;
    if (filter_make(&work->across, &across) || filter_make(&work->down, &down))
        return STATUS_NO_MEMORY;
    int column = work->across.first[0], columns = filter_end(&work->across) - column;
    pixel_rows rows = {{next_row, columns, column},
                       source->bytes + work->down.first[0] * source->row_stride + 3 * (ptrdiff_t)column,
                       source->row_stride};
    return resize_rows(work, &rows.rows, out);
}
