/*
 * unpickler.c - the Unpickler type and the proxy of its memo, and what unpickling keeps per
 * interpreter.
 */
#include "load.h"

#include <stddef.h>

typedef struct unpickler {
    PyObject_HEAD
    torshi_load load;          /* load.read is NULL until __init__ */
    PyObject *persistent_load; /* owned: set on the instance, or NULL */
    int busy;                  /* 1: in __init__ or load() */
} unpickler;

typedef struct memo_proxy {
    PyObject_HEAD
    unpickler *owner; /* owned */
} memo_proxy;

/* ---- Unpickler: life
 * ------------------------------------------------------------------------------- */

static int refuse_busy(unpickler *self)
{
    if (self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "Unpickler object is at work already");
        return -1;
    }
    return 0;
}

static PyObject *unpickler_new(PyTypeObject *type, PyObject *Py_UNUSED(args),
                               PyObject *Py_UNUSED(kwargs))
{
    torshi_state *st = state_of_type(type);
    if (st == NULL) {
        return NULL;
    }
    unpickler *self = (unpickler *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->load.st = st;
    }
    return (PyObject *)self;
}

static int unpickler_clear(PyObject *op)
{
    unpickler *self = (unpickler *)op;
    input_clear(&self->load);
    load_clear_options(&self->load);
    memo_free(&self->load.memo);
    Py_CLEAR(self->persistent_load);
    return 0;
}

static int unpickler_init(PyObject *op, PyObject *args, PyObject *kwargs)
{
    unpickler *self = (unpickler *)op;
    torshi_load *load = &self->load;
    PyObject *file;
    load_options options;
    int status = -1;
    if (kwargs == NULL && PyTuple_GET_SIZE(args) == 1) {
        file = PyTuple_GET_ITEM(args, 0);
        options = (load_options){.fix_imports = 1};
    } else if (load_parse(args, kwargs, "O|$pOOO:Unpickler", "file", "Unpickler", &file, &options) <
               0) {
        return -1;
    }
    if (refuse_busy(self) < 0) {
        return -1;
    }
    self->busy = 1;
    input_clear(load);
    load_clear_options(load);
    memo_free(&load->memo);
    load->proto = 0;
    if (input_from_file(load, file) == 0) {
        status = load_set_options(load, &options);
        if (status < 0) {
            input_clear(load);
        }
    }
    self->busy = 0;
    return status;
}

static int unpickler_traverse(PyObject *op, visitproc visit, void *arg)
{
    unpickler *self = (unpickler *)op;
    const torshi_load *load = &self->load;
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(load->read);
    Py_VISIT(load->readline);
    Py_VISIT(load->readinto);
    Py_VISIT(load->peek);
    Py_VISIT(load->bytes);
    Py_VISIT(load->view.obj);
    Py_VISIT(load->buffers);
    Py_VISIT(load->persistent_load);
    Py_VISIT(self->persistent_load);
    Py_VISIT(load->memo.sparse);
    for (size_t i = 0; i < load->memo.high; i++) {
        Py_VISIT(load->memo.slots[i]);
    }
    return 0;
}

static void unpickler_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_UnTrack(op);
    unpickler_clear(op);
    type->tp_free(op);
    Py_DECREF(type);
}

/* ---- Unpickler: methods
 * ----------------------------------------------------------------------------- */

static PyObject *unpickler_persistent_load(PyObject *op, PyObject *Py_UNUSED(pid))
{
    PyErr_Format(((unpickler *)op)->load.st->UnpicklingError,
                 "A load persistent id instruction was encountered,%cbut no persistent_load "
                 "function was specified.",
                 PY_VERSION_HEX < 0x030C0000 ? '\n' : ' ');
    return NULL;
}

