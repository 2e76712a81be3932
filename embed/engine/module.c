/*
 * module.c - the two modules of the engine: `_torshi`, which owns the state of its interpreter,
 * and `_pickle`, which takes the stock module's place in the host and shares that state.
 */
#include "state.h"

#include "function_object.h"
#include "loader.h"
#include "registry.h"

#include <stddef.h>
#include <string.h>

typedef struct module_state {
    torshi_state *st; /* own below, or that of `core` */
    PyObject *core;   /* owned: `_torshi`, in a `_pickle` module; else NULL */
    torshi_state own; /* filled in `_torshi` only */
} module_state;

static struct PyModuleDef core_def;
static struct PyModuleDef pickle_def;

/* Where a `_pickle` module finds the `_torshi` it belongs to; absent: `import _torshi`. */
#define CORE_ATTRIBUTE "_torshi"
/* Where `_torshi` keeps the `_pickle` module that core_pickle_module made. */
#define PICKLE_ATTRIBUTE "_pickle"

torshi_state *state_of_module(PyObject *module)
{
    return ((module_state *)PyModule_GetState(module))->st;
}

torshi_state *state_of_type(PyTypeObject *type)
{
    /* A type of ours decides the layout of its subclasses, so it is on the chain of tp_base. */
    PyTypeObject *t = type;
    do {
        if (t->tp_flags & Py_TPFLAGS_HEAPTYPE) {
            PyObject *module = ((PyHeapTypeObject *)t)->ht_module;
            PyModuleDef *def =
                module != NULL && PyModule_Check(module) ? PyModule_GetDef(module) : NULL;
            if (def == &core_def || def == &pickle_def) {
                return state_of_module(module);
            }
        }
        t = t->tp_base;
    } while (t != NULL);
    PyErr_Format(PyExc_TypeError, "%.200s is not a type of the torshi engine", type->tp_name);
    return NULL;
}

/* ---- functions of `_torshi` ------------------------------------------------------------------ */

static PyObject *core_registry(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    return registry_list(state_of_module(module)->registry);
}

