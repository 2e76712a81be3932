/*
 * function_object.c - what Python sees of a function row: a callable that behaves like a builtin
 * function (it does not bind, it pickles by name, inspect knows its signature).
 */
#include "function_object.h"

#include <stddef.h>
#include <string.h>

#include <structmember.h>

typedef struct function_object {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    torshi_call_fn call;        /* NULL once closed */
    void *const *plugin_state;  /* borrowed from the registry; NULL once closed */
    const loader_entry *loader; /* borrowed from the registry; NULL: none, or closed */
    PyObject *module;           /* owned str */
    PyObject *name;             /* owned str: the last part of qualname */
    PyObject *qualname;         /* owned str */
    PyObject *doc;              /* owned str or None */
    PyObject *text_signature;   /* owned str or None */
    PyObject *weakrefs;
} function_object;

static PyObject *function_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf,
                                     PyObject *kwnames)
{
    function_object *f = (function_object *)self;
    if (TORSHI_UNLIKELY(f->call == NULL)) {
        PyErr_Format(PyExc_RuntimeError, "%U.%U: the engine it belongs to has gone", f->module,
                     f->qualname);
        return NULL;
    }
    if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) == 0) {
        kwnames = NULL;
    }
    return f->call(*f->plugin_state, args, PyVectorcall_NARGS(nargsf), kwnames);
}

/* Where the text after "name(args)\n--\n\n" begins, or NULL if doc does not begin like that. */
static const char *find_doc_text(const char *doc, const char *name)
{
    static const char mark[] = ")\n--\n\n";
    size_t length = strlen(name);
    if (strncmp(doc, name, length) != 0 || doc[length] != '(') {
        return NULL;
    }
    const char *end = strstr(doc, mark);
    return end != NULL ? end + sizeof(mark) - 1 : NULL;
}

/* The signature from begin to end, without the "$module" that builtins have for what they are bound
   to: these functions are bound to nothing. New, or NULL with an exception. */
static PyObject *make_signature(const char *begin, const char *end)
{
    static const char *const bound[] = {"($module, /, ", "($module, /", "($module, ", "($module"};
    for (size_t i = 0; i < sizeof(bound) / sizeof(bound[0]); i++) {
        size_t length = strlen(bound[i]);
        if ((size_t)(end - begin) > length && strncmp(begin, bound[i], length) == 0) {
            PyObject *rest =
                PyUnicode_FromStringAndSize(begin + length, end - begin - (Py_ssize_t)length);
            PyObject *signature = rest != NULL ? PyUnicode_FromFormat("(%U", rest) : NULL;
            Py_XDECREF(rest);
            return signature;
        }
    }
    return PyUnicode_FromStringAndSize(begin, end - begin);
}

static int set_doc(function_object *f, const char *doc, const char *name)
{
    const char *text = doc != NULL ? find_doc_text(doc, name) : NULL;
    if (text != NULL) {
        f->text_signature = make_signature(doc + strlen(name), text - strlen("\n--\n\n"));
        doc = text;
    } else {
        f->text_signature = Py_NewRef(Py_None);
    }
    f->doc = doc != NULL ? PyUnicode_FromString(doc) : Py_NewRef(Py_None);
    return f->text_signature == NULL || f->doc == NULL ? -1 : 0;
}

PyObject *function_new(PyTypeObject *type, const torshi_row *row, void *const *plugin_state)
{
    const char *dot = strrchr(row->name, '.');
    const char *name = dot != NULL ? dot + 1 : row->name;
    function_object *f = (function_object *)type->tp_alloc(type, 0);
    if (f == NULL) {
        return NULL;
    }
    f->vectorcall = function_vectorcall;
    f->call = row->call;
    f->plugin_state = plugin_state;
    f->module = PyUnicode_InternFromString(row->module);
    f->name = PyUnicode_InternFromString(name);
    f->qualname = PyUnicode_InternFromString(row->name);
    if (f->module == NULL || f->name == NULL || f->qualname == NULL ||
        set_doc(f, row->doc, name) < 0) {
        Py_DECREF(f);
        return NULL;
    }
    return (PyObject *)f;
}

void function_close(PyObject *function)
{
    function_object *f = (function_object *)function;
    f->call = NULL;
    f->plugin_state = NULL;
    f->loader = NULL;
}

const loader_entry *function_loader(PyObject *function)
{
    return ((function_object *)function)->loader;
}

void function_set_loader(PyObject *function, const loader_entry *loader)
{
    ((function_object *)function)->loader = loader;
}

static int function_traverse(PyObject *self, visitproc visit, void *arg)
{
    /* Everything else is a str, or belongs to the registry. */
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void function_dealloc(PyObject *self)
{
    function_object *f = (function_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (f->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    Py_XDECREF(f->module);
    Py_XDECREF(f->name);
    Py_XDECREF(f->qualname);
    Py_XDECREF(f->doc);
    Py_XDECREF(f->text_signature);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *function_repr(PyObject *self)
{
    function_object *f = (function_object *)self;
    return PyUnicode_FromFormat("<torshi function %U.%U>", f->module, f->qualname);
}

/* Like a builtin function it does not bind when found on a class. That it has __get__ at all makes
   inspect and pydoc take it for a routine, and read __text_signature__. */
static PyObject *function_get(PyObject *self, PyObject *Py_UNUSED(instance),
                              PyObject *Py_UNUSED(owner))
{
    return Py_NewRef(self);
}

static PyObject *function_reduce(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return Py_NewRef(((function_object *)self)->qualname);
}

static PyMethodDef function_methods[] = {
    {"__reduce__", function_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef function_members[] = {
    {"__module__", T_OBJECT, offsetof(function_object, module), READONLY, NULL},
    {"__name__", T_OBJECT, offsetof(function_object, name), READONLY, NULL},
    {"__qualname__", T_OBJECT, offsetof(function_object, qualname), READONLY, NULL},
    {"__doc__", T_OBJECT, offsetof(function_object, doc), READONLY, NULL},
    {"__text_signature__", T_OBJECT, offsetof(function_object, text_signature), READONLY, NULL},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(function_object, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(function_object, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot function_slots[] = {
    {Py_tp_call, TORSHI_FN(PyVectorcall_Call)},
    {Py_tp_dealloc, TORSHI_FN(function_dealloc)},
    {Py_tp_traverse, TORSHI_FN(function_traverse)},
    {Py_tp_repr, TORSHI_FN(function_repr)},
    {Py_tp_descr_get, TORSHI_FN(function_get)},
    {Py_tp_methods, function_methods},
    {Py_tp_members, function_members},
    {0, NULL},
};

static PyType_Spec function_spec = {
    .name = "_torshi.function",
    .basicsize = sizeof(function_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
             Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = function_slots,
};

PyTypeObject *function_type_new(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &function_spec, NULL);
}