/* The persistent_load that a load of a subclass asks; NULL without an exception: none. */
static PyObject *own_persistent_load(unpickler *self)
{
    PyObject *found = PyObject_GetAttr((PyObject *)self, self->load.st->str_persistent_load);
    if (found == NULL) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
            PyErr_Clear();
        }
    } else if (PyCFunction_Check(found) && PyCFunction_GET_SELF(found) == (PyObject *)self &&
               PyCFunction_GET_FUNCTION(found) == unpickler_persistent_load) {
        Py_CLEAR(found); /* that of the base, which only raises */
    }
    return found;
}

static PyObject *unpickler_load(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    unpickler *self = (unpickler *)op;
    torshi_load *load = &self->load;
    PyObject *result = NULL;
    if (refuse_busy(self) < 0) {
        return NULL;
    }
    if (load->read == NULL) {
        PyErr_Format(load->st->UnpicklingError,
                     "Unpickler.__init__() was not called by %s.__init__()", Py_TYPE(op)->tp_name);
        return NULL;
    }
    self->busy = 1;
    if (is_unpickler_exact(load->st->loaders, Py_TYPE(op))) {
        load->unpickler = NULL;
        load->persistent_load = Py_XNewRef(self->persistent_load);
    } else {
        /* A subclass, or an attribute of the instance, may have its own of both. */
        load->unpickler = op;
        load->persistent_load = own_persistent_load(self);
        if (load->persistent_load == NULL && PyErr_Occurred()) {
            goto done;
        }
    }
    if (scratch_take(load, 0) == 0) {
        result = load_run(load);
    }
    scratch_return(load, 0);
    load->unpickler = NULL;
    if (load->persistent_load != NULL) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        Py_CLEAR(load->persistent_load);
        PyErr_Restore(type, value, traceback);
    }
done:
    self->busy = 0;
    return result;
}

static PyObject *unpickler_find_class(PyObject *op, PyObject *const *args, Py_ssize_t nargs)
{
    const torshi_load *load = &((unpickler *)op)->load;
    if (nargs != 2) {
        PyErr_Format(PyExc_TypeError, "find_class expected 2 arguments, got %zd", nargs);
        return NULL;
    }
    return find_class_default(load->st, load->proto, load->fix_imports, args[0], args[1]);
}

static PyObject *unpickler_sizeof(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    const torshi_load *load = &((unpickler *)op)->load;
    size_t size = (size_t)Py_TYPE(op)->tp_basicsize;
    size += load->memo.size * sizeof(PyObject *);
    size += (size_t)load->mark_size * sizeof(*load->marks);
    size += (size_t)(load->limit - load->stack) * sizeof(PyObject *);
    size += load->line_size;
    return PyLong_FromSize_t(size);
}

PyDoc_STRVAR(unpickler_load_doc, "load($self, /)\n--\n\n"
                                 "Read the next pickle from the file and return the object.");
PyDoc_STRVAR(find_class_doc,
             "find_class($self, module_name, global_name, /)\n--\n\n"
             "Return an object from a module, which is imported if needed.\n"
             "\n"
             "Asked for every class and function that a pickle names; subclasses override\n"
             "it to say what may be loaded.");
PyDoc_STRVAR(persistent_load_doc,
             "persistent_load($self, pid, /)\n--\n\n"
             "Return the object that a persistent id stands for; subclasses override it.");
PyDoc_STRVAR(unpickler_sizeof_doc, "__sizeof__($self, /)\n--\n\n"
                                   "Returns size in memory, in bytes.");

static PyMethodDef unpickler_methods[] = {
    {"load", unpickler_load, METH_NOARGS, unpickler_load_doc},
    {"find_class", FASTCALL_FN(unpickler_find_class), METH_FASTCALL, find_class_doc},
    {"persistent_load", unpickler_persistent_load, METH_O, persistent_load_doc},
    {"__sizeof__", unpickler_sizeof, METH_NOARGS, unpickler_sizeof_doc},
    {NULL, NULL, 0, NULL},
};

