/*
 * finish.c - setting what was pending in a chunk, in the order in which stock pickle comes to it.
 *
 * The rule is that of "create, fill, finish": rows are finished depth first; a row that is met on
 * the way is pushed and finished right there; one that is in the middle of it (a true cycle) is
 * only pushed. Nothing here recurses: each row being finished is a frame that schedules what comes
 * next and itself.
 */
#include "finish.h"

#include "encode_ref.h"

#include "opcodes_used.h"

/* A row that is being finished. */
typedef struct frame {
    size_t refs;          /* of the schedule: one each time it is waiting to go on */
    chunk_record *record; /* owned */
    chunk_row *row;
    bool on_stack; /* the row lies on the stack and stays there */
    bool pushed;
} frame;

static void frame_release(void *arg)
{
    frame *f = arg;
    if (--f->refs == 0) {
        record_release(f->record);
        PyMem_Free(f);
    }
}

static int run_row(void *plugin, torshi_dump *dump, void *arg);

/* Schedule the row's next step. Takes a reference to f. 0 or -1. */
static int go_on(const torshi_services *services, torshi_dump *dump, frame *f)
{
    f->refs++;
    return services->then_call(dump, run_row, f, frame_release);
}

static int start_row(const torshi_services *services, torshi_dump *dump, chunk_record *r,
                     chunk_row *row, bool on_stack)
{
    if (row->busy || row->done) {
        return 0;
    }
    frame *f = PyMem_Malloc(sizeof(*f));
    if (!f) {
        PyErr_NoMemory();
        return -1;
    }
    if (PyDict_CheckExact(row->obj) && services->begin_filling(dump, row->obj) < 0) {
        PyMem_Free(f);
        return -1;
    }
    *f = (frame){1, r, row, on_stack, on_stack};
    r->refs++;
    row->busy = true;
    int status = go_on(services, dump, f);
    frame_release(f);
    return status;
}

PyObject *chunk_callable(const torshi_services *services)
{
    return services->function_object(services, "torshi", "chunk");
}

int write_index(const torshi_services *services, torshi_dump *dump, Py_ssize_t index)
{
    uint8_t op[5] = {OP_BININT, (uint8_t)index, (uint8_t)(index >> 8), (uint8_t)(index >> 16),
                     (uint8_t)(index >> 24)};
    if (index <= 0xffff) {
        op[0] = index <= 0xff ? OP_BININT1 : OP_BININT2;
        return services->write(dump, op, index <= 0xff ? 2 : 3);
    }
    return services->write(dump, op, 5);
}

/* Put a rolled object on the stack: from the memo, or once through chunk(roll, index). */
static int push_row(const torshi_services *services, torshi_dump *dump, chunk_record *r,
                    PyObject *obj, uint32_t index)
{
    static const uint8_t call[] = {OP_TUPLE2, OP_REDUCE};
    if (services->memo_find(dump, obj) >= 0) {
        return services->memo_get(dump, obj);
    }
    PyObject *chunk = chunk_callable(services);
    if (!chunk || services->write_global(dump, chunk, "torshi", "chunk") < 0 ||
        services->memo_get(dump, r->roll) < 0 || write_index(services, dump, index) < 0 ||
        services->write(dump, call, sizeof(call)) < 0) {
        return -1;
    }
    return services->memoize(dump, obj);
}

static int set_value(const torshi_services *services, torshi_dump *dump, const chunk_row *row,
                     const chunk_step *s)
{
    static const uint8_t slots[] = {OP_NONE, OP_EMPTY_DICT};
    static const uint8_t ends[2][3] = {{OP_SETITEM}, {OP_SETITEM, OP_TUPLE2, OP_BUILD}};
    if (row->build == BUILD_SLOTS && services->write(dump, slots, sizeof(slots)) < 0) {
        return -1;
    }
    if (s->key ? services->then_save(dump, s->key) < 0
               : write_index(services, dump, s->index) < 0) {
        return -1;
    }
    if (s->callable ? then_save_reduced(services, dump, s->value, s->callable, s->args) < 0
                    : services->then_save(dump, s->value) < 0) {
        return -1;
    }
    return services->then_write(dump, ends[row->build], row->build == BUILD_SLOTS ? 3 : 1);
}

