/*
 * inittab.c - the engine among the built-in modules.
 *
 * Where the interpreter has `_pickle` built in, its entry is replaced in place: an appended one
 * would never be found. Where `_pickle` is a file, an appended entry wins, built-in modules being
 * looked up first. The original stays importable as `_torshi_stock_pickle` either way.
 */
#include "host.h"

#include <string.h>

typedef PyObject *(*init_function)(void);

#if PY_VERSION_HEX >= 0x030C0000
#define ANY_INTERPRETER {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#else
#define ANY_INTERPRETER
#endif

/* The interpreter's own built-in `_pickle`, from the first installation on. Plain C, the same for
   the whole process: the table itself is. */
static init_function stock_builtin;

/* The folder of the package, between start and end. */
static const char *package_folder;

/*
 * Fill a stand-in from the module it stands for, and keep that alive. The stand-in is not replaced
 * in sys.modules: another thread that imports it meanwhile has it already. 0, or -1 with an
 * exception.
 */
static int fill_from(PyObject *module, PyObject *stock)
{
    if (PyDict_Merge(PyModule_GetDict(module), PyModule_GetDict(stock), 0) < 0)
        return -1;
    return PyObject_SetAttrString(module, "_module", stock);
}

/* `_torshi_stock_pickle` where `_pickle` is the stock one. */
static int alias_exec(PyObject *module)
{
    PyObject *stock = PyImport_ImportModule("_pickle");
    int result = stock != NULL ? fill_from(module, stock) : -1;

    Py_XDECREF(stock);
    return result;
}

/*
 * Make and execute the module that `spec` describes, `_pickle` by its own name: new, or NULL with
 * an exception. Before 3.12 it enters itself into sys.modules, where the engine belongs.
 */
