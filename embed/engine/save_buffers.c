/*
 * save_buffers.c - bytearray, and buffers that may travel out of band.
 */
#include "save.h"

#if PY_VERSION_HEX >= 0x030D0000
#define NEEDS_PROTOCOL_5 "PickleBuffer can only be pickled with protocol >= 5"
#else
#define NEEDS_PROTOCOL_5 "PickleBuffer can only pickled with protocol >= 5"
#endif

int save_bytearray(torshi_dump *d, PyObject *obj)
{
    PyObject *value, *bytes;
    if (d->proto >= 5) {
        int status;
        Py_INCREF(obj); /* the file may drop it */
        status = write_bytearray_data(d, PyByteArray_AS_STRING(obj),
                                      (size_t)PyByteArray_GET_SIZE(obj), obj);
        if (status == 0) {
            status = memoize(d, obj);
        }
        Py_DECREF(obj);
        return status;
    }
    if (leave_engine(d) < 0) {
        return SAVE_ERROR;
    }
    if (PyByteArray_GET_SIZE(obj) == 0) {
        value = Py_BuildValue("(O())", (PyObject *)&PyByteArray_Type);
    } else {
        bytes = PyBytes_FromObject(obj);
        if (bytes == NULL) {
            return SAVE_ERROR;
        }
        value = Py_BuildValue("(O(N))", (PyObject *)&PyByteArray_Type, bytes);
    }
    return value == NULL ? SAVE_ERROR : save_reduce(d, value, obj);
}

/* The buffer behind a PickleBuffer, borrowed; NULL with an exception. */
static const Py_buffer *contiguous_view(torshi_dump *d, PyObject *obj)
{
    const Py_buffer *view = PyPickleBuffer_GetBuffer(obj);
    if (view != NULL && (view->suboffsets != NULL || !PyBuffer_IsContiguous(view, 'A'))) {
        PyErr_SetString(d->st->PicklingError, "PickleBuffer can not be pickled when pointing to a "
                                              "non-contiguous buffer");
        return NULL;
    }
    return view;
}

/* obj is kept alive by the caller. */
static int save_view(torshi_dump *d, PyObject *obj)
{
    const Py_buffer *view = contiguous_view(d, obj);
    int in_band = 1;
    int readonly, status;
    PyObject *payload = NULL;
    if (view == NULL) {
        return SAVE_ERROR;
    }
    readonly = view->readonly;
    if (d->buffer_callback != NULL) {
        PyObject *result = PyObject_CallOneArg(d->buffer_callback, obj);
        if (result == NULL) {
            return SAVE_ERROR;
        }
        in_band = PyObject_IsTrue(result);
        Py_DECREF(result);
        if (in_band < 0) {
            return SAVE_ERROR;
        }
    }
    if (!in_band) {
        /* The callback may have released it; nothing more of it is needed. */
        if (out_op(d, OP_NEXT_BUFFER) < 0) {
            return SAVE_ERROR;
        }
        return readonly ? out_op(d, OP_READONLY_BUFFER) : SAVE_DONE;
    }
    /* The callback may have released or changed it. */
    view = contiguous_view(d, obj);
    if (view == NULL) {
        return SAVE_ERROR;
    }
    if (d->write != NULL && view->len >= FRAME_TARGET) {
        /* A file wants something that has a length in bytes, which a PickleBuffer has not. */
        payload = PyObject_CallMethod(obj, "raw", NULL);
        if (payload == NULL) {
            return SAVE_ERROR;
        }
    }
    status = view->readonly ? write_bytes_data(d, view->buf, (size_t)view->len, payload)
                            : write_bytearray_data(d, view->buf, (size_t)view->len, payload);
    Py_XDECREF(payload);
    return status < 0 ? SAVE_ERROR : memoize(d, obj);
}

int save_picklebuffer(torshi_dump *d, PyObject *obj)
{
    int status;
    if (d->proto < 5) {
        PyErr_SetString(d->st->PicklingError, NEEDS_PROTOCOL_5);
        return SAVE_ERROR;
    }
    /* Making an exception, and asking the exporter, may run code. */
    if (leave_engine(d) < 0) {
        return SAVE_ERROR;
    }
    Py_INCREF(obj);
    status = save_view(d, obj);
    Py_DECREF(obj);
    return status;
}
