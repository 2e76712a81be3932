/*
 * pickler.c - the type Pickler, in both flavours.
 *
 * A pickler owns a torshi_dump, whose memo lives from one dump to the next. While it is at work it
 * refuses to be used again, by its own hooks or by another thread.
 */
#include "save.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

#if PY_VERSION_HEX < 0x030C0000
#define Py_T_OBJECT_EX T_OBJECT_EX
#endif

int pickler_check_idle(pickler_object *self)
{
    if (self->d.running) {
        PyErr_SetString(PyExc_RuntimeError, "Pickler object is already used");
        return -1;
    }
    return 0;
}

/* ---- dump ------------------------------------------------------------------------------------ */

static PyObject *pickler_persistent_id(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(obj))
{
    Py_RETURN_NONE;
}

/* The hooks that subclasses and instances bring: 0 or -1. */
static int find_hooks(pickler_object *self)
{
    torshi_dump *d = &self->d;
    torshi_state *st = d->st;
    PyObject *table = self->dispatch_table;
    PyObject *hook = NULL;
    Py_XINCREF(table);
    if (table == st->dispatch_table) {
        Py_CLEAR(table);
    }
    Py_XSETREF(d->dispatch_table, table);
    if ((PyObject *)Py_TYPE(self) == st->savers->pickler_types[self->flavour]) {
        /* It has no attributes but its own. */
        Py_XINCREF(self->persistent_id_attr);
        Py_XSETREF(d->persistent_id, self->persistent_id_attr);
        return 0;
    }
    if (lookup_attr((PyObject *)self, st->str_persistent_id, &hook) < 0) {
        return -1;
    }
    if (hook != NULL && PyCFunction_Check(hook) &&
        PyCFunction_GET_FUNCTION(hook) == pickler_persistent_id) {
        Py_CLEAR(hook); /* Pickler's own, which does nothing */
    }
    Py_XSETREF(d->persistent_id, hook);
    if (lookup_attr((PyObject *)self, st->str_reducer_override, &hook) < 0) {
        return -1;
    }
    Py_XSETREF(d->reducer_override, hook);
    return 0;
}

