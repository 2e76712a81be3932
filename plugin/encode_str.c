/*
 * encode_str.c - columns of str and bytes: lengths and one blob, or distinct values and indexes.
 *
 * One pass over the objects copies their characters into the writer's blob; everything after that
 * works on the blob: the sample, the table of distinct values, the columns.
 */
#include "encode_str.h"

#include "wire/byteorder.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
static inline void copy_text(uint8_t *restrict to, const uint8_t *restrict from, size_t n)
{
    memcpy(to, from, n);
}

static void copy_wide(uint8_t *to, PyObject *obj, size_t n, unsigned kind)
{
    const void *from = PyUnicode_DATA(obj);
    for (size_t i = 0; i < n; i++) {
        if (kind == 2) {
            store_le16(to + 2 * i, ((const Py_UCS2 *)from)[i]);
        } else if (kind == 3) {
            store_le32(to + 4 * i, ((const Py_UCS4 *)from)[i]);
        } else {
            to[i] = ((const Py_UCS1 *)from)[i];
        }
    }
}
#else
/* The characters of a str or bytes object. Short copies are most of the work of a column, and their
   lengths follow no pattern: up to 16 bytes without a branch. Before the characters is the object's
   head, so that the last 8 bytes can be read whatever n is; beyond the copy is the blob's slack. */
static inline void copy_text(uint8_t *restrict to, const uint8_t *restrict from, size_t n)
{
    if (PLUGIN_LIKELY(n <= 16)) {
        size_t missing = n < 8 ? 8 - n : 0;
        uint64_t head = load_le64(from - missing) >> (8 * missing & 63);
        uint64_t tail = load_le64(from + n - 8) >> (8 * missing & 63);
        store_le64(to, head);
        store_le64(to + (n - 8 + missing), tail);
    } else if (n <= 32) {
        memcpy(to, from, 16);
        memcpy(to + n - 16, from + n - 16, 16);
    } else {
        memcpy(to, from, n);
    }
}

static void copy_wide(uint8_t *to, PyObject *obj, size_t n, unsigned kind)
{
    n *= torshi_char_size(kind);
    if (PyUnicode_IS_COMPACT(obj)) {
        copy_text(to, PyUnicode_DATA(obj), n);
    } else {
        memcpy(to, PyUnicode_DATA(obj), n);
    }
}
#endif

/* Which of a word's four lanes of 16 bits are not 0, a bit each. */
static inline uint64_t filled_lanes(uint64_t x)
{
    const uint64_t low = UINT64_C(0x7fff7fff7fff7fff);
    return ((((x & low) + low) | x) >> 15) & UINT64_C(0x0001000100010001);
}

/* Bytes of n characters of kind 1 to 3 in UTF-8, surrogates with three. p is readable TEXT_SLACK
   bytes beyond the end: by words, as most strings are short. */
static size_t utf8_size(const uint8_t *p, size_t n, unsigned kind)
{
    const uint64_t all = UINT64_MAX;
    size_t size = n;
    if (kind == 1) {
        const uint64_t ones = UINT64_C(0x0101010101010101);
        for (size_t i = 0; i < n; i += 8) {
            uint64_t x = load_le64(p + i) & (n - i < 8 ? ~(all << 8 * (n - i)) : all);
            size += (size_t)((x >> 7 & ones) * ones >> 56);
        }
    } else if (kind == 2) {
        for (size_t i = 0; i < n; i += 4) {
            uint64_t x = load_le64(p + 2 * i) & (n - i < 4 ? ~(all << 16 * (n - i)) : all);
            uint64_t more = filled_lanes(x & UINT64_C(0xff80ff80ff80ff80)) +
                            filled_lanes(x & UINT64_C(0xf800f800f800f800));
            size += (size_t)(more * UINT64_C(0x0001000100010001) >> 48);
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            uint32_t c = load_le32(p + 4 * i);
            size += (c > 0x7f) + (c > 0x7ff) + (c > 0xffff);
        }
    }
    return size;
}

/* Room for a string of n bytes and the slack at *to, which is where the blob ends; *limit is where
   strings may end. Moves both. 0, or -1 with MemoryError. */
static PLUGIN_NOINLINE int make_room(chunk_writer *w, uint8_t **to, uint8_t **limit, size_t n)
{
    if (*to) {
        w->blob.len = (size_t)(*to - w->blob.data);
    }
    if (!torshi_buf_reserve(&w->blob, n + TEXT_SLACK)) {
        return put_no_memory();
    }
    *to = w->blob.data + w->blob.len;
    *limit = w->blob.data + w->blob.cap - TEXT_SLACK;
    return 0;
}

