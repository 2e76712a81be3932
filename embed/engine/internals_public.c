/*
 * internals_public.c - the bulk services on CPython's public API alone.
 *
 * This edition is sufficient by itself, and the direct one takes its functions for whatever is
 * rare: large strings, odd keys, dicts that someone watches.
 */
#include "internals_layout.h"

void internals_drop(PyObject **slots, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_CLEAR(slots[i]);
    }
}

void internals_drop_columns(PyObject **const *columns, Py_ssize_t ncolumns, Py_ssize_t n)
{
    for (Py_ssize_t f = 0; f < ncolumns; f++) {
        internals_drop(columns[f], n);
    }
}

/* ---- scalars --------------------------------------------------------------------------------- */

static uint64_t read_le(const unsigned char *p, int width)
{
    uint64_t v = 0;
    for (int i = width; i-- > 0;) {
        v = v << 8 | p[i];
    }
    return v;
}

/* Two's complement without the implementation-defined cast. */
static int64_t as_signed(uint64_t v)
{
    int64_t s;
    memcpy(&s, &v, sizeof s);
    return s;
}

int public_make_ints(const unsigned char *le, int width_bytes, int64_t base, intptr_t n,
                     PyObject **out)
{
    for (intptr_t i = 0; i < n; i++) {
        uint64_t v = read_le(le + (size_t)i * (size_t)width_bytes, width_bytes) + (uint64_t)base;
        out[i] = PyLong_FromLongLong(as_signed(v));
        if (out[i] == NULL) {
            internals_drop(out, i);
            return -1;
        }
    }
    return 0;
}

int public_make_progression(int64_t start, int64_t step, intptr_t n, PyObject **out)
{
    uint64_t v = (uint64_t)start;
    for (intptr_t i = 0; i < n; i++, v += (uint64_t)step) {
        out[i] = PyLong_FromLongLong(as_signed(v));
        if (out[i] == NULL) {
            internals_drop(out, i);
            return -1;
        }
    }
    return 0;
}

int public_make_floats(const unsigned char *le, intptr_t n, PyObject **out)
{
    for (intptr_t i = 0; i < n; i++) {
        uint64_t bits = read_le(le + 8 * (size_t)i, 8);
        double d;
        memcpy(&d, &bits, sizeof d);
        out[i] = PyFloat_FromDouble(d);
        if (out[i] == NULL) {
            internals_drop(out, i);
            return -1;
        }
    }
    return 0;
}

int public_make_bytes(const unsigned char *blob, const uint32_t *lens, intptr_t n, PyObject **out)
{
    for (intptr_t i = 0; i < n; i++) {
        out[i] = PyBytes_FromStringAndSize((const char *)blob, (Py_ssize_t)lens[i]);
        if (out[i] == NULL) {
            internals_drop(out, i);
            return -1;
        }
        blob += lens[i];
    }
    return 0;
}

/* ---- strings --------------------------------------------------------------------------------- */

static const Py_UCS4 kind_limits[4] = {0x7F, 0xFF, 0xFFFF, 0x10FFFF};
static const unsigned char kind_widths[4] = {1, 1, 2, 4};

/* The largest character of a ready str's data, read through its own (aligned) buffer. */
static Py_UCS4 largest_char(PyObject *str, size_t len)
{
    int kind = (int)PyUnicode_KIND(str);
    const void *data = PyUnicode_DATA(str);
    Py_UCS4 largest = 0;
    for (size_t i = 0; i < len; i++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, i);
        largest = c > largest ? c : largest;
    }
    return largest;
}

