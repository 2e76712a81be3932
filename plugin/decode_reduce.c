/*
 * decode_known.c - callables of REDUCE columns: called row by row, or, where the callable is known
 * to be the original, what it would have returned made directly.
 *
 * Known are datetime's C types by the bytes that they pickle as, timedelta by its three numbers,
 * uuid.UUID by its bytes, and copyreg.__newobj__ of a named tuple by its items. A row that the
 * constructor might refuse, or treat in a way of its own, is left to the constructor, so results
 * and errors are its.
 */
#include "decode.h"

#include <datetime.h>

/* How the rows of one column are made. */
typedef struct recipe recipe;
struct recipe {
    /* The value for one row of arguments (borrowed): new; NULL with an exception; NULL without one:
       the callable has to be called. NULL: always. */
    PyObject *(*make)(const recipe *r, PyObject *const *args);
    /* The same from the last argument's bytes, of which there are `size`, the others being None.
       NULL: not so. */
    PyObject *(*make_raw)(const recipe *r, const unsigned char *b);
    size_t size;
    PyObject *callable;   /* borrowed */
    size_t count;         /* arguments */
    PyDateTime_CAPI *api; /* of datetime's types */
    PyObject *int_slot;   /* UUID: member descriptors, borrowed from the class */
    PyObject *safe_slot;
    PyObject *safe_default; /* what UUID() takes for is_safe, borrowed from __init__ */
    PyObject *new_name;     /* "__new__" where it is copyreg.__newobj__, whose work is done here */
    PyTypeObject *named;    /* the class whose __new__ only makes a tuple; borrowed */
    bool quiet;             /* a call runs no user code */
};

/* ---- datetime ------------------------------------------------------------------------------ */
/* The bytes of an exact bytes object of this length, else NULL. */
static const unsigned char *bytes_of(PyObject *arg, Py_ssize_t size)
{
    if (!PyBytes_CheckExact(arg) || PyBytes_GET_SIZE(arg) != size) {
        return NULL;
    }
    return (const unsigned char *)PyBytes_AS_STRING(arg);
}

/* Whether datetime's checks let a date pass; from bytes the constructor makes no check. */
static bool is_date(int year, int month, int day)
{
    static const unsigned char days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 1 || year > 9999 || month < 1 || month > 12 || day < 1) {
        return false;
    }
    bool leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= days[month - 1] + leap;
}

static bool is_time(const unsigned char *b)
{
    return b[0] < 24 && b[1] < 60 && b[2] < 60 && (b[3] << 16 | b[4] << 8 | b[5]) < 1000000;
}

/* None when there is no second argument; NULL when it is not a time zone. */
static PyObject *zone_of(const recipe *r, PyObject *const *args)
{
    if (r->count < 2) {
        return Py_None;
    }
    return args[1] == Py_None || PyObject_TypeCheck(args[1], r->api->TZInfoType) ? args[1] : NULL;
}

static PyObject *datetime_from(const recipe *r, const unsigned char *b, PyObject *zone)
{
    if (!is_date(b[0] << 8 | b[1], b[2] & 0x7f, b[3]) || !is_time(b + 4)) {
        return NULL;
    }
    return r->api->DateTime_FromDateAndTimeAndFold(b[0] << 8 | b[1], b[2] & 0x7f, b[3], b[4], b[5],
                                                   b[6], b[7] << 16 | b[8] << 8 | b[9], zone,
                                                   b[2] >> 7, r->api->DateTimeType);
}

static PyObject *make_datetime_raw(const recipe *r, const unsigned char *b)
{
    return datetime_from(r, b, Py_None);
}

static PyObject *make_datetime(const recipe *r, PyObject *const *args)
{
    const unsigned char *b = bytes_of(args[0], 10);
    PyObject *zone = zone_of(r, args);
    return b && zone ? datetime_from(r, b, zone) : NULL;
}

