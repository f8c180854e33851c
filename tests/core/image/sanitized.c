/* Puts files through the kernel, outside Python, to be built with sanitizers. Reads entries of a 32-bit
 * length and that many bytes: JPEGs, or with the argument "records" packed records; writes how many were
 * decoded and how many were refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "record.h"
#include "workspace.h"

static unsigned decoded, refused;
static const float levels[6] = {0.01f, 0.02f, 0.03f, -1.0f, -2.0f, -3.0f};

/* A slot in memory of exactly its size, so that any step outside is seen. */
static void render(workspace *mine, const record_file *file, int is_record, span across, span down,
                   int reduce, int floats, int mirrored) {
    size_t element = floats ? sizeof(float) : 1, pixel = 3 * element;
    uint8_t *memory = malloc((size_t)across.size * (size_t)down.size * pixel);
    slot out = {memory, (ptrdiff_t)((size_t)across.size * pixel), (ptrdiff_t)pixel, across.size,
                down.size, floats ? levels : NULL};
    if (mirrored) {
        out.bytes += (size_t)(across.size - 1) * pixel;
        out.pixel_stride = -out.pixel_stride;
    }
    reason why = {""};
    jpeg_file jpeg = {file->data, file->part.size, file->width, file->height};
    if (is_record ? render_record(mine, file, across, down, reduce, &out, &why)
                  : render_jpeg(mine, &jpeg, across, down, reduce, &out, &why))
        refused++;
    else
        decoded++;
    free(memory);
}

static void try_sized(workspace *mine, const record_file *file, int is_record) {
    int w = file->width, h = file->height;
    if ((long)w * h > 1 << 21) return;
    span whole_across = {0, w, 0, w, 13}, whole_down = {0, h, 0, h, 9};
    span corner_across = {w - 1, 1, w - 1, w, 5}, corner_down = {h / 2.0, h / 2.0, h / 2, h, 7};
    render(mine, file, is_record, whole_across, whole_down, 0, 0, 0);
    render(mine, file, is_record, whole_across, whole_down, 1, 1, 1);
    render(mine, file, is_record, corner_across, corner_down, 0, 1, 0);
}

/* The same from a file, as a part of it that something stands before: as many views are shown. A part
 * that is too long, and a file that cannot be read, show none. */
static void try_file(workspace *mine, record_file file, unsigned wanted) {
    unsigned decoded_before = decoded, refused_before = refused;
    FILE *stored = tmpfile();
    if (!stored || fwrite("before", 1, 6, stored) != 6) abort();
    if (fwrite(file.data, 1, file.part.size, stored) != file.part.size || fflush(stored)) abort();
    file.data = NULL;
    file.part = (record_part){fileno(stored), 6, file.part.size};
    try_sized(mine, &file, 1);
    file.part.size += 100;
    try_sized(mine, &file, 1);
    file.part.file = -1;
    try_sized(mine, &file, 1);
    if (decoded - decoded_before != wanted) abort();
    fclose(stored);
    decoded = decoded_before;
    refused = refused_before;
}

static void try_record(workspace *mine, const uint8_t *data, size_t size) {
    record found;
    reason why = {""};
    if (record_open(&found, data, size, &why)) {
        refused++;
        return;
    }
    record_file file = {data, {-1, 0, size}, found.width, found.height};
    unsigned before = decoded;
    try_sized(mine, &file, 1);
    try_file(mine, file, decoded - before);
    uint8_t *jpeg = NULL;
    unsigned long jpeg_size;
    if ((long)found.width * found.height <= 1 << 21 &&
        !record_to_jpeg(mine, &found, 1, &jpeg, &jpeg_size, &why))
        free(jpeg);
}

/* A record in memory of exactly its size. */
static void try_packed(workspace *mine, const uint8_t *data, size_t size) {
    reason why = {""};
    size_t made;
    if (record_pack(mine, data, size, size % 2, &mine->packed, &made, &why)) return;
    uint8_t *packed = malloc(made);
    memcpy(packed, mine->packed.bytes, made);
    try_record(mine, packed, made);
    free(packed);
}

static void try_jpeg(workspace *mine, const uint8_t *data, size_t size) {
    jpeg_head head;
    reason why = {""};
    if (jpeg_walk(data, size, &head, &why)) {
        refused++;
        return;
    }
    if (!head.usual || (long)head.width * head.height > 1 << 21) return;
    record_file file = {data, {-1, 0, size}, head.width, head.height};
    try_sized(mine, &file, 0);
    unsigned before = decoded;
    try_packed(mine, data, size);
    decoded = before;
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

static void use(unsigned number) {
    const passes *found[MOST_VARIANTS];
    int count = passes_possible(found);
    if (!passes_choose(found[number % (unsigned)count]->name)) abort();
}

int main(int count, char **words) {
    (void)words;
    workspace *mine = workspace_take();
    uint32_t size;
    for (unsigned number = 0; fread(&size, sizeof size, 1, stdin) == 1; number++) {
        uint8_t *data = malloc(size ? size : 1);
        if (fread(data, 1, size, stdin) != size) return 3;
        use(number);
        (count > 1 ? try_record : try_jpeg)(mine, data, size);
        free(data);
    }
    for (unsigned number = 0; number < MOST_VARIANTS; number++) {
        use(number);
        try_cuts(mine);
        try_floats();
    }
    workspace_return(mine);
    workspace_drop_all();
    printf("%u %u\n", decoded, refused);
    return 0;
}
