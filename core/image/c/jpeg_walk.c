/* Walks over a JPEG file's markers to the end of image; the twin of core/image/jpeg.py. */
#include <string.h>

#include "kernel.h"

enum { SOF0 = 0xC0, SOI = 0xD8, EOI = 0xD9, SOS = 0xDA, APP1 = 0xE1, MAX_SCANS = 256 };

typedef struct {
    const uint8_t *data;
    size_t size, at;
} reader;

typedef struct {
    const uint8_t *bytes;
    size_t size;
} segment;

static int is_restart(int marker) { return marker >= 0xD0 && marker <= 0xD7; }

static int is_frame(int marker) {
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

static status truncated(reason *why) { return bad(why, "the file ends in the middle of the image"); }

/* The next marker's code, or -1 where the file ends; stray bytes before it are passed over. */
static int next_marker(reader *file) {
    for (;;) {
        while (file->at < file->size && file->data[file->at] != 0xFF) file->at++;
        while (file->at < file->size && file->data[file->at] == 0xFF) file->at++;
        if (file->at >= file->size) return -1;
        if (file->data[file->at++] != 0) return file->data[file->at - 1];
    }
}

static status next_segment(reader *file, segment *found, reason *why) {
    if (file->size - file->at < 2) return truncated(why);
    size_t length = (size_t)file->data[file->at] << 8 | file->data[file->at + 1];
    if (length < 2) return bad(why, "a segment says that it has %zu bytes", length);
    if (length > file->size - file->at) return truncated(why);
    *found = (segment){file->data + file->at + 2, length - 2};
    file->at += length;
    return STATUS_OK;
}

static status read_frame(int marker, segment frame, jpeg_head *head, reason *why) {
    if (frame.size < 6 || frame.size != 6 + 3 * (size_t)frame.bytes[5])
        return bad(why, "its frame header has the wrong length");
    int precision = frame.bytes[0], components = frame.bytes[5];
    head->height = frame.bytes[1] << 8 | frame.bytes[2];
    head->width = frame.bytes[3] << 8 | frame.bytes[4];
    if (!head->width || !head->height)
        return bad(why, "its size is %d × %d pixels", head->width, head->height);
    head->usual = marker <= 0xC2 && precision == 8 &&
                  (components == 1 || components == 3 || components == 4);
    return STATUS_OK;
}

/* A number of a TIFF structure, or -1 where that ends before it. */
static int64_t tiff_number(segment tiff, size_t at, size_t size) {
    if (at > tiff.size || size > tiff.size - at) return -1;
    int64_t value = 0;
    for (size_t byte = 0; byte < size; byte++) {
        size_t from = tiff.bytes[0] == 'I' ? size - 1 - byte : byte;
        value = value << 8 | tiff.bytes[at + from];
    }
    return value;
}

/* The orientation that an APP1 segment gives: 0 where it is no EXIF, 1 where it says none. */
static int exif_orientation(segment app1) {
    if (app1.size < 6 || memcmp(app1.bytes, "Exif\0\0", 6)) return 0;
    segment tiff = {app1.bytes + 6, app1.size - 6};
    if (tiff.size < 4 || (memcmp(tiff.bytes, "II*\0", 4) && memcmp(tiff.bytes, "MM\0*", 4))) return 1;
    int64_t directory = tiff_number(tiff, 4, 4);
    int64_t entries = directory < 0 ? -1 : tiff_number(tiff, (size_t)directory, 2);
    for (int64_t entry = 0; entry < entries; entry++) {
        size_t at = (size_t)directory + 2 + 12 * (size_t)entry;
        int64_t tag = tiff_number(tiff, at, 2);
        if (tag < 0) return 1;
        if (tag != 0x0112) continue;
        int64_t value = tiff_number(tiff, at + 2, 2) == 3 ? tiff_number(tiff, at + 8, 2) : 1;
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* Moves to the first marker after entropy-coded data that is not a restart. */
static status end_of_scan(reader *file, reason *why) {
    while (file->at < file->size) {
        const uint8_t *found = memchr(file->data + file->at, 0xFF, file->size - file->at);
        if (!found || found + 1 == file->data + file->size) break;
        file->at = (size_t)(found - file->data);
        if (found[1] == 0xFF)
            file->at += 1;
        else if (found[1] == 0 || is_restart(found[1]))
            file->at += 2;
        else
            return STATUS_OK;
    }
    return truncated(why);
}

typedef struct {
    reader file;
    jpeg_head *head;
    int frames, scans;
} walker;

static status read_scan(walker *walk, reason *why) {
    if (!walk->frames) return bad(why, "its pixels begin before its size is given");
    if (++walk->scans > MAX_SCANS) return bad(why, "it has more than %d scans", MAX_SCANS);
    return end_of_scan(&walk->file, why);
}

static status read_marker(walker *walk, int marker, reason *why) {
    segment found = {0};
    walk->head->more = walk->scans > 0;
    if (marker == SOI) return bad(why, "a second image begins inside the first");
    if (marker < SOF0) return bad(why, "it has a marker 0x%02x, which is none of a JPEG's", marker);
    if (next_segment(&walk->file, &found, why)) return STATUS_BAD;
    if (is_frame(marker)) {
        if (walk->frames++) return bad(why, "it has two frame headers");
        return read_frame(marker, found, walk->head, why);
    }
    if (marker == APP1 && !walk->head->orientation) walk->head->orientation = exif_orientation(found);
    return marker == SOS ? read_scan(walk, why) : STATUS_OK;
}

status jpeg_walk(const uint8_t *data, size_t size, jpeg_head *head, reason *why) {
    if (size < 3 || memcmp(data, "\xFF\xD8\xFF", 3)) return bad(why, "it does not begin as a JPEG does");
    *head = (jpeg_head){0};
    walker walk = {{data, size, 2}, head, 0, 0};
    for (;;) {
        int marker = next_marker(&walk.file);
        if (marker < 0) return truncated(why);
        if (marker == EOI) break;
        if (is_restart(marker)) continue;
        status read = read_marker(&walk, marker, why);
        if (read) return read;
    }
    if (!walk.scans) return bad(why, "it holds no pixels");
    if (!head->orientation) head->orientation = 1;
    return STATUS_OK;
}
