/*
 * memo_proxy.c - Pickler.memo: a view that can be cleared, copied and assigned, nothing more.
 *
 * A copy is {id: (number, object)}. Numbers that belong to nothing one can meet (the dict of slots
 * that stock pickle makes, say) appear as fresh objects: the count of entries is the next number.
 */
#include "save.h"

typedef struct memo_proxy {
    PyObject_HEAD
    pickler_object *pickler; /* owned */
} memo_proxy;

/* ---- copying --------------------------------------------------------------------------------- */

static int add_entry(PyObject *dict, PyObject *obj, Py_ssize_t number)
{
    PyObject *key = PyLong_FromVoidPtr(obj);
    PyObject *value = Py_BuildValue("nO", number, obj);
    int status = key == NULL || value == NULL ? -1 : PyDict_SetItem(dict, key, value);
    Py_XDECREF(key);
    Py_XDECREF(value);
    return status;
}

/* Make the dicts that have a number but do not exist yet. 0 or -1. */
static int make_dicts(torshi_memo *m)
{
    for (size_t i = 0; i < m->unmade_count; i++) {
        PyObject *dict = PyObject_GenericGetDict(m->unmade[i].instance, NULL);
        if (dict == NULL) {
            return -1;
        }
        Py_DECREF(dict);
    }
    return memo_adopt_dicts(m);
}

static PyObject *copy_memo(torshi_memo *m)
{
    PyObject *dict = PyDict_New();
    if (dict == NULL || m->slots == NULL) {
        return dict;
    }
    if (make_dicts(m) < 0) {
        goto error;
    }
    for (size_t i = 0; i < m->count; i++) {
        PyObject *obj = (PyObject *)(m->order[i] & ~MEMO_TAGS);
        int status;
        if (obj == NULL) {
            obj = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
            if (obj == NULL) {
                goto error;
            }
            status = add_entry(dict, obj, (Py_ssize_t)i);
            Py_DECREF(obj);
        } else {
            const memo_slot *slot = memo_probe(m, obj);
            status = add_entry(dict, obj, memo_number(m, slot->code));
        }
        if (status < 0) {
            goto error;
        }
    }
    return dict;
error:
    Py_DECREF(dict);
    return NULL;
}

/* Enter what {id: (number, object)} says. 0 or -1. */
static int fill_from_dict(torshi_memo *m, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (PyDict_Next(dict, &pos, &key, &value)) {
        Py_ssize_t number;
        if (!PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 2) {
            PyErr_SetString(PyExc_TypeError, "'memo' values must be 2-item tuples");
            return -1;
        }
        number = PyLong_AsSsize_t(PyTuple_GET_ITEM(value, 0));
        if (number == -1 && PyErr_Occurred()) {
            return -1;
        }
        if (memo_set_number(m, PyTuple_GET_ITEM(value, 1), number) < 0) {
            return -1;
        }
    }
    return 0;
}

