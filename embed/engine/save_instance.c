/*
 * save_instance.c - objects on the default path, without calling their reducer.
 *
 * What is written is what object.__reduce_ex__ would make stock pickle write:
 *
 *     class  ()  NEWOBJ  MEMOIZE  state  BUILD
 *
 * state being the __dict__, or (__dict__ or None, {slot: value}), or nothing. A __dict__ that the
 * instance has not made is written from its inline values and takes a memo number all the same, as
 * do the tuple and the dict of slots, which stock makes and nothing can meet again.
 */
#include "save.h"

#include "internals.h"
#include "save_fast.h"

/* Most attributes that an instance may have without a __dict__ (CPython 3.11 to 3.13). */
#define ATTRIBUTES_INLINE 30

/* torshi_task.step of TASK_INSTANCE. extra: a tuple of slot names and values, or NULL: read them
   from the object. walk.pos: next slot, by either; walk.size: 1 if the object is alone; walk.n:
   slots that have a value. */
enum instance_step {
    INSTANCE_NEW,       /* (), NEWOBJ */
    INSTANCE_STATE,     /* its __dict__ */
    INSTANCE_SLOTS,     /* begin the dict of slots */
    INSTANCE_NEXT_SLOT, /* name and value */
    INSTANCE_BUILD,
};

/* The attributes of an instance with a __dict__. */
typedef struct attributes {
    PyObject *dict;        /* borrowed; NULL: not made */
    torshi_dict_view view; /* of the inline values, when dict is NULL */
    Py_ssize_t used;
} attributes;

/* 0, or -1 with an exception. */
static int find_attributes(torshi_dump *d, PyObject *obj, const type_info *info, attributes *a)
{
    torshi_instance_view instance;
    a->dict = NULL;
    a->used = 0;
    a->view.count = 0;
    if (!info->has_dict) {
        return 0;
    }
    if (d->st->internals && internals_instance_view(obj, &instance)) {
        a->dict = instance.dict;
        a->view = instance.view;
        a->used = instance.dict != NULL ? PyDict_GET_SIZE(instance.dict) : instance.view.used;
        return 0;
    }
    /* Making the dict may start the collector. */
    if (leave_engine(d) < 0) {
        return -1;
    }
    a->dict = PyObject_GenericGetDict(obj, NULL);
    if (a->dict == NULL) {
        return -1;
    }
    Py_DECREF(a->dict); /* the instance has it */
    a->used = PyDict_GET_SIZE(a->dict);
    return 0;
}

/* Whether an attribute of this name would be taken for one that pickle looks for. */
static inline int name_is_special(const torshi_state *st, PyObject *name)
{
    Py_ssize_t n;
    if (!PyUnicode_CheckExact(name)) {
        return 1;
    }
    n = PyUnicode_GET_LENGTH(name);
    if (TORSHI_LIKELY(n < 10 || n > 13 || PyUnicode_READ_CHAR(name, 0) != '_')) {
        return 0;
    }
    return PyUnicode_Compare(name, st->str_reduce_ex) == 0 ||
           PyUnicode_Compare(name, st->str_reduce) == 0 ||
           PyUnicode_Compare(name, st->str_getstate) == 0;
}

static int attributes_are_plain(const torshi_state *st, const attributes *a)
{
    torshi_dict_view view;
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    if (a->used == 0) {
        return 1;
    }
    if (a->dict == NULL) {
        view = a->view;
    } else if (!st->internals || !internals_dict_view(a->dict, &view)) {
        while (PyDict_Next(a->dict, &pos, &key, &value)) {
            if (name_is_special(st, key)) {
                return 0;
            }
        }
        return 1;
    }
    for (; pos < view.count; pos++) {
        const unsigned char *entry = view.base + (size_t)pos * view.stride;
        key = *(PyObject *const *)(const void *)(entry + view.key_offset);
        /* The key of an entry without a value may be NULL. */
        if (key != NULL && name_is_special(st, key)) {
            return 0;
        }
    }
    return 1;
}

