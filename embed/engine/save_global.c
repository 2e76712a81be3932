/*
 * save_global.c - classes, functions and other objects that are pickled by name.
 */
#include "save.h"

#include <string.h>

#include "save_fast.h"

/* torshi_task.step of TASK_GLOBAL */
enum global_step {
    GLOBAL_MODULE,  /* save the module's name */
    GLOBAL_NAME,    /* save the name */
    GLOBAL_PUSH,    /* STACK_GLOBAL */
    DOTTED_GETATTR, /* before protocol 4: getattr once for each part but the first; n: saved */
    DOTTED_FIRST,   /* GLOBAL of the first part */
    DOTTED_NAME,    /* save part n */
    DOTTED_REDUCE,  /* and look it up */
    DOTTED_MARK,    /* protocols 0 and 1: MARK after each getattr */
    GLOBAL_DONE,    /* on the stack: memoize */
};

/* ---- where an object is to be found ---------------------------------------------------------- */

/* The parts of a dotted name, a new list; NULL with an exception. */
static PyObject *split_name(PyObject *name)
{
    PyObject *dot = PyUnicode_FromString(".");
    PyObject *parts = dot == NULL ? NULL : PyUnicode_Split(name, dot, -1);
    Py_XDECREF(dot);
    if (parts == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts); i++) {
        if (PyUnicode_CompareWithASCIIString(PyList_GET_ITEM(parts, i), "<locals>") == 0) {
#if PY_VERSION_HEX >= 0x030D0000
            PyErr_Format(PyExc_AttributeError, "Can't get local object %R", name);
#else
            PyErr_Format(PyExc_AttributeError, "Can't pickle local object %R", name);
#endif
            Py_DECREF(parts);
            return NULL;
        }
    }
    return parts;
}

/* Follow the parts from obj: a new reference, and that to what the last was looked up in (*parent,
   may be NULL itself). NULL with or (a part is absent) without an exception. */
static PyObject *follow(PyObject *obj, PyObject *parts, PyObject **parent)
{
    PyObject *before = NULL;
    Py_INCREF(obj);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts); i++) {
        Py_XDECREF(before);
        before = obj;
        if (lookup_attr(before, PyList_GET_ITEM(parts, i), &obj) <= 0) {
            Py_DECREF(before);
            return NULL;
        }
    }
    if (parent != NULL) {
        *parent = before;
    } else {
        Py_XDECREF(before);
    }
    return obj;
}

/* Whether `module` has obj under this name: 1, 0, or -1 with an exception. */
static int module_has(PyObject *module_name, PyObject *module, PyObject *obj, PyObject *parts)
{
    PyObject *found;
    if (module == Py_None || (PyUnicode_Check(module_name) &&
                              PyUnicode_CompareWithASCIIString(module_name, "__main__") == 0)) {
        return 0;
    }
    found = follow(module, parts, NULL);
    if (found == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    Py_DECREF(found);
    return found == obj;
}

/* The name of the module that obj says it is of, or in which it is found; new reference. */
static PyObject *find_module_name(torshi_dump *d, PyObject *obj, PyObject *parts)
{
    PyObject *name, *modules, *names = NULL, *result = NULL;
    if (lookup_attr(obj, d->st->str_module, &name) < 0) {
        return NULL;
    }
    if (name != NULL && name != Py_None) {
        return name;
    }
    Py_XDECREF(name);
    modules = PySys_GetObject("modules");
    if (modules == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "unable to get sys.modules");
        return NULL;
    }
    /* A copy of the names: looking into a module may import others. */
    Py_INCREF(modules);
    names = PySequence_List(modules);
    if (names == NULL) {
        goto done;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); i++) {
        PyObject *module = PyObject_GetItem(modules, PyList_GET_ITEM(names, i));
        int has;
        if (module == NULL) {
            if (PyErr_ExceptionMatches(PyExc_KeyError)) {
                PyErr_Clear();
                continue;
            }
            goto done;
        }
        has = module_has(PyList_GET_ITEM(names, i), module, obj, parts);
        Py_DECREF(module);
        if (has < 0) {
            goto done;
        }
        if (has) {
            result = Py_NewRef(PyList_GET_ITEM(names, i));
            goto done;
        }
    }
    result = Py_NewRef(d->st->str_main);
done:
    Py_XDECREF(names);
    Py_DECREF(modules);
    return result;
}

/* ---- writing --------------------------------------------------------------------------------- */

int write_extension(torshi_dump *d, long code)
{
    unsigned char op[5];
    size_t n;
    for (int i = 0; i < 4; i++) {
        op[1 + i] = (unsigned char)((unsigned long)code >> (8 * i));
    }
    if (code <= 0xff) {
        op[0] = OP_EXT1;
        n = 2;
    } else if (code <= 0xffff) {
        op[0] = OP_EXT2;
        n = 3;
    } else {
        op[0] = OP_EXT4;
        n = 5;
    }
    return out_write(d, op, n);
}

