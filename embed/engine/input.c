/*
 * input.c - where the bytes of a pickle come from: memory, or the methods of a file.
 *
 * A file is read as little ahead as its methods allow. With peek() the buffer holds bytes that the
 * file still has (`taken` is where its position is in our buffer), and what was used of them is
 * read for good before the next call of it and at the end. Without peek() nothing is asked for
 * that is not needed at once, so the file always stands where the load is.
 */
#include "load.h"

#define PREFETCH (128 * 1024)
/* Larger requests are answered piece by piece, so that a damaged length allocates nothing that
   the input does not fill. */
#define PIECE (1 << 20)
/* Up to this size read() and a copy are quicker than a buffer object for readinto(). */
#define READ_BELOW (16 * 1024)

/* The buffer object behind the memoryview that readinto() gets. It owns the bytes that are being
   filled, so that a view which the file keeps never dangles. */
typedef struct read_target {
    PyObject_HEAD
    PyObject *bytes; /* owned: being filled; NULL afterwards */
    Py_ssize_t offset;
    Py_ssize_t size;
    Py_ssize_t exports;
} read_target;

static int target_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    read_target *target = (read_target *)self;
    if (target->bytes == NULL) {
        PyErr_SetString(PyExc_BufferError, "the read that this buffer was for is over");
        view->obj = NULL;
        return -1;
    }
    char *start = PyBytes_AS_STRING(target->bytes) + target->offset;
    if (PyBuffer_FillInfo(view, self, start, target->size, 0, flags) < 0) {
        return -1;
    }
    target->exports++;
    return 0;
}

static void target_releasebuffer(PyObject *self, Py_buffer *Py_UNUSED(view))
{
    ((read_target *)self)->exports--;
}

static void target_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((read_target *)self)->bytes);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot target_slots[] = {
    {Py_tp_dealloc, TORSHI_FN(target_dealloc)},
    {Py_bf_getbuffer, TORSHI_FN(target_getbuffer)},
    {Py_bf_releasebuffer, TORSHI_FN(target_releasebuffer)},
    {0, NULL},
};

static PyType_Spec target_spec = {
    .name = "torshi.ReadTarget",
    .basicsize = sizeof(read_target),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = target_slots,
};

int input_add_type(torshi_loaders *loaders)
{
    loaders->target_type = (PyTypeObject *)PyType_FromSpec(&target_spec);
    return loaders->target_type == NULL ? -1 : 0;
}

int input_truncated(torshi_load *load)
{
    PyErr_SetString(load->st->UnpicklingError, "pickle data was truncated");
    return -1;
}

/* ---- setting up ------------------------------------------------------------------------------ */

int input_from_file(torshi_load *load, PyObject *file)
{
    const torshi_state *st = load->st;
    PyObject *peek = NULL, *readinto = NULL, *read = NULL, *readline = NULL;
    if (lookup_attribute(file, st->str_peek, &peek) < 0 ||
        lookup_attribute(file, st->str_readinto, &readinto) < 0 ||
        lookup_attribute(file, st->str_read, &read) < 0 ||
        lookup_attribute(file, st->str_readline, &readline) < 0) {
        goto error;
    }
    if (read == NULL || readline == NULL) {
        PyErr_SetString(PyExc_TypeError, "file must have 'read' and 'readline' attributes");
        goto error;
    }
    load->peek = peek;
    load->readinto = readinto;
    load->readline = readline;
    load->read = read;
    load->pos = load->end = load->taken = NULL;
    return 0;
error:
    Py_XDECREF(peek);
    Py_XDECREF(readinto);
    Py_XDECREF(read);
    Py_XDECREF(readline);
    return -1;
}

static void drop_buffer(torshi_load *load)
{
    load->pos = load->end = load->taken = NULL;
    Py_CLEAR(load->bytes);
    if (load->view.obj != NULL) {
        PyBuffer_Release(&load->view);
        load->view.obj = NULL;
    }
}

void input_clear(torshi_load *load)
{
    drop_buffer(load);
    Py_CLEAR(load->read);
    Py_CLEAR(load->readline);
    Py_CLEAR(load->readinto);
    Py_CLEAR(load->peek);
    PyMem_Free(load->line);
    load->line = NULL;
    load->line_size = 0;
}

/* ---- calls of the file; the collector is as the user has it ---------------------------------- */

static PyObject *call_read(PyObject *method, Py_ssize_t n)
{
    PyObject *size = PyLong_FromSsize_t(n);
    if (size == NULL) {
        return NULL;
    }
    PyObject *data = PyObject_CallOneArg(method, size);
    Py_DECREF(size);
    return data;
}

