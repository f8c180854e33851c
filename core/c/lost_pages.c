/* Lets a process outlive the loss of pages that it has mapped: they read as zeros, and that is noted.

Whoever may write to a file may also cut it short, and a drive may fail: the next touch of such a page raises SIGBUS, which
ends the process without a word. Ranges that are watched get memory of the process's own from the page that was touched
to their end. All other faults go to whoever handled the signal before. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 2048 };

typedef struct {
    atomic_uintptr_t start; /* 0 where the entry is free; written last, since the handler looks at it first */
    atomic_uintptr_t end;
    atomic_int lost;
} range;

static range watched[MOST];
static atomic_int used; /* entries that were ever taken */
static atomic_int passed_on;
static uintptr_t page_bytes;
static struct sigaction before;

static int replace_pages(range *of, uintptr_t address) {
    uintptr_t start = atomic_load(&of->start), end = atomic_load(&of->end);
    if (!start || address < start || address >= end) return 0;
    uintptr_t page = address & ~(page_bytes - 1);
    void *made = mmap((void *)page, end - page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) return 0;
    atomic_store(&of->lost, 1);
    return 1;
}

/* The former handler finds everything as if this one had never been: a fault is met again at the same instruction. Should it
hand the signal back, nobody is left to take it. */
static void pass_on(int number, int from_kernel) {
    if (atomic_exchange(&passed_on, 1) || before.sa_handler == SIG_IGN)
        signal(number, SIG_DFL);
    else
        sigaction(number, &before, NULL);
    if (!from_kernel) raise(number);
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
    (void)context;
    int kept = errno, done = 0, count = atomic_load(&used);
    if (info->si_code == BUS_ADRERR)
        for (int at = 0; at < count && !done; at++) done = replace_pages(&watched[at], (uintptr_t)info->si_addr);
    if (!done) pass_on(number, info->si_code > 0);
    errno = kept;
}

static PyObject *arm(PyObject *self, PyObject *arguments) {
    (void)self;
    (void)arguments;
    struct sigaction now, ours;
    if (sigaction(SIGBUS, NULL, &now)) return PyErr_SetFromErrno(PyExc_OSError);
    if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_bus_error) Py_RETURN_NONE;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&ours.sa_mask);
    before = now;
    atomic_store(&passed_on, 0);
    if (sigaction(SIGBUS, &ours, NULL)) return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *watch(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer memory;
    if (!PyArg_ParseTuple(arguments, "y*", &memory)) return NULL;
    uintptr_t start = (uintptr_t)memory.buf;
    uintptr_t end = (start + (uintptr_t)memory.len + page_bytes - 1) & ~(page_bytes - 1);
    PyBuffer_Release(&memory);
    if (start & (page_bytes - 1) || start == end) {
        PyErr_SetString(PyExc_ValueError, "a mapping begins at a page and is not empty");
        return NULL;
    }
    for (int at = 0; at < MOST; at++) { /* the GIL is held: nobody else takes an entry meanwhile */
        if (atomic_load(&watched[at].start)) continue;
        atomic_store(&watched[at].lost, 0);
        atomic_store(&watched[at].end, end);
        atomic_store(&watched[at].start, start);
        if (at >= atomic_load(&used)) atomic_store(&used, at + 1);
        return PyLong_FromLong(at);
    }
    return PyLong_FromLong(-1);
}

static range *entry(PyObject *arguments) {
    int at;
    if (!PyArg_ParseTuple(arguments, "i", &at)) return NULL;
    if (at >= 0 && at < MOST) return &watched[at];
    PyErr_SetString(PyExc_ValueError, "there is no such entry");
    return NULL;
}

static PyObject *forget(PyObject *self, PyObject *arguments) {
    (void)self;
    range *of = entry(arguments);
    if (!of) return NULL;
    atomic_store(&of->start, 0);
    Py_RETURN_NONE;
}

static PyObject *is_lost(PyObject *self, PyObject *arguments) {
    (void)self;
    range *of = entry(arguments);
    return of ? PyBool_FromLong(atomic_load(&of->lost)) : NULL;
}

static PyMethodDef functions[] = {
    {"arm", arm, METH_NOARGS, "arm(): handle SIGBUS, unless that is done already"},
    {"watch", watch, METH_VARARGS, "watch(mapping) -> entry, or -1 where there is no room for more"},
    {"forget", forget, METH_VARARGS, "forget(entry), before its mapping goes"},
    {"is_lost", is_lost, METH_VARARGS, "is_lost(entry) -> whether pages of it are gone"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_lost_pages", "Outlives the loss of mapped pages.", 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__lost_pages(void) {
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    return PyModule_Create(&definition);
}
