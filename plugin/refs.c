/*
 * refs.c - the reference classes that torshi.register_ref names, and the state of all of refs.h.
 */
#include "refs.h"

/* ---- registered classes -------------------------------------------------------------------------
 */
ref_class *ref_class_keep(ref_class *c)
{
    c->refs++;
    return c;
}

void ref_class_drop(ref_class *c)
{
    if (--c->refs) {
        return;
    }
    Py_DECREF(c->cls);
    Py_XDECREF(c->reduce);
    Py_XDECREF(c->replaced);
    Py_XDECREF(c->batch);
    Py_XDECREF(c->outer);
    Py_XDECREF(c->worker);
    for (size_t i = 0; i < c->callable_count; i++) {
        Py_DECREF(c->callables[i]);
    }
    PyMem_Free(c);
}

ref_class *ref_class_find(const ref_state *state, PyObject *cls)
{
    for (size_t i = 0; i < state->class_count; i++) {
        if (state->classes[i]->cls == cls) {
            return state->classes[i];
        }
    }
    return NULL;
}

static bool makes(const ref_class *c, PyObject *callable)
{
    for (size_t i = 0; i < c->callable_count; i++) {
        if (c->callables[i] == callable) {
            return true;
        }
    }
    return !c->callables_given && c->cls == callable;
}

ref_class *ref_class_of_callable(const ref_state *state, PyObject *callable)
{
    ref_class *found = NULL;
    for (size_t i = 0; i < state->class_count; i++) {
        ref_class *c = state->classes[i];
        if (makes(c, callable)) {
            if (found) {
                return NULL; /* one callable for two classes: only it can tell which to make */
            }
            found = c;
        }
    }
    return found && found->batch ? found : NULL;
}

void ref_class_learn(ref_class *c, PyObject *callable)
{
    if (!c->callables_given && !makes(c, callable) && c->callable_count < REF_CALLABLES) {
        c->callables[c->callable_count++] = Py_NewRef(callable);
    }
}

static int refuse(const char *what, PyObject *got)
{
    PyErr_Format(PyExc_TypeError, "register_ref: %s, not %R", what, got);
    return -1;
}

/* Set *to to a callable argument; None: NULL. 0 or -1. */
static int take_callable(PyObject **to, PyObject *value, const char *what)
{
    if (value == Py_None) {
        return 0;
    }
    if (!PyCallable_Check(value)) {
        return refuse(what, value);
    }
    *to = Py_NewRef(value);
    return 0;
}

static int take_callables(ref_class *c, PyObject *values)
{
    PyObject *items = PySequence_Fast(values, "register_ref: callables must be a sequence");
    int status = items ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < PySequence_Fast_GET_SIZE(items); i++) {
        PyObject *callable = PySequence_Fast_GET_ITEM(items, i);
        if (!PyCallable_Check(callable)) {
            status = refuse("callables must be callable", callable);
        } else if (c->callable_count == REF_CALLABLES) {
            PyErr_Format(PyExc_ValueError, "register_ref: more than %d callables", REF_CALLABLES);
            status = -1;
        } else {
            c->callables[c->callable_count++] = Py_NewRef(callable);
            c->callables_given = true;
        }
    }
    Py_XDECREF(items);
    return status;
}

/* The keyword arguments of register_ref. 0 or -1. */
static int take_keywords(ref_class *c, PyObject *const *values, PyObject *names)
{
    int status = 0;
    for (Py_ssize_t i = 0; status == 0 && names && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (PyUnicode_CompareWithASCIIString(name, "reduce") == 0) {
            status = take_callable(&c->reduce, values[i], "reduce must be callable");
        } else if (PyUnicode_CompareWithASCIIString(name, "batch") == 0) {
            status = take_callable(&c->batch, values[i], "batch must be callable");
        } else if (PyUnicode_CompareWithASCIIString(name, "outer") == 0) {
            status = take_callable(&c->outer, values[i], "outer must be callable");
        } else if (PyUnicode_CompareWithASCIIString(name, "worker") == 0) {
            status = take_callable(&c->worker, values[i], "worker must be callable");
        } else if (PyUnicode_CompareWithASCIIString(name, "callables") == 0) {
            status = take_callables(c, values[i]);
        } else {
            PyErr_Format(PyExc_TypeError, "register_ref() got an unexpected keyword argument %R",
                         name);
            status = -1;
        }
    }
    return status;
}