/* A str that is not compact ASCII. ENC_OK or ENC_ERROR. */
static PLUGIN_NOINLINE int read_wide(chunk_writer *w, PyObject *obj, texts *t, size_t i,
                                     uint8_t **to, uint8_t **limit)
{
    size_t n = (size_t)PyUnicode_GET_LENGTH(obj);
    unsigned kind = PyUnicode_KIND(obj) == 1   ? (PyUnicode_IS_ASCII(obj) ? 0 : 1)
                    : PyUnicode_KIND(obj) == 2 ? 2
                                               : 3;
    if (!t->kinds) {
        t->kinds = arena_alloc(&w->arena, t->n, 1);
        t->sizes = arena_alloc(&w->arena, t->n, sizeof(*t->sizes));
        if (!t->kinds || !t->sizes) {
            return ENC_ERROR;
        }
        memset(t->kinds, 0, t->n);
    }
    t->kinds[i] = (uint8_t)kind;
    size_t bytes = text_bytes((uint32_t)n, kind);
    if ((size_t)(*limit - *to) < bytes && make_room(w, to, limit, bytes) < 0) {
        return ENC_ERROR;
    }
    copy_wide(*to, obj, n, kind);
    size_t size = kind ? utf8_size(*to, n, kind) : n;
    t->sizes[i] = size;
    t->cost += (int64_t)size + (size > 255 && n <= 255 ? 3 : 0); /* n > 255: see below */
    *to += bytes;
    return ENC_OK;
}

#define MANY_OWNERS 255

/*
 * All strings of s: lengths, kinds, characters. ENC_OTHER at the first that is of another type or
 * longer than `longest`. `text`: they are str, else bytes; `far`: so many that t->owners is there.
 * Both are constants where this is inlined.
 */
static inline int read_texts(chunk_writer *w, const span *s, texts *t, size_t longest, bool text,
                             bool far)
{
    PyTypeObject *const type = text ? &PyUnicode_Type : &PyBytes_Type;
    /* In registers, as are to and limit, with nobody having their addresses. */
    const unsigned char *at = s->base;
    const size_t stride = s->stride, fetched = far ? s->n - AHEAD : 0;
    uint8_t *start = NULL, *end = NULL;
    uint32_t *restrict lens = t->lens;
    uint8_t *restrict owners = t->owners;
    size_t n = s->n, shared = 0, total = 0, shortest = SIZE_MAX, largest = 0;
    if (make_room(w, &start, &end, 16 * n) < 0) {
        return ENC_ERROR;
    }
    uint8_t *to = start, *limit = end;
    for (size_t i = 0; i < n; i++, at += stride) {
        PyObject *obj = object_at(at);
        if (far && i < fetched) { /* both cache lines that are looked at */
            const char *next = (const char *)object_at(at + AHEAD * stride);
            __builtin_prefetch(next);
            __builtin_prefetch(next + 64);
        }
        if (PLUGIN_UNLIKELY(Py_TYPE(obj) != type)) {
            return ENC_OTHER;
        }
        bool ascii = !text || PyUnicode_IS_COMPACT_ASCII(obj);
#if PY_VERSION_HEX < 0x030C0000
        if (PLUGIN_UNLIKELY(!ascii) && PyUnicode_READY(obj) < 0) { /* compact ones are */
            return ENC_ERROR;
        }
#endif
        size_t len = text ? (size_t)PyUnicode_GET_LENGTH(obj) : (size_t)PyBytes_GET_SIZE(obj);
        if (PLUGIN_UNLIKELY(len > longest)) {
            return longest == UINT32_MAX ? ENC_DECLINE : ENC_OTHER;
        }
        shared |= (size_t)Py_REFCNT(obj) - 1;
        if (far) {
            owners[i] = (uint8_t)(Py_REFCNT(obj) < MANY_OWNERS ? Py_REFCNT(obj) : MANY_OWNERS);
        }
        shortest = len < shortest ? len : shortest;
        largest = len > largest ? len : largest;
        lens[i] = (uint32_t)len;
        if (PLUGIN_UNLIKELY(!ascii || (size_t)(limit - to) < len)) {
            start = to;
            end = limit;
            if (!ascii ? read_wide(w, obj, t, i, &start, &end) != ENC_OK
                       : make_room(w, &start, &end, len) < 0) {
                return ENC_ERROR;
            }
            to = start;
            limit = end;
            if (!ascii) {
                continue;
            }
        }
        copy_text(to,
                  text ? (const uint8_t *)((PyASCIIObject *)obj + 1)
                       : (const uint8_t *)PyBytes_AS_STRING(obj),
                  len);
        to += len;
        total += len;
    }
    w->blob.len = (size_t)(to - w->blob.data);
    t->cost += (int64_t)(total + 3 * n);
    for (size_t i = 0; largest > 255 && i < n; i++) {
        t->cost += lens[i] > 255 ? 3 : 0; /* four bytes of length, not one */
    }
    t->shared = shared != 0;
    t->shortest = (uint32_t)shortest;
    t->longest = (uint32_t)largest;
    return ENC_OK;
}