static PyObject *pickler_dump(PyObject *op, PyObject *obj)
{
    pickler_object *self = (pickler_object *)op;
    torshi_dump *d = &self->d;
    int status;
    if (d->write == NULL) {
        torshi_state *st = state_of_type(Py_TYPE(op));
        if (st != NULL) {
            PyErr_Format(st->PicklingError, "Pickler.__init__() was not called by %s.__init__()",
                         Py_TYPE(op)->tp_name);
        }
        return NULL;
    }
    if (pickler_check_idle(self) < 0) {
        return NULL;
    }
    d->running = 1;
    status = find_hooks(self);
    if (status == 0) {
        d->use_rows = self->reducers == TORSHI_REDUCERS_CHUNKED && d->proto >= 4 && !d->fast &&
                      d->persistent_id == NULL;
        status = dump_object(d, obj);
        if (status < 0 && d->memo.quiet) {
            /* What it refers to may be gone by now, and was not written. */
            memo_reset(&d->memo);
        }
    }
    if (status == 0) {
        status = memo_settle(&d->memo);
    }
    if (status == 0) {
        status = out_flush(d);
    }
    d->running = 0;
    /* Bound methods of self would keep it alive. */
    Py_CLEAR(d->persistent_id);
    Py_CLEAR(d->reducer_override);
    Py_CLEAR(d->dispatch_table);
    if (status < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *pickler_clear_memo(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    pickler_object *self = (pickler_object *)op;
    if (pickler_check_idle(self) < 0) {
        return NULL;
    }
    memo_reset(&self->d.memo);
    Py_RETURN_NONE;
}

static PyObject *pickler_sizeof(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    const torshi_dump *d = &((pickler_object *)op)->d;
    size_t n = (size_t)Py_TYPE(op)->tp_basicsize;
    if (d->memo.slots != NULL) {
        n += (d->memo.mask + 1) * sizeof(memo_slot);
    }
    n += d->memo.order_size * sizeof(uintptr_t) + d->size * sizeof(torshi_task);
    if (d->out != NULL) {
        n += (size_t)(d->end - out_base(d));
    }
    return PyLong_FromSize_t(n);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static PyObject *pickler_get_memo(PyObject *op, void *Py_UNUSED(closure))
{
    torshi_state *st = state_of_type(Py_TYPE(op));
    return st == NULL ? NULL : memo_proxy_new(st, (pickler_object *)op);
}

static int pickler_set_memo_attr(PyObject *op, PyObject *value, void *Py_UNUSED(closure))
{
    if (value == NULL) {
        PyErr_SetString(PyExc_TypeError, "attribute deletion is not supported");
        return -1;
    }
    return pickler_set_memo((pickler_object *)op, value);
}

/* bin and fast: ints, which users may set at any time. */
static const size_t bin_offset = offsetof(torshi_dump, bin);
static const size_t fast_offset = offsetof(torshi_dump, fast);

static int *flag_of(PyObject *op, void *closure)
{
    return (int *)(void *)((char *)&((pickler_object *)op)->d + *(const size_t *)closure);
}

static PyObject *pickler_get_flag(PyObject *op, void *closure)
{
    return PyLong_FromLong(*flag_of(op, closure));
}

static int pickler_set_flag(PyObject *op, PyObject *value, void *closure)
{
    long flag;
    if (value == NULL) {
        PyErr_SetString(PyExc_TypeError, "can't delete numeric/char attribute");
        return -1;
    }
    flag = PyLong_AsLong(value);
    if (flag == -1 && PyErr_Occurred()) {
        return -1;
    }
    *flag_of(op, closure) = (int)flag;
    dump_set_modern(&((pickler_object *)op)->d);
    return 0;
}

static int is_persistent_id(PyObject *name)
{
    return PyUnicode_Check(name) && PyUnicode_GET_LENGTH(name) == 13 &&
           PyUnicode_CompareWithASCIIString(name, "persistent_id") == 0;
}

/* persistent_id is a method, and an attribute of a pickler of its own comes before it. */
static PyObject *pickler_getattro(PyObject *op, PyObject *name)
{
    pickler_object *self = (pickler_object *)op;
    if (self->persistent_id_attr != NULL && is_persistent_id(name)) {
        return Py_NewRef(self->persistent_id_attr);
    }
    return PyObject_GenericGetAttr(op, name);
}

static int pickler_setattro(PyObject *op, PyObject *name, PyObject *value)
{
    pickler_object *self = (pickler_object *)op;
    PyObject *descr;
    if (!is_persistent_id(name)) {
        return PyObject_GenericSetAttr(op, name, value);
    }
    descr = _PyType_Lookup(Py_TYPE(op), name);
    if (descr != NULL && Py_TYPE(descr)->tp_descr_set != NULL) {
        return PyObject_GenericSetAttr(op, name, value);
    }
    if (value != NULL && !PyCallable_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "persistent_id must be a callable taking one argument");
        return -1;
    }
    if (value == NULL && self->persistent_id_attr == NULL) {
        PyErr_SetObject(PyExc_AttributeError, name);
        return -1;
    }
    Py_XINCREF(value);
    Py_XSETREF(self->persistent_id_attr, value);
    return 0;
}

/* ---- making and freeing ---------------------------------------------------------------------- */

static int pickler_init(PyObject *op, PyObject *args, PyObject *kwargs, int flavour)
{
    static const char *const names[] = {"file",     "protocol", "fix_imports", "buffer_callback",
                                        "reducers", NULL};
    static const char *const pickle_names[] = {"file", "protocol", "fix_imports", "buffer_callback",
                                               NULL};
    pickler_object *self = (pickler_object *)op;
    torshi_dump *d = &self->d;
    torshi_state *st;
    PyObject *file, *protocol = NULL, *buffer_callback = NULL, *reducers = NULL;
    int fix_imports = 1, chosen;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, flavour == TORSHI_FLAVOUR_TORSHI ? "O|OpOO:Pickler" : "O|OpO:Pickler",
            (char **)(flavour == TORSHI_FLAVOUR_TORSHI ? names : pickle_names), &file, &protocol,
            &fix_imports, &buffer_callback, &reducers)) {
        return -1;
    }
    chosen = reducers != NULL ? torshi_parse_reducers(reducers) : torshi_default_reducers();
    if (chosen < 0 || pickler_check_idle(self) < 0) {
        return -1;
    }
    st = state_of_type(Py_TYPE(op));
    if (st == NULL) {
        return -1;
    }
    if (d->memo.slots == NULL) {
        if (dump_init(d, st) < 0) {
            return -1;
        }
    } else {
        Py_CLEAR(self->dispatch_table);
        dump_close(d);
    }
    self->reducers = chosen;
    self->flavour = flavour;
    if (dump_set_protocol(d, protocol, fix_imports) < 0 || dump_set_file(d, file) < 0) {
        return -1;
    }
    if (dump_set_callback(d, buffer_callback) < 0) {
        Py_CLEAR(d->write);
        return -1;
    }
    if (self->dispatch_table == NULL &&
        (PyObject *)Py_TYPE(op) != st->savers->pickler_types[flavour]) {
        PyObject *table;
        if (lookup_attr(op, st->str_dispatch_table, &table) < 0) {
            return -1;
        }
        Py_XSETREF(self->dispatch_table, table);
    }
    return 0;
}

