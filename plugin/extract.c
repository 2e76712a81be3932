/*
 * extract.c - extract_serialize and insert_serialized.
 *
 * Containers are copied whole (a memcpy with references for a list, a table copy for a dict) and
 * then only what differs is changed, so leaves cost nothing but the look at their type. The walk
 * keeps its own stack on the heap; a path is built only for what is taken out. Each level iterates
 * over its private copy, so that code run by a key's __hash__ or by the wrapper cannot disturb it.
 */
#include "extract.h"

typedef struct level {
    PyObject *copy;   /* owned until it is placed in its parent's copy */
    PyObject *key;    /* owned: where the copy goes in the parent; NULL at the top */
    Py_ssize_t pos;   /* PyDict_Next position, or next list index */
} level;

typedef struct walk {
    extract_types types; /* borrowed from the caller */
    PyObject *ser;       /* owned */
    PyObject *big;       /* owned */
    level *levels;       /* owned */
    Py_ssize_t depth;
    Py_ssize_t room;
    Py_ssize_t limit;
} walk;

static PyObject *
path_of(const walk *w, Py_ssize_t levels, PyObject *last)
{
    PyObject *path = PyTuple_New(levels + (last ? 1 : 0) - 1);
    if (!path) {
        return NULL;
    }
    for (Py_ssize_t i = 1; i < levels; i++) {
        PyTuple_SET_ITEM(path, i - 1, Py_NewRef(w->levels[i].key));
    }
    if (last) {
        PyTuple_SET_ITEM(path, levels - 1, Py_NewRef(last));
    }
    return path;
}

static void
raise_too_deep(const walk *w)
{
    PyObject *path = path_of(w, w->depth < 9 ? w->depth : 9, NULL);
    if (path) {
        PyErr_Format(PyExc_RecursionError,
                     "maximum recursion depth exceeded in extract_serialize, path begins %.400R", path);
        Py_DECREF(path);
    }
}

/* Start on a container: copy it and push a level. Steals `key`, which may be NULL. */
static int
push_level(walk *w, PyObject *source, PyObject *key)
{
    PyObject *copy = NULL;
    if (w->depth >= w->limit) {
        raise_too_deep(w);
        goto error;
    }
    if (w->depth == w->room) {
        Py_ssize_t room = w->room ? w->room * 2 : 16;
        level *grown = PyMem_Realloc(w->levels, (size_t)room * sizeof(level));
        if (!grown) {
            PyErr_NoMemory();
            goto error;
        }
        w->levels = grown;
        w->room = room;
    }
    copy = PyDict_CheckExact(source) ? PyDict_Copy(source)
                                     : PyList_GetSlice(source, 0, PyList_GET_SIZE(source));
    if (!copy) {
        goto error;
    }
    w->levels[w->depth++] = (level){.copy = copy, .key = key, .pos = 0};
    return 0;
error:
    Py_XDECREF(key);
    return -1;
}

/* 1: `value` is to be taken out; *wrap says whether it is a byte string to be wrapped. */
static inline int
is_wanted(const walk *w, PyObject *value, int *wrap)
{
    PyTypeObject *type = Py_TYPE(value);
    *wrap = 0;
    if (type == &PyBytes_Type) {
        *wrap = PyBytes_GET_SIZE(value) > EXTRACT_LIMIT;
        return *wrap;
    }
    if (type == &PyByteArray_Type) {
        *wrap = PyByteArray_GET_SIZE(value) > EXTRACT_LIMIT;
        return *wrap;
    }
    return (PyObject *)type == w->types.serialize || (PyObject *)type == w->types.serialized;
}

/* Put value (kept alive by the caller) into ser under the path that ends in key. */
static int
take_out(walk *w, PyObject *key, PyObject *value, int wrap)
{
    int status = -1;
    PyObject *wrapped = NULL;
    PyObject *path = path_of(w, w->depth, key);
    if (!path) {
        return -1;
    }
    if (wrap) {
        if (PySet_Add(w->big, path) < 0) {
            goto done;
        }
        wrapped = PyObject_CallOneArg(w->types.to_serialize, value);
        if (!wrapped) {
            goto done;
        }
        value = wrapped;
    }
    status = PyDict_SetItem(w->ser, path, value);
done:
    Py_XDECREF(wrapped);
    Py_DECREF(path);
    return status;
}

