/* Stands for NVIDIA's driver, as far as KvikIO uses it. Its devices' memory is the host's.
 *
 *   STUB_START           what starting it gives (success)
 *   STUB_DEVICES         how many devices it sees (one)
 *   STUB_DEVICE_MEMORY   all memory is said to be a device's: KvikIO then copies it there
 */
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_INITIALIZED = 3, DEVICE_MEMORY = 2 };

static int setting(const char *name, int usual) {
    const char *text = getenv(name);
    return text ? atoi(text) : usual;
}

static int has_memory(void) { return setting("STUB_DEVICE_MEMORY", 0); }

/* Calls that only a driver with memory answers; nothing has to be done for them. */
#define ACCEPTS(name) \
    int name(void) { return has_memory() ? SUCCESS : NOT_INITIALIZED; }
ACCEPTS(cuCtxDestroy_v2)
ACCEPTS(cuCtxGetDevice)
ACCEPTS(cuCtxPopCurrent_v2)
ACCEPTS(cuCtxPushCurrent_v2)
ACCEPTS(cuDeviceGet)
ACCEPTS(cuDeviceGetAttribute)
ACCEPTS(cuDevicePrimaryCtxRelease_v2)
ACCEPTS(cuEventDestroy_v2)
ACCEPTS(cuEventQuery)
ACCEPTS(cuEventRecord)
ACCEPTS(cuEventSynchronize)
ACCEPTS(cuMemHostRegister_v2)
ACCEPTS(cuMemHostUnregister)
ACCEPTS(cuMemcpyAsync)
ACCEPTS(cuMemcpyDtoHAsync_v2)
ACCEPTS(cuStreamDestroy_v2)
ACCEPTS(cuStreamSynchronize)

/* Things that are made: one of each is enough. */
static int make(void **made) {
    static int thing;
    *made = &thing;
    return has_memory() ? SUCCESS : NOT_INITIALIZED;
}
int cuCtxCreate_v4(void **context) { return make(context); }
int cuCtxGetCurrent(void **context) { return make(context); }
int cuDevicePrimaryCtxRetain(void **context) { return make(context); }
int cuEventCreate(void **event) { return make(event); }
int cuStreamCreate(void **stream) { return make(stream); }

int cuInit(unsigned flags) {
    (void)flags;
    return setting("STUB_START", SUCCESS);
}

int cuDeviceGetCount(int *count) {
    *count = setting("STUB_DEVICES", 1);
    return SUCCESS;
}

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return SUCCESS;
}

static int say(const char **text) {
    *text = "the driver is a stub";
    return SUCCESS;
}
int cuGetErrorName(int error, const char **text) { return (void)error, say(text); }
int cuGetErrorString(int error, const char **text) { return (void)error, say(text); }

int cuPointerGetAttribute(void **value, int attribute, void *memory) {
    (void)attribute, (void)memory;
    return make(value);
}

int cuPointerGetAttributes(unsigned count, const int *attributes, void **values, void *memory) {
    (void)attributes, (void)memory;
    for (unsigned at = 0; at < count; at++) *(unsigned *)values[at] = DEVICE_MEMORY;
    return has_memory() ? SUCCESS : NOT_INITIALIZED;
}

int cuMemGetAddressRange_v2(void **base, size_t *size, void *memory) {
    *base = memory;
    *size = (size_t)1 << 40;
    return has_memory() ? SUCCESS : NOT_INITIALIZED;
}

int cuMemHostAlloc(void **memory, size_t size, unsigned flags) {
    (void)flags;
    *memory = malloc(size);
    return has_memory() ? SUCCESS : NOT_INITIALIZED;
}

int cuMemFreeHost(void *memory) {
    free(memory);
    return SUCCESS;
}

int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t size, void *stream) {
    (void)stream;
    memcpy(to, from, size);
    return SUCCESS;
}

int cuMemcpyBatchAsync_v2(void **to, const void **from, const size_t *sizes, size_t count) {
    for (size_t at = 0; at < count; at++) memcpy(to[at], from[at], sizes[at]);
    return SUCCESS;
}

int cuLaunchHostFunc(void *stream, void (*call)(void *), void *with) {
    (void)stream;
    call(with);
    return SUCCESS;
}
