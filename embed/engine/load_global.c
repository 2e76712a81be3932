/*
 * load_global.c - opcodes that bring something in by name, by extension code or by persistent id,
 * and what find_class does.
 */
#include "load.h"

/* ---- importing ------------------------------------------------------------------------------- */

/* Whether a module is in the middle of its import. 1, 0 or -1. */
static int is_initializing(torshi_loaders *loaders, PyObject *module)
{
    PyObject *spec = PyDict_GetItemWithError(PyModule_GetDict(module), loaders->str_spec);
    if (spec == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    if (spec == Py_None) {
        return 0;
    }
    /* An import that is over does not begin again under the same spec. */
    PyObject **ready = &loaders->ready_specs[((uintptr_t)spec >> 5) % READY_SPECS];
    if (*ready == spec) {
        return 0;
    }
    PyObject *value;
    Py_INCREF(spec);
    int yes = lookup_attribute(spec, loaders->str_initializing, &value);
    if (yes == 0 && value != NULL) {
        yes = PyObject_IsTrue(value);
        Py_DECREF(value);
    }
    if (yes == 0) {
        Py_XSETREF(*ready, Py_NewRef(spec));
    }
    Py_DECREF(spec);
    return yes;
}

/* Import by absolute name, as PyImport_Import does; it is called unless the module is there
   already and nobody has replaced __import__. */
static PyObject *import_module(torshi_loaders *loaders, PyObject *name)
{
    PyObject *builtins = PyEval_GetBuiltins();
    PyObject *import_function = NULL;
    if (builtins != NULL && PyDict_CheckExact(builtins) && PyUnicode_CheckExact(name)) {
        import_function = PyDict_GetItemWithError(builtins, loaders->str_import);
        if (import_function == NULL && PyErr_Occurred()) {
            return NULL;
        }
    }
    if (import_function != NULL && import_function == loaders->import_function) {
        PyObject *module = PyImport_GetModule(name);
        if (module != NULL && PyModule_CheckExact(module)) {
            int initializing = is_initializing(loaders, module);
            if (initializing == 0) {
                return module;
            }
            if (initializing < 0) {
                Py_DECREF(module);
                return NULL;
            }
        } else if (module == NULL && PyErr_Occurred()) {
            return NULL;
        }
        Py_XDECREF(module);
    }
    return PyImport_Import(name);
}

/* ---- find_class ------------------------------------------------------------------------------ */

/* Python 2's names for what Python 3 has elsewhere. *module and *name are owned and replaced. */
static int map_names(torshi_state *st, PyObject **module, PyObject **name)
{
    int status = -1;
    PyObject *mapped = NULL;
    PyObject *key = PyTuple_Pack(2, *module, *name);
    if (key == NULL) {
        return -1;
    }
    mapped = Py_XNewRef(PyDict_GetItemWithError(st->name_mapping_2to3, key));
    if (mapped != NULL) {
        if (!PyTuple_Check(mapped) || PyTuple_GET_SIZE(mapped) != 2) {
            PyErr_Format(PyExc_RuntimeError,
                         "_compat_pickle.NAME_MAPPING values should be 2-tuples, not %.200s",
                         Py_TYPE(mapped)->tp_name);
            goto done;
        }
        PyObject *new_module = PyTuple_GET_ITEM(mapped, 0);
        PyObject *new_name = PyTuple_GET_ITEM(mapped, 1);
        if (!PyUnicode_Check(new_module) || !PyUnicode_Check(new_name)) {
            PyErr_Format(PyExc_RuntimeError,
                         "_compat_pickle.NAME_MAPPING values should be pairs of str, not "
                         "(%.200s, %.200s)",
                         Py_TYPE(new_module)->tp_name, Py_TYPE(new_name)->tp_name);
            goto done;
        }
        Py_SETREF(*module, Py_NewRef(new_module));
        Py_SETREF(*name, Py_NewRef(new_name));
    } else if (PyErr_Occurred()) {
        goto done;
    } else {
        mapped = Py_XNewRef(PyDict_GetItemWithError(st->import_mapping_2to3, *module));
        if (mapped == NULL && PyErr_Occurred()) {
            goto done;
        }
        if (mapped != NULL && !PyUnicode_Check(mapped)) {
            PyErr_Format(PyExc_RuntimeError,
                         "_compat_pickle.IMPORT_MAPPING values should be strings, not %.200s",
                         Py_TYPE(mapped)->tp_name);
            goto done;
        }
        if (mapped != NULL) {
            Py_SETREF(*module, Py_NewRef(mapped));
        }
    }
    status = 0;
done:
    Py_XDECREF(mapped);
    Py_DECREF(key);
    return status;
}

static PyObject *attribute_missing(PyObject *name, PyObject *obj)
{
    PyErr_Format(PyExc_AttributeError, "Can't get attribute %R on %R", name, obj);
    return NULL;
}

/* module.a.b.c for the name 'a.b.c'. */
static PyObject *dotted_attribute(torshi_loaders *loaders, PyObject *module, PyObject *name)
{
    PyObject *parts = PyUnicode_Split(name, loaders->str_dot, -1);
    if (parts == NULL) {
        return NULL;
    }
    PyObject *obj = Py_NewRef(module);
    Py_ssize_t n = PyList_GET_SIZE(parts);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (PyUnicode_CompareWithASCIIString(PyList_GET_ITEM(parts, i), "<locals>") == 0) {
            PyErr_Format(PyExc_AttributeError, "Can't %s local attribute %R on %R",
                         PY_VERSION_HEX < 0x030D0000 ? "pickle" : "get", name, module);
            Py_CLEAR(obj);
        }
    }
    for (Py_ssize_t i = 0; i < n && obj != NULL; i++) {
        PyObject *value;
        int status = lookup_attribute(obj, PyList_GET_ITEM(parts, i), &value);
        Py_SETREF(obj, value);
        if (status == 0 && value == NULL) {
            attribute_missing(name, module);
        }
    }
    Py_DECREF(parts);
    return obj;
}