size_t text_cost(PyObject *obj)
{
    size_t size;
    if (PyBytes_CheckExact(obj)) {
        size = (size_t)PyBytes_GET_SIZE(obj);
    } else if (PyUnicode_IS_ASCII(obj)) {
        size = (size_t)PyUnicode_GET_LENGTH(obj);
    } else {
        Py_ssize_t n = PyUnicode_GET_LENGTH(obj);
        size = (size_t)n;
        for (Py_ssize_t i = 0; i < n; i++) {
            Py_UCS4 c = PyUnicode_READ_CHAR(obj, i);
            size += (c > 0x7f) + (c > 0x7ff) + (c > 0xffff);
        }
    }
    return size + (size > 255 ? 6 : 3);
}

/* Bytes of row i as an opcode. The object itself was looked at once and may be far by now. */
static inline int64_t row_cost(const texts *t, size_t i)
{
    size_t size = t->kinds && t->kinds[i] ? t->sizes[i] : t->lens[i];
    return (int64_t)size + (size > 255 ? 6 : 3);
}

/* Those to the object of row i, which in a large column may be far by now and is left alone. */
static inline Py_ssize_t references_to(const texts *t, size_t i, PyObject *obj)
{
    return t->owners && t->owners[i] < MANY_OWNERS ? t->owners[i] : Py_REFCNT(obj);
}

/*
 * Some objects have other owners, so one may stand in several rows, or have been met before: count
 * what each row takes as opcodes, and note for each the first row with the same object. One all of
 * whose owners are rows side by side is neither met before nor to be met again.
 */
static int count_shared(chunk_writer *w, const span *s, texts *t)
{
    t->same = arena_alloc(&w->arena, s->n, sizeof(*t->same));
    if (!t->same) {
        return ENC_ERROR;
    }
    uint32_t ordinal = 0;
    int64_t cost = 0;
    size_t run;
    for (size_t i = 0; i < s->n; i += run) {
        PyObject *obj = span_at(s, i);
        run = 1;
        t->same[i] = (uint32_t)i;
        if (references_to(t, i, obj) == 1) {
            cost += row_cost(t, i);
            ordinal++;
            continue;
        }
        while (i + run < s->n && span_at(s, i + run) == obj) {
            t->same[i + run++] = (uint32_t)i;
        }
        t->repeated |= run > 1;
        if (references_to(t, i, obj) == (Py_ssize_t)run) {
            cost += row_cost(t, i) + (int64_t)(run - 1) * (ordinal < 256 ? 2 : 5);
            ordinal++;
            continue;
        }
        seen_entry *e = seen_find(&w->seen, obj);
        if (!e) {
            return ENC_ERROR;
        }
        if (!e->obj) {
            int met = met_cost(w, obj);
            seen_enter(&w->seen, e, obj, w->serial);
            cost += met ? met : row_cost(t, i);
            e->again = met ? (uint32_t)met : ordinal < 256 ? 2 : 5;
            e->index = (uint32_t)i;
            e->times = (uint32_t)run;
            cost += (int64_t)(run - 1) * e->again;
            ordinal++;
            continue;
        }
        cost += (int64_t)run * e->again;
        e->times += (uint32_t)run;
        if (e->column == w->serial) {
            for (size_t j = 0; j < run; j++) {
                t->same[i + j] = e->index;
            }
            t->repeated = true;
        } else {
            e->column = w->serial;
            e->index = (uint32_t)i;
        }
    }
    t->cost = cost;
    return ENC_OK;
}

/* ---- writing ------------------------------------------------------------------------------------
 */
/* Bytes of a column of n strings after its head. */
static size_t column_size(size_t n, int width, uint32_t base, bool kinds, size_t blob)
{
    return torshi_uvar_size(base) + torshi_packed_size(n, width) +
           (kinds ? torshi_packed_size(n, 2) : 0) + blob;
}

