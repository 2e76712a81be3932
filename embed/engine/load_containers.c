/*
 * load_containers.c - opcodes that make and fill lists, tuples, dicts and sets.
 */
#include "load.h"

#include "internals.h"

/* How many pairs picklers put into one SETITEMS where more follow. */
#define FULL_BATCH 1000

/* A tuple of items..top, which leave the stack; NULL on failure. */
static PyObject *tuple_of(torshi_load *load, PyObject **items)
{
    Py_ssize_t n = load->top - items;
    PyObject *tuple = PyTuple_New(n);
    if (tuple != NULL) {
        for (Py_ssize_t i = 0; i < n; i++) {
            PyTuple_SET_ITEM(tuple, i, items[i]);
        }
        load->top = items;
    }
    return tuple;
}

/* ---- making ---------------------------------------------------------------------------------- */

int load_EMPTY_TUPLE(torshi_load *load)
{
    return stack_push(load, PyTuple_New(0));
}

static int make_tuple(torshi_load *load, Py_ssize_t n)
{
    if (load->top - load->fence < n) {
        return stack_underflow(load);
    }
    return stack_push(load, tuple_of(load, load->top - n));
}

int load_TUPLE1(torshi_load *load)
{
    return make_tuple(load, 1);
}

int load_TUPLE2(torshi_load *load)
{
    return make_tuple(load, 2);
}

int load_TUPLE3(torshi_load *load)
{
    return make_tuple(load, 3);
}

int load_TUPLE(torshi_load *load)
{
    PyObject **items = mark_pop(load);
    return items == NULL ? -1 : stack_push(load, tuple_of(load, items));
}

int load_EMPTY_LIST(torshi_load *load)
{
    return stack_push(load, PyList_New(0));
}

/* A list of items..top, which leave the stack; NULL on failure. */
static PyObject *list_of(torshi_load *load, PyObject **items)
{
    Py_ssize_t n = load->top - items;
    PyObject *list = PyList_New(n);
    if (list != NULL) {
        for (Py_ssize_t i = 0; i < n; i++) {
            PyList_SET_ITEM(list, i, items[i]);
        }
        load->top = items;
    }
    return list;
}

int load_LIST(torshi_load *load)
{
    PyObject **items = mark_pop(load);
    return items == NULL ? -1 : stack_push(load, list_of(load, items));
}

int load_EMPTY_DICT(torshi_load *load)
{
    return stack_push(load, PyDict_New());
}

int load_DICT(torshi_load *load)
{
    PyObject **items = mark_pop(load);
    if (items == NULL) {
        return -1;
    }
    PyObject *dict = PyDict_New();
    if (dict == NULL) {
        return -1;
    }
    if ((load->top - items) % 2 != 0) {
        PyErr_SetString(load->st->UnpicklingError, "odd number of items for DICT");
        Py_DECREF(dict);
        return -1;
    }
    if (dict_fill(load, dict, items) < 0) {
        Py_DECREF(dict);
        return -1;
    }
    return stack_push(load, dict);
}

int load_EMPTY_SET(torshi_load *load)
{
    return stack_push(load, PySet_New(NULL));
}

int load_FROZENSET(torshi_load *load)
{
    PyObject **items = mark_pop(load);
    if (items == NULL) {
        return -1;
    }
    PyObject *tuple = tuple_of(load, items);
    if (tuple == NULL) {
        return -1;
    }
    user_code_begins(load);
    PyObject *set = PyFrozenSet_New(tuple);
    Py_DECREF(tuple);
    user_code_ended(load);
    return stack_push(load, set);
}

/* ---- filling --------------------------------------------------------------------------------- */

/* The container of a filling opcode must lie right below `items`. */
static inline int check_container(torshi_load *load, PyObject **items)
{
    return items > load->fence ? 0 : stack_underflow(load);
}

/* The list has no extend(): append one by one. */
static int append_each(torshi_load *load, PyObject *list, PyObject **items)
{
    PyObject *append = PyObject_GetAttr(list, load->st->str_append);
    if (append == NULL) {
        return -1;
    }
    int status = 0;
    Py_ssize_t at = items - load->stack;
    Py_ssize_t n = load->top - items;
    for (Py_ssize_t i = 0; i < n && status == 0; i++) {
        PyObject *result = PyObject_CallOneArg(append, load->stack[at + i]);
        if (result == NULL) {
            status = -1;
        }
        Py_XDECREF(result);
    }
    Py_DECREF(append);
    stack_cut(load, load->stack + at);
    return status;
}

