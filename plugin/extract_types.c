/*
 * extract_types.c - torshi.Serialize and torshi.Serialized, wrappers with the attributes, equality
 * and hash that Dask's classes of these names have.
 */
#include "extract.h"

#include <structmember.h>

#define SLOT_FN(f) (__extension__(void *)(f))

typedef struct wrapper {
    PyObject_HEAD
    PyObject *first;  /* data, or header; owned */
    PyObject *second; /* frames; owned, NULL in Serialize */
    PyObject *weakrefs;
} wrapper;

static int wrapper_traverse(wrapper *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->first);
    Py_VISIT(self->second);
    return 0;
}

static int wrapper_clear(wrapper *self)
{
    Py_CLEAR(self->first);
    Py_CLEAR(self->second);
    return 0;
}

static void wrapper_dealloc(wrapper *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (self->weakrefs) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    wrapper_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static int serialize_init(wrapper *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"data", NULL};
    PyObject *data;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Serialize", names, &data)) {
        return -1;
    }
    Py_XSETREF(self->first, Py_NewRef(data));
    return 0;
}

static int serialized_init(wrapper *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"header", "frames", NULL};
    PyObject *header;
    PyObject *frames;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:Serialized", names, &header, &frames)) {
        return -1;
    }
    Py_XSETREF(self->first, Py_NewRef(header));
    Py_XSETREF(self->second, Py_NewRef(frames));
    return 0;
}

static int fields_equal(PyObject *a, PyObject *b)
{
    int equal;
    if (!a || !b) {
        return a == b;
    }
    Py_INCREF(a);
    Py_INCREF(b);
    equal = PyObject_RichCompareBool(a, b, Py_EQ);
    Py_DECREF(a);
    Py_DECREF(b);
    return equal;
}

static PyObject *wrapper_compare(PyObject *left, PyObject *right, int op)
{
    wrapper *a = (wrapper *)left;
    wrapper *b = (wrapper *)right;
    int equal;
    if ((op != Py_EQ && op != Py_NE) || !PyObject_TypeCheck(right, Py_TYPE(left))) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    equal = fields_equal(a->first, b->first);
    if (equal > 0) {
        equal = fields_equal(a->second, b->second);
    }
    if (equal < 0) {
        return NULL;
    }
    return PyBool_FromLong(op == Py_EQ ? equal : !equal);
}

static Py_hash_t serialize_hash(wrapper *self)
{
    PyObject *data = self->first ? self->first : Py_None;
    Py_hash_t hash;
    Py_INCREF(data);
    hash = PyObject_Hash(data);
    Py_DECREF(data);
    return hash;
}

static PyObject *serialize_repr(wrapper *self)
{
    return PyUnicode_FromFormat("<Serialize: %.200R>", self->first ? self->first : Py_None);
}

static PyObject *wrapper_reduce(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    wrapper *self = (wrapper *)op;
    if (self->second) {
        return Py_BuildValue("O(OO)", Py_TYPE(self), self->first, self->second);
    }
    return Py_BuildValue("O(O)", Py_TYPE(self), self->first ? self->first : Py_None);
}

