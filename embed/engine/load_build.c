/*
 * load_build.c - opcodes that make objects by calling something, and BUILD, which gives them their
 * state.
 */
#include "load.h"

#include "internals.h"
#include "registry.h"

/* ---- calls ----------------------------------------------------------------------------------- */

int reduce_items(torshi_load *load, PyObject **args)
{
    PyObject *callable = args[-1];
    Py_ssize_t n = load->top - args;
    Py_ssize_t at = args - 1 - load->stack;
    PyObject *obj;
    user_code_begins(load);
    const loader_entry *native = registry_loader(load->st->registry, callable);
    if (native != NULL) {
        obj = native->row->load(native->plugin_state, load, args, (intptr_t)n);
    } else {
        obj = PyObject_Vectorcall(callable, args, (size_t)n, NULL);
    }
    stack_cut(load, load->stack + at);
    user_code_ended(load);
    return stack_push(load, obj);
}

int load_REDUCE(torshi_load *load)
{
    PyObject *obj = NULL;
    PyObject *args = stack_pop(load);
    if (args == NULL) {
        return -1;
    }
    PyObject *callable = stack_pop(load);
    if (callable == NULL) {
        Py_DECREF(args);
        return -1;
    }
    user_code_begins(load);
    const loader_entry *native = registry_loader(load->st->registry, callable);
    if (native != NULL && PyTuple_Check(args)) {
        obj = native->row->load(native->plugin_state, load, &PyTuple_GET_ITEM(args, 0),
                                (intptr_t)PyTuple_GET_SIZE(args));
    } else {
        obj = PyObject_CallObject(callable, args);
    }
    Py_DECREF(callable);
    Py_DECREF(args);
    user_code_ended(load);
    return stack_push(load, obj);
}

/* Python 2's way of making an instance: no __init__ without arguments. */
static PyObject *instantiate(torshi_load *load, PyObject *cls, PyObject *args)
{
    const torshi_state *st = load->st;
    if (PyTuple_GET_SIZE(args) == 0 && PyType_Check(cls)) {
        PyObject *initargs;
        if (lookup_attribute(cls, st->str_getinitargs, &initargs) < 0) {
            return NULL;
        }
        if (initargs == NULL) {
            return PyObject_CallMethodOneArg(cls, st->str_new, cls);
        }
        Py_DECREF(initargs);
    }
    return PyObject_CallObject(cls, args);
}

/* Push cls(*items..top) after taking the items and `drop` more from the stack. Steals cls. */
static int push_instance(torshi_load *load, PyObject *cls, Py_ssize_t at)
{
    Py_ssize_t n = load->top - (load->stack + at);
    PyObject *obj = NULL;
    PyObject *args = PyTuple_New(n);
    if (args != NULL) {
        for (Py_ssize_t i = 0; i < n; i++) {
            PyTuple_SET_ITEM(args, i, load->stack[at + i]);
        }
        load->top -= n;
        user_code_begins(load);
        obj = instantiate(load, cls, args);
        Py_DECREF(args);
        user_code_ended(load);
    }
    Py_DECREF(cls);
    return stack_push(load, obj);
}

int load_INST(torshi_load *load)
{
    PyObject **items = mark_pop(load);
    if (items == NULL) {
        return -1;
    }
    Py_ssize_t at = items - load->stack;
    PyObject *cls = global_from_lines(load, 1);
    return cls == NULL ? -1 : push_instance(load, cls, at);
}

int load_OBJ(torshi_load *load)
{
    PyObject **items = mark_pop(load);
    if (items == NULL) {
        return -1;
    }
    if (load->top == items) {
        return stack_underflow(load);
    }
    /* Take the class from below its arguments. */
    PyObject *cls = items[0];
    Py_ssize_t n = load->top - items - 1;
    memmove(items, items + 1, (size_t)n * sizeof(PyObject *));
    load->top--;
    return push_instance(load, cls, items - load->stack);
}

