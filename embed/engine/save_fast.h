/*
 * save_fast.h - the inlined part of saving: atoms, short strings, memo look-ups.
 *
 * Everything here relies on OUT_SLACK bytes of room, which whoever saw d->p < d->soft has.
 */
#ifndef TORSHI_ENGINE_SAVE_FAST_H
#define TORSHI_ENGINE_SAVE_FAST_H

#include "save.h"

#include <string.h>

#define FAST_INLINE static inline __attribute__((always_inline))

/* The value of an exact int of few digits: 1, or 0 when it has more (no exception). */
FAST_INLINE int small_int(PyObject *obj, int64_t *value)
{
#if PY_VERSION_HEX >= 0x030C0000
    if (TORSHI_LIKELY(PyUnstable_Long_IsCompact((PyLongObject *)obj))) {
        *value = (int64_t)PyUnstable_Long_CompactValue((PyLongObject *)obj);
        return 1;
    }
#else
    const digit *digits = ((PyLongObject *)obj)->ob_digit;
    switch (Py_SIZE(obj)) {
    case 0:
        *value = 0;
        return 1;
    case 1:
        *value = (int64_t)digits[0];
        return 1;
    case -1:
        *value = -(int64_t)digits[0];
        return 1;
    default:
        break;
    }
#endif
    return 0;
}

/* BININT1, BININT2 or BININT of a value that fits 32 bits; returns the new end. Writes five bytes
   whichever it is: without branches, as the sizes of ints are hard to predict. */
FAST_INLINE unsigned char *put_int(unsigned char *p, int64_t value)
{
    static const unsigned char ops[] = {OP_BININT1, OP_BININT2, OP_BININT};
    uint32_t v = (uint32_t)value;
    unsigned kind = (unsigned)(v > 0xff) + (unsigned)(v > 0xffff);
    p[0] = ops[kind];
#if PY_LITTLE_ENDIAN
    memcpy(p + 1, &v, sizeof v);
#else
    for (int i = 0; i < 4; i++) {
        p[1 + i] = (unsigned char)(v >> (8 * i));
    }
#endif
    return p + 2 + kind + (kind >> 1);
}

/* Copy n <= 255 bytes; up to 32 of them without a call. */
FAST_INLINE void copy_short(unsigned char *p, const unsigned char *s, size_t n)
{
    uint64_t a, b, c, e;
    if (n <= 16) {
        if (n >= 8) {
            memcpy(&a, s, 8);
            memcpy(&b, s + n - 8, 8);
            memcpy(p, &a, 8);
            memcpy(p + n - 8, &b, 8);
        } else if (n >= 4) {
            uint32_t x, y;
            memcpy(&x, s, 4);
            memcpy(&y, s + n - 4, 4);
            memcpy(p, &x, 4);
            memcpy(p + n - 4, &y, 4);
        } else if (n != 0) {
            p[0] = s[0];
            p[n >> 1] = s[n >> 1];
            p[n - 1] = s[n - 1];
        }
        return;
    }
    if (n <= 32) {
        memcpy(&a, s, 8);
        memcpy(&b, s + 8, 8);
        memcpy(&c, s + n - 16, 8);
        memcpy(&e, s + n - 8, 8);
        memcpy(p, &a, 8);
        memcpy(p + 8, &b, 8);
        memcpy(p + n - 16, &c, 8);
        memcpy(p + n - 8, &e, 8);
        return;
    }
    memcpy(p, s, n);
}

FAST_INLINE unsigned char *put_float(unsigned char *p, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    p[0] = OP_BINFLOAT;
#if PY_LITTLE_ENDIAN
    bits = __builtin_bswap64(bits);
#endif
    memcpy(p + 1, &bits, sizeof bits);
    return p + 9;
}

/* GET of a number below 2**32, binary form. */
FAST_INLINE unsigned char *put_get(unsigned char *p, uint32_t number)
{
    if (number < 256) {
        p[0] = OP_BINGET;
        p[1] = (unsigned char)number;
        return p + 2;
    }
    p[0] = OP_LONG_BINGET;
    p[1] = (unsigned char)number;
    p[2] = (unsigned char)(number >> 8);
    p[3] = (unsigned char)(number >> 16);
    p[4] = (unsigned char)(number >> 24);
    return p + 5;
}

/* Memoize obj, known to be absent, at `slot`; writes the opcode. slot NULL: its reference count is
   solo, so while the memo is quiet it is logged, and afterwards, as part of a reducer's fresh
   result, it gets a number and is forgotten. 0 or -1. */
