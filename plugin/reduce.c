/*
 * reduce.c - torshi._encode: the columns of a dict or list, outside of any dump.
 *
 * A reducer returns (torshi.chunk, (target, payload, ...), state, None, items), and what is not in
 * the payload has to be in `items`. So a payload holds immutable values alone ("flat"), or, where
 * the caller vouches that what is below belongs to the container, plain containers as well. Then it
 * must be all or nothing: items can only be set in the target itself.
 */
#include "reduce.h"

#include "encode_ref.h"
#include "finish.h"

/* Flat; nested where that can be; the same, each row below having a single owner. */
#define MODE_FLAT 0
#define MODE_NESTED 1
#define MODE_SINGLE 2

/* Columns that look worth trying and are shorter; that are shorter; or in any case. */
#define IF_WORTH 0
#define IF_SHORTER 1
#define ALWAYS 2

/* Dicts with fewer keys are often alike, and a pickler writes each key once: it is counted as if it
   had been met before. */
#define MANY_KEYS 64

/* A container on its way into payloads. */
typedef struct reduction {
    chunk_writer *w;
    PyObject *container; /* borrowed */
    bool is_dict;
    int mode;
    size_t n;
    span keys, values;   /* all entries; keys of a dict */
    PyObject **gathered; /* owned: what the spans are of where there are gaps in the dict */
    PyObject *payloads;  /* owned list */
    PyObject *items;     /* owned list: what is set later, pairs */
    PyObject *owned;     /* owned list: numbers of those items that nobody else has */
    int64_t cost, bound;
    int when;       /* IF_WORTH, IF_SHORTER, ALWAYS */
    int64_t margin; /* bytes by which columns must be shorter */
    bool has_roll;
} reduction;

static void reduction_clear(reduction *r)
{
    PyMem_Free(r->gathered);
    Py_CLEAR(r->payloads);
    Py_CLEAR(r->items);
    Py_CLEAR(r->owned);
}

static int gather_entries(reduction *r)
{
    PyObject *key, *value;
    Py_ssize_t position = 0;
    size_t i = 0, room = r->n;
    r->gathered = PyMem_Calloc(2 * room + 1, sizeof(PyObject *));
    if (!r->gathered) {
        PyErr_NoMemory();
        return -1;
    }
    while (i < room && PyDict_Next(r->container, &position, &key, &value)) {
        r->gathered[i] = key;
        r->gathered[room + i++] = value;
    }
    r->n = i;
    r->keys = span_of(r->gathered, i);
    r->values = span_of(r->gathered + room, i);
    return 0;
}

static int take_entries(reduction *r)
{
    torshi_dict_view view;
    if (!r->is_dict) {
        r->n = (size_t)PyList_GET_SIZE(r->container);
        r->values = span_of(r->n ? &PyList_GET_ITEM(r->container, 0) : NULL, r->n);
        return 0;
    }
    r->n = (size_t)PyDict_GET_SIZE(r->container);
    if (!r->w->objects->dict_view(r->container, &view) || view.used != view.count) {
        return gather_entries(r);
    }
    r->keys = (span){view.base + view.key_offset, view.stride, r->n};
    r->values = view.values ? (span){(const unsigned char *)view.values, sizeof(PyObject *), r->n}
                            : (span){view.base + view.value_offset, view.stride, r->n};
    return 0;
}

/* Some of the rows. */
static span part_of(const span *s, size_t start, size_t rows)
{
    return (span){s->base + start * s->stride, s->stride, rows};
}

/* ---- what is set later --------------------------------------------------------------------------
 */
static int64_t index_cost(size_t index)
{
    return index <= 0xff ? 2 : index <= 0xffff ? 3 : 5;
}

