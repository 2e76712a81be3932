/*
 * internals_layout.h - private to the internals*.c files: CPython's layouts, in our own words, and
 * what those files share.
 *
 * A keys table is one block: the head below, then an index table of 2**log2_size slots of 1, 2, 4
 * or 8 bytes (signed; -1 never used, -2 deleted, else the number of an entry), then the entries in
 * the order of their insertion, of which two thirds of the slots may be used:
 *
 *     | refcnt .. nentries | indices: 2**log2_index_bytes bytes | entry 0 | entry 1 | ... |
 *
 * A "unicode" table has only exact str as keys and entries of (key, value); a "general" one has
 * (hash, key, value); a "split" one is a unicode table whose values lie elsewhere, one array for
 * each dict or instance, and which belongs to a class. The same in 3.11, 3.12 and 3.13.
 *
 * A value array keeps the order of insertion in bytes: below the array in 3.11 and 3.12
 * (v[-1]: size of that prefix, v[-2]: count, v[-3], v[-4] ...: entry numbers), in 3.13 behind the
 * array, with capacity and count in a small head.
 */
#ifndef TORSHI_ENGINE_INTERNALS_LAYOUT_H
#define TORSHI_ENGINE_INTERNALS_LAYOUT_H

#include "internals.h"

#include <string.h>

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000 && SIZEOF_VOID_P == 8 &&           \
    !PY_BIG_ENDIAN && !defined(Py_DEBUG) && !defined(Py_REF_DEBUG) && !defined(Py_TRACE_REFS) &&   \
    !defined(Py_GIL_DISABLED)
#define INTERNALS_SUPPORTED 1
#else
#define INTERNALS_SUPPORTED 0
#endif

#define INTERNALS_INLINE static inline __attribute__((always_inline))

/* Most entries that a shared table can have, and so the most attributes kept inline. */
#define SHARED_MAX 30

typedef struct keys_table {
    Py_ssize_t refcnt;
    uint8_t log2_size;
    uint8_t log2_index_bytes;
    uint8_t kind;
    uint32_t version; /* 0: nothing cached about this table */
    Py_ssize_t usable;
    Py_ssize_t nentries;
} keys_table;

#define KIND_GENERAL 0
#define KIND_UNICODE 1

typedef struct unicode_entry {
    PyObject *key;
    PyObject *value;
} unicode_entry;

typedef struct general_entry {
    Py_hash_t hash;
    PyObject *key;
    PyObject *value;
} general_entry;

/* dk allocation: the allocator that CPython itself frees a table with. */
#if PY_VERSION_HEX >= 0x030D0000
#define KEYS_MALLOC PyMem_Malloc
#define KEYS_CALLOC PyMem_Calloc
#define KEYS_FREE PyMem_Free
#else
#define KEYS_MALLOC PyObject_Malloc
#define KEYS_CALLOC PyObject_Calloc
#define KEYS_FREE PyObject_Free
#endif

static inline keys_table *dict_keys(PyObject *dict)
{
    return (keys_table *)(void *)((PyDictObject *)dict)->ma_keys;
}

static inline char *keys_indices(keys_table *k)
{
    return (char *)k + sizeof(keys_table);
}

static inline void *keys_entries(keys_table *k)
{
    return keys_indices(k) + ((size_t)1 << k->log2_index_bytes);
}

static inline Py_ssize_t usable_of(unsigned log2_size)
{
    return (Py_ssize_t)(((size_t)1 << log2_size) * 2 / 3);
}

static inline unsigned index_bytes_of(unsigned log2_size)
{
    return log2_size < 8 ? log2_size : log2_size < 16 ? log2_size + 1 : log2_size + 2;
}

/* The empty table that all empty dicts share: the only one with a single slot. */
static inline int is_empty_table(const keys_table *k)
{
    return k->log2_size == 0;
}

/* The low bits of the version tag say that dict watchers (3.12) want to hear of changes. */
static inline int dict_is_watched(PyObject *dict)
{
#if PY_VERSION_HEX >= 0x030C0000
    uint64_t tag;
    memcpy(&tag, (char *)dict + offsetof(PyDictObject, ma_used) + sizeof(Py_ssize_t), sizeof tag);
    return (tag & 0xFF) != 0;
#else
    (void)dict;
    return 0;
#endif
}

