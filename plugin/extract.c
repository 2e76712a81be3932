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
    PyObject *copy; /* owned until it is placed in its parent's copy */
    PyObject *key;  /* owned: where the copy goes in the parent; NULL at the top */
    Py_ssize_t pos; /* PyDict_Next position, or next list index */
    int foreign;    /* hashing key can run somebody's code */
} level;

typedef struct walk {
    const torshi_objects *objects;
    extract_types types;    /* borrowed from the caller */
    PyObject *init;         /* owned: see plain_init; NULL to call to_serialize itself */
    PyObject *no_arguments; /* owned: () */
    PyObject *ser;          /* owned */
    PyObject *big;          /* owned; NULL while either all or none of ser is a byte string */
    Py_ssize_t bigs;        /* how many paths belong into big */
    level *levels;          /* owned */
    Py_ssize_t depth;
    Py_ssize_t room;
    Py_ssize_t limit;
    Py_ssize_t foreign; /* how many levels are */
    int paused;         /* the collector is, by us */
} walk;

/* ---- the collector ----------------------------------------------------------------------------
 */

/*
 * Thousands of fresh copies in a row make the collector walk them, and on 3.11 again and again. It
 * rests until the call returns, except while somebody else's code runs.
 */
static void pause_collector(walk *w)
{
    if (!w->paused) {
        w->paused = PyGC_Disable();
    }
}

static void resume_collector(walk *w)
{
    if (w->paused) {
        w->paused = 0;
        PyGC_Enable();
    }
}

/* Keys of these types hash and compare without anybody's code. */
static inline int is_foreign(PyObject *key)
{
    return !PyUnicode_CheckExact(key) && !PyLong_CheckExact(key);
}

/* ---- the walk ---------------------------------------------------------------------------------
 */

static PyObject *path_of(const walk *w, Py_ssize_t levels, PyObject *last)
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

static void raise_too_deep(const walk *w)
{
    PyObject *path = path_of(w, w->depth < 9 ? w->depth : 9, NULL);
    if (path) {
        PyErr_Format(PyExc_RecursionError,
                     "maximum recursion depth exceeded in extract_serialize, path begins %.400R",
                     path);
        Py_DECREF(path);
    }
}

static inline int is_walked(PyObject *value)
{
    return PyDict_CheckExact(value) || PyList_CheckExact(value);
}

static PyObject *copy_of(PyObject *container)
{
    return PyDict_CheckExact(container) ? PyDict_Copy(container)
                                        : PyList_GetSlice(container, 0, PyList_GET_SIZE(container));
}

/* Start on a container: push a level. Steals `copy` and `key`, which may be NULL at the top. */
static int push_level(walk *w, PyObject *copy, PyObject *key)
{
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
    w->levels[w->depth] = (level){.copy = copy, .key = key, .foreign = key && is_foreign(key)};
    w->foreign += w->levels[w->depth++].foreign;
    return 0;
error:
    Py_DECREF(copy);
    Py_XDECREF(key);
    return -1;
}

/* 1: `value` is to be taken out; *wrap says whether it is a byte string to be wrapped. */
static inline int is_wanted(const walk *w, PyObject *value, int *wrap)
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

static inline PyObject *value_at(const torshi_dict_view *view, intptr_t i)
{
    const unsigned char *entry = view->base + (size_t)i * view->stride;
    return view->values ? view->values[i]
                        : *(PyObject *const *)(const void *)(entry + view->value_offset);
}

/* Whether nothing in a copy is walked or taken out, so that it needs no level of its own. */
static int is_plain(const walk *w, PyObject *copy)
{
    int wrap;
    torshi_dict_view view;
    Py_ssize_t pos = 0;
    PyObject *value;
    if (PyList_CheckExact(copy)) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(copy); i++) {
            value = PyList_GET_ITEM(copy, i);
            if (is_walked(value) || is_wanted(w, value, &wrap)) {
                return 0;
            }
        }
    } else if (w->objects->dict_view(copy, &view)) {
        for (intptr_t i = 0; i < view.count; i++) {
            PyObject *value = value_at(&view, i);
            if (value && (is_walked(value) || is_wanted(w, value, &wrap))) {
                return 0;
            }
        }
    } else {
        while (PyDict_Next(copy, &pos, NULL, &value)) {
            if (is_walked(value) || is_wanted(w, value, &wrap)) {
                return 0;
            }
        }
    }
    return 1;
}

/* Note path in `big`. While all of ser is byte strings, or none, there is no set to keep: the set
   is made of ser's keys then, whose hashes are known. */
static int note_big(walk *w, PyObject *path)
{
    if (!w->big && w->bigs++ == PyDict_GET_SIZE(w->ser)) {
        return 0;
    }
    if (!w->big) {
        w->big = PySet_New(NULL);
    }
    return w->big ? PySet_Add(w->big, path) : -1;
}

