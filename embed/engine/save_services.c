/*
 * save_services.c - the services vtable of abi.h as far as it concerns a dump.
 */
#include "save.h"

#include "save_fast.h"

static int svc_option(torshi_dump *d, int which)
{
    switch (which) {
    case TORSHI_OPT_PROTOCOL:
        return d->proto;
    case TORSHI_OPT_ASKS_HOOKS:
        return d->reducer_override != NULL || d->dispatch_table != NULL;
    case TORSHI_OPT_FAST:
        return d->fast != 0;
    case TORSHI_OPT_FIX_IMPORTS:
        return d->fix_imports;
    case TORSHI_OPT_BUFFERS:
        return d->buffer_callback != NULL;
    default:
        return 0;
    }
}

static int svc_write(torshi_dump *d, const void *bytes, size_t n)
{
    d->chunked = 1;
    return out_write(d, bytes, n);
}

static int svc_write_bytes(torshi_dump *d, const void *bytes, size_t n)
{
    d->chunked = 1;
    return write_bytes_data(d, bytes, n, NULL);
}

static int write_short_name(torshi_dump *d, const char *name)
{
    size_t n = strlen(name);
    unsigned char header[2] = {OP_SHORT_BINUNICODE, (unsigned char)n};
    if (n > 255) {
        PyErr_SetString(PyExc_ValueError, "name of a plugin's callable is too long");
        return -1;
    }
    return out_write(d, header, sizeof header) < 0 ? -1 : out_write(d, name, n);
}