static int pickler_init_pickle(PyObject *op, PyObject *args, PyObject *kwargs)
{
    return pickler_init(op, args, kwargs, TORSHI_FLAVOUR_PICKLE);
}

static int pickler_init_torshi(PyObject *op, PyObject *args, PyObject *kwargs)
{
    return pickler_init(op, args, kwargs, TORSHI_FLAVOUR_TORSHI);
}

static int pickler_traverse(PyObject *op, visitproc visit, void *arg)
{
    pickler_object *self = (pickler_object *)op;
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(self->dispatch_table);
    Py_VISIT(self->persistent_id_attr);
    Py_VISIT(self->d.write);
    Py_VISIT(self->d.persistent_id);
    Py_VISIT(self->d.reducer_override);
    Py_VISIT(self->d.dispatch_table);
    Py_VISIT(self->d.buffer_callback);
    return memo_traverse(&self->d.memo, visit, arg);
}

static int pickler_clear(PyObject *op)
{
    pickler_object *self = (pickler_object *)op;
    Py_CLEAR(self->dispatch_table);
    Py_CLEAR(self->persistent_id_attr);
    if (!self->d.running) {
        dump_close(&self->d);
    }
    return 0;
}

static void pickler_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_UnTrack(op);
    pickler_clear(op);
    dump_free(&((pickler_object *)op)->d);
    type->tp_free(op);
    Py_DECREF(type);
}

/* ---- the types ------------------------------------------------------------------------------- */

PyDoc_STRVAR(dump_doc, "dump($self, obj, /)\n--\n\nWrite a pickle of obj to the open file.");
PyDoc_STRVAR(clear_memo_doc,
             "clear_memo($self, /)\n--\n\n"
             "Forget the objects written so far, so that they are written in full again.");
PyDoc_STRVAR(sizeof_doc, "__sizeof__($self, /)\n--\n\nReturns size in memory, in bytes.");
PyDoc_STRVAR(persistent_id_doc, "persistent_id($self, obj, /)\n--\n\n"
                                "Return the persistent ID of obj, or None to pickle it as usual.");

