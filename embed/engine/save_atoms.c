/*
 * save_atoms.c - atoms in full: ints of any size, text forms, strings, bytes, memo opcodes.
 */
#include "save.h"

#include "save_fast.h"

#include <stdio.h>
#include <string.h>

/* Export_ from 3.11 on, declared in internal headers from some versions on. */
#if PY_VERSION_HEX < 0x030D0000
static int long_to_bytes(PyObject *obj, unsigned char *bytes, size_t n)
{
    return _PyLong_AsByteArray((PyLongObject *)obj, bytes, n, 1, 1);
}

/* Bytes that two's complement of obj needs, or one more; (size_t)-1 with an exception. */
static size_t long_size(PyObject *obj)
{
    size_t bits = _PyLong_NumBits(obj);
    return bits == (size_t)-1 && PyErr_Occurred() ? (size_t)-1 : bits / 8 + 1;
}
#else
static int long_to_bytes(PyObject *obj, unsigned char *bytes, size_t n)
{
    return PyLong_AsNativeBytes(obj, bytes, (Py_ssize_t)n, Py_ASNATIVEBYTES_LITTLE_ENDIAN) < 0 ? -1
                                                                                               : 0;
}

static size_t long_size(PyObject *obj)
{
    return (size_t)PyLong_AsNativeBytes(obj, NULL, 0, Py_ASNATIVEBYTES_LITTLE_ENDIAN);
}
#endif

static void put_u32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (unsigned char)(v >> (8 * i));
    }
}

static void put_u64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++) {
        p[i] = (unsigned char)(v >> (8 * i));
    }
}

/* LONG1 or LONG4. */
static int write_long(torshi_dump *d, PyObject *obj)
{
    unsigned char header[5] = {OP_LONG1};
    size_t header_size = 2;
    size_t n = long_size(obj);
    unsigned char *p;
    if (n == (size_t)-1) {
        return -1;
    }
    if (n > 0x7fffffff) {
        PyErr_SetString(PyExc_OverflowError, "int too large to pickle");
        return -1;
    }
    if (out_grow(d, n + sizeof header) < 0) {
        return -1;
    }
    p = d->p + 5;
    if (long_to_bytes(obj, p, n) < 0) {
        return -1;
    }
    /* The last byte may repeat the sign and nothing else. */
    if (n > 1 && p[n - 1] == 0xff && (p[n - 2] & 0x80)) {
        n--;
    }
    if (n < 256) {
        header[1] = (unsigned char)n;
    } else {
        header[0] = OP_LONG4;
        put_u32(header + 1, (uint32_t)n);
        header_size = 5;
    }
    memmove(d->p + header_size, p, n);
    memcpy(d->p, header, header_size);
    d->p += header_size + n;
    return 0;
}

int save_long(torshi_dump *d, PyObject *obj)
{
    int overflow;
    long value = PyLong_AsLongAndOverflow(obj, &overflow);
    PyObject *repr;
    const char *text;
    Py_ssize_t n;
    int status = -1;
    if (!overflow && value == (int32_t)value) {
        char line[32];
        if (d->bin) {
            if (out_room(d, 8) < 0) {
                return -1;
            }
            d->p = put_int(d->p, value);
            return 0;
        }
        n = snprintf(line, sizeof line, "%c%ld\n", OP_INT, value);
        return out_write(d, line, (size_t)n);
    }
    if (d->proto >= 2) {
        return write_long(d, obj);
    }
    repr = PyObject_Repr(obj);
    if (repr == NULL) {
        return -1;
    }
    text = PyUnicode_AsUTF8AndSize(repr, &n);
    if (text != NULL && out_op(d, OP_LONG) == 0 && out_write(d, text, (size_t)n) == 0 &&
        out_write(d, "L\n", 2) == 0) {
        status = 0;
    }
    Py_DECREF(repr);
    return status;
}

