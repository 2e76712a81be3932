/*
 * target.c - an exact dict or list on its way into one or more chunks.
 *
 * Rows are taken in blocks. Each block becomes a chunk of the target, or, when that would not pay,
 * ordinary opcodes; only the first block can still decline altogether. What is pending in a block
 * is finished before the next one is looked at, which keeps stock pickle's order.
 */
#include "encode_int.h"
#include "encode_ref.h"
#include "finish.h"

#include "opcodes_used.h"

/* Items between a MARK and its APPENDS or SETITEMS, as pickle has it. */
#define BATCH 1000
/* Rows a block where rows are containers: what lies below them stays in the cache, and lists in
   them seldom break the limit of rows, which costs another attempt (tools/bench: real_cities). */
#define NESTED_BLOCK 4096

/* A target of which more blocks, or a last check, are to come. */
typedef struct target_job {
    const target_form *form;
    PyObject *target;    /* owned */
    Py_ssize_t length;   /* of a dict when it started */
    Py_ssize_t position; /* of the next row */
    Py_ssize_t rows;     /* taken so far */
    size_t block;        /* rows a block */
    size_t refs;
} target_job;

static void job_release(void *arg)
{
    target_job *job = arg;
    if (--job->refs == 0) {
        Py_DECREF(job->target);
        PyMem_Free(job);
    }
}

/* ---- one block ----------------------------------------------------------------------------------
 */
/* The head of the payload: rows, and how many more are expected. */
static int put_rows(chunk_writer *w, size_t rows, size_t following)
{
    return torshi_buf_uvar(&w->out, (uint64_t)rows << 1 | (following != 0)) &&
                   (!following || torshi_buf_uvar(&w->out, following))
               ? ENC_OK
               : put_no_memory();
}

static int encode_rows(chunk_writer *w, const target_form *form, PyObject *target, const span *keys,
                       const span *values, size_t following, Py_ssize_t start)
{
    uint32_t *ends = arena_alloc(&w->arena, 1, sizeof(*ends));
    origin *from = arena_alloc(&w->arena, 1, sizeof(*from));
    if (!ends || !from) {
        return ENC_ERROR;
    }
    ends[0] = (uint32_t)values->n;
    *from = (origin){.form = form->is_dict ? ORIGIN_PAIR : ORIGIN_ITEM,
                     .parents = 1,
                     .ends = ends,
                     .start = start};
    cells where = {from, NULL};
    w->target = target;
    int status = put_rows(w, values->n, following);
    if (status == ENC_OK && form->is_dict) {
        from->keys = *keys;
        int pairs = encode_int_pairs(w, keys, values);
        if (pairs != ENC_OTHER) {
            return pairs;
        }
        status = encode_keys(w, keys, &where);
    }
    return status == ENC_OK ? encode_column(w, values, &where, 1, 0) : status;
}

/* A dict that code which ran meanwhile has changed. */
static int changed_size(void)
{
    PyErr_SetString(PyExc_RuntimeError, "dictionary changed size during iteration");
    return ENC_ERROR;
}

static inline bool is_container(PyObject *obj)
{
    return PyDict_CheckExact(obj) || PyList_CheckExact(obj);
}

/* Encode the next block of at most *block rows, which is made smaller when a chunk of so many would
   be too large. *position is behind the block. ENC_DECLINE: it does not pay, or cannot be. */
