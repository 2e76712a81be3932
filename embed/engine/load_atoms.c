/*
 * load_atoms.c - opcodes that push a value without looking at the stack, those of the memo and the
 * mark, and the ones that steer.
 */
#include "load.h"

static int push_new(torshi_load *load, PyObject *obj)
{
    return stack_push(load, Py_NewRef(obj));
}

/* ---- None, bool, int, float ------------------------------------------------------------------ */

int load_NONE(torshi_load *load)
{
    return push_new(load, Py_None);
}

int load_NEWTRUE(torshi_load *load)
{
    return push_new(load, Py_True);
}

int load_NEWFALSE(torshi_load *load)
{
    return push_new(load, Py_False);
}

/* A line that has something in front of its newline; its length, or -1. */
static Py_ssize_t filled_line(torshi_load *load)
{
    Py_ssize_t length = input_line(load);
    return length == 1 ? input_truncated(load) : length;
}

int load_INT(torshi_load *load)
{
    Py_ssize_t length = filled_line(load);
    if (length < 0) {
        return -1;
    }
    const char *text = load->line;
    if (length == 3 && text[0] == '0' && (text[1] == '0' || text[1] == '1')) {
        return push_new(load, text[1] == '1' ? Py_True : Py_False);
    }
    PyObject *value = PyLong_FromString(text, NULL, 10);
    if (value == NULL && PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyErr_SetString(PyExc_ValueError, "could not convert string to int");
    }
    return stack_push(load, value);
}

int load_LONG(torshi_load *load)
{
    Py_ssize_t length = filled_line(load);
    if (length < 0) {
        return -1;
    }
    /* Protocol 0 as Python 3.0 wrote it has no L at the end. */
    if (load->line[length - 2] == 'L') {
        load->line[length - 2] = '\0';
    }
    return stack_push(load, PyLong_FromString(load->line, NULL, 10));
}

int load_BININT(torshi_load *load)
{
    const unsigned char *p = input_take(load, 4);
    return p == NULL ? -1 : stack_push(load, PyLong_FromLong((int32_t)le32(p)));
}

int load_BININT1(torshi_load *load)
{
    const unsigned char *p = input_take(load, 1);
    return p == NULL ? -1 : stack_push(load, PyLong_FromLong(p[0]));
}

int load_BININT2(torshi_load *load)
{
    const unsigned char *p = input_take(load, 2);
    return p == NULL ? -1 : stack_push(load, PyLong_FromLong((long)le16(p)));
}

static int push_long(torshi_load *load, Py_ssize_t size)
{
    if (size == 0) {
        return stack_push(load, PyLong_FromLong(0));
    }
    const unsigned char *p = input_take(load, size);
    return p == NULL ? -1 : stack_push(load, _PyLong_FromByteArray(p, (size_t)size, 1, 1));
}

int load_LONG1(torshi_load *load)
{
    const unsigned char *p = input_take(load, 1);
    return p == NULL ? -1 : push_long(load, p[0]);
}

int load_LONG4(torshi_load *load)
{
    const unsigned char *p = input_take(load, 4);
    if (p == NULL) {
        return -1;
    }
    int32_t size = (int32_t)le32(p);
    if (size < 0) {
        PyErr_SetString(load->st->UnpicklingError, "LONG pickle has negative byte count");
        return -1;
    }
    return push_long(load, size);
}

int load_FLOAT(torshi_load *load)
{
    if (filled_line(load) < 0) {
        return -1;
    }
    char *end;
    double value = PyOS_string_to_double(load->line, &end, PyExc_OverflowError);
    if (value == -1.0 && PyErr_Occurred()) {
        return -1;
    }
    if (*end != '\n' && *end != '\0') {
        PyErr_SetString(PyExc_ValueError, "could not convert string to float");
        return -1;
    }
    return stack_push(load, PyFloat_FromDouble(value));
}

int load_BINFLOAT(torshi_load *load)
{
    const unsigned char *p = input_take(load, 8);
    return p == NULL ? -1 : stack_push(load, PyFloat_FromDouble(be_double(p)));
}

