/*
 * object_ref.c - torshi.ObjectRef: an id, its owner, and where it was made.
 *
 * The registry is weak: it knows all ObjectRefs that are alive and owns none. Each hangs in a chain
 * and knows what points to it there, so to enter and to leave take no search. Loading enters in the
 * chain of new ones; a count sorts those into a table by the hash of the id first.
 */
#include "decode.h"
#include "refs.h"

#include <stddef.h>
#include <structmember.h>

#define REGISTRY_START 64
/* Bytes of an id as schedulers have them: a copy of known size is two moves, not a call. */
#define USUAL_ID 28

/* ---- the registry -------------------------------------------------------------------------------
 */
static inline uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

static inline size_t hash_id(const ref_registry *registry, const unsigned char *id, size_t n)
{
    uint64_t h = registry->seed ^ n, word;
    for (; n >= sizeof(word); n -= sizeof(word), id += sizeof(word)) {
        memcpy(&word, id, sizeof(word));
        h = mix(h, word);
    }
    word = 0;
    memcpy(&word, id, n);
    return (size_t)mix(h, word);
}

static inline void chain_enter(object_ref **chain, object_ref *ref)
{
    ref->next = *chain;
    ref->link = chain;
    if (ref->next) {
        ref->next->link = &ref->next;
    }
    *chain = ref;
}

static inline void chain_leave(object_ref *ref)
{
    *ref->link = ref->next;
    if (ref->next) {
        ref->next->link = ref->link;
    }
}

/* Enter all of a chain in the table. */
static void place_chain(const ref_registry *registry, object_ref **buckets, size_t mask,
                        object_ref *ref)
{
    for (object_ref *next; ref; ref = next) {
        next = ref->next;
        chain_enter(&buckets[hash_id(registry, ref->id, (size_t)Py_SIZE(ref)) & mask], ref);
    }
}

/* A table of `size` chains with what was in the old one. 0, or -1 with MemoryError. */
static int registry_resize(ref_registry *registry, size_t size)
{
    object_ref **buckets = PyMem_Calloc(size, sizeof(*buckets));
    if (!buckets) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; registry->buckets && i <= registry->mask; i++) {
        place_chain(registry, buckets, size - 1, registry->buckets[i]);
    }
    PyMem_Free(registry->buckets);
    registry->buckets = buckets;
    registry->mask = size - 1;
    return 0;
}

static size_t chain_length(const object_ref *ref)
{
    size_t n = 0;
    for (; ref; ref = ref->next) {
        n++;
    }
    return n;
}

/* Give new references their places. 0, or -1 with MemoryError. */
static int registry_sort(ref_registry *registry)
{
    size_t fresh = chain_length(registry->fresh);
    size_t size = registry->buckets ? registry->mask + 1 : 0;
    if (!size || registry->placed + fresh > size) {
        registry->placed = 0; /* without those that are gone */
        for (size_t i = 0; i < size; i++) {
            registry->placed += chain_length(registry->buckets[i]);
        }
        size_t wanted = size ? size : REGISTRY_START;
        while (wanted < registry->placed + fresh) {
            wanted *= 2;
        }
        if (wanted != size && registry_resize(registry, wanted) < 0) {
            return -1;
        }
    }
    object_ref *first = registry->fresh;
    registry->fresh = NULL;
    place_chain(registry, registry->buckets, registry->mask, first);
    registry->placed += fresh;
    return 0;
}

void ref_registry_clear(ref_registry *registry)
{
    PyMem_Free(registry->buckets); /* nothing is in it: each reference keeps the module alive */
    registry->buckets = NULL;
    registry->mask = registry->placed = 0;
}

static bool has_id(const object_ref *ref, const unsigned char *id, size_t n)
{
    return (size_t)Py_SIZE(ref) == n && memcmp(ref->id, id, n) == 0;
}

/* ---- making -------------------------------------------------------------------------------------
 */
/* What PyObject_NewVar does, but for the reference to the type: two calls less a reference, a tenth
   of the time of a load (tools/bench --refs). */
