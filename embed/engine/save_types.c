/*
 * save_types.c - what is known about a type: whether its instances pickle by object's own
 * __reduce_ex__, and where their slots are.
 *
 * An entry is believed while the type's version tag is the one it was made with. What a version
 * tag does not tell (copyreg.dispatch_table, the registration table) is looked up again in every
 * epoch, that is, whenever user code may have run.
 */
#include "save.h"

#include <structmember.h>

#define SLOTS_MAX 999 /* more would go in several batches */

#if PY_VERSION_HEX >= 0x030C0000
#define SLOT_OBJECT Py_T_OBJECT_EX
#else
#define SLOT_OBJECT T_OBJECT_EX
#endif

/* The type's version, which no other type and no later state of this one has; 0: none to be had. */
static unsigned int version_tag(torshi_savers *s, PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030C0000
    (void)s;
    return PyUnstable_Type_AssignVersionTag(type) ? type->tp_version_tag : 0;
#else
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) {
        (void)_PyType_Lookup(type, s->st->str_reduce_ex); /* assigns it */
    }
    return type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG ? type->tp_version_tag : 0;
#endif
}

static void drop_slots(type_info *e)
{
    type_slot *slots = e->slots;
    Py_ssize_t n = e->slot_count;
    e->slots = NULL;
    e->slot_count = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_DECREF(slots[i].name);
    }
    PyMem_Free(slots);
}

/* What the class's attributes say. */
static enum type_kind reducer_kind(torshi_savers *s, PyTypeObject *type)
{
    const torshi_state *st = s->st;
    PyTypeObject *meta = Py_TYPE(type);
    if (type->tp_getattro != PyObject_GenericGetAttr ||
        PyType_FastSubclass(type, Py_TPFLAGS_TYPE_SUBCLASS) ||
        _PyType_Lookup(type, st->str_reduce_ex) != s->object_reduce_ex ||
        _PyType_Lookup(type, st->str_class) != s->object_class) {
        return TYPE_GENERIC;
    }
    /* The class is asked for __reduce__ and hashed, so its own class matters, too. */
    if (meta != &PyType_Type &&
        (meta->tp_getattro != PyType_Type.tp_getattro || meta->tp_hash != PyType_Type.tp_hash ||
         meta->tp_richcompare != PyType_Type.tp_richcompare ||
         _PyType_Lookup(meta, st->str_reduce) != s->object_reduce)) {
        return TYPE_GENERIC;
    }
    if (_PyType_Lookup(type, st->str_reduce) != s->object_reduce) {
        return TYPE_REDUCE;
    }
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_new == NULL ||
        PyType_FastSubclass(type, Py_TPFLAGS_LIST_SUBCLASS) ||
        PyType_FastSubclass(type, Py_TPFLAGS_DICT_SUBCLASS) ||
        _PyType_Lookup(type, st->str_getnewargs_ex) != NULL ||
        _PyType_Lookup(type, st->str_getnewargs) != NULL) {
        return TYPE_GENERIC;
    }
    if (_PyType_Lookup(type, st->str_getstate) != s->object_getstate) {
        return TYPE_GETSTATE;
    }
    return type->tp_itemsize == 0 ? TYPE_DEFAULT : TYPE_GENERIC;
}

/* `name` as the class body of `owner` has it: __private becomes _Owner__private. New reference. */
static PyObject *mangled(PyTypeObject *owner, PyObject *name)
{
    Py_ssize_t n = PyUnicode_GET_LENGTH(name);
    const char *stripped = owner->tp_name;
    if (n < 2 || PyUnicode_READ_CHAR(name, 0) != '_' || PyUnicode_READ_CHAR(name, 1) != '_' ||
        (PyUnicode_READ_CHAR(name, n - 1) == '_' && PyUnicode_READ_CHAR(name, n - 2) == '_')) {
        return Py_NewRef(name);
    }
    while (*stripped == '_') {
        stripped++;
    }
    return *stripped != '\0' ? PyUnicode_FromFormat("_%s%U", stripped, name) : Py_NewRef(name);
}

/* Append what one class declares. 1; 0 when that is unusual; -1 with an exception. */
static int append_slots(PyObject *names, PyTypeObject *owner, PyObject *slots)
{
    PyObject *const *items = &slots;
    Py_ssize_t n = 1;
    if (PyTuple_CheckExact(slots) || PyList_CheckExact(slots)) {
        items = PySequence_Fast_ITEMS(slots);
        n = PySequence_Fast_GET_SIZE(slots);
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name;
        int failed;
        if (!PyUnicode_CheckExact(items[i])) {
            return 0;
        }
        if (PyUnicode_CompareWithASCIIString(items[i], "__dict__") == 0 ||
            PyUnicode_CompareWithASCIIString(items[i], "__weakref__") == 0) {
            continue;
        }
        name = mangled(owner, items[i]);
        failed = name == NULL || PyList_Append(names, name) < 0;
        Py_XDECREF(name);
        if (failed) {
            return -1;
        }
    }
    return 1;
}

/* Make the list that copyreg._slotnames makes when stock pickle first reduces an instance, and keep
   it where that does. Runs no code of the class's. Borrowed, or NULL when the class is unusual. */
