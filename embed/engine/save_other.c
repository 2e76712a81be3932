/*
 * save_other.c - objects that are no atoms and no built-in containers: who is asked how to pickle
 * them, and in which order. Hooks, the table, names, registered functions, reducers.
 */
#include "save.h"

#include "save_fast.h"

int lookup_attr(PyObject *obj, PyObject *name, PyObject **value)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyObject_GetOptionalAttr(obj, name, value);
#else
    return _PyObject_LookupAttr(obj, name, value);
#endif
}

/* ---- persistent_id --------------------------------------------------------------------------- */

int save_persistent(torshi_dump *d, PyObject *obj, PyObject *pid)
{
    PyObject *text;
    int status = SAVE_ERROR;
    if (d->bin) {
        if (push_task(d, TASK_PERSID, Py_NewRef(obj), NULL) == NULL ||
            count_reduction(d, obj) < 0) {
            Py_DECREF(pid);
            return SAVE_ERROR;
        }
        return push_task(d, TASK_VALUE, pid, NULL) == NULL ? SAVE_ERROR : SAVE_PUSHED;
    }
    text = PyObject_Str(pid);
    Py_DECREF(pid);
    if (text == NULL) {
        return SAVE_ERROR;
    }
    if (!PyUnicode_IS_ASCII(text)) {
        PyErr_SetString(d->st->PicklingError, "persistent IDs in protocol 0 must be ASCII strings");
    } else if (PyUnicode_FindChar(text, '\n', 0, PyUnicode_GET_LENGTH(text), 1) >= 0) {
        /* It would end the line, and the rest be read as opcodes. */
        PyErr_SetString(d->st->PicklingError,
                        "persistent IDs in protocol 0 must not contain newlines");
    } else if (out_op(d, OP_PERSID) == 0 &&
               out_write(d, PyUnicode_1BYTE_DATA(text), (size_t)PyUnicode_GET_LENGTH(text)) == 0 &&
               out_write(d, "\n", 1) == 0) {
        status = SAVE_DONE;
    }
    Py_DECREF(text);
    return status;
}

/* ---- the table ------------------------------------------------------------------------------- */

int save_by_row(torshi_dump *d, const saver_entry *entry, PyObject *obj, Py_ssize_t items)
{
    void *outer = d->plugin;
    size_t base = d->top;
    int status = TORSHI_DECLINE;
    Py_INCREF(obj);
    for (; entry != NULL && status == TORSHI_DECLINE; entry = entry->replaced) {
        if (items >= entry->row->min_items) {
            d->plugin = entry->plugin_state;
            status = entry->row->save(entry->plugin_state, d, obj);
        }
    }
    d->plugin = outer;
    if (status == TORSHI_OK && d->top != base) {
        /* obj is kept alive until all that was scheduled has run. */
        if (push_task(d, TASK_HOLD, obj, NULL) == NULL) {
            return SAVE_ERROR;
        }
        reverse_tasks(d, base);
        return SAVE_PUSHED;
    }
    Py_DECREF(obj);
    return status == TORSHI_OK ? SAVE_DONE : status == TORSHI_DECLINE ? SAVE_DECLINED : SAVE_ERROR;
}

/* ---- finding the reducer --------------------------------------------------------------------- */

