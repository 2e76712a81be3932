/*
 * encode_int.c - columns of ints: progressions, offsets from the smallest, and ints of any size.
 */
#include "encode_int.h"
#include "wire/byteorder.h"

/* How many of n packed offsets are above `limit`. Plain loops with a constant width vectorize. */
static size_t count_above(const uint8_t *packed, size_t n, int width, uint64_t limit)
{
    size_t count = 0;
    if (width == 4) {
        for (size_t i = 0; i < n; i++) {
            count += packed[i] > limit;
        }
    } else if (width == 5) {
        uint16_t most = limit > UINT16_MAX ? UINT16_MAX : (uint16_t)limit;
        for (size_t i = 0; i < n; i++) {
            count += load_le16(packed + 2 * i) > most;
        }
    } else {
        uint32_t most = limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit;
        for (size_t i = 0; i < n; i++) {
            count += load_le32(packed + 4 * i) > most;
        }
    }
    return count;
}

/* Bytes of the values as opcodes; `packed` are their offsets from min. */
static int64_t ints_cost(const int64_t *v, size_t n, int64_t min, int64_t max,
                         const uint8_t *packed, int width)
{
    if (min >= 0 && max <= 0xff) {
        return 2 * (int64_t)n;
    }
    if (min > 0xffff && max <= INT32_MAX) {
        return 5 * (int64_t)n;
    }
    if (min >= 0 && max <= INT32_MAX && width >= 4 && width <= 6) {
        uint64_t low = (uint64_t)min;
        size_t two = min > 0xff ? n : count_above(packed, n, width, 0xff - low);
        size_t four = max <= 0xffff ? 0 : count_above(packed, n, width, 0xffff - low);
        return (int64_t)(2 * n + two + 2 * four);
    }
    int64_t cost = 0;
    for (size_t i = 0; i < n; i++) {
        cost += int_cost(v[i]);
    }
    return cost;
}

/* Columns of so many rows are larger than the cache: their objects are fetched ahead of the loop
   (tools/bench: dict_ints_1m). */
#define PREFETCH_ROWS 16384
#define PREFETCH_AHEAD 32

static inline size_t prefetched_rows(size_t n)
{
    return n >= PREFETCH_ROWS ? n - PREFETCH_AHEAD : 0;
}

/* The values of s, the least and the greatest; false at the first that is no int or does not fit.
 */
static bool read_ints(const span *s, int64_t *restrict out, int64_t *least, int64_t *greatest)
{
    PyTypeObject *const type = &PyLong_Type;
    int64_t min = INT64_MAX, max = INT64_MIN;
    size_t ahead = prefetched_rows(s->n);
    for (size_t i = 0; i < s->n; i++) {
        PyObject *obj = span_at(s, i);
        int64_t v;
        if (i < ahead) {
            __builtin_prefetch(span_at(s, i + PREFETCH_AHEAD));
        }
        if (PLUGIN_UNLIKELY(Py_TYPE(obj) != type) || !read_int64(obj, &v)) {
            return false;
        }
        out[i] = v;
        min = v < min ? v : min;
        max = v > max ? v : max;
    }
    *least = min;
    *greatest = max;
    return true;
}

/* Whether the values have a common difference, none of whose multiples overflows. */
static bool is_progression(const int64_t *v, size_t n, int64_t *step)
{
    if (n < 3 || __builtin_sub_overflow(v[1], v[0], step)) {
        return false;
    }
    uint64_t d = (uint64_t)*step, different = (uint64_t)v[2] - (uint64_t)v[1] - d;
    different |= (uint64_t)v[n - 1] - (uint64_t)v[n - 2] - d;
    if (different) { /* most columns end here */
        return false;
    }
    for (size_t i = 2; i < n; i++) { /* no way out of the loop, so that it vectorizes */
        different |= (uint64_t)v[i] - (uint64_t)v[i - 1] - d;
    }
    return different == 0 && torshi_progression_fits(v[0], *step, n);
}

