/*
 * save_containers.c - list, tuple, set and frozenset (save_dict.c has dict).
 *
 * Each has a save_ function, which writes what comes first and pushes a task, and a step_ function,
 * which goes on with the topmost task. In a step what is below d->p < d->soft is the fast way: no
 * hook, no flush, hence no code that could change the container.
 */
#include "save.h"

#include "save_fast.h"

/* ---- Pickler.fast ---------------------------------------------------------------------------- */

int fast_enter(torshi_dump *d, PyObject *obj)
{
    PyObject *key;
    int found;
    if (++d->fast_nesting < FAST_NESTING_LIMIT) {
        return 0;
    }
    if (d->fast_seen == NULL && (d->fast_seen = PyDict_New()) == NULL) {
        return -1;
    }
    key = PyLong_FromVoidPtr(obj);
    if (key == NULL) {
        return -1;
    }
    found = PyDict_Contains(d->fast_seen, key);
    if (found > 0) {
        PyErr_Format(PyExc_ValueError,
                     "fast mode: can't pickle cyclic objects including object type %.200s at %p",
                     Py_TYPE(obj)->tp_name, (void *)obj);
        found = -1;
    } else if (found == 0) {
        found = PyDict_SetItem(d->fast_seen, key, Py_None);
    }
    Py_DECREF(key);
    return found;
}

int fast_leave(torshi_dump *d, PyObject *obj)
{
    PyObject *key;
    int status;
    if (d->fast_nesting-- < FAST_NESTING_LIMIT) {
        return 0;
    }
    key = PyLong_FromVoidPtr(obj);
    if (key == NULL) {
        return -1;
    }
    status = PyDict_DelItem(d->fast_seen, key);
    Py_DECREF(key);
    return status;
}

int begin_container(torshi_dump *d, PyObject *obj, Py_ssize_t solo, enum opcode binary,
                    enum opcode text, int empty)
{
    int alone = Py_REFCNT(obj) == solo;
    if (TORSHI_UNLIKELY(d->fast)) {
        /* The guard's dict is made here, and making it may start the collector. */
        if (leave_engine(d) < 0 || fast_enter(d, obj) < 0) {
            return -1;
        }
        if (empty && fast_leave(d, obj) < 0) {
            return -1;
        }
        if (!empty && push_task(d, TASK_LEAVE_FAST, Py_NewRef(obj), NULL) == NULL) {
            return -1;
        }
    }
    if (TORSHI_LIKELY(d->bin)) {
        if (out_op(d, binary) < 0) {
            return -1;
        }
    } else if (out_op(d, OP_MARK) < 0 || out_op(d, text) < 0) {
        return -1;
    }
    return memoize_alone(d, obj, alone);
}

/* ---- list ------------------------------------------------------------------------------------ */

/* Lists of at most so many items are begun without a task, as small dicts are. */
#define SMALL_LIST 8

/* The items of a list of 1 to SMALL_LIST, after EMPTY_LIST, up to the first that is no atom. No
   file takes the bytes, so nothing runs code. */
static int save_small_list(torshi_dump *d, PyObject *obj, Py_ssize_t n)
{
    Py_ssize_t pos = 0;
    torshi_task *t;
    if (n > 1 && out_op(d, OP_MARK) < 0) {
        return SAVE_ERROR;
    }
    for (; pos < n && d->p < d->soft && is_atom(PyList_GET_ITEM(obj, pos)); pos++) {
        if (save_atom(d, PyList_GET_ITEM(obj, pos)) < 0) {
            return SAVE_ERROR;
        }
    }
    if (pos == n) {
        return out_op(d, n > 1 ? OP_APPENDS : OP_APPEND) < 0 ? SAVE_ERROR : SAVE_DONE;
    }
    t = push_task(d, TASK_LIST, Py_NewRef(obj), NULL);
    if (t == NULL) {
        return SAVE_ERROR;
    }
    t->step = n > 1 ? 0 : WALK_SINGLE;
    t->u.walk.pos = t->u.walk.n = pos;
    return SAVE_PUSHED;
}