int instance_is_plain(torshi_dump *d, PyObject *obj, const type_info *info)
{
    attributes a;
    if (find_attributes(d, obj, info, &a) < 0) {
        return -1;
    }
    return (a.dict == NULL || PyDict_CheckExact(a.dict)) && attributes_are_plain(d->st, &a);
}

static PyObject *slot_value(PyObject *obj, const type_slot *slot)
{
    return *(PyObject **)(void *)((char *)obj + slot->offset);
}

static Py_ssize_t count_slots(PyObject *obj, const type_info *info)
{
    Py_ssize_t n = 0;
    for (Py_ssize_t i = 0; i < info->slot_count; i++) {
        n += slot_value(obj, &info->slots[i]) != NULL;
    }
    return n;
}

/* Names and values of the slots from `first` on, as a tuple: what is saved is what the slots hold
   now, whatever user code does in between. New reference or NULL. */
static PyObject *copy_slots(PyObject *obj, const type_info *info, Py_ssize_t first)
{
    Py_ssize_t n = 0;
    PyObject *copy;
    for (Py_ssize_t i = first; i < info->slot_count; i++) {
        n += slot_value(obj, &info->slots[i]) != NULL;
    }
    copy = PyTuple_New(2 * n);
    if (copy == NULL) {
        return NULL;
    }
    n = 0;
    for (Py_ssize_t i = first; i < info->slot_count; i++) {
        PyObject *value = slot_value(obj, &info->slots[i]);
        if (value != NULL) {
            PyTuple_SET_ITEM(copy, n++, Py_NewRef(info->slots[i].name));
            PyTuple_SET_ITEM(copy, n++, Py_NewRef(value));
        }
    }
    return copy;
}

int save_instance(torshi_dump *d, PyObject *obj, type_info *info, Py_ssize_t solo)
{
    PyObject *cls = (PyObject *)Py_TYPE(obj);
    int alone = Py_REFCNT(obj) == solo;
    PyObject *slots = NULL;
    Py_ssize_t slot_count = 0;
    memo_slot *slot;
    torshi_task *t;
    int status = d->persistent_id != NULL ? 0 : instance_is_plain(d, obj, info);
    if (status <= 0) {
        return status < 0 ? SAVE_ERROR : SAVE_DECLINED;
    }
    /* Last of all that may decline: this writes. */
    slot = memo_probe(&d->memo, cls);
    if (memo_slot_used(&d->memo, slot)) {
        if (!memo_code_is_number(slot->code)) {
            return SAVE_DECLINED;
        }
        status = write_get(d, memo_number(&d->memo, slot->code));
    } else {
        status = Py_IS_TYPE(cls, &PyType_Type) ? save_global_quietly(d, cls) : SAVE_DECLINED;
    }
    if (status != SAVE_DONE) {
        return status;
    }
    if (info->slot_count != 0) {
        slot_count = count_slots(obj, info);
        if (slot_count != 0 && (info->has_dict || !d->memo.quiet || d->write != NULL)) {
            slots = copy_slots(obj, info, 0);
            if (slots == NULL) {
                return SAVE_ERROR;
            }
        }
    }
    t = push_task(d, TASK_INSTANCE, Py_NewRef(obj), slots);
    if (t == NULL) {
        return SAVE_ERROR;
    }
    t->u.walk.size = alone;
    t->u.walk.n = slot_count;
    return SAVE_PUSHED;
}

/* () NEWOBJ, and the object's number. */
static int write_new(torshi_dump *d, size_t at)
{
    PyObject *obj = d->tasks[at].obj;
    int alone = d->tasks[at].u.walk.size != 0 && d->memo.quiet;
    if (TORSHI_UNLIKELY(d->p >= d->soft) && out_boundary(d) < 0) {
        return SAVE_ERROR;
    }
    if (out_op(d, OP_EMPTY_TUPLE) < 0 || out_op(d, OP_NEWOBJ) < 0) {
        return SAVE_ERROR;
    }
    return memoize_alone(d, obj, alone);
}

