/*
 * ref_load.c - what a batch function is given as `load`: everything that all references of one load
 * have in common, found once and only when it is asked for.
 *
 * A load's object is kept by the engine's load_once, or, when an unpickler that is not ours calls
 * torshi.chunk, for that call alone. When it ends it lets go of all it has, whoever still holds it.
 */
#include "decode.h"
#include "refs.h"

typedef struct ref_load {
    PyObject_HEAD
    ref_state *state; /* borrowed: the type keeps it */
    const torshi_objects *objects;
    PyObject *kept;     /* owned dict: load.once */
    PyObject *facts;    /* owned dict: address of a function -> what it returned */
    PyObject *frame;    /* owned: of the code that called load, or NULL */
    PyObject *site;     /* owned str: call_site() */
    ref_class *at_work; /* owned: whose batch runs, or NULL */
    bool ended;
} ref_load;

/* Frames in a call site. */
#define SITE_FRAMES 4

/* ---- life ---------------------------------------------------------------------------------------
 */
static int load_traverse(ref_load *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->kept);
    Py_VISIT(self->facts);
    Py_VISIT(self->frame);
    return 0;
}

static int load_clear(ref_load *self)
{
    Py_CLEAR(self->kept);
    Py_CLEAR(self->facts);
    Py_CLEAR(self->frame);
    Py_CLEAR(self->site);
    return 0;
}

static void load_dealloc(ref_load *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    load_clear(self);
    if (self->at_work) {
        ref_class_drop(self->at_work);
    }
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* The frame that runs Python code now is that of the code that called load: we have none. */
static ref_load *load_new(plugin_state *plugin)
{
    ref_state *state = refs_of(plugin);
    ref_load *self = PyObject_GC_New(ref_load, state->load_type);
    if (self) {
        self->state = state;
        self->objects = plugin->objects;
        self->kept = self->facts = self->site = NULL;
        self->frame = (PyObject *)PyThreadState_GetFrame(PyThreadState_Get());
        self->at_work = NULL;
        self->ended = false;
        PyObject_GC_Track(self);
    }
    return self;
}

void ref_load_end(PyObject *own_load)
{
    if (own_load) {
        ((ref_load *)own_load)->ended = true;
        load_clear((ref_load *)own_load);
        Py_DECREF(own_load);
    }
}

static void end_capsule(PyObject *capsule)
{
    ref_load_end(PyCapsule_GetPointer(capsule, NULL));
}

static PyObject *make_capsule(void *plugin)
{
    ref_load *self = load_new(plugin);
    PyObject *capsule = self ? PyCapsule_New(self, NULL, end_capsule) : NULL;
    if (self && !capsule) {
        Py_DECREF(self);
    }
    return capsule;
}

/* The object of the load at work, which lasts as long as that; borrowed or NULL. */
static ref_load *load_get(plugin_state *plugin, torshi_load *load, PyObject **own_load)
{
    static const char key = 0;
    if (!load) {
        if (!*own_load) {
            *own_load = (PyObject *)load_new(plugin);
        }
        return (ref_load *)*own_load;
    }
    PyObject *temporary = NULL;
    PyObject *capsule = plugin->services->load_once(load, &key, make_capsule, plugin, &temporary);
    return capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
}

/* ---- what it tells ------------------------------------------------------------------------------
 */
static int check_running(const ref_load *self)
{
    if (self->ended) {
        PyErr_SetString(PyExc_RuntimeError, "this load is over");
        return -1;
    }
    return 0;
}

/* dict[key], or what make() returns, kept there; new reference or NULL. */
static PyObject *find_or_make(PyObject **dict, PyObject *key, PyObject *make)
{
    if (!*dict && !(*dict = PyDict_New())) {
        return NULL;
    }
    PyObject *held = Py_NewRef(*dict); /* make() may end the load */
    PyObject *value = Py_XNewRef(PyDict_GetItemWithError(held, key));
    if (!value && !PyErr_Occurred()) {
        PyObject *made = PyObject_CallNoArgs(make);
        value = made ? Py_XNewRef(PyDict_SetDefault(held, key, made)) : NULL;
        Py_XDECREF(made);
    }
    Py_DECREF(held);
    return value;
}

static PyObject *load_once(ref_load *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_Format(PyExc_TypeError, "once() takes 2 arguments, got %zd", nargs);
        return NULL;
    }
    return check_running(self) < 0 ? NULL : find_or_make(&self->kept, args[0], args[1]);
}

/* What a function without arguments that the class was registered with returns; NULL: None. */
static PyObject *load_fact(ref_load *self, PyObject *function)
{
    if (check_running(self) < 0) {
        return NULL;
    }
    if (!function) {
        Py_RETURN_NONE;
    }
    PyObject *key = PyLong_FromVoidPtr(function);
    Py_INCREF(function);
    PyObject *value = key ? find_or_make(&self->facts, key, function) : NULL;
    Py_DECREF(function);
    Py_XDECREF(key);
    return value;
}