/* Whether a container that holds v has to be tracked by the collector, as dicts decide it. */
static inline int may_be_tracked(PyObject *v)
{
    if (!(Py_TYPE(v)->tp_flags & Py_TPFLAGS_HAVE_GC)) {
        return 0;
    }
    return PyObject_IS_GC(v) && (!PyTuple_CheckExact(v) || PyObject_GC_IsTracked(v));
}

/* ---- value arrays of instances and split dicts ----------------------------------------------- */
#if PY_VERSION_HEX >= 0x030D0000
typedef struct value_array {
    uint8_t capacity;
    uint8_t size;
    uint8_t embedded;
    uint8_t valid;
    PyObject *values[1];
} value_array;

static inline unsigned values_size(const value_array *v)
{
    return v->size;
}

static inline unsigned values_order(const value_array *v, unsigned i)
{
    return ((const uint8_t *)&v->values[v->capacity])[i];
}

static inline unsigned values_capacity(const value_array *v)
{
    return v->capacity;
}

/* Set the i-th byte of the order; values_finish sets the count. */
static inline void values_set_order(value_array *v, unsigned i, unsigned entry)
{
    ((uint8_t *)&v->values[v->capacity])[i] = (uint8_t)entry;
}

static inline void values_finish(value_array *v, unsigned size)
{
    v->size = (uint8_t)size;
}
#else
typedef struct value_array {
    PyObject *values[1];
} value_array;

static inline unsigned values_size(const value_array *v)
{
    return ((const uint8_t *)v)[-2];
}

static inline unsigned values_order(const value_array *v, unsigned i)
{
    return ((const uint8_t *)v)[-3 - (ptrdiff_t)i];
}

/* An upper bound: the size of the prefix is rounded up to whole words. The true capacity is at
   least the number of entries of the shared table, which is what callers go by. */
static inline unsigned values_capacity(const value_array *v)
{
    return ((const uint8_t *)v)[-1] - 2u;
}

static inline void values_set_order(value_array *v, unsigned i, unsigned entry)
{
    ((uint8_t *)v)[-3 - (ptrdiff_t)i] = (uint8_t)entry;
}

static inline void values_finish(value_array *v, unsigned size)
{
    ((uint8_t *)v)[-2] = (uint8_t)size;
}
#endif

/* The inline values of an instance whose type has a managed dict, NULL when there are none; *dict
   is its real __dict__ (borrowed) or NULL. */
static inline value_array *instance_values(PyObject *obj, PyObject **dict)
{
#if PY_VERSION_HEX >= 0x030D0000
    value_array *v = NULL;
    *dict = ((PyObject **)obj)[-3];
    if (Py_TYPE(obj)->tp_flags & Py_TPFLAGS_INLINE_VALUES) {
        v = (value_array *)(void *)((char *)obj + sizeof(PyObject));
    }
    return *dict == NULL && v != NULL && v->valid ? v : NULL;
#elif PY_VERSION_HEX >= 0x030C0000
    uintptr_t word = ((uintptr_t *)obj)[-3];
    if (word & 1) {
        *dict = NULL;
        return (value_array *)(word + 1);
    }
    *dict = (PyObject *)word;
    return NULL;
#else
    *dict = ((PyObject **)obj)[-3];
    return ((value_array **)obj)[-4];
#endif
}

static inline keys_table *type_shared_keys(PyTypeObject *type)
{
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        return NULL;
    }
    return (keys_table *)(void *)((PyHeapTypeObject *)type)->ht_cached_keys;
}

/* A version of the type that changes whenever the type does; 0: has none. */
static inline unsigned type_version(PyTypeObject *type)
{
#if PY_VERSION_HEX < 0x030C0000
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) {
        return 0;
    }
#endif
    return type->tp_version_tag;
}

/* ---- the two editions ------------------------------------------------------------------------ */