/* One more step of a row, or its end. */
static int run_row(void *plugin, torshi_dump *dump, void *arg)
{
    const torshi_services *services = ((plugin_state *)plugin)->services;
    frame *f = arg;
    chunk_record *r = f->record;
    chunk_row *row = f->row;
    while (row->next < row->end) {
        const chunk_step *s = &r->steps[row->next++];
        if (s->child != NO_CHILD) {
            chunk_row *child = &r->rows[s->child];
            if (child->busy || child->done) {
                continue;
            }
            return start_row(services, dump, r, child, false) < 0 ? TORSHI_ERROR
                                                                  : go_on(services, dump, f);
        }
        if (!f->pushed) {
            if (push_row(services, dump, r, row->obj, row->roll_index) < 0) {
                return TORSHI_ERROR;
            }
            f->pushed = true;
        }
        return set_value(services, dump, row, s) < 0 ? TORSHI_ERROR : go_on(services, dump, f);
    }
    if (PyDict_CheckExact(row->obj)) {
        services->end_filling(dump);
    }
    row->busy = false;
    row->done = true;
    if (f->pushed && !f->on_stack) {
        static const uint8_t pop[] = {OP_POP};
        return services->write(dump, pop, 1);
    }
    return TORSHI_OK;
}

static chunk_row *find_row(const chunk_record *r, uint32_t index)
{
    size_t low = 0, high = r->row_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->rows[middle].roll_index < index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < r->row_count && r->rows[low].roll_index == index ? &r->rows[low] : NULL;
}

/* save() met a rolled object: a torshi_met_fn. */
static int row_met(void *plugin, torshi_dump *dump, PyObject *obj, void *arg, uint32_t index)
{
    const torshi_services *services = ((plugin_state *)plugin)->services;
    chunk_record *r = arg;
    if (push_row(services, dump, r, obj, index) < 0) {
        return TORSHI_ERROR;
    }
    chunk_row *row = find_row(r, index);
    return row ? start_row(services, dump, r, row, true) : TORSHI_OK;
}

int record_finish_target(chunk_record *r, const torshi_services *services, torshi_dump *dump)
{
    chunk_row *row = find_row(r, 0);
    return row ? start_row(services, dump, r, row, true) : 0;
}

/* Enter n objects, of which the first is number `first` on the roll. 0 or -1. */
static int enter_objects(chunk_record *r, const chunk_writer *w, PyObject *const *objects, size_t n,
                         uint32_t first)
{
    if (!w->shared_state) {
        return n ? w->services->roll_many(w->dump, objects, n, row_met, r, first) : 0;
    }
    /* Rows whose attributes somebody else's dict holds too can be met through that. */
    for (size_t i = 0; i < n; i++) {
        if (w->services->roll(w->dump, objects[i], row_met, r, first + (uint32_t)i) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Whether these are items of the target where they lie, which stay there for as long as roll_many
   wants them: nothing can change the list before the memo has settled. */
static bool are_items(const span *objects, PyObject *target)
{
    if (!PyList_CheckExact(target) || objects->stride != sizeof(PyObject *)) {
        return false;
    }
    uintptr_t items = (uintptr_t)((PyListObject *)target)->ob_item, at = (uintptr_t)objects->base;
    return at >= items && at < items + (size_t)PyList_GET_SIZE(target) * sizeof(PyObject *);
}

static int enter_rows(chunk_record *r, const chunk_writer *w)
{
    size_t gathered = 0;
    if (w->rolled == 1) {
        return 0;
    }
    for (size_t i = 0; i < w->column_count; i++) {
        const rolled_column *c = &w->columns[i];
        gathered += are_items(&c->objects, w->target) ? 0 : c->n;
    }
    r->rolled = PyMem_Malloc(gathered * sizeof(*r->rolled));
    if (!r->rolled) {
        PyErr_NoMemory();
        return -1;
    }
    PyObject **run = r->rolled; /* of objects that were gathered side by side */
    uint32_t first = 1;
    size_t n = 0;
    for (size_t i = 0; i < w->column_count; i++) {
        const rolled_column *c = &w->columns[i];
        if (!are_items(&c->objects, w->target)) {
            for (size_t j = 0; j < c->n; j++) {
                run[n++] = span_at(&c->objects, j);
            }
            continue;
        }
        PyObject *const *items = (PyObject *const *)(const void *)c->objects.base;
        if (enter_objects(r, w, run, n, first) < 0 ||
            enter_objects(r, w, items, c->n, c->first) < 0) {
            return -1;
        }
        run += n;
        first = c->first + c->n;
        n = 0;
    }
    return enter_objects(r, w, run, n, first);
}

int record_enter(chunk_record *r, chunk_writer *w)
{
    const torshi_services *services = w->services;
    r->refs++;
    if (services->own(w->dump, r, record_release) < 0) {
        return -1;
    }
    for (size_t i = 0; i < r->kept_count; i++) {
        if (services->mark_column(w->dump, r->kept[i]) < 0) {
            return -1;
        }
    }
    return enter_rows(r, w);
}
