/*
 * points.c - a complete plugin, as a third party would write one: of Torshi's it includes
 * torshi/abi.h alone.
 *
 * The library is two things at once. As a Python extension module it brings the class
 * points.Point and two functions that rebuild values. As a plugin it tells the engine to write
 * Points and datetime.dates more tightly than pickle does, as calls of those functions, and to
 * run them in C when it meets them. Streams it wrote load wherever `points` can be imported,
 * with the engine or without; the engine merely skips the call.
 *
 *     cc -shared -fPIC $(python3-config --includes) -I embed/include points.c -o points.so
 *     PYTHONPATH=. torshi -X torshi.plugin=./points.so script.py
 *
 *     >>> import points, torshi
 *     >>> torshi.load_plugin(points.__file__)
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <torshi/abi.h>

#include <stddef.h>
#include <string.h>

#define SLOT_FN(f) (__extension__(void *)(f)) /* ISO C has no cast from functions to void * */

/* ---- the class: an ordinary extension type ------------------------------------------------------
 */

typedef struct {
    PyObject_HEAD
    double x, y;
} Point;

static PyObject *Point_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"x", "y", NULL};
    double x, y;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "dd:Point", names, &x, &y)) {
        return NULL;
    }
    PyObject *self = type->tp_alloc(type, 0);
    if (self != NULL) {
        ((Point *)self)->x = x;
        ((Point *)self)->y = y;
    }
    return self;
}

static void Point_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *Point_richcompare(PyObject *a, PyObject *b, int op)
{
    if (Py_TYPE(a) != Py_TYPE(b) || (op != Py_EQ && op != Py_NE)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    int same = ((Point *)a)->x == ((Point *)b)->x && ((Point *)a)->y == ((Point *)b)->y;
    return PyBool_FromLong(same == (op == Py_EQ));
}

static Py_hash_t Point_hash(PyObject *self)
{
    PyObject *pair = Py_BuildValue("dd", ((Point *)self)->x, ((Point *)self)->y);
    Py_hash_t hash = pair != NULL ? PyObject_Hash(pair) : -1;
    Py_XDECREF(pair);
    return hash;
}

/* What pickle does without the plugin. */
static PyObject *Point_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("O(dd)", Py_TYPE(self), ((Point *)self)->x, ((Point *)self)->y);
}