/* Whether BUILD would copy placeholders. A __setstate__ may keep the dict, so it gets that. */
static int copies_placeholders(torshi_dump *d, PyObject *obj, PyObject *dict)
{
    return PyDict_CheckExact(dict) && memo_is_filling(&d->memo, dict) &&
           _PyType_Lookup(Py_TYPE(obj), d->st->str_setstate) == NULL;
}

int save_without_rows(torshi_dump *d, PyObject *dict, Py_ssize_t solo)
{
    PyObject *held = NULL;
    int status = SAVE_ERROR;
    if (!d->use_rows || !PyDict_CheckExact(dict)) {
        return save_object(d, dict, solo);
    }
    if (TORSHI_UNLIKELY(d->p >= d->soft)) { /* not left to a later task, as save_object() might */
        held = Py_NewRef(dict);
        if (out_boundary(d) < 0) {
            goto done;
        }
    }
    d->use_rows = 0;
    status = save_object(d, dict, held != NULL ? -1 : solo);
    d->use_rows = 1;
done:
    Py_XDECREF(held);
    return status;
}

int save_attribute_dict(torshi_dump *d, PyObject *obj, PyObject *dict, Py_ssize_t solo)
{
    if (TORSHI_UNLIKELY(d->memo.filling_count != 0) && copies_placeholders(d, obj, dict)) {
        if (d->p >= d->soft && out_boundary(d) < 0) {
            return SAVE_ERROR;
        }
        return out_op(d, OP_EMPTY_DICT) < 0 ? SAVE_ERROR : memoize_nothing(d);
    }
    if (PyDict_CheckExact(dict) && PyDict_GET_SIZE(dict) > ATTRIBUTES_INLINE) {
        return save_object(d, dict, solo);
    }
    return save_without_rows(d, dict, solo);
}

/* The __dict__, or None where slots follow and there is none: SAVE_*. */
static int write_attributes(torshi_dump *d, size_t at)
{
    PyObject *obj = d->tasks[at].obj;
    int tuple = d->tasks[at].u.walk.n != 0;
    const type_info *info = type_info_of(d->st->savers, Py_TYPE(obj));
    attributes a;
    torshi_task *t;
    if (find_attributes(d, obj, info, &a) < 0) {
        return SAVE_ERROR;
    }
    if (a.used == 0) {
        if (tuple) {
            return save_object(d, Py_None, -1);
        }
        pop_task(d);
        return SAVE_DONE;
    }
    if (a.dict != NULL) {
        return save_attribute_dict(d, obj, a.dict, d->memo.solo);
    }
    if (TORSHI_UNLIKELY(d->p >= d->soft) && out_boundary(d) < 0) {
        return SAVE_ERROR;
    }
    if (out_op(d, OP_EMPTY_DICT) < 0 || memo_note_unmade(&d->memo, obj, d->memo.count) < 0 ||
        memoize_nothing(d) < 0) {
        return SAVE_ERROR;
    }
    t = push_task(d, TASK_DICT, Py_NewRef(obj), NULL);
    if (t == NULL) {
        return SAVE_ERROR;
    }
    t->u.walk.size = a.used;
    t->step = WALK_ATTRS;
    if (a.used == 1) {
        t->step |= WALK_SINGLE;
    } else if (out_op(d, OP_MARK) < 0) {
        return SAVE_ERROR;
    }
    return SAVE_PUSHED;
}

static int begin_slots(torshi_dump *d, size_t at)
{
    if (TORSHI_UNLIKELY(d->p >= d->soft) && out_boundary(d) < 0) {
        return SAVE_ERROR;
    }
    if (out_op(d, OP_EMPTY_DICT) < 0 || memoize_nothing(d) < 0) {
        return SAVE_ERROR;
    }
    return d->tasks[at].u.walk.n > 1 ? out_op(d, OP_MARK) : SAVE_DONE;
}