/* Raise what NEWOBJ and NEWOBJ_EX say about an operand; `format` takes the opcode and a type. */
static int bad_operand(torshi_load *load, const char *format, int with_kwargs, PyObject *operand)
{
    PyErr_Format(load->st->UnpicklingError, format, with_kwargs ? "NEWOBJ_EX" : "NEWOBJ",
                 Py_TYPE(operand)->tp_name);
    return -1;
}

static int make_object(torshi_load *load, int with_kwargs)
{
    int status = -1;
    PyObject *cls = NULL, *args = NULL, *kwargs = NULL, *obj;
    if (with_kwargs && (kwargs = stack_pop(load)) == NULL) {
        goto done;
    }
    if ((args = stack_pop(load)) == NULL || (cls = stack_pop(load)) == NULL) {
        goto done;
    }
    if (!PyType_Check(cls)) {
        bad_operand(load, "%s class argument must be a type, not %.200s", with_kwargs, cls);
        goto done;
    }
    PyTypeObject *type = (PyTypeObject *)cls;
    if (type->tp_new == NULL) {
        PyErr_Format(load->st->UnpicklingError, "%s class argument '%.200s' doesn't have __new__",
                     with_kwargs ? "NEWOBJ_EX" : "NEWOBJ", type->tp_name);
        goto done;
    }
    if (!PyTuple_Check(args)) {
        bad_operand(load, "%s args argument must be a tuple, not %.200s", with_kwargs, args);
        goto done;
    }
    if (with_kwargs && !PyDict_Check(kwargs)) {
        bad_operand(load, "%s kwargs argument must be a dict, not %.200s", with_kwargs, kwargs);
        goto done;
    }
    if (type->tp_new == PyBaseObject_Type.tp_new) { /* runs nothing of the user's */
        obj = type->tp_new(type, args, kwargs);
    } else {
        user_code_begins(load);
        obj = type->tp_new(type, args, kwargs);
        user_code_ended(load);
    }
    status = stack_push(load, obj);
done:
    Py_XDECREF(cls);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return status;
}

int load_NEWOBJ(torshi_load *load)
{
    return make_object(load, 0);
}

int load_NEWOBJ_EX(torshi_load *load)
{
    return make_object(load, 1);
}

/* ---- BUILD ----------------------------------------------------------------------------------- */

/* An attribute name as the interned string it would be; new reference. Steals key. */
static PyObject *intern_name(PyObject *key)
{
    if (PyUnicode_CheckExact(key)) {
        PyUnicode_InternInPlace(&key);
    }
    return key;
}

/* The same for an exact str, remembering what each string of the stream became: the memo gives the
   same one for every instance. */
static PyObject *intern_again(torshi_load *load, PyObject *key)
{
    if (PyUnicode_CHECK_INTERNED(key)) {
        return Py_NewRef(key);
    }
    if (load->names == NULL) {
        return intern_name(Py_NewRef(key));
    }
    unsigned at = (unsigned)((uintptr_t)key >> 4) % LOAD_NAMES;
    load_name *name = &load->names[at];
    if (!(load->names_used >> at & 1)) {
        load->names_used |= (uint32_t)1 << at;
    } else if (name->from == key) {
        return Py_NewRef(name->to);
    } else {
        Py_DECREF(name->from);
        Py_DECREF(name->to);
    }
    name->from = Py_NewRef(key);
    name->to = intern_name(Py_NewRef(key));
    return Py_NewRef(name->to);
}

/* The most attributes that are set in one go. */
#define BUILD_AT_ONCE 64

/* BUILD of an exact dict by internals_build_instance: 1 done, 0 not applicable, -1. */
static int build_at_once(torshi_load *load, PyObject *inst, PyObject *state)
{
    PyObject *items[2 * BUILD_AT_ONCE], *key, *value;
    Py_ssize_t pos = 0, n = 0;
    int status = 0;
    if (PyDict_GET_SIZE(state) > BUILD_AT_ONCE) {
        return 0;
    }
    while (PyDict_Next(state, &pos, &key, &value)) {
        if (!PyUnicode_CheckExact(key)) {
            goto done;
        }
        items[2 * n] = intern_again(load, key);
        items[2 * n + 1] = value;
        n++;
    }
    status = internals_build_instance(inst, items, n);
done:
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_DECREF(items[2 * i]);
    }
    return status;
}

