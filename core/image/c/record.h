/* A packed record: the coefficients of a JPEG, laid out so that a part of them is found at once.
 *
 *   record -> tiles that a view needs -> coefficients -> inverse DCT -> planes -> rows of pixels
 *
 * docs/records.md has the format. Nothing that a record says is believed before it is checked: no
 * record, however damaged, leads to a read outside of it or to a write outside of what it is given.
 */
#ifndef DDLP_RECORD_H
#define DDLP_RECORD_H

#include "kernel.h"

enum {
    RECORD_FORMAT = 1,
    RECORD_FIXED = 24,  /* bytes before the tables */
    TILE_HEAD = 2,      /* bytes of a tile before its blocks' patches */
    RECORD_SLACK = 16,  /* zeros at its end: loads of 8 bytes may reach beyond the last tile */
    COMPONENTS = 3,
    BLOCK = 64,         /* coefficients */
    MOST_QUANTUM = 32767,
    PATCHES = 8,        /* of a block, 8 coefficients each: 2 rows of 4 */
    MOST_MCUS = 16,     /* in a tile */
    MOST_BLOCKS = MOST_MCUS * 6,
};

typedef enum { COLOUR_GREY = 0, COLOUR_YCC = 1, COLOUR_RGB = 2 } colour;

/* What the fixed part of a record says, and where its parts lie. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
    int components;
    colour colours;
    int across, down; /* samples of the first component for one of the others */
    int tile_mcus;
    int width, height;
    int mcus, mcu_rows, tiles; /* MCUs and tiles of a row */
    int16_t tables[COMPONENTS][BLOCK];
    const uint8_t *row_ends, *tile_sizes, *data, *head;
    size_t head_size;
} record;

/* Checks the fixed part, the tables and the lists: rows follow each other, the tiles of each add up to it, and none has
 * fewer bytes than its blocks need. */
status record_open(record *made, const uint8_t *bytes, size_t size, reason *why);

/* How many of a record's bytes come before its first tile, from its fixed part; 0 where it is none. */
size_t record_index_bytes(const uint8_t *fixed, size_t size);

/* Where the tiles of some MCU rows lie, the last one included, counted from the first of all. */
void record_stretch(const record *of, int first, int last, size_t *from, size_t *to);

/* Brings into memory what comes before the tiles, and then some rows of tiles; the rest of the memory,
 * which is as large as the record, holds anything. */
status record_read_index(const record_part *part, buffer *memory, record *made, reason *why);
status record_read_rows(const record_part *part, const record *of, int first, int last, reason *why);

/* Samples of a component in one MCU, along each axis, in blocks. */
static inline int blocks_across(const record *of, int component) { return component ? 1 : of->across; }
static inline int blocks_down(const record *of, int component) { return component ? 1 : of->down; }

/* A tile, and what is needed to unpack it. */
typedef struct {
    const uint8_t *bytes;
    size_t size, room; /* of the tile; from its start to the end of the record */
    int mcus, blocks, components;
    int of_component[COMPONENTS]; /* blocks */
} tile;

/* Where a tile of a row begins, counted from the first of all. */
size_t record_row(const record *of, int row, int first);
void record_tile(const record *of, int row, int number, size_t start, tile *made);

/* Memory for the coefficients of one tile. */
typedef struct {
    int16_t blocks[MOST_BLOCKS * BLOCK] __attribute__((aligned(64)));
    /* Of the patches that hold something: where they begin, and which of a block's they are. */
    uint16_t places[MOST_BLOCKS * PATCHES + PATCHES];
    uint8_t patches[MOST_BLOCKS * PATCHES + PATCHES];
} unpacked;

/* A tile while it is made. */
typedef struct {
    const int16_t *blocks[MOST_BLOCKS];
    int count, components, of_component[COMPONENTS];
    uint8_t masks[MOST_BLOCKS * PATCHES], ways[MOST_BLOCKS * PATCHES];
    uint8_t values[MOST_BLOCKS * BLOCK * 2 + 16], dcs[MOST_BLOCKS * 2 + 16];
} tile_maker;

