/*
 * classify.c - looking at values: which column each goes to.
 */
#include "encode.h"
#include "encode_ref.h"

#include <math.h>

static const value_kind pending = {KIND_PENDING, 0};

bool items_are_plain(chunk_writer *w, PyObject *tuple, int level)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        if (!is_plain_value(w, PyTuple_GET_ITEM(tuple, i), level + 3)) {
            return false;
        }
    }
    return true;
}

bool is_plain_value(chunk_writer *w, PyObject *obj, int level)
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
    if (level > DEEPEST) {
        return false;
    }
    if (type == &PyTuple_Type) {
        return PyTuple_GET_SIZE(obj) <= (Py_ssize_t)TORSHI_MAX_ARITY &&
               items_are_plain(w, obj, level);
    }
    if (type == &PyDict_Type || type == &PyList_Type) {
        return false;
    }
    type_entry *entry = type_of(w, obj);
    if (!entry) {
        w->failed = true;
        return false;
    }
    return entry->form >= TYPE_DATE && is_known_value(w, obj, entry, level);
}

/* Tuples and values: pending when they are in the memo already, as opcodes take them from there. */
static bool is_fresh_value(chunk_writer *w, PyObject *obj, unsigned flags)
{
    return (flags & COLUMN_PLAIN) || Py_REFCNT(obj) == 1 ||
           w->services->memo_find(w->dump, obj) < 0;
}

/* A row's keys are those of a MAP one level down. */
static bool dict_has_plain_keys(chunk_writer *w, PyObject *dict, int level)
{
    torshi_dict_view view;
    if (w->objects->dict_view(dict, &view) && view.unicode_keys) {
        return true;
    }
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict, &position, &key, &value)) {
        span one = span_of(&key, 1);
        if (!keys_are_plain(w, &one, level + 2)) {
            return false;
        }
    }
    return true;
}

static value_kind classify_container(chunk_writer *w, PyObject *obj, int level)
{
    if (level > DEEPEST) {
        return pending;
    }
    if (PyDict_CheckExact(obj)) {
        return PyDict_GET_SIZE(obj) < LONG_ROW && dict_has_plain_keys(w, obj, level)
                   ? (value_kind){KIND_DICT, 0}
                   : pending;
    }
    Py_ssize_t n = PyList_GET_SIZE(obj);
    if (n >= LONG_ROW ||
        (n && classify(w, PyList_GET_ITEM(obj, 0), level + 1, 0).kind == KIND_PENDING)) {
        return pending; /* where the first item is pending, most are: a list of its own is shorter
                         */
    }
    return (value_kind){KIND_LIST, 0};
}

static value_kind classify_object(chunk_writer *w, PyObject *obj, int level, unsigned flags)
{
    type_entry *entry = level <= DEEPEST ? type_of(w, obj) : NULL;
    if (!entry) {
        w->failed |= PyErr_Occurred() != NULL;
        return pending;
    }
    if (entry->form == TYPE_INSTANCE) {
        return flags & COLUMN_PLAIN ? pending : (value_kind){KIND_INSTANCE, (uintptr_t)entry};
    }
    if (entry->form == TYPE_REFERENCE) {
        return flags & COLUMN_PLAIN ? pending : classify_ref(w, obj, entry, level);
    }
    if (entry->form >= TYPE_DATE && is_known_value(w, obj, entry, level) &&
        is_fresh_value(w, obj, flags)) {
        type_entry *variant = value_variant(w, obj, entry);
        return variant ? (value_kind){KIND_VALUE, (uintptr_t)variant} : pending;
    }
    return pending;
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
    if (type == &PyDict_Type || type == &PyList_Type) {
        return flags & COLUMN_PLAIN ? pending : classify_container(w, obj, level);
    }
    if (type == &PyBytes_Type) {
        bool fits = (flags & COLUMN_PLAIN) || PyBytes_GET_SIZE(obj) < LONG_TEXT;
        return (value_kind){fits ? KIND_BYTES : KIND_PENDING, 0};
    }
    if (type == &PyTuple_Type) {
        Py_ssize_t n = PyTuple_GET_SIZE(obj);
        /* An item was asked about for three levels further down than its own, or more. */
        bool plain = n == 0 || (flags & COLUMN_CHECKED) || is_plain_value(w, obj, level);
        return plain && (n == 0 || is_fresh_value(w, obj, flags))
                   ? (value_kind){KIND_TUPLE, (uintptr_t)n}
                   : pending;
    }
    return classify_object(w, obj, level, flags);
}

/* ---- keys ---------------------------------------------------------------------------------------
 */
/* A NaN is found again only as the same object; some values run code to be compared. */
static bool equals_itself(chunk_writer *w, PyObject *obj)
{
    if (PyFloat_CheckExact(obj)) {
        return !isnan(PyFloat_AS_DOUBLE(obj));
    }
    if (PyTuple_CheckExact(obj)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(obj); i++) {
            if (!equals_itself(w, PyTuple_GET_ITEM(obj, i))) {
                return false;
            }
        }
        return true;
    }
    PyTypeObject *type = Py_TYPE(obj);
    if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBytes_Type ||
        type == &PyBool_Type || obj == Py_None) {
        return true;
    }
    type_entry *entry = type_of(w, obj);
    w->failed |= !entry;
    return entry &&
           (entry->form == TYPE_DATE || entry->form == TYPE_DATETIME || entry->form == TYPE_TIME ||
            entry->form == TYPE_TIMEDELTA || entry->form == TYPE_UUID);
}

bool keys_are_plain(chunk_writer *w, const span *keys, int level)
{
    for (size_t i = 0; i < keys->n; i++) {
        PyObject *key = span_at(keys, i);
        PyTypeObject *type = Py_TYPE(key);
        if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBytes_Type) {
            continue;
        }
        if (!is_plain_value(w, key, level) || !equals_itself(w, key)) {
            return false;
        }
    }
    return true;
}
