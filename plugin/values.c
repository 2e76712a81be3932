/*
 * values.c - types whose objects are values: immutable, equal when their parts are, and pickled by
 * a reducer that this file knows. Each test makes sure that the reducer is the original one.
 */
#include "types.h"

#define _PY_DATETIME_IMPL /* the structs and macros; its static pointer is not wanted */
#include <datetime.h>
#include <structmember.h>

/* sys.modules[name] when it is there: new reference or NULL, with an exception when it failed. */
static PyObject *loaded_module(const char *name)
{
    PyObject *key = PyUnicode_InternFromString(name);
    PyObject *module = key ? PyImport_GetModule(key) : NULL;
    Py_XDECREF(key);
    return module;
}

/* An attribute in the dict of a type or module, found without running code: borrowed or NULL. */
static PyObject *dict_item(PyObject *dict, const char *name)
{
    PyObject *found = dict && PyDict_Check(dict) ? PyDict_GetItemString(dict, name) : NULL;
    return found;
}

/* Borrowed or NULL, with an exception when it failed: find_value_form looks once, at the end. */
static PyObject *type_item(PyTypeObject *type, const char *name)
{
    PyObject *key = PyUnicode_InternFromString(name);
    PyObject *found = key ? _PyType_Lookup(type, key) : NULL;
    Py_XDECREF(key);
    return found;
}

/* Whether `function` is the Python function of this name that `module` defined. */
static bool is_function_of(PyObject *function, PyObject *module, const char *qualname)
{
    if (!function || !PyFunction_Check(function) ||
        PyFunction_GET_GLOBALS(function) != PyModule_GetDict(module)) {
        return false;
    }
    PyObject *name = ((PyFunctionObject *)function)->func_qualname;
    const PyCodeObject *code = (const PyCodeObject *)PyFunction_GET_CODE(function);
    return PyUnicode_CompareWithASCIIString(name, qualname) == 0 &&
           PyUnicode_CompareWithASCIIString(code->co_qualname, qualname) == 0;
}

static bool has_objects_own(PyTypeObject *type, const char *name)
{
    return type_item(type, name) == type_item(&PyBaseObject_Type, name);
}

/* ---- one question a type ------------------------------------------------------------------------
 */
static int datetime_form(PyTypeObject *type)
{
    static const struct {
        const char *name;
        int form;
    } forms[] = {{"datetime.date", TYPE_DATE},
                 {"datetime.datetime", TYPE_DATETIME},
                 {"datetime.time", TYPE_TIME},
                 {"datetime.timedelta", TYPE_TIMEDELTA}};
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        return TYPE_PENDING;
    }
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (strcmp(type->tp_name, forms[i].name) != 0) {
            continue;
        }
        PyObject *module = loaded_module("datetime");
        if (!module) {
            return TYPE_PENDING;
        }
        const PyDateTime_CAPI *api = PyCapsule_Import(PyDateTime_CAPSULE_NAME, 0);
        Py_DECREF(module);
        if (!api) {
            if (!PyErr_ExceptionMatches(PyExc_MemoryError)) {
                PyErr_Clear();
            }
            return TYPE_PENDING;
        }
        PyTypeObject *types[] = {api->DateType, api->DateTimeType, api->TimeType, api->DeltaType};
        return types[i] == type ? forms[i].form : TYPE_PENDING;
    }
    return TYPE_PENDING;
}

static bool is_decimal(PyTypeObject *type)
{
    if (strcmp(type->tp_name, "decimal.Decimal") != 0 ||
        ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE))) {
        return false;
    }
    PyObject *module = loaded_module("_decimal");
    bool same = module && dict_item(PyModule_GetDict(module), "Decimal") == (PyObject *)type;
    Py_XDECREF(module);
    return same;
}

static bool is_uuid(PyTypeObject *type)
{
    if (strcmp(type->tp_name, "UUID") != 0) {
        return false;
    }
    PyObject *module = loaded_module("uuid");
    bool same = module && PyModule_Check(module) &&
                dict_item(PyModule_GetDict(module), "UUID") == (PyObject *)type &&
                is_function_of(type_item(type, "__getstate__"), module, "UUID.__getstate__") &&
                is_function_of(type_item(type, "__setstate__"), module, "UUID.__setstate__") &&
                is_function_of(type_item(type, "__init__"), module, "UUID.__init__") &&
                has_objects_own(type, "__reduce_ex__") && has_objects_own(type, "__reduce__") &&
                has_objects_own(type, "__new__") && !type_item(type, "__getnewargs__") &&
                !type_item(type, "__getnewargs_ex__") && has_objects_own(type, "__getattribute__");
    Py_XDECREF(module);
    return same;
}

