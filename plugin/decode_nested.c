/*
 * decode_nested.c - columns whose rows are made of other columns' values: tuples, dicts, lists
 * and instances.
 */
#include "decode.h"

/* ---- tuples -------------------------------------------------------------------------------- */
int decode_TUPLE(decoder *d, const column *c)
{
    int status = -1;
    arena_mark mark = arena_here(&d->arena);
    size_t arity;
    if (!torshi_read_count(&d->cursor, 0, TORSHI_MAX_ARITY, &arity)) {
        goto done;
    }
    PyObject ***items = read_columns(d, c, arity, c->below);
    if (!items) {
        goto done;
    }
    for (size_t i = 0; i < c->n; i++) {
        PyObject *row = PyTuple_New((Py_ssize_t)arity);
        if (!row) {
            release_columns(items, arity, i, c->n);
            release_refs(c->out, i);
            goto done;
        }
        for (size_t f = 0; f < arity; f++) {
            PyTuple_SET_ITEM(row, (Py_ssize_t)f, items[f][i]);
        }
        c->out[i] = row;
    }
    status = 0;
done:
    arena_release(&d->arena, mark);
    return status;
}

/* ---- names --------------------------------------------------------------------------------- */
/*
 * A count of fields, the names' column and the fields' columns. On success *names holds `fields`
 * references and *columns is to be given away. 0 or -1.
 */
static int read_fields(decoder *d, const column *c, kind_set allowed, size_t *fields,
                       PyObject ***names, PyObject ****columns)
{
    if (!torshi_read_count(&d->cursor, 0, TORSHI_MAX_FIELDS, fields)) {
        return -1;
    }
    *names = NULL;
    if (*fields) {
        const uint8_t *at = d->cursor.pos;
        *names = read_column(d, *fields, c->depth + 1, allowed);
        if (!*names) {
            return -1;
        }
        /* Names are distinct when a dict has one place for each. */
        PyObject *distinct = PyDict_New();
        int status = distinct ? 0 : -1;
        hashing_begins(d);
        for (size_t f = 0; f < *fields && status == 0; f++) {
            status = PyDict_SetItem(distinct, (*names)[f], Py_None);
        }
        hashing_ends(d);
        if (status == 0 && (size_t)PyDict_GET_SIZE(distinct) != *fields) {
            torshi_fail_at(&d->cursor, TORSHI_E_NAMES, at);
            status = -1;
        }
        Py_XDECREF(distinct);
        if (status < 0) {
            release_refs(*names, *fields);
            return -1;
        }
    }
    *columns = read_columns(d, c, *fields, KINDS_ANY);
    if (!*columns) {
        release_refs(*names, *fields);
        return -1;
    }
    return 0;
}

/* ---- dicts and lists ----------------------------------------------------------------------- */
int decode_STRUCT(decoder *d, const column *c)
{
    int status = -1;
    arena_mark mark = arena_here(&d->arena);
    size_t at;
    size_t fields;
    PyObject **names;
    PyObject ***columns;
    if (roll_reserve(d, c->n, &at) < 0 ||
        read_fields(d, c, KINDS_KEY, &fields, &names, &columns) < 0) {
        goto done;
    }
    hashing_begins(d);
    status = d->objects->make_dicts(names, (intptr_t)fields, columns, (intptr_t)c->n, c->out);
    hashing_ends(d);
    release_refs(names, fields);
    if (status == 0) {
        roll_set(d, at, c->out, c->n);
    }
done:
    arena_release(&d->arena, mark);
    return status;
}

/* Lengths of rows, whose sum is the number of items. NULL on failure. */
static uint32_t *read_row_lens(decoder *d, const column *c, uint64_t *total)
{
    uint32_t *lens = arena_alloc(&d->arena, c->n, sizeof(*lens));
    if (!lens || !torshi_read_lens(&d->cursor, lens, c->n, c->width, total)) {
        return NULL;
    }
    return lens;
}

int decode_LIST(decoder *d, const column *c)
{
    int status = -1;
    arena_mark mark = arena_here(&d->arena);
    size_t at;
    uint64_t total;
    uint32_t *lens = read_row_lens(d, c, &total);
    if (!lens || roll_reserve(d, c->n, &at) < 0) {
        goto done;
    }
    PyObject **items = read_column(d, total, c->depth + 1, c->below);
    if (!items) {
        goto done;
    }
    size_t done = 0;
    for (size_t i = 0; i < c->n; i++) {
        c->out[i] = d->objects->make_list(items + done, lens[i]);
        done += lens[i];
        if (!c->out[i]) {
            release_refs(items + done, total - done);
            release_refs(c->out, i);
            goto done;
        }
    }
    roll_set(d, at, c->out, c->n);
    status = 0;
done:
    arena_release(&d->arena, mark);
    return status;
}

