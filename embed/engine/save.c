/*
 * save.c - the order in which save() looks at an object, and the loop over the work stack.
 */
#include "save.h"

#include <string.h>

#include "save_fast.h"

/* ---- the work stack -------------------------------------------------------------------------- */

#define KEPT_TASKS 1024

static TORSHI_NOINLINE int grow_tasks(torshi_dump *d)
{
    size_t more = d->size < 32 ? 32 : d->size + d->size / 2;
    torshi_task *tasks = NULL;
    if (more <= (size_t)PY_SSIZE_T_MAX / sizeof(torshi_task)) {
        tasks = PyMem_Realloc(d->tasks, more * sizeof(torshi_task));
    }
    if (tasks == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    d->tasks = tasks;
    d->size = more;
    return 0;
}

torshi_task *push_task(torshi_dump *d, enum task_kind kind, PyObject *obj, PyObject *extra)
{
    static const union torshi_task_data empty;
    torshi_task *t;
    if (TORSHI_UNLIKELY(d->top == d->size) && grow_tasks(d) < 0) {
        Py_XDECREF(obj);
        Py_XDECREF(extra);
        return NULL;
    }
    t = &d->tasks[d->top++];
    t->kind = (uint32_t)kind;
    t->step = 0;
    t->obj = obj;
    t->extra = extra;
    t->u = empty;
    return t;
}

void pop_task(torshi_dump *d)
{
    torshi_task t = d->tasks[--d->top];
    switch (t.kind) {
    case TASK_REDUCE:
    case TASK_PERSID:
        d->unfinished -= (size_t)t.u.batch.n;
        Py_XDECREF(t.u.batch.pending);
        break;
    case TASK_GLOBAL:
        Py_XDECREF(t.u.batch.pending);
        break;
    case TASK_ITEMS:
    case TASK_PAIRS:
        Py_XDECREF(t.u.batch.pending);
        break;
    case TASK_CALL:
        if (t.u.call.free_arg != NULL) {
            t.u.call.free_arg(t.u.call.arg);
        }
        break;
    default:
        break;
    }
    Py_XDECREF(t.extra);
    Py_XDECREF(t.obj);
}

void pop_tasks(torshi_dump *d, size_t top)
{
    while (d->top > top) {
        pop_task(d);
    }
}

void reverse_tasks(torshi_dump *d, size_t base)
{
    size_t i = base, j = d->top;
    while (j > i + 1) {
        torshi_task t = d->tasks[i];
        d->tasks[i++] = d->tasks[--j];
        d->tasks[j] = t;
    }
}

/*
 * Before 3.12 any new object may start the collector, and with it finalisers. While the memo is
 * quiet it rests.
 */
static void pause_collector(torshi_dump *d)
{
#if PY_VERSION_HEX < 0x030C0000
    d->collector_paused = d->memo.quiet && PyGC_Disable();
#else
    (void)d;
#endif
}

static void resume_collector(torshi_dump *d)
{
#if PY_VERSION_HEX < 0x030C0000
    if (d->collector_paused) {
        d->collector_paused = 0;
        PyGC_Enable();
    }
#else
    (void)d;
#endif
}

TORSHI_NOINLINE int leave_engine(torshi_dump *d)
{
    d->st->savers->epoch++;
    d->memo.unmade_stale = 1;
    if (memo_settle(&d->memo) < 0) {
        return -1;
    }
    resume_collector(d);
    return 0;
}

/* ---- one object ------------------------------------------------------------------------------ */

/* GET, or what a plugin writes for an object it rolled. */
TORSHI_NOINLINE int save_met(torshi_dump *d, PyObject *obj, uint32_t code)
{
    memo_roll_entry e;
    size_t base;
    void *outer = d->plugin;
    int status;
    if (memo_code_is_number(code)) {
        return write_get(d, memo_number(&d->memo, code));
    }
    e = d->memo.rolls[code - MEMO_ROLL_BASE];
    base = d->top;
    d->chunked = 1;
    d->plugin = e.plugin;
    status = e.met(e.plugin, d, obj, e.arg, e.index); /* the memo keeps obj alive */
    d->plugin = outer;
    if (status < 0) {
        return SAVE_ERROR;
    }
    reverse_tasks(d, base);
    return d->top == base ? SAVE_DONE : SAVE_PUSHED;
}

/*
 * save() where there is more to do than to look at the object: room to make, a frame to close,
 * hooks to ask. Sets *status and returns 1 when that was all, 0 to go on with the object.
 */
static TORSHI_NOINLINE int save_slowly(torshi_dump *d, PyObject *obj, int *status)
{
    uint64_t epoch = d->st->savers->epoch;
    *status = SAVE_ERROR;
    Py_INCREF(obj);
    if (out_boundary(d) < 0) {
        goto done;
    }
    if (d->persistent_id != NULL) {
        PyObject *pid = leave_engine(d) < 0 ? NULL : PyObject_CallOneArg(d->persistent_id, obj);
        if (pid == NULL) {
            goto done;
        }
        if (pid != Py_None) {
            *status = save_persistent(d, obj, pid);
            goto done;
        }
        Py_DECREF(pid);
    }
    if (d->st->savers->epoch == epoch) {
        Py_DECREF(obj);
        return 0;
    }
    /* Only our reference may keep obj alive by now. */
    *status = push_task(d, TASK_VALUE, obj, NULL) == NULL ? SAVE_ERROR : SAVE_PUSHED;
    return 1;
done:
    Py_DECREF(obj);
    return 1;
}

int save_object(torshi_dump *d, PyObject *obj, Py_ssize_t solo)
{
    if (TORSHI_UNLIKELY(d->p >= d->soft)) {
        int status;
        if (save_slowly(d, obj, &status)) {
            return status;
        }
    }
    return save_value(d, obj, solo);
}

/* The built-in containers that the table may have a row for. */
static TORSHI_NOINLINE int save_container_by_row(torshi_dump *d, PyObject *obj, PyTypeObject *type)
{
    Py_ssize_t items = 0;
    enum row_kind kind;
    if (type == &PyDict_Type) {
        kind = ROW_DICT;
        items = PyDict_GET_SIZE(obj);
    } else if (type == &PyList_Type) {
        kind = ROW_LIST;
        items = PyList_GET_SIZE(obj);
    } else if (type == &PyTuple_Type) {
        kind = ROW_TUPLE;
        items = PyTuple_GET_SIZE(obj);
    } else if (type == &PySet_Type) {
        kind = ROW_SET;
        items = PySet_GET_SIZE(obj);
    } else if (type == &PyFrozenSet_Type) {
        kind = ROW_FROZENSET;
        items = PySet_GET_SIZE(obj);
    } else if (type == &PyByteArray_Type) {
        kind = ROW_BYTEARRAY;
    } else if (type == &PyPickleBuffer_Type) {
        kind = ROW_PICKLEBUFFER;
    } else {
        return SAVE_DECLINED;
    }
    if (TORSHI_UNLIKELY(d->rows_version != registry_version(d->st->registry))) {
        static PyTypeObject *const types[ROW_KINDS] = {
            [ROW_DICT] = &PyDict_Type,
            [ROW_LIST] = &PyList_Type,
            [ROW_TUPLE] = &PyTuple_Type,
            [ROW_SET] = &PySet_Type,
            [ROW_FROZENSET] = &PyFrozenSet_Type,
            [ROW_BYTEARRAY] = &PyByteArray_Type,
            [ROW_PICKLEBUFFER] = &PyPickleBuffer_Type,
        };
        for (int i = 0; i < ROW_KINDS; i++) {
            const saver_entry *entry = d->rows[i] = registry_saver(d->st->registry, types[i]);
            d->row_min[i] = PY_SSIZE_T_MAX;
            for (; entry != NULL; entry = entry->replaced) {
                if (entry->row->min_items < d->row_min[i]) {
                    d->row_min[i] = entry->row->min_items;
                }
            }
        }
        d->rows_version = registry_version(d->st->registry);
    }
    return items < d->row_min[kind] ? SAVE_DECLINED : save_by_row(d, d->rows[kind], obj, items);
}

int save_value(torshi_dump *d, PyObject *obj, Py_ssize_t solo)
{
    PyTypeObject *type = Py_TYPE(obj);
    memo_slot *slot;
    if (type == &PyUnicode_Type) {
        return save_str(d, obj, solo);
    }
    if (try_atom(d, obj, type)) {
        return SAVE_DONE;
    }
    if (type == &PyLong_Type) {
        return save_long(d, obj);
    }
    if (type == &PyFloat_Type) {
        return save_float_text(d, obj);
    }
    if (type == &PyBool_Type) {
        return save_bool_text(d, obj == Py_True);
    }
    if (Py_REFCNT(obj) != solo) {
        slot = memo_probe(&d->memo, obj);
        if (memo_slot_used(&d->memo, slot) && slot->code != MEMO_COLUMN_CODE) {
            return save_met(d, obj, slot->code);
        }
    }
    if (type == &PyBytes_Type) {
        return save_bytes(d, obj, solo);
    }
    if (d->use_rows) {
        int status = save_container_by_row(d, obj, type);
        if (status != SAVE_DECLINED) {
            return status;
        }
    }
    if (type == &PyDict_Type) {
        return save_dict(d, obj, solo);
    }
    if (type == &PyList_Type) {
        return save_list(d, obj, solo);
    }
    if (type == &PyTuple_Type) {
        return save_tuple(d, obj, solo);
    }
    if (type == &PySet_Type) {
        return save_set(d, obj, solo);
    }
    if (type == &PyFrozenSet_Type) {
        return save_frozenset(d, obj, solo);
    }
    if (type == &PyByteArray_Type) {
        return save_bytearray(d, obj);
    }
    if (type == &PyPickleBuffer_Type) {
        return save_picklebuffer(d, obj);
    }
    return save_other(d, obj, solo);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Save what a task holds; the task stays below, to keep it alive. */
static int step_save(torshi_dump *d, int hooks)
{
    torshi_task *t = &d->tasks[d->top - 1];
    PyObject *obj = t->obj;
    int status;
    t->kind = TASK_HOLD;
    status = hooks ? save_object(d, obj, -1) : save_value(d, obj, -1);
    if (status == SAVE_DONE) {
        pop_task(d);
    }
    return status;
}

static int step_write(torshi_dump *d)
{
    torshi_task *t = &d->tasks[d->top - 1];
    if (out_write(d, t->u.write.bytes, t->u.write.n) < 0) {
        return SAVE_ERROR;
    }
    d->top--;
    return SAVE_DONE;
}

/* A step of a plugin; what it schedules takes its place. */
static int step_call(torshi_dump *d)
{
    torshi_task t = d->tasks[--d->top];
    void *outer = d->plugin;
    size_t base = d->top;
    int status;
    d->plugin = t.u.call.plugin;
    status = t.u.call.step(t.u.call.plugin, d, t.u.call.arg);
    d->plugin = outer;
    if (t.u.call.free_arg != NULL) {
        t.u.call.free_arg(t.u.call.arg);
    }
    if (status < 0) {
        return SAVE_ERROR;
    }
    reverse_tasks(d, base);
    return SAVE_PUSHED;
}

static int step_task(torshi_dump *d)
{
    switch ((enum task_kind)d->tasks[d->top - 1].kind) {
    case TASK_LIST:
        return step_list(d);
    case TASK_TUPLE:
        return step_tuple(d);
    case TASK_DICT:
        return step_dict(d);
    case TASK_INSTANCE:
        return step_instance(d);
    case TASK_REDUCE:
        return step_reduce(d);
    case TASK_SET:
        return step_set(d);
    case TASK_FROZENSET:
        return step_frozenset(d);
    case TASK_ITEMS:
        return step_items(d);
    case TASK_PAIRS:
        return step_pairs(d);
    case TASK_SAVE:
        return step_save(d, 1);
    case TASK_VALUE:
        return step_save(d, 0);
    case TASK_HOLD:
        pop_task(d);
        return SAVE_DONE;
    case TASK_WRITE:
        return step_write(d);
    case TASK_PERSID:
        pop_task(d);
        return out_op(d, OP_BINPERSID);
    case TASK_LEAVE_FAST: {
        int status = fast_leave(d, d->tasks[d->top - 1].obj);
        pop_task(d);
        return status;
    }
    case TASK_GLOBAL:
        return step_global(d);
    case TASK_CALL:
        return step_call(d);
    }
    PyErr_SetString(PyExc_SystemError, "torshi: unknown task");
    return SAVE_ERROR;
}

int dump_object(torshi_dump *d, PyObject *obj)
{
    int status = SAVE_ERROR;
    d->frames = 0;
    d->chunked = 0;
    d->framing = 0;
    d->unfinished = 0;
    d->plugin = NULL;
    d->st->savers->epoch++;
    d->memo.unmade_stale = d->memo.unmade_count != 0;
    if (out_begin(d) < 0) {
        goto done;
    }
    if (d->p >= d->soft || !try_atom(d, obj, Py_TYPE(obj))) {
        pause_collector(d);
        status = save_object(d, obj, d->memo.solo);
        while (status >= 0 && d->top > 0) {
            status = step_task(d);
        }
        if (status < 0) {
            goto done;
        }
    }
    status = out_op(d, OP_STOP);
    if (status == 0) {
        out_close_last_frame(d);
    }
done:
    resume_collector(d);
    if (status < 0) {
        pop_tasks(d, 0);
    }
    d->framing = 0;
    d->frame = -1;
    d->fast_nesting = 0;
    if (d->fast_seen != NULL) {
        PyObject *seen = d->fast_seen;
        d->fast_seen = NULL;
        Py_DECREF(seen);
    }
    if (d->size > KEPT_TASKS) {
        PyMem_Free(d->tasks);
        d->tasks = NULL;
        d->size = 0;
    }
    return status;
}
