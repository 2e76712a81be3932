/*
 * encode_ref.c - REFERENCE columns; encode_ref.h says how.
 */
#include "encode_ref.h"

#include "opcodes_used.h"

/* What a reference makes at least as opcodes: GET, argument, TUPLE, MEMOIZE, REDUCE, MEMOIZE. */
#define LEAST_COST 8
/* Arguments of a class of which no reducer was called yet. */
#define USUAL_ARGUMENTS 8

/* References that are made by one callable out of as many arguments share a column. */
typedef struct signature {
    PyObject *callable; /* owned */
    size_t count;       /* arguments */
} signature;

typedef struct reduction {
    PyObject *obj;   /* owned */
    PyObject *args;  /* owned */
    uint32_t number; /* of its signature */
} reduction;

typedef struct ref_scan {
    seen_set set; /* of reduced objects; index: in items */
    reduction *items;
    size_t count, room;
    size_t next; /* reductions are mostly asked for in their order: the one after the last */
    signature *signatures;
    size_t signature_count, signature_room;
    size_t wanted;  /* references noted by the attempt at hand */
    int64_t extra;  /* what they cost as pending cells */
    bool own_asked; /* nothing is registered for ObjectRef */
    bool reduced;
} ref_scan;

static ref_scan *scan_of(chunk_writer *w)
{
    if (!w->refs) {
        w->refs = PyMem_Calloc(1, sizeof(*w->refs));
        if (!w->refs) {
            PyErr_NoMemory();
        }
    }
    return w->refs;
}

bool refs_wanted(const chunk_writer *w)
{
    return w->refs && w->refs->wanted;
}

bool refs_used(const chunk_writer *w)
{
    return w->refs && w->refs->count;
}

/* Whether reducers were called for this block. */
static bool refs_reduced(const chunk_writer *w)
{
    return w->refs && w->refs->reduced;
}

void refs_reset(chunk_writer *w)
{
    if (w->refs) {
        w->refs->wanted = 0;
        w->refs->extra = 0;
    }
}

void refs_forget(chunk_writer *w)
{
    ref_scan *scan = w->refs;
    if (!scan) {
        return;
    }
    w->refs = NULL;
    PyMem_Free(scan->set.entries);
    for (size_t i = 0; i < scan->count; i++) {
        Py_DECREF(scan->items[i].obj);
        Py_DECREF(scan->items[i].args);
    }
    for (size_t i = 0; i < scan->signature_count; i++) {
        Py_DECREF(scan->signatures[i].callable);
    }
    PyMem_Free(scan->signatures);
    PyMem_Free(scan->items);
    PyMem_Free(scan);
}

static const reduction *find_reduction(const chunk_writer *w, PyObject *obj)
{
    ref_scan *scan = w->refs;
    if (!scan || !scan->count) {
        return NULL;
    }
    if (scan->next >= scan->count || scan->items[scan->next].obj != obj) {
        const seen_entry *e = seen_find(&scan->set, obj); /* there is room: it cannot fail */
        if (!e || !e->obj) {
            return NULL;
        }
        scan->next = e->index;
    }
    return &scan->items[scan->next++];
}

PyObject *ref_reduction(const chunk_writer *w, PyObject *obj, PyObject **args)
{
    const reduction *r = find_reduction(w, obj);
    *args = r ? r->args : NULL;
    return r ? w->refs->signatures[r->number].callable : NULL;
}

/* ---- what is a reference ------------------------------------------------------------------------
 */
int find_ref_form(chunk_writer *w, type_entry *t)
{
    const ref_state *state = refs_of(w->plugin);
    bool own = t->type == state->object_ref_type;
    if (!own && (!ref_class_find(state, (PyObject *)t->type) ||
                 w->services != w->plugin->services)) { /* outside of a dump no reducer is called */
        return 0;
    }
    if (!scan_of(w)) {
        return -1;
    }
    if (own && !w->refs->own_asked &&
        !w->hooks) { /* else it is looked up where user code may run */
        PyObject *reducer = w->services->registered_reducer(w->dump, (PyObject *)t->type);
        if (!reducer && PyErr_Occurred()) {
            return -1;
        }
        w->refs->own_asked = !reducer;
        Py_XDECREF(reducer);
    }
    t->form = TYPE_REFERENCE;
    t->own = own && w->refs->own_asked;
    return 1;
}