static inline object_ref *ref_alloc(PyTypeObject *type, size_t n)
{
#if defined(Py_TRACE_REFS) || defined(Py_REF_DEBUG) || defined(Py_GIL_DISABLED)
    object_ref *ref = PyObject_NewVar(object_ref, type, (Py_ssize_t)n);
    if (ref) {
        Py_DECREF(type);
    }
    return ref;
#else
    object_ref *ref = PyObject_Malloc(offsetof(object_ref, id) + n);
    if (PLUGIN_UNLIKELY(!ref)) {
        PyErr_NoMemory();
        return NULL;
    }
    ((PyObject *)ref)->ob_refcnt = 1;
    ((PyObject *)ref)->ob_type = type;
    ((PyVarObject *)ref)->ob_size = (Py_ssize_t)n;
    return ref;
#endif
}

/* Fill in a reference that is not there for anybody yet; steals owner and site. */
static inline void ref_set(ref_registry *registry, object_ref *ref, const unsigned char *id,
                           size_t n, PyObject *owner, PyObject *site)
{
    ref->weakrefs = NULL;
    ref->owner = owner;
    ref->site = site;
    if (PLUGIN_LIKELY(n == USUAL_ID)) {
        memcpy(ref->id, id, USUAL_ID);
    } else {
        memcpy(ref->id, id, n);
    }
    chain_enter(&registry->fresh, ref);
}

int object_refs_make(ref_state *state, const unsigned char *blob, const uint32_t *lens,
                     const ref_part *owners, const ref_part *sites, size_t n, PyObject **out,
                     PyObject **rolled)
{
    PyTypeObject *type = state->object_ref_type;
    size_t i = 0;
    for (; i < n; i++) {
        object_ref *ref = ref_alloc(type, lens[i]);
        if (PLUGIN_UNLIKELY(!ref)) {
            break;
        }
        ref_set(&state->registry, ref, blob, lens[i], Py_NewRef(ref_part_at(owners, i)),
                Py_NewRef(ref_part_at(sites, i)));
        out[i] = (PyObject *)ref;
        rolled[i] = Py_NewRef(ref); /* while it is in the cache */
        blob += lens[i];
    }
    Py_SET_REFCNT((PyObject *)type, Py_REFCNT(type) + (Py_ssize_t)i);
    if (i == n) {
        return 0;
    }
    for (size_t j = 0; j < i; j++) {
        Py_CLEAR(rolled[j]);
    }
    release_refs(out, i);
    return -1;
}

/* A new reference; NULL with MemoryError. */
static PyObject *ref_make(ref_state *state, PyObject *id, PyObject *owner, PyObject *site)
{
    object_ref *ref = ref_alloc(state->object_ref_type, (size_t)PyBytes_GET_SIZE(id));
    if (ref) {
        Py_INCREF(state->object_ref_type);
        ref_set(&state->registry, ref, (const unsigned char *)PyBytes_AS_STRING(id),
                (size_t)PyBytes_GET_SIZE(id), Py_NewRef(owner), Py_NewRef(site));
    }
    return (PyObject *)ref;
}

/* Checks the arguments. New reference or NULL. */
static PyObject *ref_make_checked(ref_state *state, PyObject *id, PyObject *owner, PyObject *site)
{
    if (!PyBytes_CheckExact(id)) {
        PyErr_Format(PyExc_TypeError, "ObjectRef: id must be bytes, not %.200s",
                     Py_TYPE(id)->tp_name);
        return NULL;
    }
    if (!PyBytes_CheckExact(owner)) {
        PyErr_Format(PyExc_TypeError, "ObjectRef: owner must be bytes, not %.200s",
                     Py_TYPE(owner)->tp_name);
        return NULL;
    }
    if (site != Py_None && !PyUnicode_CheckExact(site)) {
        PyErr_Format(PyExc_TypeError, "ObjectRef: site must be str or None, not %.200s",
                     Py_TYPE(site)->tp_name);
        return NULL;
    }
    return ref_make(state, id, owner, site);
}