int save_list(torshi_dump *d, PyObject *obj, Py_ssize_t solo)
{
    Py_ssize_t n = PyList_GET_SIZE(obj);
    torshi_task *t;
    if (begin_container(d, obj, solo, OP_EMPTY_LIST, OP_LIST, n == 0) < 0) {
        return SAVE_ERROR;
    }
    if (n == 0) {
        return SAVE_DONE;
    }
    if (n <= SMALL_LIST && d->write == NULL && d->modern) {
        return save_small_list(d, obj, n);
    }
    if (d->proto == 0) {
        PyObject *iterator = leave_engine(d) < 0 ? NULL : PyObject_GetIter(obj);
        if (iterator == NULL || push_task(d, TASK_ITEMS, NULL, iterator) == NULL) {
            return SAVE_ERROR;
        }
        return SAVE_PUSHED;
    }
    t = push_task(d, TASK_LIST, Py_NewRef(obj), NULL);
    if (t == NULL) {
        return SAVE_ERROR;
    }
    if (n == 1) {
        t->step = WALK_SINGLE;
        return SAVE_PUSHED;
    }
    return out_op(d, OP_MARK) < 0 ? SAVE_ERROR : SAVE_PUSHED;
}

static int step_single_item(torshi_dump *d)
{
    torshi_task *t = &d->tasks[d->top - 1];
    if (t->u.walk.pos == 0) {
        int status;
        t->u.walk.pos = 1;
        status = save_object(d, PyList_GET_ITEM(t->obj, 0), d->memo.solo);
        if (status != SAVE_DONE) {
            return status;
        }
    }
    if (out_op(d, OP_APPEND) < 0) {
        return SAVE_ERROR;
    }
    pop_task(d);
    return SAVE_DONE;
}

/*
 * A run of small ints, or of floats, which are what long lists hold most often. `limit` items may
 * be written; moves d->p and returns how many were.
 */
static Py_ssize_t put_run(torshi_dump *d, PyObject *const *items, Py_ssize_t limit)
{
    unsigned char *p = d->p, *soft = d->soft;
    Py_ssize_t i = 0;
    int64_t value;
    if (Py_IS_TYPE(items[0], &PyFloat_Type)) {
        while (i < limit && p < soft && Py_IS_TYPE(items[i], &PyFloat_Type)) {
            p = put_float(p, PyFloat_AS_DOUBLE(items[i++]));
        }
    } else {
        while (i < limit && p < soft && Py_IS_TYPE(items[i], &PyLong_Type) &&
               small_int(items[i], &value) && value == (int32_t)value) {
            p = put_int(p, value);
            i++;
        }
    }
    d->p = p;
    return i;
}

int step_list(torshi_dump *d)
{
    size_t at = d->top - 1;
    torshi_task *t = &d->tasks[at];
    PyObject *list = t->obj;
    Py_ssize_t pos = t->u.walk.pos, n = t->u.walk.n;
    if (t->step & WALK_SINGLE) {
        return step_single_item(d);
    }
    for (;;) {
        PyObject *item;
        PyTypeObject *type;
        int status;
        if (TORSHI_UNLIKELY(n == BATCH_SIZE || pos >= PyList_GET_SIZE(list))) {
            if (out_op(d, OP_APPENDS) < 0) {
                return SAVE_ERROR;
            }
            if (pos >= PyList_GET_SIZE(list)) {
                break;
            }
            if (out_op(d, OP_MARK) < 0) {
                return SAVE_ERROR;
            }
            n = 0;
        }
        item = PyList_GET_ITEM(list, pos);
        type = Py_TYPE(item);
        pos++;
        n++;
        if (TORSHI_LIKELY(d->p < d->soft)) {
            if (type == &PyUnicode_Type) {
                status = save_str(d, item, d->memo.solo);
            } else if (try_atom(d, item, type)) {
                Py_ssize_t left = PyList_GET_SIZE(list) - pos;
                if (left > BATCH_SIZE - n) {
                    left = BATCH_SIZE - n;
                }
                if (left > 0 && d->bin && (type == &PyLong_Type || type == &PyFloat_Type)) {
                    left = put_run(d, ((PyListObject *)list)->ob_item + pos, left);
                    pos += left;
                    n += left;
                }
                continue;
            } else {
                status = save_value(d, item, d->memo.solo);
            }
        } else {
            status = save_object(d, item, d->memo.solo);
        }
        if (status != SAVE_DONE) {
            t = &d->tasks[at];
            t->u.walk.pos = pos;
            t->u.walk.n = n;
            return status;
        }
    }
    pop_task(d);
    return SAVE_DONE;
}