/* extend() of something that is no exact list. */
static int extend_other(torshi_load *load, PyObject *list, PyObject **items)
{
    PyObject *extend;
    if (lookup_attribute(list, load->st->str_extend, &extend) < 0) {
        return -1;
    }
    if (extend == NULL) {
        return append_each(load, list, items);
    }
    int status = -1;
    PyObject *slice = list_of(load, items);
    if (slice != NULL) {
        PyObject *result = PyObject_CallOneArg(extend, slice);
        Py_DECREF(slice);
        status = result == NULL ? -1 : 0;
        Py_XDECREF(result);
    }
    Py_DECREF(extend);
    return status;
}

static int extend(torshi_load *load, PyObject **items)
{
    if (check_container(load, items) < 0) {
        return -1;
    }
    Py_ssize_t n = load->top - items;
    if (n == 0) {
        return 0;
    }
    PyObject *list = items[-1];
    if (PyList_CheckExact(list)) {
        load->top = items; /* the values are given away, whatever comes of it */
        return internals_objects(load->st->internals)->fill_list(list, items, n, 0);
    }
    user_code_begins(load);
    int status = extend_other(load, list, items);
    user_code_ended(load);
    return status;
}

int load_APPENDS(torshi_load *load)
{
    PyObject **items = mark_pop(load);
    return items == NULL ? -1 : extend(load, items);
}

int load_APPEND(torshi_load *load)
{
    if (load->top - load->fence < 2) {
        return stack_underflow(load);
    }
    PyObject **item = load->top - 1;
    if (!PyList_CheckExact(item[-1])) {
        return extend(load, item);
    }
    if (PyList_Append(item[-1], item[0]) < 0) {
        return -1;
    }
    load->top = item;
    Py_DECREF(item[0]);
    return 0;
}

/* Skip one SETITEMS batch of plain values: where it ends, with its pairs in *pairs; NULL when there
   is none here, or not all of it in the buffer. Comparisons rather than a table of sizes: the
   processor runs ahead of them. */
static const unsigned char *skip_batch(const unsigned char *p, const unsigned char *end,
                                       Py_ssize_t *pairs)
{
    Py_ssize_t values = 0;
    if (p == end || *p++ != OP_MARK) {
        return NULL;
    }
    while (end - p > 9) {
        unsigned char byte = *p;
        size_t size;
        if (byte == OP_BININT) {
            size = 5;
        } else if (byte == OP_BININT2) {
            size = 3;
        } else if (byte == OP_BININT1 || byte == OP_BINGET) {
            size = 2;
        } else if (byte == OP_SHORT_BINUNICODE || byte == OP_SHORT_BINBYTES || byte == OP_LONG1) {
            size = 2 + (size_t)p[1];
        } else if (byte == OP_BINFLOAT) {
            size = 9;
        } else if (byte == OP_NONE || byte == OP_NEWTRUE || byte == OP_NEWFALSE) {
            size = 1;
        } else if (byte == OP_BINUNICODE || byte == OP_BINBYTES) {
            size = 5 + (size_t)le32(p + 1);
        } else if (byte == OP_LONG_BINGET) {
            size = 5;
        } else if (byte == OP_FRAME) {
            p += 9;
            continue;
        } else if (byte == OP_SETITEMS) {
            *pairs = values / 2;
            return p + 1;
        } else {
            return NULL;
        }
        if (size >= (size_t)(end - p)) {
            return NULL;
        }
        p += size;
        p += *p == OP_MEMOIZE ? 1 : *p == OP_BINPUT ? 2 : *p == OP_LONG_BINPUT ? 5 : 0;
        values++;
    }
    return NULL;
}

/* What is counted ahead at most, and how many times that much is then believed of the rest. */
#define COUNTED_BATCHES 16
#define BELIEVED 64
#define SAMPLE_WITHIN (64 * 1024)

/* The bytes of a full batch that lies in the middle of what is left; 0 when none is found. */
static Py_ssize_t sample_batch(const unsigned char *p, const unsigned char *end)
{
    const unsigned char *next;
    Py_ssize_t pairs;
    p += (end - p) / 2;
    if (end - p > SAMPLE_WITHIN) {
        end = p + SAMPLE_WITHIN;
    }
    while ((p = memchr(p, OP_SETITEMS, (size_t)(end - p))) != NULL) {
        p++;
        next = skip_batch(p, end, &pairs);
        if (next != NULL && pairs == FULL_BATCH) {
            return next - p;
        }
    }
    return 0;
}

/* How many pairs will follow for the dict that gets its first ones now. They are counted, not
   guessed, as long as they are plain values in the buffer. All that comes is for the dict at the
   bottom of the stack: there counting stops early, and the rest is taken to be like what was seen
   and like a sample further on. (A table of the final size made the dict of a million ints 1.5
   times as fast; counting all of it took back a tenth.) */