static PyObject *make_slot_names(torshi_savers *s, PyTypeObject *type)
{
    PyObject *mro = type->tp_mro;
    PyObject *names = PyList_New(0);
    int usual = names == NULL ? -1 : Py_TYPE(type) == &PyType_Type;
    for (Py_ssize_t i = 0; usual == 1 && i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        PyObject *slots =
            base->tp_dict == NULL ? NULL : PyDict_GetItemWithError(base->tp_dict, s->str_slots);
        if (base->tp_flags & Py_TPFLAGS_HEAPTYPE) {
            usual = slots == NULL ? base->tp_dict != NULL : append_slots(names, base, slots);
        } else if (base != &PyBaseObject_Type) {
            usual = 0;
        }
    }
    if (usual == 1 && PyObject_SetAttr((PyObject *)type, s->str_slotnames, names) < 0) {
        usual = -1;
    }
    Py_XDECREF(names);
    PyErr_Clear();
    return usual == 1 ? PyDict_GetItemWithError(type->tp_dict, s->str_slotnames) : NULL;
}

/* copyreg's list of slot names, borrowed; *none is set when there are none and no list is needed.
   NULL: the class is unusual. */
static PyObject *slot_names(torshi_savers *s, PyTypeObject *type, int *none)
{
    PyObject *names = PyDict_GetItemWithError(type->tp_dict, s->str_slotnames);
    PyObject *mro = type->tp_mro;
    *none = 0;
    if (names != NULL) {
        return names;
    }
    if (mro == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        if (base->tp_flags & Py_TPFLAGS_HEAPTYPE) {
            if (base->tp_dict == NULL ||
                PyDict_GetItemWithError(base->tp_dict, s->str_slots) != NULL) {
                return make_slot_names(s, type);
            }
        } else if (base != &PyBaseObject_Type) {
            return NULL;
        }
    }
    *none = 1;
    return NULL;
}

/* Fill in slots. 1, or 0 when an attribute is not a plain slot. */
static int find_slots(type_info *e, PyTypeObject *type, PyObject *names)
{
    Py_ssize_t n = PyList_GET_SIZE(names);
    if (n == 0) {
        return 1;
    }
    if (n > SLOTS_MAX || (e->slots = PyMem_Malloc((size_t)n * sizeof(type_slot))) == NULL) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyList_GET_ITEM(names, i);
        PyMemberDescrObject *descr;
        if (!PyUnicode_CheckExact(name)) {
            return 0;
        }
        descr = (PyMemberDescrObject *)_PyType_Lookup(type, name);
        if (descr == NULL || !Py_IS_TYPE(descr, &PyMemberDescr_Type) ||
            descr->d_member->type != SLOT_OBJECT || !PyType_IsSubtype(type, PyDescr_TYPE(descr))) {
            return 0;
        }
        e->slots[e->slot_count++] = (type_slot){Py_NewRef(name), descr->d_member->offset};
    }
    return 1;
}

static enum type_kind classify(torshi_savers *s, type_info *e, PyTypeObject *type)
{
    PyObject *names;
    Py_ssize_t size = PyBaseObject_Type.tp_basicsize;
    int none;
    enum type_kind kind = reducer_kind(s, type);
    drop_slots(e);
    e->has_dict = type->tp_dictoffset != 0;
    if (kind != TYPE_DEFAULT) {
        return kind;
    }
    names = slot_names(s, type, &none);
    if (!none && (names == NULL || !PyList_CheckExact(names))) {
        return TYPE_GENERIC;
    }
    if (names != NULL && !find_slots(e, type, names)) {
        return TYPE_GENERIC;
    }
    /* An instance that holds more than a dict, weak references and slots cannot be pickled. */
    if (e->has_dict && !(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) {
        size += (Py_ssize_t)sizeof(PyObject *);
    }
    if (type->tp_weaklistoffset > 0) {
        size += (Py_ssize_t)sizeof(PyObject *);
    }
    size += e->slot_count * (Py_ssize_t)sizeof(PyObject *);
    return type->tp_basicsize > size ? TYPE_GENERIC : TYPE_DEFAULT;
}

type_info *type_info_of(torshi_savers *s, PyTypeObject *type)
{
    uintptr_t a = (uintptr_t)type >> 4;
    type_info *e = &s->cache[(a ^ (a >> 9)) & (TYPE_CACHE_SIZE - 1)];
    unsigned int tag;
    uint64_t rows;
    if (TORSHI_LIKELY(e->type == type && e->epoch == s->epoch)) {
        return e;
    }
    tag = version_tag(s, type);
    if (e->type != type || e->tag != tag || tag == 0) {
        e->nature = classify(s, e, type);
        e->type = type;
        e->tag = tag;
        e->rows_version = 0;
        PyErr_Clear();
    }
    e->kind = e->nature;
    if (e->kind == TYPE_DEFAULT &&
        PyDict_GetItemWithError(s->st->dispatch_table, (PyObject *)type) != NULL) {
        e->kind = TYPE_GENERIC;
    }
    rows = registry_version(s->st->registry);
    if (e->rows_version != rows) {
        e->row = registry_saver(s->st->registry, type);
        e->rows_version = rows;
    }
    e->epoch = s->epoch;
    return e;
}

void types_clear(torshi_savers *s)
{
    for (size_t i = 0; i < TYPE_CACHE_SIZE; i++) {
        drop_slots(&s->cache[i]);
        s->cache[i].type = NULL;
        s->cache[i].epoch = 0;
    }
}