static PyMethodDef wrapper_methods[] = {
    {"__reduce__", wrapper_reduce, METH_NOARGS, "Pickle by class and fields."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef serialize_members[] = {
    {"data", T_OBJECT_EX, offsetof(wrapper, first), 0, "what is to be serialized"},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(wrapper, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMemberDef serialized_members[] = {
    {"header", T_OBJECT_EX, offsetof(wrapper, first), 0, "what says how to deserialize"},
    {"frames", T_OBJECT_EX, offsetof(wrapper, second), 0, "the serialized bytes"},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(wrapper, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const char serialize_doc[] =
    "Serialize(data)\n--\n\nMark an object inside a message as one to be serialized on its own.";
static const char serialized_doc[] =
    "Serialized(header, frames)\n--\n\nAn object that is already serialized: a header and frames.";

static PyType_Slot serialize_slots[] = {
    {Py_tp_doc, SLOT_FN(serialize_doc)},
    {Py_tp_init, SLOT_FN(serialize_init)},
    {Py_tp_dealloc, SLOT_FN(wrapper_dealloc)},
    {Py_tp_traverse, SLOT_FN(wrapper_traverse)},
    {Py_tp_clear, SLOT_FN(wrapper_clear)},
    {Py_tp_richcompare, SLOT_FN(wrapper_compare)},
    {Py_tp_hash, SLOT_FN(serialize_hash)},
    {Py_tp_repr, SLOT_FN(serialize_repr)},
    {Py_tp_methods, SLOT_FN(wrapper_methods)},
    {Py_tp_members, SLOT_FN(serialize_members)},
    {0, NULL},
};

static PyType_Slot serialized_slots[] = {
    {Py_tp_doc, SLOT_FN(serialized_doc)},
    {Py_tp_init, SLOT_FN(serialized_init)},
    {Py_tp_dealloc, SLOT_FN(wrapper_dealloc)},
    {Py_tp_traverse, SLOT_FN(wrapper_traverse)},
    {Py_tp_clear, SLOT_FN(wrapper_clear)},
    {Py_tp_richcompare, SLOT_FN(wrapper_compare)},
    {Py_tp_hash, SLOT_FN(PyObject_HashNotImplemented)},
    {Py_tp_methods, SLOT_FN(wrapper_methods)},
    {Py_tp_members, SLOT_FN(serialized_members)},
    {0, NULL},
};

static PyType_Spec serialize_spec = {
    .name = "torshi.Serialize",
    .basicsize = sizeof(wrapper),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = serialize_slots,
};

static PyType_Spec serialized_spec = {
    .name = "torshi.Serialized",
    .basicsize = sizeof(wrapper),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = serialized_slots,
};

/* Serialize(data) without an argument tuple: half the cost of a call, and messages have thousands.
 */
static PyObject *serialize_vectorcall(PyObject *type, PyObject *const *args, size_t nargsf,
                                      PyObject *kwnames)
{
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    wrapper *self;
    PyObject *positional;
    PyObject *keywords = NULL;
    if (nargs == 1 && !(kwnames && PyTuple_GET_SIZE(kwnames))) {
        self = (wrapper *)PyType_GenericAlloc((PyTypeObject *)type, 0);
        if (self) {
            self->first = Py_NewRef(args[0]);
        }
        return (PyObject *)self;
    }
    positional = PyTuple_New(nargs);
    if (!positional) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < nargs; i++) {
        PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
    }
    self = NULL;
    if (kwnames) {
        keywords = PyDict_New();
        for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(kwnames); i++) {
            if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0) {
                Py_CLEAR(keywords);
            }
        }
    }
    if (!kwnames || keywords) {
        self = (wrapper *)PyType_GenericAlloc((PyTypeObject *)type, 0);
        if (self && serialize_init(self, positional, keywords) < 0) {
            Py_CLEAR(self);
        }
    }
    Py_DECREF(positional);
    Py_XDECREF(keywords);
    return (PyObject *)self;
}

int extract_types_init(extract_types *types)
{
    types->serialize = PyType_FromSpec(&serialize_spec);
    types->serialized = types->serialize ? PyType_FromSpec(&serialized_spec) : NULL;
    if (!types->serialized) {
        return -1;
    }
    ((PyTypeObject *)types->serialize)->tp_vectorcall = serialize_vectorcall;
    types->to_serialize = Py_NewRef(types->serialize);
    return 0;
}

int extract_types_traverse(extract_types *types, int (*visit)(PyObject *, void *), void *arg)
{
    Py_VISIT(types->serialize);
    Py_VISIT(types->serialized);
    Py_VISIT(types->to_serialize);
    return 0;
}

void extract_types_clear(extract_types *types)
{
    Py_CLEAR(types->serialize);
    Py_CLEAR(types->serialized);
    Py_CLEAR(types->to_serialize);
}

PyObject *extract_types_tuple(const extract_types *own)
{
    return PyTuple_Pack(3, own->serialize, own->serialized, own->to_serialize);
}
