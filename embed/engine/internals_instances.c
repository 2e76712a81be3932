/*
 * internals_instances.c - instances made in bulk, without making their __dict__.
 *
 * Making follows what an unpickler does for NEWOBJ and BUILD. Once per call a plan is made from the
 * class: where it shows that BUILD would come to plain stores (no __setstate__ anywhere, generic
 * attribute access, the ordinary __dict__), the stores are made without BUILD's detours: slots at
 * their offsets, attributes by PyObject_GenericSetAttr, and in the direct edition into the inline
 * values, which keeps the instance's key-sharing dict and makes no __dict__ at all. A plan holds as
 * long as the class keeps its version tag.
 */
#include "internals_layout.h"

#include "structmember.h"

#define MEMBER_OBJECT 16 /* T_OBJECT_EX, Py_T_OBJECT_EX: an object, absent while NULL */

/* ---- how a class stores attributes ----------------------------------------------------------- */

/* Whether obj.__dict__ is the ordinary one: 1, 0, or -1 with an exception. */
static int has_ordinary_dict(PyTypeObject *type)
{
    PyObject *name = PyUnicode_InternFromString("__dict__");
    if (name == NULL) {
        return -1;
    }
    PyObject *descr = _PyType_Lookup(type, name); /* borrowed */
    int yes = descr != NULL && Py_IS_TYPE(descr, &PyGetSetDescr_Type) &&
              PyUnicode_Compare(((PyDescrObject *)descr)->d_name, name) == 0;
    Py_DECREF(name);
    return yes;
}

/* Whether the value found on the class for `name` takes part in storing. */
static int is_data_descriptor(PyTypeObject *type, PyObject *name)
{
    PyObject *descr = _PyType_Lookup(type, name);
    return descr != NULL && Py_TYPE(descr)->tp_descr_set != NULL;
}

typedef struct plan {
    PyTypeObject *cls;   /* borrowed from the caller */
    unsigned version;    /* of cls; 0: there is no plan, each row takes the general way */
    int generic_set;     /* attributes by PyObject_GenericSetAttr, else through __dict__ */
    Py_ssize_t *offsets; /* slots: offset of each field, 0: by PyObject_SetAttr; owned, or NULL */
} plan;

/* The offset of a slot named `name` that an ordinary store would fill, or 0. */
static Py_ssize_t slot_offset(PyTypeObject *type, PyObject *name)
{
    PyObject *descr = _PyType_Lookup(type, name);
    if (descr == NULL || !Py_IS_TYPE(descr, &PyMemberDescr_Type)) {
        return 0;
    }
    PyMemberDescrObject *member = (PyMemberDescrObject *)descr;
    if (member->d_member->type != MEMBER_OBJECT || member->d_member->flags != 0 ||
        !PyType_IsSubtype(type, member->d_common.d_type)) {
        return 0;
    }
    return member->d_member->offset;
}

