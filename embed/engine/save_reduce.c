/*
 * save_reduce.c - objects that have a reducer, and what reducers return.
 */
#include "save.h"

#include "save_fast.h"

/* ---- endless reductions ---------------------------------------------------------------------- */

/*
 * The topmost task is a reduction of obj that a reducer or hook brought about. Too many that are
 * not finished, or too many of one object, are endless. Looking for the latter costs a walk over
 * the stack, so it is done whenever another `limit` of them have come together.
 */
int count_reduction(torshi_dump *d, PyObject *obj)
{
    size_t limit = (size_t)Py_GetRecursionLimit();
    size_t same = 0;
    d->tasks[d->top - 1].u.batch.n = 1;
    d->unfinished++;
    if (TORSHI_LIKELY(d->unfinished % limit != 0)) {
        return 0;
    }
    for (size_t i = 0; i < d->top; i++) {
        const torshi_task *t = &d->tasks[i];
        same += (t->kind == TASK_REDUCE || t->kind == TASK_PERSID) && t->obj == obj;
    }
    if (same >= limit || d->unfinished >= REDUCTIONS_LIMIT * limit) {
        PyErr_SetString(PyExc_RecursionError,
                        "maximum recursion depth exceeded while pickling an object");
        return -1;
    }
    return 0;
}

/* ---- what a reducer returned ----------------------------------------------------------------- */

/* torshi_task.step of TASK_REDUCE: what is to be done next. */
enum reduce_step {
    REDUCE_CALLABLE,
    REDUCE_ARGS,
    REDUCE_CALL,
    NEWOBJ_CLASS,
    NEWOBJ_ARGS,
    NEWOBJ_CALL,
    NEWOBJ_EX_CLASS,
    NEWOBJ_EX_ARGS,
    NEWOBJ_EX_KWARGS,
    NEWOBJ_EX_CALL,
    PARTIAL_CALLABLE,
    PARTIAL_ARGS,
    MEMOIZE_OBJECT,
    SAVE_ITEMS,
    SAVE_PAIRS,
    SAVE_STATE,
    STATE_SLOTS,
    STATE_PAIR,
    BUILD_STATE,
    SETTER_OBJECT,
    SETTER_STATE,
    SETTER_CALL,
};

/* Item i of the tuple, borrowed; NULL when it is absent or None. */
static PyObject *part(PyObject *value, Py_ssize_t i)
{
    PyObject *item = i < PyTuple_GET_SIZE(value) ? PyTuple_GET_ITEM(value, i) : NULL;
    return item == Py_None ? NULL : item;
}

static int check_parts(torshi_dump *d, PyObject *value)
{
    PyObject *error = d->st->PicklingError;
    Py_ssize_t n = PyTuple_GET_SIZE(value);
    PyObject *item;
    if (n < 2 || n > 6) {
        PyErr_SetString(error, "tuple returned by __reduce__ must contain 2 through 6 elements");
        return -1;
    }
    if (!PyCallable_Check(PyTuple_GET_ITEM(value, 0))) {
        PyErr_SetString(error, "first item of the tuple returned by __reduce__ must be callable");
        return -1;
    }
    if (!PyTuple_Check(PyTuple_GET_ITEM(value, 1))) {
        PyErr_SetString(error, "second item of the tuple returned by __reduce__ must be a tuple");
        return -1;
    }
    item = part(value, 3);
    if (item != NULL && !PyIter_Check(item)) {
        PyErr_Format(error,
                     "fourth element of the tuple returned by __reduce__ must be an iterator, not "
                     "%s",
                     Py_TYPE(item)->tp_name);
        return -1;
    }
    item = part(value, 4);
    if (item != NULL && !PyIter_Check(item)) {
        PyErr_Format(error,
                     "fifth element of the tuple returned by __reduce__ must be an iterator, not "
                     "%s",
                     Py_TYPE(item)->tp_name);
        return -1;
    }
    item = part(value, 5);
    if (item != NULL && !PyCallable_Check(item)) {
        PyErr_Format(error,
                     "sixth element of the tuple returned by __reduce__ must be a function, not "
                     "%s",
                     Py_TYPE(item)->tp_name);
        return -1;
    }
    return 0;
}

