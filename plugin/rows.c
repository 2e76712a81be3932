/*
 * rows.c - the mutable objects of a chunk: who claims them, where they are on the roll, and what is
 * in them.
 */
#include "encode.h"

bool is_excluded(const chunk_writer *w, const PyObject *obj)
{
    for (size_t i = 0; i < w->excluded_count; i++) {
        if (w->excluded[i] == obj) {
            return true;
        }
    }
    return false;
}

int exclude(chunk_writer *w, PyObject *obj)
{
    if (w->excluded_count == w->excluded_room) {
        PyObject **grown = writer_grow(w->excluded, &w->excluded_room, sizeof(*w->excluded));
        if (!grown) {
            return ENC_ERROR;
        }
        w->excluded = grown;
    }
    w->excluded[w->excluded_count++] = obj;
    return ENC_AGAIN;
}

/* Claim obj, which has other owners, as a row or as the dict of one. */
static int claim_shared(chunk_writer *w, PyObject *obj, uint32_t serial)
{
    if (obj == w->target || is_excluded(w, obj)) {
        return 0;
    }
    seen_entry *e = seen_find(&w->seen, obj);
    if (!e) {
        return -1;
    }
    if (e->obj && e->column != NOT_MET) {
        return 0;
    }
    if (w->services->memo_find(w->dump, obj) != TORSHI_MEMO_ABSENT) {
        return 0;
    }
    if (e->obj) {
        e->column = serial;
    } else {
        seen_enter(&w->seen, e, obj, serial);
    }
    return 1;
}

int claim_row(chunk_writer *w, PyObject *obj)
{
    return Py_REFCNT(obj) == 1 ? 1 : claim_shared(w, obj, ROW_SERIAL);
}

/* The dict of an instance when somebody else may have it, too; borrowed, or NULL. */
static PyObject *shared_dict(chunk_writer *w, PyObject *obj, const type_entry *type)
{
    torshi_instance_view instance;
    PyObject *dict = NULL;
    if (!type->has_dict) {
        return NULL;
    }
    if (w->objects->instance_view(obj, &instance)) {
        dict = instance.dict;
    } else {
        dict = PyObject_GenericGetDict(obj, NULL); /* it stays with obj, as stock leaves it */
        if (!dict) {
            PyErr_Clear();
            return NULL;
        }
        Py_DECREF(dict);
    }
    return dict && Py_REFCNT(dict) > 1 ? dict : NULL;
}

int claim_instance(chunk_writer *w, PyObject *obj, const type_entry *type)
{
    int claimed = claim_row(w, obj);
    PyObject *dict = claimed == 1 ? shared_dict(w, obj, type) : NULL;
    if (!dict) {
        return claimed;
    }
    claimed = claim_shared(w, dict, STATE_SERIAL);
    if (claimed == 1) {
        w->shared_state = true; /* what is in it could be met twice */
        return 1;
    }
    unclaim_row(w, obj);
    const seen_entry *e = claimed == 0 && dict != w->target ? seen_find(&w->seen, dict) : NULL;
    if (claimed == 0 && (dict == w->target || (e && e->obj && e->column == ROW_SERIAL)) &&
        !is_excluded(w, dict)) {
        return exclude(w, dict);
    }
    return claimed;
}

void unclaim_row(chunk_writer *w, PyObject *obj)
{
    if (Py_REFCNT(obj) > 1) {
        seen_entry *e = seen_find(&w->seen, obj);
        if (e && e->obj && (e->column == ROW_SERIAL || e->column == STATE_SERIAL)) {
            e->column = NOT_MET;
        }
    }
}

void unclaim_state(chunk_writer *w, PyObject *obj, const type_entry *type)
{
    PyObject *dict = shared_dict(w, obj, type);
    if (dict) {
        unclaim_row(w, dict);
    }
}

int put_on_roll(chunk_writer *w, const span *s, const cells *c, int build, uint32_t *first)
{
    if (w->column_count == w->column_room) {
        rolled_column *grown = writer_grow(w->columns, &w->column_room, sizeof(*w->columns));
        if (!grown) {
            return ENC_ERROR;
        }
        w->columns = grown;
    }
    *first = w->rolled;
    w->columns[w->column_count++] = (rolled_column){w->rolled, (uint32_t)s->n, build, *s, *c};
    w->rolled += (uint32_t)s->n;
    return ENC_OK;
}

int external_number(chunk_writer *w, PyObject *callable, uint32_t *number)
{
    for (size_t i = 0; i < w->external_count; i++) {
        if (w->externals[i] == callable) {
            *number = (uint32_t)i;
            return ENC_OK;
        }
    }
    return add_external(w, callable, number);
}

int add_external(chunk_writer *w, PyObject *obj, uint32_t *number)
{
    if (w->external_count == w->external_room) {
        PyObject **grown = writer_grow(w->externals, &w->external_room, sizeof(*w->externals));
        if (!grown) {
            return ENC_ERROR;
        }
        w->externals = grown;
    }
    *number = (uint32_t)w->external_count;
    w->externals[w->external_count++] = obj;
    return ENC_OK;
}