static PyObject *get_outer(ref_load *self, void *unused)
{
    (void)unused;
    return load_fact(self, self->at_work ? self->at_work->outer : NULL);
}

static PyObject *get_worker(ref_load *self, void *unused)
{
    (void)unused;
    return load_fact(self, self->at_work ? self->at_work->worker : NULL);
}

/* Whether a frame is an unpickler's: of this package, or of pickle.py. */
static bool is_ours(PyFrameObject *frame)
{
    PyObject *globals = PyFrame_GetGlobals(frame);
    PyObject *name = globals ? PyDict_GetItemString(globals, "__name__") : NULL;
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    bool ours = text && (strcmp(text, "pickle") == 0 || strcmp(text, "torshi") == 0 ||
                         strncmp(text, "torshi.", 7) == 0);
    PyErr_Clear();
    Py_XDECREF(globals);
    return ours;
}

/* "file:function:line", for one frame. */
static PyObject *frame_text(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *text = PyUnicode_FromFormat("%U:%U:%d", code->co_filename, code->co_name,
                                          PyFrame_GetLineNumber(frame));
    Py_DECREF(code);
    return text;
}

static PyObject *walk_frames(PyObject *start)
{
    PyFrameObject *frame = (PyFrameObject *)Py_XNewRef(start);
    PyObject *lines = PyList_New(0), *between = PyUnicode_FromString(" | "), *site = NULL;
    int status = lines && between ? 0 : -1;
    bool outside = false;
    while (status == 0 && frame && PyList_GET_SIZE(lines) < SITE_FRAMES) {
        outside = outside || !is_ours(frame);
        if (outside) {
            PyObject *text = frame_text(frame);
            status = text ? PyList_Append(lines, text) : -1;
            Py_XDECREF(text);
        }
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    if (status == 0) {
        site = PyUnicode_Join(between, lines);
    }
    Py_XDECREF(frame);
    Py_XDECREF(between);
    Py_XDECREF(lines);
    return site;
}

static PyObject *load_call_site(ref_load *self, PyObject *unused)
{
    (void)unused;
    if (check_running(self) < 0) {
        return NULL;
    }
    if (!self->site) {
        self->site = walk_frames(self->frame);
    }
    return Py_XNewRef(self->site);
}

/* ---- instances in bulk --------------------------------------------------------------------------
 */
/* A copy of a sequence of n items in an array of owned references; n < 0: *length is set. */
static PyObject **copy_items(PyObject *sequence, Py_ssize_t n, Py_ssize_t *length)
{
    PyObject *fast = PySequence_Fast(sequence, "instances: a column must be a sequence");
    PyObject **items = NULL;
    if (!fast) {
        return NULL;
    }
    Py_ssize_t count = PySequence_Fast_GET_SIZE(fast);
    if (n >= 0 && count != n) {
        PyErr_Format(PyExc_ValueError, "instances: columns of %zd and %zd items", n, count);
        goto done;
    }
    items = PyMem_Calloc((size_t)count + 1, sizeof(*items));
    if (!items) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        items[i] = Py_NewRef(PySequence_Fast_GET_ITEM(fast, i));
    }
    *length = count;
done:
    Py_DECREF(fast);
    return items;
}

static void free_items(PyObject **items, size_t n)
{
    if (items) {
        release_refs(items, n);
        PyMem_Free(items);
    }
}

static PyObject *load_instances(ref_load *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject **columns[TORSHI_MAX_ARITY] = {NULL};
    PyObject *names = nargs > 1 ? PySequence_Tuple(args[1]) : NULL, *result = NULL;
    PyObject **out = NULL;
    Py_ssize_t n = -1, fields = nargs - 2;
    if (!names || fields < 1 || fields > (Py_ssize_t)TORSHI_MAX_ARITY ||
        PyTuple_GET_SIZE(names) != fields || !PyType_Check(args[0])) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError,
                            "instances() takes a class, names, and a column for each name");
        }
        goto done;
    }
    for (Py_ssize_t f = 0; f < fields; f++) {
        if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(names, f))) {
            PyErr_SetString(PyExc_TypeError, "instances: names must be str");
            goto done;
        }
        columns[f] = copy_items(args[2 + f], n, &n);
        if (!columns[f]) {
            goto done;
        }
    }
    out = PyMem_Calloc((size_t)n + 1, sizeof(*out));
    if (!out) {
        PyErr_NoMemory();
        goto done;
    }
    int slots = ((PyTypeObject *)args[0])->tp_dictoffset == 0;
#ifdef Py_TPFLAGS_MANAGED_DICT
    slots = slots && !PyType_HasFeature((PyTypeObject *)args[0], Py_TPFLAGS_MANAGED_DICT);