static int add_item(reduction *r, size_t row)
{
    PyObject *value = span_at(&r->values, row), *number = NULL;
    PyObject *key = r->is_dict ? Py_NewRef(span_at(&r->keys, row)) : PyLong_FromSize_t(row);
    PyObject *pair = key ? PyTuple_Pack(2, key, value) : NULL;
    int status = pair ? PyList_Append(r->items, pair) : -1;
    /* the pair and the container have it */
    if (status == 0 && (PyDict_CheckExact(value) || PyList_CheckExact(value)) &&
        Py_REFCNT(value) == 2) {
        number = PyLong_FromSsize_t(PyList_GET_SIZE(r->items) - 1);
        status = number ? PyList_Append(r->owned, number) : -1;
    }
    Py_XDECREF(number);
    Py_XDECREF(pair);
    Py_XDECREF(key);
    return status;
}

/* None in the place of whatever is not plain. ENC_OK or ENC_ERROR. */
static int take_plain_values(reduction *r, span *values)
{
    chunk_writer *w = r->w;
    PyObject **plain;
    size_t i = 0;
    while (i < values->n && is_plain_value(w, span_at(values, i), 1)) {
        i++;
    }
    if (i == values->n) {
        return ENC_OK;
    }
    plain = arena_alloc(&w->arena, values->n, sizeof(*plain));
    if (!plain) {
        return ENC_ERROR;
    }
    for (i = 0; i < values->n; i++) {
        PyObject *value = span_at(values, i);
        plain[i] = is_plain_value(w, value, 1) ? value : Py_None;
    }
    *values = span_of(plain, values->n);
    return w->failed ? ENC_ERROR : ENC_OK;
}

/* The items of a flat block. */
static int add_plain_items(reduction *r, size_t start, const span *values)
{
    if (values->base == part_of(&r->values, start, 0).base) {
        return ENC_OK;
    }
    for (size_t i = 0; i < values->n; i++) {
        if (span_at(values, i) == span_at(&r->values, start + i)) {
            continue;
        }
        r->w->bound--; /* its None stands for nothing */
        r->w->extra += r->is_dict ? key_cost(span_at(&r->keys, start + i)) : index_cost(start + i);
        if (add_item(r, start + i) < 0) {
            return ENC_ERROR;
        }
    }
    return ENC_OK;
}

static bool has_shared_rows(const chunk_writer *w)
{
    for (size_t i = 0; w->seen.used && i <= w->seen.mask; i++) {
        if (w->seen.entries[i].obj && w->seen.entries[i].column >= STATE_SERIAL &&
            w->seen.entries[i].column != TYPE_SERIAL) {
            return true;
        }
    }
    return false;
}

/* An item for each pending cell of a block, which must be the target's own: in a flat one, values
   of more kinds than a column takes. What is shared by rows and perhaps by what is set later, or by
   another block, cannot be told apart: decline. */
static int add_pending_items(reduction *r, size_t start, size_t rows, const span *values)
{
    chunk_writer *w = r->w;
    if ((w->pending_count || rows < r->n || r->mode == MODE_SINGLE) && has_shared_rows(w)) {
        return ENC_DECLINE;
    }
    for (size_t i = 0; i < w->pending_count; i++) {
        if (w->pending[i].from->first != 0 ||
            find_place(w->pending[i].from, w->pending[i].row).row) {
            return ENC_DECLINE;
        }
    }
    for (size_t i = 0; i < w->pending_count; i++) {
        uint32_t row = w->pending[i].row;
        /* the None of a flat block has its item already */
        if (span_at(values, row) == span_at(&r->values, start + row) &&
            add_item(r, start + row) < 0) {
            return ENC_ERROR;
        }
    }
    return ENC_OK;
}

/* ---- blocks -------------------------------------------------------------------------------------
 */