static PyObject *make_date_raw(const recipe *r, const unsigned char *b)
{
    if (!is_date(b[0] << 8 | b[1], b[2], b[3])) {
        return NULL;
    }
    return r->api->Date_FromDate(b[0] << 8 | b[1], b[2], b[3], r->api->DateType);
}

static PyObject *make_date(const recipe *r, PyObject *const *args)
{
    const unsigned char *b = bytes_of(args[0], 4);
    return b ? make_date_raw(r, b) : NULL;
}

static PyObject *time_from(const recipe *r, const unsigned char *b, PyObject *zone)
{
    unsigned char clock[6];
    memcpy(clock, b, sizeof(clock));
    clock[0] &= 0x7f; /* above it: fold */
    if (!is_time(clock)) {
        return NULL;
    }
    return r->api->Time_FromTimeAndFold(clock[0], b[1], b[2], b[3] << 16 | b[4] << 8 | b[5], zone,
                                        b[0] >> 7, r->api->TimeType);
}

static PyObject *make_time_raw(const recipe *r, const unsigned char *b)
{
    return time_from(r, b, Py_None);
}

static PyObject *make_time(const recipe *r, PyObject *const *args)
{
    const unsigned char *b = bytes_of(args[0], 6);
    PyObject *zone = zone_of(r, args);
    return b && zone ? time_from(r, b, zone) : NULL;
}

/* An exact int within [low, high]. */
static bool int_within(PyObject *arg, long low, long high, int *value)
{
    int overflow = 0;
    long v = PyLong_CheckExact(arg) ? PyLong_AsLongAndOverflow(arg, &overflow) : low - 1;
    if (overflow || v < low || v > high) {
        return false;
    }
    *value = (int)v;
    return true;
}

static PyObject *make_timedelta(const recipe *r, PyObject *const *args)
{
    int days;
    int seconds;
    int microseconds;
    if (!int_within(args[0], -999999999, 999999999, &days) ||
        !int_within(args[1], 0, 86399, &seconds) ||
        !int_within(args[2], 0, 999999, &microseconds)) {
        return NULL;
    }
    return r->api->Delta_FromDelta(days, seconds, microseconds, 0, r->api->DeltaType);
}

static void find_datetime(recipe *r)
{
    /* The type is datetime's only if datetime says so; a class may be called anything. */
    PyDateTime_CAPI *api = PyCapsule_Import(PyDateTime_CAPSULE_NAME, 0);
    (void)PyDateTimeAPI; /* the header's global, not used: this is looked up in each interpreter */
    if (!api) {
        PyErr_Clear();
        return;
    }
    r->api = api;
    PyTypeObject *type = (PyTypeObject *)r->callable;
    bool zoned = r->count == 2;
    if (type == api->DateTimeType && (zoned || r->count == 1)) {
        r->make = make_datetime;
        r->make_raw = zoned ? NULL : make_datetime_raw;
        r->size = 10;
    } else if (type == api->DateType && r->count == 1) {
        r->make = make_date;
        r->make_raw = make_date_raw;
        r->size = 4;
    } else if (type == api->TimeType && (zoned || r->count == 1)) {
        r->make = make_time;
        r->make_raw = zoned ? NULL : make_time_raw;
        r->size = 6;
    } else if (type == api->DeltaType && r->count == 3) {
        r->make = make_timedelta;
    }
}

/* ---- uuid ---------------------------------------------------------------------------------- */
static PyObject *make_uuid_raw(const recipe *r, const unsigned char *b)
{
    PyTypeObject *type = (PyTypeObject *)r->callable;
    PyObject *uuid = type->tp_alloc(type, 0);
    PyObject *number = NULL;
    if (!uuid) {
        return NULL;
    }
#if PY_VERSION_HEX >= 0x030D0000
    number = PyLong_FromUnsignedNativeBytes(b, 16, Py_ASNATIVEBYTES_BIG_ENDIAN);
#else
    number = _PyLong_FromByteArray(b, 16, 0, 0);
#endif
    if (!number || Py_TYPE(r->int_slot)->tp_descr_set(r->int_slot, uuid, number) < 0 ||
        Py_TYPE(r->safe_slot)->tp_descr_set(r->safe_slot, uuid, r->safe_default) < 0) {
        Py_CLEAR(uuid);
    }
    Py_XDECREF(number);
    return uuid;
}