static int check_newobj_ex(torshi_dump *d, PyObject *args)
{
    PyObject *error = d->st->PicklingError;
    PyObject *item;
    if (PyTuple_GET_SIZE(args) != 3) {
        PyErr_Format(error, "length of the NEWOBJ_EX argument tuple must be exactly 3, not %zd",
                     PyTuple_GET_SIZE(args));
        return -1;
    }
    item = PyTuple_GET_ITEM(args, 0);
    if (!PyType_Check(item)) {
        PyErr_Format(error, "first item from NEWOBJ_EX argument tuple must be a class, not %.200s",
                     Py_TYPE(item)->tp_name);
        return -1;
    }
    item = PyTuple_GET_ITEM(args, 1);
    if (!PyTuple_Check(item)) {
        PyErr_Format(error, "second item from NEWOBJ_EX argument tuple must be a tuple, not %.200s",
                     Py_TYPE(item)->tp_name);
        return -1;
    }
    item = PyTuple_GET_ITEM(args, 2);
    if (!PyDict_Check(item)) {
        PyErr_Format(error, "third item from NEWOBJ_EX argument tuple must be a dict, not %.200s",
                     Py_TYPE(item)->tp_name);
        return -1;
    }
    return 0;
}

static int check_newobj(torshi_dump *d, PyObject *args, PyObject *obj)
{
    PyObject *error = d->st->PicklingError;
    PyObject *cls, *obj_class;
    int same;
    if (PyTuple_GET_SIZE(args) < 1) {
        PyErr_SetString(error, "__newobj__ arglist is empty");
        return -1;
    }
    cls = PyTuple_GET_ITEM(args, 0);
    if (!PyType_Check(cls)) {
        PyErr_SetString(error, "args[0] from __newobj__ args is not a type");
        return -1;
    }
    if (obj == NULL) {
        return 0;
    }
    if (lookup_attr(obj, d->st->str_class, &obj_class) < 0) {
        return -1;
    }
    same = obj_class == cls || (obj_class == NULL && (PyObject *)Py_TYPE(obj) == cls);
    Py_XDECREF(obj_class);
    if (!same) {
        PyErr_SetString(error, "args[0] from __newobj__ args has the wrong class");
        return -1;
    }
    return 0;
}

/* Look at the tuple and at the callable's name; the step to begin with, or -1. */
static int first_step(torshi_dump *d, PyObject *value, PyObject *obj)
{
    PyObject *name = NULL;
    int newobj = 0, newobj_ex = 0;
    PyObject *args;
    if (check_parts(d, value) < 0) {
        return -1;
    }
    args = PyTuple_GET_ITEM(value, 1);
    if (d->proto >= 2) {
        PyObject *callable = PyTuple_GET_ITEM(value, 0);
        if (callable == d->st->savers->newobj) {
            newobj = 1;
        } else {
            if (lookup_attr(callable, d->st->str_name, &name) < 0) {
                return -1;
            }
            if (name != NULL && PyUnicode_Check(name)) {
                newobj_ex = PyUnicode_Compare(name, d->st->str_newobj_ex) == 0;
                newobj = !newobj_ex && PyUnicode_Compare(name, d->st->str_newobj) == 0;
            }
            Py_XDECREF(name);
        }
    }
    if (newobj_ex) {
        if (check_newobj_ex(d, args) < 0) {
            return -1;
        }
        return d->proto >= 4 ? NEWOBJ_EX_CLASS : PARTIAL_CALLABLE;
    }
    if (newobj) {
        return check_newobj(d, args, obj) < 0 ? -1 : NEWOBJ_CLASS;
    }
    return REDUCE_CALLABLE;
}

int begin_reduce(torshi_dump *d, PyObject *value, PyObject *obj, int counted)
{
    torshi_task *t = push_task(d, TASK_REDUCE, Py_XNewRef(obj), value);
    size_t at = d->top - 1;
    int step;
    if (t == NULL || (counted && count_reduction(d, obj) < 0)) {
        return SAVE_ERROR;
    }
    step = first_step(d, value, obj);
    if (step < 0) {
        return SAVE_ERROR;
    }
    d->tasks[at].step = (uint32_t)step;
    return SAVE_PUSHED;
}

int save_reduce(torshi_dump *d, PyObject *value, PyObject *obj)
{
    return begin_reduce(d, value, obj, 0);
}