/* Release the references in every column and set all slots to NULL. */
TORSHI_HIDDEN void internals_drop(PyObject **slots, Py_ssize_t n);
TORSHI_HIDDEN void internals_drop_columns(PyObject **const *columns, Py_ssize_t ncolumns,
                                          Py_ssize_t n);

/* internals_public.c: as abi.h has them, on public API alone. */
TORSHI_HIDDEN int public_make_ints(const unsigned char *le, int width_bytes, int64_t base,
                                   intptr_t n, PyObject **out);
TORSHI_HIDDEN int public_make_progression(int64_t start, int64_t step, intptr_t n, PyObject **out);
TORSHI_HIDDEN int public_make_floats(const unsigned char *le, intptr_t n, PyObject **out);
TORSHI_HIDDEN int public_make_strs(const unsigned char *blob, size_t blob_size,
                                   const uint32_t *lens, const unsigned char *kinds, intptr_t n,
                                   PyObject **out);
TORSHI_HIDDEN int public_make_bytes(const unsigned char *blob, const uint32_t *lens, intptr_t n,
                                    PyObject **out);
TORSHI_HIDDEN int public_make_dicts(PyObject *const *keys, intptr_t nkeys,
                                    PyObject **const *columns, intptr_t n, PyObject **out);
TORSHI_HIDDEN int public_fill_dict(PyObject *dict, PyObject **keys, PyObject **values, intptr_t n,
                                   intptr_t more);
TORSHI_HIDDEN int public_fill_list(PyObject *list, PyObject **values, intptr_t n, intptr_t more);
TORSHI_HIDDEN PyObject *public_make_list(PyObject **values, intptr_t n);
/* One str of a payload: a new reference; NULL with an exception, or without one and *bad = 1. */
TORSHI_HIDDEN PyObject *public_make_str(const unsigned char *chars, size_t len, unsigned kind,
                                        int *bad);
TORSHI_HIDDEN int public_dict_view(PyObject *dict, torshi_dict_view *view);
TORSHI_HIDDEN int public_instance_view(PyObject *obj, torshi_instance_view *view);

/* internals_instances.c */
/* Void what has been noted about types; for a new interpreter. */
TORSHI_HIDDEN void internals_forget_types(void);
TORSHI_HIDDEN int public_make_instances(PyObject *cls, PyObject *const *names, intptr_t nfields,
                                        int slots, int state_missing, PyObject **const *columns,
                                        intptr_t n, PyObject **out);
TORSHI_HIDDEN int direct_make_instances(PyObject *cls, PyObject *const *names, intptr_t nfields,
                                        int slots, int state_missing, PyObject **const *columns,
                                        intptr_t n, PyObject **out);

#if INTERNALS_SUPPORTED
/* internals_objects.c */
TORSHI_HIDDEN int direct_make_ints(const unsigned char *le, int width_bytes, int64_t base,
                                   intptr_t n, PyObject **out);
TORSHI_HIDDEN int direct_make_progression(int64_t start, int64_t step, intptr_t n, PyObject **out);
TORSHI_HIDDEN int direct_make_floats(const unsigned char *le, intptr_t n, PyObject **out);
TORSHI_HIDDEN int direct_make_strs(const unsigned char *blob, size_t blob_size,
                                   const uint32_t *lens, const unsigned char *kinds, intptr_t n,
                                   PyObject **out);
TORSHI_HIDDEN int direct_make_bytes(const unsigned char *blob, const uint32_t *lens, intptr_t n,
                                    PyObject **out);
TORSHI_HIDDEN int direct_fill_list(PyObject *list, PyObject **values, intptr_t n, intptr_t more);

/* internals_views.c */
/* View of a value array over the shared table k; 0 when its order is not the table's. */
TORSHI_HIDDEN int internals_values_view(keys_table *k, value_array *v, torshi_dict_view *view);

/* internals_dict.c */
TORSHI_HIDDEN int direct_make_dicts(PyObject *const *keys, intptr_t nkeys,
                                    PyObject **const *columns, intptr_t n, PyObject **out);
TORSHI_HIDDEN int direct_fill_dict(PyObject *dict, PyObject **keys, PyObject **values, intptr_t n,
                                   intptr_t more);
#endif

#endif
