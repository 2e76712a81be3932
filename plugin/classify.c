/*
 * classify.c - looking at values: which column each goes to.
 */
#include "encode.h"

#include <math.h>

bool is_plain_value(PyObject *obj, int level)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (type == &PyUnicode_Type) {
        return PyUnicode_GET_LENGTH(obj) < LONG_TEXT;
    }
    if (type == &PyLong_Type || type == &PyFloat_Type || obj == Py_None || type == &PyBool_Type) {
        return true;
    }
    if (type == &PyBytes_Type) {
        return PyBytes_GET_SIZE(obj) < LONG_TEXT;
    }
    if (type == &PyTuple_Type) {
        Py_ssize_t n = PyTuple_GET_SIZE(obj);
        if (level > DEEPEST || n > (Py_ssize_t)TORSHI_MAX_ARITY) {
            return false;
        }
        for (Py_ssize_t i = 0; i < n; i++) {
            if (!is_plain_value(PyTuple_GET_ITEM(obj, i), level + 3)) {
                return false;
            }
        }
        return true;
    }
    return false;
}

value_kind classify(chunk_writer *w, PyObject *obj, int level, unsigned flags)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (type == &PyUnicode_Type) {
        bool fits = (flags & COLUMN_PLAIN) || PyUnicode_GET_LENGTH(obj) < LONG_TEXT;
        return (value_kind){fits ? KIND_STR : KIND_PENDING, 0};
    }
    if (type == &PyLong_Type) {
        int64_t v;
        return (value_kind){read_int64(obj, &v) ? KIND_INT : KIND_BIG, 0};
    }
    if (type == &PyFloat_Type) {
        return (value_kind){KIND_FLOAT, 0};
    }
    if (obj == Py_None) {
        return (value_kind){KIND_NONE, 0};
    }
    if (type == &PyBool_Type) {
        return (value_kind){KIND_BOOL, 0};
    }
    if (type == &PyBytes_Type) {
        bool fits = (flags & COLUMN_PLAIN) || PyBytes_GET_SIZE(obj) < LONG_TEXT;
        return (value_kind){fits ? KIND_BYTES : KIND_PENDING, 0};
    }
    if (type == &PyTuple_Type && is_plain_value(obj, level)) {
        if (PyTuple_GET_SIZE(obj) == 0 || (flags & COLUMN_PLAIN) || Py_REFCNT(obj) == 1 ||
            w->services->memo_find(w->dump, obj) < 0) {
            return (value_kind){KIND_TUPLE, (uintptr_t)PyTuple_GET_SIZE(obj)};
        }
    }
    return (value_kind){KIND_PENDING, 0};
}

/* A NaN is found again only as the same object. */
static bool equals_itself(PyObject *obj)
{
    if (PyFloat_CheckExact(obj)) {
        return !isnan(PyFloat_AS_DOUBLE(obj));
    }
    if (PyTuple_CheckExact(obj)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(obj); i++) {
            if (!equals_itself(PyTuple_GET_ITEM(obj, i))) {
                return false;
            }
        }
    }
    return true;
}

bool keys_are_plain(const span *keys)
{
    for (size_t i = 0; i < keys->n; i++) {
        PyObject *key = span_at(keys, i);
        PyTypeObject *type = Py_TYPE(key);
        if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBytes_Type) {
            continue;
        }
        if (!is_plain_value(key, 1) || !equals_itself(key)) {
            return false;
        }
    }
    return true;
}
