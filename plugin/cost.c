/*
 * cost.c - when a chunk pays: "When it pays" in docs/format.md, rule by rule.
 */
#include "finish.h"

int met_cost(chunk_writer *w, PyObject *obj)
{
    int64_t number = w->services->memo_find(w->dump, obj);
    return number >= 0 ? (number < 256 ? 2 : 5) : number == TORSHI_MEMO_COLUMN ? 2 : 0;
}

/* Containers of fewer rows are tried only when their values are containers. */
#define FEW_ROWS 8
/* Those of fewer rows only when their values are of two types at most, None aside. */
#define SMALL_ROWS 16
/* Rows that are looked at to see whether all would be pending. */
#define FIRST_LOOK 16

bool worth_trying(chunk_writer *w, const span *values)
{
    size_t n = values->n;
    if (n < FEW_ROWS) {
        return false;
    }
    if (n < SMALL_ROWS) {
        PyTypeObject *types[2] = {NULL, NULL};
        for (size_t i = 0; i < n; i++) {
            PyTypeObject *type = Py_TYPE(span_at(values, i));
            if (type == types[0] || type == types[1] || type == Py_TYPE(Py_None)) {
                continue;
            }
            if (types[1]) {
                return false;
            }
            types[types[0] != NULL] = type;
        }
    }
    for (size_t i = 0; i < FIRST_LOOK; i++) {
        PyObject *obj = span_at(values, i * n / FIRST_LOOK);
        if (classify(w, obj, 1, 0).kind != KIND_PENDING) {
            return true;
        }
    }
    return false;
}

bool chunk_pays(chunk_writer *w, bool has_roll)
{
    int callable = met_cost(w, chunk_callable(w->services));
    size_t size = w->out.len;
    int64_t cost = (int64_t)size + (callable ? callable : 17); /* STACK_GLOBAL, names, MEMOIZE */
    cost += size < 256 ? 2 : 5;                                /* SHORT_BINBYTES, BINBYTES */
    cost += size >= 65536 ? 18 : 0;                            /* two more frames */
    cost += has_roll ? 3 : 0;                                  /* MARK, EMPTY_LIST, MEMOIZE */
    cost += 2 + w->extra;                                      /* TUPLE2 or TUPLE, REDUCE */
    return cost < w->bound + 2;                                /* MARK, APPENDS or SETITEMS */
}