/* ---- tuple ----------------------------------------------------------------------------------- */

int save_tuple(torshi_dump *d, PyObject *obj, Py_ssize_t solo)
{
    Py_ssize_t n = PyTuple_GET_SIZE(obj);
    int shared = Py_REFCNT(obj) != solo;
    int temporary = !shared && !d->memo.quiet;
    torshi_task *t;
    if (n == 0) {
        return d->proto ? out_op(d, OP_EMPTY_TUPLE) : out_write(d, "(t", 2);
    }
    if ((n > 3 || d->proto < 2) && out_op(d, OP_MARK) < 0) {
        return SAVE_ERROR;
    }
    t = push_task(d, TASK_TUPLE, Py_NewRef(obj), NULL);
    if (t == NULL) {
        return SAVE_ERROR;
    }
    t->step = shared ? WALK_SHARED : temporary ? WALK_TEMPORARY : 0;
    return SAVE_PUSHED;
}

/* A tuple or frozenset that turned out to contain itself: drop what is on the stack (`pops` POPs,
   or POP_MARK when 0) and fetch it. SAVE_*. */
static int replace_by_get(torshi_dump *d, PyObject *obj, uint32_t code, Py_ssize_t pops)
{
    int status;
    if (pops == 0 && out_op(d, OP_POP_MARK) < 0) {
        return SAVE_ERROR;
    }
    for (; pops > 0; pops--) {
        if (out_op(d, OP_POP) < 0) {
            return SAVE_ERROR;
        }
    }
    Py_INCREF(obj);
    pop_task(d);
    status = save_met(d, obj, code);
    Py_DECREF(obj);
    return status;
}

static int finish_tuple(torshi_dump *d, PyObject *obj, uint32_t step)
{
    static const unsigned char short_ops[] = {0, OP_TUPLE1, OP_TUPLE2, OP_TUPLE3};
    Py_ssize_t n = PyTuple_GET_SIZE(obj);
    int is_short = n <= 3 && d->proto >= 2;
    int alone = (step & WALK_TEMPORARY) || (!(step & WALK_SHARED) && d->memo.quiet);
    if (!alone) {
        memo_slot *slot = memo_probe(&d->memo, obj);
        if (memo_slot_used(&d->memo, slot) && slot->code != MEMO_COLUMN_CODE) {
            return replace_by_get(d, obj, slot->code, is_short ? n : d->bin ? 0 : n + 1);
        }
    }
    if (out_op(d, is_short ? (enum opcode)short_ops[n] : OP_TUPLE) < 0 ||
        (alone ? memoize_new(d, NULL, obj) : memoize(d, obj)) < 0) {
        return SAVE_ERROR;
    }
    pop_task(d);
    return SAVE_DONE;
}

int step_tuple(torshi_dump *d)
{
    size_t at = d->top - 1;
    torshi_task *t = &d->tasks[at];
    PyObject *tuple = t->obj;
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    Py_ssize_t pos = t->u.walk.pos;
    uint32_t step = t->step;
    while (pos < n) {
        PyObject *item = PyTuple_GET_ITEM(tuple, pos);
        Py_ssize_t solo = step & WALK_SHARED ? -1 : step & WALK_TEMPORARY ? 1 : d->memo.solo;
        PyTypeObject *type = Py_TYPE(item);
        int status;
        pos++;
        if (TORSHI_LIKELY(d->p < d->soft)) {
            if (type == &PyUnicode_Type) {
                status = save_str(d, item, solo);
            } else if (try_atom(d, item, type)) {
                continue;
            } else {
                status = save_value(d, item, solo);
            }
        } else {
            status = save_object(d, item, solo);
        }
        if (status != SAVE_DONE) {
            d->tasks[at].u.walk.pos = pos;
            return status;
        }
    }
    return finish_tuple(d, tuple, step);
}

/* ---- set, frozenset -------------------------------------------------------------------------- */

/* Before protocol 4: type(list of the items). */
static int save_set_by_reduce(torshi_dump *d, PyObject *obj)
{
    PyObject *items = leave_engine(d) < 0 ? NULL : PySequence_List(obj);
    PyObject *value;
    if (items == NULL) {
        return SAVE_ERROR;
    }
    value = Py_BuildValue("(O(N))", (PyObject *)Py_TYPE(obj), items);
    return value == NULL ? SAVE_ERROR : save_reduce(d, value, obj);
}