/* Read for good what was used of the bytes that peek() showed. */
static int skip_used(torshi_load *load)
{
    if (load->pos <= load->taken) {
        return 0;
    }
    PyObject *data = call_read(load->read, load->pos - load->taken);
    if (data == NULL) {
        return -1;
    }
    Py_DECREF(data);
    load->taken = load->pos;
    return 0;
}

int input_finish(torshi_load *load)
{
    if (load->read == NULL || load->pos <= load->taken) {
        return 0;
    }
    user_code_begins(load);
    int status = skip_used(load);
    user_code_ended(load);
    /* What else peek() showed may not be there any more when the next load begins. */
    drop_buffer(load);
    return status;
}

/* Make `data` the buffer. `taken` tells whether the file has moved past it. Steals data. */
static int set_buffer(torshi_load *load, PyObject *data, int taken)
{
    if (data == NULL) {
        return -1;
    }
    if (PyBytes_CheckExact(data)) {
        drop_buffer(load);
        load->bytes = data;
        load->pos = (const unsigned char *)PyBytes_AS_STRING(data);
        load->end = load->pos + PyBytes_GET_SIZE(data);
    } else {
        Py_buffer view;
        int status = PyObject_GetBuffer(data, &view, PyBUF_CONTIG_RO);
        Py_DECREF(data);
        if (status < 0) {
            return -1;
        }
        drop_buffer(load);
        load->view = view;
        load->pos = view.buf;
        load->end = load->pos + view.len;
    }
    load->taken = taken ? load->end : load->pos;
    return 0;
}

/* The rest of the buffer, when the file is past it already, followed by `data`. Steals data. */
static PyObject *join_rest(torshi_load *load, PyObject *data)
{
    Py_ssize_t rest = load->end - load->pos;
    if (data == NULL || load->taken <= load->pos || rest == 0) {
        return data;
    }
    PyObject *joined = NULL;
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_CONTIG_RO) == 0) {
        if (view.len > PY_SSIZE_T_MAX - rest) {
            PyErr_NoMemory();
        } else {
            joined = PyBytes_FromStringAndSize(NULL, rest + view.len);
        }
        if (joined != NULL) {
            memcpy(PyBytes_AS_STRING(joined), load->pos, (size_t)rest);
            if (view.len > 0) {
                memcpy(PyBytes_AS_STRING(joined) + rest, view.buf, (size_t)view.len);
            }
        }
        PyBuffer_Release(&view);
    }
    Py_DECREF(data);
    return joined;
}

/* read(n), in pieces when n is large: a bytes object of at most n, or what read() gave. */
static PyObject *read_pieces(torshi_load *load, Py_ssize_t n)
{
    if (n <= PIECE) {
        return call_read(load->read, n);
    }
    PyObject *whole = NULL;
    Py_ssize_t used = 0, piece = PIECE;
    while (used < n) {
        if (piece > n - used) {
            piece = n - used;
        }
        PyObject *data = call_read(load->read, piece);
        if (data == NULL) {
            goto error;
        }
        if (!PyBytes_Check(data)) {
            PyErr_Format(PyExc_ValueError, "read() returned non-bytes object (%R)", data);
            Py_DECREF(data);
            goto error;
        }
        Py_ssize_t got = PyBytes_GET_SIZE(data);
        if (whole == NULL) {
            whole = data;
            if (got == 0 || !PyBytes_CheckExact(data)) {
                return whole;
            }
        } else {
            if (got > PY_SSIZE_T_MAX - used) {
                Py_DECREF(data);
                PyErr_NoMemory();
                goto error;
            }
            PyBytes_ConcatAndDel(&whole, data);
            if (whole == NULL || got == 0) {
                return whole;
            }
        }
        used += got;
        piece = used;
    }
    return whole;
error:
    Py_XDECREF(whole);
    return NULL;
}

static int refill(torshi_load *load, Py_ssize_t n)
{
    if (skip_used(load) < 0) {
        return -1;
    }
    Py_ssize_t rest = load->taken > load->pos ? load->end - load->pos : 0;
    if (load->peek != NULL && rest == 0 && n < PREFETCH) {
        PyObject *data = call_read(load->peek, PREFETCH);
        if (data != NULL) {
            if (set_buffer(load, data, 0) < 0) {
                return -1;
            }
            if (load->end - load->pos >= n) {
                return 0;
            }
        } else if (PyErr_ExceptionMatches(PyExc_NotImplementedError)) {
            PyErr_Clear();
            Py_CLEAR(load->peek);
        } else {
            return -1;
        }
    }
    if (set_buffer(load, join_rest(load, read_pieces(load, n - rest)), 1) < 0) {
        return -1;
    }
    return load->end - load->pos >= n ? 0 : input_truncated(load);
}

