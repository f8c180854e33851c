/* The kernel as a Python module. Arguments are checked here; all work is done without the GIL. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "workspace.h"

enum { MAX_SIDE = 1 << 20, FEW_BITS = 8 };

/* Spans */

static int check_span(const span *axis) {
    int sound = isfinite(axis->start) && isfinite(axis->extent) && axis->extent > 0 &&
                fabs(axis->start) < MAX_SIDE && axis->extent < MAX_SIDE && axis->low >= 0 &&
                axis->low < axis->high && axis->high <= MAX_SIDE && axis->size > 0 &&
                axis->size <= MAX_SIDE;
    if (!sound) PyErr_SetString(PyExc_TypeError, "a span is empty, infinite or outside its limits");
    return sound;
}

/* Whether elements of so many bytes can be read where an array has them. */
static int is_aligned(const Py_buffer *view, size_t element) { return (uintptr_t)view->buf % element == 0; }

/* Slots */

typedef struct {
    Py_buffer pixels, levels;
    int has_levels;
    slot out;
} target;

static void target_release(target *held) {
    PyBuffer_Release(&held->pixels);
    if (held->has_levels) PyBuffer_Release(&held->levels);
}

static int get_levels(PyObject *levels, target *held) {
    held->has_levels = 0;
    held->out.levels = NULL;
    if (levels == Py_None) return 1;
    if (PyObject_GetBuffer(levels, &held->levels, PyBUF_SIMPLE)) return 0;
    if (held->levels.len != 6 * (Py_ssize_t)sizeof(float) || !is_aligned(&held->levels, sizeof(float))) {
        PyBuffer_Release(&held->levels);
        PyErr_SetString(PyExc_TypeError, "levels are six floats, aligned");
        return 0;
    }
    held->has_levels = 1;
    held->out.levels = held->levels.buf;
    return 1;
}

/* A writable array of dimensions (…, height, width, 3) whose elements suit the levels. */
static int get_target(PyObject *array, PyObject *levels, int dimensions, target *held) {
    if (!get_levels(levels, held)) return 0;
    if (PyObject_GetBuffer(array, &held->pixels, PyBUF_RECORDS)) {
        if (held->has_levels) PyBuffer_Release(&held->levels);
        return 0;
    }
    const Py_buffer *view = &held->pixels;
    Py_ssize_t element = held->has_levels ? (Py_ssize_t)sizeof(float) : 1;
    const char *format = held->has_levels ? "f" : "B";
    int at = dimensions - 3;
    int sound = view->ndim == dimensions && view->itemsize == element && view->format &&
                !strcmp(view->format, format) && view->shape[at + 2] == 3 &&
                view->strides[at + 2] == element && view->shape[at] > 0 && view->shape[at + 1] > 0 &&
                view->shape[at] <= MAX_SIDE && view->shape[at + 1] <= MAX_SIDE &&
                is_aligned(view, (size_t)element);
    for (int axis = 0; sound && axis < dimensions; axis++) sound = view->strides[axis] % element == 0;
    if (!sound) {
        target_release(held);
        PyErr_SetString(PyExc_TypeError,
                        "a slot is (height, width, 3) of uint8, or of float32 where levels are given, aligned");
        return 0;
    }
    held->out.bytes = view->buf;
    held->out.height = (int)view->shape[at];
    held->out.width = (int)view->shape[at + 1];
    held->out.row_stride = view->strides[at];
    held->out.pixel_stride = view->strides[at + 1];
    return 1;
}

static int fits(const target *held, const span *across, const span *down) {
    if (held->out.width == across->size && held->out.height == down->size) return 1;
    PyErr_SetString(PyExc_TypeError, "the slot is not of the size that the spans say");
    return 0;
}