/* ---- Python 2 strings ------------------------------------------------------------------------ */

/* Push 8-bit text as the load's encoding wants it. */
static int push_text(torshi_load *load, const char *text, Py_ssize_t size)
{
    const char *encoding = "ASCII", *errors = "strict";
    if (load->encoding != NULL) {
        encoding = PyUnicode_AsUTF8(load->encoding);
        if (encoding == NULL) {
            return -1;
        }
        if (strcmp(encoding, "bytes") == 0) {
            return stack_push(load, PyBytes_FromStringAndSize(text, size));
        }
    }
    if (load->errors != NULL) {
        errors = PyUnicode_AsUTF8(load->errors);
        if (errors == NULL) {
            return -1;
        }
    }
    user_code_begins(load);
    PyObject *str = PyUnicode_Decode(text, size, encoding, errors);
    user_code_ended(load);
    return stack_push(load, str);
}

int load_STRING(torshi_load *load)
{
    Py_ssize_t length = input_line(load);
    if (length < 0) {
        return -1;
    }
    const char *text = load->line;
    length--;
    if (length < 2 || text[0] != text[length - 1] || (text[0] != '\'' && text[0] != '"')) {
        PyErr_SetString(load->st->UnpicklingError, "the STRING opcode argument must be quoted");
        return -1;
    }
    user_code_begins(load); /* it may warn */
    PyObject *bytes = PyBytes_DecodeEscape(text + 1, length - 2, NULL, 0, NULL);
    user_code_ended(load);
    if (bytes == NULL) {
        return -1;
    }
    int status = push_text(load, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    return status;
}

static int push_binstring(torshi_load *load, Py_ssize_t size)
{
    const unsigned char *p = input_take(load, size);
    if (p == NULL) {
        return -1;
    }
    if (load->read == NULL) {
        return push_text(load, (const char *)p, size);
    }
    /* A decoder written in Python might come back to the buffer. */
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)p, size);
    if (bytes == NULL) {
        return -1;
    }
    int status = push_text(load, PyBytes_AS_STRING(bytes), size);
    Py_DECREF(bytes);
    return status;
}

int load_BINSTRING(torshi_load *load)
{
    const unsigned char *p = input_take(load, 4);
    return p == NULL ? -1 : push_binstring(load, (Py_ssize_t)le32(p));
}

int load_SHORT_BINSTRING(torshi_load *load)
{
    const unsigned char *p = input_take(load, 1);
    return p == NULL ? -1 : push_binstring(load, p[0]);
}

/* ---- str ------------------------------------------------------------------------------------- */

int load_UNICODE(torshi_load *load)
{
    Py_ssize_t length = input_line(load);
    if (length < 0) {
        return -1;
    }
    return stack_push(load, PyUnicode_DecodeRawUnicodeEscape(load->line, length - 1, NULL));
}

/* Whether all n bytes are below 0x80. */
static int is_ascii(const unsigned char *s, Py_ssize_t n)
{
    uint64_t seen = 0, word;
    Py_ssize_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&word, s + i, 8);
        seen |= word;
    }
    for (; i < n; i++) {
        seen |= s[i];
    }
    return (seen & NOT_ASCII) == 0;
}

PyObject *str_from_long_utf8(const unsigned char *s, Py_ssize_t n)
{
    if (!is_ascii(s, n)) {
        return PyUnicode_DecodeUTF8((const char *)s, n, "surrogatepass");
    }
    PyObject *str = PyUnicode_New(n, 127);
    if (str != NULL) {
        memcpy((PyASCIIObject *)str + 1, s, (size_t)n);
    }
    return str;
}

/* Strings of more bytes are read as a bytes object first, which grows as the file fills it. */
#define DECODE_IN_PLACE (1 << 20)