int save_float_text(torshi_dump *d, PyObject *obj)
{
    char *text = PyOS_double_to_string(PyFloat_AS_DOUBLE(obj), 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    int status;
    if (text == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    status = out_op(d, OP_FLOAT) == 0 && out_write(d, text, strlen(text)) == 0 &&
                     out_write(d, "\n", 1) == 0
                 ? 0
                 : -1;
    PyMem_Free(text);
    return status;
}

int save_bool_text(torshi_dump *d, int value)
{
    return out_write(d, value ? "I01\n" : "I00\n", 4);
}

/* ---- str ------------------------------------------------------------------------------------- */

/* The header of a binary string of n bytes into `header`; its size, or 0 with an exception. */
static size_t str_header(torshi_dump *d, unsigned char header[9], size_t n)
{
    if (n <= 0xff && d->proto >= 4) {
        header[0] = OP_SHORT_BINUNICODE;
        header[1] = (unsigned char)n;
        return 2;
    }
    if (n <= 0xffffffffu) {
        header[0] = OP_BINUNICODE;
        put_u32(header + 1, (uint32_t)n);
        return 5;
    }
    if (d->proto >= 4) {
        header[0] = OP_BINUNICODE8;
        put_u64(header + 1, n);
        return 9;
    }
    PyErr_SetString(PyExc_OverflowError, "serializing a string larger than 4 GiB "
                                         "requires pickle protocol 4 or higher");
    return 0;
}

/* A character as UTF-8, surrogates as any other; returns the new end. */
FAST_INLINE unsigned char *put_utf8(unsigned char *p, Py_UCS4 c)
{
    if (c < 0x80) {
        *p++ = (unsigned char)c;
    } else if (c < 0x800) {
        *p++ = (unsigned char)(0xc0 | (c >> 6));
        *p++ = (unsigned char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *p++ = (unsigned char)(0xe0 | (c >> 12));
        *p++ = (unsigned char)(0x80 | ((c >> 6) & 0x3f));
        *p++ = (unsigned char)(0x80 | (c & 0x3f));
    } else {
        *p++ = (unsigned char)(0xf0 | (c >> 18));
        *p++ = (unsigned char)(0x80 | ((c >> 12) & 0x3f));
        *p++ = (unsigned char)(0x80 | ((c >> 6) & 0x3f));
        *p++ = (unsigned char)(0x80 | (c & 0x3f));
    }
    return p;
}

/*
 * A str that is not ASCII and whose UTF-8 is short: encoded here, because PyUnicode_AsUTF8 would
 * leave a copy in the string.
 */
static int write_short_utf8(torshi_dump *d, PyObject *obj, size_t length)
{
    unsigned char header[9];
    unsigned char *start, *p;
    size_t n, header_size;
    int kind = (int)PyUnicode_KIND(obj);
    if (out_grow(d, length * 4 + sizeof header) < 0) {
        return -1;
    }
    p = start = d->p + sizeof header;
    if (kind == PyUnicode_1BYTE_KIND) {
        const Py_UCS1 *s = PyUnicode_1BYTE_DATA(obj);
        for (size_t i = 0; i < length; i++) {
            p = put_utf8(p, s[i]);
        }
    } else if (kind == PyUnicode_2BYTE_KIND) {
        const Py_UCS2 *s = PyUnicode_2BYTE_DATA(obj);
        for (size_t i = 0; i < length; i++) {
            p = put_utf8(p, s[i]);
        }
    } else {
        const Py_UCS4 *s = PyUnicode_4BYTE_DATA(obj);
        for (size_t i = 0; i < length; i++) {
            p = put_utf8(p, s[i]);
        }
    }
    n = (size_t)(p - start);
    header_size = str_header(d, header, n);
    memmove(d->p + header_size, start, n);
    memcpy(d->p, header, header_size);
    d->p += header_size + n;
    return 0;
}

static int write_str_binary(torshi_dump *d, PyObject *obj)
{
    unsigned char header[9];
    const char *data;
    Py_ssize_t n;
    PyObject *encoded = NULL;
    size_t header_size;
    int status = -1;
#if PY_VERSION_HEX < 0x030C0000
    if (PyUnicode_READY(obj) < 0) {
        return -1;
    }
#endif
    n = PyUnicode_GET_LENGTH(obj);
    if (PyUnicode_IS_COMPACT_ASCII(obj)) {
        data = (const char *)PyUnicode_1BYTE_DATA(obj);
    } else if (n < FRAME_TARGET / 4) {
        return write_short_utf8(d, obj, (size_t)n);
    } else {
        /* A failure makes an exception, which may start the collector. */
        data = leave_engine(d) < 0 ? NULL : PyUnicode_AsUTF8AndSize(obj, &n);
        if (data == NULL) {
            if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
                return -1;
            }
            PyErr_Clear();
            encoded = PyUnicode_AsEncodedString(obj, "utf-8", "surrogatepass");
            if (encoded == NULL) {
                return -1;
            }
            data = PyBytes_AS_STRING(encoded);
            n = PyBytes_GET_SIZE(encoded);
        }
    }
    header_size = str_header(d, header, (size_t)n);
    if (header_size != 0) {
        status = out_payload(d, header, header_size, data, (size_t)n, encoded);
    }
    Py_XDECREF(encoded);
    return status;
}

/* Protocol 0: raw-unicode-escape, with what would end the line escaped as well. */
static int write_str_text(torshi_dump *d, PyObject *obj)
{
    static const char hex[] = "0123456789abcdef";
    Py_ssize_t length;
    unsigned char *p;
#if PY_VERSION_HEX < 0x030C0000
    if (PyUnicode_READY(obj) < 0) {
        return -1;
    }
#endif
    length = PyUnicode_GET_LENGTH(obj);
    if (length > PY_SSIZE_T_MAX / 16) {
        PyErr_NoMemory();
        return -1;
    }
    if (out_op(d, OP_UNICODE) < 0) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < length; i++) {
        Py_UCS4 c = PyUnicode_READ_CHAR(obj, i);
        int digits = 0;
        if (out_room(d, 16) < 0) {
            return -1;
        }
        p = d->p;
        if (c >= 0x10000) {
            *p++ = '\\';
            *p++ = 'U';
            digits = 8;
        } else if (c >= 256 || c == '\\' || c == 0 || c == '\n' || c == '\r' || c == 0x1a) {
            *p++ = '\\';
            *p++ = 'u';
            digits = 4;
        } else {
            *p++ = (unsigned char)c;
        }
        while (digits > 0) {
            digits--;
            *p++ = (unsigned char)hex[(c >> (4 * digits)) & 0xf];
        }
        d->p = p;
    }
    return out_write(d, "\n", 1);
}

int write_str(torshi_dump *d, PyObject *obj)
{
    return d->bin ? write_str_binary(d, obj) : write_str_text(d, obj);
}

int save_str_slowly(torshi_dump *d, PyObject *obj, int alone)
{
    int status;
    Py_INCREF(obj); /* the file that a long string goes to may drop it */
    status = write_str(d, obj);
    if (status == 0) {
        status = alone ? memoize_new(d, NULL, obj) : memoize(d, obj);
    }
    Py_DECREF(obj);
    return status;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

int write_bytes_data(torshi_dump *d, const void *data, size_t n, PyObject *payload)
{
    unsigned char header[9];
    size_t header_size;
    if (n <= 0xff) {
        header[0] = OP_SHORT_BINBYTES;
        header[1] = (unsigned char)n;
        header_size = 2;
    } else if (n <= 0xffffffffu) {
        header[0] = OP_BINBYTES;
        put_u32(header + 1, (uint32_t)n);
        header_size = 5;
    } else if (d->proto >= 4) {
        header[0] = OP_BINBYTES8;
        put_u64(header + 1, n);
        header_size = 9;
    } else {
        PyErr_SetString(PyExc_OverflowError, "serializing a bytes object larger than 4 GiB "
                                             "requires pickle protocol 4 or higher");
        return -1;
    }
    return out_payload(d, header, header_size, data, n, payload);
}

int write_bytearray_data(torshi_dump *d, const void *data, size_t n, PyObject *payload)
{
    unsigned char header[9] = {OP_BYTEARRAY8};
    put_u64(header + 1, n);
    return out_payload(d, header, sizeof header, data, n, payload);
}

int save_bytes(torshi_dump *d, PyObject *obj, Py_ssize_t solo)
{
    PyObject *value, *text;
    if (d->proto >= 3) {
        size_t n = (size_t)PyBytes_GET_SIZE(obj);
        int status;
        int alone = Py_REFCNT(obj) == solo;
        Py_INCREF(obj); /* the file may drop it */
        status = write_bytes_data(d, PyBytes_AS_STRING(obj), n, obj);
        if (status == 0) {
            /* The file may have kept it. */
            status = alone && Py_REFCNT(obj) == 2 ? memoize_new(d, NULL, obj) : memoize(d, obj);
        }
        Py_DECREF(obj);
        return status;
    }
    if (leave_engine(d) < 0) {
        return -1;
    }
    if (PyBytes_GET_SIZE(obj) == 0) {
        value = Py_BuildValue("(O())", (PyObject *)&PyBytes_Type);
    } else {
        text = PyUnicode_DecodeLatin1(PyBytes_AS_STRING(obj), PyBytes_GET_SIZE(obj), "strict");
        if (text == NULL) {
            return -1;
        }
        value = Py_BuildValue("(O(OO))", d->st->codecs_encode, text, d->st->savers->str_latin1);
        Py_DECREF(text);
    }
    return value == NULL ? -1 : save_reduce(d, value, obj);
}

/* ---- memo opcodes ---------------------------------------------------------------------------- */

int write_memo_op(torshi_dump *d, Py_ssize_t number)
{
    unsigned char op[5];
    char line[32];
    if (d->proto >= 4) {
        return out_op(d, OP_MEMOIZE);
    }
    if (!d->bin) {
        int n = snprintf(line, sizeof line, "%c%zd\n", OP_PUT, number);
        return out_write(d, line, (size_t)n);
    }
    if (number < 256) {
        op[0] = OP_BINPUT;
        op[1] = (unsigned char)number;
        return out_write(d, op, 2);
    }
    if ((size_t)number > 0xffffffffu) {
        PyErr_SetString(d->st->PicklingError, "memo id too large for LONG_BINPUT");
        return -1;
    }
    op[0] = OP_LONG_BINPUT;
    put_u32(op + 1, (uint32_t)number);
    return out_write(d, op, 5);
}

int write_get(torshi_dump *d, Py_ssize_t number)
{
    char line[32];
    if (!d->bin) {
        int n = snprintf(line, sizeof line, "%c%zd\n", OP_GET, number);
        return out_write(d, line, (size_t)n);
    }
    if (number >= 256 && (size_t)number > 0xffffffffu) {
        PyErr_SetString(d->st->PicklingError, "memo id too large for LONG_BINGET");
        return -1;
    }
    if (out_room(d, 8) < 0) {
        return -1;
    }
    d->p =
        number < 256 ? put_get(d->p, (uint32_t)(number & 0xff)) : put_get(d->p, (uint32_t)number);
    return 0;
}

int memoize(torshi_dump *d, PyObject *obj)
{
    size_t number = d->memo.count;
    if (d->fast) {
        return 0;
    }
    if (memo_put_at(&d->memo, memo_probe(&d->memo, obj), obj) < 0) {
        return -1;
    }
    return write_memo_op(d, (Py_ssize_t)number);
}

int memoize_nothing(torshi_dump *d)
{
    size_t number = d->memo.count;
    if (d->fast) {
        return 0;
    }
    if (memo_log(&d->memo, NULL) < 0) {
        return -1;
    }
    return write_memo_op(d, (Py_ssize_t)number);
}
