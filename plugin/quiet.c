/*
 * quiet.c - the services that a scan for columns asks for, when no dump is in progress.
 *
 * Nothing in here runs Python code: what would is answered with "not plain".
 */
#include "reduce.h"

static PyObject *find_attribute(PyTypeObject *type, const char *text)
{
    PyObject *name = PyUnicode_InternFromString(text);
    PyObject *found = name ? _PyType_Lookup(type, name) : NULL; /* borrowed */
    Py_XDECREF(name);
    PyErr_Clear();
    return found;
}

static bool is_same(PyTypeObject *type, PyTypeObject *base, const char *name)
{
    return find_attribute(type, name) == find_attribute(base, name);
}

/* ---- how a class pickles ------------------------------------------------------------------------
 */
/* A metaclass through which looking a class up means nothing but that. */
static bool is_quiet_meta(PyTypeObject *meta)
{
    return meta == &PyType_Type || (!find_attribute(meta, "__getattr__") &&
                                    is_same(meta, &PyType_Type, "__getattribute__") &&
                                    is_same(meta, &PyBaseObject_Type, "__hash__") &&
                                    is_same(meta, &PyBaseObject_Type, "__eq__") &&
                                    is_same(meta, &PyBaseObject_Type, "__reduce__"));
}

static bool reduces_by_default(PyTypeObject *type)
{
    static const char *const own[] = {"__getattribute__", "__reduce_ex__", "__class__",
                                      "__reduce__", "__getstate__"};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (!is_same(type, &PyBaseObject_Type, own[i])) {
            return false;
        }
    }
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_itemsize == 0 &&
           !PyType_FastSubclass(type, Py_TPFLAGS_TYPE_SUBCLASS | Py_TPFLAGS_LIST_SUBCLASS |
                                          Py_TPFLAGS_DICT_SUBCLASS) &&
           is_quiet_meta(Py_TYPE(type)) && !find_attribute(type, "__getattr__") &&
           !find_attribute(type, "__getnewargs_ex__") && !find_attribute(type, "__getnewargs__");
}

/* How many slots a class declares, __dict__ and __weakref__ aside; -1: an unusual declaration. */
static Py_ssize_t count_declared(PyObject *slots)
{
    Py_ssize_t count = 0;
    if (PyUnicode_CheckExact(slots)) {
        return PyUnicode_CompareWithASCIIString(slots, "__dict__") != 0 &&
               PyUnicode_CompareWithASCIIString(slots, "__weakref__") != 0;
    }
    if (!PyTuple_CheckExact(slots) && !PyList_CheckExact(slots)) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(slots); i++) {
        PyObject *name = PySequence_Fast_GET_ITEM(slots, i);
        if (!PyUnicode_CheckExact(name)) {
            return -1;
        }
        count += count_declared(name);
    }
    return count;
}

/* The slots that all bases declare together; -1: one of them is unusual. */
static Py_ssize_t count_all_declared(PyTypeObject *type)
{
    Py_ssize_t count = 0;
    bool any = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, i);
        if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
            if (base != &PyBaseObject_Type) {
                return -1;
            }
            continue;
        }
        PyObject *slots = PyDict_GetItemString(base->tp_dict, "__slots__");
        Py_ssize_t declared = slots ? count_declared(slots) : 0;
        if (declared < 0) {
            return -1;
        }
        any |= slots != NULL;
        count += declared;
    }
    return any && Py_TYPE(type) != &PyType_Type ? -1 : count;
}

/* How many slots an instance has, each a plain one; -1: who knows. */
static Py_ssize_t count_slots(PyTypeObject *type)
{
    PyObject *names = PyDict_GetItemString(type->tp_dict, "__slotnames__"); /* copyreg's list */
    if (!names) {
        return count_all_declared(type);
    }
    if (!PyList_CheckExact(names)) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); i++) {
        PyObject *name = PyList_GET_ITEM(names, i);
        PyObject *found = PyUnicode_CheckExact(name) ? _PyType_Lookup(type, name) : NULL;
        if (!found || !Py_IS_TYPE(found, &PyMemberDescr_Type)) {
            return -1;
        }
    }
    return PyList_GET_SIZE(names);
}

/* Whether there is nothing in an instance beside its dict and slots. */
static bool has_no_more(PyTypeObject *type, Py_ssize_t slots)
{
    Py_ssize_t pointers = slots;
#ifdef Py_TPFLAGS_MANAGED_DICT
    pointers += type->tp_dictoffset != 0 && !(type->tp_flags & Py_TPFLAGS_MANAGED_DICT);
#else
    pointers += type->tp_dictoffset != 0;
#endif
    pointers += type->tp_weaklistoffset > 0;
    return type->tp_basicsize <=
           PyBaseObject_Type.tp_basicsize + pointers * (Py_ssize_t)sizeof(PyObject *);
}

