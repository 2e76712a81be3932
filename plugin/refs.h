/*
 * refs.h - object references: torshi.ObjectRef, the classes that register_ref names, and what a
 * load has in common for all references in it.
 *
 * All of it is the state of a module object that the plugin owns for its interpreter. The types
 * made here hold that module, so the registry of an ObjectRef outlives it.
 */
#ifndef TORSHI_REFS_H
#define TORSHI_REFS_H

#include "plugin.h"

/* ---- torshi.ObjectRef (object_ref.c) ------------------------------------------------------------
 */
typedef struct object_ref object_ref;

/* All live ObjectRefs of an interpreter: chains, which own nothing. New ones hang in `fresh` and
   get their place by id when somebody asks for a count. */
typedef struct ref_registry {
    object_ref *fresh;
    object_ref **buckets; /* owned; a power of two of them, or NULL */
    size_t mask;
    size_t placed; /* entered in buckets since they were counted, whether still there or not */
    uint64_t seed;
} ref_registry;

struct object_ref {
    PyObject_VAR_HEAD       /* ob_size: bytes of the id */
        PyObject *weakrefs; /* of weakref.ref */
    object_ref *next;       /* in its chain */
    object_ref **link;      /* what points to it there */
    PyObject *owner;        /* owned; exact bytes */
    PyObject *site;         /* owned; exact str or None */
    unsigned char id[];
};

/* ---- registered classes (refs.c) ----------------------------------------------------------------
 */
/* Callables that are known to make references of a class. */
#define REF_CALLABLES 8

typedef struct ref_class {
    size_t refs;        /* the table, and each use under way */
    PyObject *cls;      /* owned, as is all below */
    PyObject *reduce;   /* in copyreg.dispatch_table; NULL: the class's own way */
    PyObject *replaced; /* what reduce took the place of there, or NULL */
    bool withdrawn;     /* reduce was taken out there again */
    PyObject *batch;    /* NULL: the callable, row by row */
    PyObject *outer;    /* called for load.outer; NULL: None */
    PyObject *worker;   /* called for load.worker; NULL: None */
    PyObject *callables[REF_CALLABLES];
    size_t callable_count;
    bool callables_given; /* else the class and what its reducers return are added */
    size_t arguments;     /* of the last reduction; 0: not known */
} ref_class;

typedef struct ref_state {
    ref_registry registry;
    PyTypeObject *object_ref_type; /* owned */
    PyTypeObject *load_type;       /* owned */
    PyObject *make_ref;            /* borrowed function row torshi.object_ref, once looked up */
    ref_class **classes;           /* owned */
    size_t class_count;
} ref_state;

int refs_init(plugin_state *plugin); /* 0, or -1 with an exception */
int refs_traverse(plugin_state *plugin, int (*visit)(PyObject *, void *), void *arg);
void refs_clear(plugin_state *plugin); /* idempotent */
ref_state *refs_of(const plugin_state *plugin);

/* Function rows. */
PyObject *object_ref_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames);
PyObject *object_ref_load(void *plugin, torshi_load *load, PyObject *const *args, intptr_t nargs);
PyObject *ref_count_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames);
PyObject *ref_counts_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames);
PyObject *ref_types_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames);
PyObject *register_ref_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames);
/* The registration of a class as it is now, or None; and: if `made` is still that of its class, put
   `before` back in its place, or nothing. For plugins that are refused. */
PyObject *known_ref_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames);
PyObject *restore_ref_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames);
PyObject *unregister_ref_call(void *plugin, PyObject *const *args, intptr_t nargs,
                              PyObject *kwnames);

/* object_ref.c, for refs.c */
PyTypeObject *object_ref_type_new(PyObject *module);
void ref_registry_clear(ref_registry *registry);
/* The owners or sites of n references: entries[indexes[i]], or entries[i] where there are none. */
typedef struct ref_part {
    PyObject **entries; /* borrowed references */
    size_t count;
    const uint32_t *indexes;
} ref_part;

static inline PyObject *ref_part_at(const ref_part *part, size_t i)
{
    return part->entries[part->indexes ? part->indexes[i] : i];
}

/*
 * n ObjectRefs: ids out of a blob, lens[i] bytes each; owners are exact bytes, sites exact str or
 * None. `out` and `rolled` are filled with new references to the same objects. 0, or -1 with `out`
 * left empty and NULLs in `rolled`.
 */
int object_refs_make(ref_state *state, const unsigned char *blob, const uint32_t *lens,
                     const ref_part *owners, const ref_part *sites, size_t n, PyObject **out,
                     PyObject **rolled);
/* What makes an ObjectRef of (id, owner, site) when called: torshi.object_ref; borrowed or NULL. */
PyObject *object_ref_maker(const plugin_state *plugin);

/* ref_load.c */
PyTypeObject *ref_load_type_new(PyObject *module);

/* The registration of a class, or of the class that `callable` makes and that has a batch;
   borrowed, NULL without an exception. Anything that runs Python code may drop it: see keep. */
ref_class *ref_class_find(const ref_state *state, PyObject *cls);
ref_class *ref_class_of_callable(const ref_state *state, PyObject *callable);
ref_class *ref_class_keep(ref_class *c);
void ref_class_drop(ref_class *c);
/* Note that `callable` makes references of c. */
void ref_class_learn(ref_class *c, PyObject *callable);

/*
 * batch(load, *columns): n references out of `count` columns of n values, into `out`. The columns
 * are borrowed. `load` and *own_load are for ref_load_get: the load at work, or NULL and a place
 * that lasts as long as the call. 0, or -1 with an exception and `out` left empty.
 */
int ref_batch_call(plugin_state *plugin, torshi_load *load, PyObject **own_load, ref_class *c,
                   PyObject ***columns, size_t count, size_t n, PyObject **out);
/* What `ref_batch_call` left in its place is no longer needed. */
void ref_load_end(PyObject *own_load);

#endif