static inline int
is_walked(PyObject *value)
{
    return PyDict_CheckExact(value) || PyList_CheckExact(value);
}

/* Go on with the list on top. 1: it is done; 0: a child was pushed; -1: error. */
static int
walk_list(walk *w)
{
    PyObject *copy = w->levels[w->depth - 1].copy;
    Py_ssize_t i = w->levels[w->depth - 1].pos;
    for (; i < PyList_GET_SIZE(copy); i++) {
        PyObject *value = PyList_GET_ITEM(copy, i);
        int wrap;
        int status;
        PyObject *key;
        int nested = is_walked(value);
        if (!nested && !is_wanted(w, value, &wrap)) {
            continue;
        }
        key = PyLong_FromSsize_t(i);
        if (!key) {
            return -1;
        }
        if (nested) {
            w->levels[w->depth - 1].pos = i; /* the finished child comes to this place */
            return push_level(w, value, key);
        }
        Py_INCREF(value);
        status = take_out(w, key, value, wrap);
        Py_DECREF(key);
        if (status == 0) {
            status = PyList_SetItem(copy, i, Py_NewRef(Py_None));
        }
        Py_DECREF(value);
        if (status < 0) {
            return -1;
        }
    }
    return 1;
}

/* Go on with the dict on top; results as for walk_list. */
static int
walk_dict(walk *w)
{
    PyObject *copy = w->levels[w->depth - 1].copy;
    Py_ssize_t pos = w->levels[w->depth - 1].pos;
    PyObject *key;
    PyObject *value;
    while (PyDict_Next(copy, &pos, &key, &value)) {
        int wrap;
        int status;
        if (is_walked(value)) {
            w->levels[w->depth - 1].pos = pos;
            return push_level(w, value, Py_NewRef(key));
        }
        if (!is_wanted(w, value, &wrap)) {
            continue;
        }
        Py_INCREF(key);
        Py_INCREF(value);
        status = take_out(w, key, value, wrap);
        if (status == 0) {
            status = PyDict_DelItem(copy, key);
        }
        Py_DECREF(key);
        Py_DECREF(value);
        if (status < 0) {
            return -1;
        }
    }
    return 1;
}

/* The top level is done: put its copy into its parent's copy. */
static int
pop_level(walk *w)
{
    level top = w->levels[--w->depth];
    level *parent = &w->levels[w->depth - 1];
    int status;
    if (PyDict_CheckExact(parent->copy)) {
        status = PyDict_SetItem(parent->copy, top.key, top.copy);
        Py_DECREF(top.copy);
    }
    else {
        status = PyList_SetItem(parent->copy, parent->pos++, top.copy);
    }
    Py_DECREF(top.key);
    return status;
}

static PyObject *
walk_run(walk *w, PyObject *x)
{
    PyObject *result;
    if (push_level(w, x, NULL) < 0) {
        return NULL;
    }
    for (;;) {
        int done = PyDict_CheckExact(w->levels[w->depth - 1].copy) ? walk_dict(w) : walk_list(w);
        if (done < 0) {
            return NULL;
        }
        if (done && w->depth == 1) {
            break;
        }
        if (done && pop_level(w) < 0) {
            return NULL;
        }
    }
    result = w->levels[0].copy;
    w->depth = 0;
    return result;
}

/* Take the three classes from `types` (a module or any namespace); owned. */
static int
types_from(PyObject *types, extract_types *out)
{
    out->serialize = PyObject_GetAttrString(types, "Serialize");
    out->serialized = out->serialize ? PyObject_GetAttrString(types, "Serialized") : NULL;
    out->to_serialize = out->serialized ? PyObject_GetAttrString(types, "to_serialize") : NULL;
    return out->to_serialize ? 0 : -1;
}