/* persistent_load may be set on any instance, also on one that has no __dict__. */
static int is_persistent_load(const unpickler *self, PyObject *name)
{
    PyObject *wanted = self->load.st->str_persistent_load;
    return name == wanted || (PyUnicode_Check(name) && PyUnicode_Compare(name, wanted) == 0);
}

static PyObject *unpickler_getattro(PyObject *op, PyObject *name)
{
    unpickler *self = (unpickler *)op;
    if (self->persistent_load != NULL && is_persistent_load(self, name)) {
        return Py_NewRef(self->persistent_load);
    }
    return PyObject_GenericGetAttr(op, name);
}

static int unpickler_setattro(PyObject *op, PyObject *name, PyObject *value)
{
    unpickler *self = (unpickler *)op;
    if (!is_persistent_load(self, name)) {
        return PyObject_GenericSetAttr(op, name, value);
    }
    if (value == NULL && self->persistent_load == NULL) {
        PyErr_SetObject(PyExc_AttributeError, name);
        return -1;
    }
    Py_XSETREF(self->persistent_load, Py_XNewRef(value));
    return 0;
}

/* ---- the memo
 * ------------------------------------------------------------------------------------ */

static PyObject *memo_as_dict(const load_memo *memo)
{
    PyObject *dict = memo->sparse == NULL ? PyDict_New() : PyDict_Copy(memo->sparse);
    for (size_t i = 0; dict != NULL && i < memo->high; i++) {
        if (memo->slots[i] == NULL) {
            continue;
        }
        PyObject *value = Py_NewRef(memo->slots[i]);
        PyObject *key = PyLong_FromSize_t(i);
        if (key == NULL || PyDict_SetItem(dict, key, value) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(key);
        Py_DECREF(value);
    }
    return dict;
}

/* Put what a dict {index: object} holds into a memo that belongs to no load at work. */
static int memo_from_dict(torshi_load *load, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (PyDict_Next(dict, &pos, &key, &value)) {
        if (!PyLong_Check(key)) {
            PyErr_SetString(PyExc_TypeError, "memo key must be integers");
            return -1;
        }
        Py_ssize_t index = PyLong_AsSsize_t(key);
        if (index < 0) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "memo key must be positive integers.");
            }
            return -1;
        }
        if (memo_put(load, (size_t)index, value) < 0) {
            return -1;
        }
    }
    return 0;
}

static PyObject *proxy_clear(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    unpickler *owner = ((memo_proxy *)op)->owner;
    if (refuse_busy(owner) < 0) {
        return NULL;
    }
    memo_free(&owner->load.memo);
    Py_RETURN_NONE;
}

static PyObject *proxy_copy(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    return memo_as_dict(&((memo_proxy *)op)->owner->load.memo);
}

static PyObject *proxy_reduce(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    PyObject *contents = proxy_copy(op, NULL);
    return contents == NULL ? NULL : Py_BuildValue("(O(N))", &PyDict_Type, contents);
}

PyDoc_STRVAR(proxy_clear_doc, "clear($self, /)\n--\n\nForget all entries.");
PyDoc_STRVAR(proxy_copy_doc, "copy($self, /)\n--\n\nThe entries as a new dict.");
PyDoc_STRVAR(proxy_reduce_doc, "__reduce__($self, /)\n--\n\nPickles as the dict of its entries.");

static PyMethodDef proxy_methods[] = {
    {"clear", proxy_clear, METH_NOARGS, proxy_clear_doc},
    {"copy", proxy_copy, METH_NOARGS, proxy_copy_doc},
    {"__reduce__", proxy_reduce, METH_NOARGS, proxy_reduce_doc},
    {NULL, NULL, 0, NULL},
};

static int proxy_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(((memo_proxy *)op)->owner);
    return 0;
}

static int proxy_tp_clear(PyObject *Py_UNUSED(op))
{
    return 0; /* the owner is never NULL; a cycle through it is broken there */
}

static void proxy_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_UnTrack(op);
    Py_DECREF(((memo_proxy *)op)->owner);
    type->tp_free(op);
    Py_DECREF(type);
}

