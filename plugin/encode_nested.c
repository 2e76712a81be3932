/*
 * encode_nested.c - lists, and dicts of any keys: lengths, then the items of all rows in one
 * column.
 */
#include "encode.h"

/* What the rows of a column hold together. */
typedef struct totals {
    uint32_t *lens;
    uint32_t *ends;    /* values of rows 0 to i */
    PyObject ***items; /* of lists: where each has them */
    size_t total;
    int64_t cost; /* the containers as opcodes */
} totals;

static int start_totals(chunk_writer *w, totals *t, size_t n)
{
    *t = (totals){.lens = arena_alloc(&w->arena, n, sizeof(*t->lens)),
                  .ends = arena_alloc(&w->arena, n, sizeof(*t->ends))};
    return t->lens && t->ends ? ENC_OK : ENC_ERROR;
}

static inline void add_length(totals *t, size_t i, size_t len)
{
    t->lens[i] = (uint32_t)len;
    t->total += len;
    t->ends[i] = (uint32_t)t->total;
    t->cost += 2 + (len > 1 ? 2 : (int64_t)len); /* EMPTY_X, MEMOIZE, APPEND or (MARK, APPENDS) */
}

/* The column's head and lengths, and an origin for what is in it. */
static int put_lengths(chunk_writer *w, torshi_kind kind, const totals *t, const span *s,
                       const cells *c, origin **from)
{
    uint32_t base, first;
    int width = torshi_lens_width(t->lens, s->n, &base);
    if (put_head(w, kind, width) < 0) {
        return ENC_ERROR;
    }
    if (!torshi_pack_lens(&w->out, t->lens, s->n, base, width)) {
        return put_no_memory();
    }
    *from = arena_alloc(&w->arena, 1, sizeof(**from));
    if (!*from || put_on_roll(w, s, c, BUILD_ITEM, &first) != ENC_OK) {
        return ENC_ERROR;
    }
    **from = (origin){.form = kind == TORSHI_COL_LIST ? ORIGIN_ITEM : ORIGIN_PAIR,
                      .first = first,
                      .parents = (uint32_t)s->n,
                      .ends = t->ends};
    w->bound += t->cost;
    return ENC_OK;
}

/* Lengths of all rows, which are claimed on the way unless that was done before. */
static int measure_lists(chunk_writer *w, const span *s, int level, bool claimed, totals *t)
{
    size_t i = 0;
    int status = ENC_OK;
    for (; i < s->n; i++) {
        PyObject *obj = span_at(s, i);
        fetch_list_ahead(s, i);
        if (!claimed) {
            if (!PyList_CheckExact(obj) ||
                (!starts_plain(obj) && classify(w, obj, level, 0).kind != KIND_LIST)) {
                status = ENC_OTHER;
                break;
            }
            int claim = claim_row(w, obj);
            if (claim != 1) {
                status = claim < 0 ? ENC_ERROR : ENC_OTHER;
                break;
            }
        }
        t->items[i] = PySequence_Fast_ITEMS(obj);
        add_length(t, i, (size_t)PyList_GET_SIZE(obj));
    }
    if (status == ENC_OTHER) {
        while (i--) {
            unclaim_row(w, span_at(s, i));
        }
    }
    return status;
}

int encode_lists(chunk_writer *w, const span *s, const cells *c, int level, unsigned flags)
{
    totals t;
    origin *from;
    int status = start_totals(w, &t, s->n);
    if (status == ENC_OK) {
        t.items = arena_alloc(&w->arena, s->n, sizeof(*t.items));
        status = t.items ? ENC_OK : ENC_ERROR;
    }
    if (status == ENC_OK) {
        status = measure_lists(w, s, level, (flags & COLUMN_SORTED) != 0, &t);
    }
    if (status != ENC_OK) {
        return status;
    }
    if (t.total > TORSHI_MAX_ROWS) {
        return ENC_LIMIT;
    }
    PyObject **items = arena_alloc(&w->arena, t.total, sizeof(*items)), **to = items;
    if (!items) {
        return ENC_ERROR;
    }
    for (size_t i = 0; i < s->n; i++) {
        PyObject *const *row = t.items[i];
        for (size_t j = 0; j < t.lens[i]; j++) {
            *to++ = row[j];
        }
    }
    status = put_lengths(w, TORSHI_COL_LIST, &t, s, c, &from);
    if (status != ENC_OK) {
        return status;
    }
    cells where = {from, NULL};
    span column = span_of(items, t.total);
    return encode_column(w, &column, &where, level + 1, 0);
}

static void copy_pairs(chunk_writer *w, PyObject *dict, PyObject **keys, PyObject **values)
{
    torshi_dict_view view;
    if (row_view(w, dict, NULL, &view)) {
        for (size_t i = 0; i < (size_t)view.count; i++) {
            keys[i] = view_key(&view, i);
            values[i] = view_value(&view, i);
        }
        return;
    }
    Py_ssize_t position = 0, i = 0, n = PyDict_GET_SIZE(dict);
    while (i < n && PyDict_Next(dict, &position, &keys[i], &values[i])) {
        i++;
    }
}

int encode_maps(chunk_writer *w, const span *s, const cells *c, int level)
{
    totals t;
    origin *from;
    int status = start_totals(w, &t, s->n);
    if (status != ENC_OK) {
        return status;
    }
    for (size_t i = 0; i < s->n; i++) {
        add_length(&t, i, (size_t)PyDict_GET_SIZE(span_at(s, i)));
    }
    if (t.total > TORSHI_MAX_ROWS) {
        return ENC_LIMIT;
    }
    PyObject **keys = arena_alloc(&w->arena, t.total, sizeof(*keys));
    PyObject **values = arena_alloc(&w->arena, t.total, sizeof(*values));
    if (!keys || !values) {
        return ENC_ERROR;
    }
    for (size_t i = 0, at = 0; i < s->n; i++) {
        copy_pairs(w, span_at(s, i), keys + at, values + at);
        at += t.lens[i];
    }
    status = put_lengths(w, TORSHI_COL_MAP, &t, s, c, &from);
    if (status != ENC_OK) {
        return status;
    }
    from->keys = span_of(keys, t.total);
    const cells nowhere = {NULL, NULL};
    cells where = {from, NULL};
    span column = span_of(values, t.total);
    status = encode_column(w, &from->keys, &nowhere, level + 1, COLUMN_PLAIN);
    return status == ENC_OK ? encode_column(w, &column, &where, level + 1, 0) : status;
}