static int encode_block(chunk_writer *w, const target_job *job, size_t *block, span *values,
                        span *keys, Py_ssize_t *position)
{
    Py_ssize_t begin = job->position; /* which *position may be */
    for (;;) {
        writer_reset(w);
        *position = begin;
        int status = job->form->take_rows(w, job->target, position, *block, keys, values);
        if (status != ENC_OK) {
            return status;
        }
        if (*block > NESTED_BLOCK && values->n > NESTED_BLOCK && is_container(span_at(values, 0))) {
            *block = NESTED_BLOCK;
            continue;
        }
        bool all = (Py_ssize_t)values->n == job->form->length(job->target); /* see save_target */
        bool worth = refs_used(w) || worth_trying(w, values, all);
        if (w->failed) {
            return ENC_ERROR;
        }
        if (!worth) {
            return ENC_DECLINE;
        }
        Py_ssize_t rest = job->form->length(job->target) - job->rows - (Py_ssize_t)values->n;
        if (is_excluded(w, job->target)) {
            return ENC_DECLINE;
        }
        status = encode_rows(w, job->form, job->target, keys, values, rest > 0 ? (size_t)rest : 0,
                             job->rows);
        if (w->failed) {
            return ENC_ERROR;
        }
        if (status == ENC_OK && refs_wanted(w)) {
            status = reduce_refs(w, job->target);
            if (status != ENC_OK) {
                return status;
            }
            if (job->form->is_dict && job->form->length(job->target) != job->length) {
                return changed_size();
            }
            continue;
        }
        if (status == ENC_OK) {
            bool pays = refs_used(w) || chunk_pays(w, needs_roll(w));
            return w->failed ? ENC_ERROR : pays ? ENC_OK : ENC_DECLINE;
        }
        if (status == ENC_AGAIN) {
            continue;
        }
        if (status != ENC_LIMIT || values->n == 1) {
            return status == ENC_LIMIT ? ENC_DECLINE : status;
        }
        *block = values->n / 2 + values->n % 2;
    }
}

/* ---- writing ------------------------------------------------------------------------------------
 */
/* The call of torshi.chunk; what w holds is used up. `first`: the target is made here. */
static int write_chunk(chunk_writer *w, const target_job *job, bool first, chunk_record *record)
{
    static const uint8_t mark[] = {OP_MARK}, roll[] = {OP_EMPTY_LIST};
    static const uint8_t call[] = {OP_TUPLE2, OP_REDUCE, OP_POP};
    static const uint8_t call_many[] = {OP_TUPLE, OP_REDUCE, OP_POP};
    const uint8_t make[] = {job->form->is_dict ? OP_EMPTY_DICT : OP_EMPTY_LIST};
    const torshi_services *services = w->services;
    torshi_dump *dump = w->dump;
    bool has_roll = record && record->roll;
    size_t call_size = first ? 2 : 3;
    if (services->write_global(dump, w->chunk, "torshi", "chunk") < 0 ||
        (has_roll && services->write(dump, mark, 1) < 0)) {
        return -1;
    }
    if (first ? services->write(dump, make, 1) < 0 || services->memoize(dump, job->target) < 0
              : services->memo_get(dump, job->target) < 0) {
        return -1;
    }
    if (services->write_bytes(dump, w->out.data, w->out.len) < 0) {
        return -1;
    }
    if (!has_roll) {
        return services->write(dump, call, call_size);
    }
    if (services->write(dump, roll, 1) < 0 || services->memoize(dump, record->roll) < 0) {
        return -1;
    }
    for (size_t i = 0; i < record->external_count; i++) {
        if (services->then_save(dump, record->externals[i]) < 0) {
            return -1;
        }
    }
    return services->then_write(dump, call_many, call_size);
}

/* The block's rows as opcodes, for a target on the stack. */
static int schedule_opcodes(const torshi_services *services, torshi_dump *dump, bool is_dict,
                            const span *keys, const span *values)
{
    static const uint8_t mark[] = {OP_MARK};
    const uint8_t end[] = {is_dict ? OP_SETITEMS : OP_APPENDS};
    for (size_t i = 0; i < values->n; i++) {
        if (i % BATCH == 0 && services->then_write(dump, mark, 1) < 0) {
            return -1;
        }
        if ((is_dict && services->then_save(dump, span_at(keys, i)) < 0) ||
            services->then_save(dump, span_at(values, i)) < 0) {
            return -1;
        }
        if ((i % BATCH == BATCH - 1 || i + 1 == values->n) &&
            services->then_write(dump, end, 1) < 0) {
            return -1;
        }
    }
    return 0;
}

