/*
 * encode_int.c - columns of ints: progressions, offsets from the smallest, and ints of any size.
 */
#include "encode_int.h"
#include "wire/byteorder.h"

/* How many of n packed offsets are above `limit`. Plain loops with constant widths, and a count of
   theirs, vectorize; n fits 32 bits (TORSHI_MAX_ROWS). */
static size_t count_above(const uint8_t *packed, size_t n, int width, uint64_t limit)
{
    uint32_t count = 0;
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

/* The least and the greatest of the ints read so far. */
typedef struct int_range {
    int64_t least, greatest;
} int_range;

/* One int: its value, and the range with it. false when it is no int or does not fit. */
static inline bool read_int(PyObject *obj, int64_t *value, int_range *range)
{
    if (PLUGIN_UNLIKELY(Py_TYPE(obj) != &PyLong_Type) || !read_int64(obj, value)) {
        return false;
    }
    range->least = *value < range->least ? *value : range->least;
    range->greatest = *value > range->greatest ? *value : range->greatest;
    return true;
}

static const int_range no_range = {INT64_MAX, INT64_MIN};

/* The values of s; false at the first that is no int or does not fit. `far`, a constant where this
   is inlined: objects are fetched ahead. Columns are walked by address: a product a row tells. */
static inline bool read_rows(const span *s, size_t from, size_t to, bool far, int64_t *restrict out,
                             int_range *range)
{
    const unsigned char *at = s->base + from * s->stride;
    const size_t stride = s->stride, ahead = PREFETCH_AHEAD * stride;
    int_range r = *range;
    for (size_t i = from; i < to; i++, at += stride) {
        if (far) {
            __builtin_prefetch(object_at(at + ahead));
        }
        if (!read_int(object_at(at), &out[i], &r)) {
            return false;
        }
    }
    *range = r;
    return true;
}

static bool read_ints(const span *s, int64_t *out, int_range *range)
{
    size_t fetched = s->n >= PREFETCH_ROWS ? s->n - PREFETCH_AHEAD : 0;
    *range = no_range;
    return read_rows(s, 0, fetched, true, out, range) &&
           read_rows(s, fetched, s->n, false, out, range);
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
    int_range range;
    int status = !values ? ENC_ERROR
                 : !read_ints(s, values, &range)
                     ? ENC_OTHER
                     : put_ints(w, values, s->n, range.least, range.greatest);
    arena_release(&w->arena, mark);
    return status;
}

/* Both columns' values in one pass: a key and its value often lie side by side in memory. */
static inline bool read_pair_rows(const span *keys, const span *values, size_t from, size_t to,
                                  bool far, int64_t *restrict k, int64_t *restrict v,
                                  int_range range[2])
{
    const unsigned char *key = keys->base + from * keys->stride;
    const unsigned char *value = values->base + from * values->stride;
    const size_t key_stride = keys->stride, value_stride = values->stride;
    int_range rk = range[0], rv = range[1];
    for (size_t i = from; i < to; i++, key += key_stride, value += value_stride) {
        if (far) {
            __builtin_prefetch(object_at(key + PREFETCH_AHEAD * key_stride));
            __builtin_prefetch(object_at(value + PREFETCH_AHEAD * value_stride));
        }
        if (!read_int(object_at(key), &k[i], &rk) || !read_int(object_at(value), &v[i], &rv)) {
            return false;
        }
    }
    range[0] = rk;
    range[1] = rv;
    return true;
}

static bool read_pairs(const span *keys, const span *values, int64_t *k, int64_t *v,
                       int_range range[2])
{
    size_t n = keys->n, fetched = n >= PREFETCH_ROWS ? n - PREFETCH_AHEAD : 0;
    range[0] = range[1] = no_range;
    return read_pair_rows(keys, values, 0, fetched, true, k, v, range) &&
           read_pair_rows(keys, values, fetched, n, false, k, v, range);
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
    int_range range[2];
    int status = !k || !v                                 ? ENC_ERROR
                 : !read_pairs(keys, values, k, v, range) ? ENC_OTHER
                                                          : count_values(w, keys->n);
    if (status == ENC_OK) {
        status = count_values(w, keys->n);
    }
    if (status == ENC_OK) {
        status = put_ints(w, k, keys->n, range[0].least, range[0].greatest);
    }
    if (status == ENC_OK) {
        status = put_ints(w, v, keys->n, range[1].least, range[1].greatest);
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
        int64_t v;
        if (!PyLong_CheckExact(obj) || read_int64(obj, &v)) {
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