static Py_ssize_t pairs_to_come(const torshi_load *load, PyObject *dict, PyObject **items)
{
    const unsigned char *p = load->pos, *end = load->end, *next;
    Py_ssize_t counted = 0, pairs;
    int bottom = load->read == NULL && items == load->stack + 1 && items[-1] == dict;
    for (int i = 0; i < COUNTED_BATCHES; i++) {
        next = skip_batch(p, end, &pairs);
        if (next == NULL) {
            return counted;
        }
        p = next;
        counted += pairs;
        if (bottom && counted >= FULL_BATCH && (end - p) / (p - load->pos) < BELIEVED) {
            break;
        }
    }
    if (!bottom || counted < FULL_BATCH || p == end || *p != OP_MARK) {
        return counted;
    }
    Py_ssize_t batch = (p - load->pos) / (counted / FULL_BATCH);
    Py_ssize_t sample = sample_batch(p, end);
    if (batch < sample) {
        batch = sample;
    }
    Py_ssize_t rest = (end - p) / batch;
    rest = rest < BELIEVED * (counted / FULL_BATCH) ? rest : BELIEVED * (counted / FULL_BATCH);
    return counted + rest * FULL_BATCH;
}

int dict_fill(torshi_load *load, PyObject *dict, PyObject **items)
{
    Py_ssize_t n = (load->top - items) / 2, done = 0;
    int status = 0;
    int direct = load->st->internals && n > 1;
    if (direct && n >= FULL_BATCH && PyDict_GET_SIZE(dict) == 0) {
        Py_ssize_t more = pairs_to_come(load, dict, items);
        if (more > 0) {
            (void)internals_presize(dict, items[0], n + more); /* else it just grows */
        }
    }
    while (done < n && status == 0) {
        if (direct) {
            done += internals_fill_some(dict, items + 2 * done, n - done, 0);
            if (done == n) {
                break;
            }
        }
        PyObject *key = items[2 * done], *value = items[2 * done + 1];
        done++;
        user_code_begins(load);
        status = PyDict_SetItem(dict, key, value);
        Py_DECREF(key);
        Py_DECREF(value);
        user_code_ended(load);
    }
    /* Up to here they belong to the dict; on failure there are more. */
    for (Py_ssize_t i = 2 * done; i < 2 * n; i++) {
        Py_DECREF(items[i]);
    }
    load->top = items;
    return status;
}

static int set_items(torshi_load *load, PyObject **items)
{
    if (check_container(load, items) < 0) {
        return -1;
    }
    Py_ssize_t n = load->top - items;
    if (n == 0) {
        return 0;
    }
    if (n % 2 != 0) {
        PyErr_SetString(load->st->UnpicklingError, "odd number of items for SETITEMS");
        return -1;
    }
    PyObject *dict = items[-1];
    if (PyDict_CheckExact(dict)) {
        return dict_fill(load, dict, items);
    }
    int status = 0;
    Py_ssize_t at = items - load->stack;
    user_code_begins(load);
    for (Py_ssize_t i = 0; i < n; i += 2) {
        if (PyObject_SetItem(dict, load->stack[at + i], load->stack[at + i + 1]) < 0) {
            status = -1;
            break;
        }
    }
    stack_cut(load, load->stack + at);
    user_code_ended(load);
    return status;
}

int load_SETITEMS(torshi_load *load)
{
    PyObject **items = mark_pop(load);
    return items == NULL ? -1 : set_items(load, items);
}

int load_SETITEM(torshi_load *load)
{
    if (load->top - load->fence < 2) {
        return stack_underflow(load);
    }
    return set_items(load, load->top - 2);
}

int load_ADDITEMS(torshi_load *load)
{
    PyObject **items = mark_pop(load);
    if (items == NULL || check_container(load, items) < 0) {
        return -1;
    }
    Py_ssize_t n = load->top - items;
    if (n == 0) {
        return 0;
    }
    PyObject *set = items[-1];
    int exact = PySet_Check(set);
    int status = 0;
    Py_ssize_t at = items - load->stack;
    user_code_begins(load);
    PyObject *add = exact ? NULL : PyObject_GetAttr(set, load->st->str_add);
    if (!exact && add == NULL) {
        status = -1;
    }
    for (Py_ssize_t i = 0; i < n && status == 0; i++) {
        PyObject *item = load->stack[at + i];
        if (exact) {
            status = PySet_Add(set, item);
        } else {
            PyObject *result = PyObject_CallOneArg(add, item);
            status = result == NULL ? -1 : 0;
            Py_XDECREF(result);
        }
    }
    Py_XDECREF(add);
    stack_cut(load, load->stack + at);
    user_code_ended(load);
    return status;
}