/* Slots out of the copy; *more is cleared at the end. */
static int write_copied_slots(torshi_dump *d, size_t at, int *more)
{
    for (;;) {
        torshi_task *t = &d->tasks[at];
        PyObject *item;
        int status;
        if (t->u.walk.pos >= PyTuple_GET_SIZE(t->extra)) {
            *more = 0;
            return SAVE_DONE;
        }
        item = PyTuple_GET_ITEM(t->extra, t->u.walk.pos++);
        status = save_object(d, item, -1);
        if (status != SAVE_DONE) {
            return status;
        }
    }
}

/* Slots out of the object, while nothing but the engine runs. */
static int write_slots(torshi_dump *d, size_t at, int *more)
{
    torshi_task *t = &d->tasks[at];
    PyObject *obj = t->obj;
    const type_info *info = type_info_of(d->st->savers, Py_TYPE(obj));
    for (Py_ssize_t i = t->u.walk.pos; i < info->slot_count; i++) {
        PyObject *value = slot_value(obj, &info->slots[i]);
        PyTypeObject *type;
        int status;
        if (value == NULL) {
            continue;
        }
        status = save_object(d, info->slots[i].name, -1);
        if (status != SAVE_DONE) {
            return status;
        }
        type = Py_TYPE(value);
        if (TORSHI_LIKELY(d->p < d->soft)) {
            if (type == &PyUnicode_Type) {
                if (save_str(d, value, d->memo.solo) < 0) {
                    return SAVE_ERROR;
                }
                continue;
            }
            if (try_atom(d, value, type)) {
                continue;
            }
        }
        if (i + 1 < info->slot_count) {
            /* It may run code, so what the other slots hold is kept. */
            PyObject *copy = copy_slots(obj, info, i + 1);
            if (copy == NULL) {
                return SAVE_ERROR;
            }
            d->tasks[at].extra = copy;
            d->tasks[at].u.walk.pos = 0;
            status = save_object(d, value, d->memo.solo);
            return status != SAVE_DONE ? status : write_copied_slots(d, at, more);
        }
        d->tasks[at].u.walk.pos = i + 1;
        status = save_object(d, value, d->memo.solo);
        if (status != SAVE_DONE) {
            return status;
        }
    }
    *more = 0;
    return SAVE_DONE;
}

static int end_slots(torshi_dump *d, size_t at)
{
    if (out_op(d, d->tasks[at].u.walk.n > 1 ? OP_SETITEMS : OP_SETITEM) < 0 ||
        out_op(d, OP_TUPLE2) < 0) {
        return SAVE_ERROR;
    }
    return memoize_nothing(d);
}

int step_instance(torshi_dump *d)
{
    size_t at = d->top - 1;
    torshi_task *t = &d->tasks[at];
    int status, more = 1;
    switch ((enum instance_step)t->step) {
    case INSTANCE_NEW:
        t->step = INSTANCE_STATE;
        status = write_new(d, at);
        if (status != SAVE_DONE) {
            return status;
        }
        t = &d->tasks[at];
        /* fall through */
    case INSTANCE_STATE:
        t->step = t->u.walk.n != 0 ? INSTANCE_SLOTS : INSTANCE_BUILD;
        status = write_attributes(d, at);
        if (status != SAVE_DONE || d->top == at) {
            return status;
        }
        t = &d->tasks[at];
        if (t->step == INSTANCE_BUILD) {
            break;
        }
        /* fall through */
    case INSTANCE_SLOTS:
        t->step = INSTANCE_NEXT_SLOT;
        status = begin_slots(d, at);
        if (status != SAVE_DONE) {
            return status;
        }
        t = &d->tasks[at];
        /* fall through */
    case INSTANCE_NEXT_SLOT:
        status = t->extra != NULL ? write_copied_slots(d, at, &more) : write_slots(d, at, &more);
        if (status != SAVE_DONE) {
            return status;
        }
        if (more) {
            return SAVE_PUSHED;
        }
        status = end_slots(d, at);
        if (status != SAVE_DONE) {
            return status;
        }
        break;
    case INSTANCE_BUILD:
        break;
    }
    if (out_op(d, OP_BUILD) < 0) {
        return SAVE_ERROR;
    }
    pop_task(d);
    return SAVE_DONE;
}