static int push_str(torshi_load *load, Py_ssize_t size)
{
    if (load->end - load->pos >= size || size <= DECODE_IN_PLACE || load->read == NULL) {
        const unsigned char *s = input_take(load, size);
        return s == NULL ? -1 : stack_push(load, str_from_utf8(s, size));
    }
    PyObject *bytes = input_bytes(load, size);
    if (bytes == NULL) {
        return -1;
    }
    PyObject *str = str_from_utf8((const unsigned char *)PyBytes_AS_STRING(bytes), size);
    Py_DECREF(bytes);
    return stack_push(load, str);
}

/* An 8-byte length; -1 with OverflowError when it is beyond what an object can have. */
static Py_ssize_t take_size(torshi_load *load, const char *what)
{
    const unsigned char *p = input_take(load, 8);
    if (p == NULL) {
        return -1;
    }
    uint64_t size = le64(p);
    if (size > (uint64_t)PY_SSIZE_T_MAX) {
        PyErr_Format(PyExc_OverflowError, "%s exceeds system's maximum %s%zd bytes", what,
                     what[0] == 'F' ? "of " : "size of ", PY_SSIZE_T_MAX);
        return -1;
    }
    return (Py_ssize_t)size;
}

int load_SHORT_BINUNICODE(torshi_load *load)
{
    const unsigned char *p = input_take(load, 1);
    return p == NULL ? -1 : push_str(load, p[0]);
}

int load_BINUNICODE(torshi_load *load)
{
    const unsigned char *p = input_take(load, 4);
    return p == NULL ? -1 : push_str(load, (Py_ssize_t)le32(p));
}

int load_BINUNICODE8(torshi_load *load)
{
    Py_ssize_t size = take_size(load, "BINUNICODE");
    return size < 0 ? -1 : push_str(load, size);
}

/* ---- bytes, bytearray, buffers --------------------------------------------------------------- */

int load_SHORT_BINBYTES(torshi_load *load)
{
    const unsigned char *p = input_take(load, 1);
    return p == NULL ? -1 : stack_push(load, input_bytes(load, p[0]));
}

int load_BINBYTES(torshi_load *load)
{
    const unsigned char *p = input_take(load, 4);
    return p == NULL ? -1 : stack_push(load, input_bytes(load, (Py_ssize_t)le32(p)));
}

int load_BINBYTES8(torshi_load *load)
{
    Py_ssize_t size = take_size(load, "BINBYTES");
    return size < 0 ? -1 : stack_push(load, input_bytes(load, size));
}

int load_BYTEARRAY8(torshi_load *load)
{
    Py_ssize_t size = take_size(load, "BYTEARRAY8");
    return size < 0 ? -1 : stack_push(load, input_bytearray(load, size));
}

int load_NEXT_BUFFER(torshi_load *load)
{
    if (load->buffers == NULL) {
        PyErr_SetString(load->st->UnpicklingError,
                        "pickle stream refers to out-of-band data but no *buffers* argument was "
                        "given");
        return -1;
    }
    user_code_begins(load);
    PyObject *buffer = PyIter_Next(load->buffers);
    user_code_ended(load);
    if (buffer == NULL && !PyErr_Occurred()) {
        PyErr_SetString(load->st->UnpicklingError, "not enough out-of-band buffers");
    }
    return stack_push(load, buffer);
}

int load_READONLY_BUFFER(torshi_load *load)
{
    if (load->top <= load->fence) {
        return stack_underflow(load);
    }
    user_code_begins(load);
    PyObject *view = PyMemoryView_FromObject(load->top[-1]);
    user_code_ended(load);
    if (view == NULL) {
        return -1;
    }
    if (PyMemoryView_GET_BUFFER(view)->readonly) {
        Py_DECREF(view);
        return 0;
    }
    PyMemoryView_GET_BUFFER(view)->readonly = 1;
    Py_SETREF(load->top[-1], view);
    return 0;
}

/* ---- memo ------------------------------------------------------------------------------------ */

static int push_memo(torshi_load *load, size_t index)
{
    PyObject *value = memo_get(load, index);
    return value == NULL ? -1 : push_new(load, value);
}