static PyObject *finished(status result, const reason *why) {
    if (result == STATUS_NO_MEMORY) return PyErr_NoMemory();
    if (result == STATUS_UNREADABLE) return PyErr_SetFromErrno(PyExc_OSError);
    if (result) {
        int unusual = result == STATUS_UNUSUAL;
        PyErr_SetString(unusual ? PyExc_NotImplementedError : PyExc_ValueError, why->text);
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Functions */

static PyObject *walk(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer data;
    jpeg_head head;
    reason why = {""};
    if (!PyArg_ParseTuple(arguments, "y*", &data)) return NULL;
    status result;
    Py_BEGIN_ALLOW_THREADS
    result = jpeg_walk(data.buf, (size_t)data.len, &head, &why);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    if (result) return finished(result, &why);
    return Py_BuildValue("iiii", head.usual, head.width, head.height, head.orientation);
}

/* What is rendered: one of a JPEG, a record and pixels. */
typedef struct {
    const jpeg_file *jpeg;
    const record_file *record;
    const picture *pixels;
    int reduce;
} source;

static status in_workspace(const source *from, span across, span down, const slot *out, reason *why) {
    workspace *mine = workspace_take();
    if (!mine) return STATUS_NO_MEMORY;
    status result;
    if (from->jpeg)
        result = render_jpeg(mine, from->jpeg, across, down, from->reduce, out, why);
    else if (from->record)
        result = render_record(mine, from->record, across, down, from->reduce, out, why);
    else
        result = render_pixels(mine, from->pixels, across, down, out);
    workspace_return(mine);
    return result;
}

/* How a view is asked for, behind what it is of. */
typedef struct {
    int width, height, reduce;
    span across, down;
    PyObject *array, *levels;
} wanted_view;

#define VIEW_FORMAT "(ii)(ddiii)(ddiii)pOO"
#define VIEW_PLACES(of)                                                                                  \
    &(of).width, &(of).height, &(of).across.start, &(of).across.extent, &(of).across.low,                \
        &(of).across.high, &(of).across.size, &(of).down.start, &(of).down.extent, &(of).down.low,       \
        &(of).down.high, &(of).down.size, &(of).reduce, &(of).array, &(of).levels

static int is_inside(const wanted_view *asked) {
    if (asked->across.high <= asked->width && asked->down.high <= asked->height) return 1;
    PyErr_SetString(PyExc_TypeError, "a span reaches over the picture's edge");
    return 0;
}

static PyObject *render(const source *from, const wanted_view *asked) {
    target held;
    PyObject *outcome = NULL;
    if (!check_span(&asked->across) || !check_span(&asked->down) || !is_inside(asked)) return NULL;
    if (!get_target(asked->array, asked->levels, 3, &held)) return NULL;
    if (fits(&held, &asked->across, &asked->down)) {
        status result;
        reason why = {""};
        int said;
        Py_BEGIN_ALLOW_THREADS
        result = in_workspace(from, asked->across, asked->down, &held.out, &why);
        said = errno;
        Py_END_ALLOW_THREADS
        errno = said;
        outcome = finished(result, &why);
    }
    target_release(&held);
    return outcome;
}

static PyObject *jpeg(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer data;
    wanted_view asked;
    if (!PyArg_ParseTuple(arguments, "y*" VIEW_FORMAT, &data, VIEW_PLACES(asked))) return NULL;
    jpeg_file file = {data.buf, (size_t)data.len, asked.width, asked.height};
    source from = {&file, NULL, NULL, asked.reduce};
    PyObject *outcome = render(&from, &asked);
    PyBuffer_Release(&data);
    return outcome;
}

static PyObject *record_(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer data;
    wanted_view asked;
    if (!PyArg_ParseTuple(arguments, "y*" VIEW_FORMAT, &data, VIEW_PLACES(asked))) return NULL;
    record_file file = {data.buf, {-1, 0, (size_t)data.len}, asked.width, asked.height};
    source from = {NULL, &file, NULL, asked.reduce};
    PyObject *outcome = render(&from, &asked);
    PyBuffer_Release(&data);
    return outcome;
}

static PyObject *record_at(PyObject *self, PyObject *arguments) {
    (void)self;
    int descriptor;
    unsigned long long start, size;
    wanted_view asked;
    if (!PyArg_ParseTuple(arguments, "(iKK)" VIEW_FORMAT, &descriptor, &start, &size, VIEW_PLACES(asked))) return NULL;
    record_file file = {NULL, {descriptor, start, (size_t)size}, asked.width, asked.height};
    source from = {NULL, &file, NULL, asked.reduce};
    return render(&from, &asked);
}

/* What was made in the workspace's buffer, which is then returned; it is NULL where there was none. */
static PyObject *bytes_made(workspace *mine, status result, size_t made, const reason *why) {
    PyObject *outcome = result ? finished(result, why) : PyBytes_FromStringAndSize(mine->packed.bytes, (Py_ssize_t)made);
    if (mine) workspace_return(mine);
    return outcome;
}

static PyObject *pack_(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer data;
    int keep_head;
    reason why = {""};
    size_t made = 0;
    status result = STATUS_NO_MEMORY;
    if (!PyArg_ParseTuple(arguments, "y*p", &data, &keep_head)) return NULL;
    workspace *mine = workspace_take();
    if (mine) {
        Py_BEGIN_ALLOW_THREADS
        result = record_pack(mine, data.buf, (size_t)data.len, keep_head, &mine->packed, &made, &why);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return bytes_made(mine, result, made, &why);
}

static PyObject *record_jpeg(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer data;
    reason why = {""};
    size_t made = 0;
    status result = STATUS_NO_MEMORY;
    if (!PyArg_ParseTuple(arguments, "y*", &data)) return NULL;
    workspace *mine = workspace_take();
    if (mine) {
        Py_BEGIN_ALLOW_THREADS
        record from;
        result = record_open(&from, data.buf, (size_t)data.len, &why);
        if (!result) result = record_to_jpeg(mine, &from, &mine->packed, &made, &why);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return bytes_made(mine, result, made, &why);
}

static int get_picture(PyObject *array, Py_buffer *view, picture *seen) {
    if (PyObject_GetBuffer(array, view, PyBUF_RECORDS_RO)) return 0;
    int sound = view->ndim == 3 && view->format && !strcmp(view->format, "B") &&
                view->shape[2] == 3 && view->strides[2] == 1 && view->strides[1] == 3 && view->shape[0] <= MAX_SIDE &&
                view->shape[1] <= MAX_SIDE;
    if (!sound) {
        PyBuffer_Release(view);
        PyErr_SetString(PyExc_TypeError, "pixels are (height, width, 3) of uint8, row by row");
        return 0;
    }
    *seen = (picture){view->buf, view->strides[0], (int)view->shape[1], (int)view->shape[0]};
    return 1;
}

static PyObject *pixels(PyObject *self, PyObject *arguments) {
    (void)self;
    span across, down;
    PyObject *from, *array, *levels;
    if (!PyArg_ParseTuple(arguments, "O(ddiii)(ddiii)OO", &from, &across.start, &across.extent,
                          &across.low, &across.high, &across.size, &down.start, &down.extent,
                          &down.low, &down.high, &down.size, &array, &levels))
        return NULL;
    Py_buffer view;
    picture seen;
    if (!check_span(&across) || !check_span(&down) || !get_picture(from, &view, &seen)) return NULL;
    source whole = {NULL, NULL, &seen, 0};
    target held;
    PyObject *outcome = NULL;
    if (across.high > seen.width || down.high > seen.height) {
        PyErr_SetString(PyExc_TypeError, "a span reaches over the picture's edge");
    } else if (get_target(array, levels, 3, &held)) {
        if (fits(&held, &across, &down)) {
            status result;
            Py_BEGIN_ALLOW_THREADS
            result = in_workspace(&whole, across, down, &held.out, NULL);
            Py_END_ALLOW_THREADS
            outcome = finished(result, NULL);
        }
        target_release(&held);
    }
    PyBuffer_Release(&view);
    return outcome;
}

/* Cuts: a column is one value an image. */

typedef struct {
    Py_buffer pixels, samples, left, top, mirrored;
    int held;
} cut_buffers;

static void cut_release(cut_buffers *all) {
    Py_buffer *each[] = {&all->pixels, &all->samples, &all->left, &all->top, &all->mirrored};
    for (int at = 0; at < all->held; at++) PyBuffer_Release(each[at]);
}

static int cut_hold(cut_buffers *all, PyObject *const objects[5]) {
    Py_buffer *each[] = {&all->pixels, &all->samples, &all->left, &all->top, &all->mirrored};
    for (all->held = 0; all->held < 5; all->held++)
        if (PyObject_GetBuffer(objects[all->held], each[all->held], PyBUF_ND)) return 0;
    return 1;
}

static int near(int64_t place) { return place >= -MAX_SIDE && place <= MAX_SIDE; }

static int cut_sound(const cut_buffers *all, const target *held, cuts *wanted) {
    const Py_buffer *images = &all->pixels;
    Py_ssize_t count = held->pixels.shape[0], column = count * (Py_ssize_t)sizeof(int64_t);
    if (images->ndim != 4 || images->itemsize != 1 || images->shape[3] != 3 ||
        images->shape[1] > MAX_SIDE || images->shape[2] > MAX_SIDE || all->samples.len != column ||
        all->left.len != column || all->top.len != column || all->mirrored.len != count ||
        !is_aligned(&all->samples, sizeof(int64_t)) || !is_aligned(&all->left, sizeof(int64_t)) ||
        !is_aligned(&all->top, sizeof(int64_t)))
        return 0;
    *wanted = (cuts){images->buf, images->shape[0], (int)images->shape[2], (int)images->shape[1],
                     all->samples.buf, all->left.buf, all->top.buf, all->mirrored.buf, count};
    for (int64_t at = 0; at < wanted->count; at++)
        if (wanted->samples[at] < 0 || wanted->samples[at] >= wanted->images ||
            !near(wanted->left[at]) || !near(wanted->top[at]))
            return 0;
    return 1;
}

static PyObject *cut(PyObject *self, PyObject *arguments) {
    (void)self;
    PyObject *objects[5], *array, *levels;
    if (!PyArg_ParseTuple(arguments, "OOOOOOO", &objects[0], &objects[1], &objects[2], &objects[3],
                          &objects[4], &array, &levels))
        return NULL;
    cut_buffers all;
    target held;
    cuts wanted;
    PyObject *outcome = NULL;
    if (cut_hold(&all, objects) && get_target(array, levels, 4, &held)) {
        if (cut_sound(&all, &held, &wanted)) {
            status result = STATUS_NO_MEMORY;
            Py_BEGIN_ALLOW_THREADS
            workspace *mine = workspace_take();
            if (mine) {
                result = cut_images(mine, &wanted, &held.out, held.pixels.strides[0]);
                workspace_return(mine);
            }
            Py_END_ALLOW_THREADS
            outcome = finished(result, NULL);
        } else {
            PyErr_SetString(PyExc_TypeError, "a cut lies outside the array, or columns differ in length or are not aligned");
        }
        target_release(&held);
    }
    cut_release(&all);
    return outcome;
}

/* Levels of whole batches, which lie one after the other. */

static PyObject *floats(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer shown, levels, out;
    if (!PyArg_ParseTuple(arguments, "y*y*w*", &shown, &levels, &out)) return NULL;
    int sound = shown.len % 3 == 0 && levels.len == 6 * (Py_ssize_t)sizeof(float) &&
                out.len == shown.len * (Py_ssize_t)sizeof(float) && is_aligned(&levels, sizeof(float)) &&
                is_aligned(&out, sizeof(float));
    if (sound) {
        Py_BEGIN_ALLOW_THREADS
        put_floats(shown.buf, levels.buf, (size_t)shown.len, out.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&shown);
    PyBuffer_Release(&levels);
    PyBuffer_Release(&out);
    if (!sound) {
        PyErr_SetString(PyExc_TypeError, "there must be a float for each level of whole pixels, aligned");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *uniforms(PyObject *self, PyObject *arguments) {
    (void)self;
    unsigned int key[2], epoch;
    Py_buffer samples, out;
    if (!PyArg_ParseTuple(arguments, "IIIy*w*", &key[0], &key[1], &epoch, &samples, &out)) return NULL;
    size_t count = (size_t)samples.len / sizeof(int64_t);
    size_t numbers = (size_t)out.len / sizeof(double);
    int sound = (count ? numbers % count == 0 : numbers == 0) && is_aligned(&samples, sizeof(int64_t)) &&
                is_aligned(&out, sizeof(double));
    if (sound && count) {
        uint32_t words[2] = {key[0], key[1]};
        Py_BEGIN_ALLOW_THREADS
        philox_uniforms(words, epoch, samples.buf, count, numbers / count, out.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&samples);
    PyBuffer_Release(&out);
    if (!sound) {
        PyErr_SetString(PyExc_TypeError, "there must be as many numbers for each sample, aligned");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* A place outside would walk for ever, or lead to one that is taken; among far fewer places than the bits
 * have room for, a walk would be too long. */
static int all_below(const uint64_t *places, size_t count, unsigned long long below) {
    for (size_t at = 0; at < count; at++)
        if (places[at] >= below) return 0;
    return 1;
}

static PyObject *permute(PyObject *self, PyObject *arguments) {
    (void)self;
    Py_buffer places, keys;
    unsigned int bits;
    unsigned long long below;
    if (!PyArg_ParseTuple(arguments, "w*y*IK", &places, &keys, &bits, &below)) return NULL;
    size_t count = (size_t)places.len / sizeof(uint64_t);
    int sound = keys.len == FEISTEL_ROUNDS * (Py_ssize_t)sizeof(uint64_t) && bits >= 2 && bits < 64 &&
                below <= 1ull << bits && (bits <= FEW_BITS || below > 1ull << (bits - 1)) && is_aligned(&places, sizeof(uint64_t)) &&
                is_aligned(&keys, sizeof(uint64_t)) && all_below(places.buf, count, below);
    if (sound) {
        Py_BEGIN_ALLOW_THREADS
        feistel_permute(places.buf, count, keys.buf, bits, below);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&places);
    PyBuffer_Release(&keys);
    if (!sound) {
        PyErr_SetString(PyExc_TypeError, "a place lies outside, the keys are not ten, or the bits do not suit");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *variants(PyObject *self, PyObject *arguments) {
    (void)self;
    (void)arguments;
    const passes *found[MOST_VARIANTS];
    int count = passes_possible(found);
    PyObject *names = PyList_New(0);
    for (int at = 0; names && at < count; at++) {
        PyObject *name = PyUnicode_FromString(found[at]->name);
        if (!name || PyList_Append(names, name)) Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *variant(PyObject *self, PyObject *arguments) {
    (void)self;
    const char *name = NULL;
    if (!PyArg_ParseTuple(arguments, "|z", &name)) return NULL;
    if (PyTuple_Size(arguments) && !passes_choose(name)) {
        PyErr_Format(PyExc_ValueError, "this processor has no variant %s", name);
        return NULL;
    }
    return PyUnicode_FromString(passes_in_use()->name);
}

static PyObject *read_so_far(PyObject *self, PyObject *arguments) {
    (void)self;
    (void)arguments;
    reading found = records_read();
    return Py_BuildValue("dK", found.seconds, (unsigned long long)found.bytes);
}

static PyMethodDef functions[] = {
    {"walk", walk, METH_VARARGS, "walk(data) -> (usual, width, height, orientation)"},
    {"jpeg", jpeg, METH_VARARGS, "jpeg(data, size, across, down, reduce, slot, levels)"},
    {"record", record_, METH_VARARGS, "record(data, size, across, down, reduce, slot, levels)"},
    {"record_at", record_at, METH_VARARGS, "record_at((descriptor, start, bytes), size, across, …)"},
    {"pack", pack_, METH_VARARGS, "pack(data, keep_head) -> record"},
    {"record_jpeg", record_jpeg, METH_VARARGS, "record_jpeg(data) -> JPEG"},
    {"pixels", pixels, METH_VARARGS, "pixels(pixels, across, down, slot, levels)"},
    {"cut", cut, METH_VARARGS, "cut(pixels, samples, left, top, mirrored, slots, levels)"},
    {"floats", floats, METH_VARARGS, "floats(pixels, levels, out)"},
    {"uniforms", uniforms, METH_VARARGS, "uniforms(key0, key1, epoch, samples, out)"},
    {"permute", permute, METH_VARARGS, "permute(places, keys, bits, below), in place"},
    {"variants", variants, METH_NOARGS, "variants() -> names that this processor can do, the best last"},
    {"variant", variant, METH_VARARGS, "variant([name]) -> name of the one in use; None chooses the best"},
    {"read_so_far", read_so_far, METH_NOARGS, "read_so_far() -> (seconds, bytes) this thread read of records"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_fused", "Fused decoding, resampling and drawing.", 0, functions,
    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__fused(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddIntConstant(module, "ARITHMETIC", ARITHMETIC)) {
        Py_DECREF(module);
        return NULL;
    }
    workspace_mind_forks();
    return module;
}