static int next_block(void *plugin, torshi_dump *dump, void *arg);

/* After a block: schedule the next one, or the last look at the length. */
static int schedule_rest(const torshi_services *services, torshi_dump *dump, target_job *job,
                         bool look)
{
    if (!look && job->rows >= job->form->length(job->target)) {
        return 0;
    }
    job->refs++;
    return services->then_call(dump, next_block, job, job_release);
}

/* Write a block that pays, and schedule what is pending in it. 0 or -1. */
static int write_block(chunk_writer *w, target_job *job, bool first)
{
    chunk_record *record = NULL;
    int status = record_new(w, job->target, needs_roll(w), &record);
    if (status == 0 && record) { /* before writing, which may run user code when a file is full */
        status = record_enter(record, w);
    }
    if (status == 0) {
        status = write_chunk(w, job, first, record);
    }
    if (status == 0 && record) {
        status = record_finish_target(record, w->services, w->dump);
    }
    if (record) {
        record_release(record);
    }
    return status;
}

static int next_block(void *plugin, torshi_dump *dump, void *arg)
{
    struct plugin_state *state = plugin;
    target_job *job = arg;
    Py_ssize_t length = job->form->length(job->target);
    if (job->form->is_dict && length != job->length) {
        return changed_size();
    }
    if (job->rows >= length) {
        return TORSHI_OK;
    }
    chunk_writer *w = writer_take(state, dump);
    if (!w) {
        return TORSHI_ERROR;
    }
    span keys = {NULL, 0, 0}, values = keys;
    int status = encode_block(w, job, &job->block, &values, &keys, &job->position);
    if (status == ENC_DECLINE && values.n == 0) { /* a dict that was rebuilt, and shrank */
        status = 0;
    } else if (status == ENC_OK || status == ENC_DECLINE) {
        bool pending = status == ENC_DECLINE || w->pending_count;
        job->rows += (Py_ssize_t)values.n;
        status = status == ENC_OK
                     ? write_block(w, job, false)
                     : schedule_opcodes(state->services, dump, job->form->is_dict, &keys, &values);
        if (status == 0) {
            status = schedule_rest(state->services, dump, job, pending);
        }
    }
    writer_release(w);
    return status == 0 ? TORSHI_OK : TORSHI_ERROR;
}

int save_target(struct plugin_state *plugin, torshi_dump *dump, PyObject *target,
                const target_form *form)
{
    if (too_small(plugin->objects, target, form->length(target)) ||
        plugin->services->option(dump, TORSHI_OPT_FAST)) {
        return TORSHI_DECLINE;
    }
    chunk_writer *w = writer_take(plugin, dump);
    if (!w) {
        return TORSHI_ERROR;
    }
    int result = TORSHI_ERROR;
    target_job start = {.form = form,
                        .target = target,
                        .length = form->length(target),
                        .block = TORSHI_MAX_ROWS,
                        .refs = 1};
    target_job *job = NULL;
    span keys = {NULL, 0, 0}, values = keys;
    int status = encode_block(w, &start, &start.block, &values, &keys, &start.position);
    if (status == ENC_DECLINE) {
        result = TORSHI_DECLINE;
        goto done;
    }
    if (status != ENC_OK) {
        goto done;
    }
    bool pending = w->pending_count != 0;
    start.rows = (Py_ssize_t)values.n;
    if (write_block(w, &start, true) < 0) {
        goto done;
    }
    if (pending || start.rows < start.length) {
        job = PyMem_Malloc(sizeof(*job));
        if (!job) {
            PyErr_NoMemory();
            goto done;
        }
        *job = start;
        Py_INCREF(target);
        if (schedule_rest(plugin->services, dump, job, pending) < 0) {
            goto done;
        }
    }
    result = TORSHI_OK;
done:
    if (job) {
        job_release(job);
    }
    writer_release(w);
    return result;
}
