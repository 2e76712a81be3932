/*
 * types.c - what a chunk knows about the types of instances and values, looked up once a chunk. No
 * Python code runs between the scan of a chunk's first row and its last, so types do not change.
 */
#include "types.h"
#include "encode_ref.h"

#include <structmember.h>

/* ---- slots --------------------------------------------------------------------------------------
 */
/* `name` as the class body of `owner` would have it: __private becomes _Owner__private. New. */
static PyObject *mangle(PyTypeObject *owner, PyObject *name)
{
    Py_ssize_t n = PyUnicode_GET_LENGTH(name);
    if (n < 2 || PyUnicode_READ_CHAR(name, 0) != '_' || PyUnicode_READ_CHAR(name, 1) != '_' ||
        (n >= 4 && PyUnicode_READ_CHAR(name, n - 1) == '_' &&
         PyUnicode_READ_CHAR(name, n - 2) == '_')) {
        return Py_NewRef(name);
    }
    const char *stripped = owner->tp_name;
    while (*stripped == '_') {
        stripped++;
    }
    return *stripped ? PyUnicode_FromFormat("_%s%U", stripped, name) : Py_NewRef(name);
}

/* One more slot of the type: its descriptor must be the plain one. 1, 0 or -1. */
static int add_slot(chunk_writer *w, type_entry *t, PyTypeObject *owner, PyObject *raw, size_t room)
{
    if (!PyUnicode_CheckExact(raw) || t->slots >= room) {
        return 0;
    }
    if (PyUnicode_CompareWithASCIIString(raw, "__dict__") == 0 ||
        PyUnicode_CompareWithASCIIString(raw, "__weakref__") == 0) {
        return 1;
    }
    PyObject *name = mangle(owner, raw);
    if (!name) {
        return -1;
    }
    PyObject *found = _PyType_Lookup(t->type, name);
    int known = 0;
    if (found && Py_IS_TYPE(found, &PyMemberDescr_Type)) {
        const PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
        if (member->type == T_OBJECT_EX) {
            /* the descriptor's own name is the one that stays alive */
            t->names[t->slots] = ((PyDescrObject *)found)->d_name;
            t->offsets[t->slots++] = member->offset;
            known = PyUnicode_Compare(((PyDescrObject *)found)->d_name, name) == 0;
        }
    }
    (void)w;
    Py_DECREF(name);
    return known;
}

/* The slots in copyreg's order: from the type up its MRO. 1; 0 when one is out of the ordinary. */
int find_slots(chunk_writer *w, type_entry *t)
{
    enum { MOST = 256 };
    PyObject *mro = t->type->tp_mro;
    PyObject *slots_name = PyUnicode_InternFromString("__slots__");
    int status = slots_name ? 1 : -1;
    for (Py_ssize_t i = 0; status == 1 && i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *owner = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        if (!(owner->tp_flags & Py_TPFLAGS_HEAPTYPE) || !owner->tp_dict) {
            continue;
        }
        PyObject *slots = PyDict_GetItemWithError(owner->tp_dict, slots_name);
        if (!slots) {
            status = PyErr_Occurred() ? -1 : 1;
            continue;
        }
        if (!t->names) {
            t->names = arena_alloc(&w->lasting, MOST, sizeof(*t->names));
            t->offsets = arena_alloc(&w->lasting, MOST, sizeof(*t->offsets));
            if (!t->names || !t->offsets) {
                status = -1;
                break;
            }
        }
        if (PyUnicode_CheckExact(slots)) {
            status = add_slot(w, t, owner, slots, MOST);
        } else if (PyTuple_CheckExact(slots) || PyList_CheckExact(slots)) {
            Py_ssize_t n = PySequence_Fast_GET_SIZE(slots);
            for (Py_ssize_t j = 0; status == 1 && j < n; j++) {
                status = add_slot(w, t, owner, PySequence_Fast_GET_ITEM(slots, j), MOST);
            }
        } else {
            status = 0;
        }
    }
    /* a name in two classes is one attribute, which copyreg would save twice: leave it to pickle */
    for (size_t i = 0; status == 1 && i < t->slots; i++) {
        for (size_t j = 0; j < i; j++) {
            if (t->names[i] == t->names[j] || PyUnicode_Compare(t->names[i], t->names[j]) == 0) {
                status = 0;
            }
        }
    }
    Py_XDECREF(slots_name);
    return status;
}

/* ---- default path -------------------------------------------------------------------------------
 */
/* 1, 0 or -1. */
static int type_has(PyTypeObject *type, const char *text)
{
    PyObject *name = PyUnicode_InternFromString(text);
    if (!name) {
        return -1;
    }
    int found = _PyType_Lookup(type, name) != NULL;
    Py_DECREF(name);
    return found;
}

static int find_form(chunk_writer *w, type_entry *t, PyObject *obj)
{
    t->form = TYPE_PENDING;
    int reference = find_ref_form(w, t);
    if (reference || w->hooks) {
        return reference < 0 ? -1 : 0;
    }
    if (is_excluded(w, (PyObject *)t->type)) {
        return 0;
    }
    if (find_value_form(w, t) < 0) {
        return -1;
    }
    if (t->form != TYPE_PENDING || !(t->type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        return 0;
    }
    int plain = w->services->is_default_instance(w->dump, obj);
    if (plain <= 0) {
        return plain;
    }
    int has_setstate = type_has(t->type, "__setstate__");
    if (has_setstate) {
        return has_setstate < 0 ? -1 : 0;
    }
    t->has_dict = t->type->tp_dictoffset != 0;
#ifdef Py_TPFLAGS_MANAGED_DICT
    t->has_dict |= (t->type->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0;
#endif
    int slots = find_slots(w, t);
    if (slots > 0) {
        t->form = TYPE_INSTANCE;
    }
    return slots < 0 ? -1 : 0;
}

type_entry *type_of(chunk_writer *w, PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    type_entry **recent = &w->recent[((uintptr_t)type >> 6 ^ (uintptr_t)type >> 10) % 8];
    if (*recent && (*recent)->type == type) {
        return *recent;
    }
    if (w->failed) { /* with an exception, which further look-ups could clear */
        return NULL;
    }
    seen_entry *e = seen_find(&w->seen, (PyObject *)type);
    if (!e) {
        return NULL;
    }
    if (e->obj && e->column == TYPE_SERIAL) {
        return *recent = w->types[e->index];
    }
    if (w->type_count == w->type_room) {
        type_entry **grown = writer_grow(w->types, &w->type_room, sizeof(*w->types));
        if (!grown) {
            return NULL;
        }
        w->types = grown;
    }
    type_entry *t = arena_alloc(&w->lasting, 1, sizeof(*t));
    if (!t) {
        return NULL;
    }
    memset(t, 0, sizeof(*t));
    t->type = type;
    if (find_form(w, t, obj) < 0) {
        return NULL;
    }
    seen_enter(&w->seen, e, (PyObject *)type, TYPE_SERIAL);
    e->index = (uint32_t)w->type_count;
    w->types[w->type_count++] = t;
    return *recent = t;
}