static int note_other(walk *w)
{
    if (!w->big && w->bigs) {
        w->big = PySet_New(w->ser);
    }
    return w->big || !w->bigs ? 0 : -1;
}

/* The third result: new reference or NULL. */
static PyObject *big_paths(walk *w)
{
    if (w->big) {
        return Py_NewRef(w->big);
    }
    return PySet_New(w->bigs ? w->ser : NULL);
}

/*
 * The __init__ of to_serialize when it is a plain class with an __init__ written in Python, as
 * Dask's is: type.__call__ would make the object and call it, by way of an argument tuple. A third
 * of the call on a message of large byte strings. NULL without an exception for anything else.
 */
static PyObject *plain_init(PyObject *to_serialize)
{
    PyTypeObject *type = (PyTypeObject *)to_serialize;
    PyObject *init;
    if (!PyType_CheckExact(to_serialize) || type->tp_new != PyBaseObject_Type.tp_new ||
        type->tp_init == PyBaseObject_Type.tp_init ||
        PyType_HasFeature(type, Py_TPFLAGS_IS_ABSTRACT)) {
        return NULL;
    }
    init = PyObject_GetAttrString(to_serialize, "__init__");
    if (!init) {
        PyErr_Clear();
    } else if (!PyFunction_Check(init)) {
        Py_CLEAR(init);
    }
    return init;
}

/* to_serialize(value): new reference or NULL. */
static PyObject *wrap_value(walk *w, PyObject *value)
{
    PyObject *arguments[2] = {NULL, value};
    PyObject *result;
    PyTypeObject *type = (PyTypeObject *)w->types.to_serialize;
    if (!w->init) {
        resume_collector(w);
        result = PyObject_CallOneArg(w->types.to_serialize, value);
        pause_collector(w);
        return result;
    }
    arguments[0] = type->tp_new(type, w->no_arguments, NULL);
    if (!arguments[0]) {
        return NULL;
    }
    resume_collector(w);
    result = PyObject_Vectorcall(w->init, arguments, 2, NULL);
    pause_collector(w);
    if (result && result != Py_None) {
        PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'",
                     Py_TYPE(result)->tp_name);
        Py_CLEAR(result);
    }
    if (!result) {
        Py_DECREF(arguments[0]);
        return NULL;
    }
    Py_DECREF(result);
    return arguments[0];
}

/* Put value (kept alive by the caller) into ser under the path that ends in key. */
static int take_out(walk *w, PyObject *key, PyObject *value, int wrap)
{
    int status = -1;
    int foreign = w->foreign || is_foreign(key);
    PyObject *path = path_of(w, w->depth, key);
    PyObject *taken = NULL;
    if (!path) {
        return -1;
    }
    taken = wrap ? wrap_value(w, value) : Py_NewRef(value);
    if (!taken) {
        goto done;
    }
    if (foreign) {
        resume_collector(w);
    }
    status = wrap ? note_big(w, path) : note_other(w);
    if (status == 0) {
        status = PyDict_SetItem(w->ser, path, taken);
    }
    if (foreign) {
        pause_collector(w);
    }
done:
    Py_XDECREF(taken);
    Py_DECREF(path);
    return status;
}

/* dict[key] = value, or del dict[key] with value NULL; a key of somebody else's is hashed with the
   collector at work. */
static int change(walk *w, PyObject *dict, PyObject *key, PyObject *value)
{
    int foreign = is_foreign(key);
    int status;
    if (foreign) {
        resume_collector(w);
    }
    status = value ? PyDict_SetItem(dict, key, value) : PyDict_DelItem(dict, key);
    if (foreign) {
        pause_collector(w);
    }
    return status;
}

/* Store a finished child in its parent's copy. Steals `child`. */
static int place(walk *w, PyObject *parent, PyObject *key, Py_ssize_t index, PyObject *child)
{
    int status;
    if (PyList_CheckExact(parent)) {
        return PyList_SetItem(parent, index, child);
    }
    status = change(w, parent, key, child);
    Py_DECREF(child);
    return status;
}

/* Copy a child; what is plain is placed at once, else a level is pushed. 1: placed; 0: pushed; -1.
 */
static int enter_child(walk *w, PyObject *child, PyObject *key, Py_ssize_t index)
{
    PyObject *parent = w->levels[w->depth - 1].copy;
    PyObject *copy = copy_of(child);
    int status;
    if (!copy) {
        return -1;
    }
    if (w->depth < w->limit && is_plain(w, copy)) {
        Py_XINCREF(key);
        status = place(w, parent, key, index, copy);
        Py_XDECREF(key);
        return status < 0 ? -1 : 1;
    }
    key = key ? Py_NewRef(key) : PyLong_FromSsize_t(index);
    if (!key) {
        Py_DECREF(copy);
        return -1;
    }
    return push_level(w, copy, key);
}

