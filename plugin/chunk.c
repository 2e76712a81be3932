/*
 * chunk.c - torshi.chunk: the arguments, the target, the roll; columns are read by decode*.c.
 */
#include "decode.h"
#include "refs.h"

/* ---- the state ----------------------------------------------------------------------------- */
int decode_init(plugin_state *plugin)
{
    plugin->decode = PyMem_Calloc(1, sizeof(*plugin->decode));
    if (!plugin->decode) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

int decode_traverse(plugin_state *plugin, int (*visit)(PyObject *, void *), void *arg)
{
    (void)plugin; /* the scratch memory holds no references between calls */
    (void)visit;
    (void)arg;
    return 0;
}

void decode_clear(plugin_state *plugin)
{
    if (plugin->decode) {
        arena_free(&plugin->decode->scratch);
        PyMem_Free(plugin->decode);
        plugin->decode = NULL;
    }
}

/* ---- errors -------------------------------------------------------------------------------- */
/* The one place where a wire status becomes an exception. */
static void raise_status(decoder *d)
{
    const torshi_services *services = d->plugin->services;
    torshi_status status = d->cursor.status;
    if (status == TORSHI_E_MEMORY) {
        PyErr_NoMemory();
        return;
    }
    PyErr_Format(services->exception(services, 2), "torshi payload: %s at byte %zu",
                 torshi_status_text(status), d->cursor.error_at);
}

/* ---- the collector ------------------------------------------------------------------------- */
/*
 * 3.11 collects inside an allocation, and tens of thousands of new dicts in a row make it walk all
 * that was just made again and again. Later versions collect only between bytecodes.
 */
void rest_collector(decoder *d)
{
#if PY_VERSION_HEX < 0x030C0000
    d->collector_paused = PyGC_Disable();
#else
    (void)d;
#endif
}

void wake_collector(decoder *d)
{
    if (d->collector_paused) {
        d->collector_paused = false;
        PyGC_Enable();
    }
}

/* ---- the roll ------------------------------------------------------------------------------ */
int roll_reserve(decoder *d, size_t n, size_t *at)
{
    /* Rows are counted against TORSHI_MAX_VALUES before this, so sums stay far below overflow. */
    size_t needed = d->rolled_count + n;
    if (needed > d->rolled_size) {
        size_t size = needed > 2 * d->rolled_size ? needed : 2 * d->rolled_size;
        PyObject **rolled = PyMem_Realloc(d->rolled, size * sizeof(*rolled));
        if (!rolled) {
            PyErr_NoMemory();
            return -1;
        }
        d->rolled = rolled;
        d->rolled_size = size;
    }
    for (size_t i = d->rolled_count; i < needed; i++) {
        d->rolled[i] = NULL;
    }
    *at = d->rolled_count;
    d->rolled_count = needed;
    return 0;
}

void roll_set(decoder *d, size_t at, PyObject *const *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        Py_INCREF(rows[i]);
        d->rolled[at + i] = rows[i];
    }
}

/* ---- filling ------------------------------------------------------------------------------- */
/* An instance of a subclass of dict, as SETITEMS does it; steals both arrays. 0 or -1. */
static int set_items(PyObject *target, PyObject **keys, PyObject **values, size_t rows)
{
    const PyMappingMethods *methods = Py_TYPE(target)->tp_as_mapping;
    bool plain = methods->mp_ass_subscript == PyDict_Type.tp_as_mapping->mp_ass_subscript;
    int status = 0;
    for (size_t i = 0; i < rows && status == 0; i++) {
        status = plain ? PyDict_SetItem(target, keys[i], values[i])
                       : PyObject_SetItem(target, keys[i], values[i]);
    }
    release_refs(keys, rows);
    release_refs(values, rows);
    return status;
}

/* An instance of a subclass of list, as APPENDS does it; steals the array. 0 or -1. */
static int extend_list(const torshi_objects *objects, PyObject *target, PyObject **values,
                       size_t rows)
{
    PyObject *items = objects->make_list(values, (intptr_t)rows);
    PyObject *extend = items ? PyObject_GetAttrString(target, "extend") : NULL;
    PyObject *result = NULL;
    int status = -1;
    if (extend) {
        result = PyObject_CallOneArg(extend, items);
        status = result ? 0 : -1;
    } else if (items && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        status = 0;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items) && status == 0; i++) {
            result = PyObject_CallMethod(target, "append", "O", PyList_GET_ITEM(items, i));
            status = result ? 0 : -1;
            Py_CLEAR(result);
        }
    }
    Py_XDECREF(result);
    Py_XDECREF(extend);
    Py_XDECREF(items);
    return status;
}

