/*
 * encode_value.c - REDUCE columns of known value types: their parts read directly, a column for
 * each argument of the callable.
 */
#include "encode_int.h"
#include "types.h"

#define _PY_DATETIME_IMPL /* the structs and macros; its static pointer is not wanted */
#include <datetime.h>

/* A BYTES column whose values have `size` bytes each; *to is where they go. */
static int put_fixed_bytes(chunk_writer *w, size_t n, size_t size, uint8_t **to)
{
    int status = count_values(w, n);
    if (status != ENC_OK || put_head(w, TORSHI_COL_BYTES, 0) < 0) {
        return status != ENC_OK ? status : ENC_ERROR;
    }
    if (!torshi_buf_uvar(&w->out, size) || !torshi_buf_reserve(&w->out, n * size)) {
        return put_no_memory();
    }
    *to = w->out.data + w->out.len;
    w->out.len += n * size;
    w->bound += (int64_t)(n * (size + 3));
    return ENC_OK;
}

static int put_dates(chunk_writer *w, const span *s, int form)
{
    uint8_t *to;
    size_t size = form == TYPE_DATE   ? _PyDateTime_DATE_DATASIZE
                  : form == TYPE_TIME ? _PyDateTime_TIME_DATASIZE
                                      : _PyDateTime_DATETIME_DATASIZE;
    int status = put_fixed_bytes(w, s->n, size, &to);
    for (size_t i = 0; status == ENC_OK && i < s->n; i++, to += size) {
        PyObject *obj = span_at(s, i);
        if (form == TYPE_DATE) {
            memcpy(to, ((PyDateTime_Date *)obj)->data, _PyDateTime_DATE_DATASIZE);
        } else if (form == TYPE_TIME) { /* fold is the first bit of the first byte ... */
            memcpy(to, ((PyDateTime_Time *)obj)->data, _PyDateTime_TIME_DATASIZE);
            to[0] |= (uint8_t)(((PyDateTime_Time *)obj)->fold << 7);
        } else { /* ... and here of the third */
            memcpy(to, ((PyDateTime_DateTime *)obj)->data, _PyDateTime_DATETIME_DATASIZE);
            to[2] |= (uint8_t)(((PyDateTime_DateTime *)obj)->fold << 7);
        }
    }
    return status;
}

static int put_deltas(chunk_writer *w, const span *s)
{
    int status = ENC_OK;
    arena_mark mark = arena_here(&w->arena);
    int64_t *values = arena_alloc(&w->arena, s->n, sizeof(*values));
    if (!values) {
        return ENC_ERROR;
    }
    for (int part = 0; part < 3 && status == ENC_OK; part++) {
        int64_t min = INT64_MAX, max = INT64_MIN;
        for (size_t i = 0; i < s->n; i++) {
            const PyDateTime_Delta *delta = (const PyDateTime_Delta *)span_at(s, i);
            values[i] = part == 0 ? delta->days : part == 1 ? delta->seconds : delta->microseconds;
            min = values[i] < min ? values[i] : min;
            max = values[i] > max ? values[i] : max;
        }
        status = count_values(w, s->n);
        if (status == ENC_OK) {
            status = put_ints(w, values, s->n, min, max);
        }
    }
    arena_release(&w->arena, mark);
    return status;
}

static int put_uuids(chunk_writer *w, const span *s, const type_entry *type)
{
    uint8_t *to;
    int status = count_values(w, s->n);
    if (status != ENC_OK || put_head(w, TORSHI_COL_NONE, 0) < 0) {
        return status != ENC_OK ? status : ENC_ERROR;
    }
    w->bound += (int64_t)s->n;
    status = put_fixed_bytes(w, s->n, 16, &to);
    for (size_t i = 0; status == ENC_OK && i < s->n; i++) {
        uuid_bytes(span_at(s, i), type, to + 16 * i); /* classify() has seen that it can */
    }
    return status;
}

