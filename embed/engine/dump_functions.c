/*
 * dump_functions.c - dump() and dumps(), in both flavours.
 */
#include "save.h"

typedef struct dump_args {
    PyObject *obj;             /* all borrowed */
    PyObject *file;            /* dump only */
    PyObject *protocol;        /* NULL: not given */
    PyObject *fix_imports;     /* NULL: not given, that is, true */
    PyObject *buffer_callback; /* NULL: not given */
    PyObject *reducers;        /* NULL: not given */
} dump_args;

/* Which arguments a function takes. */
typedef struct signature {
    const char *const *names;
    const char *format; /* for PyArg_ParseTupleAndKeywords: every argument an object */
    int has_file;
    int has_reducers;
} signature;

static const char *const dumps_names[] = {"obj", "protocol", "fix_imports", "buffer_callback",
                                          NULL};
static const char *const dump_names[] = {
    "obj", "file", "protocol", "fix_imports", "buffer_callback", NULL};
static const char *const torshi_dumps_names[] = {
    "obj", "protocol", "fix_imports", "buffer_callback", "reducers", NULL};
static const char *const torshi_dump_names[] = {
    "obj", "file", "protocol", "fix_imports", "buffer_callback", "reducers", NULL};

static const signature dumps_signature = {dumps_names, "O|O$OO:dumps", 0, 0};
static const signature dump_signature = {dump_names, "OO|O$OO:dump", 1, 0};
static const signature torshi_dumps_signature = {torshi_dumps_names, "O|O$OOO:dumps", 0, 1};
static const signature torshi_dump_signature = {torshi_dump_names, "OO|O$OOO:dump", 1, 1};

/* Any call at all, with CPython's own messages. 0 or -1. */
static TORSHI_NOINLINE int parse_slowly(const signature *sig, PyObject *const *args,
                                        Py_ssize_t nargs, PyObject *kwnames, dump_args *out)
{
    PyObject *tuple = PyTuple_New(nargs);
    PyObject *dict = PyDict_New();
    int status = -1;
    if (tuple == NULL || dict == NULL) {
        goto done;
    }
    for (Py_ssize_t i = 0; i < nargs; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    }
    for (Py_ssize_t i = 0; kwnames != NULL && i < PyTuple_GET_SIZE(kwnames); i++) {
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0) {
            goto done;
        }
    }
    /* What the tuple and the dict hold the caller holds, too. */
    if (sig->has_file) {
        status = PyArg_ParseTupleAndKeywords(
                     tuple, dict, sig->format, (char **)sig->names, &out->obj, &out->file,
                     &out->protocol, &out->fix_imports, &out->buffer_callback, &out->reducers)
                     ? 0
                     : -1;
    } else {
        status = PyArg_ParseTupleAndKeywords(tuple, dict, sig->format, (char **)sig->names,
                                             &out->obj, &out->protocol, &out->fix_imports,
                                             &out->buffer_callback, &out->reducers)
                     ? 0
                     : -1;
    }
done:
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return status;
}

/* Where the value of this keyword argument goes; NULL for one that is not in the signature. */
static PyObject **keyword_field(const signature *sig, dump_args *out, PyObject *name)
{
    /* Lengths that the compiler knows spare the calls that comparing would take. */
    if (sig->has_reducers && str_is(name, "reducers", 8)) {
        return &out->reducers;
    }
    if (str_is(name, "protocol", 8)) {
        return &out->protocol;
    }
    if (str_is(name, "fix_imports", 11)) {
        return &out->fix_imports;
    }
    return str_is(name, "buffer_callback", 15) ? &out->buffer_callback : NULL;
}

static int parse_args(const signature *sig, PyObject *const *args, Py_ssize_t nargs,
                      PyObject *kwnames, dump_args *out)
{
    Py_ssize_t needed = 1 + sig->has_file;
    *out = (dump_args){0};
    if (nargs < needed || nargs > needed + 1) {
        return parse_slowly(sig, args, nargs, kwnames, out);
    }
    out->obj = args[0];
    if (sig->has_file) {
        out->file = args[1];
    }
    if (nargs > needed) {
        out->protocol = args[needed];
    }
    for (Py_ssize_t i = 0; kwnames != NULL && i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject **field = keyword_field(sig, out, PyTuple_GET_ITEM(kwnames, i));
        if (field == NULL || *field != NULL) {
            *out = (dump_args){0};
            return parse_slowly(sig, args, nargs, kwnames, out);
        }
        *field = args[nargs + i];
    }
    return 0;
}

