/*
 * internals_probe.c - a test-only extension module: the bulk services of embed/engine/internals*.c
 * as Python functions, each with the edition (1 direct, 0 public) as its first argument.
 * tests/python/test_internals.py compiles it together with those files.
 */
#include "internals.h"

#include <stdlib.h>
#include <string.h>

/* ---- arguments ------------------------------------------------------------------------------- */

/* New references to a list's items in an array of exactly that size (malloc: checked by tools). */
static PyObject **items_of(PyObject *list, Py_ssize_t *n)
{
    *n = PyList_GET_SIZE(list);
    PyObject **items = malloc((size_t)(*n > 0 ? *n : 1) * sizeof *items);
    if (items == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < *n; i++) {
        items[i] = Py_NewRef(PyList_GET_ITEM(list, i));
    }
    return items;
}

/* The slots that a stealing service has to leave empty. */
static int expect_empty(PyObject **items, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        if (items[i] != NULL) {
            PyErr_SetString(PyExc_AssertionError, "a stolen slot is not NULL");
            return -1;
        }
    }
    return 0;
}

/* A list that takes over n references, or what `status` says. Frees `out`. */
static PyObject *result_of(PyObject **out, Py_ssize_t n, int status)
{
    PyObject *list = NULL;
    if (status == 0) {
        list = PyList_New(n);
        for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
            PyList_SET_ITEM(list, i, out[i]);
        }
    } else if (status > 0) {
        list = PyLong_FromLong(status);
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_AssertionError, "-1 without an exception");
    }
    if (status != 0) {
        for (Py_ssize_t i = 0; i < n; i++) {
            if (out[i] != NULL) {
                Py_CLEAR(list);
                PyErr_SetString(PyExc_AssertionError, "a slot is set after a failure");
            }
        }
    }
    free(out);
    return list;
}

static PyObject **slots_for(Py_ssize_t n)
{
    PyObject **out = calloc((size_t)(n > 0 ? n : 1), sizeof *out);
    if (out == NULL) {
        PyErr_NoMemory();
    }
    return out;
}

/* A copy in a block of exactly this size, so that reading beyond it is seen by tools. */
static unsigned char *exact_copy(const char *bytes, Py_ssize_t size)
{
    unsigned char *copy = malloc((size_t)(size > 0 ? size : 1));
    if (copy == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(copy, bytes, (size_t)size);
    return copy;
}

static uint32_t *lens_of(PyObject *list)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    uint32_t *lens = malloc((size_t)(n > 0 ? n : 1) * sizeof *lens);
    if (lens == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        lens[i] = (uint32_t)PyLong_AsUnsignedLong(PyList_GET_ITEM(list, i));
    }
    return lens;
}

typedef struct column_set {
    Py_ssize_t count;
    Py_ssize_t rows;
    PyObject **columns[512];
} column_set;

static void columns_free(column_set *set)
{
    for (Py_ssize_t f = 0; f < set->count; f++) {
        free(set->columns[f]);
    }
}

static int columns_of(PyObject *list, Py_ssize_t rows, column_set *set)
{
    set->count = 0;
    set->rows = rows;
    for (Py_ssize_t f = 0; f < PyList_GET_SIZE(list); f++) {
        Py_ssize_t n;
        if (f >= 512 || PyList_GET_SIZE(PyList_GET_ITEM(list, f)) != rows) {
            PyErr_SetString(PyExc_ValueError, "columns of unequal length, or too many");
            return -1;
        }
        set->columns[f] = items_of(PyList_GET_ITEM(list, f), &n);
        if (set->columns[f] == NULL) {
            return -1;
        }
        set->count++;
    }
    return 0;
}