/* The code that copyreg.add_extension gave to this name: above 0; 0 none; -1 exception. */
static long find_extension(torshi_dump *d, PyObject *obj, PyObject *module_name, PyObject *name)
{
    PyObject *key, *code;
    long value;
    if (PyDict_GET_SIZE(d->st->extension_registry) == 0 && PyUnicode_CheckExact(module_name) &&
        PyUnicode_CheckExact(name)) {
        return 0;
    }
    key = PyTuple_Pack(2, module_name, name);
    if (key == NULL) {
        return -1;
    }
    code = PyDict_GetItemWithError(d->st->extension_registry, key);
    Py_DECREF(key);
    if (code == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    /* Each version's own errors, as its _pickle raises them. */
#if PY_VERSION_HEX >= 0x030D0000
    (void)obj;
    value = PyLong_AsLong(code);
    if ((value <= 0 || value > 0x7fffffffL) && !PyErr_Occurred()) {
        PyErr_Format(PyExc_RuntimeError, "extension code %ld is out of range", value);
    }
#else
    if (!PyLong_Check(code)) {
        PyErr_Format(d->st->PicklingError, "Can't pickle %R: extension code %R isn't an integer",
                     obj, code);
        return -1;
    }
    value = PyLong_AsLong(code);
    if ((value <= 0 || value > 0x7fffffffL) && !PyErr_Occurred()) {
        PyErr_Format(d->st->PicklingError, "Can't pickle %R: extension code %ld is out of range",
                     obj, value);
    }
#endif
    return PyErr_Occurred() ? -1 : value;
}

/* Replace the names (owned) by those of Python 2, where they differ. 0 or -1. */
static int map_names(torshi_dump *d, PyObject **module_name, PyObject **name)
{
    PyObject *key = PyTuple_Pack(2, *module_name, *name);
    PyObject *item;
    if (key == NULL) {
        return -1;
    }
    item = PyDict_GetItemWithError(d->st->name_mapping_3to2, key);
    Py_DECREF(key);
    if (item != NULL) {
        PyObject *new_module, *new_name;
        if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 2) {
            PyErr_Format(
                PyExc_RuntimeError,
                "_compat_pickle.REVERSE_NAME_MAPPING values should be 2-tuples, not %.200s",
                Py_TYPE(item)->tp_name);
            return -1;
        }
        new_module = PyTuple_GET_ITEM(item, 0);
        new_name = PyTuple_GET_ITEM(item, 1);
        if (!PyUnicode_Check(new_module) || !PyUnicode_Check(new_name)) {
            PyErr_Format(PyExc_RuntimeError,
                         "_compat_pickle.REVERSE_NAME_MAPPING values should be pairs of str, not "
                         "(%.200s, %.200s)",
                         Py_TYPE(new_module)->tp_name, Py_TYPE(new_name)->tp_name);
            return -1;
        }
        Py_INCREF(new_module);
        Py_INCREF(new_name);
        Py_SETREF(*module_name, new_module);
        Py_SETREF(*name, new_name);
        return 0;
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    item = PyDict_GetItemWithError(d->st->import_mapping_3to2, *module_name);
    if (item == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    if (!PyUnicode_Check(item)) {
        PyErr_Format(PyExc_RuntimeError,
                     "_compat_pickle.REVERSE_IMPORT_MAPPING values should be strings, not %.200s",
                     Py_TYPE(item)->tp_name);
        return -1;
    }
    Py_INCREF(item);
    Py_SETREF(*module_name, item);
    return 0;
}

/* One of the two lines of GLOBAL; `what` names it in messages. 0 or -1. */
static int write_name_line(torshi_dump *d, PyObject *name, const char *what)
{
    PyObject *bytes = d->proto == 3 ? PyUnicode_AsUTF8String(name) : PyUnicode_AsASCIIString(name);
    int status;
    if (bytes == NULL) {
        if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            PyErr_Format(d->st->PicklingError,
                         "can't pickle %s identifier '%S' using pickle protocol %i", what, name,
                         d->proto);
        }
        return -1;
    }
    status = out_write(d, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)) == 0 &&
                     out_write(d, "\n", 1) == 0
                 ? 0
                 : -1;
    Py_DECREF(bytes);
    return status;
}