const unsigned char *input_refill(torshi_load *load, Py_ssize_t n)
{
    if (load->read == NULL) {
        input_truncated(load);
        return NULL;
    }
    user_code_begins(load);
    int status = refill(load, n);
    user_code_ended(load);
    if (status < 0) {
        return NULL;
    }
    const unsigned char *bytes = load->pos;
    load->pos += n;
    return bytes;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int refill_line(torshi_load *load)
{
    if (skip_used(load) < 0) {
        return -1;
    }
    return set_buffer(load, join_rest(load, PyObject_CallNoArgs(load->readline)), 1);
}

Py_ssize_t input_line(torshi_load *load)
{
    const unsigned char *newline = NULL;
    if (load->pos < load->end) {
        newline = memchr(load->pos, '\n', (size_t)(load->end - load->pos));
    }
    if (newline == NULL && load->read != NULL) {
        user_code_begins(load);
        int status = refill_line(load);
        user_code_ended(load);
        if (status < 0) {
            return -1;
        }
        if (load->pos < load->end) {
            newline = memchr(load->pos, '\n', (size_t)(load->end - load->pos));
        }
    }
    if (newline == NULL) {
        return input_truncated(load);
    }
    size_t length = (size_t)(newline - load->pos) + 1;
    if (load->line_size <= length) {
        char *line = PyMem_Realloc(load->line, length + 1);
        if (line == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        load->line = line;
        load->line_size = length + 1;
    }
    memcpy(load->line, load->pos, length);
    load->line[length] = '\0';
    load->pos += length;
    return (Py_ssize_t)length;
}

/* ---- large values ---------------------------------------------------------------------------- */

/* One readinto() call for `view` (a memoryview, stolen), which must be filled: its n bytes. */
static int call_readinto(torshi_load *load, PyObject *view, Py_ssize_t n)
{
    if (view == NULL) {
        return -1;
    }
    int status = -1;
    PyObject *result = PyObject_CallOneArg(load->readinto, view);
    if (result != NULL) {
        Py_ssize_t got = PyLong_AsSsize_t(result);
        Py_DECREF(result);
        if (got < 0) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "readinto() returned negative size");
            }
        } else {
            status = got < n ? input_truncated(load) : 0;
        }
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *released = PyObject_CallMethodNoArgs(view, load->st->loaders->str_release);
    if (released == NULL) {
        PyErr_Clear(); /* the file exports it still: the owner of the memory will know */
    }
    Py_XDECREF(released);
    PyErr_Restore(type, value, traceback);
    Py_DECREF(view);
    return status;
}

/* Fill bytes[offset:offset+n] by readinto(); *bytes is replaced when the file keeps a view. */
static int bytes_readinto(torshi_load *load, PyObject **bytes, Py_ssize_t offset, Py_ssize_t n)
{
    PyTypeObject *type = load->st->loaders->target_type;
    read_target *target = (read_target *)type->tp_alloc(type, 0);
    if (target == NULL) {
        return -1;
    }
    target->bytes = Py_NewRef(*bytes);
    target->offset = offset;
    target->size = n;
    int status = call_readinto(load, PyMemoryView_FromObject((PyObject *)target), n);
    if (target->exports == 0) {
        Py_CLEAR(target->bytes);
    } else if (status == 0) {
        PyObject *copy = PyBytes_FromStringAndSize(PyBytes_AS_STRING(*bytes), offset + n);
        if (copy == NULL) {
            status = -1;
        } else {
            Py_SETREF(*bytes, copy);
        }
    }
    Py_DECREF(target);
    return status;
}

/* The first piece of an object of n bytes: what the buffer holds is copied to `into`. */
static Py_ssize_t take_rest(torshi_load *load, char *into, Py_ssize_t n)
{
    Py_ssize_t rest = load->end - load->pos;
    if (rest > n) {
        rest = n;
    }
    if (rest > 0) {
        memcpy(into, load->pos, (size_t)rest);
        load->pos += rest;
    }
    return rest;
}

