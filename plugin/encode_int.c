/*
 * encode_int.c - columns of ints: progressions, offsets from the smallest, and ints of any size.
 */
#include "encode.h"

/* Bytes of an int as opcodes: BININT1, BININT2, BININT, or LONG1 with its fewest bytes. */
static inline int64_t int_cost(int64_t v)
{
    if (v >= 0 && v <= 0xffff) {
        return v <= 0xff ? 2 : 3;
    }
    if (v >= INT32_MIN && v <= INT32_MAX) {
        return 5;
    }
    uint64_t u = (uint64_t)(v < 0 ? ~v : v);
    int bits = 65 - __builtin_clzll(u); /* with the sign */
    return 2 + (bits + 7) / 8;
}

static int64_t ints_cost(const int64_t *v, size_t n, int64_t min, int64_t max)
{
    if (min >= 0 && max <= 0xff) {
        return 2 * (int64_t)n;
    }
    if (min > 0xffff && max <= INT32_MAX) {
        return 5 * (int64_t)n;
    }
    int64_t cost = 0;
    if (min >= INT32_MIN && max <= INT32_MAX) {
        for (size_t i = 0; i < n; i++) {
            uint32_t u = (uint32_t)v[i];
            cost += 2 + (u > 0xff) + 2 * (u > 0xffff);
        }
        return cost;
    }
    for (size_t i = 0; i < n; i++) {
        cost += int_cost(v[i]);
    }
    return cost;
}

/* The values of s; false at the first that is not an int, or does not fit. *step is the common
   difference when *progression says that there is one. */
static bool read_ints(const span *s, int64_t *restrict out, int64_t *min, int64_t *max,
                      bool *progression, int64_t *step)
{
    size_t n = s->n;
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        PyObject *obj = span_at(s, i);
        int64_t v;
        if (!PyLong_CheckExact(obj) || !read_int64(obj, &v)) {
            return false;
        }
        out[i] = v;
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    *min = low;
    *max = high;
    *progression = false;
    if (n >= 3 && !__builtin_sub_overflow(out[1], out[0], step)) {
        size_t i = 2;
        /* no step overflows when all lie between the ends: compare modulo 2**64, then the range */
        uint64_t d = (uint64_t)*step;
        while (i < n && (uint64_t)out[i] - (uint64_t)out[i - 1] == d) {
            i++;
        }
        *progression = i == n && torshi_progression_fits(out[0], *step, n);
    }
    return true;
}

int encode_ints(chunk_writer *w, const span *s)
{
    int status = ENC_ERROR;
    arena_mark mark = arena_here(&w->arena);
    int64_t *values = arena_alloc(&w->arena, s->n, sizeof(*values));
    int64_t min, max, step;
    bool progression;
    if (!values) {
        goto done;
    }
    if (!read_ints(s, values, &min, &max, &progression, &step)) {
        status = ENC_OTHER;
        goto done;
    }
    if (progression) {
        if (put_head(w, TORSHI_COL_PROGRESSION, 0) < 0) {
            goto done;
        }
        if (!torshi_buf_zvar(&w->out, values[0]) || !torshi_buf_zvar(&w->out, step)) {
            put_no_memory();
            goto done;
        }
        w->bound += 2 * (int64_t)s->n;
    } else {
        int width = torshi_width_for((uint64_t)max - (uint64_t)min);
        if (put_head(w, TORSHI_COL_INT, width) < 0) {
            goto done;
        }
        if (!torshi_buf_zvar(&w->out, min) ||
            !torshi_pack_offsets(&w->out, values, s->n, min, width)) {
            put_no_memory();
            goto done;
        }
        w->bound += ints_cost(values, s->n, min, max);
    }
    status = ENC_OK;
done:
    arena_release(&w->arena, mark);
    return status;
}

/* The fewest bytes of two's complement that hold an int that is not 0; -1 with an exception. */
static Py_ssize_t big_size(PyObject *obj)
{
    size_t bits = _PyLong_NumBits(obj);
    if (bits == (size_t)-1 && PyErr_Occurred()) {
        return -1;
    }
    return (Py_ssize_t)(bits / 8 + 1);
}

static int big_bytes(PyObject *obj, uint8_t *out, size_t size)
{
#if PY_VERSION_HEX >= 0x030D0000
    return _PyLong_AsByteArray((PyLongObject *)obj, out, size, 1, 1, 1);
#else
    return _PyLong_AsByteArray((PyLongObject *)obj, out, size, 1, 1);
#endif
}

int encode_bigs(chunk_writer *w, const span *s)
{
    int status = ENC_ERROR;
    arena_mark mark = arena_here(&w->arena);
    uint32_t *lens = arena_alloc(&w->arena, s->n, sizeof(*lens));
    int64_t bound = 0;
    if (!lens) {
        goto done;
    }
    w->blob.len = 0;
    for (size_t i = 0; i < s->n; i++) {
        PyObject *obj = span_at(s, i);
        if (!PyLong_CheckExact(obj)) {
            status = ENC_OTHER;
            goto done;
        }
        Py_ssize_t size = big_size(obj);
        if (size < 0) {
            goto done;
        }
        if ((uint64_t)size >= UINT32_MAX) {
            status = ENC_LIMIT;
            goto done;
        }
        if (!torshi_buf_reserve(&w->blob, (size_t)size)) {
            put_no_memory();
            goto done;
        }
        uint8_t *bytes = w->blob.data + w->blob.len;
        if (big_bytes(obj, bytes, (size_t)size) < 0) {
            goto done;
        }
        /* -128 is 8 bits and fits one byte, as 128 does not */
        if (size > 1 && bytes[size - 1] == 0xff && (bytes[size - 2] & 0x80)) {
            size--;
        }
        w->blob.len += (size_t)size;
        lens[i] = (uint32_t)size;
        bound += size + (size > 255 ? 5 : 2);
    }
    uint32_t base;
    int width = torshi_lens_width(lens, s->n, &base);
    if (put_head(w, TORSHI_COL_BIG, width) < 0) {
        goto done;
    }
    if (!torshi_pack_lens(&w->out, lens, s->n, base, width) ||
        !torshi_buf_put(&w->out, w->blob.data, w->blob.len)) {
        put_no_memory();
        goto done;
    }
    w->bound += bound;
    status = ENC_OK;
done:
    arena_release(&w->arena, mark);
    return status;
}