/* Save something that we made and let go of it: SAVE_*. */
static int save_temporary(torshi_dump *d, PyObject *obj)
{
    int status;
    if (obj == NULL) {
        return SAVE_ERROR;
    }
    status = save_object(d, obj, 1);
    Py_DECREF(obj);
    return status;
}

/* partial(cls.__new__, cls, *args, **kwargs), for protocols without NEWOBJ_EX; new or NULL. */
static PyObject *make_partial(torshi_dump *d, PyObject *newobj_args)
{
    PyObject *cls = PyTuple_GET_ITEM(newobj_args, 0);
    PyObject *args = PyTuple_GET_ITEM(newobj_args, 1);
    PyObject *kwargs = PyTuple_GET_ITEM(newobj_args, 2);
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject *all = PyTuple_New(n + 2);
    PyObject *cls_new, *callable;
    if (all == NULL) {
        return NULL;
    }
    cls_new = PyObject_GetAttr(cls, d->st->str_new);
    if (cls_new == NULL) {
        Py_DECREF(all);
        return NULL;
    }
    PyTuple_SET_ITEM(all, 0, cls_new);
    PyTuple_SET_ITEM(all, 1, Py_NewRef(cls));
    for (Py_ssize_t i = 0; i < n; i++) {
        PyTuple_SET_ITEM(all, i + 2, Py_NewRef(PyTuple_GET_ITEM(args, i)));
    }
    callable = PyObject_Call(d->st->functools_partial, all, kwargs);
    Py_DECREF(all);
    return callable;
}

/* The object has been made. In the memo it is already when it is part of its own arguments: then
   what was made is thrown away, and that is all (SAVE_DONE, task popped). 1: go on. */
static int memoize_object(torshi_dump *d, PyObject *obj, int *status)
{
    memo_slot *slot;
    if (obj == NULL) {
        return 1;
    }
    slot = memo_probe(&d->memo, obj);
    if (memo_slot_used(&d->memo, slot) && slot->code != MEMO_COLUMN_CODE) {
        uint32_t code = slot->code;
        if (out_op(d, OP_POP) < 0) {
            *status = SAVE_ERROR;
            return 0;
        }
        Py_INCREF(obj);
        pop_task(d);
        *status = save_met(d, obj, code);
        Py_DECREF(obj);
        return 0;
    }
    if (memoize(d, obj) < 0) {
        *status = SAVE_ERROR;
        return 0;
    }
    return 1;
}

/* (__dict__ or None, {slot: value}), as object.__reduce_ex__ makes it of an instance with slots. */
static int is_slot_state(const torshi_dump *d, PyObject *state)
{
    return d->proto >= 2 && PyTuple_CheckExact(state) && PyTuple_GET_SIZE(state) == 2 &&
           !memo_slot_used(&d->memo, memo_probe(&d->memo, state)) &&
           (PyTuple_GET_ITEM(state, 0) == Py_None ||
            PyDict_CheckExact(PyTuple_GET_ITEM(state, 0))) &&
           PyDict_CheckExact(PyTuple_GET_ITEM(state, 1));
}

/* The state of the topmost task's object, in steps where the dict of slots must not be offered to
   the registration table. */
static int save_state(torshi_dump *d, PyObject *state, Py_ssize_t solo)
{
    torshi_task *t = &d->tasks[d->top - 1];
    PyObject *attributes;
    if (!d->use_rows || t->obj == NULL || d->reducer_override != NULL ||
        d->dispatch_table != NULL ||
        type_info_of(d->st->savers, Py_TYPE(t->obj))->kind != TYPE_DEFAULT) {
        t->step = BUILD_STATE;
        return save_object(d, state, solo);
    }
    if (!is_slot_state(d, state)) {
        t->step = BUILD_STATE;
        return save_attribute_dict(d, t->obj, state, solo);
    }
    t->step = STATE_SLOTS;
    attributes = PyTuple_GET_ITEM(state, 0);
    return attributes == Py_None ? save_object(d, attributes, -1)
                                 : save_attribute_dict(d, t->obj, attributes, -1);
}

static int end_slot_state(torshi_dump *d, PyObject *state)
{
    memo_slot *slot = memo_probe(&d->memo, state);
    if (memo_slot_used(&d->memo, slot)) { /* what it holds has written it, as in save_tuple() */
        uint32_t code = slot->code;
        return out_write(d, (const unsigned char[]){OP_POP, OP_POP}, 2) < 0
                   ? SAVE_ERROR
                   : save_met(d, state, code);
    }
    return out_op(d, OP_TUPLE2) < 0 ? SAVE_ERROR : memoize(d, state);
}