/* Blocks that lie side by side, into as many rows as a block then has; `patches` says which hold more
 * than a DC. Up to 16 bytes right of the last block are written too. */
typedef void inverse_dct(const int16_t *blocks, const uint8_t *patches, int count, const int16_t *table,
                         uint8_t *to, ptrdiff_t stride);

enum { SIDES = 4 };

/* What is done to coefficients and planes, in the variants that the processor offers. Reads and
 * writes of rows may reach ROW_SLACK bytes beyond their end. */
typedef struct record_passes {
    /* Writes a tile and gives its end; NULL where a coefficient is too large. */
    uint8_t *(*pack)(tile_maker *maker, uint8_t *to);
    /* Coefficients of all blocks of a tile; 0 where it is damaged. */
    int (*unpack)(const tile *from, unpacked *to);
    inverse_dct *idct[SIDES]; /* to blocks of 1, 2, 4 and 8 samples a side */
    /* Twice as many samples along a row, of one row or between two; reads one sample to either
     * side. */
    void (*wider)(const uint8_t *row, int samples, uint8_t *to);
    void (*wider_between)(const uint8_t *near, const uint8_t *far, int samples, uint8_t *to);
    void (*between)(const uint8_t *near, const uint8_t *far, int samples, int bias, uint8_t *to);
    void (*ycc)(const uint8_t *const planes[COMPONENTS], int pixels, uint8_t *row);
    void (*grey)(const uint8_t *levels, int pixels, uint8_t *row);
} record_passes;

inverse_dct record_means; /* to a single sample: the same in every variant */
extern const record_passes portable_record_passes;
#if defined(__x86_64__)
extern const record_passes avx2_record_passes, pdep_record_passes;
#endif

/* A picture as the DCT reduces it, by 1, 2, 4 or 8. Chroma that has half the samples along both axes gets
 * larger blocks than luma and needs no stretching; any other is reduced alike. */
typedef struct {
    int width, height; /* in pixels */
    int chroma_width, chroma_height;
    int side, chroma_side; /* samples of a block, along each axis */
    int across, down;      /* pixels that a sample of chroma is stretched to */
    int smooth;            /* by a triangle; otherwise it is repeated */
} record_scale;

record_scale record_reduced(const record *of, int reduction);

/* One component's samples: two MCU rows in turn, of the columns that are wanted. */
typedef struct {
    uint8_t *samples;
    ptrdiff_t stride;
    inverse_dct *idct;
    int side;  /* of a block */
    int rows;  /* of one MCU row */
    int width; /* of the whole plane */
} plane;

/* A record as a source of rows. */
typedef struct {
    row_source rows;
    record of;
    record_scale scale;
    const record_passes *use;
    reason *why;
    int row, made;             /* the next row of pixels, and of MCUs, to be made */
    int first_mcu, last_mcu;   /* columns that are decoded */
    int first_tile, last_tile;
    plane planes[COMPONENTS];
    buffer samples, wide;
    unpacked *coefficients;
} record_decoder;

/* The first and the last MCU row that rows [first, end) of pixels need. */
void record_rows_needed(const record_scale *scale, int first, int end, int *low, int *high);

/* Rows from `row` on, columns [column, column + columns); the record was opened into `of`, and `scale`
 * is its own. */
status record_rows(record_decoder *decoder, int column, int columns, int row, reason *why);
void record_decoder_free(record_decoder *decoder);

/* A JPEG as a record of at most `room` bytes, checked: the pixels are those of a full decode.
 * STATUS_UNUSUAL: it cannot be one. */
status record_pack(workspace *mine, const uint8_t *data, size_t size, int keep_head, buffer *to,
                   size_t *made, reason *why);

/* A JPEG with the coefficients of a record, and with what its original said beside the picture. `to` is none
 * of the workspace's buffers but `packed`. */
status record_to_jpeg(workspace *mine, const record *from, buffer *to, size_t *made, reason *why);

#endif