int decode_MAP(decoder *d, const column *c)
{
    int status = -1;
    arena_mark mark = arena_here(&d->arena);
    size_t at;
    uint64_t total;
    uint32_t *lens = read_row_lens(d, c, &total);
    if (!lens || roll_reserve(d, c->n, &at) < 0) {
        goto done;
    }
    PyObject **keys = read_column(d, total, c->depth + 1, KINDS_KEYS);
    if (!keys) {
        goto done;
    }
    PyObject **values = read_column(d, total, c->depth + 1, KINDS_ANY);
    if (!values) {
        release_refs(keys, total);
        goto done;
    }
    size_t done = 0;
    hashing_begins(d);
    for (size_t i = 0; i < c->n; i++) {
        PyObject *row = PyDict_New();
        if (row) {
            int filled = d->objects->fill_dict(row, keys + done, values + done, lens[i], 0);
            done += lens[i];
            if (filled < 0) {
                Py_CLEAR(row);
            }
        }
        if (!row) {
            release_refs(keys + done, total - done);
            hashing_ends(d);
            release_refs(values + done, total - done);
            release_refs(c->out, i);
            goto done;
        }
        c->out[i] = row;
    }
    hashing_ends(d);
    roll_set(d, at, c->out, c->n);
    status = 0;
done:
    arena_release(&d->arena, mark);
    return status;
}

/* ---- instances ----------------------------------------------------------------------------- */
/* What the type's own lookup finds; borrowed, NULL without an exception. */
static PyObject *find_on_type(PyTypeObject *type, const char *name)
{
    PyObject *interned = PyUnicode_InternFromString(name);
    PyObject *found = interned ? _PyType_Lookup(type, interned) : NULL;
    Py_XDECREF(interned);
    PyErr_Clear();
    return found;
}

bool is_quiet_class(PyObject *cls, PyObject *const *names, size_t fields, int slots)
{
    PyTypeObject *type = (PyTypeObject *)cls;
    if (!PyType_Check(cls) || type->tp_new != PyBaseObject_Type.tp_new ||
        type->tp_getattro != PyObject_GenericGetAttr ||
        type->tp_setattro != PyObject_GenericSetAttr || find_on_type(type, "__setstate__")) {
        return false;
    }
    if (!slots) {
        PyObject *dict = find_on_type(type, "__dict__");
        return dict && Py_IS_TYPE(dict, &PyGetSetDescr_Type);
    }
    for (size_t f = 0; f < fields; f++) {
        PyObject *slot = _PyType_Lookup(type, names[f]);
        if (!slot || !Py_IS_TYPE(slot, &PyMemberDescr_Type)) {
            PyErr_Clear();
            return false;
        }
    }
    return true;
}

/* INSTANCE, SLOTTED and BARE. 0 or -1. */
static int decode_instances(decoder *d, const column *c, int slots, int bare)
{
    int status = -1;
    arena_mark mark = arena_here(&d->arena);
    size_t at;
    size_t external;
    size_t fields = 0;
    PyObject **names = NULL;
    PyObject ***columns = NULL;
    if (!torshi_read_external(&d->cursor, d->external_count, &external) ||
        roll_reserve(d, c->n, &at) < 0 ||
        (!bare && read_fields(d, c, KINDS_NAME, &fields, &names, &columns) < 0)) {
        goto done;
    }
    for (size_t f = 0; f < fields; f++) {
        PyUnicode_InternInPlace(&names[f]);
    }
    bool quiet = is_quiet_class(d->externals[external], names, fields, slots);
    if (!quiet) {
        wake_collector(d);
    }
    status = d->objects->make_instances(d->externals[external], names, (intptr_t)fields, slots,
                                        bare, columns, (intptr_t)c->n, c->out);
    if (!quiet) {
        rest_collector(d);
    }
    release_refs(names, fields);
    if (status == 0) {
        roll_set(d, at, c->out, c->n);
    }
done:
    arena_release(&d->arena, mark);
    return status;
}

int decode_INSTANCE(decoder *d, const column *c)
{
    return decode_instances(d, c, 0, 0);
}

int decode_SLOTTED(decoder *d, const column *c)
{
    return decode_instances(d, c, 1, 0);
}

int decode_BARE(decoder *d, const column *c)
{
    return decode_instances(d, c, 0, 1);
}