/* Decimals as their str(), which no one else has. */
static int put_decimals(chunk_writer *w, const span *s, int level)
{
    int status = ENC_ERROR;
    size_t n = 0;
    PyObject **texts = arena_alloc(&w->arena, s->n, sizeof(*texts));
    if (!texts) {
        return ENC_ERROR;
    }
    for (; n < s->n; n++) {
        texts[n] = PyObject_Str(span_at(s, n));
        if (!texts[n]) {
            goto done;
        }
    }
    const cells nowhere = {NULL, NULL};
    span column = span_of(texts, s->n);
    status = encode_column(w, &column, &nowhere, level, COLUMN_PLAIN | COLUMN_FRESH);
done:
    while (n) {
        Py_DECREF(texts[--n]);
    }
    return status;
}

/* Columns of objects that are there already: an Enum's value (offset 0), a Fraction's two ints. */
static int put_parts(chunk_writer *w, const span *s, type_entry *type, Py_ssize_t offset, int level)
{
    const cells nowhere = {NULL, NULL};
    PyObject **parts = arena_alloc(&w->arena, s->n, sizeof(*parts));
    if (!parts) {
        return ENC_ERROR;
    }
    for (size_t i = 0; i < s->n; i++) {
        parts[i] = offset ? part_at(span_at(s, i), offset) : enum_value(w, span_at(s, i), type);
    }
    span column = span_of(parts, s->n);
    return encode_column(w, &column, &nowhere, level, COLUMN_PLAIN);
}

/* The number of a time zone as an external. It is not searched for among those of the columns
   before, of which there may be many: one that is passed twice is written once all the same. */
static int zone_number(chunk_writer *w, PyObject *zone, uint32_t *number)
{
    seen_entry *e = seen_find(&w->seen, zone);
    if (!e) {
        return ENC_ERROR;
    }
    if (!e->obj) {
        uint32_t added;
        seen_enter(&w->seen, e, zone, TYPE_SERIAL);
        if (add_external(w, zone, &added) != ENC_OK) {
            return ENC_ERROR;
        }
        e->index = added;
        w->bound -= 2; /* the first is written here as there */
    }
    *number = e->index;
    return ENC_OK;
}

/* The time zones of dates. */
static int put_zones(chunk_writer *w, const span *s, const type_entry *type)
{
    uint32_t low = UINT32_MAX, high = 0;
    uint32_t *numbers = arena_alloc(&w->arena, s->n, sizeof(*numbers));
    PyObject *last = NULL;
    int status = numbers ? count_values(w, s->n) : ENC_ERROR;
    for (size_t i = 0; status == ENC_OK && i < s->n; i++) {
        PyObject *zone = zone_of(span_at(s, i), type);
        if (zone == last) {
            numbers[i] = numbers[i - 1];
            continue;
        }
        last = zone;
        status = zone_number(w, zone, &numbers[i]);
        low = numbers[i] < low ? numbers[i] : low;
        high = numbers[i] > high ? numbers[i] : high;
    }
    if (status != ENC_OK) {
        return status;
    }
    for (size_t i = 0; i < s->n; i++) {
        numbers[i] -= low;
    }
    int width = torshi_width_for(high - low);
    if (put_head(w, TORSHI_COL_EXTERNAL, width) < 0) {
        return ENC_ERROR;
    }
    w->bound += 2 * (int64_t)s->n;
    return torshi_buf_uvar(&w->out, low) && torshi_pack_u32(&w->out, numbers, s->n, width)
               ? ENC_OK
               : put_no_memory();
}

static int put_path_parts(chunk_writer *w, const span *s, const type_entry *type, int level)
{
    const cells nowhere = {NULL, NULL};
    int status = ENC_OK;
    PyObject **parts = arena_alloc(&w->arena, s->n, sizeof(*parts));
    if (!parts) {
        return ENC_ERROR;
    }
    for (size_t k = 0; k < type->arguments && status == ENC_OK; k++) {
        for (size_t i = 0; i < s->n; i++) {
            parts[i] = path_part(span_at(s, i), type, k);
        }
        span column = span_of(parts, s->n);
        status = encode_column(w, &column, &nowhere, level, COLUMN_PLAIN);
    }
    return status;
}

