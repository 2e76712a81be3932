/*
 * load_functions.c - the builtins load() and loads(), and the arguments that they share with
 * Unpickler.
 */
#include "load.h"

/* ---- arguments ------------------------------------------------------------------------------- */

/* A str argument without NULs. */
static int check_text(const char *function, const char *argument, PyObject *value)
{
    Py_ssize_t size;
    if (value == NULL) {
        return 0;
    }
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s() argument '%s' must be str, not %.50s", function,
                     argument, value == Py_None ? "None" : Py_TYPE(value)->tp_name);
        return -1;
    }
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text == NULL) {
        return -1;
    }
    if (strlen(text) != (size_t)size) {
        PyErr_SetString(PyExc_ValueError, "embedded null character");
        return -1;
    }
    return 0;
}

int load_parse(PyObject *args, PyObject *kwargs, const char *format, const char *first_name,
               const char *function, PyObject **first, load_options *options)
{
    char *names[] = {(char *)first_name, "fix_imports", "encoding", "errors", "buffers", NULL};
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    *options = (load_options){.fix_imports = 1};
    if (n > 1 &&
        n + (kwargs == NULL ? 0 : PyDict_GET_SIZE(kwargs)) < (Py_ssize_t)Py_ARRAY_LENGTH(names)) {
        /* PyArg_ParseTupleAndKeywords() says "at most", pickle's functions "exactly". */
        PyErr_Format(PyExc_TypeError, "%s() takes exactly 1 positional argument (%zd given)",
                     function, n);
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, first, &options->fix_imports,
                                     &options->encoding, &options->errors, &options->buffers)) {
        return -1;
    }
    if (check_text(function, "encoding", options->encoding) < 0) {
        return -1;
    }
    return check_text(function, "errors", options->errors);
}

/* Vectorcall arguments as a tuple and a dict, for the calls that have keywords. */
static int pack_arguments(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                          PyObject **tuple, PyObject **dict)
{
    *dict = NULL;
    *tuple = PyTuple_New(nargs);
    if (*tuple == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < nargs; i++) {
        PyTuple_SET_ITEM(*tuple, i, Py_NewRef(args[i]));
    }
    Py_ssize_t n = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    if (n > 0) {
        *dict = PyDict_New();
        if (*dict == NULL) {
            return -1;
        }
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (PyDict_SetItem(*dict, PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0) {
            return -1;
        }
    }
    return 0;
}

int load_set_options(torshi_load *load, const load_options *options)
{
    load->fix_imports = options->fix_imports;
    load->encoding = Py_XNewRef(options->encoding);
    load->errors = Py_XNewRef(options->errors);
    if (options->buffers != NULL && options->buffers != Py_None) {
        load->buffers = PyObject_GetIter(options->buffers);
        return load->buffers == NULL ? -1 : 0;
    }
    return 0;
}

void load_clear_options(torshi_load *load)
{
    Py_CLEAR(load->encoding);
    Py_CLEAR(load->errors);
    Py_CLEAR(load->buffers);
}

/* ---- load() and loads()
 * --------------------------------------------------------------------------- */

/* One pickle out of a load whose input is set up. */
static PyObject *load_once(torshi_load *load)
{
    PyObject *result = NULL;
    if (scratch_take(load, 1) == 0) {
        result = load_run(load);
    }
    scratch_return(load, 1);
    return result;
}

static PyObject *load_memory(torshi_state *st, PyObject *data, const load_options *options)
{
    torshi_load load;
    PyObject *result = NULL;
    load_init(&load, st);
    if (PyBytes_CheckExact(data)) { /* kept alive and unchanged by the caller */
        load.pos = (const unsigned char *)PyBytes_AS_STRING(data);
        load.end = load.pos + PyBytes_GET_SIZE(data);
    } else {
        if (PyObject_GetBuffer(data, &load.view, PyBUF_CONTIG_RO) < 0) {
            return NULL;
        }
        load.pos = load.view.buf;
        load.end = load.pos + load.view.len;
    }
    if (options == NULL || load_set_options(&load, options) == 0) {
        result = load_once(&load);
    }
    if (options != NULL) {
        load_clear_options(&load);
    }
    PyMem_Free(load.line);
    if (load.view.obj != NULL) {
        PyBuffer_Release(&load.view);
    }
    return result;
}

static PyObject *module_loads(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames)
{
    torshi_state *st = state_of_module(module);
    if (TORSHI_LIKELY(nargs == 1 && kwnames == NULL)) {
        return load_memory(st, args[0], NULL);
    }
    PyObject *tuple, *dict, *data, *result = NULL;
    load_options options;
    if (pack_arguments(args, nargs, kwnames, &tuple, &dict) == 0 &&
        load_parse(tuple, dict, "O|$pOOO:loads", "", "loads", &data, &options) == 0) {
        result = load_memory(st, data, &options);
    }
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

static PyObject *module_load(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames)
{
    PyObject *tuple = NULL, *dict = NULL, *file, *result = NULL;
    load_options options = {.fix_imports = 1};
    torshi_load load = {.st = state_of_module(module)};
    if (TORSHI_LIKELY(nargs == 1 && kwnames == NULL)) {
        file = args[0];
    } else if (pack_arguments(args, nargs, kwnames, &tuple, &dict) < 0 ||
               load_parse(tuple, dict, "O|$pOOO:load", "file", "load", &file, &options) < 0) {
        goto done;
    }
    if (input_from_file(&load, file) == 0 && load_set_options(&load, &options) == 0) {
        result = load_once(&load);
    }
    input_clear(&load);
    load_clear_options(&load);
done:
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

PyDoc_STRVAR(load_doc,
             "load($module, file, *, fix_imports=True, encoding='ASCII',\n"
             "     errors='strict', buffers=())\n"
             "--\n"
             "\n"
             "Read one pickle from a binary file and return the object.\n"
             "\n"
             "The file needs read() and readline(); afterwards it stands right behind\n"
             "the pickle. Only load data that you trust: a pickle can call anything.\n"
             "\n"
             "fix_imports, encoding and errors are for pickles made by Python 2: whether\n"
             "names of its modules are translated, and how its 8-bit strings are decoded\n"
             "('bytes': not at all). buffers gives the out-of-band buffers in order.");

PyDoc_STRVAR(loads_doc, "loads($module, data, /, *, fix_imports=True, encoding='ASCII',\n"
                        "      errors='strict', buffers=())\n"
                        "--\n"
                        "\n"
                        "Return the object that a bytes-like object holds the pickle of.\n"
                        "\n"
                        "What follows the pickle is ignored. Only load data that you trust: a\n"
                        "pickle can call anything. For the other arguments see load().");

PyMethodDef unpickler_functions[] = {
    {"load", FASTCALL_FN(module_load), METH_FASTCALL | METH_KEYWORDS, load_doc},
    {"loads", FASTCALL_FN(module_loads), METH_FASTCALL | METH_KEYWORDS, loads_doc},
    {NULL, NULL, 0, NULL},
};