/* The attribute of a module, as generic look-up finds it, in *value; NULL: not there. 0 or -1. */
static int module_attribute(PyObject *module, PyObject *name, PyObject **value)
{
    /* What its type has under a name without underscores gives way to its __dict__. */
    if (PyModule_CheckExact(module) && PyUnicode_CheckExact(name) &&
        PyUnicode_GET_LENGTH(name) > 0 && PyUnicode_READ_CHAR(name, 0) != '_') {
        *value = Py_XNewRef(PyDict_GetItemWithError(PyModule_GetDict(module), name));
        if (*value != NULL) {
            return 0;
        }
        if (PyErr_Occurred()) {
            return -1;
        }
    }
    return lookup_attribute(module, name, value);
}

/* Whether find_class takes this name apart. */
static int is_dotted(PyObject *name)
{
    Py_ssize_t n = PyUnicode_GET_LENGTH(name);
    if (PyUnicode_IS_COMPACT_ASCII(name)) {
        const char *text = (const char *)PyUnicode_DATA(name);
        return text[0] == '<' || memchr(text, '.', (size_t)n) != NULL;
    }
    return PyUnicode_FindChar(name, '.', 0, n, 1) != -1;
}

PyObject *find_class_default(torshi_state *st, int proto, int fix_imports, PyObject *module,
                             PyObject *name)
{
    PyObject *found = NULL, *source = NULL;
    if (PySys_Audit("pickle.find_class", "OO", module, name) < 0) {
        return NULL;
    }
    Py_INCREF(module);
    Py_INCREF(name);
    if (proto < 3 && fix_imports && map_names(st, &module, &name) < 0) {
        goto done;
    }
    source = import_module(st->loaders, module);
    if (source == NULL) {
        goto done;
    }
    if (!PyUnicode_Check(name)) { /* from a caller of find_class */
        found = PyObject_GetAttr(source, name);
    } else if (proto >= 4 && is_dotted(name)) {
        found = dotted_attribute(st->loaders, source, name);
    } else if (module_attribute(source, name, &found) == 0 && found == NULL) {
        attribute_missing(name, source);
    }
done:
    Py_XDECREF(source);
    Py_DECREF(module);
    Py_DECREF(name);
    return found;
}

static PyObject *find_class(torshi_load *load, PyObject *module, PyObject *name)
{
    PyObject *found;
    user_code_begins(load);
    if (load->unpickler == NULL) {
        found = find_class_default(load->st, load->proto, load->fix_imports, module, name);
    } else {
        found = PyObject_CallMethodObjArgs(load->unpickler, load->st->str_find_class, module, name,
                                           NULL);
    }
    user_code_ended(load);
    return found;
}

/* ---- opcodes --------------------------------------------------------------------------------- */

/* One of the two lines of GLOBAL and INST, without its newline; NULL on failure. */
static PyObject *name_line(torshi_load *load, int ascii)
{
    Py_ssize_t length = input_line(load);
    if (length < 0) {
        return NULL;
    }
    if (length < 2) {
        input_truncated(load);
        return NULL;
    }
    return ascii ? PyUnicode_DecodeASCII(load->line, length - 1, "strict")
                 : PyUnicode_DecodeUTF8(load->line, length - 1, "strict");
}

