/* Puts files through the kernel, outside Python, to be built with sanitizers. Reads records of a 32-bit
 * length and that many bytes; writes how many were decoded and how many were refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

static unsigned decoded, refused;
static const float levels[6] = {0.01f, 0.02f, 0.03f, -1.0f, -2.0f, -3.0f};

/* A slot in memory of exactly its size, so that any step outside is seen. */
static void render(workspace *mine, const jpeg_file *file, span across, span down, int reduce,
                   int floats, int mirrored) {
    size_t element = floats ? sizeof(float) : 1, pixel = 3 * element;
    uint8_t *memory = malloc((size_t)across.size * (size_t)down.size * pixel);
    slot out = {memory, (ptrdiff_t)((size_t)across.size * pixel), (ptrdiff_t)pixel, across.size,
                down.size, floats ? levels : NULL};
    if (mirrored) {
        out.bytes += (size_t)(across.size - 1) * pixel;
        out.pixel_stride = -out.pixel_stride;
    }
    reason why = {""};
    if (render_jpeg(mine, file, across, down, reduce, &out, &why))
        refused++;
    else
        decoded++;
    free(memory);
}

static void try_views(workspace *mine, const uint8_t *data, size_t size) {
    jpeg_head head;
    reason why = {""};
    if (jpeg_walk(data, size, &head, &why)) {
        refused++;
        return;
    }
    if (!head.usual || (long)head.width * head.height > 1 << 21) return;
    int w = head.width, h = head.height;
    jpeg_file file = {data, size, w, h};
    span whole_across = {0, w, 0, w, 13}, whole_down = {0, h, 0, h, 9};
    span corner_across = {w - 1, 1, w - 1, w, 5}, corner_down = {h / 2.0, h / 2.0, h / 2, h, 7};
    render(mine, &file, whole_across, whole_down, 0, 0, 0);
    render(mine, &file, whole_across, whole_down, 1, 1, 1);
    render(mine, &file, corner_across, corner_down, 0, 1, 0);
}

static void try_cuts(workspace *mine) {
    uint8_t *pixels = calloc(2, 5 * 7 * 3), *out = malloc(3 * 6 * 4 * 3);
    int64_t samples[3] = {0, 1, 1}, left[3] = {-9, 3, 100}, top[3] = {0, -2, 4};
    uint8_t mirrored[3] = {0, 1, 1};
    cuts wanted = {pixels, 2, 7, 5, samples, left, top, mirrored, 3};
    slot first = {out, 4 * 3, 3, 4, 6, NULL};
    if (cut_images(mine, &wanted, &first, 6 * 4 * 3)) abort();
    free(pixels);
    free(out);
}

/* Batches of every length around the vectors' own. */
static void try_floats(void) {
    for (size_t values = 0; values <= 150; values += 3) {
        uint8_t *shown = calloc(values, 1);
        float *to = malloc(values * sizeof(float));
        put_floats(shown, levels, values, to);
        if (values && to[values - 1] != levels[5]) abort();
        free(shown);
        free(to);
    }
}

int main(void) {
    workspace *mine = workspace_take();
    uint32_t size;
    for (unsigned count = 0; fread(&size, sizeof size, 1, stdin) == 1; count++) {
        uint8_t *data = malloc(size ? size : 1);
        if (fread(data, 1, size, stdin) != size) return 3;
        passes_choose(count % 2);
        try_views(mine, data, size);
        free(data);
    }
    for (int vectors = 0; vectors < 2; vectors++) {
        passes_choose(vectors);
        try_cuts(mine);
        try_floats();
    }
    workspace_return(mine);
    workspace_drop_all();
    printf("%u %u\n", decoded, refused);
    return 0;
}
