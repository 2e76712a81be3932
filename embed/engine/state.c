/*
 * state.c - filling and releasing the state of one interpreter's engine.
 */
#include "state.h"

#include "internals.h"
#include "registry.h"

#include <stddef.h>

/* The object fields lie side by side, first to last; tables below name them by offset. */
#define FIRST_OBJECT offsetof(torshi_state, PickleError)
#define END_OF_OBJECTS offsetof(torshi_state, registry)
#define OBJECT_COUNT ((END_OF_OBJECTS - FIRST_OBJECT) / sizeof(PyObject *))
#define FIELD(name) offsetof(torshi_state, name)

_Static_assert((END_OF_OBJECTS - FIRST_OBJECT) % sizeof(PyObject *) == 0,
               "only objects between PickleError and registry");

static inline PyObject **field_at(torshi_state *st, size_t offset)
{
    return (PyObject **)(void *)((char *)st + offset);
}

static const struct {
    size_t field;
    const char *text;
} interned_names[] = {
    {FIELD(str_reduce), "__reduce__"},
    {FIELD(str_reduce_ex), "__reduce_ex__"},
    {FIELD(str_getstate), "__getstate__"},
    {FIELD(str_setstate), "__setstate__"},
    {FIELD(str_dict), "__dict__"},
    {FIELD(str_class), "__class__"},
    {FIELD(str_name), "__name__"},
    {FIELD(str_qualname), "__qualname__"},
    {FIELD(str_module), "__module__"},
    {FIELD(str_main), "__main__"},
    {FIELD(str_new), "__new__"},
    {FIELD(str_newobj), "__newobj__"},
    {FIELD(str_newobj_ex), "__newobj_ex__"},
    {FIELD(str_getnewargs), "__getnewargs__"},
    {FIELD(str_getnewargs_ex), "__getnewargs_ex__"},
    {FIELD(str_getinitargs), "__getinitargs__"},
    {FIELD(str_getattribute), "__getattribute__"},
    {FIELD(str_append), "append"},
    {FIELD(str_extend), "extend"},
    {FIELD(str_add), "add"},
    {FIELD(str_update), "update"},
    {FIELD(str_items), "items"},
    {FIELD(str_write), "write"},
    {FIELD(str_read), "read"},
    {FIELD(str_readline), "readline"},
    {FIELD(str_readinto), "readinto"},
    {FIELD(str_peek), "peek"},
    {FIELD(str_persistent_id), "persistent_id"},
    {FIELD(str_persistent_load), "persistent_load"},
    {FIELD(str_find_class), "find_class"},
    {FIELD(str_reducer_override), "reducer_override"},
    {FIELD(str_dispatch_table), "dispatch_table"},
};

/* What is taken from other modules; `dict` marks what must be an exact dict, as pickle wants. */
static const struct {
    size_t field;
    const char *module;
    const char *name;
    int dict;
} imported_objects[] = {
    {FIELD(dispatch_table), "copyreg", "dispatch_table", 1},
    {FIELD(extension_registry), "copyreg", "_extension_registry", 1},
    {FIELD(inverted_registry), "copyreg", "_inverted_registry", 1},
    {FIELD(extension_cache), "copyreg", "_extension_cache", 1},
    {FIELD(name_mapping_2to3), "_compat_pickle", "NAME_MAPPING", 1},
    {FIELD(import_mapping_2to3), "_compat_pickle", "IMPORT_MAPPING", 1},
    {FIELD(name_mapping_3to2), "_compat_pickle", "REVERSE_NAME_MAPPING", 1},
    {FIELD(import_mapping_3to2), "_compat_pickle", "REVERSE_IMPORT_MAPPING", 1},
    {FIELD(codecs_encode), "codecs", "encode", 0},
    {FIELD(builtins_getattr), "builtins", "getattr", 0},
    {FIELD(functools_partial), "functools", "partial", 0},
};