/* UUID(None, bytes). */
static PyObject *make_uuid(const recipe *r, PyObject *const *args)
{
    const unsigned char *b = bytes_of(args[1], 16);
    return b && args[0] == Py_None ? make_uuid_raw(r, b) : NULL;
}

/* Whether a str object is this ASCII text. */
static bool is_text(PyObject *str, const char *text)
{
    return str && PyUnicode_Check(str) && PyUnicode_CompareWithASCIIString(str, text) == 0;
}

/* Whether `callable` is the standard library's class with its own __init__, which is then known to
   do nothing but to set two slots. Clears what exceptions looking makes. */
static void find_uuid(recipe *r)
{
    PyTypeObject *type = (PyTypeObject *)r->callable;
    PyObject *module = NULL;
    PyObject *name = NULL;
    PyObject *original = NULL;
    if (r->count != 2 || !Py_IS_TYPE(type, &PyType_Type) ||
        type->tp_new != PyBaseObject_Type.tp_new || type->tp_base != &PyBaseObject_Type) {
        return;
    }
    name = PyUnicode_FromString("uuid");
    module = name ? PyImport_GetModule(name) : NULL;
    original = module ? PyObject_GetAttrString(module, "UUID") : NULL;
    if (original != r->callable) {
        goto done;
    }
    PyObject *init = PyDict_GetItemString(type->tp_dict, "__init__");
    r->int_slot = PyDict_GetItemString(type->tp_dict, "int");
    r->safe_slot = PyDict_GetItemString(type->tp_dict, "is_safe");
    if (!init || !PyFunction_Check(init) ||
        !is_text(((PyFunctionObject *)init)->func_module, "uuid") ||
        !is_text(((PyFunctionObject *)init)->func_qualname, "UUID.__init__") || !r->int_slot ||
        !Py_IS_TYPE(r->int_slot, &PyMemberDescr_Type) || !r->safe_slot ||
        !Py_IS_TYPE(r->safe_slot, &PyMemberDescr_Type)) {
        goto done;
    }
    PyObject *defaults = PyFunction_GetKwDefaults(init);
    r->safe_default =
        defaults && PyDict_Check(defaults) ? PyDict_GetItemString(defaults, "is_safe") : NULL;
    if (r->safe_default) {
        r->make = make_uuid;
        r->make_raw = make_uuid_raw;
        r->size = 16;
    }
done:
    Py_XDECREF(original);
    Py_XDECREF(module);
    Py_XDECREF(name);
    PyErr_Clear();
}

/* ---- copyreg.__newobj__ ---------------------------------------------------------------------- */
/* Set new_name when the callable is the original one. 0, or -1 with MemoryError. */
static int find_newobj(recipe *r)
{
    PyObject *name = PyUnicode_FromString("copyreg");
    PyObject *module = name ? PyImport_GetModule(name) : NULL;
    const PyCodeObject *code = (const PyCodeObject *)PyFunction_GET_CODE(r->callable);
    if (module && PyModule_Check(module) &&
        PyFunction_GET_GLOBALS(r->callable) == PyModule_GetDict(module) &&
        is_text(code->co_qualname, "__newobj__")) {
        r->new_name = PyUnicode_InternFromString("__new__");
    }
    Py_XDECREF(module);
    Py_XDECREF(name);
    return PyErr_Occurred() ? -1 : 0;
}

/* Whether a __new__ is what collections.namedtuple makes by eval() for so many items, in a
   namespace that has nothing but tuple.__new__: lambda _cls, a, b: _tuple_new(_cls, (a, b)) */
