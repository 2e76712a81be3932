/*
 * encode_tuple.c - immutable objects by identity, and columns of tuples of plain values: a column
 * for each item.
 */
#include "encode.h"

/* ---- each object once ---------------------------------------------------------------------------
 */
typedef struct identities {
    size_t count;       /* different objects */
    uint32_t *indexes;  /* row -> number of the object */
    PyObject **objects; /* the different ones */
    int64_t again;      /* bytes of the rows whose object was met before */
    size_t fresh;       /* rows whose object was not */
    bool met;           /* one was met before this column */
} identities;

static int number_objects(chunk_writer *w, const span *s, identities *t)
{
    t->indexes = arena_alloc(&w->arena, s->n, sizeof(*t->indexes));
    t->objects = arena_alloc(&w->arena, s->n, sizeof(*t->objects));
    if (!t->indexes || !t->objects) {
        return ENC_ERROR;
    }
    size_t ordinal = 0; /* objects that came first in this column */
    for (size_t i = 0; i < s->n; i++) {
        PyObject *obj = span_at(s, i);
        if (Py_REFCNT(obj) > 1) {
            seen_entry *e = seen_find(&w->seen, obj);
            if (!e) {
                return ENC_ERROR;
            }
            if (e->obj && e->column == w->serial) {
                t->again += e->again;
                t->indexes[i] = e->index;
                e->times++;
                continue;
            }
            int met = e->obj ? (int)e->again : met_cost(w, obj);
            if (e->obj) {
                e->times++;
            } else {
                seen_enter(&w->seen, e, obj, w->serial);
                e->again = met ? (uint32_t)met : ordinal < 256 ? 2 : 5;
                ordinal++;
            }
            e->column = w->serial;
            e->index = (uint32_t)t->count;
            t->met |= met != 0;
            t->again += met;
            t->fresh += met == 0;
        } else {
            t->fresh++;
            ordinal++;
        }
        t->indexes[i] = (uint32_t)t->count;
        t->objects[t->count++] = obj;
    }
    return ENC_OK;
}

int encode_by_identity(chunk_writer *w, const span *s, int level, int64_t cost, int64_t least,
                       put_objects_fn put, void *detail)
{
    size_t shared = 0;
    for (size_t i = 0; i < s->n; i++) {
        shared += Py_REFCNT(span_at(s, i)) > 1;
    }
    w->serial++;
    if (!shared) {
        w->bound += (int64_t)s->n * cost;
        return put(w, s, level, detail);
    }
    identities t = {.count = 0};
    if (number_objects(w, s, &t) != ENC_OK) {
        return ENC_ERROR;
    }
    span objects = span_of(t.objects, t.count);
    bool repeated = t.count < s->n;
    int width = torshi_width_for(t.count - 1);
    if (repeated) {
        if (put_head(w, TORSHI_COL_DICTIONARY, width) < 0) {
            return ENC_ERROR;
        }
        if (!torshi_buf_uvar(&w->out, t.count)) {
            return put_no_memory();
        }
        if (count_values(w, t.count) != ENC_OK) {
            return ENC_LIMIT;
        }
    }
    int64_t before = w->bound;
    int status = put(w, &objects, repeated ? level + 1 : level, detail);
    if (t.met) { /* what is below was not for the fresh ones alone: count the least */
        w->bound = before + (int64_t)t.fresh * least;
    }
    w->bound += (int64_t)t.fresh * cost + t.again;
    if (status == ENC_OK && repeated && !torshi_pack_u32(&w->out, t.indexes, s->n, width)) {
        status = put_no_memory();
    }
    return status;
}

/* ---- tuples -------------------------------------------------------------------------------------
 */
int put_items(chunk_writer *w, const span *s, size_t n, int level)
{
    const cells nowhere = {NULL, NULL};
    int status = ENC_OK;
    PyObject **items = arena_alloc(&w->arena, s->n, sizeof(*items));
    if (!items) {
        return ENC_ERROR;
    }
    for (size_t k = 0; k < n && status == ENC_OK; k++) {
        for (size_t i = 0; i < s->n; i++) {
            items[i] = PyTuple_GET_ITEM(span_at(s, i), (Py_ssize_t)k);
        }
        span column = span_of(items, s->n);
        status = encode_column(w, &column, &nowhere, level, COLUMN_PLAIN | COLUMN_CHECKED);
    }
    return status;
}

static int put_tuples(chunk_writer *w, const span *s, int level, void *detail)
{
    size_t arity = (size_t) * (const Py_ssize_t *)detail;
    if (put_head(w, TORSHI_COL_TUPLE, 0) < 0) {
        return ENC_ERROR;
    }
    return torshi_buf_uvar(&w->out, arity) ? put_items(w, s, arity, level + 1) : put_no_memory();
}

int encode_tuples(chunk_writer *w, const span *s, int level, unsigned flags)
{
    Py_ssize_t arity = PyTuple_GET_SIZE(span_at(s, 0));
    for (size_t i = 0; i < s->n && !(flags & COLUMN_SORTED); i++) {
        value_kind kind = classify(w, span_at(s, i), level, flags);
        if (kind.kind != KIND_TUPLE || (Py_ssize_t)kind.detail != arity) {
            return ENC_OTHER;
        }
    }
    if (arity == 0) { /* there is one empty tuple, and it is never memoized */
        w->bound += (int64_t)s->n;
        return put_tuples(w, s, level, &arity);
    }
    arena_mark mark = arena_here(&w->arena);
    int status = encode_by_identity(w, s, level, arity <= 3 ? 2 : 3, arity, put_tuples, &arity);
    arena_release(&w->arena, mark);
    return status;
}