FAST_INLINE int memoize_new(torshi_dump *d, memo_slot *slot, PyObject *obj)
{
    int status;
    if (TORSHI_UNLIKELY(d->fast)) {
        return 0;
    }
    status = slot == NULL ? memo_log(&d->memo, d->memo.quiet ? obj : NULL)
                          : memo_put_at(&d->memo, slot, obj);
    if (TORSHI_UNLIKELY(status < 0)) {
        return -1;
    }
    if (TORSHI_LIKELY(d->proto >= 4)) {
        return out_op(d, OP_MEMOIZE);
    }
    return write_memo_op(d, (Py_ssize_t)d->memo.count - 1);
}

/* Memoize obj, known to be absent; `alone`: its count was solo, and has been while it was written
   unless the memo is not quiet any more. 0 or -1. */
FAST_INLINE int memoize_alone(torshi_dump *d, PyObject *obj, int alone)
{
    if (alone && d->memo.quiet) {
        return memoize_new(d, NULL, obj);
    }
    return memoize(d, obj);
}

/* An exact str: GET, or the string and its memo opcode. 0 or -1 (SAVE_*). */
FAST_INLINE int save_str(torshi_dump *d, PyObject *obj, Py_ssize_t solo)
{
    memo_slot *slot = NULL;
    /* A reducer's string that is interned can be had again by interning an equal one. */
    if (Py_REFCNT(obj) != solo ||
        (TORSHI_UNLIKELY(!d->memo.quiet) && PyUnicode_CHECK_INTERNED(obj))) {
        slot = memo_probe(&d->memo, obj);
        if (memo_slot_used(&d->memo, slot)) {
            uint32_t code = slot->code;
            if (TORSHI_LIKELY(code < MEMO_NUMBER_LIMIT && d->bin)) {
                d->p = put_get(d->p, code);
                return 0;
            }
            if (code != MEMO_COLUMN_CODE) {
                return save_met(d, obj, code);
            }
        }
    }
    if (TORSHI_LIKELY(PyUnicode_IS_COMPACT_ASCII(obj) && d->modern)) {
        size_t n = (size_t)PyUnicode_GET_LENGTH(obj);
        if (TORSHI_LIKELY(n < 256)) {
            unsigned char *p;
            int status;
            if (TORSHI_UNLIKELY((size_t)(d->end - d->p) < n + OUT_SLACK) && out_grow(d, n) < 0) {
                return -1;
            }
            p = d->p;
            p[0] = OP_SHORT_BINUNICODE;
            p[1] = (unsigned char)n;
            copy_short(p + 2, (const unsigned char *)((PyASCIIObject *)obj + 1), n);
            p[2 + n] = OP_MEMOIZE;
            d->p = p + 3 + n;
            status = slot == NULL ? memo_log(&d->memo, d->memo.quiet ? obj : NULL)
                                  : memo_put_at(&d->memo, slot, obj);
            return status;
        }
    }
    return save_str_slowly(d, obj, slot == NULL);
}

/*
 * What needs no look-up and no room beyond the slack: None, bool, int, float. 1 written,
 * 0 something else (nothing written).
 */
FAST_INLINE int try_atom(torshi_dump *d, PyObject *obj, PyTypeObject *type)
{
    int64_t value;
    if (type == &PyLong_Type) {
        if (TORSHI_LIKELY(small_int(obj, &value) && value == (int32_t)value && d->bin)) {
            d->p = put_int(d->p, value);
            return 1;
        }
        return 0;
    }
    if (type == &PyFloat_Type) {
        if (TORSHI_LIKELY(d->bin)) {
            d->p = put_float(d->p, PyFloat_AS_DOUBLE(obj));
            return 1;
        }
        return 0;
    }
    if (obj == Py_None) {
        *d->p++ = OP_NONE;
        return 1;
    }
    if (type == &PyBool_Type && d->proto >= 2) {
        *d->p++ = obj == Py_True ? OP_NEWTRUE : OP_NEWFALSE;
        return 1;
    }
    return 0;
}

/* Whether obj holds no other object and is of a type that pickle knows by itself. */
FAST_INLINE int is_atom(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type ||
           obj == Py_None || type == &PyBool_Type;
}

/* An object of which is_atom says yes, met where a container holds it: SAVE_DONE or SAVE_ERROR. */
FAST_INLINE int save_atom(torshi_dump *d, PyObject *obj)
{
    if (Py_IS_TYPE(obj, &PyUnicode_Type)) {
        return d->p < d->soft ? save_str(d, obj, d->memo.solo) : save_object(d, obj, d->memo.solo);
    }
    return d->p < d->soft && try_atom(d, obj, Py_TYPE(obj)) ? SAVE_DONE
                                                            : save_object(d, obj, d->memo.solo);
}

#endif