static PyObject *load_stock(PyObject *util, PyObject *spec)
{
    PyObject *modules = PyImport_GetModuleDict(), *type, *value, *traceback;
    PyObject *engine = PyMapping_GetItemString(modules, "_pickle");
    PyObject *loader = NULL, *executed = NULL, *stock = NULL;
    int failed;

    if (engine == NULL)
        PyErr_Clear();
    loader = PyObject_GetAttrString(spec, "loader");
    if (loader != NULL)
        stock = PyObject_CallMethod(util, "module_from_spec", "O", spec);
    if (stock != NULL)
        executed = PyObject_CallMethod(loader, "exec_module", "O", stock);
    PyErr_Fetch(&type, &value, &traceback);
    if (engine != NULL)
        failed = PyMapping_SetItemString(modules, "_pickle", engine) < 0;
    else
        failed = PyMapping_HasKeyString(modules, "_pickle") &&
                 PyMapping_DelItemString(modules, "_pickle") < 0;
    if (!failed) {
        PyErr_Restore(type, value, traceback);
    } else {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    if (failed || executed == NULL)
        Py_CLEAR(stock);
    Py_XDECREF(engine);
    Py_XDECREF(executed);
    Py_XDECREF(loader);
    return stock;
}

/* `_torshi_stock_pickle`: the file that `_pickle` would be without us. */
static int stock_exec(PyObject *module)
{
    PyObject *machinery = NULL, *util = NULL, *finder = NULL, *spec = NULL, *stock = NULL;
    int result = -1;

    machinery = PyImport_ImportModule("importlib.machinery");
    util = PyImport_ImportModule("importlib.util");
    if (machinery == NULL || util == NULL)
        goto done;
    finder = PyObject_GetAttrString(machinery, "PathFinder");
    if (finder == NULL)
        goto done;
    spec = PyObject_CallMethod(finder, "find_spec", "s", "_pickle");
    if (spec == Py_None)
        PyErr_SetString(PyExc_ImportError, "this Python has no _pickle of its own");
    else if (spec != NULL)
        stock = load_stock(util, spec);
    if (stock != NULL)
        result = fill_from(module, stock);
done:
    Py_XDECREF(stock);
    Py_XDECREF(spec);
    Py_XDECREF(finder);
    Py_XDECREF(util);
    Py_XDECREF(machinery);
    return result;
}

/* The specification of the package's own file: new, or NULL with an exception. */
static PyObject *make_package_spec(PyObject *path)
{
    PyObject *util = PyImport_ImportModule("importlib.util"), *function = NULL, *spec = NULL;
    PyObject *positional = NULL, *keywords = NULL;

    if (util == NULL)
        goto done;
    function = PyObject_GetAttrString(util, "spec_from_file_location");
    positional = Py_BuildValue("(sN)", "torshi", PyUnicode_FromFormat("%U/__init__.py", path));
    keywords = Py_BuildValue("{s[O]}", "submodule_search_locations", path);
    if (function != NULL && positional != NULL && keywords != NULL)
        spec = PyObject_Call(function, positional, keywords);
done:
    Py_XDECREF(keywords);
    Py_XDECREF(positional);
    Py_XDECREF(function);
    Py_XDECREF(util);
    return spec;
}

/* Give a module the attributes that the import system gives to one loaded by `spec`. 0 or -1. */
static int set_import_attributes(PyObject *module, PyObject *spec)
{
    static const char *const names[][2] = {
        {"__loader__", "loader"},
        {"__package__", "parent"},
        {"__path__", "submodule_search_locations"},
        {"__file__", "origin"},
        {"__cached__", "cached"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        PyObject *value = PyObject_GetAttrString(spec, names[i][1]);
        int set = value != NULL ? PyObject_SetAttrString(module, names[i][0], value) : -1;
        Py_XDECREF(value);
        if (set < 0)
            return -1;
    }
    /* Other threads that import it meanwhile wait, as they do for any module that is not ready. */
    if (PyObject_SetAttrString(spec, "_initializing", Py_True) < 0)
        return -1;
    return PyObject_SetAttrString(module, "__spec__", spec);
}

/*
 * `torshi`: the package that belongs to this host. A built-in module leads to it, not an entry in
 * sys.path, so that it is found under -I and -S, in sub-interpreters and after a program has set
 * sys.path anew, and so that sys.path is python3's own.
 */
static int package_exec(PyObject *module)
{
    PyObject *folder = NULL, *path = NULL, *spec = NULL, *loader = NULL, *executed = NULL;
    int result = -1;

    folder = PyUnicode_DecodeFSDefault(package_folder);
    if (folder == NULL)
        goto done;
    path = PyUnicode_FromFormat("%U/torshi", folder);
    spec = path != NULL ? make_package_spec(path) : NULL;
    if (spec == NULL || set_import_attributes(module, spec) < 0)
        goto done;
    loader = PyObject_GetAttrString(spec, "loader");
    if (loader != NULL)
        executed = PyObject_CallMethod(loader, "exec_module", "O", module);
    if (executed != NULL)
        result = PyObject_SetAttrString(spec, "_initializing", Py_False);
done:
    Py_XDECREF(executed);
    Py_XDECREF(loader);
    Py_XDECREF(spec);
    Py_XDECREF(path);
    Py_XDECREF(folder);
    return result;
}

/* A module of which nothing but its exec function matters. */
#define STAND_IN(function, module_name, exec)                                                      \
    static PyObject *function(void)                                                                \
    {                                                                                              \
        static PyModuleDef_Slot slots[] = {{Py_mod_exec, TORSHI_FN(exec)},                         \
                                           ANY_INTERPRETER{0, NULL}};                              \
        static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = module_name,      \
                                                .m_slots = slots};                                 \
        return PyModuleDef_Init(&definition);                                                      \
    }

STAND_IN(init_stock_from_file, "_torshi_stock_pickle", stock_exec)
STAND_IN(init_stock_alias, "_torshi_stock_pickle", alias_exec)

STAND_IN(init_package, "torshi", package_exec)

static struct _inittab *find(const char *name)
{
    for (struct _inittab *entry = PyImport_Inittab; entry->name != NULL; entry++) {
        if (strcmp(entry->name, name) == 0)
            return entry;
    }
    return NULL;
}

/* Append an entry unless the table has it from an earlier start; some versions forget what was
   appended when Python ends, others keep it. */
static int append(const char *name, init_function init)
{
    struct _inittab *entry = find(name);

    if (entry != NULL) {
        entry->initfunc = init;
        return 0;
    }
    return PyImport_AppendInittab(name, init);
}

/* Give `_pickle` to the engine, or back to what it would be without us. */
static int place_pickle(int mode)
{
    static const char hidden[] = "_torshi_pickle"; /* an appended entry that is not in force */
    struct _inittab *entry = find("_pickle");
    int ours = mode != TORSHI_MODE_OFF;

    if (stock_builtin == NULL && entry != NULL && entry->initfunc != PyInit__pickle)
        stock_builtin = entry->initfunc;
    if (stock_builtin != NULL && entry != NULL) {
        entry->initfunc = ours ? PyInit__pickle : stock_builtin;
        return 0;
    }
    if (entry == NULL)
        entry = find(hidden);
    if (entry != NULL) {
        entry->name = ours ? "_pickle" : hidden;
        return 0;
    }
    return ours ? PyImport_AppendInittab("_pickle", PyInit__pickle) : 0;
}

int host_inittab_install(int mode, const char *package)
{
    if (place_pickle(mode) < 0)
        return -1;
    if (append("_torshi", PyInit__torshi) < 0)
        return -1;
    package_folder = package;
    if (package != NULL && append("torshi", init_package) < 0)
        return -1;
    if (mode == TORSHI_MODE_OFF)
        return append("_torshi_stock_pickle", init_stock_alias);
    return append("_torshi_stock_pickle",
                  stock_builtin != NULL ? stock_builtin : init_stock_from_file);
}