int put_ints(chunk_writer *w, const int64_t *v, size_t n, int64_t min, int64_t max)
{
    int64_t step;
    if (is_progression(v, n, &step)) {
        if (put_head(w, TORSHI_COL_PROGRESSION, 0) < 0) {
            return ENC_ERROR;
        }
        if (!torshi_buf_zvar(&w->out, v[0]) || !torshi_buf_zvar(&w->out, step)) {
            return put_no_memory();
        }
        w->bound += 2 * (int64_t)n;
        return ENC_OK;
    }
    int width = torshi_width_for((uint64_t)max - (uint64_t)min);
    if (put_head(w, TORSHI_COL_INT, width) < 0) {
        return ENC_ERROR;
    }
    if (!torshi_buf_zvar(&w->out, min) || !torshi_pack_offsets(&w->out, v, n, min, width)) {
        return put_no_memory();
    }
    const uint8_t *packed = w->out.data + w->out.len - torshi_packed_size(n, width);
    w->bound += ints_cost(v, n, min, max, packed, width);
    return ENC_OK;
}

int encode_ints(chunk_writer *w, const span *s)
{
    arena_mark mark = arena_here(&w->arena);
    int64_t *values = arena_alloc(&w->arena, s->n, sizeof(*values));
    int64_t min, max;
    int status = !values                             ? ENC_ERROR
                 : !read_ints(s, values, &min, &max) ? ENC_OTHER
                                                     : put_ints(w, values, s->n, min, max);
    arena_release(&w->arena, mark);
    return status;
}

/* Both columns' values in one pass: a key and its value often lie side by side in memory. */
static bool read_pairs(const span *keys, const span *values, int64_t *restrict k,
                       int64_t *restrict v, int64_t range[4])
{
    PyTypeObject *const type = &PyLong_Type;
    int64_t least_k = INT64_MAX, most_k = INT64_MIN, least_v = INT64_MAX, most_v = INT64_MIN;
    size_t ahead = prefetched_rows(keys->n);
    for (size_t i = 0; i < keys->n; i++) {
        PyObject *key = span_at(keys, i), *value = span_at(values, i);
        if (i < ahead) {
            __builtin_prefetch(span_at(keys, i + PREFETCH_AHEAD));
            __builtin_prefetch(span_at(values, i + PREFETCH_AHEAD));
        }
        if (PLUGIN_UNLIKELY(Py_TYPE(key) != type || Py_TYPE(value) != type) ||
            !read_int64(key, &k[i]) || !read_int64(value, &v[i])) {
            return false;
        }
        least_k = k[i] < least_k ? k[i] : least_k;
        most_k = k[i] > most_k ? k[i] : most_k;
        least_v = v[i] < least_v ? v[i] : least_v;
        most_v = v[i] > most_v ? v[i] : most_v;
    }
    range[0] = least_k;
    range[1] = most_k;
    range[2] = least_v;
    range[3] = most_v;
    return true;
}

int encode_int_pairs(chunk_writer *w, const span *keys, const span *values)
{
    if (keys->n == 0 || !PyLong_CheckExact(span_at(keys, 0)) ||
        !PyLong_CheckExact(span_at(values, 0))) {
        return ENC_OTHER;
    }
    arena_mark mark = arena_here(&w->arena);
    int64_t *k = arena_alloc(&w->arena, keys->n, sizeof(*k));
    int64_t *v = arena_alloc(&w->arena, keys->n, sizeof(*v));
    int64_t range[4];
    int status = !k || !v                                 ? ENC_ERROR
                 : !read_pairs(keys, values, k, v, range) ? ENC_OTHER
                                                          : count_values(w, keys->n);
    if (status == ENC_OK) {
        status = count_values(w, keys->n);
    }
    if (status == ENC_OK) {
        status = put_ints(w, k, keys->n, range[0], range[1]);
    }
    if (status == ENC_OK) {
        status = put_ints(w, v, keys->n, range[2], range[3]);
    }
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