/* copyreg.dispatch_table; new reference or NULL. */
static PyObject *dispatch_table(void)
{
    PyObject *copyreg = PyImport_ImportModule("copyreg");
    PyObject *table = copyreg ? PyObject_GetAttrString(copyreg, "dispatch_table") : NULL;
    Py_XDECREF(copyreg);
    if (table && !PyDict_Check(table)) {
        PyErr_SetString(PyExc_TypeError, "copyreg.dispatch_table is no dict");
        Py_CLEAR(table);
    }
    return table;
}

/* Put c's reducer where every pickler looks, that the reference is reduced alike alone, in many and
   by the standard library's pickle. 0 or -1. */
static int publish_reduce(ref_class *c)
{
    if (!c->reduce) {
        return 0;
    }
    PyObject *table = dispatch_table();
    int status = table ? 0 : -1;
    if (status == 0) {
        Py_XSETREF(c->replaced, Py_XNewRef(PyDict_GetItemWithError(table, c->cls)));
        c->withdrawn = false;
        status = !c->replaced && PyErr_Occurred() ? -1 : PyDict_SetItem(table, c->cls, c->reduce);
    }
    Py_XDECREF(table);
    return status;
}

/* Undo that, unless somebody has put another one there since. 0 or -1. */
static int withdraw_reduce(ref_class *c)
{
    if (!c->reduce) {
        return 0;
    }
    PyObject *table = dispatch_table();
    int status = table ? 0 : -1;
    if (status == 0 && PyDict_GetItemWithError(table, c->cls) == c->reduce) {
        status = c->replaced ? PyDict_SetItem(table, c->cls, c->replaced)
                             : PyDict_DelItem(table, c->cls);
        c->withdrawn = status == 0;
    } else if (PyErr_Occurred()) {
        status = -1;
    }
    Py_XDECREF(table);
    return status;
}

/* Enter c, in the place of an earlier registration of its class. Takes c also on failure. */
static int enter_class(ref_state *state, ref_class *c)
{
    ref_class *old = ref_class_find(state, c->cls);
    ref_class **grown =
        old ? state->classes
            : PyMem_Realloc(state->classes, (state->class_count + 1) * sizeof(ref_class *));
    if (!grown) {
        ref_class_drop(c);
        PyErr_NoMemory();
        return -1;
    }
    state->classes = grown;
    if ((old && withdraw_reduce(old) < 0) || publish_reduce(c) < 0) {
        ref_class_drop(c);
        return -1;
    }
    if (old) {
        for (size_t i = 0; i < state->class_count; i++) {
            if (state->classes[i] == old) {
                state->classes[i] = c;
            }
        }
        ref_class_drop(old);
    } else {
        state->classes[state->class_count++] = c;
    }
    return 0;
}

PyObject *register_ref_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    if (nargs != 1) {
        PyErr_Format(PyExc_TypeError, "register_ref() takes 1 positional argument, got %zd",
                     (Py_ssize_t)nargs);
        return NULL;
    }
    if (!PyType_Check(args[0])) {
        refuse("a class is needed", args[0]);
        return NULL;
    }
    ref_class *c = PyMem_Calloc(1, sizeof(*c));
    if (!c) {
        return PyErr_NoMemory();
    }
    c->refs = 1;
    c->cls = Py_NewRef(args[0]);
    if (take_keywords(c, args + nargs, kwnames) < 0) {
        ref_class_drop(c);
        return NULL;
    }
    if (enter_class(refs_of(plugin), c) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *unregister_ref_call(void *plugin, PyObject *const *args, intptr_t nargs,
                              PyObject *kwnames)
{
    if (nargs != 1 || kwnames) {
        PyErr_SetString(PyExc_TypeError, "unregister_ref() takes 1 positional argument");
        return NULL;
    }
    ref_state *state = refs_of(plugin);
    for (size_t i = 0; i < state->class_count; i++) {
        ref_class *c = state->classes[i];
        if (c->cls == args[0]) {
            memmove(state->classes + i, state->classes + i + 1,
                    (--state->class_count - i) * sizeof(ref_class *));
            int status = withdraw_reduce(c);
            ref_class_drop(c);
            return status < 0 ? NULL : Py_NewRef(Py_None);
        }
    }
    PyErr_Format(PyExc_ValueError, "unregister_ref: %R is not registered", args[0]);
    return NULL;
}

/* ---- undoing a registration ---------------------------------------------------------------------
 */
#define KNOWN_REF "torshi._known_ref"

static void drop_known(PyObject *capsule)
{
    ref_class_drop(PyCapsule_GetPointer(capsule, KNOWN_REF));
}

PyObject *known_ref_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    if (nargs != 1 || kwnames) {
        PyErr_SetString(PyExc_TypeError, "_known_ref() takes 1 positional argument");
        return NULL;
    }
    ref_class *c = ref_class_find(refs_of(plugin), args[0]);
    if (!c) {
        Py_RETURN_NONE;
    }
    PyObject *capsule = PyCapsule_New(c, KNOWN_REF, drop_known);
    if (capsule) {
        ref_class_keep(c);
    }
    return capsule;
}

