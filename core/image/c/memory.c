/* Buffers that only grow, and reasons. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

enum { ALIGNMENT = 64 };

status bad(reason *why, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    return STATUS_BAD;
}

status buffer_reserve(buffer *kept, size_t size) {
#ifdef EXACT_BUFFERS /* for sanitizers, which then see any step outside */
    size_t rounded = size;
#else
    if (size <= kept->size) return STATUS_OK;
    if (size > SIZE_MAX / 2) return STATUS_NO_MEMORY;
    size_t rounded = (size + size / 4 + 4095) & ~(size_t)4095;
#endif
    buffer_free(kept);
    if (posix_memalign(&kept->bytes, ALIGNMENT, rounded)) {
        kept->bytes = NULL;
        return STATUS_NO_MEMORY;
    }
    /* Vector loads may reach beyond what was written; they read zeros or old pixels, never chance. */
    memset(kept->bytes, 0, rounded);
    kept->size = rounded;
    return STATUS_OK;
}

status buffer_grow(buffer *kept, size_t size) {
    if (size <= kept->size) return STATUS_OK;
    buffer larger = {0};
    if (size > SIZE_MAX / 4 || buffer_reserve(&larger, size + size / 2)) return STATUS_NO_MEMORY;
    if (kept->size) memcpy(larger.bytes, kept->bytes, kept->size);
    buffer_free(kept);
    *kept = larger;
    return STATUS_OK;
}

void buffer_free(buffer *kept) {
    free(kept->bytes);
    *kept = (buffer){0};
}