/* The item at or after *pos in the table of a set, borrowed, or NULL; moves *pos behind it. */
static PyObject *next_member(PyObject *set, Py_ssize_t *pos)
{
    const PySetObject *so = (const PySetObject *)set;
    while (*pos <= so->mask) {
        const setentry *entry = &so->table[*pos];
        ++*pos;
        /* What was removed leaves a dummy, whose hash is -1. */
        if (entry->key != NULL && entry->hash != -1) {
            return entry->key;
        }
    }
    return NULL;
}

int save_set(torshi_dump *d, PyObject *obj, Py_ssize_t solo)
{
    int alone = Py_REFCNT(obj) == solo;
    torshi_task *t;
    if (d->proto < 4) {
        return save_set_by_reduce(d, obj);
    }
    if (out_op(d, OP_EMPTY_SET) < 0 || memoize_alone(d, obj, alone) < 0) {
        return SAVE_ERROR;
    }
    if (PySet_GET_SIZE(obj) == 0) {
        return SAVE_DONE;
    }
    t = push_task(d, TASK_SET, Py_NewRef(obj), NULL);
    if (t == NULL || out_op(d, OP_MARK) < 0) {
        return SAVE_ERROR;
    }
    t->u.walk.size = PySet_GET_SIZE(obj);
    return SAVE_PUSHED;
}

int step_set(torshi_dump *d)
{
    size_t at = d->top - 1;
    torshi_task *t = &d->tasks[at];
    PyObject *set = t->obj;
    Py_ssize_t size = t->u.walk.size;
    for (;;) {
        PyObject *item = NULL;
        int status;
        t = &d->tasks[at];
        if (t->u.walk.n < BATCH_SIZE) {
            item = next_member(set, &t->u.walk.pos);
        }
        if (item != NULL) {
            t->u.walk.n++;
            status = save_object(d, item, d->memo.solo);
            if (status != SAVE_DONE) {
                return status;
            }
            continue;
        }
        if (out_op(d, OP_ADDITEMS) < 0) {
            return SAVE_ERROR;
        }
        if (PySet_GET_SIZE(set) != size) {
            PyErr_SetString(PyExc_RuntimeError, "set changed size during iteration");
            return SAVE_ERROR;
        }
        if (t->u.walk.n < BATCH_SIZE) {
            break;
        }
        t->u.walk.n = 0;
        if (out_op(d, OP_MARK) < 0) {
            return SAVE_ERROR;
        }
    }
    pop_task(d);
    return SAVE_DONE;
}

int save_frozenset(torshi_dump *d, PyObject *obj, Py_ssize_t solo)
{
    int shared = Py_REFCNT(obj) != solo;
    torshi_task *t;
    if (d->proto < 4) {
        return save_set_by_reduce(d, obj);
    }
    t = push_task(d, TASK_FROZENSET, Py_NewRef(obj), NULL);
    if (t == NULL || out_op(d, OP_MARK) < 0) {
        return SAVE_ERROR;
    }
    t->step = shared ? WALK_SHARED : 0;
    return SAVE_PUSHED;
}

int step_frozenset(torshi_dump *d)
{
    size_t at = d->top - 1;
    PyObject *set = d->tasks[at].obj;
    int shared = (d->tasks[at].step & WALK_SHARED) != 0;
    int alone;
    for (;;) {
        PyObject *item = next_member(set, &d->tasks[at].u.walk.pos);
        int status;
        if (item == NULL) {
            break;
        }
        status = save_object(d, item, shared ? -1 : d->memo.solo);
        if (status != SAVE_DONE) {
            return status;
        }
    }
    alone = !shared && d->memo.quiet;
    if (!alone) {
        memo_slot *slot = memo_probe(&d->memo, set);
        if (memo_slot_used(&d->memo, slot) && slot->code != MEMO_COLUMN_CODE) {
            return replace_by_get(d, set, slot->code, 0);
        }
    }
    if (out_op(d, OP_FROZENSET) < 0 || memoize_alone(d, set, alone) < 0) {
        return SAVE_ERROR;
    }
    pop_task(d);
    return SAVE_DONE;
}
