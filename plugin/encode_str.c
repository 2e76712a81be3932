/*
 * encode_str.c - columns of str and bytes: lengths and one blob, or distinct values and indexes.
 *
 * One pass over the objects copies their characters into the writer's blob; everything after that
 * works on the blob: the sample, the table of distinct values, the columns.
 */
#include "encode_str.h"

#include "wire/byteorder.h"

/* Short copies are most of the work of a column; a call of memcpy would be most of theirs. */
static inline void copy_text(uint8_t *restrict to, const uint8_t *restrict from, size_t n)
{
    if (n > 16) {
        memcpy(to, from, n);
    } else if (n >= 8) {
        uint64_t head, tail;
        memcpy(&head, from, 8);
        memcpy(&tail, from + n - 8, 8);
        memcpy(to, &head, 8);
        memcpy(to + n - 8, &tail, 8);
    } else if (n >= 4) {
        uint32_t head, tail;
        memcpy(&head, from, 4);
        memcpy(&tail, from + n - 4, 4);
        memcpy(to, &head, 4);
        memcpy(to + n - 4, &tail, 4);
    } else if (n) {
        to[0] = from[0];
        to[n / 2] = from[n / 2];
        to[n - 1] = from[n - 1];
    }
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
static void copy_wide(uint8_t *to, const void *from, size_t n, unsigned kind)
{
    for (size_t i = 0; i < n; i++) {
        if (kind == 2) {
            store_le16(to + 2 * i, ((const Py_UCS2 *)from)[i]);
        } else {
            store_le32(to + 4 * i, ((const Py_UCS4 *)from)[i]);
        }
    }
}
#else
static void copy_wide(uint8_t *to, const void *from, size_t n, unsigned kind)
{
    memcpy(to, from, n * torshi_char_size(kind));
}
#endif

/* Bytes of n characters of kind 1 to 3 in UTF-8, surrogates with three. */
static size_t utf8_size(const uint8_t *p, size_t n, unsigned kind)
{
    size_t size = n;
    if (kind == 1) {
        for (size_t i = 0; i < n; i++) {
            size += p[i] >> 7;
        }
    } else if (kind == 2) {
        for (size_t i = 0; i < n; i++) {
            uint16_t c = load_le16(p + 2 * i);
            size += (c > 0x7f) + (c > 0x7ff);
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            uint32_t c = load_le32(p + 4 * i);
            size += (c > 0x7f) + (c > 0x7ff) + (c > 0xffff);
        }
    }
    return size;
}

/* The str s->n times: lengths, kinds, characters. ENC_OTHER at the first that is no str. */
static int read_strs(chunk_writer *w, const span *s, texts *t, size_t longest)
{
    size_t shared = 0;
    int64_t cost = 0;
    for (size_t i = 0; i < s->n; i++) {
        PyObject *obj = span_at(s, i);
        if (!PyUnicode_CheckExact(obj)) {
            return ENC_OTHER;
        }
#if PY_VERSION_HEX < 0x030C0000
        if (PLUGIN_UNLIKELY(!PyUnicode_IS_READY(obj)) && PyUnicode_READY(obj) < 0) {
            return ENC_ERROR;
        }
#endif
        size_t n = (size_t)PyUnicode_GET_LENGTH(obj);
        shared += Py_REFCNT(obj) > 1;
        if (PLUGIN_UNLIKELY(n > longest)) {
            return longest == UINT32_MAX ? ENC_DECLINE : ENC_OTHER;
        }
        t->lens[i] = (uint32_t)n;
        if (PLUGIN_LIKELY(PyUnicode_IS_COMPACT_ASCII(obj))) {
            if (PLUGIN_UNLIKELY(!torshi_buf_reserve(&w->blob, n + TEXT_SLACK))) {
                return put_no_memory();
            }
            copy_text(w->blob.data + w->blob.len, PyUnicode_1BYTE_DATA(obj), n);
            w->blob.len += n;
            cost += (int64_t)n + (n > 255 ? 6 : 3);
            continue;
        }
        unsigned kind = PyUnicode_KIND(obj) == 1   ? (PyUnicode_IS_ASCII(obj) ? 0 : 1)
                        : PyUnicode_KIND(obj) == 2 ? 2
                                                   : 3;
        if (!t->kinds) {
            t->kinds = arena_alloc(&w->arena, s->n, 1);
            if (!t->kinds) {
                return ENC_ERROR;
            }
            memset(t->kinds, 0, s->n);
        }
        t->kinds[i] = (uint8_t)kind;
        size_t bytes = n * torshi_char_size(kind);
        if (!torshi_buf_reserve(&w->blob, bytes + TEXT_SLACK)) {
            return put_no_memory();
        }
        uint8_t *to = w->blob.data + w->blob.len;
        copy_wide(to, PyUnicode_DATA(obj), n, kind);
        w->blob.len += bytes;
        size_t size = utf8_size(to, n, kind);
        cost += (int64_t)size + (size > 255 ? 6 : 3);
    }
    t->shared = shared;
    t->cost = cost;
    return ENC_OK;
}

static int read_bytes(chunk_writer *w, const span *s, texts *t, size_t longest)
{
    size_t shared = 0;
    int64_t cost = 0;
    for (size_t i = 0; i < s->n; i++) {
        PyObject *obj = span_at(s, i);
        if (!PyBytes_CheckExact(obj)) {
            return ENC_OTHER;
        }
        size_t n = (size_t)PyBytes_GET_SIZE(obj);
        if (PLUGIN_UNLIKELY(n > longest)) {
            return longest == UINT32_MAX ? ENC_DECLINE : ENC_OTHER;
        }
        shared += Py_REFCNT(obj) > 1;
        t->lens[i] = (uint32_t)n;
        if (PLUGIN_UNLIKELY(!torshi_buf_reserve(&w->blob, n + TEXT_SLACK))) {
            return put_no_memory();
        }
        copy_text(w->blob.data + w->blob.len, (const uint8_t *)PyBytes_AS_STRING(obj), n);
        w->blob.len += n;
        cost += (int64_t)n + (n > 255 ? 6 : 3);
    }
    t->shared = shared;
    t->cost = cost;
    return ENC_OK;
}

size_t text_cost(PyObject *obj)
{
    size_t size;
    if (PyBytes_CheckExact(obj)) {
        size = (size_t)PyBytes_GET_SIZE(obj);
    } else if (PyUnicode_IS_ASCII(obj)) {
        size = (size_t)PyUnicode_GET_LENGTH(obj);
    } else if (PyUnicode_KIND(obj) == 1) {
        size = utf8_size(PyUnicode_1BYTE_DATA(obj), (size_t)PyUnicode_GET_LENGTH(obj), 1);
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

/*
 * Some objects have other owners, so one may stand in several rows, or have been met before: count
 * what each row takes as opcodes, and note for each the first row with the same object.
 */
static int count_shared(chunk_writer *w, const span *s, texts *t)
{
    t->same = arena_alloc(&w->arena, s->n, sizeof(*t->same));
    if (!t->same) {
        return ENC_ERROR;
    }
    uint32_t ordinal = 0;
    int64_t cost = 0;
    for (size_t i = 0; i < s->n; i++) {
        PyObject *obj = span_at(s, i);
        t->same[i] = (uint32_t)i;
        if (Py_REFCNT(obj) == 1) { /* in no other place: neither met nor to be met */
            cost += (int64_t)text_cost(obj);
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
            cost += met ? met : (int64_t)text_cost(obj);
            e->again = met ? (uint32_t)met : ordinal < 256 ? 2 : 5;
            e->index = (uint32_t)i;
            ordinal++;
            continue;
        }
        cost += e->again;
        e->times++;
        if (e->column == w->serial) {
            t->same[i] = e->index;
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
/* Bytes of a column of n strings after its head, with its width and base. */
static size_t column_size(const uint32_t *lens, size_t n, bool kinds, size_t blob, uint32_t *base,
                          int *width)
{
    *width = torshi_lens_width(lens, n, base);
    return torshi_uvar_size(*base) + torshi_packed_size(n, *width) +
           (kinds ? torshi_packed_size(n, 2) : 0) + blob;
}

/* Whether a string that is not ASCII is among those of kinds (NULL: none is). */
static bool any_wide(const uint8_t *kinds, size_t n)
{
    for (size_t i = 0; kinds && i < n; i++) {
        if (kinds[i]) {
            return true;
        }
    }
    return false;
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
    if (!torshi_buf_reserve(&w->out, d->blob_size)) {
        return put_no_memory();
    }
    uint8_t *to = w->out.data + w->out.len;
    for (size_t i = 0; i < d->count; i++) {
        size_t size = text_bytes(d->lens[i], d->kinds ? d->kinds[i] : 0);
        copy_text(to, w->blob.data + d->offsets[i], size);
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
    uint32_t base;
    int width;
    w->serial++;
    t.lens = arena_alloc(&w->arena, s->n, sizeof(*t.lens));
    if (!t.lens) {
        goto done;
    }
    w->blob.len = 0;
    status = t.bytes ? read_bytes(w, s, &t, longest) : read_strs(w, s, &t, longest);
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
    size_t plain = column_size(t.lens, t.n, t.kinds != NULL, w->blob.len, &base, &width);
    if (t.repeated || (!(flags & COLUMN_DISTINCT) && texts_repeat(w, &t))) {
        status = find_distinct(w, s, &t, &d);
        if (status != ENC_OK) {
            goto done;
        }
    }
    if (d.count) {
        d.width = torshi_width_for(d.count - 1);
        size_t coded =
            1 + torshi_uvar_size(d.count) +
            column_size(d.lens, d.count, d.kinds != NULL, d.blob_size, &d.base, &d.lens_width) +
            torshi_packed_size(t.n, d.width);
        if (coded < plain) {
            w->values += d.count;
            status = put_dictionary(w, &t, &d);
            goto done;
        }
    }
    status = put_texts(w, t.bytes, t.lens, t.kinds, t.n, base, width);
    if (status == ENC_OK && !torshi_buf_put(&w->out, w->blob.data, w->blob.len)) {
        status = put_no_memory();
    }
done:
    arena_release(&w->arena, mark);
    return status;
}