static int put_texts(chunk_writer *w, bool bytes, const uint32_t *lens, const uint8_t *kinds,
                     size_t n, uint32_t base, int width)
{
    torshi_kind kind = bytes ? TORSHI_COL_BYTES : kinds ? TORSHI_COL_STR_KINDS : TORSHI_COL_STR;
    if (put_head(w, kind, width) < 0) {
        return ENC_ERROR;
    }
    if (!torshi_pack_lens(&w->out, lens, n, base, width) ||
        (kinds && !torshi_pack_u8(&w->out, kinds, n, 2))) {
        return put_no_memory();
    }
    return ENC_OK;
}

/* The distinct values as a column, then the indexes. */
static int put_dictionary(chunk_writer *w, const texts *t, const text_dictionary *d)
{
    if (put_head(w, TORSHI_COL_DICTIONARY, d->width) < 0) {
        return ENC_ERROR;
    }
    if (!torshi_buf_uvar(&w->out, d->count)) {
        return put_no_memory();
    }
    int status = put_texts(w, t->bytes, d->lens, d->kinds, d->count, d->base, d->lens_width);
    if (status != ENC_OK) {
        return status;
    }
    if (!torshi_buf_reserve(&w->out, d->blob_size + TEXT_SLACK)) {
        return put_no_memory();
    }
    uint8_t *to = w->out.data + w->out.len;
    for (size_t i = 0; i < d->count; i++) {
        size_t size = text_bytes(d->lens[i], d->kinds ? d->kinds[i] : 0);
        const uint8_t *from = w->blob.data + d->offsets[i];
        memcpy(to, from, 16); /* both have slack */
        if (size > 16) {
            memcpy(to + 16, from + 16, size - 16);
        }
        to += size;
    }
    w->out.len += d->blob_size;
    return torshi_pack_u32(&w->out, d->indexes, t->n, d->width) ? ENC_OK : put_no_memory();
}

int encode_texts(chunk_writer *w, const span *s, unsigned flags)
{
    int status = ENC_ERROR;
    arena_mark mark = arena_here(&w->arena);
    texts t = {.n = s->n, .bytes = PyBytes_CheckExact(span_at(s, 0))};
    text_dictionary d = {.count = 0};
    size_t longest = flags & COLUMN_PLAIN ? UINT32_MAX : LONG_TEXT - 1;
    int width;
    w->serial++;
    t.lens = arena_alloc(&w->arena, s->n, sizeof(*t.lens));
    t.owners = s->n >= FAR_ROWS ? arena_alloc(&w->arena, s->n, 1) : NULL;
    if (!t.lens || (s->n >= FAR_ROWS && !t.owners)) {
        goto done;
    }
    w->blob.len = 0;
    status = t.bytes    ? read_texts(w, s, &t, longest, false, t.owners != NULL)
             : t.owners ? read_texts(w, s, &t, longest, true, true)
                        : read_texts(w, s, &t, longest, true, false);
    if (status == ENC_OK && t.shared && !(flags & COLUMN_FRESH)) {
        status = count_shared(w, s, &t);
    }
    if (status != ENC_OK) {
        goto done;
    }
    w->bound += t.cost;
    if (!any_wide(t.kinds, t.n)) {
        t.kinds = NULL;
    }
    width = torshi_width_for(t.longest - t.shortest);
    size_t plain = column_size(t.n, width, t.shortest, t.kinds != NULL, w->blob.len);
    if (t.repeated || (!(flags & COLUMN_DISTINCT) && texts_repeat(w, &t))) {
        status = find_distinct(w, s, &t, &d);
        if (status != ENC_OK) {
            goto done;
        }
    }
    if (d.count) {
        d.lens_width = torshi_lens_width(d.lens, d.count, &d.base);
        d.width = torshi_width_for(d.count - 1);
        size_t coded = 1 + torshi_uvar_size(d.count) +
                       column_size(d.count, d.lens_width, d.base, d.kinds != NULL, d.blob_size) +
                       torshi_packed_size(t.n, d.width);
        if (coded < plain) {
            w->values += d.count;
            status = put_dictionary(w, &t, &d);
            goto done;
        }
    }
    status = put_texts(w, t.bytes, t.lens, t.kinds, t.n, t.shortest, width);
    if (status == ENC_OK && !torshi_buf_put(&w->out, w->blob.data, w->blob.len)) {
        status = put_no_memory();
    }
done:
    arena_release(&w->arena, mark);
    return status;
}