static const struct {
    size_t field;
    const char *name;
} exceptions[] = {
    {FIELD(PickleError), "PickleError"},
    {FIELD(PicklingError), "PicklingError"},
    {FIELD(UnpicklingError), "UnpicklingError"},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static int import_object(torshi_state *st, size_t field, const char *module, const char *name,
                         int dict)
{
    PyObject *mod = PyImport_ImportModule(module);
    if (mod == NULL) {
        return -1;
    }
    PyObject *value = PyObject_GetAttrString(mod, name);
    Py_DECREF(mod);
    if (value == NULL) {
        return -1;
    }
    if (dict && !PyDict_CheckExact(value)) {
        PyErr_Format(PyExc_RuntimeError, "%s.%s should be a dict, not %.200s", module, name,
                     Py_TYPE(value)->tp_name);
        Py_DECREF(value);
        return -1;
    }
    *field_at(st, field) = value;
    return 0;
}

static int make_exceptions(torshi_state *st)
{
    st->PickleError = PyErr_NewException("_pickle.PickleError", NULL, NULL);
    if (st->PickleError == NULL) {
        return -1;
    }
    st->PicklingError = PyErr_NewException("_pickle.PicklingError", st->PickleError, NULL);
    if (st->PicklingError == NULL) {
        return -1;
    }
    st->UnpicklingError = PyErr_NewException("_pickle.UnpicklingError", st->PickleError, NULL);
    return st->UnpicklingError == NULL ? -1 : 0;
}

int state_init(torshi_state *st, int own_exceptions)
{
    for (size_t i = 0; i < COUNT(interned_names); i++) {
        PyObject *text = PyUnicode_InternFromString(interned_names[i].text);
        if (text == NULL) {
            return -1;
        }
        *field_at(st, interned_names[i].field) = text;
    }
    for (size_t i = 0; i < COUNT(imported_objects); i++) {
        if (import_object(st, imported_objects[i].field, imported_objects[i].module,
                          imported_objects[i].name, imported_objects[i].dict) < 0) {
            return -1;
        }
    }
    if (own_exceptions) {
        if (make_exceptions(st) < 0) {
            return -1;
        }
    } else {
        for (size_t i = 0; i < COUNT(exceptions); i++) {
            if (import_object(st, exceptions[i].field, "_pickle", exceptions[i].name, 0) < 0) {
                return -1;
            }
        }
    }
    if (torshi_config_get()->internals) {
        st->internals = internals_check();
        if (st->internals < 0) {
            return -1;
        }
    }
    /* The registry first: the other two may look at it. */
    if ((st->registry = registry_new(st)) == NULL || (st->savers = savers_new(st)) == NULL ||
        (st->loaders = loaders_new(st)) == NULL) {
        return -1;
    }
    return 0;
}

int state_traverse(torshi_state *st, visitproc visit, void *arg)
{
    int status;
    for (size_t i = 0; i < OBJECT_COUNT; i++) {
        Py_VISIT(*field_at(st, FIRST_OBJECT + i * sizeof(PyObject *)));
    }
    if (st->registry != NULL && (status = registry_traverse(st->registry, visit, arg)) != 0) {
        return status;
    }
    if (st->savers != NULL && (status = savers_traverse(st->savers, visit, arg)) != 0) {
        return status;
    }
    if (st->loaders != NULL && (status = loaders_traverse(st->loaders, visit, arg)) != 0) {
        return status;
    }
    return 0;
}

void state_clear(torshi_state *st)
{
    torshi_savers *savers = st->savers;
    torshi_loaders *loaders = st->loaders;
    torshi_registry *registry = st->registry;

    /* The plugins last: what the others let go of may still call into them. */
    st->savers = NULL;
    if (savers != NULL) {
        savers_clear(savers);
        savers_free(savers);
    }
    st->loaders = NULL;
    if (loaders != NULL) {
        loaders_clear(loaders);
        loaders_free(loaders);
    }
    st->registry = NULL;
    if (registry != NULL) {
        registry_clear(registry);
        registry_free(registry);
    }
    for (size_t i = 0; i < OBJECT_COUNT; i++) {
        Py_CLEAR(*field_at(st, FIRST_OBJECT + i * sizeof(PyObject *)));
    }
}