static bool is_generated(PyObject *function, size_t items)
{
    if (!PyFunction_Check(function)) {
        return false;
    }
    const PyCodeObject *code = (const PyCodeObject *)PyFunction_GET_CODE(function);
    PyObject *names = PyFunction_GET_GLOBALS(function);
    PyObject *name = PyDict_GetItemString(names, "__name__");
    PyObject *builtins = PyDict_GetItemString(names, "__builtins__");
    PyObject *maker = PyDict_GetItemString(names, "_tuple_new");
    return PyDict_GET_SIZE(names) == 3 && name && PyUnicode_Check(name) &&
           PyUnicode_GET_LENGTH(name) > 11 && builtins && PyDict_CheckExact(builtins) &&
           PyDict_GET_SIZE(builtins) == 0 && maker && PyCFunction_Check(maker) &&
           PyCFunction_GET_SELF(maker) == (PyObject *)&PyTuple_Type &&
           is_text(code->co_qualname, "<lambda>") &&
           strcmp(((PyCFunctionObject *)maker)->m_ml->ml_name, "__new__") == 0 &&
           code->co_argcount >= 0 && (size_t)code->co_argcount == items + 1 &&
           code->co_nlocals == code->co_argcount && code->co_kwonlyargcount == 0 &&
           code->co_nfreevars == 0 && PyTuple_GET_SIZE(code->co_consts) <= 1 &&
           (code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)) == 0 &&
           PyTuple_GET_SIZE(code->co_names) == 1 &&
           is_text(PyTuple_GET_ITEM(code->co_names, 0), "_tuple_new");
}

/* Such a tuple, made without the calls. */
static PyObject *make_named(const recipe *r, PyObject *const *args)
{
    if (args[0] != (PyObject *)r->named) {
        return NULL;
    }
    PyObject *made = r->named->tp_alloc(r->named, (Py_ssize_t)r->count - 1);
    for (size_t i = 1; made && i < r->count; i++) {
        PyTuple_SET_ITEM(made, (Py_ssize_t)i - 1, Py_NewRef(args[i]));
    }
    return made;
}