static PyObject *ref_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "owner", "site", NULL};
    PyObject *id, *owner = NULL, *site = Py_None, *ref = NULL;
    ref_state *state = PyType_GetModuleState(type);
    if (!state ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OO:ObjectRef", names, &id, &owner, &site)) {
        return NULL;
    }
    PyObject *nobody = owner ? NULL : PyBytes_FromStringAndSize(NULL, 0);
    if (owner || nobody) {
        ref = ref_make_checked(state, id, owner ? owner : nobody, site);
    }
    Py_XDECREF(nobody);
    return ref;
}

PyObject *object_ref_load(void *plugin, torshi_load *load, PyObject *const *args, intptr_t nargs)
{
    (void)load;
    if (nargs != 3) {
        PyErr_Format(PyExc_TypeError, "object_ref() takes 3 arguments, got %zd", (Py_ssize_t)nargs);
        return NULL;
    }
    return ref_make_checked(refs_of(plugin), args[0], args[1], args[2]);
}

PyObject *object_ref_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    if (kwnames && PyTuple_GET_SIZE(kwnames)) {
        PyErr_SetString(PyExc_TypeError, "object_ref() takes no keyword arguments");
        return NULL;
    }
    return object_ref_load(plugin, NULL, args, nargs);
}

PyObject *object_ref_maker(const plugin_state *plugin)
{
    return plugin->services->function_object(plugin->services, "torshi", "object_ref");
}

/* ---- the type -----------------------------------------------------------------------------------
 */
static void ref_dealloc(object_ref *ref)
{
    PyTypeObject *type = Py_TYPE(ref);
    if (ref->weakrefs) {
        PyObject_ClearWeakRefs((PyObject *)ref);
    }
    chain_leave(ref);
    Py_DECREF(ref->owner);
    Py_DECREF(ref->site);
    PyObject_Free(ref);
    Py_DECREF(type);
}

static PyObject *get_id(object_ref *ref, void *unused)
{
    (void)unused;
    return PyBytes_FromStringAndSize((const char *)ref->id, Py_SIZE(ref));
}

static Py_hash_t ref_hash(object_ref *ref)
{
    PyObject *id = get_id(ref, NULL); /* so that it is hash(ref.id), with the process's own key */
    Py_hash_t hash = id ? PyObject_Hash(id) : -1;
    Py_XDECREF(id);
    return hash;
}

static PyObject *ref_compare(PyObject *a, PyObject *b, int op)
{
    if ((op != Py_EQ && op != Py_NE) || Py_TYPE(a) != Py_TYPE(b)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    const object_ref *x = (const object_ref *)a, *y = (const object_ref *)b;
    return PyBool_FromLong(has_id(x, y->id, (size_t)Py_SIZE(y)) == (op == Py_EQ));
}

static PyObject *ref_hex(object_ref *ref, PyObject *unused)
{
    (void)unused;
    PyObject *id = get_id(ref, NULL);
    PyObject *text = id ? PyObject_CallMethod(id, "hex", NULL) : NULL;
    Py_XDECREF(id);
    return text;
}

static PyObject *ref_repr(object_ref *ref)
{
    PyObject *hex = ref_hex(ref, NULL);
    PyObject *text = hex ? PyUnicode_FromFormat("torshi.ObjectRef(%U)", hex) : NULL;
    Py_XDECREF(hex);
    return text;
}

static PyObject *ref_reduce(object_ref *ref, PyObject *unused)
{
    (void)unused;
    ref_state *state = PyType_GetModuleState(Py_TYPE(ref));
    PyObject *id = state->make_ref ? get_id(ref, NULL) : NULL;
    if (!id) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_RuntimeError, "torshi is being shut down");
        }
        return NULL;
    }
    return Py_BuildValue("O(NOO)", state->make_ref, id, ref->owner, ref->site);
}

