/*
 * cost.c - when a chunk pays: "When it pays" in docs/format.md, rule by rule.
 */
#include "encode_int.h"
#include "encode_str.h"
#include "finish.h"

int met_cost(chunk_writer *w, PyObject *obj)
{
    int64_t number = w->services->memo_find(w->dump, obj);
    return number >= 0 ? (number < 256 ? 2 : 5) : number == TORSHI_MEMO_COLUMN ? 2 : 0;
}

int64_t key_cost(PyObject *key)
{
    if (PyUnicode_CheckExact(key) || PyBytes_CheckExact(key)) {
        return (int64_t)text_cost(key);
    }
    int64_t cost = 9; /* a float, an int of 64 bits less one */
    if (PyTuple_CheckExact(key)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
            cost += key_cost(PyTuple_GET_ITEM(key, i));
        }
    } else if (PyLong_CheckExact(key)) {
        int64_t v;
        cost = read_int64(key, &v) ? int_cost(v) : 8 + (int64_t)(_PyLong_NumBits(key) / 8);
    }
    return cost;
}

/* Containers of fewer rows are tried only when there is much below them. */
#define FEW_ROWS 8
/* The same for those whose values are of more than two types, None aside. */
#define SMALL_ROWS 16
/* What much is: so many values, looking down so many levels. */
#define MUCH 64
#define MUCH_LEVELS 10
/* Rows that are looked at to see whether all would be pending. */
#define FIRST_LOOK 16

static size_t count_container(const torshi_objects *objects, PyObject *obj, int levels);

/* Values in obj and in the dicts and lists below it, counted up to MUCH, so many levels down. */
static inline size_t count_below(const torshi_objects *objects, PyObject *obj, int levels)
{
    /* What most values are is told here: small dicts are asked about more often than anything. */
    return PyDict_CheckExact(obj) || PyList_CheckExact(obj) ? count_container(objects, obj, levels)
                                                            : 0;
}

/* Values of a dict of n entries and below, counted up to MUCH. */
static size_t count_dict(const torshi_objects *objects, PyObject *dict, size_t n, int levels)
{
    torshi_dict_view view;
    if (objects->dict_view(dict, &view)) {
        for (size_t i = 0; n < MUCH && i < (size_t)view.count; i++) {
            PyObject *value = view_value(&view, i);
            if (value) {
                n += count_below(objects, value, levels);
            }
        }
        return n;
    }
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (n < MUCH && PyDict_Next(dict, &position, &key, &value)) {
        n += count_below(objects, value, levels);
    }
    return n;
}

static size_t count_container(const torshi_objects *objects, PyObject *obj, int levels)
{
    size_t n;
    if (PyDict_CheckExact(obj)) {
        n = (size_t)PyDict_GET_SIZE(obj);
        if (n >= LONG_ROW) {
            return 1; /* it would be a chunk of its own */
        }
        return levels > 1 ? count_dict(objects, obj, n, levels - 1) : n;
    }
    Py_ssize_t items = PyList_GET_SIZE(obj);
    if (items >= LONG_ROW) {
        return 1;
    }
    n = (size_t)items;
    for (Py_ssize_t i = 0; i < items && n < MUCH && levels > 1; i++) {
        n += count_below(objects, PyList_GET_ITEM(obj, i), levels - 1);
    }
    return n;
}

static bool has_three_types(const span *values)
{
    PyTypeObject *types[2] = {NULL, NULL}, *last = NULL;
    for (size_t i = 0; i < values->n; i++) {
        PyTypeObject *type = Py_TYPE(span_at(values, i));
        if (type == last) {
            continue;
        }
        last = type;
        if (type == types[0] || type == types[1] || type == Py_TYPE(Py_None)) {
            continue;
        }
        if (types[1]) {
            return true;
        }
        types[types[0] != NULL] = type;
    }
    return false;
}

/* The same question for the values of a small container. */
static bool holds_three_types(const torshi_objects *objects, PyObject *target)
{
    PyObject *values[SMALL_ROWS], *key;
    torshi_dict_view view;
    Py_ssize_t position = 0;
    size_t n = 0;
    if (PyList_CheckExact(target)) {
        span all = span_of(PySequence_Fast_ITEMS(target), (size_t)PyList_GET_SIZE(target));
        return has_three_types(&all);
    }
    if (objects->dict_view(target, &view) && view.count == view.used && !view.values) {
        span all = {view.base + view.value_offset, view.stride, (size_t)view.count};
        return has_three_types(&all);
    }
    while (n < SMALL_ROWS && PyDict_Next(target, &position, &key, &values[n])) {
        n++;
    }
    span all = span_of(values, n);
    return has_three_types(&all);
}

