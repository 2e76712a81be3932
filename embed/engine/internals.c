/*
 * internals.c - the check that decides whether the direct edition may be used, and both tables.
 *
 * The layouts of internals_layout.h are compared with what this interpreter's API makes: built
 * objects byte by byte or through the API's own eyes. Anything unexpected means "public API only",
 * never an error; only running out of memory is one.
 */
#include "internals_layout.h"

static const torshi_objects public_objects = {
    .size = sizeof(torshi_objects),
    .direct = 0,
    .dict_view = public_dict_view,
    .instance_view = public_instance_view,
    .make_ints = public_make_ints,
    .make_progression = public_make_progression,
    .make_floats = public_make_floats,
    .make_strs = public_make_strs,
    .make_bytes = public_make_bytes,
    .make_dicts = public_make_dicts,
    .fill_dict = public_fill_dict,
    .fill_list = public_fill_list,
    .make_list = public_make_list,
    .make_instances = public_make_instances,
};

#if INTERNALS_SUPPORTED

static const torshi_objects direct_objects = {
    .size = sizeof(torshi_objects),
    .direct = 1,
    .dict_view = internals_dict_view,
    .instance_view = internals_instance_view,
    .make_ints = direct_make_ints,
    .make_progression = direct_make_progression,
    .make_floats = direct_make_floats,
    .make_strs = direct_make_strs,
    .make_bytes = direct_make_bytes,
    .make_dicts = direct_make_dicts,
    .fill_dict = direct_fill_dict,
    .fill_list = direct_fill_list,
    .make_list = public_make_list,
    .make_instances = direct_make_instances,
};

/* Each check: 1 as expected, 0 not, -1 exception. */

/* ---- scalars --------------------------------------------------------------------------------- */

/* Whether two objects have the same type and the same `size` bytes after the reference count. */
static int same_bytes(PyObject *a, PyObject *b, size_t size)
{
    const size_t count = sizeof(a->ob_refcnt);
    return Py_TYPE(a) == Py_TYPE(b) &&
           memcmp((char *)a + count, (char *)b + count, size - count) == 0;
}

static int check_int(int64_t value)
{
    PyObject *ours;
    unsigned char raw[8];
    memcpy(raw, &value, sizeof raw);
    if (direct_make_ints(raw, 8, 0, 1, &ours) < 0) {
        return -1;
    }
    PyObject *theirs = PyLong_FromLongLong(value);
    if (theirs == NULL) {
        Py_DECREF(ours);
        return -1;
    }
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    size_t digits = size >> 30 == 0 ? 1 : size >> 60 == 0 ? 2 : 3;
    int same = PyLong_SHIFT == 30 &&
               same_bytes(ours, theirs, sizeof(PyVarObject) + digits * sizeof(digit));
    Py_DECREF(ours);
    Py_DECREF(theirs);
    return same;
}

static int check_ints(void)
{
    static const int64_t values[] = {
        0, -5, 257, -6, 0x3FFFFFFF, 0x40000000, -0x40000000, INT64_C(1) << 60, INT64_MAX, INT64_MIN,
    };
    int same = 1;
    for (size_t i = 0; same == 1 && i < sizeof values / sizeof *values; i++) {
        same = check_int(values[i]);
    }
    return same;
}

static int check_float(void)
{
    const double value = -2.5;
    PyObject *ours;
    unsigned char raw[8];
    memcpy(raw, &value, sizeof raw);
    if (direct_make_floats(raw, 1, &ours) < 0) {
        return -1;
    }
    PyObject *theirs = PyFloat_FromDouble(value);
    int same = theirs == NULL ? -1 : same_bytes(ours, theirs, sizeof(PyFloatObject));
    Py_XDECREF(theirs);
    Py_DECREF(ours);
    return same;
}

/* 3.11: whether both have their data as wchar_t representation, or neither. */
static int same_wstr(PyObject *a, PyObject *b)
{
#if PY_VERSION_HEX < 0x030C0000
    const void *wide[2] = {((PyASCIIObject *)a)->wstr, ((PyASCIIObject *)b)->wstr};
    return wide[0] == (wide[1] == NULL ? NULL : PyUnicode_DATA(a)) &&
           wide[1] == (wide[0] == NULL ? NULL : PyUnicode_DATA(b));
#else
    (void)a;
    (void)b;
    return 1;
#endif
}