static PyMemberDef Point_members[] = {
    {"x", T_DOUBLE, offsetof(Point, x), READONLY, NULL},
    {"y", T_DOUBLE, offsetof(Point, y), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyMethodDef Point_methods[] = {
    {"__reduce__", Point_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot Point_slots[] = {
    {Py_tp_new, SLOT_FN(Point_new)},
    {Py_tp_dealloc, SLOT_FN(Point_dealloc)},
    {Py_tp_richcompare, SLOT_FN(Point_richcompare)},
    {Py_tp_hash, SLOT_FN(Point_hash)},
    {Py_tp_members, Point_members},
    {Py_tp_methods, Point_methods},
    {0, NULL},
};
static PyType_Spec Point_spec = {
    .name = "points.Point",
    .basicsize = sizeof(Point),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = Point_slots,
};

/* ---- rebuilding: used by the module's functions and by the plugin's loader rows alike
 * ------------ */

#define POINT_BYTES (2 * sizeof(double))

static PyObject *make_point(PyObject *type, PyObject *payload)
{
    if (!PyBytes_CheckExact(payload) || PyBytes_GET_SIZE(payload) != (Py_ssize_t)POINT_BYTES) {
        PyErr_Format(PyExc_ValueError, "a point is %zu bytes", POINT_BYTES);
        return NULL;
    }
    Point *point = (Point *)((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
    if (point != NULL) {
        memcpy(&point->x, PyBytes_AS_STRING(payload), sizeof(double));
        memcpy(&point->y, PyBytes_AS_STRING(payload) + sizeof(double), sizeof(double));
    }
    return (PyObject *)point;
}

/* ---- the module
 * ---------------------------------------------------------------------------------- */

typedef struct {
    PyObject *point; /* owned */
    PyObject *date;  /* owned: datetime.date */
} module_state;

static PyObject *module_restore(PyObject *module, PyObject *payload)
{
    return make_point(((module_state *)PyModule_GetState(module))->point, payload);
}

static PyObject *module_day(PyObject *module, PyObject *ordinal)
{
    PyObject *date = ((module_state *)PyModule_GetState(module))->date;
    return PyObject_CallMethod(date, "fromordinal", "O", ordinal);
}

static PyMethodDef module_functions[] = {
    {"restore", module_restore, METH_O, "restore(payload, /)\n--\n\nThe Point of 16 bytes."},
    {"day", module_day, METH_O, "day(ordinal, /)\n--\n\nThe date of this day, 1 being 1-1-1."},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module)
{
    module_state *state = PyModule_GetState(module);
    PyObject *datetime = PyImport_ImportModule("datetime");
    if (datetime == NULL) {
        return -1;
    }
    state->date = PyObject_GetAttrString(datetime, "date");
    Py_DECREF(datetime);
    state->point = PyType_FromModuleAndSpec(module, &Point_spec, NULL);
    if (state->date == NULL || state->point == NULL) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "Point", state->point);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    module_state *state = PyModule_GetState(module);
    Py_VISIT(state->point);
    Py_VISIT(state->date);
    return 0;
}

static int module_clear(PyObject *module)
{
    module_state *state = PyModule_GetState(module);
    Py_CLEAR(state->point);
    Py_CLEAR(state->date);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, SLOT_FN(module_exec)},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,         .m_name = "points",      .m_size = sizeof(module_state),
    .m_methods = module_functions, .m_slots = module_slots, .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit_points(void)
{
    return PyModuleDef_Init(&module_def);
}

/* ---- the plugin: what one interpreter needs, and nothing outside it
 * ------------------------------ */

typedef struct {
    const torshi_services *services; /* borrowed, valid until fini */
    PyObject *point;                 /* owned, as all below */
    PyObject *date;
    PyObject *restore;
    PyObject *day;
} plugin_state;

static void plugin_fini(void *plugin)
{
    plugin_state *s = plugin;
    Py_XDECREF(s->point);
    Py_XDECREF(s->date);
    Py_XDECREF(s->restore);
    Py_XDECREF(s->day);
    PyMem_Free(s);
}

static int plugin_init(const torshi_services *services, void **plugin)
{
    int status = -1;
    PyObject *points = NULL, *datetime = NULL;
    plugin_state *s = PyMem_Calloc(1, sizeof(*s));
    if (s == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    s->services = services;
    points = PyImport_ImportModule("points");
    if (points == NULL) {
        goto done;
    }
    datetime = PyImport_ImportModule("datetime");
    if (datetime == NULL) {
        goto done;
    }
    s->point = PyObject_GetAttrString(points, "Point");
    s->date = PyObject_GetAttrString(datetime, "date");
    s->restore = PyObject_GetAttrString(points, "restore");
    s->day = PyObject_GetAttrString(points, "day");
    if (s->point != NULL && s->date != NULL && s->restore != NULL && s->day != NULL) {
        *plugin = s;
        status = 0;
    }
done:
    if (status < 0) {
        plugin_fini(s); /* after a failing init the engine does not call it */
    }
    Py_XDECREF(points);
    Py_XDECREF(datetime);
    return status;
}

static int plugin_traverse(void *plugin, int (*visit)(PyObject *, void *), void *arg)
{
    plugin_state *s = plugin;
    Py_VISIT(s->point);
    Py_VISIT(s->date);
    Py_VISIT(s->restore);
    Py_VISIT(s->day);
    return 0;
}

/* Opcodes of pickle that follow an argument: make it a tuple, call. */
static const char call_with_one[] = {'\x85', 'R'};

/* points.restore(16 bytes) instead of points.Point(x, y) */
static int save_point(void *plugin, torshi_dump *dump, PyObject *obj)
{
    plugin_state *s = plugin;
    char payload[POINT_BYTES];
    /* A reducer_override or a dispatch_table of the user's wants to see every instance. */
    if (s->services->option(dump, TORSHI_OPT_ASKS_HOOKS)) {
        return TORSHI_DECLINE;
    }
    memcpy(payload, &((Point *)obj)->x, sizeof(double));
    memcpy(payload + sizeof(double), &((Point *)obj)->y, sizeof(double));
    if (s->services->write_global(dump, s->restore, "points", "restore") < 0 ||
        s->services->write_bytes(dump, payload, sizeof(payload)) < 0 ||
        s->services->write(dump, call_with_one, sizeof(call_with_one)) < 0) {
        return TORSHI_ERROR;
    }
    return s->services->memoize(dump, obj) < 0 ? TORSHI_ERROR : TORSHI_OK;
}

/* points.day(ordinal): BININT is five bytes, and there is nothing to memoize but the date. */
static int save_date(void *plugin, torshi_dump *dump, PyObject *obj)
{
    plugin_state *s = plugin;
    unsigned char number[5] = {'J'};
    if (s->services->option(dump, TORSHI_OPT_ASKS_HOOKS)) {
        return TORSHI_DECLINE;
    }
    PyObject *ordinal = PyObject_CallMethod(obj, "toordinal", NULL);
    if (ordinal == NULL) {
        return TORSHI_ERROR;
    }
    unsigned long day = PyLong_AsUnsignedLong(ordinal);
    Py_DECREF(ordinal);
    if (day == (unsigned long)-1 && PyErr_Occurred()) {
        return TORSHI_ERROR;
    }
    for (int i = 0; i < 4; i++) {
        number[1 + i] = (unsigned char)(day >> 8 * i);
    }
    if (s->services->write_global(dump, s->day, "points", "day") < 0 ||
        s->services->write(dump, number, sizeof(number)) < 0 ||
        s->services->write(dump, call_with_one, sizeof(call_with_one)) < 0) {
        return TORSHI_ERROR;
    }
    return s->services->memoize(dump, obj) < 0 ? TORSHI_ERROR : TORSHI_OK;
}

/* Loader rows get what pickle would have called the callable with: count them. */
static int check_one_argument(intptr_t nargs, const char *name)
{
    if (nargs != 1) {
        PyErr_Format(PyExc_TypeError, "%s() takes one argument (%zd given)", name,
                     (Py_ssize_t)nargs);
        return -1;
    }
    return 0;
}

static PyObject *load_point(void *plugin, torshi_load *load, PyObject *const *args, intptr_t nargs)
{
    (void)load;
    if (check_one_argument(nargs, "restore") < 0) {
        return NULL;
    }
    return make_point(((plugin_state *)plugin)->point, args[0]);
}

static PyObject *load_date(void *plugin, torshi_load *load, PyObject *const *args, intptr_t nargs)
{
    (void)load;
    if (check_one_argument(nargs, "day") < 0) {
        return NULL;
    }
    return PyObject_CallMethod(((plugin_state *)plugin)->date, "fromordinal", "O", args[0]);
}

static const torshi_row rows[] = {
    {.kind = TORSHI_ROW_SAVER,
     .flags = TORSHI_SAVER_VALUE_LIKE,
     .module = "points",
     .name = "Point",
     .save = save_point},
    {.kind = TORSHI_ROW_SAVER,
     .flags = TORSHI_SAVER_VALUE_LIKE,
     .module = "datetime",
     .name = "date",
     .save = save_date},
    {.kind = TORSHI_ROW_LOADER, .module = "points", .name = "restore", .load = load_point},
    {.kind = TORSHI_ROW_LOADER, .module = "points", .name = "day", .load = load_date},
};

static const torshi_plugin_info info = {
    .size = sizeof(torshi_plugin_info),
    .abi_major = TORSHI_ABI_MAJOR,
    .abi_minor = TORSHI_ABI_MINOR,
    .py_version_hex = PY_VERSION_HEX,
#ifdef Py_DEBUG
    .py_build = TORSHI_BUILD_DEBUG,
#endif
    .pointer_size = sizeof(void *),
    .format_version = TORSHI_FORMAT_VERSION,
    .name = "points",
    .version = "1.0",
    .init = plugin_init,
    .fini = plugin_fini,
    .traverse = plugin_traverse,
    .rows = rows,
    .row_count = sizeof(rows) / sizeof(rows[0]),
    .row_size = sizeof(torshi_row),
};

TORSHI_PLUGIN_EXPORT const torshi_plugin_info *torshi_plugin_info_v1(void);

const torshi_plugin_info *torshi_plugin_info_v1(void)
{
    return &info;
}