#define PICKLER_TEXT                                                                               \
    "A pickler that writes to file, which needs a write() method taking one bytes argument.\n\n"   \
    "protocol is 0 to 5, a negative number for the highest, or None for the default. With\n"       \
    "fix_imports, names are mapped to those of Python 2 below protocol 3. buffer_callback, "       \
    "which\n"                                                                                      \
    "needs protocol 5, is called with each PickleBuffer; where it returns a false value the\n"     \
    "buffer stays out of the stream."

PyDoc_STRVAR(pickle_doc, "Pickler(file, protocol=None, fix_imports=True, buffer_callback=None)\n"
                         "--\n\n" PICKLER_TEXT);
PyDoc_STRVAR(torshi_doc, "Pickler(file, protocol=None, fix_imports=True, buffer_callback=None,\n"
                         "        reducers=None)\n--\n\n" PICKLER_TEXT
                         "\n\nreducers is 'chunked' (rows of the registration table are asked), "
                         "'standard' (the bytes\nof pickle), or None for the default.");

static PyMethodDef pickler_methods[] = {
    {"dump", pickler_dump, METH_O, dump_doc},
    {"clear_memo", pickler_clear_memo, METH_NOARGS, clear_memo_doc},
    {"persistent_id", pickler_persistent_id, METH_O, persistent_id_doc},
    {"__sizeof__", pickler_sizeof, METH_NOARGS, sizeof_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef pickler_members[] = {
    {"dispatch_table", Py_T_OBJECT_EX, offsetof(pickler_object, dispatch_table), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef pickler_getsets[] = {
    {"bin", pickler_get_flag, pickler_set_flag, NULL, (void *)&bin_offset},
    {"fast", pickler_get_flag, pickler_set_flag, NULL, (void *)&fast_offset},
    {"memo", pickler_get_memo, pickler_set_memo_attr, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define PICKLER_SLOTS(INIT, DOC)                                                                   \
    {Py_tp_dealloc, TORSHI_FN(pickler_dealloc)}, {Py_tp_traverse, TORSHI_FN(pickler_traverse)},    \
        {Py_tp_clear, TORSHI_FN(pickler_clear)}, {Py_tp_init, TORSHI_FN(INIT)},                    \
        {Py_tp_new, TORSHI_FN(PyType_GenericNew)}, {Py_tp_methods, pickler_methods},               \
        {Py_tp_members, pickler_members}, {Py_tp_getset, pickler_getsets},                         \
        {Py_tp_getattro, TORSHI_FN(pickler_getattro)},                                             \
        {Py_tp_setattro, TORSHI_FN(pickler_setattro)}, {Py_tp_doc, (void *)DOC}, {0, NULL},

static PyType_Slot pickle_slots[] = {PICKLER_SLOTS(pickler_init_pickle, pickle_doc)};
static PyType_Slot torshi_slots[] = {PICKLER_SLOTS(pickler_init_torshi, torshi_doc)};

#define PICKLER_FLAGS                                                                              \
    (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE)

static PyType_Spec pickle_spec = {
    .name = "_pickle.Pickler",
    .basicsize = sizeof(pickler_object),
    .flags = PICKLER_FLAGS,
    .slots = pickle_slots,
};

static PyType_Spec torshi_spec = {
    .name = "torshi.Pickler",
    .basicsize = sizeof(pickler_object),
    .flags = PICKLER_FLAGS,
    .slots = torshi_slots,
};

int pickler_add_types(torshi_state *st, PyObject *module, int flavour)
{
    PyType_Spec *spec = flavour == TORSHI_FLAVOUR_TORSHI ? &torshi_spec : &pickle_spec;
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type == NULL) {
        return -1;
    }
    if (PyModule_AddObjectRef(module, "Pickler", type) < 0) {
        Py_DECREF(type);
        return -1;
    }
    Py_XSETREF(st->savers->pickler_types[flavour], type);
    return memo_proxy_add_type(st, module, flavour);
}