/* Put rows into the target: for a dict, keys and values; for a list, keys are its items. Steals the
   arrays. 0 or -1. */
static int fill_rows(decoder *d, PyObject *target, PyObject **keys, PyObject **values, size_t rows,
                     intptr_t more)
{
    int status;
    if (PyDict_CheckExact(target) || PyList_CheckExact(target)) {
        hashing_begins(d);
        status = PyDict_CheckExact(target)
                     ? d->objects->fill_dict(target, keys, values, (intptr_t)rows, more)
                     : d->objects->fill_list(target, keys, (intptr_t)rows, more);
        hashing_ends(d);
        return status;
    }
    wake_collector(d);
    status = PyDict_Check(target) ? set_items(target, keys, values, rows)
                                  : extend_list(d->objects, target, keys, rows);
    rest_collector(d);
    return status;
}

/* Read the payload into target, then extend the roll. 0; -1 with an exception or a status. */
static int fill_target(decoder *d, PyObject *target, PyObject *roll)
{
    bool is_dict = PyDict_Check(target);
    size_t rows;
    uint64_t following;
    if (!torshi_read_rows(&d->cursor, &rows, &following)) {
        return -1;
    }
    if (roll) {
        size_t at;
        if (roll_reserve(d, 1, &at) < 0) {
            return -1;
        }
        roll_set(d, at, &target, 1);
    }
    /* A hint of the writer's, not to be trusted far. */
    intptr_t more = (intptr_t)(following < 16 * rows ? following : 16 * rows);
    PyObject **keys = read_column(d, rows, 1, is_dict ? KINDS_KEYS : KINDS_ANY);
    if (!keys) {
        return -1;
    }
    PyObject **values = NULL;
    if (is_dict) {
        values = read_column(d, rows, 1, KINDS_ANY);
        if (!values) {
            release_refs(keys, rows);
            return -1;
        }
    }
    if (d->cursor.pos != d->cursor.end) {
        torshi_fail(&d->cursor, TORSHI_E_TRAILING);
        release_refs(keys, rows);
        if (values) {
            release_refs(values, rows);
        }
        return -1;
    }
    int status = fill_rows(d, target, keys, values, rows, more);
    if (status < 0 || !roll) {
        return status;
    }
    size_t count = d->rolled_count;
    d->rolled_count = 0;
    return d->objects->fill_list(roll, d->rolled, (intptr_t)count, 0);
}

/* TypeError: "torshi.chunk: <what>, not <type>". */
static void raise_wrong_type(const char *what, PyObject *got)
{
    PyObject *name = PyType_GetName(Py_TYPE(got));
    if (name) {
        PyErr_Format(PyExc_TypeError, "torshi.chunk: %s, not %U", what, name);
        Py_DECREF(name);
    }
}

/* The object to be filled: `given`, or cls.__new__(cls) where it is a class. New reference. */
static PyObject *find_target(const torshi_objects *objects, PyObject *given)
{
    PyObject *target = NULL;
    if (!PyType_Check(given)) {
        return Py_NewRef(given);
    }
    if (objects->make_instances(given, NULL, 0, 0, 1, NULL, 1, &target) < 0) {
        return NULL;
    }
    if (!PyDict_Check(target) && !PyList_Check(target)) {
        raise_wrong_type("the class must make a dict or a list", target);
        Py_CLEAR(target);
    }
    return target;
}

static int fill_payload(decoder *d, PyObject *target, PyObject *payload, PyObject *roll)
{
    torshi_cursor_init(&d->cursor, PyBytes_AS_STRING(payload), (size_t)PyBytes_GET_SIZE(payload));
    int status = fill_target(d, target, roll);
    if (status < 0 && !PyErr_Occurred()) {
        raise_status(d);
    }
    return status;
}

/* The payload, or one after the other. 0 or -1 with an exception. */
static int fill_payloads(decoder *d, PyObject *target, PyObject *payload, PyObject *roll)
{
    if (PyBytes_CheckExact(payload)) {
        return fill_payload(d, target, payload, roll);
    }
    int status = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(payload) && status == 0; i++) {
        status = fill_payload(d, target, PyTuple_GET_ITEM(payload, i), roll);
        release_refs(d->rolled, d->rolled_count);
        d->rolled_count = 0;
    }
    return status;
}

