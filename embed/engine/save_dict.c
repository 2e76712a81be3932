/*
 * save_dict.c - dicts, and the attributes of instances whose __dict__ has not been made.
 *
 * Entries are read where they lie when internals allow it, else through PyDict_Next. Whenever code
 * that is not the engine's may have run, the place in the dict is looked up again.
 */
#include "save.h"

#include "internals.h"
#include "save_fast.h"

/* Dicts of at most so many entries are begun without a task, most of which never need one. */
#define SMALL_DICT 8

/*
 * The entries of a dict that has 1 to SMALL_DICT, after EMPTY_DICT, up to the first that holds more
 * than atoms: from there on a task is in charge. No file takes the bytes, so nothing runs code.
 */
static int save_small_dict(torshi_dump *d, PyObject *obj, Py_ssize_t size,
                           const torshi_dict_view *view)
{
    Py_ssize_t key_solo = view->values != NULL ? -1 : d->memo.solo; /* see cursor_refresh */
    Py_ssize_t pos = 0, n = 0;
    torshi_task *t;
    if (size > 1 && out_op(d, OP_MARK) < 0) {
        return SAVE_ERROR;
    }
    for (; pos < view->count && d->p < d->soft; pos++) {
        const unsigned char *entry = view->base + (size_t)pos * view->stride;
        PyObject *key = *(PyObject *const *)(const void *)(entry + view->key_offset);
        PyObject *value = view->values != NULL
                              ? view->values[pos]
                              : *(PyObject *const *)(const void *)(entry + view->value_offset);
        if (value == NULL) {
            continue;
        }
        if (!Py_IS_TYPE(key, &PyUnicode_Type) || !is_atom(value)) {
            break;
        }
        if (save_str(d, key, key_solo) < 0 || save_atom(d, value) < 0) {
            return SAVE_ERROR;
        }
        n++;
    }
    if (pos == view->count) {
        return out_op(d, size > 1 ? OP_SETITEMS : OP_SETITEM) < 0 ? SAVE_ERROR : SAVE_DONE;
    }
    t = push_task(d, TASK_DICT, Py_NewRef(obj), NULL);
    if (t == NULL) {
        return SAVE_ERROR;
    }
    t->step = size > 1 ? 0 : WALK_SINGLE;
    t->u.walk.size = size;
    t->u.walk.pos = pos;
    t->u.walk.n = n;
    return SAVE_PUSHED;
}

int save_dict(torshi_dump *d, PyObject *obj, Py_ssize_t solo)
{
    Py_ssize_t n = PyDict_GET_SIZE(obj);
    torshi_task *t;
    if (TORSHI_UNLIKELY(d->memo.unmade_count != 0 && d->memo.unmade_stale) &&
        ((PyDictObject *)obj)->ma_values != NULL) {
        /* It may be the __dict__ of an instance that had none when it was written. */
        memo_slot *slot;
        if (leave_engine(d) < 0 || memo_adopt_dicts(&d->memo) < 0) {
            return SAVE_ERROR;
        }
        slot = memo_probe(&d->memo, obj);
        if (memo_slot_used(&d->memo, slot) && slot->code != MEMO_COLUMN_CODE) {
            return save_met(d, obj, slot->code);
        }
        solo = -1;
    }
    if (begin_container(d, obj, solo, OP_EMPTY_DICT, OP_DICT, n == 0) < 0) {
        return SAVE_ERROR;
    }
    if (n == 0) {
        return SAVE_DONE;
    }
    if (n <= SMALL_DICT && d->write == NULL && d->modern && d->st->internals) {
        torshi_dict_view view;
        if (internals_dict_view(obj, &view)) {
            return save_small_dict(d, obj, n, &view);
        }
    }
    if (d->proto == 0) {
        PyObject *items, *iterator;
        if (leave_engine(d) < 0) {
            return SAVE_ERROR;
        }
        items = PyObject_CallMethodNoArgs(obj, d->st->str_items);
        iterator = items == NULL ? NULL : PyObject_GetIter(items);
        Py_XDECREF(items);
        if (iterator == NULL || push_task(d, TASK_PAIRS, NULL, iterator) == NULL) {
            return SAVE_ERROR;
        }
        return SAVE_PUSHED;
    }
    t = push_task(d, TASK_DICT, Py_NewRef(obj), NULL);
    if (t == NULL) {
        return SAVE_ERROR;
    }
    t->u.walk.size = n;
    if (n == 1) {
        t->step = WALK_SINGLE;
        return SAVE_PUSHED;
    }
    return out_op(d, OP_MARK) < 0 ? SAVE_ERROR : SAVE_PUSHED;
}

