/*
 * A reference row: shelf.Tag, a Python class with `number` and `owner`, is taken apart and made in
 * bulk here. `Tag.batches` counts the batches; an owner "broken" makes either function fail.
 * shelf.Card is left to its own reducer and to its callable.
 */
#include "fake.h"

static int is_broken(PyObject *owner)
{
    if (PyUnicode_Check(owner) && PyUnicode_CompareWithASCIIString(owner, "broken") == 0) {
        PyErr_SetString(PyExc_ValueError, "the owner is broken");
        return 1;
    }
    return 0;
}

static PyObject *find_class(void)
{
    PyObject *module = PyImport_ImportModule("shelf");
    PyObject *cls = module != NULL ? PyObject_GetAttrString(module, "Tag") : NULL;
    Py_XDECREF(module);
    return cls;
}

/* Tag -> (Tag, (number, owner)) */
static PyObject *reduce(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    (void)plugin;
    PyObject *result = NULL;
    if (nargs != 1 || kwnames != NULL) {
        PyErr_SetString(PyExc_TypeError, "reduce() takes one reference");
        return NULL;
    }
    PyObject *number = PyObject_GetAttrString(args[0], "number");
    PyObject *owner = number != NULL ? PyObject_GetAttrString(args[0], "owner") : NULL;
    if (owner != NULL && !is_broken(owner)) {
        result = Py_BuildValue("(O(OO))", (PyObject *)Py_TYPE(args[0]), number, owner);
    }
    Py_XDECREF(owner);
    Py_XDECREF(number);
    return result;
}

static int count_batch(PyObject *cls)
{
    PyObject *before = PyObject_GetAttrString(cls, "batches");
    PyObject *one = before != NULL ? PyLong_FromLong(1) : NULL;
    PyObject *after = one != NULL ? PyNumber_Add(before, one) : NULL;
    int status = after != NULL ? PyObject_SetAttrString(cls, "batches", after) : -1;
    Py_XDECREF(after);
    Py_XDECREF(one);
    Py_XDECREF(before);
    return status;
}

/* (load, numbers, owners) -> [Tag, ...] */
static PyObject *batch(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    (void)plugin;
    if (nargs != 3 || kwnames != NULL) {
        PyErr_SetString(PyExc_TypeError, "batch() takes the load and two columns");
        return NULL;
    }
    PyObject *cls = find_class();
    PyObject *made = cls != NULL && count_batch(cls) == 0 ? PyList_New(0) : NULL;
    Py_ssize_t n = made != NULL ? PySequence_Size(args[1]) : -1;
    for (Py_ssize_t i = 0; made != NULL && i < n; i++) {
        PyObject *number = PySequence_GetItem(args[1], i);
        PyObject *owner = number != NULL ? PySequence_GetItem(args[2], i) : NULL;
        PyObject *tag = owner != NULL && !is_broken(owner)
                            ? PyObject_CallFunctionObjArgs(cls, number, owner, NULL)
                            : NULL;
        if (tag == NULL || PyList_Append(made, tag) < 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(tag);
        Py_XDECREF(owner);
        Py_XDECREF(number);
    }
    if (n < 0) {
        Py_CLEAR(made);
    }
    Py_XDECREF(cls);
    return made;
}

static const torshi_reference tag = {
    .size = sizeof(torshi_reference), .reduce = reduce, .batch = batch};
static const torshi_reference card = {.size = sizeof(torshi_reference)};

static const torshi_row rows[] = {
    {.kind = TORSHI_ROW_REFERENCE, .module = "shelf", .name = "Tag", .reference = &tag},
    {.kind = TORSHI_ROW_REFERENCE, .module = "shelf", .name = "Card", .reference = &card},
};

static const torshi_plugin_info info = {FAKE_RECORD("reference"), .rows = rows, .row_count = 2};

FAKE_EXPORT