static bool is_fraction(PyTypeObject *type)
{
    if (strcmp(type->tp_name, "Fraction") != 0) {
        return false;
    }
    PyObject *module = loaded_module("fractions");
    bool same = module && PyModule_Check(module) &&
                dict_item(PyModule_GetDict(module), "Fraction") == (PyObject *)type &&
                is_function_of(type_item(type, "__reduce__"), module, "Fraction.__reduce__") &&
                has_objects_own(type, "__reduce_ex__") && has_objects_own(type, "__getattribute__");
    Py_XDECREF(module);
    return same;
}

static bool is_enum(PyTypeObject *type)
{
    PyTypeObject *meta = Py_TYPE(type);
    if (meta == &PyType_Type || strcmp(meta->tp_name, "EnumType") != 0) {
        return false;
    }
    PyObject *module = loaded_module("enum");
    bool same = false;
    if (module && PyModule_Check(module)) {
        PyObject *names = PyModule_GetDict(module);
        PyObject *base = dict_item(names, "Enum");
        same =
            dict_item(names, "EnumType") == (PyObject *)meta && base && PyType_Check(base) &&
            type_item(type, "__reduce_ex__") == type_item((PyTypeObject *)base, "__reduce_ex__") &&
            is_function_of(type_item(type, "__reduce_ex__"), module, "Enum.__reduce_ex__") &&
            type->tp_getattro == PyObject_GenericGetAttr; /* int and str have a slot of their own */
    }
    Py_XDECREF(module);
    return same;
}

/* A time zone that pickles by code of the library alone. */
static bool is_zone(PyTypeObject *type)
{
    if (strcmp(type->tp_name, "datetime.timezone") == 0 &&
        !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        PyObject *module = loaded_module("_datetime");
        bool same = module && dict_item(PyModule_GetDict(module), "timezone") == (PyObject *)type;
        Py_XDECREF(module);
        return same;
    }
    if (strcmp(type->tp_name, "zoneinfo.ZoneInfo") != 0) {
        return false;
    }
    PyObject *module = loaded_module("_zoneinfo");
    PyObject *reducer = type_item(type, "__reduce__");
    PyObject *maker = type_item(type, "_unpickle");
    bool same = module && dict_item(PyModule_GetDict(module), "ZoneInfo") == (PyObject *)type &&
                reducer && Py_IS_TYPE(reducer, &PyMethodDescr_Type) && maker &&
                Py_IS_TYPE(maker, &PyClassMethodDescr_Type) &&
                has_objects_own(type, "__reduce_ex__") &&
                type->tp_getattro == PyObject_GenericGetAttr;
    Py_XDECREF(module);
    return same;
}

/* ---- paths --------------------------------------------------------------------------------------
 */
/* The offset of a slot of the type; 0. */
static Py_ssize_t slot_offset(PyTypeObject *type, const char *name)
{
    PyObject *found = type_item(type, name);
    if (!found || !Py_IS_TYPE(found, &PyMemberDescr_Type)) {
        return 0;
    }
    const PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
    return member->type == T_OBJECT_EX ? member->offset : 0;
}

static bool is_original(PyTypeObject *type, PyObject *module, const char *name,
                        const char *qualname, bool property)
{
    PyObject *found = type_item(type, name);
    PyObject *getter = NULL;
    if (found && property) {
        getter = Py_IS_TYPE(found, &PyProperty_Type) ? PyObject_GetAttrString(found, "fget") : NULL;
        found = getter;
    }
    bool same = is_function_of(found, module, qualname);
    Py_XDECREF(getter);
    return same;
}

/* The last name that a function looks up, which tells the library's versions apart. */
static bool ends_with_name(PyObject *function, const char *name)
{
    const PyCodeObject *code = (const PyCodeObject *)PyFunction_GET_CODE(function);
    Py_ssize_t n = PyTuple_GET_SIZE(code->co_names);
    return n &&
           PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_names, n - 1), name) == 0;
}