PyObject *restore_ref_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    if (nargs != 2 || kwnames) {
        PyErr_SetString(PyExc_TypeError, "_restore_ref() takes 2 positional arguments");
        return NULL;
    }
    ref_state *state = refs_of(plugin);
    ref_class *made = PyCapsule_GetPointer(args[0], KNOWN_REF);
    ref_class *before =
        made && args[1] != Py_None ? PyCapsule_GetPointer(args[1], KNOWN_REF) : NULL;
    if (!made || (!before && args[1] != Py_None)) {
        return NULL;
    }
    for (size_t i = 0; i < state->class_count; i++) {
        if (state->classes[i] != made) { /* replaced by a later one: not ours to undo */
            continue;
        }
        if (before) {
            state->classes[i] = ref_class_keep(before);
        } else {
            memmove(state->classes + i, state->classes + i + 1,
                    (--state->class_count - i) * sizeof(ref_class *));
        }
        int status = withdraw_reduce(made);
        if (status == 0 && before && before->withdrawn) {
            status = publish_reduce(before);
        }
        ref_class_drop(made); /* args[0] has another reference */
        return status < 0 ? NULL : Py_NewRef(Py_None);
    }
    Py_RETURN_NONE;
}

PyObject *ref_types_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    (void)args;
    if (nargs || kwnames) {
        PyErr_SetString(PyExc_TypeError, "_ref_types() takes no arguments");
        return NULL;
    }
    ref_state *state = refs_of(plugin);
    state->make_ref = object_ref_maker(plugin);
    return PyTuple_Pack(2, state->object_ref_type, state->load_type);
}

/* ---- the state ----------------------------------------------------------------------------------
 */
static int state_traverse(PyObject *module, visitproc visit, void *arg)
{
    const ref_state *state = PyModule_GetState(module);
    Py_VISIT(state->object_ref_type);
    Py_VISIT(state->load_type);
    for (size_t i = 0; i < state->class_count; i++) {
        const ref_class *c = state->classes[i];
        if (c->refs == 1) { /* else somebody else at work holds what is in it */
            Py_VISIT(c->cls);
            Py_VISIT(c->reduce);
            Py_VISIT(c->replaced);
            Py_VISIT(c->batch);
            Py_VISIT(c->outer);
            Py_VISIT(c->worker);
            for (size_t j = 0; j < c->callable_count; j++) {
                Py_VISIT(c->callables[j]);
            }
        }
    }
    return 0;
}

static int state_clear(PyObject *module)
{
    ref_state *state = PyModule_GetState(module);
    while (state->class_count) {
        ref_class_drop(state->classes[--state->class_count]);
    }
    PyMem_Free(state->classes);
    state->classes = NULL;
    state->make_ref = NULL;
    Py_CLEAR(state->object_ref_type);
    Py_CLEAR(state->load_type);
    return 0;
}

static void state_free(void *module)
{
    ref_state *state = PyModule_GetState(module);
    state_clear(module);
    ref_registry_clear(&state->registry);
}

static PyModuleDef state_def = {
    PyModuleDef_HEAD_INIT,        .m_name = "torshi._refs", .m_size = sizeof(ref_state),
    .m_traverse = state_traverse, .m_clear = state_clear,   .m_free = state_free,
};

ref_state *refs_of(const plugin_state *plugin)
{
    return PyModule_GetState(plugin->refs);
}

int refs_init(plugin_state *plugin)
{
    int status = -1;
    PyObject *secret = NULL;
    plugin->refs = PyModule_Create(&state_def);
    if (!plugin->refs) {
        return -1;
    }
    ref_state *state = refs_of(plugin);
    secret = PyBytes_FromString("references");
    if (!secret) {
        goto done;
    }
    state->registry.seed = (uint64_t)PyObject_Hash(secret);
    state->object_ref_type = object_ref_type_new(plugin->refs);
    state->load_type = state->object_ref_type ? ref_load_type_new(plugin->refs) : NULL;
    status = state->load_type ? 0 : -1;
done:
    Py_XDECREF(secret);
    return status;
}

int refs_traverse(plugin_state *plugin, int (*visit)(PyObject *, void *), void *arg)
{
    return plugin->refs ? visit(plugin->refs, arg) : 0;
}

void refs_clear(plugin_state *plugin)
{
    if (plugin->refs) {
        state_clear(plugin->refs);
        Py_CLEAR(plugin->refs);
    }
}