static int columns_expect_empty(const column_set *set)
{
    for (Py_ssize_t f = 0; f < set->count; f++) {
        if (expect_empty(set->columns[f], set->rows) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- scalars --------------------------------------------------------------------------------- */

static PyObject *probe_check(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    int ok = internals_check();
    return ok < 0 ? NULL : PyLong_FromLong(ok);
}

static PyObject *probe_make_ints(PyObject *module, PyObject *args)
{
    int direct;
    int width;
    const char *bytes;
    Py_ssize_t size;
    long long base;
    (void)module;
    if (!PyArg_ParseTuple(args, "iy#iL", &direct, &bytes, &size, &width, &base)) {
        return NULL;
    }
    Py_ssize_t n = size / width;
    unsigned char *copy = exact_copy(bytes, size);
    PyObject **out = copy == NULL ? NULL : slots_for(n);
    if (out == NULL) {
        free(copy);
        return NULL;
    }
    int status = internals_objects(direct)->make_ints(copy, width, base, n, out);
    free(copy);
    return result_of(out, n, status);
}

static PyObject *probe_make_progression(PyObject *module, PyObject *args)
{
    int direct;
    long long start;
    long long step;
    Py_ssize_t n;
    (void)module;
    if (!PyArg_ParseTuple(args, "iLLn", &direct, &start, &step, &n)) {
        return NULL;
    }
    PyObject **out = slots_for(n);
    if (out == NULL) {
        return NULL;
    }
    return result_of(out, n, internals_objects(direct)->make_progression(start, step, n, out));
}

static PyObject *probe_make_floats(PyObject *module, PyObject *args)
{
    int direct;
    const char *bytes;
    Py_ssize_t size;
    (void)module;
    if (!PyArg_ParseTuple(args, "iy#", &direct, &bytes, &size)) {
        return NULL;
    }
    unsigned char *copy = exact_copy(bytes, size);
    PyObject **out = copy == NULL ? NULL : slots_for(size / 8);
    if (out == NULL) {
        free(copy);
        return NULL;
    }
    int status = internals_objects(direct)->make_floats(copy, size / 8, out);
    free(copy);
    return result_of(out, size / 8, status);
}

/* make_strs(direct, blob, lens, kinds) with kinds None: make_bytes when `as_bytes`. */
static PyObject *probe_strings(PyObject *args, int as_bytes)
{
    int direct;
    const char *blob;
    Py_ssize_t size;
    const char *kinds = NULL;
    Py_ssize_t nkinds = 0;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "iy#O!|z#", &direct, &blob, &size, &PyList_Type, &list, &kinds,
                          &nkinds)) {
        return NULL;
    }
    Py_ssize_t n = PyList_GET_SIZE(list);
    uint32_t *lens = lens_of(list);
    unsigned char *copy = exact_copy(blob, size);
    PyObject **out = slots_for(n);
    PyObject *result = NULL;
    if (lens != NULL && copy != NULL && out != NULL) {
        const torshi_objects *objects = internals_objects(direct);
        int status = as_bytes ? objects->make_bytes(copy, lens, n, out)
                              : objects->make_strs(copy, (size_t)size, lens,
                                                   (const unsigned char *)kinds, n, out);
        result = result_of(out, n, status);
        out = NULL;
    }
    free(out);
    free(copy);
    free(lens);
    return result;
}

static PyObject *probe_make_strs(PyObject *module, PyObject *args)
{
    (void)module;
    return probe_strings(args, 0);
}

static PyObject *probe_make_bytes(PyObject *module, PyObject *args)
{
    (void)module;
    return probe_strings(args, 1);
}

/* ---- containers ------------------------------------------------------------------------------ */

static PyObject *probe_make_dicts(PyObject *module, PyObject *args)
{
    int direct;
    PyObject *keys;
    PyObject *lists;
    Py_ssize_t n;
    column_set set = {0};
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "iO!O!n", &direct, &PyList_Type, &keys, &PyList_Type, &lists, &n)) {
        return NULL;
    }
    PyObject **out = slots_for(n);
    if (out != NULL && columns_of(lists, n, &set) == 0) {
        int status = internals_objects(direct)->make_dicts(
            ((PyListObject *)keys)->ob_item, PyList_GET_SIZE(keys), set.columns, n, out);
        result = result_of(out, n, status);
        out = NULL;
        if (result != NULL && columns_expect_empty(&set) < 0) {
            Py_CLEAR(result);
        }
    }
    free(out);
    columns_free(&set);
    return result;
}

static PyObject *probe_fill_dict(PyObject *module, PyObject *args)
{
    int direct;
    PyObject *dict;
    PyObject *key_list;
    PyObject *value_list;
    Py_ssize_t more;
    Py_ssize_t n = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "iO!O!O!n", &direct, &PyDict_Type, &dict, &PyList_Type, &key_list,
                          &PyList_Type, &value_list, &more)) {
        return NULL;
    }
    PyObject **keys = items_of(key_list, &n);
    PyObject **values = items_of(value_list, &n);
    int status = -1;
    if (keys != NULL && values != NULL) {
        status = internals_objects(direct)->fill_dict(dict, keys, values, n, more);
        if (status == 0 && (expect_empty(keys, n) < 0 || expect_empty(values, n) < 0)) {
            status = -1;
        }
    }
    free(keys);
    free(values);
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