/* Where the parts lie that PurePath.__reduce__ gives. */
static bool find_parts(type_entry *t, PyObject *module)
{
    PyTypeObject *type = t->type;
    PyObject *reducer = type_item(type, "__reduce__");
    if (!is_function_of(reducer, module, "PurePath.__reduce__")) {
        return false;
    }
    if (ends_with_name(reducer, "_parts") || ends_with_name(reducer, "_raw_paths")) {
        t->parts = slot_offset(type, ends_with_name(reducer, "_parts") ? "_parts" : "_raw_paths");
    } else if (ends_with_name(reducer, "parts") &&
               is_original(type, module, "parts", "PurePath.parts", true) &&
               is_original(type, module, "drive", "PurePath.drive", true) &&
               is_original(type, module, "root", "PurePath.root", true) &&
               is_original(type, module, "_tail", "PurePath._tail", true)) {
        t->first = slot_offset(type, "_drv");
        t->second = slot_offset(type, "_root");
        t->parts = t->first && t->second ? slot_offset(type, "_tail_cached") : 0;
    }
    return t->parts != 0;
}

static bool is_path(type_entry *t)
{
    static const char *const names[] = {"PurePosixPath", "PosixPath", "PureWindowsPath",
                                        "WindowsPath"};
    PyTypeObject *type = t->type;
    bool found = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !found; i++) {
        if (strcmp(type->tp_name, names[i]) != 0) {
            continue;
        }
        PyObject *module = loaded_module("pathlib._local"); /* where 3.13 has them */
        if (!module) {
            module = loaded_module("pathlib");
        }
        found = module && PyModule_Check(module) && Py_IS_TYPE(type, &PyType_Type) &&
                dict_item(PyModule_GetDict(module), names[i]) == (PyObject *)type &&
                has_objects_own(type, "__reduce_ex__") &&
                has_objects_own(type, "__getattribute__") && has_objects_own(type, "__class__") &&
                !type_item(type, "__getattr__") && find_parts(t, module);
        Py_XDECREF(module);
    }
    return found;
}

/* ---- named tuples -------------------------------------------------------------------------------
 */
static bool has_tuples_own(PyTypeObject *type, const char *name)
{
    return type_item(type, name) == type_item(&PyTuple_Type, name);
}

/* Whether `function` is the __getnewargs__ that namedtuple() makes: tuple(self). */
static bool is_generated(PyObject *function, PyObject *module)
{
    if (!function || !PyFunction_Check(function) ||
        PyFunction_GET_GLOBALS(function) != PyModule_GetDict(module)) {
        return false;
    }
    const PyCodeObject *code = (const PyCodeObject *)PyFunction_GET_CODE(function);
    PyObject *closure = PyFunction_GET_CLOSURE(function);
    return PyUnicode_CompareWithASCIIString(code->co_qualname,
                                            "namedtuple.<locals>.__getnewargs__") == 0 &&
           closure && PyTuple_GET_SIZE(closure) == 1 &&
           PyCell_GET(PyTuple_GET_ITEM(closure, 0)) == (PyObject *)&PyTuple_Type;
}

/* copyreg.__newobj__, as pickle finds it: borrowed or NULL. */
static PyObject *newobj_function(void)
{
    PyObject *module = loaded_module("copyreg");
    PyObject *found = NULL;
    if (module && PyModule_Check(module)) {
        found = dict_item(PyModule_GetDict(module), "__newobj__");
        found = is_function_of(found, module, "__newobj__") ? found : NULL;
    }
    Py_XDECREF(module);
    return found;
}

/* Whether pickle would ask tuple(self) alone, which is what the tuple holds: nothing of the class
   is called to find its state or its items. */
static bool is_named_tuple(PyTypeObject *type)
{
    if (!PyType_HasFeature(type, Py_TPFLAGS_TUPLE_SUBCLASS) ||
        !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || !Py_IS_TYPE(type, &PyType_Type) ||
        type->tp_basicsize != PyTuple_Type.tp_basicsize ||
        type->tp_itemsize != PyTuple_Type.tp_itemsize || type->tp_dictoffset ||
        type->tp_weaklistoffset) {
        return false;
    }
#ifdef Py_TPFLAGS_MANAGED_DICT
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        return false;
    }