bool too_small(const torshi_objects *objects, PyObject *target, Py_ssize_t n)
{
#ifdef TORSHI_ALWAYS_CHUNK
    return false;
#endif
    if (n >= SMALL_ROWS || (n >= FEW_ROWS && !holds_three_types(objects, target))) {
        return false;
    }
    return count_below(objects, target, MUCH_LEVELS) < MUCH;
}

bool worth_trying(chunk_writer *w, const span *values, bool large_enough)
{
    size_t n = values->n;
#ifdef TORSHI_ALWAYS_CHUNK /* a build for tests: what pays is another question */
    return n > 0;
#endif
    if (!large_enough && (n < FEW_ROWS || (n < SMALL_ROWS && has_three_types(values)))) {
        size_t below = n;
        for (size_t i = 0; i < n && below < MUCH; i++) {
            below += count_below(w->objects, span_at(values, i), MUCH_LEVELS - 1);
        }
        if (below < MUCH) {
            return false;
        }
    }
    if (n < SMALL_ROWS) { /* a small one that is not all plain does not pay */
        for (size_t i = 0; i < n; i++) {
            PyObject *obj = span_at(values, i);
            if (!(PyUnicode_CheckExact(obj) && PyUnicode_GET_LENGTH(obj) < LONG_TEXT) &&
                classify(w, obj, 1, 0).kind == KIND_PENDING) {
                return false;
            }
        }
        return true;
    }
    for (size_t i = 0; i < FIRST_LOOK; i++) {
        if (classify(w, span_at(values, i * n / FIRST_LOOK), 1, 0).kind != KIND_PENDING) {
            return true;
        }
    }
    return false;
}

/* What the first pending cell takes whose value is a row: chunk(roll, index) with the largest
   numbers and MEMOIZE, where opcodes alone would GET it. */
#define MET_AGAIN 16

#define ON_ROLL 1 /* index of a seen_entry of a row */
#define CHARGED 2

static int mark_rolled(chunk_writer *w)
{
    for (size_t i = 0; i < w->column_count; i++) {
        const span *objects = &w->columns[i].objects;
        for (size_t j = 0; j < objects->n; j++) {
            if (Py_REFCNT(span_at(objects, j)) > 1) {
                seen_entry *e = seen_find(&w->seen, span_at(objects, j));
                if (!e) {
                    return -1;
                }
                if (e->obj) {
                    e->index = ON_ROLL;
                }
            }
        }
    }
    return 0;
}

/*
 * What it takes to push the rows that are met again within their chunk; -1 when the dict of an
 * instance is, which would be written once more, with all that is in it, or (w->failed) without
 * memory. Asked when all columns are made: until then a claim may be taken back, and a row that was
 * claimed may still become pending itself.
 */
static int64_t count_met_again(chunk_writer *w)
{
    int64_t cost = 0;
    bool marked = false;
    for (size_t i = 0; i < w->pending_count; i++) {
        PyObject *value = w->pending[i].value;
        if (Py_REFCNT(value) == 1) {
            continue;
        }
        seen_entry *e = seen_find(&w->seen, value);
        if (e && e->obj && e->column == STATE_SERIAL) {
            return -1;
        }
        if (e && e->obj && e->column == ROW_SERIAL && !marked) {
            marked = true;
            if (mark_rolled(w) < 0) {
                e = NULL;
            }
        }
        if (!e) {
            w->failed = true;
            return -1;
        }
        if (e->obj && e->column == ROW_SERIAL && e->index == ON_ROLL) {
            e->index = CHARGED;
            cost += MET_AGAIN;
        }
    }
    return cost;
}

bool chunk_pays(chunk_writer *w, bool has_roll)
{
    int callable = met_cost(w, w->chunk);
    size_t size = w->out.len;
    int64_t cost = (int64_t)size + (callable ? callable : 17); /* STACK_GLOBAL, names, MEMOIZE */
    cost += size < 256 ? 2 : 5;                                /* SHORT_BINBYTES, BINBYTES */
    cost += size >= 65536 ? 18 : 0;                            /* two more frames */
    cost += has_roll ? 3 : 0;                                  /* MARK, EMPTY_LIST, MEMOIZE */
#ifdef TORSHI_ALWAYS_CHUNK
    return true;
#endif
    cost += 2 + w->extra;       /* TUPLE2 or TUPLE, REDUCE */
    if (cost >= w->bound + 2) { /* MARK, APPENDS or SETITEMS */
        return false;
    }
    int64_t again = w->pending_count ? count_met_again(w) : 0;
    return again >= 0 && cost + again < w->bound + 2;
}
