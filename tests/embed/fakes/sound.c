/*
 * Nothing is wrong with this one: it fits, counts its life, and brings what the tests of the
 * registry look at. `fakes.count()` gives [inits, finis] of the whole process.
 */
#include "fake.h"

#include <stdatomic.h>

static atomic_int inits, finis;

typedef struct {
    const torshi_services *services;
    PyObject *kept; /* owned */
} sound_state;

static int init(const torshi_services *services, void **state)
{
    sound_state *s = PyMem_Calloc(1, sizeof(*s));
    if (s == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    s->services = services;
    s->kept = PyList_New(0);
    /* Rows are there from init on. */
    if (s->kept == NULL || services->function_object(services, "fakes", "count") == NULL ||
        PyList_Append(s->kept, services->function_object(services, "fakes", "count")) < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_LookupError, "fakes.count is not there in init");
        }
        Py_XDECREF(s->kept);
        PyMem_Free(s);
        return -1;
    }
    *state = s;
    atomic_fetch_add(&inits, 1);
    return 0;
}

static void fini(void *state)
{
    sound_state *s = state;
    Py_XDECREF(s->kept);
    PyMem_Free(s);
    atomic_fetch_add(&finis, 1);
}

static int traverse(void *state, int (*visit)(PyObject *, void *), void *arg)
{
    Py_VISIT(((sound_state *)state)->kept);
    return 0;
}

static PyObject *call_count(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    (void)plugin;
    (void)args;
    (void)nargs;
    (void)kwnames;
    return Py_BuildValue("[ii]", atomic_load(&inits), atomic_load(&finis));
}

/* echo(*args, **kwargs) -> (args, kwargs) */
static PyObject *call_echo(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    (void)plugin;
    PyObject *result = NULL;
    PyObject *named = PyDict_New();
    PyObject *given = PyTuple_New(nargs);
    if (named == NULL || given == NULL) {
        goto done;
    }
    for (intptr_t i = 0; i < nargs; i++) {
        PyTuple_SET_ITEM(given, i, Py_NewRef(args[i]));
    }
    for (Py_ssize_t i = 0; kwnames != NULL && i < PyTuple_GET_SIZE(kwnames); i++) {
        if (PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0) {
            goto done;
        }
    }
    result = PyTuple_Pack(2, given, named);
done:
    Py_XDECREF(named);
    Py_XDECREF(given);
    return result;
}

/* exception(which) -> the exception class of pickle's that the services give */
static PyObject *call_exception(void *plugin, PyObject *const *args, intptr_t nargs,
                                PyObject *kwnames)
{
    const torshi_services *services = ((sound_state *)plugin)->services;
    if (nargs != 1 || kwnames != NULL) {
        PyErr_SetString(PyExc_TypeError, "exception() takes one number");
        return NULL;
    }
    long which = PyLong_AsLong(args[0]);
    if (which == -1 && PyErr_Occurred()) {
        return NULL;
    }
    return Py_NewRef(services->exception(services, (int)which));
}

static PyObject *call_method(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    return call_echo(plugin, args, nargs, kwnames);
}

/* Stands for fakes_sound.native(x): its Python version says "python". */
static PyObject *load_native(void *plugin, torshi_load *load, PyObject *const *args, intptr_t nargs)
{
    (void)plugin;
    (void)load;
    if (nargs != 1) {
        PyErr_SetString(PyExc_TypeError, "native() takes one argument");
        return NULL;
    }
    return Py_BuildValue("(sO)", "native", args[0]);
}

static const torshi_row rows[] = {
    {.kind = TORSHI_ROW_FUNCTION, .module = "fakes", .name = "count", .call = call_count},
    {.kind = TORSHI_ROW_FUNCTION, .module = "torshi", .name = "fakes_count", .call = call_count},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "fakes",
     .name = "echo",
     .call = call_echo,
     .doc = "echo($module, first=1, /, *rest)\n--\n\nGive back the arguments."},
    {.kind = TORSHI_ROW_FUNCTION, .module = "fakes", .name = "exception", .call = call_exception},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "fakes",
     .name = "Space.method",
     .call = call_method,
     .doc = "No signature here."},
    {.kind = TORSHI_ROW_LOADER, .module = "fakes_sound", .name = "native", .load = load_native},
    {.kind = TORSHI_ROW_LOADER, .module = "fakes_sound", .name = "Space.deep", .load = load_native},
};

static const torshi_plugin_info info = {
    FAKE_RECORD("sound"), .init = init, .fini = fini,
    .traverse = traverse, .rows = rows, .row_count = sizeof(rows) / sizeof(rows[0]),
};

FAKE_EXPORT