/* A str of each kind and a bytes object, made from `blob` both ways. */
static int check_strings(void)
{
    static const unsigned char blob[] =
        "nine chars\x41\xE9z\x34\x12\x41\x00\x00\xF6\x01\x00\x41\x00\x00\x00";
    static const uint32_t lens[4] = {10, 3, 2, 2};
    static const unsigned char kinds[4] = {0, 1, 2, 3};
    static const size_t heads[4] = {sizeof(PyASCIIObject), sizeof(PyCompactUnicodeObject),
                                    sizeof(PyCompactUnicodeObject), sizeof(PyCompactUnicodeObject)};
    PyObject *ours[5] = {NULL};
    PyObject *theirs[5] = {NULL};
    int same = -1;

    if (direct_make_strs(blob, 25, lens, kinds, 4, ours) != 0 ||
        direct_make_bytes(blob, lens, 1, &ours[4]) != 0 ||
        public_make_strs(blob, 25, lens, kinds, 4, theirs) != 0 ||
        public_make_bytes(blob, lens, 1, &theirs[4]) != 0) {
        if (!PyErr_Occurred()) {
            same = 0;
        }
        goto done;
    }
    same = 1;
    for (int i = 0; same == 1 && i < 4; i++) {
        same = PyUnicode_IS_COMPACT(ours[i]) && PyUnicode_IS_COMPACT(theirs[i]) &&
               PyUnicode_KIND(ours[i]) == PyUnicode_KIND(theirs[i]) &&
               PyUnicode_IS_ASCII(ours[i]) == PyUnicode_IS_ASCII(theirs[i]) &&
               (size_t)((char *)PyUnicode_DATA(theirs[i]) - (char *)theirs[i]) == heads[i] &&
               same_wstr(ours[i], theirs[i]) &&
               memcmp(PyUnicode_DATA(ours[i]), PyUnicode_DATA(theirs[i]),
                      (lens[i] + 1u) * PyUnicode_KIND(theirs[i])) == 0 &&
               PyObject_Hash(ours[i]) == PyObject_Hash(theirs[i]);
    }
    if (same == 1) {
        same = same_bytes(ours[4], theirs[4], offsetof(PyBytesObject, ob_sval) + lens[0] + 1);
    }
done:
    for (int i = 0; i < 5; i++) {
        Py_XDECREF(ours[i]);
        Py_XDECREF(theirs[i]);
    }
    return same;
}

static int check_list(void)
{
    PyObject *list = PyList_New(0);
    int status = -1;
    if (list == NULL || PyList_Append(list, Py_None) < 0) {
        goto done;
    }
    PyListObject *l = (PyListObject *)list;
    status = l->allocated >= 1 && l->allocated < 100 && l->ob_item[0] == Py_None;
done:
    Py_XDECREF(list);
    return status;
}

/* ---- dicts ----------------------------------------------------------------------------------- */

/* Whether a dict that the API filled with n entries, `first` among them first, has a table as we
   would make it: 1, 0, or -1 with an exception. */
static int looks_as_expected(PyObject *dict, unsigned kind, Py_ssize_t n, PyObject *first)
{
    keys_table *k = dict_keys(dict);
    if (k->kind != kind || k->refcnt != 1 || k->log2_size < 3 || k->log2_size > 20 ||
        k->log2_index_bytes != index_bytes_of(k->log2_size) || k->nentries != n ||
        k->usable + n != usable_of(k->log2_size)) {
        return 0;
    }
    PyObject *size = PyObject_CallMethod(dict, "__sizeof__", NULL);
    if (size == NULL) {
        return -1;
    }
    size_t entries = (size_t)usable_of(k->log2_size) *
                     (kind == KIND_GENERAL ? sizeof(general_entry) : sizeof(unicode_entry));
    size_t indices = (size_t)1 << k->log2_index_bytes;
    size_t expected = sizeof(PyDictObject) + sizeof(keys_table) + indices + entries;
    size_t found = PyLong_AsSize_t(size);
    Py_DECREF(size);
    if (found != expected) {
        return PyErr_Occurred() ? -1 : 0;
    }
    if (kind == KIND_GENERAL) {
        const general_entry *e = keys_entries(k);
        return e->key == first && e->value == Py_None && e->hash == PyObject_Hash(first);
    }
    const unicode_entry *e = keys_entries(k);
    return e->key == first && e->value == Py_None;
}

static int same_tables(PyObject *ours, PyObject *theirs, size_t entries_size)
{
    keys_table *a = dict_keys(ours);
    keys_table *b = dict_keys(theirs);
    return PyDict_GET_SIZE(ours) == PyDict_GET_SIZE(theirs) && a->refcnt == b->refcnt &&
           a->log2_size == b->log2_size && a->log2_index_bytes == b->log2_index_bytes &&
           a->kind == b->kind && a->usable == b->usable && a->nentries == b->nentries &&
           memcmp(keys_indices(a), keys_indices(b), (size_t)1 << a->log2_index_bytes) == 0 &&
           memcmp(keys_entries(a), keys_entries(b), entries_size) == 0;
}

