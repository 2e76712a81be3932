/*
 * internals_dict.c - dicts built through their keys tables (internals_layout.h).
 *
 * Tables are allocated at their final size, filled in place with the probing sequence that
 * dict's own look-up follows, and put into an empty dict in one step; a template table is copied
 * for dicts with the same keys (measured: 3.9 times stock pickle's loads on records, 2.0 with
 * inserts by the API). Since the sequence is dict's own, keys that collide cost what they cost in
 * a dict, no more.
 *
 * Every step leaves a dict that is whole. No step calls code that could look at it, except where a
 * value is replaced: that is left to the API, and the table is looked at afresh afterwards.
 */
#include "internals_layout.h"

#if INTERNALS_SUPPORTED

#define SLOT_EMPTY (-1)
#define SLOT_DELETED (-2)
#define MIN_LOG2 3u
#define MAX_LOG2 38u /* 2**38 slots: 8 TiB of entries; nothing above is tried */
#define PERTURB_SHIFT 5
#define ZEROED_ABOVE (1u << 17) /* tables from here on come from calloc, mostly fresh pages */
#define MORE_BOUND 16           /* what a hint may reserve for each entry that is really there */

/* ---- index tables ---------------------------------------------------------------------------- */

INTERNALS_INLINE Py_ssize_t slot_get(const char *indices, size_t slot, unsigned width)
{
    switch (width) {
    case 1:
        return ((const int8_t *)indices)[slot];
    case 2:
        return ((const int16_t *)(const void *)indices)[slot];
    case 4:
        return ((const int32_t *)(const void *)indices)[slot];
    default:
        return ((const int64_t *)(const void *)indices)[slot];
    }
}

INTERNALS_INLINE void slot_set(char *indices, size_t slot, unsigned width, Py_ssize_t entry)
{
    switch (width) {
    case 1:
        ((int8_t *)indices)[slot] = (int8_t)entry;
        break;
    case 2:
        ((int16_t *)(void *)indices)[slot] = (int16_t)entry;
        break;
    case 4:
        ((int32_t *)(void *)indices)[slot] = (int32_t)entry;
        break;
    default:
        ((int64_t *)(void *)indices)[slot] = entry;
    }
}