#endif
    decoder rest = {.collector_paused = false}; /* for its collector */
    if (is_quiet_class(args[0], &PyTuple_GET_ITEM(names, 0), (size_t)fields, slots)) {
        rest_collector(&rest);
    }
    if (self->objects->make_instances(args[0], &PyTuple_GET_ITEM(names, 0), fields, slots, 0,
                                      columns, n, out) == 0) {
        result = self->objects->make_list(out, n);
    }
    wake_collector(&rest);
done:
    PyMem_Free(out);
    for (Py_ssize_t f = 0; f < fields && f < (Py_ssize_t)TORSHI_MAX_ARITY; f++) {
        free_items(columns[f], n < 0 ? 0 : (size_t)n);
    }
    Py_XDECREF(names);
    return result;
}

/* ---- the type -----------------------------------------------------------------------------------
 */
#define SLOT_FN(f) (__extension__(void *)(f))
#define FASTCALL(f) ((PyCFunction)(void (*)(void))(f))

static PyMethodDef load_methods[] = {
    {"once", FASTCALL(load_once), METH_FASTCALL,
     "once($self, key, make, /)\n--\n\n"
     "make(), called the first time and kept under key until the load ends."},
    {"call_site", (PyCFunction)load_call_site, METH_NOARGS,
     "call_site($self, /)\n--\n\n"
     "Where the code that called load is: 'file:function:line', innermost first."},
    {"instances", FASTCALL(load_instances), METH_FASTCALL,
     "instances($self, cls, names, /, *columns)\n--\n\n"
     "A list of instances, made as an unpickler would: cls.__new__(cls), then names set from\n"
     "columns, one row an instance."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef load_getset[] = {
    {"outer", (getter)get_outer, NULL,
     "The object that the references are in: what register_ref's outer() returned, once a load.",
     NULL},
    {"worker", (getter)get_worker, NULL,
     "Who loads: what register_ref's worker() returned, once a load.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static const char load_doc[] = "What all references of one load have in common.";

static PyType_Slot load_slots[] = {
    {Py_tp_doc, (void *)load_doc},
    {Py_tp_dealloc, SLOT_FN(load_dealloc)},
    {Py_tp_traverse, SLOT_FN(load_traverse)},
    {Py_tp_clear, SLOT_FN(load_clear)},
    {Py_tp_methods, load_methods},
    {Py_tp_getset, load_getset},
    {0, NULL},
};

static PyType_Spec load_spec = {
    .name = "torshi.RefLoad",
    .basicsize = sizeof(ref_load),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = load_slots,
};

PyTypeObject *ref_load_type_new(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &load_spec, NULL);
}

/* ---- a batch ------------------------------------------------------------------------------------
 */
/* What batch() returned, into out. 0 or -1. */
static int take_batch(const ref_class *c, PyObject *result, size_t n, PyObject **out)
{
    PyObject *items = PySequence_Fast(result, "batch must return a sequence of references");
    if (!items) {
        return -1;
    }
    int status = 0;
    if ((size_t)PySequence_Fast_GET_SIZE(items) != n) {
        PyErr_Format(PyExc_ValueError, "batch of %R returned %zd references for %zu rows", c->cls,
                     PySequence_Fast_GET_SIZE(items), n);
        status = -1;
    }
    for (size_t i = 0; status == 0 && i < n; i++) {
        out[i] = Py_NewRef(PySequence_Fast_GET_ITEM(items, (Py_ssize_t)i));
    }
    Py_DECREF(items);
    return status;
}

int ref_batch_call(plugin_state *plugin, torshi_load *load, PyObject **own_load, ref_class *c,
                   PyObject ***columns, size_t count, size_t n, PyObject **out)
{
    int status = -1;
    PyObject *args[1 + TORSHI_MAX_ARITY] = {NULL};
    PyObject *result = NULL;
    ref_class *before = NULL;
    ref_load *self = load_get(plugin, load, own_load);
    if (!self) {
        release_columns(columns, count, 0, n);
        return -1;
    }
    args[0] = Py_NewRef(self);
    for (size_t f = 0; f < count; f++) {
        args[1 + f] = plugin->objects->make_list(columns[f], (intptr_t)n);
        if (!args[1 + f]) {
            release_columns(columns + f + 1, count - f - 1, 0, n);
            goto done;
        }
    }
    before = self->at_work;
    self->at_work = ref_class_keep(c);
    result = PyObject_Vectorcall(c->batch, args, 1 + count, NULL);
    status = result ? take_batch(c, result, n, out) : -1;
    ref_class *done = self->at_work;
    self->at_work = before;
    ref_class_drop(done);
done:
    Py_XDECREF(result);
    for (size_t f = 0; f <= count; f++) {
        Py_XDECREF(args[f]);
    }
    return status;
}