cell_place find_place(const origin *from, uint32_t row)
{
    if (from->form == ORIGIN_FIELD) {
        return (cell_place){from->first + row, from->field, from->key, 0};
    }
    uint32_t low = 0, high = from->parents;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (from->ends[middle] <= row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    uint32_t position = low ? row - from->ends[low - 1] : row;
    return (cell_place){from->first + low, position,
                        from->form == ORIGIN_PAIR ? span_at(&from->keys, row) : NULL,
                        from->start + (Py_ssize_t)position};
}

PLUGIN_NOINLINE bool equal_names(PyObject *a, PyObject *b)
{
    return PyUnicode_CheckExact(a) && PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) &&
           PyUnicode_Compare(a, b) == 0;
}

/* ---- what is in a row ---------------------------------------------------------------------------
 */
int row_view(chunk_writer *w, PyObject *obj, const type_entry *type, torshi_dict_view *view)
{
    if (!type) {
        return w->objects->dict_view(obj, view) && view->used == view->count;
    }
    if (type->slots || !type->has_dict) {
        return 0;
    }
    torshi_instance_view instance;
    if (!w->objects->instance_view(obj, &instance)) {
        return 0;
    }
    if (instance.dict) {
        return w->objects->dict_view(instance.dict, view) && view->used == view->count;
    }
    *view = instance.view;
    return view->used == view->count;
}

static int dict_entries(chunk_writer *w, PyObject *dict, entries *out)
{
    size_t room = (size_t)PyDict_GET_SIZE(dict), n = 0;
    PyObject **k = arena_alloc(&w->arena, room, sizeof(*k));
    PyObject **v = arena_alloc(&w->arena, room, sizeof(*v));
    Py_ssize_t position = 0;
    if (!k || !v) {
        return ENC_ERROR;
    }
    while (n < room && PyDict_Next(dict, &position, &k[n], &v[n])) {
        n++;
    }
    *out = (entries){k, v, n, false};
    return ENC_OK;
}

static int view_entries(chunk_writer *w, const torshi_dict_view *view, entries *out)
{
    PyObject **k = arena_alloc(&w->arena, (size_t)view->count, sizeof(*k));
    PyObject **v = arena_alloc(&w->arena, (size_t)view->count, sizeof(*v));
    size_t n = 0;
    if (!k || !v) {
        return ENC_ERROR;
    }
    for (intptr_t i = 0; i < view->count; i++) {
        PyObject *value = view_value(view, (size_t)i);
        if (value) {
            k[n] = view_key(view, (size_t)i);
            v[n++] = value;
        }
    }
    *out = (entries){k, v, n, false};
    return ENC_OK;
}

/* The slots that are set. */
static int slot_entries(chunk_writer *w, PyObject *obj, const type_entry *type, entries *out)
{
    PyObject **k = arena_alloc(&w->arena, type->slots, sizeof(*k));
    PyObject **v = arena_alloc(&w->arena, type->slots, sizeof(*v));
    size_t n = 0;
    if (!k || !v) {
        return ENC_ERROR;
    }
    for (size_t i = 0; i < type->slots; i++) {
        PyObject *value = *(PyObject **)(void *)((char *)obj + type->offsets[i]);
        if (value) {
            k[n] = type->names[i];
            v[n++] = value;
        }
    }
    *out = (entries){k, v, n, true};
    return ENC_OK;
}

/* The attributes of an instance that are in its dict, or would be. */
static int attribute_entries(chunk_writer *w, PyObject *obj, entries *out)
{
    torshi_instance_view instance;
    if (w->objects->instance_view(obj, &instance)) {
        return !instance.dict                     ? view_entries(w, &instance.view, out)
               : PyDict_CheckExact(instance.dict) ? dict_entries(w, instance.dict, out)
                                                  : ENC_OTHER;
    }
    PyObject *dict = PyObject_GenericGetDict(obj, NULL); /* it stays with obj, as stock leaves it */
    if (!dict) {
        return ENC_ERROR;
    }
    int status = PyDict_CheckExact(dict) ? dict_entries(w, dict, out) : ENC_OTHER;
    Py_DECREF(dict);
    return status;
}

int row_entries(chunk_writer *w, PyObject *obj, const type_entry *type, entries *out)
{
    if (!type) {
        return dict_entries(w, obj, out);
    }
    *out = (entries){NULL, NULL, 0, false};
    if (type->has_dict) {
        int status = attribute_entries(w, obj, out);
        if (status != ENC_OK) {
            return status;
        }
        for (size_t i = 0; i < out->n; i++) {
            if (!PyUnicode_CheckExact(out->keys[i])) {
                return ENC_OTHER;
            }
        }
    }
    if (type->slots) {
        entries slots;
        int status = slot_entries(w, obj, type, &slots);
        if (status != ENC_OK || (slots.n && out->n)) { /* a state of both has no column */
            return status != ENC_OK ? status : ENC_OTHER;
        }
        if (slots.n) {
            *out = slots;
        }
    }
    return ENC_OK;
}