/* Do one step, having set the next: SAVE_*. */
static int reduce_once(torshi_dump *d, enum reduce_step step)
{
    torshi_task *t = &d->tasks[d->top - 1];
    PyObject *value = t->extra;
    PyObject *obj = t->obj;
    PyObject *args = PyTuple_GET_ITEM(value, 1);
    /* What a reducer has just made, and only the tuple holds, nothing else can ever reach. */
    Py_ssize_t solo = Py_REFCNT(value) == 1 && PyTuple_CheckExact(value) ? 1 : -1;
    PyObject *item;
    int status;
    t->step = (uint32_t)step + 1;
    switch (step) {
    case REDUCE_CALLABLE:
        return save_object(d, PyTuple_GET_ITEM(value, 0), -1);
    case REDUCE_ARGS:
        return save_object(d, args, solo);
    case NEWOBJ_CLASS:
    case NEWOBJ_EX_CLASS:
        return save_object(d, PyTuple_GET_ITEM(args, 0), -1);
    case NEWOBJ_ARGS:
        return save_temporary(d, PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args)));
    case NEWOBJ_EX_ARGS:
        return save_object(d, PyTuple_GET_ITEM(args, 1), -1);
    case NEWOBJ_EX_KWARGS:
        return save_object(d, PyTuple_GET_ITEM(args, 2), -1);
    case PARTIAL_CALLABLE:
        return save_temporary(d, make_partial(d, args));
    case PARTIAL_ARGS:
        t->step = REDUCE_CALL;
        return save_temporary(d, PyTuple_New(0));
    case REDUCE_CALL:
        t->step = MEMOIZE_OBJECT;
        return out_op(d, OP_REDUCE);
    case NEWOBJ_CALL:
        t->step = MEMOIZE_OBJECT;
        return out_op(d, OP_NEWOBJ);
    case NEWOBJ_EX_CALL:
        t->step = MEMOIZE_OBJECT;
        return out_op(d, OP_NEWOBJ_EX);
    case MEMOIZE_OBJECT:
        return memoize_object(d, obj, &status) ? SAVE_DONE : status;
    case SAVE_ITEMS:
        item = part(value, 3);
        if (item == NULL) {
            return SAVE_DONE;
        }
        return push_task(d, TASK_ITEMS, NULL, Py_NewRef(item)) == NULL ? SAVE_ERROR : SAVE_PUSHED;
    case SAVE_PAIRS:
        item = part(value, 4);
        if (item == NULL) {
            return SAVE_DONE;
        }
        return push_task(d, TASK_PAIRS, NULL, Py_NewRef(item)) == NULL ? SAVE_ERROR : SAVE_PUSHED;
    case SAVE_STATE:
        if (part(value, 2) == NULL) {
            pop_task(d);
            return SAVE_DONE;
        }
        item = part(value, 5);
        if (item != NULL) {
            t->step = SETTER_OBJECT;
            return save_object(d, item, -1);
        }
        return save_state(d, part(value, 2), solo);
    case STATE_SLOTS:
        item = PyTuple_GET_ITEM(value, 2);
        return save_without_rows(d, PyTuple_GET_ITEM(item, 1),
                                 solo == 1 && Py_REFCNT(item) == 1 ? 1 : -1);
    case STATE_PAIR:
        return end_slot_state(d, PyTuple_GET_ITEM(value, 2));
    case BUILD_STATE:
        pop_task(d);
        return out_op(d, OP_BUILD);
    case SETTER_OBJECT:
        return save_object(d, obj, -1);
    case SETTER_STATE:
        return save_object(d, part(value, 2), -1);
    case SETTER_CALL:
        pop_task(d);
        return out_write(d, (const unsigned char[]){OP_TUPLE2, OP_REDUCE, OP_POP}, 3);
    }
    return SAVE_ERROR;
}

int step_reduce(torshi_dump *d)
{
    size_t top = d->top;
    int status;
    do {
        status = reduce_once(d, (enum reduce_step)d->tasks[top - 1].step);
    } while (status == SAVE_DONE && d->top == top);
    return status;
}