/* A dict of n entries inserted by the API against one whose table was filled here: the tables must
   be equal byte by byte, and the look-up must find everything. */
static int check_table(Py_ssize_t n, int int_keys)
{
    PyObject *theirs = PyDict_New();
    PyObject *ours = PyDict_New();
    PyObject **items = PyMem_Calloc((size_t)n * 2, sizeof *items);
    int status = -1;

    if (theirs == NULL || ours == NULL) {
        goto done;
    }
    if (items == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *key =
            int_keys ? PyLong_FromSsize_t(i * 3001 - 7) : PyUnicode_FromFormat("k%zd", i);
        items[2 * i] = key;
        items[2 * i + 1] = Py_NewRef(Py_None);
        if (key == NULL || PyDict_SetItem(theirs, key, Py_None) < 0) {
            goto done;
        }
    }
    status = looks_as_expected(theirs, int_keys ? KIND_GENERAL : KIND_UNICODE, n, items[0]);
    if (status == 1) {
        status = internals_fill_empty_dict(ours, items, n);
    }
    if (status == 1) {
        memset(items, 0, (size_t)n * 2 * sizeof *items); /* stolen */
        size_t entry = int_keys ? sizeof(general_entry) : sizeof(unicode_entry);
        status = same_tables(ours, theirs, (size_t)n * entry);
    }
    if (status == 1) {
        status = PyObject_RichCompareBool(ours, theirs, Py_EQ);
    }
done:
    for (Py_ssize_t i = 0; items != NULL && i < 2 * n; i++) {
        Py_XDECREF(items[i]);
    }
    PyMem_Free(items);
    Py_XDECREF(ours);
    Py_XDECREF(theirs);
    return status;
}

/* The table that empty dicts share, and whether it counts its references. */
static int check_empty_table(void)
{
    PyObject *first = PyDict_New();
    PyObject *second = NULL;
    int status = -1;
    if (first == NULL) {
        goto done;
    }
    keys_table *k = dict_keys(first);
    if (!is_empty_table(k) || k->nentries != 0 || k->usable != 0) {
        status = 0;
        goto done;
    }
    Py_ssize_t before = k->refcnt;
    second = PyDict_New();
    if (second == NULL) {
        goto done;
    }
    status = dict_keys(second) == k && ((PyDictObject *)second)->ma_values == NULL &&
             k->refcnt == before + (PY_VERSION_HEX < 0x030C0000 ? 1 : 0);
done:
    Py_XDECREF(second);
    Py_XDECREF(first);
    return status;
}

#if PY_VERSION_HEX >= 0x030C0000
static int ignore_event(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value)
{
    (void)event;
    (void)dict;
    (void)key;
    (void)value;
    return 0;
}

/* Whether a watched dict shows it. Without a free watcher there is nothing to try, and then there
   are watched dicts that matter: no direct paths. */
static int check_watchers(void)
{
    PyObject *dict = PyDict_New();
    int status = -1;
    if (dict == NULL) {
        return -1;
    }
    int watcher = PyDict_AddWatcher(ignore_event);
    if (watcher < 0) {
        PyErr_Clear();
        status = 0;
        goto done;
    }
    int before = dict_is_watched(dict);
    if (PyDict_Watch(watcher, dict) == 0) {
        status = !before && dict_is_watched(dict);
        if (PyDict_Unwatch(watcher, dict) < 0 || dict_is_watched(dict)) {
            PyErr_Clear();
            status = 0;
        }
    }
    if (PyDict_ClearWatcher(watcher) < 0) {
        PyErr_Clear();
        status = 0;
    }
done:
    Py_DECREF(dict);
    return status;
}
#else
static int check_watchers(void)
{
    return 1;
}
#endif

/* ---- instances ------------------------------------------------------------------------------- */

/* Whether the instance's inline values are exactly names[i] = values[i], in that order. */
static int shows_attributes(PyObject *inst, PyObject *const *names, PyObject *const *values,
                            unsigned n)
{
    PyObject *dict;
    value_array *v = instance_values(inst, &dict);
    keys_table *k = type_shared_keys(Py_TYPE(inst));

    if (v == NULL || dict != NULL || k == NULL || values_size(v) != n || k->nentries > SHARED_MAX ||
        values_capacity(v) < n) {
        return 0;
    }
    const unicode_entry *entries = keys_entries(k);
    for (unsigned i = 0; i < n; i++) {
        unsigned place = values_order(v, i);
        if (place >= k->nentries || v->values[place] != values[i] ||
            entries[place].key != names[i]) {
            return 0;
        }
    }
    return 1;
}