/* chunk(target, payload[, roll, *externals]); arguments checked but for roll's type. */
static PyObject *fill_chunk(plugin_state *plugin, torshi_load *load, PyObject *const *args,
                            intptr_t nargs)
{
    PyObject *roll = nargs > 2 ? args[2] : NULL;
    if (nargs > 2 && !PyList_CheckExact(roll)) {
        raise_wrong_type("roll must be a list", roll);
        return NULL;
    }
    PyObject *result = NULL;
    struct decode_state *state = plugin->decode;
    decoder d = {
        .objects = plugin->objects,
        .plugin = plugin,
        .load = load,
        .externals = nargs > 3 ? args + 3 : NULL,
        .external_count = nargs > 3 ? (size_t)(nargs - 3) : 0,
        .has_roll = roll != NULL,
        .arena = state->scratch,
    };
    state->scratch = (arena){NULL}; /* a call within this one gets its own */
    for (intptr_t i = 0; i < nargs; i++) {
        Py_INCREF(args[i]);
    }
    PyObject *target = find_target(plugin->objects, args[0]);
    if (target) {
        rest_collector(&d);
        if (fill_payloads(&d, target, args[1], roll) == 0) {
            result = Py_NewRef(target);
        }
        wake_collector(&d);
        Py_DECREF(target);
    }
    ref_load_end(d.own_load);
    release_refs(d.rolled, d.rolled_count);
    PyMem_Free(d.rolled);
    arena_reset(&d.arena);
    if (state->scratch.top) {
        arena_free(&d.arena); /* an inner call has left its own */
    } else {
        state->scratch = d.arena;
    }
    for (intptr_t i = 0; i < nargs; i++) {
        Py_DECREF(args[i]);
    }
    return result;
}

/* chunk(roll, index) */
static PyObject *get_rolled(PyObject *roll, PyObject *index)
{
    if (!PyList_CheckExact(roll)) {
        raise_wrong_type("roll must be a list", roll);
        return NULL;
    }
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(index, &overflow);
    if (overflow || i < 0 || i >= PyList_GET_SIZE(roll)) {
        PyErr_SetString(PyExc_IndexError, "torshi.chunk: roll index out of range");
        return NULL;
    }
    return Py_NewRef(PyList_GET_ITEM(roll, (Py_ssize_t)i));
}

/* A bytes object, or a tuple of them. */
static bool is_payload(PyObject *obj)
{
    if (!PyTuple_CheckExact(obj)) {
        return PyBytes_CheckExact(obj);
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(obj); i++) {
        if (!PyBytes_CheckExact(PyTuple_GET_ITEM(obj, i))) {
            return false;
        }
    }
    return true;
}

/* A class whose instances are dicts or lists. */
static bool is_container(PyObject *obj)
{
    return PyType_Check(obj) &&
           PyType_FastSubclass((PyTypeObject *)obj,
                               Py_TPFLAGS_DICT_SUBCLASS | Py_TPFLAGS_LIST_SUBCLASS);
}

PyObject *chunk_load(void *plugin, torshi_load *load, PyObject *const *args, intptr_t nargs)
{
    if (nargs < 2) {
        PyErr_Format(PyExc_TypeError, "torshi.chunk expected at least 2 arguments, got %zd",
                     (Py_ssize_t)nargs);
        return NULL;
    }
    if (is_payload(args[1])) {
        if (PyList_CheckExact(args[0]) || PyDict_CheckExact(args[0]) || is_container(args[0])) {
            return fill_chunk(plugin, load, args, nargs);
        }
        raise_wrong_type("target must be a dict or a list", args[0]);
        return NULL;
    }
    if (PyLong_CheckExact(args[1])) {
        if (nargs == 2) {
            return get_rolled(args[0], args[1]);
        }
        PyErr_Format(PyExc_TypeError, "torshi.chunk expected 2 arguments with an index, got %zd",
                     (Py_ssize_t)nargs);
        return NULL;
    }
    raise_wrong_type("payload must be bytes", args[1]);
    return NULL;
}

PyObject *chunk_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    if (kwnames && PyTuple_GET_SIZE(kwnames)) {
        PyErr_SetString(PyExc_TypeError, "torshi.chunk takes no keyword arguments");
        return NULL;
    }
    return chunk_load(plugin, NULL, args, nargs);
}