PyObject *public_make_str(const unsigned char *chars, size_t len, unsigned kind, int *bad)
{
    if (kind > 3) {
        *bad = 1;
        return NULL;
    }
    Py_UCS4 floor = kind == 0 ? 0 : kind_limits[kind - 1] + 1;
    if (len == 0) {
        *bad = kind != 0;
        return *bad ? NULL : PyUnicode_New(0, 0);
    }
    if (len == 1) {
        uint64_t c = read_le(chars, kind_widths[kind]);
        *bad = c < floor || c > kind_limits[kind];
        return *bad ? NULL : PyUnicode_FromOrdinal((int)c);
    }
    PyObject *str = PyUnicode_New((Py_ssize_t)len, kind_limits[kind]);
    if (str == NULL) {
        return NULL;
    }
    unsigned char *data = PyUnicode_DATA(str);
#if PY_BIG_ENDIAN
    for (size_t i = 0, w = kind_widths[kind]; i < len * w; i++) {
        data[i] = chars[i / w * w + (w - 1 - i % w)];
    }
#else
    memcpy(data, chars, len * kind_widths[kind]);
#endif
    Py_UCS4 largest = largest_char(str, len);
    if (largest < floor || largest > kind_limits[kind]) {
        *bad = 1;
        /* A str may not hold characters beyond its kind, not even to be thrown away. */
        memset(data, 0, len * kind_widths[kind]);
        Py_DECREF(str);
        return NULL;
    }
    return str;
}

int public_make_strs(const unsigned char *blob, size_t blob_size, const uint32_t *lens,
                     const unsigned char *kinds, intptr_t n, PyObject **out)
{
    int bad = 0;
    (void)blob_size;
    for (intptr_t i = 0; i < n; i++) {
        unsigned kind = kinds == NULL ? 0 : kinds[i];
        out[i] = public_make_str(blob, lens[i], kind, &bad);
        if (out[i] == NULL) {
            internals_drop(out, i);
            return bad ? 1 : -1;
        }
        blob += (size_t)lens[i] * kind_widths[kind];
    }
    return 0;
}

/* ---- containers ------------------------------------------------------------------------------ */

int public_make_dicts(PyObject *const *keys, intptr_t nkeys, PyObject **const *columns, intptr_t n,
                      PyObject **out)
{
    int status = -1;
    intptr_t row;

    for (row = 0; row < n; row++) {
        out[row] = PyDict_New();
        if (out[row] == NULL) {
            goto done;
        }
        for (intptr_t f = 0; f < nkeys; f++) {
            if (PyDict_SetItem(out[row], keys[f], columns[f][row]) < 0) {
                row++;
                goto done;
            }
        }
    }
    status = 0;
done:
    if (status < 0) {
        internals_drop(out, row);
    }
    internals_drop_columns(columns, nkeys, n);
    return status;
}

int public_fill_dict(PyObject *dict, PyObject **keys, PyObject **values, intptr_t n, intptr_t more)
{
    int status = 0;
    (void)more;
    for (intptr_t i = 0; i < n && status == 0; i++) {
        status = PyDict_SetItem(dict, keys[i], values[i]);
        Py_CLEAR(keys[i]);
        Py_CLEAR(values[i]);
    }
    internals_drop(keys, n);
    internals_drop(values, n);
    return status;
}

PyObject *public_make_list(PyObject **values, intptr_t n)
{
    PyObject *list = PyList_New(n);
    if (list == NULL) {
        internals_drop(values, n);
        return NULL;
    }
    if (n > 0) {
        memcpy(&PyList_GET_ITEM(list, 0), values, (size_t)n * sizeof *values);
        memset(values, 0, (size_t)n * sizeof *values);
    }
    return list;
}

int public_fill_list(PyObject *list, PyObject **values, intptr_t n, intptr_t more)
{
    (void)more;
    PyObject *tail = public_make_list(values, n);
    if (tail == NULL) {
        return -1;
    }
    Py_ssize_t size = PyList_GET_SIZE(list);
    int status = PyList_SetSlice(list, size, size, tail);
    Py_DECREF(tail);
    return status;
}

int public_dict_view(PyObject *dict, torshi_dict_view *view)
{
    (void)dict;
    (void)view;
    return 0;
}

/* Without a managed dict the place of __dict__ is public: tp_dictoffset. */
int public_instance_view(PyObject *obj, torshi_instance_view *view)
{
    PyTypeObject *type = Py_TYPE(obj);
    memset(view, 0, sizeof *view);
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        return 0;
    }
    if (type->tp_dictoffset == 0) {
        return 1;
    }
    if (type->tp_dictoffset < 0) {
        return 0;
    }
    PyObject *dict = *(PyObject **)(void *)((char *)obj + type->tp_dictoffset);
    if (dict != NULL && !PyDict_CheckExact(dict)) {
        return 0;
    }
    view->dict = dict;
    return 1;
}
