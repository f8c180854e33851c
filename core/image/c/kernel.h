/* The kernel's parts and what they say to each other. Nothing here knows of Python.
 *
 *   bytes -> jpeg_walk (is it whole?) -> jpeg_rows (only the rows and columns a view needs)
 *         -> resize (antialiased, in whole numbers) -> slot (uint8, or float32 by levels)
 *   packed record -> record_rows (only the tiles a view needs) -> the same
 *
 * A decoder is a row source: it hands over one row of pixels after the other, and the resampling
 * reads no more of them than it needs at a time. Another decoder is another row source.
 */
#ifndef DDLP_KERNEL_H
#define DDLP_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* The revision of the arithmetic, as in core/image/arithmetic.py. */
enum { ARITHMETIC = 2 };

enum { REASON_BYTES = 256 };

typedef enum {
    STATUS_OK = 0,
    STATUS_BAD,      /* the sample cannot be decoded; the reason says why */
    STATUS_UNUSUAL,  /* it can be decoded, but not here */
    STATUS_NO_MEMORY,
    STATUS_UNREADABLE, /* the system says why: errno */
} status;

typedef struct {
    char text[REASON_BYTES];
} reason;

/* Notes why, and gives STATUS_BAD. */
status bad(reason *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A buffer that is kept from image to image and only ever grows. */
typedef struct {
    void *bytes;
    size_t size;
} buffer;

status buffer_reserve(buffer *kept, size_t size); /* what it held is lost where it grows */
status buffer_grow(buffer *kept, size_t size);
void buffer_free(buffer *kept);

/* One axis of a view: extent pixels from start, read within [low, high), shown as size. */
typedef struct {
    double start, extent;
    int low, high, size;
} span;

/* For each output place the first source place, how many follow, and their weights. */
typedef struct {
    int size, longest;
    int *first, *count;
    int16_t *weights; /* size rows of longest */
    double *sums;     /* of one place, while it is weighed */
    buffer kept;
} filter;

enum { WEIGHT_BITS = 14, KEPT_BITS = 6 };

status filter_make(filter *made, const span *axis);
void filter_free(filter *made);
int filter_end(const filter *made); /* one past the last source place that is read */

/* Where one image goes: rows and pixels may lie in any order, so that a mirrored or turned picture
 * is written as such. With levels the elements are floats: level * multiply + add. */
typedef struct {
    uint8_t *bytes;
    ptrdiff_t row_stride, pixel_stride;
    int width, height;
    const float *levels; /* three of multiply, three of add; NULL for uint8 */
} slot;

/* Hands over rows of pixels, 4 bytes each: red, green, blue, and one that nobody reads. Writes may
 * reach ROW_SLACK bytes beyond the row's end. */
typedef struct row_source row_source;
struct row_source {
    status (*next)(row_source *self, uint8_t *row);
    int columns; /* pixels a row */
    int column;  /* of the source, at which a row begins */
};

/* Rows that are read soon begin beside a multiple of 32: libjpeg-turbo writes aligned ones past the
 * caches. */
enum { ROW_SLACK = 64, BESIDE_ALIGNED = 16 };

/* What a thread works with; kept from image to image. */
typedef struct workspace workspace;
workspace *workspace_take(void); /* from the pool; NULL where there is no memory */
void workspace_return(workspace *mine);
void workspace_drop_all(void);
void workspace_mind_forks(void); /* a child of fork finds the pool unlocked */

typedef struct {
    filter across, down;
    buffer rows, row_places, between, shown, packed;
} resizer;

/* Resamples rows as the filters of a resizer say. The source's first row is the first that `down`
 * reads. */
status resize_rows(resizer *work, row_source *rows, const slot *out);
void resizer_free(resizer *work);

/* What is done to each output row, in the variants that the processor offers. */
typedef struct {
    const char *name;
    void (*down)(const uint8_t *const *rows, const int16_t *weights, int taps, size_t bytes,
                 int16_t *between);
    void (*across)(const int16_t *between, const int *places, const int16_t *packed, int groups,
                   int size, uint8_t *shown);
    void (*floats)(const uint8_t *shown, const float *levels, int values, float *to);
    /* Reads and writes may reach ROW_SLACK bytes beyond the row's end. */
    void (*mirror)(const uint8_t *row, int pixels, uint8_t *to);
    const struct record_passes *records; /* what is done to packed records */
} passes;

const passes *passes_in_use(void);
/* The variants that this processor can do, the best one last; gives how many there are. */
enum { MOST_VARIANTS = 3 };
int passes_possible(const passes *found[MOST_VARIANTS]);
int passes_choose(const char *name); /* NULL: the best there is; 0 where there is none of this name */
extern const passes portable_passes;
#if defined(__x86_64__)
extern const passes avx2_passes, pdep_passes;
#endif

/* What a walk over the markers found. */
typedef struct {
    int usual; /* Huffman-coded, 8 bits, 1, 3 or 4 components: what jpeg_rows decodes */
    int more;  /* segments follow the first scan: other scans, or something out of place */
    int width, height, orientation;
} jpeg_head;

status jpeg_walk(const uint8_t *data, size_t size, jpeg_head *head, reason *why);

/* A JPEG file, and the size that its picture is expected to have. */
typedef struct {
    const uint8_t *data;
    size_t size;
    int width, height;
} jpeg_file;

/* By how much the DCT may reduce (1, 2, 4, 8) and still leave as much as is shown; and what it makes of
 * one axis of a view, where the picture has `length` pixels. */
int allowed_reduction(const span *across, const span *down);
span reduced_span(span axis, int reduction, int length);

/* The whole job for one JPEG and for decoded pixels. `reduce` allows a reduction by the DCT. */
status render_jpeg(workspace *mine, const jpeg_file *file, span across, span down, int reduce,
                   const slot *out, reason *why);

typedef struct {
    const uint8_t *bytes;
    ptrdiff_t row_stride;
    int width, height;
} picture;

status render_pixels(workspace *mine, const picture *source, span across, span down,
                     const slot *out);

/* A packed record, and the size that its picture is expected to have: bytes in memory, or where data is
 * NULL a part of an open file. `reduce` is as for a JPEG. */
typedef struct {
    int file;
    uint64_t start;
    size_t size;
} record_part;

/* What this thread has spent on reading records from files so far. */
typedef struct {
    double seconds;
    uint64_t bytes;
} reading;

reading records_read(void);

typedef struct {
    const uint8_t *data;
    record_part part;
    int width, height;
} record_file;

status render_record(workspace *mine, const record_file *file, span across, span down, int reduce,
                     const slot *out, reason *why);

/* Cuts whole pixels out of images of one size, black where a cut reaches over an edge. */
typedef struct {
    const uint8_t *pixels;
    int64_t images;
    int width, height; /* of an image */
    const int64_t *samples, *left, *top;
    const uint8_t *mirrored;
    int64_t count;
} cuts;

status cut_images(workspace *mine, const cuts *wanted, const slot *first, ptrdiff_t slot_bytes);

/* Levels of some rows, which lie one after the other, into a slot's rows. */
void put_rows(const slot *out, int first, int rows, const uint8_t *shown);

/* Levels of pixels, which lie one after the other, as floats. */
void put_floats(const uint8_t *shown, const float *levels, size_t values, float *to);

/* Philox4x32-10; two words a number, 53 bits. */
void philox_uniforms(const uint32_t key[2], uint32_t epoch, const int64_t *samples, size_t count,
                     size_t draws, double *out);

/* Leads places of 0..below-1 along a bijection over them, which works on `bits` bits. */
enum { FEISTEL_ROUNDS = 10 };
void feistel_permute(uint64_t *places, size_t count, const uint64_t keys[FEISTEL_ROUNDS],
                     unsigned bits, uint64_t below);

#endif