/* GLOBAL and its two lines, for protocols below 4. Steals nothing. */
static int write_global_text(torshi_dump *d, PyObject *module_name, PyObject *name)
{
    int status = -1;
    Py_INCREF(module_name);
    Py_INCREF(name);
    if (out_op(d, OP_GLOBAL) == 0 &&
        (!(d->proto < 3 && d->fix_imports) || map_names(d, &module_name, &name) == 0) &&
        write_name_line(d, module_name, "module") == 0 && write_name_line(d, name, "global") == 0) {
        status = 0;
    }
    Py_DECREF(module_name);
    Py_DECREF(name);
    return status;
}

/* obj is what module_name.name is; `parent` is what its last part was looked up in. SAVE_*. */
static int write_found(torshi_dump *d, PyObject *obj, PyObject *module_name, PyObject *module,
                       PyObject *parent, PyObject *name, PyObject *parts)
{
    PyObject *last_name = PyList_GET_ITEM(parts, PyList_GET_SIZE(parts) - 1);
    torshi_task *t;
#if PY_VERSION_HEX < 0x030D0000
    PyObject *value;
#endif
    if (d->proto >= 2) {
        long code = find_extension(d, obj, module_name, name);
        if (code != 0) {
            return code < 0 ? SAVE_ERROR : write_extension(d, code);
        }
    }
    if (d->proto >= 4) {
        t = push_task(d, TASK_GLOBAL, Py_NewRef(obj),
                      Py_NewRef(parent == module ? last_name : name));
        if (t == NULL) {
            return SAVE_ERROR;
        }
        t->u.batch.pending = Py_NewRef(module_name);
        return SAVE_PUSHED;
    }
    if (parent != module) {
        t = push_task(d, TASK_GLOBAL, Py_NewRef(obj), Py_NewRef(parts));
        if (t == NULL) {
            return SAVE_ERROR;
        }
#if PY_VERSION_HEX >= 0x030D0000
        t->u.batch.pending = Py_NewRef(module_name);
        t->u.batch.n = 1;
        t->step = DOTTED_GETATTR;
        return SAVE_PUSHED;
#else
        t->step = GLOBAL_DONE;
        value = Py_BuildValue("(O(OO))", d->st->builtins_getattr, parent, last_name);
        return value == NULL ? SAVE_ERROR : save_reduce(d, value, NULL);
#endif
    }
    if (write_global_text(d, module_name, last_name) < 0) {
        return SAVE_ERROR;
    }
    return memoize(d, obj);
}

/* Do one step, having set the next: SAVE_*. */
static int global_once(torshi_dump *d, enum global_step step)
{
    torshi_task *t = &d->tasks[d->top - 1];
    PyObject *extra = t->extra;
    int status;
    t->step = (uint32_t)step + 1;
    switch (step) {
    case GLOBAL_MODULE:
        return save_object(d, t->u.batch.pending, -1);
    case GLOBAL_NAME:
        return save_object(d, extra, -1);
    case GLOBAL_PUSH:
        t->step = GLOBAL_DONE;
        return out_op(d, OP_STACK_GLOBAL);
    case DOTTED_GETATTR:
        if (t->u.batch.n >= PyList_GET_SIZE(extra)) {
            return SAVE_DONE;
        }
        t->u.batch.n++;
        t->step = d->proto < 2 ? DOTTED_MARK : DOTTED_GETATTR;
        return save_object(d, d->st->builtins_getattr, -1);
    case DOTTED_FIRST:
        t->u.batch.n = 1;
        return write_global_text(d, t->u.batch.pending, PyList_GET_ITEM(extra, 0));
    case DOTTED_NAME:
        if (t->u.batch.n >= PyList_GET_SIZE(extra)) {
            t->step = GLOBAL_DONE;
            return SAVE_DONE;
        }
        t->u.batch.n++;
        return save_object(d, PyList_GET_ITEM(extra, t->u.batch.n - 1), -1);
    case DOTTED_REDUCE:
        t->step = DOTTED_NAME;
        return out_op(d, d->proto < 2 ? OP_TUPLE : OP_TUPLE2) < 0 ? SAVE_ERROR
                                                                  : out_op(d, OP_REDUCE);
    case DOTTED_MARK:
        t->step = DOTTED_GETATTR;
        return out_op(d, OP_MARK);
    case GLOBAL_DONE:
        status = memoize(d, t->obj);
        pop_task(d);
        return status;
    }
    return SAVE_ERROR;
}

int step_global(torshi_dump *d)
{
    size_t top = d->top;
    int status;
    do {
        status = global_once(d, (enum global_step)d->tasks[top - 1].step);
    } while (status == SAVE_DONE && d->top == top);
    return status;
}

