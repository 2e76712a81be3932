/*
 * framing.c - the pickler's output buffer, and protocol 4's frames in it.
 *
 * A frame is opened as soon as the one before it is closed, by leaving room for its header; when
 * it is closed the header is filled in, or, for a frame too short to have one, the bytes move down
 * over it. So an empty frame leaves no trace, and what is written here is what stock pickle
 * writes, which opens frames at the first opcode.
 */
#include "save.h"

#include <string.h>

#define BUFFER_START 4096   /* bytes in a new buffer, unless results were larger */
#define BUFFER_MOST 1048576 /* and at most then */
#define BUFFER_COPIED 32768 /* a result up to this size is copied, and the buffer kept */

void out_set_soft(torshi_dump *d)
{
    unsigned char *soft = d->end - OUT_SLACK;
    if (d->frame >= 0) {
        unsigned char *limit = out_base(d) + d->frame + FRAME_HEADER + FRAME_TARGET;
        if (limit < soft) {
            soft = limit;
        }
    }
    d->soft = d->persistent_id != NULL ? NULL : soft;
}

int out_begin(torshi_dump *d)
{
    if (d->out == NULL) {
        Py_ssize_t size = d->expected > BUFFER_START ? d->expected : BUFFER_START;
        d->out = PyBytes_FromStringAndSize(NULL, size);
        if (d->out == NULL) {
            d->p = d->end = d->soft = NULL;
            return -1;
        }
        d->end = out_base(d) + size;
    }
    d->p = out_base(d);
    d->skipped = 0;
    d->frame = -1;
    d->framing = d->proto >= 4;
    if (d->proto >= 2) {
        *d->p++ = OP_PROTO;
        *d->p++ = (unsigned char)d->proto;
    }
    if (d->framing) {
        d->frame = d->p - out_base(d);
        d->p += FRAME_HEADER;
    }
    out_set_soft(d);
    return 0;
}

int out_grow(torshi_dump *d, size_t n)
{
    size_t used = (size_t)(d->p - out_base(d));
    size_t size = (size_t)(d->end - out_base(d));
    size_t need;
    if ((size_t)(d->end - d->p) >= n + OUT_SLACK) {
        return 0;
    }
    if (n > (size_t)PY_SSIZE_T_MAX / 4 || used > (size_t)PY_SSIZE_T_MAX / 4) {
        PyErr_NoMemory();
        return -1;
    }
    need = used + n + OUT_SLACK;
    size += size / 2;
    if (size < need) {
        size = need;
    }
    if (_PyBytes_Resize(&d->out, (Py_ssize_t)size) < 0) {
        /* The buffer is gone; leave an empty one behind, so that pointers stay good. */
        d->p = d->end = d->soft = NULL;
        return -1;
    }
    d->p = out_base(d) + used;
    d->end = out_base(d) + size;
    out_set_soft(d);
    return 0;
}

int out_write(torshi_dump *d, const void *bytes, size_t n)
{
    if (TORSHI_UNLIKELY((size_t)(d->end - d->p) < n) && out_grow(d, n) < 0) {
        return -1;
    }
    memcpy(d->p, bytes, n);
    d->p += n;
    return 0;
}

int out_open_frame(torshi_dump *d)
{
    if (out_room(d, FRAME_HEADER) < 0) {
        return -1;
    }
    d->frame = d->p - out_base(d);
    d->p += FRAME_HEADER;
    out_set_soft(d);
    return 0;
}

static void drop_header(torshi_dump *d)
{
    unsigned char *base = out_base(d), *start = base + d->frame;
    size_t before = (size_t)(start - base), n = (size_t)(d->p - start) - FRAME_HEADER;
    if (before < n && d->skipped == 0) { /* mostly PROTO, which is quicker to move */
        memmove(base + FRAME_HEADER, base, before);
        d->skipped = FRAME_HEADER;
    } else {
        memmove(start, start + FRAME_HEADER, n);
        d->p -= FRAME_HEADER;
    }
    d->frame = -1;
}

