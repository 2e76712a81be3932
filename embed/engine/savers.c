/*
 * savers.c - what pickling keeps for each interpreter, and the options of one dump.
 */
#include "save.h"

#include <string.h>

#include "save_fast.h"

#define DEFAULT_PROTOCOL 4
#define KEPT_BUFFER 1048576 /* a larger output buffer is not kept between dumps */

/* ---- one dump -------------------------------------------------------------------------------- */

int dump_init(torshi_dump *d, torshi_state *st)
{
    memset(d, 0, sizeof *d);
    d->st = st;
    d->frame = -1;
    return memo_init(&d->memo);
}

int dump_set_protocol(torshi_dump *d, PyObject *protocol, int fix_imports)
{
    long proto = DEFAULT_PROTOCOL;
    int64_t value;
    if (protocol != NULL && Py_IS_TYPE(protocol, &PyLong_Type) && small_int(protocol, &value) &&
        value >= 0 && value <= OP_HIGHEST_PROTOCOL) {
        proto = (long)value;
    } else if (protocol != NULL && protocol != Py_None) {
        proto = PyLong_AsLong(protocol);
        if (proto == -1 && PyErr_Occurred()) {
            return -1;
        }
        if (proto > OP_HIGHEST_PROTOCOL) {
            PyErr_Format(PyExc_ValueError, "pickle protocol must be <= %d", OP_HIGHEST_PROTOCOL);
            return -1;
        }
        if (proto < 0) {
            proto = OP_HIGHEST_PROTOCOL;
        }
    }
    d->proto = (int)proto;
    d->bin = proto > 0;
    d->fix_imports = fix_imports && proto < 3;
    d->fast = 0;
    dump_set_modern(d);
    return 0;
}

int dump_set_callback(torshi_dump *d, PyObject *buffer_callback)
{
    if (buffer_callback == NULL || buffer_callback == Py_None) {
        return 0;
    }
    if (d->proto < 5) {
        PyErr_SetString(PyExc_ValueError, "buffer_callback needs protocol >= 5");
        return -1;
    }
    Py_INCREF(buffer_callback);
    Py_XSETREF(d->buffer_callback, buffer_callback);
    return 0;
}

int dump_set_file(torshi_dump *d, PyObject *file)
{
    PyObject *write;
    if (lookup_attr(file, d->st->str_write, &write) < 0) {
        return -1;
    }
    if (write == NULL) {
        PyErr_SetString(PyExc_TypeError, "file must have a 'write' attribute");
        return -1;
    }
    Py_XSETREF(d->write, write);
    return 0;
}

static TORSHI_NOINLINE void drop_options(torshi_dump *d)
{
    Py_CLEAR(d->write);
    Py_CLEAR(d->persistent_id);
    Py_CLEAR(d->reducer_override);
    Py_CLEAR(d->dispatch_table);
    Py_CLEAR(d->buffer_callback);
}

void dump_close(torshi_dump *d)
{
    memo_reset(&d->memo);
    if (d->write != NULL || d->persistent_id != NULL || d->reducer_override != NULL ||
        d->dispatch_table != NULL || d->buffer_callback != NULL) {
        drop_options(d);
    }
    if (d->out != NULL && d->end - out_base(d) > KEPT_BUFFER) {
        Py_CLEAR(d->out);
        d->p = d->end = d->soft = NULL;
    }
}

void dump_free(torshi_dump *d)
{
    pop_tasks(d, 0);
    dump_close(d);
    memo_fini(&d->memo);
    PyMem_Free(d->tasks);
    d->tasks = NULL;
    d->size = 0;
    Py_CLEAR(d->out);
    d->p = d->end = d->soft = NULL;
    Py_CLEAR(d->fast_seen);
}

torshi_dump *dump_acquire(torshi_state *st)
{
    torshi_dump *d = st->savers->idle;
    if (d != NULL) {
        st->savers->idle = NULL;
        return d;
    }
    d = PyMem_Malloc(sizeof *d);
    if (d == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (dump_init(d, st) < 0) {
        PyMem_Free(d);
        return NULL;
    }
    return d;
}

void dump_release(torshi_dump *d)
{
    torshi_state *st = d->st;
    dump_close(d); /* may run code that dumps */
    if (st->savers != NULL && st->savers->idle == NULL) {
        st->savers->idle = d;
        return;
    }
    dump_free(d);
    PyMem_Free(d);
}

/* ---- one interpreter ------------------------------------------------------------------------- */

torshi_savers *savers_new(torshi_state *st)
{
    torshi_savers *s = PyMem_Calloc(1, sizeof *s);
    PyObject *base = (PyObject *)&PyBaseObject_Type;
    PyObject *copyreg = NULL;
    if (s == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    s->st = st;
    s->epoch = 1;
    s->default_reducers = torshi_default_reducers();
    s->str_slotnames = PyUnicode_InternFromString("__slotnames__");
    s->str_slots = PyUnicode_InternFromString("__slots__");
    s->str_latin1 = PyUnicode_InternFromString("latin1");
    s->str_import = PyUnicode_InternFromString("__import__");
    s->object_reduce_ex = PyObject_GetAttr(base, st->str_reduce_ex);
    s->object_reduce = PyObject_GetAttr(base, st->str_reduce);
    s->object_getstate = PyObject_GetAttr(base, st->str_getstate);
    s->object_class = Py_XNewRef(_PyType_Lookup(&PyBaseObject_Type, st->str_class));
    copyreg = PyImport_ImportModule("copyreg");
    if (copyreg != NULL) {
        s->newobj = PyObject_GetAttr(copyreg, st->str_newobj);
        Py_DECREF(copyreg);
    }
    if (s->str_slotnames == NULL || s->str_slots == NULL || s->str_latin1 == NULL ||
        s->str_import == NULL || s->object_reduce_ex == NULL || s->object_reduce == NULL ||
        s->object_getstate == NULL || s->object_class == NULL || s->newobj == NULL) {
        savers_clear(s);
        savers_free(s);
        return NULL;
    }
    return s;
}

int savers_traverse(torshi_savers *s, visitproc visit, void *arg)
{
    for (int i = 0; i < 2; i++) {
        Py_VISIT(s->proxy_types[i]);
        Py_VISIT(s->pickler_types[i]);
    }
    Py_VISIT(s->newobj);
    return 0;
}

void savers_clear(torshi_savers *s)
{
    torshi_dump *idle = s->idle;
    s->idle = NULL;
    if (idle != NULL) {
        dump_free(idle);
        PyMem_Free(idle);
    }
    types_clear(s);
    for (int i = 0; i < 2; i++) {
        Py_CLEAR(s->proxy_types[i]);
        Py_CLEAR(s->pickler_types[i]);
    }
    Py_CLEAR(s->object_reduce_ex);
    Py_CLEAR(s->object_reduce);
    Py_CLEAR(s->object_getstate);
    Py_CLEAR(s->object_class);
    Py_CLEAR(s->newobj);
    Py_CLEAR(s->str_slotnames);
    Py_CLEAR(s->str_slots);
    Py_CLEAR(s->str_latin1);
    Py_CLEAR(s->str_import);
}

void savers_free(torshi_savers *s)
{
    if (s == NULL) {
        return;
    }
    if (s->idle != NULL) {
        dump_free(s->idle);
        PyMem_Free(s->idle);
    }
    PyMem_Free(s);
}