static PyType_Slot proxy_slots[] = {
    {Py_tp_dealloc, TORSHI_FN(proxy_dealloc)},
    {Py_tp_traverse, TORSHI_FN(proxy_traverse)},
    {Py_tp_clear, TORSHI_FN(proxy_tp_clear)},
    {Py_tp_methods, proxy_methods},
    {Py_tp_hash, TORSHI_FN(PyObject_HashNotImplemented)},
    {0, NULL},
};

#define IMMUTABLE_GC (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE)

static PyType_Spec proxy_spec = {
    .name = "_pickle.UnpicklerMemoProxy",
    .basicsize = sizeof(memo_proxy),
    .flags = IMMUTABLE_GC,
    .slots = proxy_slots,
};

static PyObject *unpickler_get_memo(PyObject *op, void *Py_UNUSED(closure))
{
    PyTypeObject *type = ((unpickler *)op)->load.st->loaders->proxy_type;
    memo_proxy *proxy = (memo_proxy *)type->tp_alloc(type, 0);
    if (proxy != NULL) {
        proxy->owner = (unpickler *)Py_NewRef(op);
    }
    return (PyObject *)proxy;
}

static int unpickler_set_memo(PyObject *op, PyObject *value, void *Py_UNUSED(closure))
{
    unpickler *self = (unpickler *)op;
    torshi_load *load = &self->load;
    PyObject *entries;
    if (value == NULL) {
        PyErr_SetString(PyExc_TypeError, "attribute deletion is not supported");
        return -1;
    }
    if (refuse_busy(self) < 0) {
        return -1;
    }
    if (Py_IS_TYPE(value, load->st->loaders->proxy_type)) {
        entries = proxy_copy(value, NULL);
    } else if (PyDict_Check(value)) {
        entries = PyDict_Copy(value); /* so that nothing changes it under us */
    } else {
        PyErr_Format(PyExc_TypeError,
                     "'memo' attribute must be an UnpicklerMemoProxy object or dict, not %.200s",
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    if (entries == NULL) {
        return -1;
    }
    torshi_load filled = {.st = load->st};
    int status = memo_from_dict(&filled, entries);
    Py_DECREF(entries);
    if (status == 0 && (status = refuse_busy(self)) == 0) {
        load_memo old = load->memo;
        load->memo = filled.memo;
        filled.memo = old;
    }
    memo_free(&filled.memo);
    return status;
}

static PyGetSetDef unpickler_getset[] = {
    {"memo", unpickler_get_memo, unpickler_set_memo, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

void unpickler_fill_services(torshi_services *services)
{
    services->load_once = svc_load_once;
}

/* ---- types
 * ------------------------------------------------------------------------------------------ */

PyDoc_STRVAR(unpickler_doc,
             "Unpickler(file, *, fix_imports=True, encoding='ASCII',\n"
             "          errors='strict', buffers=())\n"
             "--\n"
             "\n"
             "Reads pickles from a binary file, one with each call of load().\n"
             "\n"
             "The memo is kept from one load() to the next. For the arguments see load().");

static PyType_Slot unpickler_slots[] = {
    {Py_tp_doc, (void *)unpickler_doc},
    {Py_tp_new, TORSHI_FN(unpickler_new)},
    {Py_tp_init, TORSHI_FN(unpickler_init)},
    {Py_tp_dealloc, TORSHI_FN(unpickler_dealloc)},
    {Py_tp_traverse, TORSHI_FN(unpickler_traverse)},
    {Py_tp_clear, TORSHI_FN(unpickler_clear)},
    {Py_tp_getattro, TORSHI_FN(unpickler_getattro)},
    {Py_tp_setattro, TORSHI_FN(unpickler_setattro)},
    {Py_tp_methods, unpickler_methods},
    {Py_tp_getset, unpickler_getset},
    {0, NULL},
};

static PyType_Spec unpickler_specs[] = {
    [TORSHI_FLAVOUR_PICKLE] =
        {
            .name = "_pickle.Unpickler",
            .basicsize = sizeof(unpickler),
            .flags = IMMUTABLE_GC | Py_TPFLAGS_BASETYPE,
            .slots = unpickler_slots,
        },
    [TORSHI_FLAVOUR_TORSHI] =
        {
            .name = "torshi.Unpickler",
            .basicsize = sizeof(unpickler),
            .flags = IMMUTABLE_GC | Py_TPFLAGS_BASETYPE,
            .slots = unpickler_slots,
        },
};

int unpickler_add_types(torshi_state *st, PyObject *module, int flavour)
{
    torshi_loaders *loaders = st->loaders;
    PyObject *type = PyType_FromModuleAndSpec(module, &unpickler_specs[flavour], NULL);
    if (type == NULL) {
        return -1;
    }
    Py_XSETREF(loaders->unpickler_types[flavour], (PyTypeObject *)type);
    return PyModule_AddObjectRef(module, "Unpickler", type);
}

torshi_loaders *loaders_new(torshi_state *st)
{
    (void)st;
    torshi_loaders *loaders = PyMem_Calloc(1, sizeof(*loaders));
    if (loaders == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    loaders->str_import = PyUnicode_InternFromString("__import__");
    loaders->str_spec = PyUnicode_InternFromString("__spec__");
    loaders->str_initializing = PyUnicode_InternFromString("_initializing");
    loaders->str_release = PyUnicode_InternFromString("release");
    loaders->str_dot = PyUnicode_InternFromString(".");
    loaders->proxy_type = (PyTypeObject *)PyType_FromSpec(&proxy_spec);
    if (loaders->str_import == NULL || loaders->str_spec == NULL ||
        loaders->str_initializing == NULL || loaders->str_release == NULL ||
        loaders->str_dot == NULL || loaders->proxy_type == NULL || input_add_type(loaders) < 0) {
        goto error;
    }
    PyObject *builtins = PyImport_ImportModule("builtins");
    if (builtins == NULL) {
        goto error;
    }
    loaders->import_function = PyObject_GetAttr(builtins, loaders->str_import);
    Py_DECREF(builtins);
    if (loaders->import_function == NULL) {
        goto error;
    }
    return loaders;
error:
    loaders_clear(loaders);
    loaders_free(loaders);
    return NULL;
}

int loaders_traverse(torshi_loaders *loaders, visitproc visit, void *arg)
{
    Py_VISIT(loaders->unpickler_types[0]);
    Py_VISIT(loaders->unpickler_types[1]);
    Py_VISIT(loaders->proxy_type);
    Py_VISIT(loaders->target_type);
    Py_VISIT(loaders->import_function);
    for (int i = 0; i < READY_SPECS; i++) {
        Py_VISIT(loaders->ready_specs[i]);
    }
    return 0;
}

void loaders_clear(torshi_loaders *loaders)
{
    Py_CLEAR(loaders->unpickler_types[0]);
    Py_CLEAR(loaders->unpickler_types[1]);
    Py_CLEAR(loaders->proxy_type);
    Py_CLEAR(loaders->target_type);
    Py_CLEAR(loaders->import_function);
    for (int i = 0; i < READY_SPECS; i++) {
        Py_CLEAR(loaders->ready_specs[i]);
    }
    Py_CLEAR(loaders->str_import);
    Py_CLEAR(loaders->str_spec);
    Py_CLEAR(loaders->str_initializing);
    Py_CLEAR(loaders->str_release);
    Py_CLEAR(loaders->str_dot);
}

void loaders_free(torshi_loaders *loaders)
{
    if (loaders == NULL) {
        return;
    }
    PyMem_Free(loaders->stack);
    PyMem_Free(loaders->marks);
    PyMem_Free(loaders->memo);
    PyMem_Free(loaders);
}