static int encode_block(reduction *r, size_t start, size_t rows)
{
    chunk_writer *w = r->w;
    size_t following = r->n - start - rows;
    span keys = {NULL, 0, rows}, values = part_of(&r->values, start, rows);
    uint32_t ends[1] = {(uint32_t)rows};
    origin from = {.form = r->is_dict ? ORIGIN_PAIR : ORIGIN_ITEM,
                   .parents = 1,
                   .ends = ends,
                   .start = (Py_ssize_t)start};
    cells where = {&from, NULL};
    w->target = r->container;
    if (r->mode == MODE_FLAT && take_plain_values(r, &values) != ENC_OK) {
        return ENC_ERROR;
    }
    if (!torshi_buf_uvar(&w->out, (uint64_t)rows << 1 | (following != 0)) ||
        (following && !torshi_buf_uvar(&w->out, following))) {
        return put_no_memory();
    }
    int status = ENC_OK;
    if (r->is_dict) {
        keys = part_of(&r->keys, start, rows);
        from.keys = keys;
        if (!keys_are_plain(w, &keys, 1)) {
            return w->failed ? ENC_ERROR : ENC_DECLINE;
        }
        status = encode_column(w, &keys, &where, 1, COLUMN_PLAIN | COLUMN_DISTINCT);
        if (r->n < MANY_KEYS && w->bound > 2 * (int64_t)rows) {
            w->bound = 2 * (int64_t)rows;
        }
    }
    if (status == ENC_OK) {
        status = encode_column(w, &values, &where, 1, 0);
    }
    if (w->failed) {
        status = ENC_ERROR;
    }
    if (status == ENC_OK && r->mode == MODE_FLAT) {
        status = add_plain_items(r, start, &values);
    }
    return status == ENC_OK ? add_pending_items(r, start, rows, &values) : status;
}

/* Append the payload that w holds. */
static int take_payload(reduction *r)
{
    chunk_writer *w = r->w;
    size_t size = w->out.len;
    PyObject *payload = PyBytes_FromStringAndSize((const char *)w->out.data, (Py_ssize_t)size);
    int status = payload ? PyList_Append(r->payloads, payload) : -1;
    Py_XDECREF(payload);
    r->cost += (int64_t)size + (size < 256 ? 2 : 5) + (size >= 65536 ? 18 : 0) + w->extra;
    r->bound += w->bound;
    r->has_roll |= needs_roll(w);
    return status == 0 ? ENC_OK : ENC_ERROR;
}

static int encode_blocks(reduction *r)
{
    chunk_writer *w = r->w;
    size_t block = TORSHI_MAX_ROWS, rows;
    for (size_t start = 0; start < r->n; start += rows) {
        size_t externals = w->external_count; /* they are common to all payloads */
        int status;
        for (;;) {
            rows = r->n - start < block ? r->n - start : block;
            writer_reset(w);
            w->external_count = externals;
            status = encode_block(r, start, rows);
            if (status == ENC_AGAIN) {
                continue;
            }
            if (status != ENC_LIMIT || rows == 1) {
                break;
            }
            block = rows / 2 + rows % 2;
        }
        if (status != ENC_OK) {
            return status == ENC_LIMIT ? ENC_DECLINE : status;
        }
        if (take_payload(r) != ENC_OK) {
            return ENC_ERROR;
        }
    }
    return ENC_OK;
}

static bool reduction_pays(const reduction *r)
{
    /* STACK_GLOBAL with its names and MEMOIZE; MARK, EMPTY_LIST, MEMOIZE; TUPLE, REDUCE */
    int64_t cost = r->cost + r->margin + 17 + (r->has_roll ? 3 : 0) + 2;
    size_t items = (size_t)PyList_GET_SIZE(r->items);
    cost += items > 1 ? 2 : (int64_t)items;
    return cost < r->bound + 2;
}

/* One attempt. ENC_OK, ENC_DECLINE (or: it does not pay) or ENC_ERROR. */
static int attempt(reduction *r, int mode)
{
    chunk_writer *w = r->w;
    r->mode = mode;
    r->cost = r->bound = 0;
    r->has_roll = false;
    Py_XSETREF(r->payloads, PyList_New(0));
    Py_XSETREF(r->items, PyList_New(0));
    Py_XSETREF(r->owned, PyList_New(0));
    if (!r->payloads || !r->items || !r->owned) {
        return ENC_ERROR;
    }
    writer_reset(w);
    bool worth = r->when != IF_WORTH || worth_trying(w, &r->values, false);
    if (w->failed) { /* which the blocks would forget */
        return ENC_ERROR;
    }
    if (!worth) {
        return ENC_DECLINE;
    }
    int status = encode_blocks(r);
    return status == ENC_OK && r->when != ALWAYS && !reduction_pays(r) ? ENC_DECLINE : status;
}