static int check_two_instances(PyObject *cls, PyObject *const *names, PyObject *const *values)
{
    PyObject *first = PyObject_CallNoArgs(cls);
    PyObject *second = first == NULL ? NULL : PyObject_CallNoArgs(cls);
    PyObject *items[4] = {names[1], values[1], names[0], values[0]};
    PyObject *reversed[2] = {names[1], names[0]};
    PyObject *reversed_values[2] = {values[1], values[0]};
    PyObject *dict = NULL;
    PyObject *expected = NULL;
    int status = -1;

    if (second == NULL) {
        goto done;
    }
    status = 0;
    if (!(Py_TYPE(first)->tp_flags & Py_TPFLAGS_MANAGED_DICT) ||
        !shows_attributes(first, names, values, 0)) {
        goto done;
    }
    if (PyObject_SetAttr(first, names[0], values[0]) < 0 ||
        PyObject_SetAttr(first, names[1], values[1]) < 0) {
        status = -1;
        goto done;
    }
    /* What the API stored is seen here ... */
    if (!shows_attributes(first, names, values, 2)) {
        goto done;
    }
    if (PyObject_DelAttr(first, names[0]) < 0) {
        status = -1;
        goto done;
    }
    if (!shows_attributes(first, names + 1, values + 1, 1)) {
        goto done;
    }
    /* ... and what is stored here, in the other order, the API sees. */
    status = internals_build_instance(second, items, 2);
    if (status != 1 || !shows_attributes(second, reversed, reversed_values, 2)) {
        status = status < 0 ? -1 : 0;
        goto done;
    }
    status = -1;
    dict = PyObject_GetAttrString(second, "__dict__");
    expected = Py_BuildValue("[OO]", names[1], names[0]);
    PyObject *list = dict == NULL || !PyDict_CheckExact(dict) ? NULL : PyDict_Keys(dict);
    if (list != NULL && expected != NULL) {
        PyObject *seen;
        value_array *v = instance_values(second, &seen);
        status = PyObject_RichCompareBool(list, expected, Py_EQ);
        if (status == 1) {
            status = v == NULL && seen == dict && PyDict_GetItem(dict, names[0]) == values[0] &&
                     PyDict_GetItem(dict, names[1]) == values[1];
        }
    }
    Py_XDECREF(list);
done:
    Py_XDECREF(expected);
    Py_XDECREF(dict);
    Py_XDECREF(second);
    Py_XDECREF(first);
    return status;
}

static int check_instances(void)
{
    PyObject *names[2] = {PyUnicode_InternFromString("first"),
                          PyUnicode_InternFromString("second")};
    PyObject *values[2] = {PyFloat_FromDouble(1.5), PyFloat_FromDouble(2.5)};
    PyObject *cls = PyObject_CallFunction((PyObject *)&PyType_Type, "s(){s:s}", "torshi_probe",
                                          "__module__", "_torshi");
    int status = -1;
    if (cls != NULL && names[0] != NULL && names[1] != NULL && values[0] != NULL &&
        values[1] != NULL) {
        status = check_two_instances(cls, names, values);
    }
    Py_XDECREF(cls);
    for (int i = 0; i < 2; i++) {
        Py_XDECREF(names[i]);
        Py_XDECREF(values[i]);
    }
    return status;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

int internals_check(void)
{
    internals_forget_types();
    if (Py_Version >> 16 != PY_VERSION_HEX >> 16) {
        return 0;
    }
    int ok = check_ints();
    ok = ok == 1 ? check_float() : ok;
    ok = ok == 1 ? check_strings() : ok;
    ok = ok == 1 ? check_list() : ok;
    ok = ok == 1 ? check_empty_table() : ok;
    ok = ok == 1 ? check_watchers() : ok;
    /* 8 to 512 slots: both sides of where an index takes two bytes */
    static const Py_ssize_t sizes[] = {3, 10, 60, 100, 200};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ok = ok == 1 ? check_table(sizes[i], 0) : ok;
        ok = ok == 1 ? check_table(sizes[i], 1) : ok;
    }
    ok = ok == 1 ? check_instances() : ok;
    return ok;
}

const torshi_objects *internals_objects(int direct)
{
    return direct ? &direct_objects : &public_objects;
}

#else

int internals_check(void)
{
    return 0;
}

const torshi_objects *internals_objects(int direct)
{
    (void)direct;
    return &public_objects;
}

#endif