static PyObject *core_load_plugin(PyObject *module, PyObject *path)
{
    PyObject *bytes;
    if (!PyUnicode_FSConverter(path, &bytes)) {
        return NULL;
    }
    int status = PySys_Audit("torshi.load_plugin", "O", path);
    if (status == 0) {
        status = loader_load(state_of_module(module)->registry, PyBytes_AS_STRING(bytes));
    }
    Py_DECREF(bytes);
    if (status < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *core_load_default_plugin(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    if (loader_load_default(state_of_module(module)->registry, module) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *core_function(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2 || !PyUnicode_Check(args[0]) || !PyUnicode_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "function() takes two strings: module and name");
        return NULL;
    }
    const char *module_name = PyUnicode_AsUTF8(args[0]);
    const char *name = module_name != NULL ? PyUnicode_AsUTF8(args[1]) : NULL;
    if (name == NULL) {
        return NULL;
    }
    PyObject *function = registry_function(state_of_module(module)->registry, module_name, name);
    if (function == NULL) {
        PyErr_Format(PyExc_LookupError, "no plugin has a function %s.%s", module_name, name);
        return NULL;
    }
    return Py_NewRef(function);
}

static PyObject *core_info(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    static const char *const modes[] = {
        [TORSHI_MODE_OFF] = "off",
        [TORSHI_MODE_STANDARD] = "standard",
        [TORSHI_MODE_CHUNKED] = "chunked",
    };
    const torshi_config *config = torshi_config_get();
    torshi_state *st = state_of_module(module);
    const char *stock =
        config->in_host && config->mode != TORSHI_MODE_OFF ? "_torshi_stock_pickle" : "_pickle";
    return Py_BuildValue("{s:s,s:s,s:O,s:O,s:s}", "version", TORSHI_VERSION, "mode",
                         modes[config->mode], "in_host", config->in_host ? Py_True : Py_False,
                         "internals", st->internals ? Py_True : Py_False, "stock", stock);
}

/*
 * The `_pickle` of ours, for install(): same state, pickle's signatures. In the extension it is
 * made at first use and kept, for the engine knows one Pickler and one Unpickler type a flavour.
 */
static PyObject *core_pickle_module(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    const torshi_config *config = torshi_config_get();
    PyObject *machinery = NULL, *spec = NULL, *result = NULL;
    int status = -1;

    if (config->in_host && config->mode != TORSHI_MODE_OFF) {
        return PyImport_ImportModule("_pickle");
    }
    result = PyDict_GetItemString(PyModule_GetDict(module), PICKLE_ATTRIBUTE);
    if (result != NULL) {
        return Py_NewRef(result);
    }
    machinery = PyImport_ImportModule("importlib.machinery");
    if (machinery == NULL) {
        goto done;
    }
    spec = PyObject_CallMethod(machinery, "ModuleSpec", "sO", "_pickle", Py_None);
    if (spec == NULL) {
        goto done;
    }
    result = PyModule_FromDefAndSpec(&pickle_def, spec);
    if (result != NULL && PyModule_AddObjectRef(result, CORE_ATTRIBUTE, module) == 0 &&
        PyModule_ExecDef(result, &pickle_def) == 0) {
        status = PyModule_AddObjectRef(module, PICKLE_ATTRIBUTE, result);
    }
done:
    if (status < 0) {
        Py_CLEAR(result);
    }
    Py_XDECREF(spec);
    Py_XDECREF(machinery);
    return result;
}

PyDoc_STRVAR(registry_doc,
             "registry()\n--\n\n"
             "The registration table: a list of (kind, 'module.name', plugin, version)\n"
             "tuples, in the order in which the rows were registered.");
PyDoc_STRVAR(load_plugin_doc, "load_plugin(path, /)\n--\n\n"
                              "Load a plugin and register its rows.\n\n"
                              "ImportError tells what differs when it does not fit this engine.");
PyDoc_STRVAR(load_default_plugin_doc, "load_default_plugin()\n--\n\n"
                                      "Load the chunked plugin unless that has been done.");
PyDoc_STRVAR(function_doc, "function(module, name, /)\n--\n\n"
                           "The function that a plugin registered under these names.");
PyDoc_STRVAR(info_doc, "info()\n--\n\nHow this engine is set up, as a dict.");
PyDoc_STRVAR(pickle_module_doc, "pickle_module()\n--\n\n"
                                "The module with the contents of _pickle, on this engine.");

static PyMethodDef core_functions[] = {
    {"registry", core_registry, METH_NOARGS, registry_doc},
    {"load_plugin", core_load_plugin, METH_O, load_plugin_doc},
    {"load_default_plugin", core_load_default_plugin, METH_NOARGS, load_default_plugin_doc},
    {"function", (PyCFunction)(void (*)(void))core_function, METH_FASTCALL, function_doc},
    {"info", core_info, METH_NOARGS, info_doc},
    {"pickle_module", core_pickle_module, METH_NOARGS, pickle_module_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- execution --------------------------------------------------------------------------------*/

/* What both modules have: the contents of `_pickle`. */
static int add_common(torshi_state *st, PyObject *module, int flavour)
{
    if (PyModule_AddObjectRef(module, "PickleError", st->PickleError) < 0 ||
        PyModule_AddObjectRef(module, "PicklingError", st->PicklingError) < 0 ||
        PyModule_AddObjectRef(module, "UnpicklingError", st->UnpicklingError) < 0 ||
        PyModule_AddObjectRef(module, "PickleBuffer", (PyObject *)&PyPickleBuffer_Type) < 0) {
        return -1;
    }
    if (pickler_add_types(st, module, flavour) < 0 ||
        unpickler_add_types(st, module, flavour) < 0) {
        return -1;
    }
    PyMethodDef *saving =
        flavour == TORSHI_FLAVOUR_PICKLE ? pickler_functions_pickle : pickler_functions_torshi;
    if (PyModule_AddFunctions(module, saving) < 0 ||
        PyModule_AddFunctions(module, unpickler_functions) < 0) {
        return -1;
    }
    return 0;
}

static int core_exec(PyObject *module)
{
    const torshi_config *config = torshi_config_get();
    module_state *state = PyModule_GetState(module);
    state->st = &state->own;
    /* In a host whose `_pickle` is ours the exceptions are made here, and `_pickle` shares them. */
    if (state_init(state->st, config->in_host && config->mode != TORSHI_MODE_OFF) < 0) {
        return -1;
    }
    if (registry_add_types(state->st->registry, module) < 0 ||
        add_common(state->st, module, TORSHI_FLAVOUR_TORSHI) < 0 ||
        PyModule_AddFunctions(module, core_functions) < 0 ||
        PyModule_AddStringConstant(module, "__version__", TORSHI_VERSION) < 0) {
        return -1;
    }
    if (config->mode == TORSHI_MODE_CHUNKED &&
        loader_load_default(state->st->registry, module) < 0) {
        return -1;
    }
    return loader_load_configured(state->st->registry);
}

static int pickle_exec(PyObject *module)
{
    module_state *state = PyModule_GetState(module);
    state->core = PyDict_GetItemString(PyModule_GetDict(module), CORE_ATTRIBUTE);
    state->core = state->core != NULL ? Py_NewRef(state->core) : PyImport_ImportModule("_torshi");
    if (state->core == NULL) {
        /* pickle.py takes an ImportError for "no accelerator here" and would go on without. */
        if (PyErr_ExceptionMatches(PyExc_ImportError)) {
            PyObject *type, *value, *traceback;
            PyErr_Fetch(&type, &value, &traceback);
            PyErr_NormalizeException(&type, &value, &traceback);
            PyErr_Format(PyExc_RuntimeError, "the torshi engine did not start: %S", value);
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(traceback);
        }
        return -1;
    }
    if (!PyModule_Check(state->core) || PyModule_GetDef(state->core) != &core_def) {
        PyErr_SetString(PyExc_RuntimeError, "_torshi is not the engine that _pickle belongs to");
        return -1;
    }
    state->st = state_of_module(state->core);
    return add_common(state->st, module, TORSHI_FLAVOUR_PICKLE);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* There is no m_clear: a late finaliser may still call the engine while the collector takes a
   cycle apart, and every cycle through the state also passes through a dict or a type that the
   collector can clear. m_free runs when nothing can call any more. */
static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    module_state *state = PyModule_GetState(module);
    if (state == NULL) {
        return 0;
    }
    Py_VISIT(state->core);
    return state_traverse(&state->own, visit, arg);
}

static void module_free(void *module)
{
    module_state *state = PyModule_GetState((PyObject *)module);
    if (state == NULL) {
        return;
    }
    state_clear(&state->own);
    Py_CLEAR(state->core);
}

#if PY_VERSION_HEX >= 0x030C0000
#define PER_INTERPRETER_SLOT {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#else
#define PER_INTERPRETER_SLOT
#endif

static PyModuleDef_Slot core_slots[] = {
    {Py_mod_exec, TORSHI_FN(core_exec)},
    PER_INTERPRETER_SLOT{0, NULL},
};

static PyModuleDef_Slot pickle_slots[] = {
    {Py_mod_exec, TORSHI_FN(pickle_exec)},
    PER_INTERPRETER_SLOT{0, NULL},
};

PyDoc_STRVAR(core_doc, "The torshi engine: pickle with a registration table.");
PyDoc_STRVAR(pickle_doc, "Optimized C implementation for the Python pickle module, by torshi.");

static struct PyModuleDef core_def = {
    PyModuleDef_HEAD_INIT,          .m_name = "_torshi",   .m_doc = core_doc,
    .m_size = sizeof(module_state), .m_slots = core_slots, .m_traverse = module_traverse,
    .m_free = module_free,
};

static struct PyModuleDef pickle_def = {
    PyModuleDef_HEAD_INIT,          .m_name = "_pickle",     .m_doc = pickle_doc,
    .m_size = sizeof(module_state), .m_slots = pickle_slots, .m_traverse = module_traverse,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__torshi(void)
{
    return PyModuleDef_Init(&core_def);
}

PyMODINIT_FUNC PyInit__pickle(void)
{
    return PyModuleDef_Init(&pickle_def);
}