/* Whether all arguments may stand in columns. */
static bool args_are_plain(chunk_writer *w, PyObject *args, int level)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        if (!is_plain_value(w, PyTuple_GET_ITEM(args, i), level)) {
            return false;
        }
    }
    return true;
}

value_kind classify_ref(chunk_writer *w, PyObject *obj, const type_entry *t, int level)
{
    if (t->own) {
        return (value_kind){KIND_REFERENCE, (uintptr_t)t};
    }
    if (!refs_reduced(w)) {
        return (value_kind){KIND_REFERENCE, 0};
    }
    const reduction *r = find_reduction(w, obj);
    if (!r || !args_are_plain(w, r->args, level + 1)) {
        return (value_kind){KIND_PENDING, 0};
    }
    return (value_kind){KIND_REFERENCE, r->number};
}

/* ---- reducing -----------------------------------------------------------------------------------
 */
/* The number of a signature; -1 with MemoryError. */
static int64_t signature_number(ref_scan *scan, PyObject *callable, size_t count)
{
    for (size_t i = 0; i < scan->signature_count; i++) {
        if (scan->signatures[i].callable == callable && scan->signatures[i].count == count) {
            return (int64_t)i;
        }
    }
    if (scan->signature_count == scan->signature_room) {
        signature *grown =
            writer_grow(scan->signatures, &scan->signature_room, sizeof(*scan->signatures));
        if (!grown) {
            return -1;
        }
        scan->signatures = grown;
    }
    scan->signatures[scan->signature_count] = (signature){Py_NewRef(callable), count};
    return (int64_t)scan->signature_count++;
}

/* Keep what the reducer of obj returned. 0 or -1. */
static int add_reduction(ref_scan *scan, PyObject *obj, PyObject *result)
{
    PyObject *args = PyTuple_GET_ITEM(result, 1);
    int64_t number =
        signature_number(scan, PyTuple_GET_ITEM(result, 0), (size_t)PyTuple_GET_SIZE(args));
    if (number < 0) {
        return -1;
    }
    if (scan->count == scan->room) {
        reduction *grown = writer_grow(scan->items, &scan->room, sizeof(*scan->items));
        if (!grown) {
            return -1;
        }
        scan->items = grown;
    }
    seen_entry *e = seen_find(&scan->set, obj);
    if (!e) {
        return -1;
    }
    seen_enter(&scan->set, e, obj, ROW_SERIAL);
    e->index = (uint32_t)scan->count;
    scan->items[scan->count++] = (reduction){Py_NewRef(obj), Py_NewRef(args), (uint32_t)number};
    return 0;
}

static bool is_reduction(PyObject *result)
{
    return PyTuple_CheckExact(result) && PyTuple_GET_SIZE(result) == 2 &&
           PyCallable_Check(PyTuple_GET_ITEM(result, 0)) &&
           PyTuple_CheckExact(PyTuple_GET_ITEM(result, 1)) &&
           PyTuple_GET_SIZE(PyTuple_GET_ITEM(result, 1)) <= (Py_ssize_t)TORSHI_MAX_ARITY;
}

/* The reducer of a class, found once a chunk. */
typedef struct reducer {
    PyObject *cls;      /* owned */
    PyObject *function; /* owned; NULL: __reduce_ex__ */
} reducer;

static int find_reducer(chunk_writer *w, reducer *known, PyObject *cls)
{
    if (known->cls != cls) {
        Py_XSETREF(known->cls, Py_NewRef(cls));
        Py_XSETREF(known->function, w->services->registered_reducer(w->dump, cls));
    }
    return !known->function && PyErr_Occurred() ? -1 : 0;
}

