/*
 * save_batches.c - list items and dict pairs that iterators give: reducers' fourth and fifth item,
 * and the containers of protocol 0.
 *
 * In protocol 1 and up they go in batches, MARK item ... APPENDS; one that is alone goes without a
 * MARK. So the second item of a batch is fetched before the first is saved.
 */
#include "save.h"

#include "save_fast.h"

/* torshi_task.step */
enum batch_step {
    BATCH_START, /* between batches */
    BATCH_ALONE, /* the only item of a batch has been saved */
    BATCH_NEXT,  /* `pending` (may be NULL) is next; n of this batch are saved */
};

/* The next item, a new reference; NULL at the end, or with an exception. */
static PyObject *fetch(torshi_dump *d, size_t at)
{
    PyObject *iterator = d->tasks[at].extra;
    if (leave_engine(d) < 0) {
        return NULL;
    }
    return PyIter_Next(iterator);
}

/* Push obj (stolen) to be saved: SAVE_*. */
static int save_owned(torshi_dump *d, PyObject *obj)
{
    return push_task(d, TASK_SAVE, obj, NULL) == NULL ? SAVE_ERROR : SAVE_PUSHED;
}

/* Whether obj can be saved at once, without a task: the memo, which fetch() has settled, keeps what
   it has met. */
FAST_INLINE int goes_at_once(const torshi_dump *d, PyObject *obj)
{
    return d->p < d->soft && is_atom(obj);
}

static int finish_batches(torshi_dump *d)
{
    pop_task(d);
    return SAVE_DONE;
}

/* The next of the batch under way, a new reference; NULL at its end, or with an exception. */
static PyObject *next_in_batch(torshi_dump *d, size_t at)
{
    torshi_task *t = &d->tasks[at];
    PyObject *next = t->u.batch.pending;
    t->u.batch.pending = NULL;
    if (next == NULL && t->u.batch.n < BATCH_SIZE) {
        next = fetch(d, at);
    }
    d->tasks[at].u.batch.n += next != NULL;
    return next;
}

/* The only item or pair of a batch has been saved: SAVE_*. */
static int end_alone(torshi_dump *d, size_t at, enum opcode op)
{
    if (out_op(d, op) < 0) {
        return SAVE_ERROR;
    }
    if (d->proto != 0) {
        return finish_batches(d);
    }
    d->tasks[at].step = BATCH_START;
    return SAVE_DONE;
}

/* next_in_batch() has given NULL: SAVE_*. */
static int end_batch(torshi_dump *d, size_t at, enum opcode op)
{
    if (PyErr_Occurred() || out_op(d, op) < 0) {
        return SAVE_ERROR;
    }
    if (d->tasks[at].u.batch.n < BATCH_SIZE) {
        return finish_batches(d);
    }
    d->tasks[at].step = BATCH_START;
    return SAVE_DONE;
}

/* ---- list items ------------------------------------------------------------------------------ */

static int start_items(torshi_dump *d, size_t at)
{
    PyObject *first = fetch(d, at);
    PyObject *second;
    torshi_task *t;
    if (first == NULL) {
        return PyErr_Occurred() ? SAVE_ERROR : finish_batches(d);
    }
    if (d->proto == 0) {
        d->tasks[at].step = BATCH_ALONE;
        return save_owned(d, first);
    }
    second = fetch(d, at);
    t = &d->tasks[at];
    if (second == NULL) {
        if (PyErr_Occurred()) {
            Py_DECREF(first);
            return SAVE_ERROR;
        }
        t->step = BATCH_ALONE;
        return save_owned(d, first);
    }
    t->u.batch.pending = second;
    t->u.batch.n = 1;
    t->step = BATCH_NEXT;
    if (out_op(d, OP_MARK) < 0) {
        Py_DECREF(first);
        return SAVE_ERROR;
    }
    return save_owned(d, first);
}

int step_items(torshi_dump *d)
{
    size_t at = d->top - 1;
    PyObject *item;
    switch ((enum batch_step)d->tasks[at].step) {
    case BATCH_START:
        return start_items(d, at);
    case BATCH_ALONE:
        return end_alone(d, at, OP_APPEND);
    default:
        break;
    }
    while ((item = next_in_batch(d, at)) != NULL) {
        if (!goes_at_once(d, item)) {
            return save_owned(d, item);
        }
        int status = save_object(d, item, -1);
        Py_DECREF(item);
        if (status != SAVE_DONE) {
            return status;
        }
    }
    return end_batch(d, at, OP_APPENDS);
}

/* ---- dict pairs ------------------------------------------------------------------------------ */

static int check_pair(PyObject *pair)
{
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
        PyErr_SetString(PyExc_TypeError, "dict items iterator must return 2-tuples");
        return -1;
    }
    return 0;
}

/* Push key and value of a pair (stolen): SAVE_*. */
static int save_pair(torshi_dump *d, PyObject *pair)
{
    PyObject *key = Py_NewRef(PyTuple_GET_ITEM(pair, 0));
    PyObject *value = Py_NewRef(PyTuple_GET_ITEM(pair, 1));
    /* The pair itself lives as long as stock pickle lets it. */
    if (push_task(d, TASK_HOLD, pair, NULL) == NULL) {
        Py_DECREF(key);
        Py_DECREF(value);
        return SAVE_ERROR;
    }
    if (save_owned(d, value) < 0) {
        Py_DECREF(key);
        return SAVE_ERROR;
    }
    return save_owned(d, key);
}

static int start_pairs(torshi_dump *d, size_t at)
{
    PyObject *first = fetch(d, at);
    PyObject *second;
    torshi_task *t;
    if (first == NULL) {
        return PyErr_Occurred() ? SAVE_ERROR : finish_batches(d);
    }
    if (check_pair(first) < 0) {
        Py_DECREF(first);
        return SAVE_ERROR;
    }
    if (d->proto == 0) {
        d->tasks[at].step = BATCH_ALONE;
        return save_pair(d, first);
    }
    second = fetch(d, at);
    t = &d->tasks[at];
    if (second == NULL) {
        if (PyErr_Occurred()) {
            Py_DECREF(first);
            return SAVE_ERROR;
        }
        t->step = BATCH_ALONE;
        return save_pair(d, first);
    }
    t->u.batch.pending = second;
    t->u.batch.n = 1;
    t->step = BATCH_NEXT;
    if (out_op(d, OP_MARK) < 0) {
        Py_DECREF(first);
        return SAVE_ERROR;
    }
    return save_pair(d, first);
}

int step_pairs(torshi_dump *d)
{
    size_t at = d->top - 1;
    PyObject *pair;
    switch ((enum batch_step)d->tasks[at].step) {
    case BATCH_START:
        return start_pairs(d, at);
    case BATCH_ALONE:
        return end_alone(d, at, OP_SETITEM);
    default:
        break;
    }
    while ((pair = next_in_batch(d, at)) != NULL) {
        if (check_pair(pair) < 0) {
            Py_DECREF(pair);
            return SAVE_ERROR;
        }
        PyObject *key = PyTuple_GET_ITEM(pair, 0), *value = PyTuple_GET_ITEM(pair, 1);
        if (!goes_at_once(d, key) || !is_atom(value)) {
            return save_pair(d, pair);
        }
        int status = save_object(d, key, -1);
        status = status == SAVE_DONE ? save_object(d, value, -1) : status;
        Py_DECREF(pair);
        if (status != SAVE_DONE) {
            return status;
        }
    }
    return end_batch(d, at, OP_SETITEMS);
}
