/*
 * internals.h - everything that goes below CPython's public API, in one place (internals.c).
 *
 * internals_check() compares the layouts this file relies on with objects made through the public
 * API, once per interpreter; where one differs, or when switched off (-X torshi.internals=0,
 * TORSHI_INTERNALS=0), the functions take the public path. Results are the same either way.
 */
#ifndef TORSHI_ENGINE_INTERNALS_H
#define TORSHI_ENGINE_INTERNALS_H

#include "state.h"

/* Verify layouts. 1: direct paths may be used; 0: they may not; -1 exception. */
TORSHI_HIDDEN int internals_check(void);
/* The bulk services of abi.h: the direct ones, or those on public API alone. */
TORSHI_HIDDEN const torshi_objects *internals_objects(int direct);

/* For the pickler: as in abi.h, but callable directly (both 0/1, no exceptions). An instance view
   shows where attributes are stored and no more: whether the type reads and writes them that way
   (generic attribute access, the ordinary __dict__) is for the caller to know. A __dict__ of
   another type than dict gives 0. */
TORSHI_HIDDEN int internals_dict_view(PyObject *dict, torshi_dict_view *view);
TORSHI_HIDDEN int internals_instance_view(PyObject *obj, torshi_instance_view *view);

/* For the unpickler, direct paths; each returns 1 done, 0 declined having changed nothing, -1
   exception. items: key, value, key, value ... (2*n references).
   internals_fill_empty_dict: exact dict that is empty; steals all items when it returns 1. */
TORSHI_HIDDEN int internals_fill_empty_dict(PyObject *dict, PyObject **items, Py_ssize_t n);
/* As dict[key] = value for the first pairs, on an exact dict that may have entries: returns how
   many (0..n), whose references it has moved. It stops where a key is there already, is of a type
   with code of its own, or finds the table full: then set one pair by PyDict_SetItem and call
   again. Runs no code, raises nothing. `more` as in torshi_objects.fill_dict. */
TORSHI_HIDDEN Py_ssize_t internals_fill_some(PyObject *dict, PyObject *const *items, Py_ssize_t n,
                                             Py_ssize_t more);
/* Give an exact dict that is empty a table for n pairs, when first_key and others like it will be
   the keys. 1: done; 0: declined. Raises nothing. n must be backed by what is really there. */
TORSHI_HIDDEN int internals_presize(PyObject *dict, PyObject *first_key, Py_ssize_t n);
/* BUILD of a state dict straight into a fresh instance's inline values: same result as setting
   each attribute through its __dict__; keys exact interned str; items borrowed. */
TORSHI_HIDDEN int internals_build_instance(PyObject *inst, PyObject **items, Py_ssize_t n);

/* Compact ints: 1 and *value set when obj is an exact int that fits int64, 0 when it does not fit.
   Inline in spirit; obj must be an exact int. No exception. */
static inline int int_as_int64(PyObject *obj, int64_t *value)
{
    int overflow;
    long long v;
#if PY_VERSION_HEX >= 0x030C0000
    if (PyUnstable_Long_IsCompact((PyLongObject *)obj)) {
        *value = (int64_t)PyUnstable_Long_CompactValue((PyLongObject *)obj);
        return 1;
    }
#endif
    v = PyLong_AsLongLongAndOverflow(obj, &overflow);
    if (overflow) {
        return 0;
    }
    *value = (int64_t)v;
    return 1;
}

#endif
