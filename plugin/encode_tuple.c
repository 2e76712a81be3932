/*
 * encode_tuple.c - columns of tuples of plain values: a column for each item.
 *
 * A tuple that stands in several rows is written once, through a DICTIONARY by identity.
 */
#include "encode.h"

typedef struct tuples {
    size_t n;
    Py_ssize_t arity;
    size_t count;       /* different objects */
    uint32_t *indexes;  /* row -> number of the object; NULL: the same */
    PyObject **objects; /* the different ones; NULL: those of the span */
    int64_t again;      /* bytes of the rows whose object was met before */
    size_t fresh;       /* rows whose object was not */
    bool met;           /* one was met before this column */
} tuples;

/* Bytes of a tuple as opcodes without its items. */
static int64_t tuple_cost(Py_ssize_t arity)
{
    return arity == 0 ? 1 : arity <= 3 ? 2 : 3;
}

static int number_tuples(chunk_writer *w, const span *s, tuples *t)
{
    t->indexes = arena_alloc(&w->arena, t->n, sizeof(*t->indexes));
    t->objects = arena_alloc(&w->arena, t->n, sizeof(*t->objects));
    if (!t->indexes || !t->objects) {
        return ENC_ERROR;
    }
    for (size_t i = 0; i < t->n; i++) {
        PyObject *obj = span_at(s, i);
        seen_entry *e = NULL;
        if (Py_REFCNT(obj) > 1) {
            e = seen_find(&w->seen, obj);
            if (!e) {
                return ENC_ERROR;
            }
            if (e->obj && e->column == w->serial) {
                t->again += e->again;
                t->indexes[i] = e->index;
                continue;
            }
            int met = e->obj ? (int)e->again : met_cost(w, obj);
            if (!e->obj) {
                seen_enter(&w->seen, e, obj, w->serial);
            }
            e->column = w->serial;
            e->index = (uint32_t)t->count;
            e->again = met ? (uint32_t)met : t->count < 256 ? 2 : 5;
            if (met) {
                t->met = true;
                t->again += met;
            } else {
                t->fresh++;
            }
        } else {
            t->fresh++;
        }
        t->indexes[i] = (uint32_t)t->count;
        t->objects[t->count++] = obj;
    }
    return ENC_OK;
}

static int encode_items(chunk_writer *w, const tuples *t, const span *s, int level)
{
    if (put_head(w, TORSHI_COL_TUPLE, 0) < 0) {
        return ENC_ERROR;
    }
    if (!torshi_buf_uvar(&w->out, (uint64_t)t->arity)) {
        return put_no_memory();
    }
    arena_mark mark = arena_here(&w->arena);
    PyObject **items = arena_alloc(&w->arena, s->n, sizeof(*items));
    if (!items) {
        return ENC_ERROR;
    }
    const origin nowhere = {.form = ORIGIN_FIELD};
    const cells none = {&nowhere, NULL};
    int status = ENC_OK;
    for (Py_ssize_t k = 0; k < t->arity && status == ENC_OK; k++) {
        for (size_t i = 0; i < s->n; i++) {
            items[i] = PyTuple_GET_ITEM(span_at(s, i), k);
        }
        span column = span_of(items, s->n);
        status = encode_column(w, &column, &none, level + 1, COLUMN_PLAIN);
    }
    arena_release(&w->arena, mark);
    return status;
}

int encode_tuples(chunk_writer *w, const span *s, int level, unsigned flags)
{
    tuples t = {.n = s->n, .count = 0};
    size_t shared = 0;
    t.arity = PyTuple_GET_SIZE(span_at(s, 0));
    for (size_t i = 0; i < s->n; i++) {
        PyObject *obj = span_at(s, i);
        if (!(flags & COLUMN_SORTED)) {
            value_kind kind = classify(w, obj, level, flags);
            if (kind.kind != KIND_TUPLE || (Py_ssize_t)kind.detail != t.arity) {
                return ENC_OTHER;
            }
        }
        shared += Py_REFCNT(obj) > 1;
    }
    if (t.arity == 0) { /* there is one empty tuple, and it is never memoized */
        w->bound += (int64_t)t.n;
        return put_head(w, TORSHI_COL_TUPLE, 0) < 0 ? ENC_ERROR
               : torshi_buf_uvar(&w->out, 0)        ? ENC_OK
                                                    : put_no_memory();
    }
    int status = ENC_ERROR;
    arena_mark mark = arena_here(&w->arena);
    span objects = *s;
    t.fresh = t.n;
    w->serial++;
    if (shared) {
        t.fresh = 0;
        status = number_tuples(w, s, &t);
        if (status != ENC_OK) {
            goto done;
        }
        objects = span_of(t.objects, t.count);
    }
    int width = -1;
    if (objects.n < t.n) {
        width = torshi_width_for(objects.n - 1);
        w->values += objects.n;
        if (put_head(w, TORSHI_COL_DICTIONARY, width) < 0 || !torshi_buf_uvar(&w->out, objects.n)) {
            status = put_no_memory();
            goto done;
        }
        level++;
    }
    int64_t before = w->bound;
    status = encode_items(w, &t, &objects, level);
    if (t.met) { /* the items' bytes are not those of the fresh ones alone: count the least */
        w->bound = before + (int64_t)t.fresh * t.arity;
    }
    w->bound += (int64_t)t.fresh * tuple_cost(t.arity) + t.again;
    if (status == ENC_OK && width >= 0 && !torshi_pack_u32(&w->out, t.indexes, t.n, width)) {
        status = put_no_memory();
    }
done:
    arena_release(&w->arena, mark);
    return status;
}