/* What __newobj__(cls, *args) does. */
static PyObject *call_new(const recipe *r, PyObject **args)
{
    PyObject *constructor = PyObject_GetAttr(args[0], r->new_name);
    if (!constructor) {
        return NULL;
    }
    PyObject *made =
        PyObject_Vectorcall(constructor, args, r->count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    Py_DECREF(constructor);
    return made;
}

/* ---- rows ---------------------------------------------------------------------------------- */
static int find_recipe(recipe *r)
{
    if (PyFunction_Check(r->callable) && r->count > 0) {
        return find_newobj(r);
    }
    if (!PyType_Check(r->callable)) {
        return 0;
    }
    const char *name = ((PyTypeObject *)r->callable)->tp_name;
    if (strncmp(name, "datetime.", 9) == 0) {
        find_datetime(r);
    } else if (strcmp(name, "UUID") == 0) {
        find_uuid(r);
    }
    r->quiet = strcmp(name, "decimal.Decimal") == 0 &&
               PyType_HasFeature((PyTypeObject *)r->callable, Py_TPFLAGS_IMMUTABLETYPE);
    return 0;
}

/* A column's rows being made; the collector works from the first call of user code on. */
typedef struct calls {
    decoder *d;
    recipe r;
    bool loud;
    PyObject *stack[TORSHI_MAX_ARITY + 1]; /* the first place is the callee's to use */
} calls;

/* Call for the arguments in stack + 1. New reference or NULL. */
static PyObject *call_row(calls *k)
{
    recipe *r = &k->r;
    if (r->int_slot || r->named) { /* user code may change a Python class */
        r->make = NULL;
        r->make_raw = NULL;
    }
    if (!k->loud && !r->quiet) {
        wake_collector(k->d);
        k->loud = true;
        k->d->has_foreign = true;
    }
    if (r->new_name) {
        return call_new(r, k->stack + 1);
    }
    return PyObject_Vectorcall(r->callable, k->stack + 1, r->count | PY_VECTORCALL_ARGUMENTS_OFFSET,
                               NULL);
}

/* Whether a generated __new__ passes its arguments on in order, tried with some that differ. No
   user code is called, but as Python code it may be interrupted by some. 1, 0 or -1. */
static int keeps_order(calls *k, PyObject *cls, PyObject *constructor)
{
    PyObject *stack[TORSHI_MAX_ARITY + 1] = {NULL, cls};
    size_t count = k->r.count;
    bool same = false;
    PyObject *made = NULL;
    size_t n = 1;
    for (; n < count; n++) {
        stack[1 + n] = PyLong_FromSize_t(1000 + n);
        if (!stack[1 + n]) {
            goto done;
        }
    }
    wake_collector(k->d);
    made =
        PyObject_Vectorcall(constructor, stack + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    rest_collector(k->d);
    same = made && Py_IS_TYPE(made, (PyTypeObject *)cls) &&
           PyTuple_GET_SIZE(made) == (Py_ssize_t)count - 1;
    for (size_t i = 1; i < count && same; i++) {
        same = PyTuple_GET_ITEM(made, (Py_ssize_t)i - 1) == stack[1 + i];
    }
done:
    release_refs(stack + 2, n - 1);
    Py_XDECREF(made);
    return PyErr_Occurred() ? -1 : same;
}

/* Set `make` when the class of a column's first row is a named tuple. (From 3.14 on tuples have
   more than their items; tuple.__new__ is left to make them.) 0 or -1. */
static int find_named(calls *k, PyObject *cls)
{
    recipe *r = &k->r;
    PyTypeObject *base = (PyTypeObject *)cls;
    if (PY_VERSION_HEX >= 0x030E0000 || !Py_IS_TYPE(cls, &PyType_Type) ||
        !PyType_HasFeature(base, Py_TPFLAGS_TUPLE_SUBCLASS)) {
        return 0;
    }
    while (base && PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE)) {
        base = base->tp_base;
    }
    PyObject *found = _PyType_Lookup((PyTypeObject *)cls, r->new_name);
    if (base != &PyTuple_Type || ((PyTypeObject *)cls)->tp_alloc != PyType_GenericAlloc || !found ||
        !Py_IS_TYPE(found, &PyStaticMethod_Type)) {
        return 0;
    }
    PyObject *constructor = PyObject_GetAttr(cls, r->new_name);
    int known = constructor ? is_generated(constructor, r->count - 1) : -1;
    if (known > 0) {
        known = keeps_order(k, cls, constructor);
    }
    if (known > 0) {
        r->named = (PyTypeObject *)cls;
        r->make = make_named;
    }
    Py_XDECREF(constructor);
    return known < 0 ? -1 : 0;
}

/* A row whose last argument is this bytes object, the others None. */
static PyObject *call_raw(calls *k, const uint8_t *b)
{
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)b, (Py_ssize_t)k->r.size);
    if (!bytes) {
        return NULL;
    }
    k->stack[1] = Py_None;
    k->stack[k->r.count] = bytes;
    PyObject *made = call_row(k);
    Py_DECREF(bytes);
    return made;
}

/*
 * Make rows out of the payload, without the objects that arguments would be: 1 when that is done; 0
 * when the columns are not so, with nothing read; -1 on failure.
 */