PyObject *
extract_serialize(const extract_types *own, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *types = NULL;
    PyObject *x2 = NULL;
    PyObject *result = NULL;
    PyObject *x;
    extract_types named = {NULL, NULL, NULL};
    walk w = {.types = *own, .limit = Py_GetRecursionLimit()};
    Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;

    if (nargs != 1) {
        PyErr_Format(PyExc_TypeError,
                     "extract_serialize() takes exactly 1 positional argument (%zd given)", nargs);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < keywords; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        if (PyUnicode_CompareWithASCIIString(name, "types") != 0) {
            PyErr_Format(PyExc_TypeError,
                         "extract_serialize() got an unexpected keyword argument '%U'", name);
            return NULL;
        }
        types = args[nargs + i];
    }
    x = args[0];
    w.ser = PyDict_New();
    w.big = w.ser ? PySet_New(NULL) : NULL;
    if (!w.big) {
        goto done;
    }
    if (!is_walked(x)) {
        x2 = Py_NewRef(x);
    }
    else {
        if (types && types != Py_None) {
            if (types_from(types, &named) < 0) {
                goto done;
            }
            w.types = named;
        }
        x2 = walk_run(&w, x);
    }
    if (x2) {
        result = PyTuple_Pack(3, x2, w.ser, w.big);
    }
done:
    while (w.depth > 0) {
        level top = w.levels[--w.depth];
        Py_DECREF(top.copy);
        Py_XDECREF(top.key);
    }
    PyMem_Free(w.levels);
    Py_XDECREF(x2);
    Py_XDECREF(w.ser);
    Py_XDECREF(w.big);
    extract_types_clear(&named);
    return result;
}

/* ---- the inverse ------------------------------------------------------------------------------- */

/* The container that holds the last step of path, by walking down from x; new reference. */
static PyObject *
container_at(PyObject *x, PyObject *path)
{
    PyObject *here = Py_NewRef(x);
    for (Py_ssize_t i = 0; here && i + 1 < PyTuple_GET_SIZE(path); i++) {
        PyObject *next = PyObject_GetItem(here, PyTuple_GET_ITEM(path, i));
        Py_DECREF(here);
        here = next;
    }
    return here;
}

static int
insert_one(PyObject *x, PyObject *path, PyObject *value, PyObject *bytestrings)
{
    int status = -1;
    int unwrap;
    PyObject *here = NULL;
    PyObject *data = NULL;
    if (!PyTuple_Check(path) || PyTuple_GET_SIZE(path) == 0) {
        PyErr_Format(PyExc_TypeError, "a path must be a non-empty tuple, not %.200R", path);
        return -1;
    }
    unwrap = bytestrings ? PySequence_Contains(bytestrings, path) : 0;
    if (unwrap < 0) {
        goto done;
    }
    data = unwrap ? PyObject_GetAttrString(value, "data") : Py_NewRef(value);
    here = data ? container_at(x, path) : NULL;
    if (here) {
        status = PyObject_SetItem(here, PyTuple_GET_ITEM(path, PyTuple_GET_SIZE(path) - 1), data);
    }
done:
    Py_XDECREF(here);
    Py_XDECREF(data);
    return status;
}

PyObject *
insert_serialized(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *items;
    if (kwnames && PyTuple_GET_SIZE(kwnames)) {
        PyErr_SetString(PyExc_TypeError, "insert_serialized() takes no keyword arguments");
        return NULL;
    }
    if (nargs != 2 && nargs != 3) {
        PyErr_Format(PyExc_TypeError, "insert_serialized() takes 2 or 3 arguments (%zd given)", nargs);
        return NULL;
    }
    items = PyMapping_Items(args[1]);
    if (!items) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items); i++) {
        PyObject *pair = PyList_GET_ITEM(items, i);
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
            PyErr_SetString(PyExc_TypeError, "items() must give pairs");
            Py_DECREF(items);
            return NULL;
        }
        if (insert_one(args[0], PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1),
                       nargs == 3 ? args[2] : NULL) < 0) {
            Py_DECREF(items);
            return NULL;
        }
    }
    Py_DECREF(items);
    return Py_NewRef(args[0]);
}
