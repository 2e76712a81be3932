/*
 * values.c - types whose objects are values: immutable, equal when their parts are, and pickled by
 * a reducer that this file knows. Each test makes sure that the reducer is the original one.
 */
#include "types.h"

#define _PY_DATETIME_IMPL /* the structs and macros; its static pointer is not wanted */
#include <datetime.h>

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
            has_objects_own(type, "__getattribute__");
    }
    Py_XDECREF(module);
    return same;
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

int find_value_form(chunk_writer *w, type_entry *t)
{
    int form = datetime_form(t->type);
    if (form == TYPE_PENDING) {
        form = is_decimal(t->type)    ? TYPE_DECIMAL
               : is_uuid(t->type)     ? TYPE_UUID
               : is_enum(t->type)     ? TYPE_ENUM
               : is_fraction(t->type) ? TYPE_FRACTION
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
                                         : true;
    if (found) {
        t->has_dict = form == TYPE_ENUM;
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

bool is_known_value(chunk_writer *w, PyObject *obj, const type_entry *type, int level)
{
    switch (type->form) {
    case TYPE_DATE:
    case TYPE_TIMEDELTA:
    case TYPE_DECIMAL:
        return true;
    case TYPE_DATETIME:
        return !((PyDateTime_DateTime *)obj)->hastzinfo;
    case TYPE_TIME:
        return !((PyDateTime_Time *)obj)->hastzinfo;
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