/* Go on with the list on top. 1: it is done; 0: a child was pushed; -1: error. */
static int walk_list(walk *w)
{
    PyObject *copy = w->levels[w->depth - 1].copy;
    for (Py_ssize_t i = w->levels[w->depth - 1].pos; i < PyList_GET_SIZE(copy); i++) {
        PyObject *value = PyList_GET_ITEM(copy, i);
        PyObject *key;
        int wrap;
        int status;
        if (is_walked(value)) {
            w->levels[w->depth - 1].pos = i; /* a child that is pushed comes to this place */
            status = enter_child(w, value, NULL, i);
            if (status <= 0) {
                return status;
            }
            continue;
        }
        if (!is_wanted(w, value, &wrap)) {
            continue;
        }
        key = PyLong_FromSsize_t(i);
        if (!key) {
            return -1;
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
static int walk_dict(walk *w)
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
            status = enter_child(w, value, key, 0);
            if (status <= 0) {
                return status;
            }
            continue;
        }
        if (!is_wanted(w, value, &wrap)) {
            continue;
        }
        Py_INCREF(key);
        Py_INCREF(value);
        status = take_out(w, key, value, wrap);
        if (status == 0) {
            status = change(w, copy, key, NULL);
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
static int pop_level(walk *w)
{
    level top = w->levels[--w->depth];
    level *parent = &w->levels[w->depth - 1];
    int status;
    w->foreign -= top.foreign;
    status = place(w, parent->copy, top.key, parent->pos, top.copy);
    parent->pos += PyList_CheckExact(parent->copy);
    Py_DECREF(top.key);
    return status;
}

static PyObject *walk_run(walk *w, PyObject *x)
{
    PyObject *copy = copy_of(x);
    if (!copy || push_level(w, copy, NULL) < 0) {
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
    w->depth = 0;
    return w->levels[0].copy;
}

/* Take the three classes from `types` (a module or any namespace); owned. */
static int types_from(PyObject *types, extract_types *out)
{
    out->serialize = PyObject_GetAttrString(types, "Serialize");
    out->serialized = out->serialize ? PyObject_GetAttrString(types, "Serialized") : NULL;
    out->to_serialize = out->serialized ? PyObject_GetAttrString(types, "to_serialize") : NULL;
    return out->to_serialize ? 0 : -1;
}

PyObject *extract_serialize(const torshi_objects *objects, const extract_types *own,
                            PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *types = NULL;
    PyObject *x2 = NULL;
    PyObject *big = NULL;
    PyObject *result = NULL;
    PyObject *x;
    extract_types named = {NULL, NULL, NULL};
    walk w = {.objects = objects, .types = *own, .limit = Py_GetRecursionLimit()};
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
    if (!w.ser) {
        goto done;
    }
    if (!is_walked(x)) {
        x2 = Py_NewRef(x);
    } else {
        if (types && types != Py_None) {
            if (types_from(types, &named) < 0) {
                goto done;
            }
            w.types = named;
            w.no_arguments = PyTuple_New(0);
            if (!w.no_arguments) {
                goto done;
            }
            w.init = plain_init(named.to_serialize);
        }
        pause_collector(&w);
        x2 = walk_run(&w, x);
    }
    big = x2 ? big_paths(&w) : NULL;
    if (big) {
        result = PyTuple_Pack(3, x2, w.ser, big);
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
    Py_XDECREF(big);
    Py_XDECREF(w.init);
    Py_XDECREF(w.no_arguments);
    extract_types_clear(&named);
    resume_collector(&w);
    return result;
}

/* ---- the inverse -------------------------------------------------------------------------------
 */

/* The container that holds the last step of path, by walking down from x; new reference. */
static PyObject *container_at(PyObject *x, PyObject *path)
{
    PyObject *here = Py_NewRef(x);
    for (Py_ssize_t i = 0; here && i + 1 < PyTuple_GET_SIZE(path); i++) {
        PyObject *next = PyObject_GetItem(here, PyTuple_GET_ITEM(path, i));
        Py_DECREF(here);
        here = next;
    }
    return here;
}

static int insert_one(PyObject *x, PyObject *path, PyObject *value, PyObject *bytestrings)
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

PyObject *insert_serialized(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *items;
    if (kwnames && PyTuple_GET_SIZE(kwnames)) {
        PyErr_SetString(PyExc_TypeError, "insert_serialized() takes no keyword arguments");
        return NULL;
    }
    if (nargs != 2 && nargs != 3) {
        PyErr_Format(PyExc_TypeError, "insert_serialized() takes 2 or 3 arguments (%zd given)",
                     nargs);
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