static int set_dict_state(torshi_load *load, PyObject *inst, PyObject *state)
{
    if (!PyDict_Check(state)) {
        PyErr_SetString(load->st->UnpicklingError, "state is not a dictionary");
        return -1;
    }
    PyObject *dict = PyObject_GetAttr(inst, load->st->str_dict);
    if (dict == NULL) {
        return -1;
    }
    int status = 0;
    Py_ssize_t pos = 0;
    PyObject *key, *value;
    while (status == 0 && PyDict_Next(state, &pos, &key, &value)) {
        key = intern_name(Py_NewRef(key));
        Py_INCREF(value);
        status = PyObject_SetItem(dict, key, value);
        Py_DECREF(key);
        Py_DECREF(value);
    }
    Py_DECREF(dict);
    return status;
}

static int set_slot_state(torshi_load *load, PyObject *inst, PyObject *state)
{
    if (!PyDict_Check(state)) {
        PyErr_SetString(load->st->UnpicklingError, "slot state is not a dictionary");
        return -1;
    }
    int status = 0;
    Py_ssize_t pos = 0;
    PyObject *key, *value;
    while (status == 0 && PyDict_Next(state, &pos, &key, &value)) {
        Py_INCREF(key);
        Py_INCREF(value);
        status = PyObject_SetAttr(inst, key, value);
        Py_DECREF(key);
        Py_DECREF(value);
    }
    return status;
}

/* What BUILD does where there is no __setstate__. */
static int set_state(torshi_load *load, PyObject *inst, PyObject *state)
{
    PyObject *slots = NULL;
    if (PyTuple_Check(state) && PyTuple_GET_SIZE(state) == 2) {
        slots = PyTuple_GET_ITEM(state, 1);
        state = PyTuple_GET_ITEM(state, 0);
    }
    if (state != Py_None && set_dict_state(load, inst, state) < 0) {
        return -1;
    }
    return slots == NULL ? 0 : set_slot_state(load, inst, slots);
}

/* The class attribute __setstate__ when an ordinary look-up on the instance would come to it, and
   calling it by name is the same as getting it first. 1: there is one; 0: there is none at all on
   a type with ordinary look-up; -1: neither is known. */
static int class_setstate(const torshi_load *load, PyTypeObject *type)
{
    if (type->tp_getattro != PyObject_GenericGetAttr) {
        return -1;
    }
    PyObject *found = _PyType_Lookup(type, load->st->str_setstate);
    if (found == NULL) {
        return 0;
    }
    return PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR) ? 1 : -1;
}

/* BUILD of inst with state, both borrowed. */
static int build(torshi_load *load, PyObject *inst, PyObject *state)
{
    PyObject *setstate, *result;
    int known = class_setstate(load, Py_TYPE(inst));
    if (known == 1) {
        result = PyObject_CallMethodOneArg(inst, load->st->str_setstate, state);
        Py_XDECREF(result);
        return result == NULL ? -1 : 0;
    }
    /* That a fresh instance has no __setstate__ of its own is checked by what is called. */
    if (known == 0 && load->st->internals && PyDict_CheckExact(state)) {
        int built = build_at_once(load, inst, state);
        if (built != 0) {
            return built < 0 ? -1 : 0;
        }
    }
    if (lookup_attribute(inst, load->st->str_setstate, &setstate) < 0) {
        return -1;
    }
    if (setstate == NULL) {
        return set_state(load, inst, state);
    }
    result = PyObject_CallOneArg(setstate, state);
    Py_DECREF(setstate);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

int load_BUILD(torshi_load *load)
{
    if (load->top - load->fence < 2) {
        return stack_underflow(load);
    }
    PyObject *state = *--load->top;
    user_code_begins(load);
    int status = build(load, load->top[-1], state);
    Py_DECREF(state);
    user_code_ended(load);
    return status;
}