/* What two lines of the stream name. */
PyObject *global_from_lines(torshi_load *load, int ascii)
{
    PyObject *found = NULL, *name = NULL;
    PyObject *module = name_line(load, ascii);
    if (module != NULL) {
        name = name_line(load, ascii);
    }
    if (name != NULL) {
        found = find_class(load, module, name);
    }
    Py_XDECREF(module);
    Py_XDECREF(name);
    return found;
}

int load_GLOBAL(torshi_load *load)
{
    return stack_push(load, global_from_lines(load, 0));
}

int load_STACK_GLOBAL(torshi_load *load)
{
    int status = -1;
    PyObject *module = NULL;
    PyObject *name = stack_pop(load);
    if (name == NULL) {
        return -1;
    }
    module = stack_pop(load);
    if (module == NULL) {
        goto done;
    }
    if (!PyUnicode_CheckExact(name) || !PyUnicode_CheckExact(module)) {
        PyErr_SetString(load->st->UnpicklingError, "STACK_GLOBAL requires str");
        goto done;
    }
    status = stack_push(load, find_class(load, module, name));
done:
    Py_DECREF(name);
    Py_XDECREF(module);
    return status;
}

/* What copyreg has under an extension code; new reference or NULL. */
static PyObject *extension(torshi_load *load, long code)
{
    const torshi_state *st = load->st;
    PyObject *found = NULL;
    if (code <= 0) {
        PyErr_SetString(st->UnpicklingError, "EXT specifies code <= 0");
        return NULL;
    }
    PyObject *key = PyLong_FromLong(code);
    if (key == NULL) {
        return NULL;
    }
    found = Py_XNewRef(PyDict_GetItemWithError(st->extension_cache, key));
    if (found != NULL || PyErr_Occurred()) {
        goto done;
    }
    PyObject *pair = PyDict_GetItemWithError(st->inverted_registry, key);
    if (pair == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "unregistered extension code %ld", code);
        }
        goto done;
    }
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2 ||
        !PyUnicode_Check(PyTuple_GET_ITEM(pair, 0)) ||
        !PyUnicode_Check(PyTuple_GET_ITEM(pair, 1))) {
        PyErr_Format(PyExc_ValueError, "_inverted_registry[%ld] isn't a 2-tuple of strings", code);
        goto done;
    }
    Py_INCREF(pair);
    found = find_class(load, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    Py_DECREF(pair);
    if (found != NULL && PyDict_SetItem(st->extension_cache, key, found) < 0) {
        Py_CLEAR(found);
    }
done:
    Py_DECREF(key);
    return found;
}

int load_EXT1(torshi_load *load)
{
    const unsigned char *p = input_take(load, 1);
    return p == NULL ? -1 : stack_push(load, extension(load, p[0]));
}

int load_EXT2(torshi_load *load)
{
    const unsigned char *p = input_take(load, 2);
    return p == NULL ? -1 : stack_push(load, extension(load, (long)le16(p)));
}

int load_EXT4(torshi_load *load)
{
    const unsigned char *p = input_take(load, 4);
    return p == NULL ? -1 : stack_push(load, extension(load, (int32_t)le32(p)));
}

static int no_persistent_load(torshi_load *load)
{
    /* The text had a line break before 3.12. */
    PyErr_Format(load->st->UnpicklingError,
                 "A load persistent id instruction was encountered,%cbut no persistent_load "
                 "function was specified.",
                 PY_VERSION_HEX < 0x030C0000 ? '\n' : ' ');
    return -1;
}

static int push_persistent(torshi_load *load, PyObject *id)
{
    user_code_begins(load);
    PyObject *obj = PyObject_CallOneArg(load->persistent_load, id);
    Py_DECREF(id);
    user_code_ended(load);
    return stack_push(load, obj);
}

int load_PERSID(torshi_load *load)
{
    if (load->persistent_load == NULL) {
        return no_persistent_load(load);
    }
    Py_ssize_t length = input_line(load);
    if (length < 0) {
        return -1;
    }
    PyObject *id = PyUnicode_DecodeASCII(load->line, length - 1, "strict");
    if (id == NULL) {
        if (PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
            PyErr_SetString(load->st->UnpicklingError,
                            "persistent IDs in protocol 0 must be ASCII strings");
        }
        return -1;
    }
    return push_persistent(load, id);
}

int load_BINPERSID(torshi_load *load)
{
    if (load->persistent_load == NULL) {
        return no_persistent_load(load);
    }
    PyObject *id = stack_pop(load);
    return id == NULL ? -1 : push_persistent(load, id);
}