/* 0, or -1 with an exception; releases nothing on failure but plan_clear is safe. */
static int plan_make(plan *p, PyTypeObject *cls, PyObject *const *names, Py_ssize_t nfields,
                     int slots)
{
    p->cls = cls;
    p->version = 0;
    p->generic_set = 1;
    p->offsets = NULL;
    if (cls->tp_new != PyBaseObject_Type.tp_new || cls->tp_getattro != PyObject_GenericGetAttr) {
        return 0;
    }
    PyObject *setstate = PyUnicode_InternFromString("__setstate__");
    if (setstate == NULL) {
        return -1;
    }
    int custom = _PyType_Lookup(cls, setstate) != NULL;
    Py_DECREF(setstate);
    if (custom) {
        return 0;
    }
    if (slots) {
        if (cls->tp_setattro != PyObject_GenericSetAttr) {
            return 0;
        }
        p->offsets = PyMem_Calloc((size_t)(nfields > 0 ? nfields : 1), sizeof(Py_ssize_t));
        if (p->offsets == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        for (Py_ssize_t f = 0; f < nfields; f++) {
            p->offsets[f] = slot_offset(cls, names[f]);
        }
    } else {
        int ordinary = has_ordinary_dict(cls);
        if (ordinary <= 0) {
            return ordinary;
        }
        for (Py_ssize_t f = 0; f < nfields; f++) {
            p->generic_set &= !is_data_descriptor(cls, names[f]);
        }
    }
    p->version = type_version(cls); /* the look-ups above made sure that there is one */
    return 0;
}

static void plan_clear(plan *p)
{
    PyMem_Free(p->offsets);
    p->offsets = NULL;
}

static inline int plan_holds(const plan *p, PyObject *inst)
{
    return p->version != 0 && Py_IS_TYPE(inst, p->cls) && type_version(p->cls) == p->version;
}

/* ---- the general way: NEWOBJ and BUILD as every unpickler has them --------------------------- */

/* UnpicklingError(format % name); the class is looked up, as there is no state here. */
static void raise_unpickling_error(const char *format, const char *name)
{
    PyObject *module = PyImport_ImportModule("_pickle");
    PyObject *cls = module == NULL ? NULL : PyObject_GetAttrString(module, "UnpicklingError");
    if (cls != NULL) {
        PyErr_Format(cls, format, name);
    }
    Py_XDECREF(cls);
    Py_XDECREF(module);
}

static PyObject *new_instance(PyObject *cls, PyObject *no_args)
{
    if (!PyType_Check(cls)) {
        raise_unpickling_error("NEWOBJ class argument must be a type, not %.200s",
                               Py_TYPE(cls)->tp_name);
        return NULL;
    }
    PyTypeObject *type = (PyTypeObject *)cls;
    if (type->tp_new == NULL) {
        raise_unpickling_error("NEWOBJ class argument '%.200s' doesn't have __new__",
                               type->tp_name);
        return NULL;
    }
    return type->tp_new(type, no_args, NULL);
}

/* The attribute, new, or NULL. The name is interned: the type cache keys on its address and keeps a
   reference, so a new str each time would fill the cache with copies. */
static PyObject *get_attribute(PyObject *obj, const char *name)
{
    PyObject *value = NULL;
    PyObject *interned = PyUnicode_InternFromString(name);
    if (interned != NULL) {
        value = PyObject_GetAttr(obj, interned);
        Py_DECREF(interned);
    }
    return value;
}

/* The attribute, new, or NULL: without an exception when there is none. */
static PyObject *optional_attribute(PyObject *obj, const char *name)
{
    PyObject *value = get_attribute(obj, name);
    if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
    }
    return value;
}

static int call_setstate(PyObject *setstate, PyObject *const *names, PyObject *const *row,
                         Py_ssize_t nfields, int slots)
{
    int status = -1;
    PyObject *result = NULL;
    PyObject *state = PyDict_New();

    for (Py_ssize_t f = 0; state != NULL && f < nfields; f++) {
        if (PyDict_SetItem(state, names[f], row[f]) < 0) {
            goto done;
        }
    }
    if (state != NULL && slots) {
        PyObject *pair = PyTuple_Pack(2, Py_None, state);
        Py_SETREF(state, pair);
    }
    if (state == NULL) {
        goto done;
    }
    result = PyObject_CallOneArg(setstate, state);
    status = result == NULL ? -1 : 0;
done:
    Py_XDECREF(result);
    Py_XDECREF(state);
    return status;
}