static int make_raw_rows(calls *k, const column *c)
{
    decoder *d = k->d;
    int status = -1;
    torshi_cursor before = d->cursor;
    arena_mark mark = arena_here(&d->arena);
    column arg = {.kind = TORSHI_COL_NONE};
    for (size_t f = 0; f < k->r.count; f++) {
        bool last = f + 1 == k->r.count;
        if (d->cursor.pos == d->cursor.end ||
            (*d->cursor.pos & 31) != (last ? TORSHI_COL_BYTES : TORSHI_COL_NONE)) {
            d->cursor = before;
            return 0;
        }
        if (!read_head(d, c->n, c->depth + 1, c->below, &arg)) {
            return -1;
        }
    }
    uint32_t *lens = arena_alloc(&d->arena, c->n, sizeof(*lens));
    uint64_t total;
    const uint8_t *blob;
    if (!lens || !torshi_read_lens(&d->cursor, lens, c->n, arg.width, &total)) {
        goto done;
    }
    for (size_t i = 0; i < c->n; i++) {
        if (lens[i] != k->r.size) {
            d->cursor = before;
            status = 0;
            goto done;
        }
    }
    if (!torshi_read_span(&d->cursor, total, &blob)) {
        goto done;
    }
    for (size_t i = 0; i < c->n; i++, blob += k->r.size) {
        c->out[i] = k->r.make_raw ? k->r.make_raw(&k->r, blob) : NULL;
        if (!c->out[i] && (PyErr_Occurred() || !(c->out[i] = call_raw(k, blob)))) {
            release_refs(c->out, i);
            goto done;
        }
    }
    status = 1;
done:
    arena_release(&d->arena, mark);
    return status;
}

/* Make rows out of columns of arguments, which are released in any case. 0 or -1. */
static int make_rows(calls *k, PyObject ***columns, size_t n, PyObject **out)
{
    size_t count = k->r.count;
    PyObject **args = k->stack + 1;
    if (k->r.new_name && n && find_named(k, columns[0][0]) < 0) {
        release_columns(columns, count, 0, n);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t f = 0; f < count; f++) {
            args[f] = columns[f][i];
        }
        out[i] = k->r.make ? k->r.make(&k->r, args) : NULL;
        if (!out[i] && !PyErr_Occurred()) {
            out[i] = call_row(k);
        }
        release_refs(args, count);
        if (!out[i]) {
            release_columns(columns, count, i + 1, n);
            release_refs(out, i);
            return -1;
        }
    }
    return 0;
}

int decode_REDUCE(decoder *d, const column *c)
{
    int status = -1;
    arena_mark mark = arena_here(&d->arena);
    size_t external;
    calls k = {.d = d};
    if (!torshi_read_external(&d->cursor, d->external_count, &external) ||
        !torshi_read_count(&d->cursor, 0, TORSHI_MAX_ARITY, &k.r.count)) {
        goto done;
    }
    k.r.callable = d->externals[external];
    if (find_recipe(&k.r) < 0) {
        goto done;
    }
    int made = k.r.make_raw ? make_raw_rows(&k, c) : 0;
    if (made == 0) {
        PyObject ***columns = read_columns(d, c, k.r.count, c->below);
        made = columns && make_rows(&k, columns, c->n, c->out) == 0 ? 1 : -1;
    }
    status = made < 0 ? -1 : 0;
done:
    Py_XDECREF(k.r.new_name);
    if (k.loud) {
        rest_collector(d);
    }
    arena_release(&d->arena, mark);
    return status;
}

int decode_EXTERNAL(decoder *d, const column *c)
{
    size_t base;
    if (!torshi_read_external(&d->cursor, d->external_count, &base)) {
        return -1;
    }
    d->has_foreign = true;
    if (c->width == 0) {
        fill_refs(c->out, c->n, d->externals[base]);
        return 0;
    }
    int status = -1;
    const uint8_t *at = d->cursor.pos;
    arena_mark mark = arena_here(&d->arena);
    uint32_t *offsets = arena_alloc(&d->arena, c->n, sizeof(*offsets));
    if (!offsets || !torshi_unpack_u32(&d->cursor, offsets, c->n, c->width)) {
        goto done;
    }
    for (size_t i = 0; i < c->n; i++) {
        if (offsets[i] >= d->external_count - base) {
            torshi_fail_at(&d->cursor, TORSHI_E_EXTERNAL, at);
            release_refs(c->out, i);
            goto done;
        }
        c->out[i] = Py_NewRef(d->externals[base + offsets[i]]);
    }
    status = 0;
done:
    arena_release(&d->arena, mark);
    return status;
}