#endif
    PyObject *module = loaded_module("collections");
    PyObject *names = dict_item(type->tp_dict, "__slotnames__"); /* what copyreg found before */
    bool same = module && PyModule_Check(module) &&
                is_generated(type_item(type, "__getnewargs__"), module) &&
                !type_item(type, "__getnewargs_ex__") && has_objects_own(type, "__reduce_ex__") &&
                has_objects_own(type, "__reduce__") && has_objects_own(type, "__getstate__") &&
                has_objects_own(type, "__class__") && has_tuples_own(type, "__getattribute__") &&
                !type_item(type, "__getattr__") && has_tuples_own(type, "__iter__") &&
                has_tuples_own(type, "__len__") && !type_item(type, "__length_hint__") &&
                (!names || (PyList_CheckExact(names) && PyList_GET_SIZE(names) == 0));
    Py_XDECREF(module);
    return same;
}

/* No class that it is made of names a slot, which copyreg would take for state. */
static bool prepare_named(chunk_writer *w, type_entry *t)
{
    t->known = newobj_function();
    return t->known && find_slots(w, t) == 1 && t->slots == 0;
}

/* SafeUUID.unknown, as the uuid module has it: borrowed or NULL. */
static PyObject *unknown_safety(void)
{
    PyObject *module = loaded_module("uuid");
    PyObject *safety = module ? dict_item(PyModule_GetDict(module), "SafeUUID") : NULL;
    PyObject *found = NULL;
    if (safety && PyType_Check(safety)) {
        found = dict_item(dict_item(((PyTypeObject *)safety)->tp_dict, "_member_map_"), "unknown");
    }
    Py_XDECREF(module);
    return found;
}

/* The offsets of the two slots that the type has. */
static bool find_two_slots(chunk_writer *w, type_entry *t, const char *first, const char *second)
{
    if (find_slots(w, t) != 1 || t->slots != 2) {
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        if (PyUnicode_CompareWithASCIIString(t->names[i], first) == 0) {
            t->first = t->offsets[i];
        } else if (PyUnicode_CompareWithASCIIString(t->names[i], second) == 0) {
            t->second = t->offsets[i];
        }
    }
    return t->first && t->second;
}

static bool find_uuid_slots(chunk_writer *w, type_entry *t)
{
    t->known = unknown_safety();
    return t->known && find_two_slots(w, t, "int", "is_safe");
}

/* Time zones that were found to be known, by address: the same ones are asked about in every row.
 */
#define ZONES_KEPT 64

/* What is_known_zone asks for: timedelta (of timezone), and room for the zones. */
static bool prepare_zones(chunk_writer *w, type_entry *t)
{
    if (strcmp(t->type->tp_name, "datetime.timezone") == 0) {
        PyObject *module = loaded_module("_datetime");
        t->known = module ? dict_item(PyModule_GetDict(module), "timedelta") : NULL;
        Py_XDECREF(module);
        if (!t->known || !PyType_Check(t->known)) {
            return false;
        }
    }
    t->names = arena_alloc(&w->lasting, ZONES_KEPT, sizeof(*t->names));
    if (t->names) {
        memset(t->names, 0, ZONES_KEPT * sizeof(*t->names));
    }
    return t->names != NULL;
}