/* The index that the line holds; -1 with an exception, or without one when it is below 0. */
static Py_ssize_t line_index(torshi_load *load)
{
    PyObject *key = PyLong_FromString(load->line, NULL, 10);
    if (key == NULL) {
        return -1;
    }
    Py_ssize_t index = PyLong_AsSsize_t(key);
    Py_DECREF(key);
    return index < 0 ? -1 : index;
}

int load_GET(torshi_load *load)
{
    if (filled_line(load) < 0) {
        return -1;
    }
    Py_ssize_t index = line_index(load);
    if (index >= 0) {
        return push_memo(load, (size_t)index);
    }
    if (!PyErr_Occurred()) {
        PyErr_SetString(load->st->UnpicklingError, "Memo value not found at a negative index");
    }
    return -1;
}

int load_BINGET(torshi_load *load)
{
    const unsigned char *p = input_take(load, 1);
    return p == NULL ? -1 : push_memo(load, p[0]);
}

int load_LONG_BINGET(torshi_load *load)
{
    const unsigned char *p = input_take(load, 4);
    return p == NULL ? -1 : push_memo(load, le32(p));
}

static int put_top(torshi_load *load, size_t index)
{
    if (load->top <= load->fence) {
        return stack_underflow(load);
    }
    return memo_put(load, index, load->top[-1]);
}

int load_PUT(torshi_load *load)
{
    if (filled_line(load) < 0) {
        return -1;
    }
    if (load->top <= load->fence) {
        return stack_underflow(load);
    }
    Py_ssize_t index = line_index(load);
    if (index >= 0) {
        return put_top(load, (size_t)index);
    }
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "negative PUT argument");
    }
    return -1;
}

int load_BINPUT(torshi_load *load)
{
    const unsigned char *p = input_take(load, 1);
    return p == NULL ? -1 : put_top(load, p[0]);
}

int load_LONG_BINPUT(torshi_load *load)
{
    const unsigned char *p = input_take(load, 4);
    return p == NULL ? -1 : put_top(load, le32(p));
}

int load_MEMOIZE(torshi_load *load)
{
    return put_top(load, load->memo.count);
}

/* ---- the stack ------------------------------------------------------------------------------- */

int load_MARK(torshi_load *load)
{
    return mark_push(load);
}

int load_POP(torshi_load *load)
{
    /* A mark on top is what POP takes off, also when there is an item below it. */
    if (load->mark_count > 0 && load->top == load->fence) {
        mark_drop(load);
        return 0;
    }
    if (load->top <= load->fence) {
        return stack_underflow(load);
    }
    user_code_begins(load);
    stack_cut(load, load->top - 1);
    user_code_ended(load);
    return 0;
}

int load_POP_MARK(torshi_load *load)
{
    PyObject **items = mark_pop(load);
    if (items == NULL) {
        return -1;
    }
    user_code_begins(load);
    stack_cut(load, items);
    user_code_ended(load);
    return 0;
}

int load_DUP(torshi_load *load)
{
    if (load->top <= load->fence) {
        return stack_underflow(load);
    }
    return push_new(load, load->top[-1]);
}

/* ---- steering -------------------------------------------------------------------------------- */

int load_PROTO(torshi_load *load)
{
    const unsigned char *p = input_take(load, 1);
    if (p == NULL) {
        return -1;
    }
    if (p[0] > OP_HIGHEST_PROTOCOL) {
        PyErr_Format(PyExc_ValueError, "unsupported pickle protocol: %d", p[0]);
        return -1;
    }
    load->proto = p[0];
    return 0;
}

int load_FRAME(torshi_load *load)
{
    Py_ssize_t size = take_size(load, "FRAME length");
    if (size < 0 || input_take(load, size) == NULL) {
        return -1;
    }
    load->pos -= size; /* it is all in the buffer now */
    return 0;
}

int load_STOP(torshi_load *load)
{
    return load->top <= load->fence ? stack_underflow(load) : 0;
}