static PyMemberDef ref_members[] = {
    {"owner", T_OBJECT_EX, offsetof(object_ref, owner), READONLY, "Address of the owner, bytes."},
    {"site", T_OBJECT_EX, offsetof(object_ref, site), READONLY, "Where it was made: str or None."},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(object_ref, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef ref_getset[] = {
    {"id", (getter)get_id, NULL, "The id, bytes.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef ref_methods[] = {
    {"hex", (PyCFunction)ref_hex, METH_NOARGS, "hex($self, /)\n--\n\nThe id in hexadecimal."},
    {"__reduce__", (PyCFunction)ref_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static const char ref_doc[] =
    "ObjectRef(id, *, owner=b'', site=None)\n--\n\n"
    "A reference to an object that is elsewhere. References are equal when their ids are, and each "
    "is\ncounted (torshi.ref_count) from when it is made until it is gone.";

#define SLOT_FN(f) (__extension__(void *)(f))

static PyType_Slot ref_slots[] = {
    {Py_tp_doc, (void *)ref_doc},
    {Py_tp_new, SLOT_FN(ref_new)},
    {Py_tp_dealloc, SLOT_FN(ref_dealloc)},
    {Py_tp_hash, SLOT_FN(ref_hash)},
    {Py_tp_richcompare, SLOT_FN(ref_compare)},
    {Py_tp_repr, SLOT_FN(ref_repr)},
    {Py_tp_members, ref_members},
    {Py_tp_getset, ref_getset},
    {Py_tp_methods, ref_methods},
    {0, NULL},
};

static PyType_Spec ref_spec = {
    .name = "torshi.ObjectRef",
    .basicsize = offsetof(object_ref, id),
    .itemsize = 1,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = ref_slots,
};

PyTypeObject *object_ref_type_new(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &ref_spec, NULL);
}

/* ---- counts -------------------------------------------------------------------------------------
 */
PyObject *ref_count_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    if (nargs != 1 || kwnames || !PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "ref_count() takes one argument, an id of bytes");
        return NULL;
    }
    ref_registry *registry = &refs_of(plugin)->registry;
    if (registry_sort(registry) < 0) {
        return NULL;
    }
    const unsigned char *id = (const unsigned char *)PyBytes_AS_STRING(args[0]);
    size_t n = (size_t)PyBytes_GET_SIZE(args[0]), count = 0;
    for (const object_ref *ref = registry->buckets[hash_id(registry, id, n) & registry->mask]; ref;
         ref = ref->next) {
        count += has_id(ref, id, n);
    }
    return PyLong_FromSize_t(count);
}

/* counts[id] += 1. 0 or -1. */
static int count_one(PyObject *counts, object_ref *ref)
{
    PyObject *id = get_id(ref, NULL), *sum = NULL;
    int status = -1;
    if (!id) {
        return -1;
    }
    PyObject *old = PyDict_GetItemWithError(counts, id);
    if (!old && PyErr_Occurred()) {
        goto done;
    }
    sum = PyLong_FromSize_t((old ? PyLong_AsSize_t(old) : 0) + 1);
    status = sum ? PyDict_SetItem(counts, id, sum) : -1;
done:
    Py_XDECREF(sum);
    Py_DECREF(id);
    return status;
}

PyObject *ref_counts_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    (void)args;
    if (nargs || kwnames) {
        PyErr_SetString(PyExc_TypeError, "ref_counts() takes no arguments");
        return NULL;
    }
    ref_registry *registry = &refs_of(plugin)->registry;
    PyObject *counts = PyDict_New();
    if (counts && registry_sort(registry) < 0) {
        Py_CLEAR(counts);
    }
    /* Counting makes bytes and ints only: no collection starts and no reference is made or lost. */
    for (size_t i = 0; counts && i <= registry->mask; i++) {
        for (object_ref *ref = registry->buckets[i]; counts && ref; ref = ref->next) {
            if (count_one(counts, ref) < 0) {
                Py_CLEAR(counts);
            }
        }
    }
    return counts;
}