static PyObject *call_reducer(const chunk_writer *w, const reducer *known, PyObject *obj)
{
    if (known->function) {
        return PyObject_CallOneArg(known->function, obj);
    }
    return PyObject_CallMethod(obj, "__reduce_ex__", "i",
                               w->services->option(w->dump, TORSHI_OPT_PROTOCOL));
}

/* One pending cell's value, when it is a reference that was not met before. 0 or -1. */
static int reduce_value(chunk_writer *w, reducer *known, PyObject *obj)
{
    const ref_state *state = refs_of(w->plugin);
    PyObject *cls = (PyObject *)Py_TYPE(obj);
    bool own = cls == (PyObject *)state->object_ref_type;
    ref_class *c = ref_class_find(state, cls);
    /* Without a third owner, beside its container and the step, it is met here only. */
    if ((!own && !c) || (Py_REFCNT(obj) > 2 && find_reduction(w, obj)) ||
        w->services->memo_find(w->dump, obj) != TORSHI_MEMO_ABSENT) {
        return 0;
    }
    if (PyErr_Occurred() || find_reducer(w, known, cls) < 0) {
        return -1;
    }
    if (own && !known->function) {
        w->refs->own_asked = true;
        return 0;
    }
    PyObject *result = call_reducer(w, known, obj);
    if (!result) {
        return -1;
    }
    if (!is_reduction(result)) { /* pickle asks again, and treats it as it treats any other */
        Py_DECREF(result);
        return 0;
    }
    c = ref_class_find(state, cls);
    if (c) {
        ref_class_learn(c, PyTuple_GET_ITEM(result, 0));
        c->arguments = (size_t)PyTuple_GET_SIZE(PyTuple_GET_ITEM(result, 1));
    }
    int status = add_reduction(w->refs, obj, result);
    Py_DECREF(result);
    return status;
}

/* The references in a row and below it, in pickle's order. */
static int reduce_row(chunk_writer *w, reducer *known, const chunk_record *r, const chunk_row *row)
{
    for (size_t i = row->next; i < row->end; i++) {
        const chunk_step *s = &r->steps[i];
        int status = s->child != NO_CHILD ? reduce_row(w, known, r, &r->rows[s->child])
                                          : reduce_value(w, known, s->value);
        if (status < 0) {
            return -1;
        }
    }
    return 0;
}

int reduce_refs(chunk_writer *w, PyObject *target)
{
    ref_scan *scan = w->refs;
    chunk_record *record = NULL;
    reducer known = {NULL, NULL};
    w->bound += (int64_t)scan->wanted * LEAST_COST;
    w->extra -= scan->extra;
    if (!chunk_pays(w, true)) {
        return w->failed ? ENC_ERROR : ENC_DECLINE;
    }
    int status = record_new(w, target, true, &record);
    if (status == 0) {
        writer_reset(w);
        scan->reduced = true;
        status = record->row_count ? reduce_row(w, &known, record, &record->rows[0]) : 0;
        if (status == 0 && !seen_find(&scan->set, target)) { /* room, so that no look-up can fail */
            status = -1;
        }
    }
    if (record) {
        record_release(record);
    }
    Py_XDECREF(known.cls);
    Py_XDECREF(known.function);
    return status < 0 ? ENC_ERROR : ENC_OK;
}

/* ---- columns ------------------------------------------------------------------------------------
 */
/* Make all of s rows of the chunk. ENC_OK, ENC_OTHER (nothing claimed) or ENC_ERROR. */
static int claim_refs(chunk_writer *w, const span *s, int level, value_kind kind)
{
    size_t i = 0;
    int claim = 1;
    for (; claim == 1 && i < s->n; i++) {
        value_kind other = classify(w, span_at(s, i), level, 0);
        claim = other.kind == kind.kind && other.detail == kind.detail ? claim_row(w, span_at(s, i))
                                                                       : 0;
    }
    if (claim == 1) {
        return ENC_OK;
    }
    for (i--; i > 0; i--) {
        unclaim_row(w, span_at(s, i - 1));
    }
    return claim < 0 ? ENC_ERROR : ENC_OTHER;
}

