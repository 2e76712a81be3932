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
/* Read the payload into target, then extend the roll. 0; -1 with an exception or a status. */
static int fill_target(decoder *d, PyObject *target, PyObject *roll)
{
    bool is_dict = PyDict_CheckExact(target);
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
    PyObject **keys = read_column(d, rows, 1, is_dict ? KINDS_KEY : KINDS_ANY);
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
    hashing_begins(d);
    int status = is_dict ? d->objects->fill_dict(target, keys, values, (intptr_t)rows, more)
                         : d->objects->fill_list(target, keys, (intptr_t)rows, more);
    hashing_ends(d);
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

/* chunk(target, payload[, roll, *externals]); arguments checked but for roll's type. */
static PyObject *fill_chunk(plugin_state *plugin, torshi_load *load, PyObject *const *args,
                            intptr_t nargs)
{
    PyObject *target = args[0];
    PyObject *payload = args[1];
    PyObject *roll = nargs > 2 ? args[2] : NULL;
    if (roll && !PyList_CheckExact(roll)) {
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
    torshi_cursor_init(&d.cursor, PyBytes_AS_STRING(payload), (size_t)PyBytes_GET_SIZE(payload));
    rest_collector(&d);
    if (fill_target(&d, target, roll) == 0) {
        result = Py_NewRef(target);
    } else if (!PyErr_Occurred()) {
        raise_status(&d);
    }
    wake_collector(&d);
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

PyObject *chunk_load(void *plugin, torshi_load *load, PyObject *const *args, intptr_t nargs)
{
    if (nargs < 2) {
        PyErr_Format(PyExc_TypeError, "torshi.chunk expected at least 2 arguments, got %zd",
                     (Py_ssize_t)nargs);
        return NULL;
    }
    if (PyBytes_CheckExact(args[1])) {
        if (PyList_CheckExact(args[0]) || PyDict_CheckExact(args[0])) {
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