static int build_general(PyObject *inst, PyObject *const *names, PyObject *const *row,
                         Py_ssize_t nfields, int slots)
{
    int status = -1;
    PyObject *dict = NULL;
    PyObject *setstate = optional_attribute(inst, "__setstate__");

    if (setstate != NULL) {
        status = call_setstate(setstate, names, row, nfields, slots);
        Py_DECREF(setstate);
        return status;
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    if (!slots) {
        dict = get_attribute(inst, "__dict__");
        if (dict == NULL) {
            return -1;
        }
    }
    for (Py_ssize_t f = 0; f < nfields; f++) {
        if ((slots ? PyObject_SetAttr(inst, names[f], row[f])
                   : PyObject_SetItem(dict, names[f], row[f])) < 0) {
            goto done;
        }
    }
    status = 0;
done:
    Py_XDECREF(dict);
    return status;
}

/* ---- the plan at work ------------------------------------------------------------------------ */

/* Store the slots of a fresh instance; moves row[f] where it is done at the offset. */
static int build_slots(const plan *p, PyObject *inst, PyObject *const *names, PyObject **row,
                       Py_ssize_t nfields)
{
    for (Py_ssize_t f = 0; f < nfields; f++) {
        Py_ssize_t offset = p->offsets[f];
        if (offset > 0 && type_version(p->cls) == p->version) {
            PyObject **place = (PyObject **)(void *)((char *)inst + offset);
            PyObject *old = *place;
            *place = row[f];
            row[f] = NULL;
            Py_XDECREF(old);
        } else if (PyObject_SetAttr(inst, names[f], row[f]) < 0) {
            return -1;
        }
    }
    return 0;
}

static int build_attributes(const plan *p, PyObject *inst, PyObject *const *names,
                            PyObject *const *row, Py_ssize_t nfields)
{
    if (!p->generic_set) {
        return build_general(inst, names, row, nfields, 0);
    }
    for (Py_ssize_t f = 0; f < nfields; f++) {
        if (PyObject_GenericSetAttr(inst, names[f], row[f]) < 0) {
            return -1;
        }
    }
    return 0;
}

static int build_row(const plan *p, PyObject *inst, PyObject *const *names, PyObject **row,
                     Py_ssize_t nfields, int slots)
{
    if (!plan_holds(p, inst)) {
        return build_general(inst, names, row, nfields, slots);
    }
    return slots ? build_slots(p, inst, names, row, nfields)
                 : build_attributes(p, inst, names, row, nfields);
}

#if INTERNALS_SUPPORTED
/* Where each field lies in the class's shared table: the highest place + 1, or 0 when a field is
   missing or named twice. */
static unsigned find_shared(PyTypeObject *cls, PyObject *const *names, Py_ssize_t nfields,
                            unsigned *places)
{
    keys_table *k = type_shared_keys(cls);
    uint64_t seen = 0;
    unsigned bound = 0;
    if (k == NULL || nfields > SHARED_MAX) {
        return 0;
    }
    const unicode_entry *entries = keys_entries(k);
    for (Py_ssize_t f = 0; f < nfields; f++) {
        Py_ssize_t e = f < k->nentries && entries[f].key == names[f] ? f : 0;
        while (e < k->nentries && entries[e].key != names[f]) {
            e++;
        }
        if (e >= k->nentries || e >= SHARED_MAX || (seen >> e & 1)) {
            return 0;
        }
        seen |= (uint64_t)1 << e;
        places[f] = (unsigned)e;
        bound = (unsigned)e >= bound ? (unsigned)e + 1 : bound;
    }
    return bound;
}

/* The inline values of an instance that has no attributes yet and room for `bound`, or NULL. */
INTERNALS_INLINE value_array *blank_values(PyObject *inst, unsigned bound)
{
    PyObject *dict;
    value_array *v = instance_values(inst, &dict);
    return v != NULL && dict == NULL && values_size(v) == 0 && bound <= values_capacity(v) ? v
                                                                                           : NULL;
}
#endif

/* ---- make_instances -------------------------------------------------------------------------- */

static int make_instances(PyObject *cls, PyObject *const *names, intptr_t nfields, int slots,
                          int state_missing, PyObject **const *columns, intptr_t n, PyObject **out,
                          int direct)
{
    int status = -1;
    intptr_t row = 0;
    int build = nfields > 0 || !state_missing;
    plan p = {.cls = NULL, .version = 0, .offsets = NULL};
    PyObject **values = NULL; /* the references of one row, owned */
    PyObject **interned = NULL;
    PyObject *no_args = PyTuple_New(0);
    unsigned places[SHARED_MAX];
    unsigned inlined = 0; /* bound of places, 0: not known */

    if (nfields > PY_SSIZE_T_MAX / (Py_ssize_t)sizeof(PyObject *) || no_args == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    values = PyMem_Calloc((size_t)(nfields > 0 ? nfields : 1), sizeof *values);
    interned = PyMem_Calloc((size_t)(nfields > 0 ? nfields : 1), sizeof *interned);
    if (values == NULL || interned == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (intptr_t f = 0; f < nfields; f++) {
        interned[f] = names[f];
        Py_INCREF(interned[f]);
        PyUnicode_InternInPlace(&interned[f]);
    }
    if (build && n > 0 && PyType_Check(cls) &&
        plan_make(&p, (PyTypeObject *)cls, interned, nfields, slots) < 0) {
        goto done;
    }
    for (row = 0; row < n; row++) {
        PyObject *inst = new_instance(cls, no_args);
        if (TORSHI_UNLIKELY(inst == NULL)) {
            goto done;
        }
        out[row] = inst;
        if (!build) {
            continue;
        }
#if INTERNALS_SUPPORTED
        value_array *v;
        if (inlined && plan_holds(&p, inst) && (v = blank_values(inst, inlined)) != NULL) {
            for (intptr_t f = 0; f < nfields; f++) {
                v->values[places[f]] = columns[f][row];
                columns[f][row] = NULL;
                values_set_order(v, (unsigned)f, places[f]);
            }
            values_finish(v, (unsigned)nfields);
            continue;
        }
#endif
        for (intptr_t f = 0; f < nfields; f++) {
            values[f] = columns[f][row];
            columns[f][row] = NULL;
        }
        int built = build_row(&p, inst, interned, values, nfields, slots);
        internals_drop(values, nfields);
        if (built < 0) {
            row++;
            goto done;
        }
#if INTERNALS_SUPPORTED
        /* The stores just made brought the names into the table that all instances share. */
        if (direct && row < 2 && !slots && p.generic_set && plan_holds(&p, inst)) {
            inlined = find_shared(p.cls, interned, nfields, places);
        }
#endif
    }
    status = 0;
done:
    if (status < 0) {
        internals_drop(out, row);
    }
    if (status < 0 || !build) {
        internals_drop_columns(columns, nfields, n);
    }
    for (intptr_t f = 0; interned != NULL && f < nfields; f++) {
        Py_XDECREF(interned[f]);
    }
    plan_clear(&p);
    PyMem_Free(interned);
    PyMem_Free(values);
    Py_XDECREF(no_args);
    (void)direct;
    (void)inlined;
    (void)places;
    return status;
}

int public_make_instances(PyObject *cls, PyObject *const *names, intptr_t nfields, int slots,
                          int state_missing, PyObject **const *columns, intptr_t n, PyObject **out)
{
    return make_instances(cls, names, nfields, slots, state_missing, columns, n, out, 0);
}

int direct_make_instances(PyObject *cls, PyObject *const *names, intptr_t nfields, int slots,
                          int state_missing, PyObject **const *columns, intptr_t n, PyObject **out)
{
    return make_instances(cls, names, nfields, slots, state_missing, columns, n, out, 1);
}

/* ---- single instances, for the unpickler --------------------------------------
 */

#if INTERNALS_SUPPORTED

/* Whether a type's __dict__ is the ordinary one, remembered by type and version tag: this is asked
   for every BUILD. The notes hold no references; a version tag is never given twice within one
   interpreter, and a new interpreter (internals_check) makes all notes void. */
typedef struct dict_note {
    PyTypeObject *type;
    PyInterpreterState *interp;
    unsigned version;
    unsigned epoch;
    int ordinary;
} dict_note;

static unsigned notes_epoch;

void internals_forget_types(void)
{
    __atomic_add_fetch(&notes_epoch, 1, __ATOMIC_RELAXED);
}

static int has_ordinary_dict_noted(PyTypeObject *type)
{
    static _Thread_local dict_note notes[64];
    dict_note *note = &notes[((uintptr_t)type >> 4 ^ (uintptr_t)type >> 11) % 64];
    PyInterpreterState *interp = PyInterpreterState_Get();
    unsigned epoch = __atomic_load_n(&notes_epoch, __ATOMIC_RELAXED);
    unsigned version = type_version(type);
    if (version != 0 && note->type == type && note->version == version && note->interp == interp &&
        note->epoch == epoch) {
        return note->ordinary;
    }
    int ordinary = has_ordinary_dict(type);
    version = type_version(type);
    if (ordinary >= 0 && version != 0) {
        *note = (dict_note){type, interp, version, epoch, ordinary};
    }
    return ordinary;
}

int internals_build_instance(PyObject *inst, PyObject **items, Py_ssize_t n)
{
    PyTypeObject *type = Py_TYPE(inst);
    unsigned places[SHARED_MAX];
    PyObject *names[SHARED_MAX];

    if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT) || n > SHARED_MAX) {
        return 0;
    }
    value_array *v = blank_values(inst, 0);
    if (v == NULL || type_shared_keys(type) == NULL) {
        return 0;
    }
    int ordinary = has_ordinary_dict_noted(type);
    if (ordinary <= 0) {
        return ordinary;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        names[i] = items[2 * i];
    }
    unsigned bound = find_shared(type, names, n, places);
    if (bound > 0 && bound <= values_capacity(v)) {
        for (Py_ssize_t i = 0; i < n; i++) {
            Py_INCREF(items[2 * i + 1]);
            v->values[places[i]] = items[2 * i + 1];
            values_set_order(v, (unsigned)i, places[i]);
        }
        values_finish(v, (unsigned)n);
        return 1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!PyUnicode_CheckExact(names[i]) || is_data_descriptor(type, names[i])) {
            return 0;
        }
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (PyObject_GenericSetAttr(inst, names[i], items[2 * i + 1]) < 0) {
            return -1;
        }
    }
    return 1;
}

#else

void internals_forget_types(void) {}

int internals_build_instance(PyObject *inst, PyObject **items, Py_ssize_t n)
{
    (void)inst;
    (void)items;
    (void)n;
    return 0;
}

#endif