static int put_ref_head(chunk_writer *w, PyObject *callable, size_t count)
{
    uint32_t number;
    if (external_number(w, callable, &number) != ENC_OK ||
        put_head(w, TORSHI_COL_REFERENCE, 0) < 0) {
        return ENC_ERROR;
    }
    return torshi_buf_uvar(&w->out, number) && torshi_buf_uvar(&w->out, count) ? ENC_OK
                                                                               : put_no_memory();
}

/* Ids of ObjectRefs as a BYTES column. */
static int put_ids(chunk_writer *w, const span *s)
{
    uint32_t *lens = arena_alloc(&w->arena, s->n, sizeof(*lens));
    uint32_t base;
    size_t total = 0;
    int status = count_values(w, s->n);
    if (!lens || status != ENC_OK) {
        return lens ? status : ENC_ERROR;
    }
    for (size_t i = 0; i < s->n; i++) {
        size_t size = (size_t)Py_SIZE(span_at(s, i));
        if (size > UINT32_MAX) {
            return ENC_DECLINE;
        }
        lens[i] = (uint32_t)size;
        total += size;
    }
    int width = torshi_lens_width(lens, s->n, &base);
    if (put_head(w, TORSHI_COL_BYTES, width) < 0) {
        return ENC_ERROR;
    }
    if (!torshi_pack_lens(&w->out, lens, s->n, base, width) ||
        !torshi_buf_reserve(&w->out, total)) {
        return put_no_memory();
    }
    uint8_t *to = w->out.data + w->out.len;
    for (size_t i = 0; i < s->n; i++) {
        memcpy(to, ((const object_ref *)(const void *)span_at(s, i))->id, lens[i]);
        to += lens[i];
    }
    w->out.len += total;
    w->bound += (int64_t)(total + 3 * s->n);
    return ENC_OK;
}

/* A column of owners or of sites of ObjectRefs. */
static int put_part(chunk_writer *w, const span *s, bool sites, int level)
{
    const cells nowhere = {NULL, NULL};
    PyObject **values = arena_alloc(&w->arena, s->n, sizeof(*values));
    if (!values) {
        return ENC_ERROR;
    }
    for (size_t i = 0; i < s->n; i++) {
        const object_ref *ref = (const object_ref *)(const void *)span_at(s, i);
        values[i] = sites ? ref->site : ref->owner;
    }
    span column = span_of(values, s->n);
    return encode_column(w, &column, &nowhere, level, COLUMN_PLAIN);
}

/* Columns of what the reducers returned. */
static int put_arguments(chunk_writer *w, const span *s, size_t count, int level)
{
    const cells nowhere = {NULL, NULL};
    PyObject **tuples = arena_alloc(&w->arena, s->n, sizeof(*tuples));
    if (!tuples) {
        return ENC_ERROR;
    }
    for (size_t i = 0; i < s->n; i++) {
        tuples[i] = find_reduction(w, span_at(s, i))->args;
    }
    for (size_t f = 0; f < count; f++) {
        PyObject **values = arena_alloc(&w->arena, s->n, sizeof(*values));
        if (!values) {
            return ENC_ERROR;
        }
        for (size_t i = 0; i < s->n; i++) {
            values[i] = PyTuple_GET_ITEM(tuples[i], f);
        }
        span column = span_of(values, s->n);
        int status = encode_column(w, &column, &nowhere, level, COLUMN_PLAIN);
        if (status != ENC_OK) {
            return status;
        }
    }
    return ENC_OK;
}

/* Note references that are to be reduced. */
static int note_refs(chunk_writer *w, const span *s, const cells *c)
{
    int64_t before = w->extra;
    size_t arguments = USUAL_ARGUMENTS;
    const ref_class *known = ref_class_find(refs_of(w->plugin), (PyObject *)Py_TYPE(span_at(s, 0)));
    if (known && known->arguments) {
        arguments = known->arguments;
    }
    w->values += s->n * arguments; /* so that the next attempt stays within the limit */
    if (w->values > TORSHI_MAX_VALUES) {
        return ENC_LIMIT;
    }
    int status = note_pending(w, s, c);
    w->refs->wanted += s->n;
    w->refs->extra += w->extra - before;
    return status;
}