int pickler_set_memo(pickler_object *self, PyObject *value)
{
    torshi_state *st = state_of_type(Py_TYPE(self));
    torshi_memo fresh, old;
    PyObject *copy;
    int status;
    if (st == NULL || pickler_check_idle(self) < 0) {
        return -1;
    }
    if ((PyObject *)Py_TYPE(value) == st->savers->proxy_types[TORSHI_FLAVOUR_PICKLE] ||
        (PyObject *)Py_TYPE(value) == st->savers->proxy_types[TORSHI_FLAVOUR_TORSHI]) {
        pickler_object *other = ((memo_proxy *)value)->pickler;
        if (other == NULL || pickler_check_idle(other) < 0) {
            return -1;
        }
        copy = copy_memo(&other->d.memo);
        if (copy == NULL) {
            return -1;
        }
    } else if (PyDict_Check(value)) {
        copy = Py_NewRef(value);
    } else {
        PyErr_Format(PyExc_TypeError,
                     "'memo' attribute must be a PicklerMemoProxy object or dict, not %.200s",
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    if (self->d.memo.slots == NULL && dump_init(&self->d, st) < 0) {
        Py_DECREF(copy);
        return -1;
    }
    status = memo_init(&fresh);
    if (status == 0) {
        status = fill_from_dict(&fresh, copy);
        if (status == 0) {
            old = self->d.memo;
            self->d.memo = fresh;
            memo_fini(&old);
        } else {
            memo_fini(&fresh);
        }
    }
    Py_DECREF(copy);
    return status;
}

/* ---- the type -------------------------------------------------------------------------------- */

static pickler_object *idle_pickler(PyObject *op)
{
    pickler_object *pickler = ((memo_proxy *)op)->pickler;
    if (pickler == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the pickler of this memo is gone");
        return NULL;
    }
    return pickler_check_idle(pickler) < 0 ? NULL : pickler;
}

static PyObject *proxy_clear_entries(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    pickler_object *pickler = idle_pickler(op);
    if (pickler == NULL) {
        return NULL;
    }
    memo_reset(&pickler->d.memo);
    Py_RETURN_NONE;
}

static PyObject *proxy_copy(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    pickler_object *pickler = idle_pickler(op);
    return pickler == NULL ? NULL : copy_memo(&pickler->d.memo);
}

static PyObject *proxy_reduce(PyObject *op, PyObject *Py_UNUSED(ignored))
{
    PyObject *copy = proxy_copy(op, NULL);
    return copy == NULL ? NULL : Py_BuildValue("(O(N))", (PyObject *)&PyDict_Type, copy);
}

static int proxy_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(((memo_proxy *)op)->pickler);
    return 0;
}

static int proxy_clear(PyObject *op)
{
    Py_CLEAR(((memo_proxy *)op)->pickler);
    return 0;
}

static void proxy_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_UnTrack(op);
    proxy_clear(op);
    type->tp_free(op);
    Py_DECREF(type);
}

PyDoc_STRVAR(clear_doc, "clear($self, /)\n--\n\nRemove all items from memo.");
PyDoc_STRVAR(copy_doc, "copy($self, /)\n--\n\nCopy the memo to a new object.");
PyDoc_STRVAR(reduce_doc, "__reduce__($self, /)\n--\n\nImplement pickle support.");

static PyMethodDef proxy_methods[] = {
    {"clear", proxy_clear_entries, METH_NOARGS, clear_doc},
    {"copy", proxy_copy, METH_NOARGS, copy_doc},
    {"__reduce__", proxy_reduce, METH_NOARGS, reduce_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot proxy_slots[] = {
    {Py_tp_dealloc, TORSHI_FN(proxy_dealloc)},
    {Py_tp_traverse, TORSHI_FN(proxy_traverse)},
    {Py_tp_clear, TORSHI_FN(proxy_clear)},
    {Py_tp_methods, proxy_methods},
    {Py_tp_hash, TORSHI_FN(PyObject_HashNotImplemented)},
    {0, NULL},
};

#define PROXY_FLAGS                                                                                \
    (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE)

static PyType_Spec pickle_proxy_spec = {
    .name = "_pickle.PicklerMemoProxy",
    .basicsize = sizeof(memo_proxy),
    .flags = PROXY_FLAGS,
    .slots = proxy_slots,
};

static PyType_Spec torshi_proxy_spec = {
    .name = "_torshi.PicklerMemoProxy",
    .basicsize = sizeof(memo_proxy),
    .flags = PROXY_FLAGS,
    .slots = proxy_slots,
};

int memo_proxy_add_type(torshi_state *st, PyObject *module, int flavour)
{
    PyType_Spec *spec = flavour == TORSHI_FLAVOUR_TORSHI ? &torshi_proxy_spec : &pickle_proxy_spec;
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type == NULL) {
        return -1;
    }
    Py_XSETREF(st->savers->proxy_types[flavour], type);
    return 0;
}

PyObject *memo_proxy_new(torshi_state *st, pickler_object *pickler)
{
    PyTypeObject *type = (PyTypeObject *)st->savers->proxy_types[pickler->flavour];
    memo_proxy *self;
    if (type == NULL) {
        type = (PyTypeObject *)st->savers->proxy_types[TORSHI_FLAVOUR_TORSHI];
    }
    self = (memo_proxy *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->pickler = (pickler_object *)Py_NewRef((PyObject *)pickler);
    }
    return (PyObject *)self;
}