static PyObject *dump_anywhere(PyObject *module, const signature *sig, PyObject *const *args,
                               Py_ssize_t nargs, PyObject *kwnames)
{
    torshi_state *st = state_of_module(module);
    dump_args a;
    PyObject *result = NULL;
    torshi_dump *d;
    int fix_imports = 1;
    int reducers;
    if (parse_args(sig, args, nargs, kwnames, &a) < 0) {
        return NULL;
    }
    if (a.fix_imports != NULL && (fix_imports = PyObject_IsTrue(a.fix_imports)) < 0) {
        return NULL;
    }
    reducers =
        a.reducers != NULL ? torshi_parse_reducers(a.reducers) : st->savers->default_reducers;
    if (reducers < 0) {
        return NULL;
    }
    d = dump_acquire(st);
    if (d == NULL) {
        return NULL;
    }
    if (dump_set_protocol(d, a.protocol, fix_imports) < 0 ||
        (a.file != NULL && dump_set_file(d, a.file) < 0) ||
        (a.buffer_callback != NULL && dump_set_callback(d, a.buffer_callback) < 0)) {
        goto done;
    }
    d->use_rows = reducers == TORSHI_REDUCERS_CHUNKED && d->proto >= 4;
    if (dump_object(d, a.obj) < 0) {
        goto done;
    }
    if (a.file == NULL) {
        result = out_take(d);
        goto done;
    }
    if (d->memo.quiet) {
        memo_reset(&d->memo); /* it owns nothing that the file could drop */
    }
    if (out_flush(d) == 0) {
        result = Py_NewRef(Py_None);
    }
done:
    dump_release(d);
    return result;
}

static PyObject *pickle_dump(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames)
{
    return dump_anywhere(module, &dump_signature, args, nargs, kwnames);
}

static PyObject *pickle_dumps(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames)
{
    return dump_anywhere(module, &dumps_signature, args, nargs, kwnames);
}

static PyObject *torshi_dump_function(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                      PyObject *kwnames)
{
    return dump_anywhere(module, &torshi_dump_signature, args, nargs, kwnames);
}

static PyObject *torshi_dumps_function(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                       PyObject *kwnames)
{
    return dump_anywhere(module, &torshi_dumps_signature, args, nargs, kwnames);
}

#define DUMP_TEXT                                                                                  \
    "Write a pickle of obj to the open file.\n\n"                                                  \
    "protocol is 0 to 5, a negative number for the highest, or None for the default. file needs\n" \
    "a write() method that takes one bytes argument. With fix_imports, names are mapped to "       \
    "those\n"                                                                                      \
    "of Python 2 below protocol 3. buffer_callback, which needs protocol 5, is called with each\n" \
    "PickleBuffer; where it returns a false value the buffer stays out of the stream."
#define DUMPS_TEXT                                                                                 \
    "Return a pickle of obj as a bytes object.\n\n"                                                \
    "protocol is 0 to 5, a negative number for the highest, or None for the default. With\n"       \
    "fix_imports, names are mapped to those of Python 2 below protocol 3. buffer_callback, "       \
    "which\n"                                                                                      \
    "needs protocol 5, is called with each PickleBuffer; where it returns a false value the\n"     \
    "buffer stays out of the stream."
#define REDUCERS_TEXT                                                                              \
    "\n\nreducers is 'chunked' (rows of the registration table are asked), 'standard' (the "       \
    "bytes\n"                                                                                      \
    "of pickle), or None for the default."

PyDoc_STRVAR(pickle_dump_doc, "dump($module, /, obj, file, protocol=None, *, fix_imports=True,\n"
                              "     buffer_callback=None)\n--\n\n" DUMP_TEXT);
PyDoc_STRVAR(pickle_dumps_doc, "dumps($module, /, obj, protocol=None, *, fix_imports=True,\n"
                               "      buffer_callback=None)\n--\n\n" DUMPS_TEXT);
PyDoc_STRVAR(torshi_dump_doc,
             "dump($module, /, obj, file, protocol=None, *, fix_imports=True,\n"
             "     buffer_callback=None, reducers=None)\n--\n\n" DUMP_TEXT REDUCERS_TEXT);
PyDoc_STRVAR(torshi_dumps_doc,
             "dumps($module, /, obj, protocol=None, *, fix_imports=True,\n"
             "      buffer_callback=None, reducers=None)\n--\n\n" DUMPS_TEXT REDUCERS_TEXT);

#define FASTCALL(f) ((PyCFunction)(void (*)(void))(f))
#define CALL_FLAGS (METH_FASTCALL | METH_KEYWORDS)

PyMethodDef pickler_functions_pickle[] = {
    {"dump", FASTCALL(pickle_dump), CALL_FLAGS, pickle_dump_doc},
    {"dumps", FASTCALL(pickle_dumps), CALL_FLAGS, pickle_dumps_doc},
    {NULL, NULL, 0, NULL},
};

PyMethodDef pickler_functions_torshi[] = {
    {"dump", FASTCALL(torshi_dump_function), CALL_FLAGS, torshi_dump_doc},
    {"dumps", FASTCALL(torshi_dumps_function), CALL_FLAGS, torshi_dumps_doc},
    {NULL, NULL, 0, NULL},
};