static unsigned width_of(const keys_table *k)
{
    return 1u << (k->log2_index_bytes - k->log2_size);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Types whose hash and comparison run no user code. */
static inline int is_safe_key(PyObject *key)
{
    PyTypeObject *t = Py_TYPE(key);
    return t == &PyUnicode_Type || t == &PyLong_Type || t == &PyFloat_Type || t == &PyBytes_Type ||
           t == &PyBool_Type || key == Py_None;
}

/* The hash of a safe key; never -1. */
INTERNALS_INLINE Py_hash_t safe_hash(PyObject *key)
{
    if (PyUnicode_CheckExact(key)) {
        Py_hash_t hash = ((PyASCIIObject *)key)->hash;
        return TORSHI_LIKELY(hash != -1) ? hash : PyObject_Hash(key);
    }
    if (PyLong_CheckExact(key)) {
        /* An int below the modulus 2**61 - 1 is its own hash, but -1 is not to be one. */
#if PY_VERSION_HEX >= 0x030C0000
        if (PyUnstable_Long_IsCompact((PyLongObject *)key)) {
            Py_hash_t v = PyUnstable_Long_CompactValue((PyLongObject *)key);
            return v == -1 ? -2 : v;
        }
#else
        Py_ssize_t size = Py_SIZE(key);
        if (size >= -1 && size <= 1) {
            Py_hash_t v = size * (Py_hash_t)((PyLongObject *)key)->ob_digit[0];
            return v == -1 ? -2 : v;
        }
#endif
    }
    return PyObject_Hash(key);
}

static inline int same_str(PyObject *a, PyObject *b)
{
    Py_ssize_t len = PyUnicode_GET_LENGTH(a);
    return len == PyUnicode_GET_LENGTH(b) && PyUnicode_KIND(a) == PyUnicode_KIND(b) &&
           memcmp(PyUnicode_DATA(a), PyUnicode_DATA(b), (size_t)len * PyUnicode_KIND(a)) == 0;
}

/* Whether two keys of equal hash, not identical, are equal: 1, 0, or -1 for "ask the API". */
static int same_key(PyObject *stored, PyObject *key)
{
    if (PyUnicode_CheckExact(stored) && PyUnicode_CheckExact(key)) {
        return same_str(stored, key);
    }
    if (!is_safe_key(stored)) {
        return -1;
    }
    int same = PyObject_RichCompareBool(stored, key, Py_EQ);
    if (same < 0) {
        PyErr_Clear(); /* the API will come to the same point and report it */
    }
    return same;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The size for n entries, as dict itself would come to; 0 when there is none. */
static unsigned log2_for(Py_ssize_t n)
{
    unsigned log2 = MIN_LOG2;
    while (log2 <= MAX_LOG2 && usable_of(log2) < n) {
        log2++;
    }
    return log2 <= MAX_LOG2 ? log2 : 0;
}

static size_t entry_size(unsigned kind)
{
    return kind == KIND_GENERAL ? sizeof(general_entry) : sizeof(unicode_entry);
}

static size_t table_size(unsigned log2, unsigned kind)
{
    return sizeof(keys_table) + ((size_t)1 << index_bytes_of(log2)) +
           (size_t)usable_of(log2) * entry_size(kind);
}

/* A table without entries, all of it initialised. NULL without an exception when out of memory. */
static keys_table *table_new(unsigned log2, unsigned kind)
{
    size_t size = table_size(log2, kind);
    keys_table *k = size >= ZEROED_ABOVE ? KEYS_CALLOC(1, size) : KEYS_MALLOC(size);
    if (k == NULL) {
        return NULL;
    }
    size_t index_bytes = (size_t)1 << index_bytes_of(log2);
    if (size < ZEROED_ABOVE) {
        memset(k, 0, sizeof *k);
        memset(keys_indices(k) + index_bytes, 0, (size_t)usable_of(log2) * entry_size(kind));
    }
    memset(keys_indices(k), 0xFF, index_bytes);
    k->refcnt = 1;
    k->log2_size = (uint8_t)log2;
    k->log2_index_bytes = (uint8_t)index_bytes_of(log2);
    k->kind = (uint8_t)kind;
    k->usable = usable_of(log2);
    return k;
}

/* Put a table into a dict that has the empty one. */
static inline void dict_set_table(PyObject *dict, keys_table *k)
{
#if PY_VERSION_HEX < 0x030C0000
    dict_keys(dict)->refcnt--; /* from 3.12 on the empty table is immortal */
#endif
    ((PyDictObject *)dict)->ma_keys = (PyDictKeysObject *)(void *)k;
    ((PyDictObject *)dict)->ma_used = k->nentries;
}

static inline void dict_track(PyObject *dict)
{
    if (!PyObject_GC_IsTracked(dict)) {
        PyObject_GC_Track(dict);
    }
}

/* In 3.11 Cython caches look-ups by ma_version_tag, which nothing here raises. An unpickler has a
   dict on its stack and in its memo; one that is known elsewhere gets its last pair by the API. */
static inline int version_matters(PyObject *dict)
{
    return PY_VERSION_HEX < 0x030C0000 && Py_REFCNT(dict) > 2;
}

/* Whether a dict is empty and may be given a table. */
static inline int is_blank(PyObject *dict)
{
    return is_empty_table(dict_keys(dict)) && ((PyDictObject *)dict)->ma_values == NULL &&
           !dict_is_watched(dict);
}

/* ---- insertion ------------------------------------------------------------------------------- */

#define RUN_END 0  /* all inserted */
#define RUN_FULL 1 /* the table is full */
#define RUN_ODD 2  /* the next key is there already, or of a kind that only the API can place */

/* Insert keys[i*stride], values[i*stride] for i from *next on, moving the references. `width` and
   `general` are constants at each call. *track becomes 1 when the dict has to be tracked. */
INTERNALS_INLINE int insert_run(keys_table *k, PyObject *const *keys, PyObject *const *values,
                                Py_ssize_t stride, Py_ssize_t *next, Py_ssize_t n, int *track,
                                unsigned width, int general)
{
    char *indices = keys_indices(k);
    unicode_entry *unicode = keys_entries(k);
    general_entry *entries = keys_entries(k);
    size_t mask = ((size_t)1 << k->log2_size) - 1;
    Py_ssize_t count = k->nentries;
    Py_ssize_t room = k->usable;
    Py_ssize_t i;
    int result = RUN_END;
    PyTypeObject *plain = NULL; /* the last type seen that is not for the collector */
    int must_track = *track;

    for (i = *next; i < n; i++) {
        PyObject *key = keys[i * stride];
        PyObject *value = values[i * stride];
        if (room <= 0) {
            result = RUN_FULL;
            break;
        }
        if (general ? !is_safe_key(key) : !PyUnicode_CheckExact(key)) {
            result = RUN_ODD;
            break;
        }
        Py_hash_t hash = safe_hash(key);
        if (TORSHI_UNLIKELY(hash == -1)) {
            PyErr_Clear();
            result = RUN_ODD;
            break;
        }
        size_t perturb = (size_t)hash;
        size_t slot = perturb & mask;
        size_t free_slot = SIZE_MAX;
        Py_ssize_t ix;
        while ((ix = slot_get(indices, slot, width)) != SLOT_EMPTY) {
            if (ix >= 0) {
                PyObject *stored = general ? entries[ix].key : unicode[ix].key;
                Py_hash_t stored_hash =
                    general ? entries[ix].hash : ((PyASCIIObject *)stored)->hash;
                if (stored == key || (stored_hash == hash && same_key(stored, key) != 0)) {
                    result = RUN_ODD;
                    goto done;
                }
            } else if (free_slot == SIZE_MAX) {
                free_slot = slot;
            }
            perturb >>= PERTURB_SHIFT;
            slot = (slot * 5 + perturb + 1) & mask;
        }
        slot_set(indices, free_slot == SIZE_MAX ? slot : free_slot, width, count);
        if (general) {
            entries[count].hash = hash;
            entries[count].key = key;
            entries[count].value = value;
        } else {
            unicode[count].key = key;
            unicode[count].value = value;
        }
        count++;
        room--;
        if (!must_track && Py_TYPE(value) != plain) {
            must_track = may_be_tracked(value);
            if (!(Py_TYPE(value)->tp_flags & Py_TPFLAGS_HAVE_GC)) {
                plain = Py_TYPE(value);
            }
        }
    }
done:
    k->nentries = count;
    k->usable = room;
    *next = i;
    *track = must_track;
    return result;
}

static int run_unicode(keys_table *k, PyObject *const *keys, PyObject *const *values,
                       Py_ssize_t stride, Py_ssize_t *next, Py_ssize_t n, int *track)
{
    switch (width_of(k)) {
    case 1:
        return insert_run(k, keys, values, stride, next, n, track, 1, 0);
    case 2:
        return insert_run(k, keys, values, stride, next, n, track, 2, 0);
    case 4:
        return insert_run(k, keys, values, stride, next, n, track, 4, 0);
    default:
        return insert_run(k, keys, values, stride, next, n, track, 8, 0);
    }
}

static int run_general(keys_table *k, PyObject *const *keys, PyObject *const *values,
                       Py_ssize_t stride, Py_ssize_t *next, Py_ssize_t n, int *track)
{
    switch (width_of(k)) {
    case 1:
        return insert_run(k, keys, values, stride, next, n, track, 1, 1);
    case 2:
        return insert_run(k, keys, values, stride, next, n, track, 2, 1);
    case 4:
        return insert_run(k, keys, values, stride, next, n, track, 4, 1);
    default:
        return insert_run(k, keys, values, stride, next, n, track, 8, 1);
    }
}

static inline int table_run(keys_table *k, PyObject *const *keys, PyObject *const *values,
                            Py_ssize_t stride, Py_ssize_t *next, Py_ssize_t n, int *track)
{
    return k->kind == KIND_UNICODE ? run_unicode(k, keys, values, stride, next, n, track)
                                   : run_general(k, keys, values, stride, next, n, track);
}

/* A new table in a blank dict for what comes. The kind is that of the first key, as dict itself
   has it; a str table that meets another key is converted by the API. 0 or -1 (no exception). */
static int dict_presize(PyObject *dict, PyObject *first_key, Py_ssize_t n, Py_ssize_t more)
{
    if (more > 0 && n <= PY_SSIZE_T_MAX / (2 * MORE_BOUND)) {
        n += more / MORE_BOUND < n ? more : n * MORE_BOUND;
    }
    unsigned log2 = log2_for(n);
    keys_table *k =
        log2 == 0 ? NULL
                  : table_new(log2, PyUnicode_CheckExact(first_key) ? KIND_UNICODE : KIND_GENERAL);
    if (k == NULL) {
        return -1;
    }
    dict_set_table(dict, k);
    return 0;
}

int internals_presize(PyObject *dict, PyObject *first_key, Py_ssize_t n)
{
    return is_blank(dict) && is_safe_key(first_key) && dict_presize(dict, first_key, n, 0) == 0;
}

/* Insert pairs from *next on, moving the references, until one needs the API or all are in. */
static void place_pairs(PyObject *dict, PyObject *const *keys, PyObject *const *values,
                        Py_ssize_t stride, Py_ssize_t *next, Py_ssize_t n, Py_ssize_t more)
{
    PyDictObject *d = (PyDictObject *)dict;
    Py_ssize_t before = *next;
    Py_ssize_t end = n - version_matters(dict);
    int track = 0;

    if (end <= before) {
        return;
    }
    if (is_blank(dict) && is_safe_key(keys[before * stride])) {
        (void)dict_presize(dict, keys[before * stride], n - before, more); /* else it just grows */
    }
    keys_table *k = dict_keys(dict);
    if (k->refcnt != 1 || k->kind > KIND_UNICODE || d->ma_values != NULL || k->usable <= 0 ||
        dict_is_watched(dict)) {
        return;
    }
    k->version = 0;
    (void)table_run(k, keys, values, stride, next, end, &track);
    d->ma_used += *next - before;
    if (track) {
        dict_track(dict);
    }
}

Py_ssize_t internals_fill_some(PyObject *dict, PyObject *const *items, Py_ssize_t n,
                               Py_ssize_t more)
{
    Py_ssize_t next = 0;
    place_pairs(dict, items, items + 1, 2, &next, n, more);
    return next;
}

int direct_fill_dict(PyObject *dict, PyObject **keys, PyObject **values, intptr_t n, intptr_t more)
{
    Py_ssize_t next = 0;
    int status = 0;

    while (next < n && status == 0) {
        place_pairs(dict, keys, values, 1, &next, n, more);
        if (next < n) {
            status = PyDict_SetItem(dict, keys[next], values[next]);
            Py_DECREF(keys[next]);
            Py_DECREF(values[next]);
            next++;
        }
    }
    memset(keys, 0, (size_t)next * sizeof *keys);
    memset(values, 0, (size_t)next * sizeof *values);
    internals_drop(keys + next, n - next);
    internals_drop(values + next, n - next);
    return status;
}

int internals_fill_empty_dict(PyObject *dict, PyObject **items, Py_ssize_t n)
{
    if (n == 0 || !is_blank(dict) || version_matters(dict)) {
        return 0;
    }
    unsigned log2 = log2_for(n);
    if (log2 == 0) {
        return 0;
    }
    unsigned kind = PyUnicode_CheckExact(items[0]) ? KIND_UNICODE : KIND_GENERAL;
    keys_table *k = table_new(log2, kind);
    if (k == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t next = 0;
    int track = 0;
    if (table_run(k, items, items + 1, 2, &next, n, &track) != RUN_END) {
        KEYS_FREE(k); /* its references are still the items' */
        return 0;
    }
    dict_set_table(dict, k);
    if (track) {
        dict_track(dict);
    }
    return 1;
}

/* ---- rows of dicts with the same keys -------------------------------------------------------- */

/* Add n to an object's count (n may be negative); immortal objects are left alone, and a count
   that would come near their range is raised one by one, as the API has it. */
static void add_references(PyObject *op, Py_ssize_t n)
{
#if PY_VERSION_HEX >= 0x030C0000
    if (_Py_IsImmortal(op)) {
        return;
    }
    if (op->ob_refcnt + n > INT32_MAX / 2) {
        for (; n > 0; n--) {
            Py_INCREF(op);
        }
        for (; n < 0; n++) {
            Py_DECREF(op);
        }
        return;
    }
#endif
    op->ob_refcnt += n;
}

/* The table that each row starts from: keys in place, values NULL. *status: 1 made, 0 these keys
   are not for it (not exact str, or two of them equal), -1 out of memory. */
static keys_table *template_table(PyObject *const *keys, Py_ssize_t nkeys, int *status)
{
    unsigned log2 = log2_for(nkeys);
    *status = 0;
    if (log2 == 0) {
        return NULL;
    }
    for (Py_ssize_t f = 0; f < nkeys; f++) {
        if (!PyUnicode_CheckExact(keys[f])) {
            return NULL;
        }
    }
    keys_table *k = table_new(log2, KIND_UNICODE);
    if (k == NULL) {
        *status = -1;
        return NULL;
    }
    Py_ssize_t next = 0;
    int track = 1;
    if (run_unicode(k, keys, keys, 1, &next, nkeys, &track) != RUN_END) {
        KEYS_FREE(k);
        return NULL;
    }
    unicode_entry *entries = keys_entries(k);
    for (Py_ssize_t f = 0; f < nkeys; f++) {
        entries[f].value = NULL;
    }
    *status = 1;
    return k;
}

static int column_may_be_tracked(PyObject *const *column, Py_ssize_t n)
{
    PyTypeObject *plain = NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyTypeObject *type = Py_TYPE(column[i]);
        if (type != plain) {
            if (type->tp_flags & Py_TPFLAGS_HAVE_GC) {
                return 1;
            }
            plain = type;
        }
    }
    return 0;
}

int direct_make_dicts(PyObject *const *keys, intptr_t nkeys, PyObject **const *columns, intptr_t n,
                      PyObject **out)
{
    int status = 0;
    int any_tracked = 0;
    intptr_t row = 0;
    keys_table *template = NULL;

    if (nkeys > 0 && n > 0) {
        template = template_table(keys, nkeys, &status);
        if (status < 0) {
            internals_drop_columns(columns, nkeys, n);
            PyErr_NoMemory();
            return -1;
        }
    }
    if (template == NULL) {
        return public_make_dicts(keys, nkeys, columns, n, out);
    }

    status = -1;
    size_t size = table_size(template->log2_size, KIND_UNICODE);
    size_t entries_at = (size_t)((char *)keys_entries(template) - (char *)template);
    for (intptr_t f = 0; f < nkeys; f++) {
        any_tracked |= column_may_be_tracked(columns[f], n);
        /* Before any row is made: from then on a collection may run code that deletes keys. */
        add_references(keys[f], n);
    }
    for (row = 0; row < n; row++) {
        PyObject *dict = PyDict_New();
        if (TORSHI_UNLIKELY(dict == NULL)) {
            goto done;
        }
        keys_table *k = KEYS_MALLOC(size);
        if (TORSHI_UNLIKELY(k == NULL)) {
            Py_DECREF(dict);
            PyErr_NoMemory();
            goto done;
        }
        memcpy(k, template, size);
        unicode_entry *entries = (unicode_entry *)(void *)((char *)k + entries_at);
        for (intptr_t f = 0; f < nkeys; f++) {
            entries[f].value = columns[f][row];
        }
        dict_set_table(dict, k);
        out[row] = dict;
        if (any_tracked) {
            for (intptr_t f = 0; f < nkeys; f++) {
                if (may_be_tracked(entries[f].value)) {
                    PyObject_GC_Track(dict);
                    break;
                }
            }
        }
    }
    status = 0;
done:
    KEYS_FREE(template);
    for (intptr_t f = 0; f < nkeys; f++) {
        memset(columns[f], 0, (size_t)row * sizeof(PyObject *));
    }
    if (status < 0) {
        for (intptr_t f = 0; f < nkeys; f++) {
            add_references(keys[f], row - n);
        }
        internals_drop(out, row);
        internals_drop_columns(columns, nkeys, n);
    }
    return status;
}

#else

int internals_fill_empty_dict(PyObject *dict, PyObject **items, Py_ssize_t n)
{
    (void)dict;
    (void)items;
    (void)n;
    return 0;
}

Py_ssize_t internals_fill_some(PyObject *dict, PyObject *const *items, Py_ssize_t n,
                               Py_ssize_t more)
{
    (void)dict;
    (void)items;
    (void)n;
    (void)more;
    return 0;
}

int internals_presize(PyObject *dict, PyObject *first_key, Py_ssize_t n)
{
    (void)dict;
    (void)first_key;
    (void)n;
    return 0;
}

#endif