int encode_refs(chunk_writer *w, const span *s, const cells *c, int level, unsigned flags,
                value_kind kind)
{
    uint32_t first;
    int status = flags & COLUMN_SORTED ? ENC_OK : claim_refs(w, s, level, kind);
    if (status != ENC_OK) {
        return status;
    }
    bool own = Py_IS_TYPE(span_at(s, 0), refs_of(w->plugin)->object_ref_type) && w->refs->own_asked;
    PyObject *callable = NULL;
    size_t count = 3;
    if (own) {
        callable = object_ref_maker(w->plugin);
    } else if (!refs_reduced(w)) {
        return note_refs(w, s, c);
    } else {
        callable = w->refs->signatures[kind.detail].callable;
        count = w->refs->signatures[kind.detail].count;
    }
    status = put_ref_head(w, callable, count);
    if (status == ENC_OK) {
        status = put_on_roll(w, s, c, BUILD_ITEM, &first);
    }
    if (status == ENC_OK && own) {
        status = put_ids(w, s);
        for (int part = 0; status == ENC_OK && part < 2; part++) {
            status = put_part(w, s, part, level + 1);
        }
    } else if (status == ENC_OK) {
        status = put_arguments(w, s, count, level + 1);
    }
    /* (GET of the callable, EMPTY_TUPLE or TUPLEn or MARK .. TUPLE, MEMOIZE, REDUCE, MEMOIZE) */
    w->bound += (int64_t)s->n * (count == 0 ? 5 : count < 4 ? 6 : 7) - 2;
    return status;
}

/* ---- references that stay pending ---------------------------------------------------------------
 */
typedef struct reduced_job {
    const torshi_services *services;
    PyObject *obj; /* owned, as are the next */
    PyObject *callable;
    PyObject *args;
} reduced_job;

static void job_free(void *arg)
{
    reduced_job *job = arg;
    Py_DECREF(job->obj);
    Py_DECREF(job->callable);
    Py_DECREF(job->args);
    PyMem_Free(job);
}

/* After REDUCE: as pickle has it for an object that its own arguments hold. */
static int end_reduced(void *plugin, torshi_dump *dump, void *arg)
{
    static const uint8_t pop[] = {OP_POP};
    const torshi_services *services = ((plugin_state *)plugin)->services;
    const reduced_job *job = arg;
    if (services->memo_find(dump, job->obj) >= 0) {
        return services->write(dump, pop, 1) < 0 ? -1 : services->memo_get(dump, job->obj);
    }
    return services->memoize(dump, job->obj);
}

static int then_step(const torshi_services *services, torshi_dump *dump, const reduced_job *what,
                     torshi_step_fn step)
{
    reduced_job *job = PyMem_Malloc(sizeof(*job));
    if (!job) {
        PyErr_NoMemory();
        return -1;
    }
    *job = (reduced_job){services, Py_NewRef(what->obj), Py_NewRef(what->callable),
                         Py_NewRef(what->args)};
    return services->then_call(dump, step, job, job_free);
}

static int start_reduced(void *plugin, torshi_dump *dump, void *arg)
{
    static const uint8_t reduce[] = {OP_REDUCE};
    const torshi_services *services = ((plugin_state *)plugin)->services;
    const reduced_job *job = arg;
    if (services->memo_find(dump, job->obj) != TORSHI_MEMO_ABSENT) {
        return services->then_save(dump, job->obj);
    }
    if (services->then_save(dump, job->callable) < 0 || services->then_save(dump, job->args) < 0 ||
        services->then_write(dump, reduce, 1) < 0) {
        return -1;
    }
    return then_step(services, dump, job, end_reduced);
}

int then_save_reduced(const torshi_services *services, torshi_dump *dump, PyObject *obj,
                      PyObject *callable, PyObject *args)
{
    const reduced_job what = {services, obj, callable, args};
    return then_step(services, dump, &what, start_reduced);
}
