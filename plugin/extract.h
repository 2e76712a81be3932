/*
 * extract.h - extract_serialize and its inverse: taking Serialize objects and large byte strings
 * out of nested dicts and lists (Dask's contract of 2020; docs/dask.md states it in full).
 */
#ifndef TORSHI_EXTRACT_H
#define TORSHI_EXTRACT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "torshi/abi.h"

/* Byte strings longer than this many bytes are taken out. */
#define EXTRACT_LIMIT 65536

/* The wrapper classes a call looks for; what is in it is owned. */
typedef struct extract_types {
    PyObject *serialize;    /* class */
    PyObject *serialized;   /* class */
    PyObject *to_serialize; /* callable that wraps a byte string */
} extract_types;

/* Make torshi.Serialize and torshi.Serialized. 0 or -1 with an exception. */
int extract_types_init(extract_types *types);
int extract_types_traverse(extract_types *types, int (*visit)(PyObject *, void *), void *arg);
void extract_types_clear(extract_types *types);

/*
 * extract_serialize(x, *, types=None) -> (x2, ser, bytestrings). New reference; NULL with
 * RecursionError on a cycle or nesting deeper than the recursion limit, with what hashing a key or
 * wrapping a byte string raised, or with MemoryError. `own` holds the default classes.
 */
PyObject *extract_serialize(const torshi_objects *objects, const extract_types *own,
                            PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* insert_serialized(x, ser, bytestrings=()) -> x, changed in place. New reference or NULL. */
PyObject *insert_serialized(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* _serialize_types() -> (Serialize, Serialized, to_serialize). New reference or NULL. */
PyObject *extract_types_tuple(const extract_types *own);
/*
 * _survey(x, watch) -> (types, watched): the distinct exact types of the leaves of x in exact
 * lists, tuples and dicts (keys not looked at), and a list of those leaves whose type is in the
 * tuple `watch` and of the byte strings above EXTRACT_LIMIT, whose type is not reported. New
 * reference; NULL with RecursionError on cycles, depth, or too much of it, or with MemoryError.
 */
PyObject *survey_types(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

#endif
