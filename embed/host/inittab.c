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

/* The interpreter's own built-in `_pickle`, from the first installation on. Plain C, the same for
   the whole process: the table itself is. */
static init_function stock_builtin;

/* Load the file that `_pickle` would be without us, and let it take this module's place. */
static int stock_exec(PyObject *module)
{
    PyObject *machinery = NULL, *util = NULL, *finder = NULL, *spec = NULL, *stock = NULL;
    PyObject *loader = NULL, *done_object = NULL;
    int result = -1;

    machinery = PyImport_ImportModule("importlib.machinery");
    util = PyImport_ImportModule("importlib.util");
    if (machinery == NULL || util == NULL)
        goto done;
    finder = PyObject_GetAttrString(machinery, "PathFinder");
    if (finder == NULL)
        goto done;
    spec = PyObject_CallMethod(finder, "find_spec", "s", "_pickle");
    if (spec == NULL)
        goto done;
    if (spec == Py_None) {
        PyErr_SetString(PyExc_ImportError, "this Python has no _pickle of its own");
        goto done;
    }
    stock = PyObject_CallMethod(util, "module_from_spec", "O", spec);
    loader = PyObject_GetAttrString(spec, "loader");
    if (stock == NULL || loader == NULL)
        goto done;
    done_object = PyObject_CallMethod(loader, "exec_module", "O", stock);
    if (done_object == NULL)
        goto done;
    PyObject *name = PyModule_GetNameObject(module);
    if (name == NULL)
        goto done;
    /* The import system hands out what sys.modules holds once exec is over. */
    result = PyObject_SetItem(PyImport_GetModuleDict(), name, stock);
    Py_DECREF(name);
done:
    Py_XDECREF(done_object);
    Py_XDECREF(loader);
    Py_XDECREF(stock);
    Py_XDECREF(spec);
    Py_XDECREF(finder);
    Py_XDECREF(util);
    Py_XDECREF(machinery);
    return result;
}

static PyObject *init_stock_from_file(void)
{
    static PyModuleDef_Slot slots[] = {
        {Py_mod_exec, TORSHI_FN(stock_exec)},
#if PY_VERSION_HEX >= 0x030C0000
        {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
        {0, NULL},
    };
    static struct PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,
        .m_name = "_torshi_stock_pickle",
        .m_doc = "The _pickle that Torshi's engine stands in for.",
        .m_slots = slots,
    };
    return PyModuleDef_Init(&definition);
}

static struct _inittab *find(const char *name)
{
    for (struct _inittab *entry = PyImport_Inittab; entry->name != NULL; entry++) {
        if (strcmp(entry->name, name) == 0)
            return entry;
    }
    return NULL;
}

/* Append an entry unless the table has it: Python forgets what was appended when it ends, but
   not before a second start that failed in between. */
static int append(const char *name, init_function init)
{
    struct _inittab *entry = find(name);

    if (entry != NULL) {
        entry->initfunc = init;
        return 0;
    }
    return PyImport_AppendInittab(name, init);
}

int host_inittab_install(int mode)
{
    struct _inittab *entry = find("_pickle");

    if (stock_builtin == NULL && entry != NULL && entry->initfunc != PyInit__pickle)
        stock_builtin = entry->initfunc;
    if (stock_builtin != NULL && entry != NULL)
        entry->initfunc = mode == TORSHI_MODE_OFF ? stock_builtin : PyInit__pickle;
    else if (mode != TORSHI_MODE_OFF && append("_pickle", PyInit__pickle) < 0)
        return -1;
    if (append("_torshi", PyInit__torshi) < 0)
        return -1;
    return append("_torshi_stock_pickle",
                  stock_builtin != NULL ? stock_builtin : init_stock_from_file);
}