/* The code in copyreg's registry, 0 for none, -1 with an exception. */
static long extension_code(torshi_dump *d, const char *module, const char *name)
{
    PyObject *key, *item;
    long code;
    if (PyDict_GET_SIZE(d->st->extension_registry) == 0) {
        return 0;
    }
    if (leave_engine(d) < 0) {
        return -1;
    }
    key = Py_BuildValue("(ss)", module, name);
    if (key == NULL) {
        return -1;
    }
    item = PyDict_GetItemWithError(d->st->extension_registry, key);
    Py_DECREF(key);
    if (item == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    code = PyLong_AsLong(item);
    if (code == -1 && PyErr_Occurred()) {
        return -1;
    }
    return code > 0 && code <= 0x7fffffffL ? code : 0;
}

static int svc_write_global(torshi_dump *d, PyObject *callable, const char *module,
                            const char *name)
{
    memo_slot *slot = memo_probe(&d->memo, callable);
    long code;
    d->chunked = 1;
    if (memo_slot_used(&d->memo, slot) && memo_code_is_number(slot->code)) {
        return write_get(d, memo_number(&d->memo, slot->code));
    }
    code = extension_code(d, module, name);
    if (code != 0) {
        return code < 0 ? -1 : write_extension(d, code);
    }
    if (write_short_name(d, module) < 0 || write_short_name(d, name) < 0 ||
        out_op(d, OP_STACK_GLOBAL) < 0) {
        return -1;
    }
    return memoize(d, callable);
}

static int svc_memoize(torshi_dump *d, PyObject *obj)
{
    return memoize(d, obj);
}

static int64_t svc_memo_find(torshi_dump *d, PyObject *obj)
{
    const memo_slot *slot = memo_probe(&d->memo, obj);
    if (!memo_slot_used(&d->memo, slot)) {
        return TORSHI_MEMO_ABSENT;
    }
    if (memo_code_is_number(slot->code)) {
        Py_ssize_t number = memo_number(&d->memo, slot->code);
        return number < 0 ? 0 : (int64_t)number;
    }
    return slot->code == MEMO_COLUMN_CODE ? TORSHI_MEMO_COLUMN : TORSHI_MEMO_ROLLED;
}

static int svc_memo_get(torshi_dump *d, PyObject *obj)
{
    const memo_slot *slot = memo_probe(&d->memo, obj);
    if (!memo_slot_used(&d->memo, slot) || !memo_code_is_number(slot->code)) {
        PyErr_SetObject(PyExc_KeyError, obj);
        return -1;
    }
    return write_get(d, memo_number(&d->memo, slot->code));
}

static int svc_mark_column(torshi_dump *d, PyObject *obj)
{
    return memo_mark_column(&d->memo, obj);
}

static int svc_roll(torshi_dump *d, PyObject *obj, torshi_met_fn met, void *arg, uint32_t index)
{
    return memo_roll(&d->memo, obj, met, d->plugin, arg, index);
}

static int svc_roll_many(torshi_dump *d, PyObject *const *objects, size_t n, torshi_met_fn met,
                         void *arg, uint32_t first_index)
{
    return memo_roll_many(&d->memo, objects, n, met, d->plugin, arg, first_index);
}

static int svc_own(torshi_dump *d, void *arg, torshi_free_fn free_arg)
{
    return memo_own(&d->memo, arg, free_arg);
}

static int svc_then_save(torshi_dump *d, PyObject *obj)
{
    return push_task(d, TASK_SAVE, Py_NewRef(obj), NULL) == NULL ? -1 : 0;
}

static int svc_then_write(torshi_dump *d, const void *bytes, size_t n)
{
    torshi_task *t;
    if (n > sizeof t->u.write.bytes) {
        PyErr_SetString(PyExc_ValueError, "then_write takes 8 bytes at most");
        return -1;
    }
    d->chunked = 1;
    t = push_task(d, TASK_WRITE, NULL, NULL);
    if (t == NULL) {
        return -1;
    }
    memcpy(t->u.write.bytes, bytes, n);
    t->u.write.n = n;
    return 0;
}

static int svc_then_call(torshi_dump *d, torshi_step_fn step, void *arg, torshi_free_fn free_arg)
{
    torshi_task *t = push_task(d, TASK_CALL, NULL, NULL);
    if (t == NULL) {
        if (free_arg != NULL) {
            free_arg(arg);
        }
        return -1;
    }
    t->u.call.step = step;
    t->u.call.plugin = d->plugin;
    t->u.call.arg = arg;
    t->u.call.free_arg = free_arg;
    return 0;
}

static int svc_is_default_instance(torshi_dump *d, PyObject *obj)
{
    const type_info *info;
    if (d->reducer_override != NULL || d->dispatch_table != NULL || d->proto < 2) {
        return 0;
    }
    info = type_info_of(d->st->savers, Py_TYPE(obj));
    return info->kind == TYPE_DEFAULT ? instance_is_plain(d, obj, info) : 0;
}

static PyObject *svc_registered_reducer(torshi_dump *d, PyObject *cls)
{
    PyObject *function = NULL;
    /* Looking into a dict is quiet unless the class has a metaclass with ideas of its own. */
    if (d->dispatch_table != NULL || Py_TYPE(cls)->tp_hash != PyType_Type.tp_hash ||
        Py_TYPE(cls)->tp_richcompare != PyType_Type.tp_richcompare) {
        if (leave_engine(d) < 0) {
            return NULL;
        }
    }
    if (find_registered(d, cls, &function) < 0) {
        return NULL;
    }
    return function;
}

static int svc_leave(torshi_dump *d)
{
    return leave_engine(d);
}

static int svc_begin_filling(torshi_dump *d, PyObject *dict)
{
    return memo_begin_filling(&d->memo, dict);
}

static void svc_end_filling(torshi_dump *d)
{
    memo_end_filling(&d->memo);
}

void pickler_fill_services(torshi_services *services)
{
    services->option = svc_option;
    services->write = svc_write;
    services->write_bytes = svc_write_bytes;
    services->write_global = svc_write_global;
    services->memoize = svc_memoize;
    services->memo_find = svc_memo_find;
    services->memo_get = svc_memo_get;
    services->mark_column = svc_mark_column;
    services->roll = svc_roll;
    services->roll_many = svc_roll_many;
    services->own = svc_own;
    services->then_save = svc_then_save;
    services->then_write = svc_then_write;
    services->then_call = svc_then_call;
    services->is_default_instance = svc_is_default_instance;
    services->registered_reducer = svc_registered_reducer;
    services->leave = svc_leave;
    services->begin_filling = svc_begin_filling;
    services->end_filling = svc_end_filling;
}