/* The names that would change how one instance pickles. */
static bool is_special(PyObject *name)
{
    return PyUnicode_CompareWithASCIIString(name, "__reduce_ex__") == 0 ||
           PyUnicode_CompareWithASCIIString(name, "__reduce__") == 0 ||
           PyUnicode_CompareWithASCIIString(name, "__getstate__") == 0;
}

static bool are_plain_names(PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t position = 0;
    bool plain = PyDict_CheckExact(dict);
    while (plain && PyDict_Next(dict, &position, &key, &value)) {
        plain = PyUnicode_CheckExact(key) && !is_special(key);
    }
    return plain;
}

static bool has_plain_names(const torshi_objects *objects, PyObject *obj)
{
    torshi_instance_view instance;
    if (!objects->instance_view(obj, &instance)) { /* always so with the internals off */
        PyObject *dict = PyObject_GenericGetDict(obj, NULL);
        bool plain = dict && are_plain_names(dict);
        PyErr_Clear();
        Py_XDECREF(dict);
        return plain;
    }
    if (instance.dict) {
        return are_plain_names(instance.dict);
    }
    for (intptr_t i = 0; i < instance.view.count; i++) {
        PyObject *name = view_key(&instance.view, (size_t)i);
        if (!PyUnicode_CheckExact(name) || is_special(name)) {
            return false;
        }
    }
    return true;
}

/* ---- the services -------------------------------------------------------------------------------
 */
static int no_option(torshi_dump *dump, int which)
{
    (void)dump;
    return which == TORSHI_OPT_PROTOCOL ? 4 : 0;
}

static int64_t no_memo(torshi_dump *dump, PyObject *obj)
{
    (void)dump, (void)obj;
    return TORSHI_MEMO_ABSENT;
}

/* NULL without an exception: none. For classes that only Python code can look up: None. */
static PyObject *registered_reducer(torshi_dump *dump, PyObject *cls)
{
    const quiet_services *q = (const quiet_services *)(void *)dump;
    if (!is_quiet_meta(Py_TYPE(cls)) || Py_TYPE(cls)->tp_hash != PyType_Type.tp_hash ||
        Py_TYPE(cls)->tp_richcompare != PyType_Type.tp_richcompare) {
        return Py_NewRef(Py_None);
    }
    PyObject *found = q->dispatch_table ? PyDict_GetItemWithError(q->dispatch_table, cls) : NULL;
    PyErr_Clear();
    return Py_XNewRef(found);
}

static int is_default_instance(torshi_dump *dump, PyObject *obj)
{
    const quiet_services *q = (const quiet_services *)(void *)dump;
    PyTypeObject *type = Py_TYPE(obj);
    if (!reduces_by_default(type)) {
        return 0;
    }
    PyObject *registered = registered_reducer(dump, (PyObject *)type);
    Py_XDECREF(registered);
    Py_ssize_t slots = registered ? -1 : count_slots(type);
    bool has_dict = type->tp_dictoffset != 0;
#ifdef Py_TPFLAGS_MANAGED_DICT
    has_dict |= (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0;
#endif
    return slots >= 0 && has_no_more(type, slots) &&
           (!has_dict || has_plain_names(q->services.objects, obj));
}

/* These two find what they need beside the engine's own struct. */
static PyObject *function_object(const torshi_services *self, const char *module, const char *name)
{
    const torshi_services *engine = ((const quiet_services *)(const void *)self)->engine;
    return engine->function_object(engine, module, name);
}

static PyObject *exception(const torshi_services *self, int which)
{
    const torshi_services *engine = ((const quiet_services *)(const void *)self)->engine;
    return engine->exception(engine, which);
}

int quiet_services_init(quiet_services *q, const torshi_services *engine)
{
    PyObject *copyreg = PyImport_ImportModule("copyreg");
    if (!copyreg) {
        return -1;
    }
    q->engine = engine;
    q->services = *engine;
    q->services.function_object = function_object;
    q->services.exception = exception;
    q->services.option = no_option;
    q->services.memo_find = no_memo;
    q->services.is_default_instance = is_default_instance;
    q->services.registered_reducer = registered_reducer;
    q->dispatch_table = PyObject_GetAttrString(copyreg, "dispatch_table");
    Py_DECREF(copyreg);
    if (!q->dispatch_table) {
        return -1;
    }
    if (!PyDict_Check(q->dispatch_table)) {
        Py_CLEAR(q->dispatch_table);
    }
    return 0;
}

void quiet_services_clear(quiet_services *q)
{
    Py_CLEAR(q->dispatch_table);
}