static PyObject *read_bytes(torshi_load *load, Py_ssize_t n)
{
    if (load->readinto == NULL) {
        PyObject *data = NULL;
        if (skip_used(load) < 0) {
            return NULL;
        }
        if (load->end == load->pos || load->taken <= load->pos) {
            data = read_pieces(load, n);
            if (data == NULL) {
                return NULL;
            }
            if (!PyBytes_Check(data)) {
                PyErr_Format(PyExc_ValueError, "read() returned non-bytes object (%R)", data);
            } else if (PyBytes_GET_SIZE(data) < n) {
                input_truncated(load);
            } else {
                drop_buffer(load);
                if (PyBytes_CheckExact(data) && PyBytes_GET_SIZE(data) == n) {
                    return data;
                }
                PyObject *copy = PyBytes_FromStringAndSize(PyBytes_AS_STRING(data), n);
                Py_DECREF(data);
                return copy;
            }
            Py_DECREF(data);
            return NULL;
        }
        if (refill(load, n) < 0) {
            return NULL;
        }
        data = PyBytes_FromStringAndSize((const char *)load->pos, n);
        load->pos += n;
        return data;
    }
    Py_ssize_t size = n < PIECE ? n : PIECE;
    if (size < load->end - load->pos) {
        size = load->end - load->pos; /* less than n, or we would not be here */
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, size);
    if (bytes == NULL) {
        return NULL;
    }
    Py_ssize_t used = take_rest(load, PyBytes_AS_STRING(bytes), n);
    if (skip_used(load) < 0) {
        goto error;
    }
    drop_buffer(load);
    while (used < n) {
        if (used == size) {
            size = size > n / 2 ? n : 2 * size;
            if (_PyBytes_Resize(&bytes, size) < 0) {
                return NULL;
            }
        }
        if (bytes_readinto(load, &bytes, used, size - used) < 0) {
            goto error;
        }
        used = size;
    }
    return bytes;
error:
    Py_DECREF(bytes);
    return NULL;
}

PyObject *input_bytes(torshi_load *load, Py_ssize_t n)
{
    if (load->end - load->pos >= n || n <= READ_BELOW || load->read == NULL) {
        const unsigned char *p = input_take(load, n);
        return p == NULL ? NULL : PyBytes_FromStringAndSize((const char *)p, n);
    }
    user_code_begins(load);
    PyObject *bytes = read_bytes(load, n);
    user_code_ended(load);
    return bytes;
}

/* The array with room for `size` bytes, of which `used` are kept: another one when the file exports
   it still. Steals array; NULL on failure. */
static PyObject *grow_bytearray(PyObject *array, Py_ssize_t used, Py_ssize_t size)
{
    if (PyByteArray_Resize(array, size) == 0) {
        return array;
    }
    PyObject *copy = NULL;
    if (PyErr_ExceptionMatches(PyExc_BufferError)) {
        PyErr_Clear();
        copy = PyByteArray_FromStringAndSize(NULL, size);
        if (copy != NULL) {
            memcpy(PyByteArray_AS_STRING(copy), PyByteArray_AS_STRING(array), (size_t)used);
        }
    }
    Py_DECREF(array);
    return copy;
}

static PyObject *read_bytearray(torshi_load *load, Py_ssize_t n)
{
    if (load->readinto == NULL) {
        PyObject *bytes = read_bytes(load, n);
        if (bytes == NULL) {
            return NULL;
        }
        PyObject *array =
            PyByteArray_FromStringAndSize(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
        Py_DECREF(bytes);
        return array;
    }
    Py_ssize_t size = n < PIECE ? n : PIECE;
    if (size < load->end - load->pos) {
        size = load->end - load->pos;
    }
    PyObject *array = PyByteArray_FromStringAndSize(NULL, size);
    if (array == NULL) {
        return NULL;
    }
    Py_ssize_t used = take_rest(load, PyByteArray_AS_STRING(array), n);
    if (skip_used(load) < 0) {
        goto error;
    }
    drop_buffer(load);
    while (used < n) {
        if (used == size) {
            size = size > n / 2 ? n : 2 * size;
            array = grow_bytearray(array, used, size);
            if (array == NULL) {
                return NULL;
            }
        }
        /* The view keeps its exporter alive and unresizable, and ends at the array's end. */
        PyObject *view = PyMemoryView_FromObject(array), *part = NULL;
        if (view != NULL) {
            part = PySequence_GetSlice(view, used, size);
            Py_DECREF(view);
        }
        if (call_readinto(load, part, size - used) < 0) {
            goto error;
        }
        used = size;
    }
    return array;
error:
    Py_DECREF(array);
    return NULL;
}

PyObject *input_bytearray(torshi_load *load, Py_ssize_t n)
{
    if (load->end - load->pos >= n) {
        PyObject *array = PyByteArray_FromStringAndSize((const char *)load->pos, n);
        load->pos += n;
        return array;
    }
    if (load->read == NULL) {
        input_truncated(load);
        return NULL;
    }
    user_code_begins(load);
    PyObject *array = read_bytearray(load, n);
    user_code_ended(load);
    return array;
}