/* fill_pairs(dict or None, items, more): as an unpickler fills a dict; items are key, value ...;
   None stands for a new dict that nobody else knows. Returns the dict. */
static PyObject *probe_fill_pairs(PyObject *module, PyObject *args)
{
    PyObject *dict;
    PyObject *list;
    Py_ssize_t more;
    Py_ssize_t n;
    Py_ssize_t i = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!n", &dict, &PyList_Type, &list, &more)) {
        return NULL;
    }
    dict = dict == Py_None ? PyDict_New() : Py_NewRef(dict);
    PyObject **items = dict == NULL ? NULL : items_of(list, &n);
    int status = items == NULL ? -1 : 0;
    while (status == 0 && i < n / 2) {
        i += internals_fill_some(dict, items + 2 * i, n / 2 - i, more);
        if (i < n / 2) {
            status = PyDict_SetItem(dict, items[2 * i], items[2 * i + 1]);
            Py_DECREF(items[2 * i]);
            Py_DECREF(items[2 * i + 1]);
            i++;
        }
    }
    for (i *= 2; items != NULL && i < n; i++) {
        Py_DECREF(items[i]);
    }
    free(items);
    if (status < 0) {
        Py_CLEAR(dict);
    }
    return dict;
}

/* fill_empty_dict(dict or None, items): (status, dict), None as above. */
static PyObject *probe_fill_empty_dict(PyObject *module, PyObject *args)
{
    PyObject *dict;
    PyObject *list;
    Py_ssize_t n;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!", &dict, &PyList_Type, &list)) {
        return NULL;
    }
    dict = dict == Py_None ? PyDict_New() : Py_NewRef(dict);
    PyObject **items = dict == NULL ? NULL : items_of(list, &n);
    if (items == NULL) {
        Py_XDECREF(dict);
        return NULL;
    }
    int status = internals_fill_empty_dict(dict, items, n / 2);
    for (Py_ssize_t i = 0; status != 1 && i < n; i++) {
        Py_DECREF(items[i]);
    }
    free(items);
    if (status < 0) {
        Py_DECREF(dict);
        return NULL;
    }
    return Py_BuildValue("(iN)", status, dict);
}

static PyObject *probe_fill_list(PyObject *module, PyObject *args)
{
    int direct;
    PyObject *list;
    PyObject *value_list;
    Py_ssize_t more;
    Py_ssize_t n;
    (void)module;
    if (!PyArg_ParseTuple(args, "iO!O!n", &direct, &PyList_Type, &list, &PyList_Type, &value_list,
                          &more)) {
        return NULL;
    }
    PyObject **values = items_of(value_list, &n);
    if (values == NULL) {
        return NULL;
    }
    int status = internals_objects(direct)->fill_list(list, values, n, more);
    if (status == 0) {
        status = expect_empty(values, n);
    }
    free(values);
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *probe_make_list(PyObject *module, PyObject *args)
{
    int direct;
    PyObject *value_list;
    Py_ssize_t n;
    (void)module;
    if (!PyArg_ParseTuple(args, "iO!", &direct, &PyList_Type, &value_list)) {
        return NULL;
    }
    PyObject **values = items_of(value_list, &n);
    PyObject *list = values == NULL ? NULL : internals_objects(direct)->make_list(values, n);
    if (list != NULL && expect_empty(values, n) < 0) {
        Py_CLEAR(list);
    }
    free(values);
    return list;
}

/* ---- instances ------------------------------------------------------------------------------- */

static PyObject *probe_make_instances(PyObject *module, PyObject *args)
{
    int direct;
    int slots;
    int missing;
    PyObject *cls;
    PyObject *names;
    PyObject *lists;
    Py_ssize_t n;
    column_set set = {0};
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "iOO!O!nii", &direct, &cls, &PyList_Type, &names, &PyList_Type,
                          &lists, &n, &slots, &missing)) {
        return NULL;
    }
    PyObject **out = slots_for(n);
    if (out != NULL && columns_of(lists, n, &set) == 0) {
        int status = internals_objects(direct)->make_instances(
            cls, ((PyListObject *)names)->ob_item, PyList_GET_SIZE(names), slots, missing,
            set.columns, n, out);
        result = result_of(out, n, status);
        out = NULL;
        if (result != NULL && columns_expect_empty(&set) < 0) {
            Py_CLEAR(result);
        }
    }
    free(out);
    columns_free(&set);
    return result;
}

