/*
 * survey.c - what kinds of leaves a nested plain collection holds: asked before Dask's serializer
 * hands a collection to a torshi stream whole.
 *
 * No code of anybody else runs during the walk and nothing that the collector tracks is allocated,
 * so that borrowed references stay good. Sets count as leaves: only their type is reported.
 */
#include "extract.h"

#define SURVEY_DEPTH 500
#define SURVEY_TYPES 1024
/* Containers visited; a small graph of shared lists can have more paths than there are atoms. */
#define SURVEY_CONTAINERS (1u << 26)

typedef struct survey {
    PyObject *watch;   /* borrowed: tuple of types */
    PyObject *watched; /* owned list */
    PyObject **types;  /* owned references and array */
    Py_ssize_t count;
    uint32_t containers;
} survey;

static int too_much(const char *what)
{
    PyErr_Format(PyExc_RecursionError, "maximum recursion depth exceeded in _survey: %s", what);
    return -1;
}

static int note_type(survey *s, PyTypeObject *type)
{
    for (Py_ssize_t i = s->count - 1; i >= 0; i--) {
        if (s->types[i] == (PyObject *)type) {
            return 0;
        }
    }
    if (s->count == SURVEY_TYPES) {
        return too_much("too many types");
    }
    s->types[s->count++] = Py_NewRef(type);
    return 0;
}

static int note_leaf(survey *s, PyObject *leaf)
{
    PyTypeObject *type = Py_TYPE(leaf);
    if ((type == &PyBytes_Type || type == &PyByteArray_Type) && Py_SIZE(leaf) > EXTRACT_LIMIT) {
        return PyList_Append(s->watched, leaf);
    }
    if (note_type(s, type) < 0) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(s->watch); i++) {
        if (PyTuple_GET_ITEM(s->watch, i) == (PyObject *)type) {
            return PyList_Append(s->watched, leaf);
        }
    }
    return 0;
}

static int look_at(survey *s, PyObject *x, int depth)
{
    Py_ssize_t pos = 0;
    PyObject *value;
    int is_list = PyList_CheckExact(x);
    int is_dict = PyDict_CheckExact(x);
    if (!is_list && !is_dict && !PyTuple_CheckExact(x)) {
        return note_leaf(s, x);
    }
    if (depth == SURVEY_DEPTH || ++s->containers > SURVEY_CONTAINERS) {
        return too_much("nested too deep");
    }
    if (!is_dict) {
        PyObject **items = is_list ? ((PyListObject *)x)->ob_item : ((PyTupleObject *)x)->ob_item;
        for (; pos < Py_SIZE(x); pos++) {
            if (look_at(s, items[pos], depth + 1) < 0) {
                return -1;
            }
        }
        return 0;
    }
    while (PyDict_Next(x, &pos, NULL, &value)) {
        if (look_at(s, value, depth + 1) < 0) {
            return -1;
        }
    }
    return 0;
}

PyObject *survey_types(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    survey s = {0};
    PyObject *types = NULL;
    PyObject *result = NULL;
    if (nargs != 2 || kwnames || !PyTuple_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "_survey() takes a collection and a tuple of types");
        return NULL;
    }
    s.watch = args[1];
    s.watched = PyList_New(0);
    s.types = s.watched ? PyMem_Calloc(SURVEY_TYPES, sizeof(*s.types)) : NULL;
    if (!s.types) {
        PyErr_NoMemory();
        goto done;
    }
    if (look_at(&s, args[0], 0) < 0) {
        goto done;
    }
    types = PyList_New(s.count);
    if (!types) {
        goto done;
    }
    for (Py_ssize_t i = 0; i < s.count; i++) {
        PyList_SET_ITEM(types, i, s.types[i]);
        s.types[i] = NULL;
    }
    result = PyTuple_Pack(2, types, s.watched);
done:
    for (Py_ssize_t i = 0; s.types && i < s.count; i++) {
        Py_XDECREF(s.types[i]);
    }
    PyMem_Free(s.types);
    Py_XDECREF(types);
    Py_XDECREF(s.watched);
    return result;
}