void out_close_frame(torshi_dump *d)
{
    unsigned char *start;
    uint64_t n;
    if (d->frame < 0) {
        return;
    }
    start = out_base(d) + d->frame;
    n = (uint64_t)(d->p - start) - FRAME_HEADER;
    if (n < FRAME_MINIMUM) {
        drop_header(d);
        return;
    }
    start[0] = OP_FRAME;
    for (int i = 0; i < 8; i++) {
        start[1 + i] = (unsigned char)(n >> (8 * i));
    }
    d->frame = -1;
    d->frames++;
}

void out_close_last_frame(torshi_dump *d)
{
    if (d->frame >= 0 && d->chunked && d->frames == 0) {
        drop_header(d);
    } else {
        out_close_frame(d);
    }
}

int out_flush(torshi_dump *d)
{
    const unsigned char *start = out_base(d) + d->skipped;
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)start, d->p - start);
    PyObject *result;
    if (bytes == NULL || leave_engine(d) < 0) {
        Py_XDECREF(bytes);
        return -1;
    }
    d->p = out_base(d);
    d->skipped = 0;
    result = PyObject_CallOneArg(d->write, bytes);
    Py_DECREF(bytes);
    if (result == NULL) {
        return -1;
    }
    Py_DECREF(result);
    return 0;
}

int out_boundary(torshi_dump *d)
{
    if (d->frame >= 0 && (d->p - out_base(d)) - d->frame - FRAME_HEADER >= FRAME_TARGET) {
        out_close_frame(d);
        if ((d->write != NULL && out_flush(d) < 0) || out_open_frame(d) < 0) {
            return -1;
        }
    }
    return out_grow(d, OUT_SLACK);
}

/* The bytes before and of a payload that goes to the file by itself. */
static int flush_payload(torshi_dump *d, const void *data, size_t n, PyObject *payload)
{
    PyObject *result;
    if (payload == NULL) {
        payload = PyBytes_FromStringAndSize(data, (Py_ssize_t)n);
        if (payload == NULL) {
            return -1;
        }
    } else {
        Py_INCREF(payload);
    }
    if (out_flush(d) < 0) {
        Py_DECREF(payload);
        return -1;
    }
    result = PyObject_CallOneArg(d->write, payload);
    Py_DECREF(payload);
    if (result == NULL) {
        return -1;
    }
    Py_DECREF(result);
    return 0;
}

int out_payload(torshi_dump *d, const void *header, size_t header_size, const void *data, size_t n,
                PyObject *payload)
{
    if (TORSHI_LIKELY(n < FRAME_TARGET)) {
        if (TORSHI_UNLIKELY((size_t)(d->end - d->p) < n + OUT_SLACK) &&
            out_grow(d, n + header_size) < 0) {
            return -1;
        }
        memcpy(d->p, header, header_size);
        memcpy(d->p + header_size, data, n);
        d->p += header_size + n;
        return 0;
    }
    out_close_frame(d);
    d->frames++;
    if (out_write(d, header, header_size) < 0) {
        return -1;
    }
    if (d->write != NULL) {
        if (flush_payload(d, data, n, payload) < 0) {
            return -1;
        }
    } else if (out_write(d, data, n) < 0) {
        return -1;
    }
    return d->framing ? out_open_frame(d) : 0;
}

PyObject *out_take(torshi_dump *d)
{
    unsigned char *start = out_base(d) + d->skipped;
    Py_ssize_t n = d->p - start;
    PyObject *bytes;
    if (n <= BUFFER_COPIED) {
        d->expected = 0;
        bytes = PyBytes_FromStringAndSize((const char *)start, n);
        d->p = out_base(d);
        d->skipped = 0;
        return bytes;
    }
    memmove(out_base(d), start, d->skipped ? (size_t)n : 0);
    bytes = d->out;
    d->expected = n < BUFFER_MOST ? n + OUT_SLACK : BUFFER_MOST;
    d->skipped = 0;
    d->out = NULL;
    d->p = d->end = d->soft = NULL;
    if (_PyBytes_Resize(&bytes, n) < 0) {
        return NULL;
    }
    return bytes;
}
