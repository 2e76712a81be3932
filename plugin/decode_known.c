/*
 * decode_known.c - callables of REDUCE columns: called row by row, or, where the callable is known
 * to be the original, what it would have returned made directly.
 */
#include "decode.h"

/* One call a row, in row order. Argument references are dropped as they are used. */
static int call_each(PyObject *callable, PyObject ***columns, size_t count, size_t n,
                     PyObject **out)
{
    PyObject *stack[TORSHI_MAX_ARITY + 1] = {NULL}; /* the first place is the callee's to use */
    PyObject **args = stack + 1;
    for (size_t i = 0; i < n; i++) {
        for (size_t f = 0; f < count; f++) {
            args[f] = columns[f][i];
        }
        out[i] = PyObject_Vectorcall(callable, args, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        release_refs(args, count);
        if (!out[i]) {
            release_columns(columns, count, i + 1, n);
            release_refs(out, i);
            return -1;
        }
    }
    return 0;
}

int call_rows(decoder *d, PyObject *callable, PyObject ***columns, size_t count, size_t n,
              PyObject **out)
{
    collector_resume(d);
    return call_each(callable, columns, count, n, out);
}