/* (tail, items, owned): the arguments of torshi.chunk from the payload on. */
static PyObject *make_result(const reduction *r)
{
    size_t externals = r->has_roll ? r->w->external_count : 0;
    PyObject *result = NULL, *roll = NULL;
    PyObject *tail = PyTuple_New(r->has_roll ? 2 + (Py_ssize_t)externals : 1);
    PyObject *payload = PyList_GET_SIZE(r->payloads) == 1
                            ? Py_NewRef(PyList_GET_ITEM(r->payloads, 0))
                            : PyList_AsTuple(r->payloads);
    if (!tail || !payload) {
        Py_XDECREF(payload);
        goto done;
    }
    PyTuple_SET_ITEM(tail, 0, payload);
    if (r->has_roll) {
        roll = PyList_New(0);
        if (!roll) {
            goto done;
        }
        PyTuple_SET_ITEM(tail, 1, roll);
        for (size_t i = 0; i < externals; i++) {
            PyTuple_SET_ITEM(tail, 2 + (Py_ssize_t)i, Py_NewRef(r->w->externals[i]));
        }
    }
    result = PyTuple_Pack(3, tail, r->items, r->owned);
done:
    Py_XDECREF(tail);
    return result;
}

static PyObject *reduce_container(plugin_state *plugin, PyObject *container, int mode, int when,
                                  int64_t margin)
{
    PyObject *result = NULL;
    quiet_services quiet = {.dispatch_table = NULL};
    reduction r = {
        .container = container, .is_dict = PyDict_Check(container), .when = when, .margin = margin};
    const torshi_services *engine = plugin->services;
    if (quiet_services_init(&quiet, engine) < 0) {
        return NULL;
    }
    plugin->services = &quiet.services;
    r.w = writer_take(plugin, (torshi_dump *)(void *)&quiet);
    plugin->services = engine;
    if (!r.w) {
        goto done;
    }
    r.w->services = &quiet.services;
    int status = take_entries(&r) < 0 ? ENC_ERROR : ENC_DECLINE;
    if (status != ENC_ERROR && mode != MODE_FLAT) {
        status = attempt(&r, mode);
    }
    if (status == ENC_DECLINE) {
        status = attempt(&r, MODE_FLAT);
    }
    if (status == ENC_OK) {
        result = make_result(&r);
    } else if (status == ENC_DECLINE) {
        result = Py_NewRef(Py_None);
    }
    r.w->services = engine;
    writer_release(r.w);
done:
    reduction_clear(&r);
    quiet_services_clear(&quiet);
    if (!result && !PyErr_Occurred()) { /* a look into a type found no memory, and said no */
        PyErr_NoMemory();
    }
    return result;
}

PyObject *encode_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    long numbers[3];
    if (nargs != 4 || kwnames || (!PyDict_Check(args[0]) && !PyList_Check(args[0]))) {
        PyErr_SetString(PyExc_TypeError, "_encode() takes a dict or list and three numbers");
        return NULL;
    }
    for (int i = 0; i < 3; i++) {
        numbers[i] = PyLong_AsLong(args[i + 1]);
        if (numbers[i] == -1 && PyErr_Occurred()) {
            return NULL;
        }
    }
    if (numbers[0] < MODE_FLAT || numbers[0] > MODE_SINGLE || numbers[1] < IF_WORTH ||
        numbers[1] > ALWAYS) {
        PyErr_SetString(PyExc_ValueError, "_encode(): unknown mode");
        return NULL;
    }
#if PY_VERSION_HEX < 0x030C0000
    int resting = PyGC_Disable(); /* a collection would run finalisers in the middle of the scan */
#endif
    PyObject *result =
        reduce_container(plugin, args[0], (int)numbers[0], (int)numbers[1], numbers[2]);
#if PY_VERSION_HEX < 0x030C0000
    if (resting) {
        PyGC_Enable();
    }
#endif
    return result;
}