/* A place in a dict: through its entries where they can be read, else by PyDict_Next. Positions
   mean the same either way. */
typedef struct dict_cursor {
    PyObject *owner; /* the dict, or the instance whose attributes are walked */
    PyObject *dict;  /* borrowed; NULL: the instance has not made one */
    torshi_dict_view view;
    int attrs;
    int direct;
    Py_ssize_t pos;
    uint64_t epoch; /* in which view was taken */
    Py_ssize_t key_solo;
} dict_cursor;

static int cursor_refresh(torshi_dump *d, dict_cursor *c)
{
    c->epoch = d->st->savers->epoch;
    c->direct = 0;
    if (c->attrs) {
        torshi_instance_view instance;
        if (d->st->internals && internals_instance_view(c->owner, &instance)) {
            c->dict = instance.dict;
            c->view = instance.view;
            c->direct = c->dict == NULL;
            c->key_solo = -1;
        } else {
            c->dict = PyObject_GenericGetDict(c->owner, NULL);
            if (c->dict == NULL) {
                return -1;
            }
            Py_DECREF(c->dict); /* the instance has it */
        }
    }
    if (c->dict != NULL) {
        c->direct = d->st->internals && internals_dict_view(c->dict, &c->view);
        /* Keys of a split table belong to many dicts. */
        c->key_solo = ((PyDictObject *)c->dict)->ma_values != NULL ? -1 : d->memo.solo;
    }
    return 0;
}

FAST_INLINE int cursor_next(dict_cursor *c, PyObject **key, PyObject **value)
{
    if (TORSHI_LIKELY(c->direct)) {
        while (c->pos < c->view.count) {
            const unsigned char *entry = c->view.base + (size_t)c->pos * c->view.stride;
            *value = c->view.values != NULL
                         ? c->view.values[c->pos]
                         : *(PyObject *const *)(const void *)(entry + c->view.value_offset);
            *key = *(PyObject *const *)(const void *)(entry + c->view.key_offset);
            c->pos++;
            if (*value != NULL) {
                return 1;
            }
        }
        return 0;
    }
    return PyDict_Next(c->dict, &c->pos, key, value);
}

/* A run of pairs of small ints; moves the cursor and d->p, and returns how many were written. */
static Py_ssize_t put_int_pairs(torshi_dump *d, dict_cursor *c, Py_ssize_t limit)
{
    unsigned char *p = d->p;
    unsigned char *soft = d->soft - 8; /* room for a key never reaches where a frame is closed */
    const unsigned char *entry = c->view.base + (size_t)c->pos * c->view.stride;
    Py_ssize_t i = 0;
    for (; i < limit && c->pos < c->view.count && p < soft; i++) {
        PyObject *key = *(PyObject *const *)(const void *)(entry + c->view.key_offset);
        PyObject *value = *(PyObject *const *)(const void *)(entry + c->view.value_offset);
        int64_t k, v;
        if (value == NULL || !Py_IS_TYPE(key, &PyLong_Type) || !Py_IS_TYPE(value, &PyLong_Type) ||
            !small_int(key, &k) || k != (int32_t)k || !small_int(value, &v) || v != (int32_t)v) {
            break;
        }
        p = put_int(put_int(p, k), v);
        c->pos++;
        entry += c->view.stride;
    }
    d->p = p;
    return i;
}

/* The end of a batch: SETITEMS, and the check of the size that comes with it. */
static int end_dict_batch(torshi_dump *d, const dict_cursor *c, Py_ssize_t size)
{
    /* The analyzer does not see that a cursor without a dict has a view. */
    /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign) */
    Py_ssize_t now = c->dict != NULL ? PyDict_GET_SIZE(c->dict) : c->view.used;
    if (out_op(d, OP_SETITEMS) < 0) {
        return -1;
    }
    if (now != size) {
        PyErr_SetString(PyExc_RuntimeError, "dictionary changed size during iteration");
        return -1;
    }
    return 0;
}

/* Whether saving this key at once runs nothing but the engine. */
FAST_INLINE int key_is_quiet(const torshi_dump *d, PyObject *key, PyTypeObject *type)
{
    return type == &PyUnicode_Type &&
           (d->write == NULL || PyUnicode_GET_LENGTH(key) < FRAME_TARGET / 4);
}