/* The class in each row, which makes no object, and the items. */
static int put_named(chunk_writer *w, const span *s, const type_entry *type, int level)
{
    uint32_t number;
    int status = count_values(w, s->n);
    if (status != ENC_OK) {
        return status;
    }
    if (external_number(w, (PyObject *)type->type, &number) != ENC_OK ||
        put_head(w, TORSHI_COL_EXTERNAL, 0) < 0) {
        return ENC_ERROR;
    }
    return torshi_buf_uvar(&w->out, number) ? put_items(w, s, type->arguments - 1, level)
                                            : put_no_memory();
}

static int put_arguments(chunk_writer *w, const span *s, type_entry *type, int level)
{
    switch (type->form) {
    case TYPE_TIMEDELTA:
        return put_deltas(w, s);
    case TYPE_DECIMAL:
        return put_decimals(w, s, level);
    case TYPE_UUID:
        return put_uuids(w, s, type);
    case TYPE_ENUM:
        return put_parts(w, s, type, 0, level);
    case TYPE_FRACTION: {
        int status = put_parts(w, s, type, type->first, level);
        return status == ENC_OK ? put_parts(w, s, type, type->second, level) : status;
    }
    case TYPE_PATH:
        return put_path_parts(w, s, type, level);
    case TYPE_NAMED:
        return put_named(w, s, type, level);
    default: {
        int status = put_dates(w, s, type->form);
        return status == ENC_OK && type->arguments == 2 ? put_zones(w, s, type) : status;
    }
    }
}

static int put_values(chunk_writer *w, const span *s, int level, void *detail)
{
    type_entry *type = detail;
    uint32_t number;
    PyObject *callable = type->form == TYPE_NAMED ? type->known : (PyObject *)type->type;
    if (external_number(w, callable, &number) != ENC_OK || put_head(w, TORSHI_COL_REDUCE, 0) < 0) {
        return ENC_ERROR;
    }
    if (!torshi_buf_uvar(&w->out, number) || !torshi_buf_uvar(&w->out, type->arguments)) {
        return put_no_memory();
    }
    return put_arguments(w, s, type, level + 1);
}

/* copyreg.__newobj__ as an external, which opcodes alone do not need: what it takes is taken off
   where it is new. */
static int name_newobj(chunk_writer *w, PyObject *callable)
{
    size_t before = w->external_count;
    uint32_t number;
    if (external_number(w, callable, &number) != ENC_OK) {
        return ENC_ERROR;
    }
    if (w->external_count > before) {
        int met = met_cost(w, callable);
        w->bound -= met ? met : 25; /* two names, STACK_GLOBAL, three times MEMOIZE */
    }
    return ENC_OK;
}

/* Objects remembered while a column is looked through: members of an Enum come again and again. */
#define LOOKED_AT 16

int encode_values(chunk_writer *w, const span *s, int level, unsigned flags, type_entry *type)
{
    if (!(flags & COLUMN_SORTED)) {
        PyObject *looked_at[LOOKED_AT] = {NULL};
        for (size_t i = 0; i < s->n; i++) {
            PyObject *obj = span_at(s, i);
            PyObject **place = &looked_at[((uintptr_t)obj >> 4 ^ (uintptr_t)obj >> 9) % LOOKED_AT];
            if (obj == *place) {
                continue;
            }
            value_kind kind = classify(w, obj, level, flags);
            if (kind.kind != KIND_VALUE || kind.detail != (uintptr_t)type) {
                return ENC_OTHER;
            }
            *place = obj;
        }
    }
    /* TUPLE1, MEMOIZE, REDUCE, MEMOIZE; GET of the callable: the first is written as it is here */
    w->bound -= 2;
    size_t least = 0;
    if (type->form == TYPE_NAMED) {
        least = 1; /* the class is no item of the tuple */
        if (name_newobj(w, type->known) != ENC_OK) {
            return ENC_ERROR;
        }
    }
    int cost = type->arguments > least ? 6 : 5; /* the empty tuple is not memoized */
    return encode_by_identity(w, s, level, cost, 1, put_values, type);
}
