/* Memory for the kernel that is refused once when a test asks for it. The sanitized kernel is built with these in
 * the place of the C library's functions. */
#include <errno.h>
#include <stdlib.h>

void *failing_calloc(size_t count, size_t size);
int failing_posix_memalign(void **made, size_t alignment, size_t size);
void fail_after(long allocations);

static long left = -1;

/* The allocation after so many others fails; none where the number is negative. */
__attribute__((visibility("default"))) void fail_after(long allocations) { left = allocations; }

static int fails(void) { return left >= 0 && left-- == 0; }

void *failing_calloc(size_t count, size_t size) { return fails() ? NULL : calloc(count, size); }

int failing_posix_memalign(void **made, size_t alignment, size_t size) {
    return fails() ? ENOMEM : posix_memalign(made, alignment, size);
}