/* A key that may run code, and then its value; the value is kept in the task. SAVE_*. */
static TORSHI_NOINLINE int save_pair_slowly(torshi_dump *d, size_t at, PyObject *key,
                                            PyObject *value, Py_ssize_t key_solo)
{
    torshi_task *t = &d->tasks[at];
    int status;
    t->extra = Py_NewRef(value);
    t->step |= WALK_VALUE_DUE;
    status = save_object(d, key, key_solo);
    if (status != SAVE_DONE) {
        return status;
    }
    t = &d->tasks[at];
    t->step &= ~WALK_VALUE_DUE;
    status = save_object(d, value, -1);
    if (status == SAVE_DONE) {
        t = &d->tasks[at];
        t->extra = NULL;
        Py_DECREF(value);
    }
    return status;
}

/* Finish the pair that was suspended: SAVE_*. */
static int resume_pair(torshi_dump *d, size_t at)
{
    torshi_task *t = &d->tasks[at];
    PyObject *value;
    if (t->step & WALK_VALUE_DUE) {
        int status;
        t->step &= ~WALK_VALUE_DUE;
        status = save_object(d, t->extra, -1);
        if (status != SAVE_DONE) {
            return status;
        }
        t = &d->tasks[at];
    }
    value = t->extra;
    t->extra = NULL;
    Py_DECREF(value);
    return SAVE_DONE;
}

int step_dict(torshi_dump *d)
{
    size_t at = d->top - 1;
    torshi_task *t = &d->tasks[at];
    torshi_savers *s = d->st->savers;
    dict_cursor c;
    Py_ssize_t n = t->u.walk.n;
    Py_ssize_t size = t->u.walk.size;
    int single = (t->step & WALK_SINGLE) != 0;
    int status;
    c.owner = t->obj;
    c.attrs = (t->step & WALK_ATTRS) != 0;
    c.dict = c.attrs ? NULL : t->obj;
    c.pos = t->u.walk.pos;
    if (t->extra != NULL) {
        status = resume_pair(d, at);
        if (status != SAVE_DONE) {
            return status;
        }
    }
    if (cursor_refresh(d, &c) < 0) {
        return SAVE_ERROR;
    }
    while (!(single && n == 1)) {
        PyObject *key, *value;
        PyTypeObject *type;
        if (TORSHI_UNLIKELY(n == BATCH_SIZE)) {
            if (end_dict_batch(d, &c, size) < 0 || out_op(d, OP_MARK) < 0) {
                return SAVE_ERROR;
            }
            n = 0;
        }
        if (!cursor_next(&c, &key, &value)) {
            break;
        }
        n++;
        type = Py_TYPE(key);
        if (TORSHI_LIKELY(d->p < d->soft) &&
            (TORSHI_LIKELY(key_is_quiet(d, key, type)) || try_atom(d, key, type))) {
            if (type == &PyUnicode_Type && save_str(d, key, c.key_solo) < 0) {
                return SAVE_ERROR;
            }
            type = Py_TYPE(value);
            if (TORSHI_LIKELY(d->p < d->soft)) {
                if (type == &PyUnicode_Type) {
                    status = save_str(d, value, d->memo.solo);
                } else if (try_atom(d, value, type)) {
                    if (type == &PyLong_Type && c.direct && c.view.values == NULL && !single &&
                        Py_IS_TYPE(key, &PyLong_Type) && d->bin) {
                        n += put_int_pairs(d, &c, BATCH_SIZE - n);
                    }
                    continue;
                } else {
                    status = save_value(d, value, d->memo.solo);
                }
            } else {
                status = save_object(d, value, d->memo.solo);
            }
        } else {
            status = save_pair_slowly(d, at, key, value, c.key_solo);
        }
        if (status != SAVE_DONE) {
            t = &d->tasks[at];
            t->u.walk.pos = c.pos;
            t->u.walk.n = n;
            return status;
        }
        if (TORSHI_UNLIKELY(s->epoch != c.epoch) && cursor_refresh(d, &c) < 0) {
            return SAVE_ERROR;
        }
    }
    if (single) {
        if (out_op(d, OP_SETITEM) < 0) {
            return SAVE_ERROR;
        }
    } else if (end_dict_batch(d, &c, size) < 0) {
        return SAVE_ERROR;
    }
    pop_task(d);
    return SAVE_DONE;
}