int save_global(torshi_dump *d, PyObject *obj, PyObject *name)
{
    PyObject *parts = NULL, *module_name = NULL, *module = NULL, *parent = NULL, *found = NULL;
    int status = SAVE_ERROR;
    if (leave_engine(d) < 0) {
        return SAVE_ERROR;
    }
    if (name != NULL) {
        Py_INCREF(name);
    } else {
        if (lookup_attr(obj, d->st->str_qualname, &name) < 0) {
            goto done;
        }
        if (name == NULL && (name = PyObject_GetAttr(obj, d->st->str_name)) == NULL) {
            goto done;
        }
    }
    parts = split_name(name);
    if (parts == NULL) {
        goto done;
    }
    module_name = find_module_name(d, obj, parts);
    if (module_name == NULL) {
        goto done;
    }
    module = PyImport_Import(module_name);
    if (module == NULL) {
        PyErr_Format(d->st->PicklingError, "Can't pickle %R: import of module %R failed", obj,
                     module_name);
        goto done;
    }
    found = follow(module, parts, &parent);
    if (found == NULL) {
        PyErr_Format(d->st->PicklingError, "Can't pickle %R: attribute lookup %S on %S failed", obj,
                     name, module_name);
        goto done;
    }
    if (found != obj) {
        PyErr_Format(d->st->PicklingError, "Can't pickle %R: it's not the same object as %S.%S",
                     obj, module_name, name);
        goto done;
    }
    status = write_found(d, obj, module_name, module, parent, name, parts);
done:
    Py_XDECREF(found);
    Py_XDECREF(parent);
    Py_XDECREF(module);
    Py_XDECREF(module_name);
    Py_XDECREF(parts);
    Py_XDECREF(name);
    return status;
}

int save_type(torshi_dump *d, PyObject *obj)
{
    PyObject *singleton, *value;
    if (obj == (PyObject *)Py_TYPE(Py_None)) {
        singleton = Py_None;
    } else if (obj == (PyObject *)&PyEllipsis_Type) {
        singleton = Py_Ellipsis;
    } else if (obj == (PyObject *)Py_TYPE(Py_NotImplemented)) {
        singleton = Py_NotImplemented;
    } else {
        return save_global(d, obj, NULL);
    }
    value = Py_BuildValue("(O(O))", (PyObject *)&PyType_Type, singleton);
    return value == NULL ? SAVE_ERROR : save_reduce(d, value, obj);
}

/* ---- without running user code --------------------------------------------------------------- */

/* Whether `import` is what it always was, so that looking into sys.modules is all it would do. */
static int import_is_plain(torshi_dump *d)
{
    torshi_savers *s = d->st->savers;
    PyObject *builtins = PyEval_GetBuiltins();
    PyObject *function;
    if (builtins == NULL || !PyDict_CheckExact(builtins)) {
        return 0;
    }
    function = PyDict_GetItemWithError(builtins, s->str_import);
    return function != NULL && PyCFunction_CheckExact(function);
}

/* Whether a plain module of this name is imported and has obj under `name`, looked up in dicts
   alone. */
static int found_quietly(PyObject *obj, PyObject *module_name, PyObject *name)
{
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *module, *attributes;
    if (modules == NULL || !PyDict_CheckExact(modules)) {
        return 0;
    }
    module = PyDict_GetItemWithError(modules, module_name);
    if (module == NULL || !PyModule_CheckExact(module)) {
        return 0;
    }
    attributes = PyModule_GetDict(module);
    return attributes != NULL && PyDict_GetItemWithError(attributes, name) == obj;
}

int save_global_quietly(torshi_dump *d, PyObject *obj)
{
    PyObject *name, *module_name; /* borrowed from obj */
    if (!d->memo.quiet || d->proto < 4 || d->persistent_id != NULL || d->write != NULL ||
        PyDict_GET_SIZE(d->st->extension_registry) != 0 || !import_is_plain(d)) {
        return SAVE_DECLINED;
    }
    if (Py_TYPE(obj) == &PyType_Type) {
        /* Static types make their names anew each time they are asked. */
        PyTypeObject *type = (PyTypeObject *)obj;
        if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
            return SAVE_DECLINED;
        }
        name = ((PyHeapTypeObject *)obj)->ht_qualname;
        module_name = PyDict_GetItemWithError(type->tp_dict, d->st->str_module);
    } else {
        name = ((PyFunctionObject *)obj)->func_qualname;
        module_name = PyFunction_GET_MODULE(obj);
    }
    if (name == NULL || module_name == NULL || !PyUnicode_CheckExact(name) ||
        !PyUnicode_CheckExact(module_name) ||
        PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1) >= 0 ||
        !found_quietly(obj, module_name, name)) {
        PyErr_Clear();
        return SAVE_DECLINED;
    }
    if (save_object(d, module_name, -1) < 0 || save_object(d, name, -1) < 0 ||
        out_op(d, OP_STACK_GLOBAL) < 0 || memoize(d, obj) < 0) {
        return SAVE_ERROR;
    }
    return SAVE_DONE;
}
