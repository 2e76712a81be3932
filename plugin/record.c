/*
 * record.c - from pending cells, noted column by column, to steps in the order of the object graph.
 */
#include "encode_ref.h"
#include "finish.h"

#include <stdlib.h>

static const rolled_column *find_column(const chunk_writer *w, uint32_t index)
{
    size_t low = 0, high = w->column_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (w->columns[middle].first <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &w->columns[low];
}

static int by_place(const void *a, const void *b)
{
    const chunk_step *x = a, *y = b;
    if (x->row != y->row) {
        return x->row < y->row ? -1 : 1;
    }
    if (x->position != y->position) {
        return x->position < y->position ? -1 : 1;
    }
    /* A key that is pending itself comes before its value. */
    return (y->key && y->key == y->value) - (x->key && x->key == x->value);
}

/* Steps under construction; `child` holds roll indexes until they are sorted. */
typedef struct step_list {
    chunk_step *items;
    size_t count, room;
} step_list;

static int add_step(const chunk_writer *w, step_list *steps, const cell_place *at, uint32_t child,
                    PyObject *value)
{
    if (steps->count == steps->room) {
        chunk_step *grown = writer_grow(steps->items, &steps->room, sizeof(*steps->items));
        if (!grown) {
            return -1;
        }
        steps->items = grown;
    }
    chunk_step *step = &steps->items[steps->count++];
    *step =
        (chunk_step){.row = at->row, .position = at->position, .child = child, .index = at->index};
    if (value) {
        step->key = Py_XNewRef(at->key);
        step->value = Py_NewRef(value);
        step->callable = Py_XNewRef(ref_reduction(w, value, &step->args));
        Py_XINCREF(step->args);
    }
    return 0;
}

/* A step for each pending cell, and for each row above one the step that leads down to it. */
static int collect_steps(chunk_writer *w, step_list *steps)
{
    uint8_t *linked = arena_alloc(&w->arena, (size_t)w->rolled / 8 + 1, 1);
    if (!linked) {
        return -1;
    }
    memset(linked, 0, (size_t)w->rolled / 8 + 1);
    for (size_t i = 0; i < w->pending_count; i++) {
        cell_place at = find_place(w->pending[i].from, w->pending[i].row);
        if (add_step(w, steps, &at, NO_CHILD, w->pending[i].value) < 0) {
            return -1;
        }
        uint32_t row = at.row;
        while (row && !(linked[row / 8] & 1u << row % 8)) {
            linked[row / 8] |= (uint8_t)(1u << row % 8);
            const rolled_column *c = find_column(w, row);
            at = find_place(c->where.from, cell_id(&c->where, row - c->first));
            if (add_step(w, steps, &at, row, NULL) < 0) {
                return -1;
            }
            row = at.row;
        }
    }
    return 0;
}

/* The rows of sorted steps. */
static int collect_rows(chunk_record *r, const chunk_writer *w, PyObject *target)
{
    size_t count = 0;
    for (size_t i = 0; i < r->step_count; i++) {
        count += i == 0 || r->steps[i].row != r->steps[i - 1].row;
    }
    r->rows = PyMem_Malloc(count * sizeof(*r->rows));
    if (!r->rows) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < r->step_count;) {
        uint32_t index = r->steps[i].row;
        chunk_row *row = &r->rows[r->row_count++];
        *row = (chunk_row){.obj = target, .roll_index = index, .next = i};
        if (index) {
            const rolled_column *c = find_column(w, index);
            row->obj = span_at(&c->objects, index - c->first);
            row->build = c->build;
        }
        Py_INCREF(row->obj);
        while (i < r->step_count && r->steps[i].row == index) {
            i++;
        }
        row->end = i;
    }
    return 0;
}

static void number_children(chunk_record *r)
{
    for (size_t i = 0; i < r->step_count; i++) {
        uint32_t index = r->steps[i].child;
        if (index == NO_CHILD) {
            continue;
        }
        size_t low = 0, high = r->row_count;
        while (high - low > 1) {
            size_t middle = low + (high - low) / 2;
            if (r->rows[middle].roll_index <= index) {
                low = middle;
            } else {
                high = middle;
            }
        }
        r->steps[i].child = (uint32_t)low;
    }
}

/* What was met and may be met again outside: it is marked in the memo, which keeps no reference. */
static int keep_met(chunk_record *r, const chunk_writer *w)
{
    const seen_set *seen = &w->seen;
    if (!seen->texts) {
        return 0;
    }
    r->kept = PyMem_Malloc(seen->texts * sizeof(*r->kept));
    if (!r->kept) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i <= seen->mask; i++) {
        const seen_entry *e = &seen->entries[i];
        if (e->obj && e->column < STATE_SERIAL && e->column != NOT_MET &&
            (size_t)Py_REFCNT(e->obj) > e->times) {
            r->kept[r->kept_count++] = Py_NewRef(e->obj);
        }
    }
    return 0;
}

static int keep_externals(chunk_record *r, const chunk_writer *w)
{
    if (!w->external_count) {
        return 0;
    }
    r->externals = PyMem_Malloc(w->external_count * sizeof(*r->externals));
    if (!r->externals) {
        PyErr_NoMemory();
        return -1;
    }
    for (; r->external_count < w->external_count; r->external_count++) {
        r->externals[r->external_count] = Py_NewRef(w->externals[r->external_count]);
    }
    return 0;
}

int record_new(chunk_writer *w, PyObject *target, int has_roll, chunk_record **out)
{
    step_list steps = {NULL, 0, 0};
    *out = NULL;
    if (!w->pending_count && !w->seen.texts && !has_roll) {
        return 0;
    }
    chunk_record *r = PyMem_Calloc(1, sizeof(*r));
    if (!r) {
        PyErr_NoMemory();
        return -1;
    }
    r->refs = 1;
    int status = w->pending_count ? collect_steps(w, &steps) : 0;
    r->steps = steps.items;
    r->step_count = steps.count;
    if (status == 0 && r->step_count) {
        qsort(r->steps, r->step_count, sizeof(*r->steps), by_place);
        status = collect_rows(r, w, target);
        if (status == 0) {
            number_children(r);
        }
    }
    if (status == 0) {
        status = keep_met(r, w);
    }
    if (status == 0) {
        status = keep_externals(r, w);
    }
    if (status == 0 && has_roll) {
        /* any object with an identity will do; this one is not the collector's business */
        r->roll = PyByteArray_FromStringAndSize(NULL, 0);
        status = r->roll ? 0 : -1;
    }
    if (status < 0) {
        record_release(r);
        return -1;
    }
    *out = r;
    return 0;
}

void record_release(void *record)
{
    chunk_record *r = record;
    if (--r->refs) {
        return;
    }
    for (size_t i = 0; i < r->step_count; i++) {
        Py_XDECREF(r->steps[i].key);
        Py_XDECREF(r->steps[i].value);
        Py_XDECREF(r->steps[i].callable);
        Py_XDECREF(r->steps[i].args);
    }
    for (size_t i = 0; i < r->row_count; i++) {
        Py_DECREF(r->rows[i].obj);
    }
    for (size_t i = 0; i < r->kept_count; i++) {
        Py_DECREF(r->kept[i]);
    }
    for (size_t i = 0; i < r->external_count; i++) {
        Py_DECREF(r->externals[i]);
    }
    Py_XDECREF(r->roll);
    PyMem_Free(r->rolled);
    PyMem_Free(r->externals);
    PyMem_Free(r->steps);
    PyMem_Free(r->rows);
    PyMem_Free(r->kept);
    PyMem_Free(r);
}
