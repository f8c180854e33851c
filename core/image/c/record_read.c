/* Reads of a record in a file what a view needs: what it says of itself, and some rows of its tiles. */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "workspace.h"

enum { FIRST_BYTES = 4096 };

static _Thread_local reading account;

reading records_read(void) { return account; }

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static ssize_t timed_pread(const record_part *part, uint8_t *memory, size_t from, size_t to) {
    double began_s = now_s();
    ssize_t got = pread(part->file, memory + from, to - from, (off_t)(part->start + from));
    account.seconds += now_s() - began_s;
    if (got > 0) account.bytes += (uint64_t)got;
    return got;
}

static status read_part(const record_part *part, uint8_t *memory, size_t from, size_t to, reason *why) {
    while (from < to) {
        ssize_t got = timed_pread(part, memory, from, to);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return STATUS_UNREADABLE;
        if (!got) return bad(why, "it ends too soon");
        from += (size_t)got;
    }
    return STATUS_OK;
}

status record_read_index(const record_part *part, buffer *memory, record *made, reason *why) {
    size_t first = part->size < FIRST_BYTES ? part->size : FIRST_BYTES;
    if (part->size > SIZE_MAX - ROW_SLACK || buffer_reserve(memory, part->size + ROW_SLACK)) return STATUS_NO_MEMORY;
    status got = read_part(part, memory->bytes, 0, first, why);
    if (got) return got;
    size_t index = record_index_bytes(memory->bytes, part->size);
    got = read_part(part, memory->bytes, first, index < part->size ? index : part->size, why);
    return got ? got : record_open(made, memory->bytes, part->size, why);
}

status record_read_rows(const record_part *part, const record *of, int first, int last, reason *why) {
    size_t from, to;
    record_stretch(of, first, last, &from, &to);
    size_t data = (size_t)(of->data - of->bytes);
    return read_part(part, (uint8_t *)(uintptr_t)of->bytes, data + from, data + to, why);
}