static PyObject *probe_build_instance(PyObject *module, PyObject *args)
{
    PyObject *inst;
    PyObject *list;
    Py_ssize_t n;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!", &inst, &PyList_Type, &list)) {
        return NULL;
    }
    PyObject **items = items_of(list, &n);
    if (items == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i += 2) {
        PyUnicode_InternInPlace(&items[i]);
    }
    int status = internals_build_instance(inst, items, n / 2);
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_DECREF(items[i]);
    }
    free(items);
    return status < 0 ? NULL : PyLong_FromLong(status);
}

/* ---- views ----------------------------------------------------------------------------------- */

/* ([(key, value), ...], len, unicode_keys, shared_keys) */
static PyObject *view_as_tuple(const torshi_dict_view *view)
{
    PyObject *pairs = PyList_New(0);
    for (intptr_t i = 0; pairs != NULL && i < view->count; i++) {
        const unsigned char *entry = view->base + (size_t)i * view->stride;
        PyObject *key;
        PyObject *value;
        memcpy(&key, entry + view->key_offset, sizeof key);
        memcpy(&value, entry + view->value_offset, sizeof value);
        if (view->values != NULL) {
            value = view->values[i];
        }
        if (value == NULL) {
            continue;
        }
        PyObject *pair = PyTuple_Pack(2, key, value);
        if (pair == NULL || PyList_Append(pairs, pair) < 0) {
            Py_CLEAR(pairs);
        }
        Py_XDECREF(pair);
    }
    return pairs == NULL ? NULL
                         : Py_BuildValue("(Nnii)", pairs, (Py_ssize_t)view->used,
                                         view->unicode_keys, view->shared_keys);
}

static PyObject *probe_dict_view(PyObject *module, PyObject *args)
{
    int direct;
    PyObject *dict;
    torshi_dict_view view;
    (void)module;
    if (!PyArg_ParseTuple(args, "iO!", &direct, &PyDict_Type, &dict)) {
        return NULL;
    }
    if (!internals_objects(direct)->dict_view(dict, &view)) {
        Py_RETURN_NONE;
    }
    return view_as_tuple(&view);
}

static PyObject *probe_instance_view(PyObject *module, PyObject *args)
{
    int direct;
    PyObject *obj;
    torshi_instance_view view;
    (void)module;
    if (!PyArg_ParseTuple(args, "iO", &direct, &obj)) {
        return NULL;
    }
    if (!internals_objects(direct)->instance_view(obj, &view)) {
        Py_RETURN_NONE;
    }
    return view.dict != NULL ? Py_NewRef(view.dict) : view_as_tuple(&view.view);
}

static PyMethodDef probe_methods[] = {
    {"check", probe_check, METH_NOARGS, NULL},
    {"make_ints", probe_make_ints, METH_VARARGS, NULL},
    {"make_progression", probe_make_progression, METH_VARARGS, NULL},
    {"make_floats", probe_make_floats, METH_VARARGS, NULL},
    {"make_strs", probe_make_strs, METH_VARARGS, NULL},
    {"make_bytes", probe_make_bytes, METH_VARARGS, NULL},
    {"make_dicts", probe_make_dicts, METH_VARARGS, NULL},
    {"fill_dict", probe_fill_dict, METH_VARARGS, NULL},
    {"fill_pairs", probe_fill_pairs, METH_VARARGS, NULL},
    {"fill_empty_dict", probe_fill_empty_dict, METH_VARARGS, NULL},
    {"fill_list", probe_fill_list, METH_VARARGS, NULL},
    {"make_list", probe_make_list, METH_VARARGS, NULL},
    {"make_instances", probe_make_instances, METH_VARARGS, NULL},
    {"build_instance", probe_build_instance, METH_VARARGS, NULL},
    {"dict_view", probe_dict_view, METH_VARARGS, NULL},
    {"instance_view", probe_instance_view, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef probe_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "internals_probe",
    .m_methods = probe_methods,
};

PyMODINIT_FUNC PyInit_internals_probe(void)
{
    return PyModule_Create(&probe_module);
}