int find_value_form(chunk_writer *w, type_entry *t)
{
    int form = datetime_form(t->type);
    if (form == TYPE_PENDING) {
        form = is_decimal(t->type)       ? TYPE_DECIMAL
               : is_uuid(t->type)        ? TYPE_UUID
               : is_enum(t->type)        ? TYPE_ENUM
               : is_fraction(t->type)    ? TYPE_FRACTION
               : is_path(t)              ? TYPE_PATH
               : is_zone(t->type)        ? TYPE_ZONE
               : is_named_tuple(t->type) ? TYPE_NAMED
                                         : TYPE_PENDING;
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    if (form == TYPE_PENDING) {
        return 0;
    }
    PyObject *registered = w->services->registered_reducer(w->dump, (PyObject *)t->type);
    if (registered) {
        Py_DECREF(registered);
        return 0;
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    bool found = form == TYPE_UUID       ? find_uuid_slots(w, t)
                 : form == TYPE_FRACTION ? find_two_slots(w, t, "_numerator", "_denominator")
                 : form == TYPE_ZONE     ? prepare_zones(w, t)
                 : form == TYPE_NAMED    ? prepare_named(w, t)
                                         : true;
    if (found) {
        t->has_dict = form == TYPE_ENUM;
        t->arguments = form == TYPE_TIMEDELTA                       ? 3
                       : form == TYPE_UUID || form == TYPE_FRACTION ? 2
                                                                    : 1;
        t->form = form;
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- one question an object ---------------------------------------------------------------------
 */
bool uuid_bytes(PyObject *obj, const type_entry *type, uint8_t out[16])
{
    PyObject *number = part_at(obj, type->first);
#if PY_VERSION_HEX >= 0x030D0000
    int failed = _PyLong_AsByteArray((PyLongObject *)number, out, 16, 0, 0, 0);
#else
    int failed = _PyLong_AsByteArray((PyLongObject *)number, out, 16, 0, 0);
#endif
    if (failed) { /* negative or too large */
        PyErr_Clear();
        return false;
    }
    return true;
}

PyObject *enum_value(chunk_writer *w, PyObject *obj, const type_entry *type)
{
    torshi_dict_view view;
    if (row_view(w, obj, type, &view)) {
        for (intptr_t i = 0; i < view.count; i++) {
            PyObject *key = view_key(&view, (size_t)i);
            if (PyUnicode_CheckExact(key) && PyUnicode_GET_LENGTH(key) == 7 &&
                PyUnicode_CompareWithASCIIString(key, "_value_") == 0) {
                return view_value(&view, (size_t)i);
            }
        }
        return NULL;
    }
    PyObject **dict = _PyObject_GetDictPtr(obj);
    PyObject *key, *value;
    Py_ssize_t at = 0;
    /* without a key to make: what was found once is found again */
    while (dict && *dict && PyDict_Next(*dict, &at, &key, &value)) {
        if (PyUnicode_CheckExact(key) && PyUnicode_CompareWithASCIIString(key, "_value_") == 0) {
            return value;
        }
    }
    return NULL;
}

PyObject *zone_of(PyObject *obj, const type_entry *type)
{
    if (type->form == TYPE_TIME) {
        PyDateTime_Time *time = (PyDateTime_Time *)obj;
        return time->hastzinfo ? time->tzinfo : NULL;
    }
    PyDateTime_DateTime *date = (PyDateTime_DateTime *)obj;
    return date->hastzinfo ? date->tzinfo : NULL;
}

/* Whether what a method with one argument, or (argument NULL) an attribute, gives is of this very
   type. Code of the library answers, and makes nothing that the collector tracks. */
static bool gives(chunk_writer *w, PyObject *zone, const char *text, PyObject *argument,
                  const PyTypeObject *type)
{
    PyObject *name = PyUnicode_InternFromString(text);
    PyObject *found = !name      ? NULL
                      : argument ? PyObject_CallMethodOneArg(zone, name, argument)
                                 : PyObject_GetAttr(zone, name);
    bool same = found && Py_IS_TYPE(found, (PyTypeObject *)type);
    w->failed |= !found;
    Py_XDECREF(found);
    Py_XDECREF(name);
    return same;
}

/* Whether a zone is made of plain parts: one of a subclass may have a reducer. */
static bool is_known_zone(chunk_writer *w, PyObject *zone)
{
    type_entry *entry = type_of(w, zone);
    if (!entry || entry->form != TYPE_ZONE) {
        w->failed |= !entry;
        return false;
    }
    PyObject **kept = &entry->names[((uintptr_t)zone >> 4 ^ (uintptr_t)zone >> 10) % ZONES_KEPT];
    if (*kept == zone) {
        return true;
    }
    const PyTypeObject *delta = (const PyTypeObject *)entry->known;
    bool known = delta ? gives(w, zone, "utcoffset", Py_None, delta) && !w->failed &&
                             gives(w, zone, "tzname", Py_None, &PyUnicode_Type)
                       : gives(w, zone, "key", NULL, &PyUnicode_Type);
    if (known) {
        *kept = zone;
    }
    return known;
}

/* Whether drive and root are two strings, one of them empty: 1 where there is a first part made of
   them, 0 where there is none, -1 where it is not so. */
static int has_anchor(PyObject *obj, const type_entry *type)
{
    PyObject *drive = part_at(obj, type->first);
    PyObject *root = part_at(obj, type->second);
    if (!drive || !root || !PyUnicode_CheckExact(drive) || !PyUnicode_CheckExact(root)) {
        return -1;
    }
    bool drives = PyUnicode_GET_LENGTH(drive) != 0, roots = PyUnicode_GET_LENGTH(root) != 0;
    return drives && roots ? -1 : drives || roots;
}

static bool is_known_path(PyObject *obj, const type_entry *type)
{
    PyObject *parts = part_at(obj, type->parts);
    int anchor = type->first ? has_anchor(obj, type) : 0;
    if (!parts || !PyList_CheckExact(parts) || anchor < 0 ||
        PyList_GET_SIZE(parts) + anchor > (Py_ssize_t)TORSHI_MAX_ARITY) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts); i++) {
        PyObject *part = PyList_GET_ITEM(parts, i);
        if (!PyUnicode_CheckExact(part) || PyUnicode_GET_LENGTH(part) >= LONG_TEXT) {
            return false;
        }
    }
    return true;
}

PyObject *path_part(PyObject *obj, const type_entry *type, size_t i)
{
    int anchor = type->first ? has_anchor(obj, type) : 0;
    if (i == 0 && anchor) {
        PyObject *drive = part_at(obj, type->first);
        return PyUnicode_GET_LENGTH(drive) ? drive : part_at(obj, type->second);
    }
    return PyList_GET_ITEM(part_at(obj, type->parts), (Py_ssize_t)i - anchor);
}

static size_t count_arguments(PyObject *obj, const type_entry *type)
{
    switch (type->form) {
    case TYPE_DATETIME:
    case TYPE_TIME:
        return zone_of(obj, type) ? 2 : 1;
    case TYPE_PATH:
        return (size_t)PyList_GET_SIZE(part_at(obj, type->parts)) +
               (type->first ? (size_t)has_anchor(obj, type) : 0);
    case TYPE_NAMED:
        return (size_t)PyTuple_GET_SIZE(obj) + 1;
    default:
        return type->arguments;
    }
}

type_entry *value_variant(chunk_writer *w, PyObject *obj, type_entry *type)
{
    size_t arguments = count_arguments(obj, type);
    if (arguments == type->arguments) {
        return type;
    }
    if (!type->variants) {
        size_t n = TORSHI_MAX_ARITY + 1;
        type->variants = arena_alloc(&w->lasting, n, sizeof(*type->variants));
        if (!type->variants) {
            w->failed = true;
            return NULL;
        }
        memset(type->variants, 0, n * sizeof(*type->variants));
    }
    type_entry **variant = &type->variants[arguments];
    if (!*variant) {
        *variant = arena_alloc(&w->lasting, 1, sizeof(**variant));
        if (*variant) {
            **variant = *type;
            (*variant)->arguments = arguments;
        }
        w->failed |= !*variant;
    }
    return *variant;
}

bool is_known_value(chunk_writer *w, PyObject *obj, type_entry *type, int level)
{
    switch (type->form) {
    case TYPE_DATE:
    case TYPE_TIMEDELTA:
    case TYPE_DECIMAL:
        return true;
    case TYPE_DATETIME:
    case TYPE_TIME: {
        PyObject *zone = zone_of(obj, type);
        return !zone || is_known_zone(w, zone);
    }
    case TYPE_PATH:
        return is_known_path(obj, type);
    case TYPE_NAMED:
        return PyTuple_GET_SIZE(obj) < (Py_ssize_t)TORSHI_MAX_ARITY && /* the class is one, too */
               items_are_plain(w, obj, level);
    case TYPE_UUID: {
        PyObject *number = part_at(obj, type->first);
        return part_at(obj, type->second) == type->known && number && PyLong_CheckExact(number) &&
               _PyLong_Sign(number) >= 0 && _PyLong_NumBits(number) <= 128;
    }
    case TYPE_ENUM: {
        PyObject *value = enum_value(w, obj, type);
        return value && is_plain_value(w, value, level + 3);
    }
    case TYPE_FRACTION: {
        PyObject *numerator = part_at(obj, type->first);
        PyObject *denominator = part_at(obj, type->second);
        return numerator && denominator && PyLong_CheckExact(numerator) &&
               PyLong_CheckExact(denominator);
    }
    default:
        return false;
    }
}