int find_registered(torshi_dump *d, PyObject *type, PyObject **function)
{
    PyObject *table = d->dispatch_table;
    *function = NULL;
    if (table == NULL || PyDict_CheckExact(table)) {
        PyObject *item =
            PyDict_GetItemWithError(table != NULL ? table : d->st->dispatch_table, type);
        if (item == NULL) {
            return PyErr_Occurred() ? -1 : 0;
        }
        *function = Py_NewRef(item);
        return 1;
    }
    *function = PyObject_GetItem(table, type);
    if (*function != NULL) {
        return 1;
    }
    if (!PyErr_ExceptionMatches(PyExc_KeyError)) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

/* What object.__reduce_ex__ makes of the object's own __getstate__; new reference or NULL. */
static PyObject *call_getstate(torshi_dump *d, PyObject *obj)
{
    PyObject *state = PyObject_CallMethodNoArgs(obj, d->st->str_getstate);
    PyObject *args, *value = NULL;
    if (state == NULL) {
        return NULL;
    }
    args = PyTuple_Pack(1, (PyObject *)Py_TYPE(obj));
    if (args != NULL) {
        value = PyTuple_Pack(3, d->st->savers->newobj, args, state);
        Py_DECREF(args);
    }
    Py_DECREF(state);
    return value;
}

/*
 * Call the reducer of an object whose attributes are looked up in the usual way, without binding
 * it first, and where it is object.__reduce_ex__ rather what that would call. New reference or
 * NULL.
 */
static PyObject *call_reduce_directly(torshi_dump *d, PyObject *obj)
{
    torshi_state *st = d->st;
    const type_info *info = type_info_of(st->savers, Py_TYPE(obj));
    PyObject *proto, *value;
    /* Without internals, looking at the attributes would make the object's __dict__. */
    if ((!info->has_dict || st->internals) &&
        (info->nature == TYPE_REDUCE || (info->nature == TYPE_GETSTATE && d->proto >= 2))) {
        int plain = instance_is_plain(d, obj, info);
        if (plain < 0) {
            return NULL;
        }
        if (plain) {
            return info->nature == TYPE_REDUCE ? PyObject_CallMethodNoArgs(obj, st->str_reduce)
                                               : call_getstate(d, obj);
        }
    }
    proto = PyLong_FromLong(d->proto);
    if (proto == NULL) {
        return NULL;
    }
    value = PyObject_CallMethodOneArg(obj, st->str_reduce_ex, proto);
    Py_DECREF(proto);
    return value;
}

/* Call __reduce_ex__ or __reduce__; new reference or NULL. */
static PyObject *call_reduce(torshi_dump *d, PyObject *obj)
{
    torshi_state *st = d->st;
    PyObject *method, *value = NULL;
    if (Py_TYPE(obj)->tp_getattro == PyObject_GenericGetAttr) {
        return call_reduce_directly(d, obj);
    }
    if (lookup_attr(obj, st->str_reduce_ex, &method) < 0) {
        return NULL;
    }
    if (method != NULL) {
        PyObject *proto = PyLong_FromLong(d->proto);
        if (proto != NULL) {
            value = PyObject_CallOneArg(method, proto);
            Py_DECREF(proto);
        }
        Py_DECREF(method);
        return value;
    }
    if (lookup_attr(obj, st->str_reduce, &method) < 0) {
        return NULL;
    }
    if (method == NULL) {
        PyErr_Format(st->PicklingError, "can't pickle '%.200s' object: %R", Py_TYPE(obj)->tp_name,
                     obj);
        return NULL;
    }
    value = PyObject_CallNoArgs(method);
    Py_DECREF(method);
    return value;
}

/* What a reducer returned for obj (stolen): SAVE_*. */
static int save_reduced(torshi_dump *d, PyObject *obj, PyObject *value)
{
    int status;
    if (PyTuple_Check(value)) {
        return begin_reduce(d, value, obj, 1);
    }
    if (PyUnicode_Check(value)) {
        status = save_global(d, obj, value);
    } else {
        PyErr_SetString(d->st->PicklingError, "__reduce__ must return a string or tuple");
        status = SAVE_ERROR;
    }
    Py_DECREF(value);
    return status;
}

/* save_other where user code may run; obj is kept alive by the caller. */
static int save_by_reducer(torshi_dump *d, PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    PyObject *function, *value;
    int status;
    if (d->reducer_override != NULL) {
        value = PyObject_CallOneArg(d->reducer_override, obj);
        if (value == NULL) {
            return SAVE_ERROR;
        }
        if (value != Py_NotImplemented) {
            return save_reduced(d, obj, value);
        }
        Py_DECREF(value);
    }
    if (d->use_rows && d->dispatch_table == NULL) {
        const type_info *info = type_info_of(d->st->savers, type);
        if (info->row != NULL) {
            status = save_by_row(d, info->row, obj, 0);
            if (status != SAVE_DECLINED) {
                return status;
            }
        }
    }
    if (type == &PyType_Type) {
        return save_type(d, obj);
    }
    if (type == &PyFunction_Type) {
        return save_global(d, obj, NULL);
    }
    if (find_registered(d, (PyObject *)type, &function) < 0) {
        return SAVE_ERROR;
    }
    if (function != NULL) {
        value = PyObject_CallOneArg(function, obj);
        Py_DECREF(function);
    } else if (PyType_IsSubtype(type, &PyType_Type)) {
        return save_global(d, obj, NULL);
    } else {
        value = call_reduce(d, obj);
    }
    if (value == NULL) {
        return SAVE_ERROR;
    }
    return save_reduced(d, obj, value);
}

int save_other(torshi_dump *d, PyObject *obj, Py_ssize_t solo)
{
    PyTypeObject *type = Py_TYPE(obj);
    int status = SAVE_DECLINED;
    if (d->reducer_override == NULL) {
        if (type == &PyType_Type || type == &PyFunction_Type) {
            if (!d->use_rows || type_info_of(d->st->savers, type)->row == NULL) {
                status = save_global_quietly(d, obj);
            }
        } else if (d->dispatch_table == NULL && d->proto >= 2 && !d->fast) {
            type_info *info = type_info_of(d->st->savers, type);
            if (info->kind == TYPE_DEFAULT && (info->row == NULL || !d->use_rows)) {
                status = save_instance(d, obj, info, solo);
            }
        }
    }
    if (status != SAVE_DECLINED) {
        return status;
    }
    Py_INCREF(obj);
    status = leave_engine(d) < 0 ? SAVE_ERROR : save_by_reducer(d, obj);
    Py_DECREF(obj);
    return status;
}
