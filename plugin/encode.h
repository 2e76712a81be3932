/*
 * encode.h - the writing half of the plugin: objects become payload columns (docs/format.md).
 *
 * A chunk is scanned and encoded in one go, running no Python code, into a writer that is reused
 * from chunk to chunk. Whatever is not plain is noted as a pending cell. When the chunk pays
 * (cost.c), the payload is written to the stream and the pending cells become the steps of a
 * chunk_record (finish.c).
 *
 * References in a writer are borrowed: they are alive because nothing runs between the scan and
 * the record that takes its own.
 */
#ifndef TORSHI_ENCODE_H
#define TORSHI_ENCODE_H

#include "decode.h" /* the arena */
#include "plugin.h"

/* Results of what encodes; nothing has been written when it is not ENC_OK. */
#define ENC_OK 0
#define ENC_ERROR (-1) /* a Python exception is set */
#define ENC_LIMIT 10   /* more rows or values than a chunk may have: try with fewer rows */
#define ENC_OTHER 20   /* a value of another kind is in the column */
#define ENC_AGAIN 25   /* a type is not plain after all: to be tried again, knowing that */
#define ENC_DECLINE 30 /* what may not be pending is not plain: no chunk */

/* Strings and bytes of this length are pending: their opcodes memoize them. */
#define LONG_TEXT 4096
/* Containers of this length are pending: they make a chunk of their own. */
#define LONG_ROW 4096
/* Values are sampled at this many rows. */
#define SAMPLE 256

/* n pointers to objects, `stride` bytes apart: list items, dict entries, arrays of ours. */
typedef struct span {
    const unsigned char *base;
    size_t stride;
    size_t n;
} span;

static inline PyObject *object_at(const unsigned char *place)
{
    return *(PyObject *const *)(const void *)place;
}

static inline PyObject *span_at(const span *s, size_t i)
{
    return object_at(s->base + i * s->stride);
}

/* Columns of so many rows are likely to be out of the cache: strings and rows are fetched ahead.
   (Numbers mostly lie in the order in which they were made, which the machine sees itself.) */
#define FAR_ROWS 2048
#define AHEAD 16
static inline void fetch_ahead(const span *s, size_t i)
{
    if (s->n >= FAR_ROWS && i + AHEAD < s->n) {
        __builtin_prefetch(span_at(s, i + AHEAD));
    }
}
/* The same for rows that are mostly dicts: each far ahead, its table when that one is there. (Like
   the hash of a str, ma_keys is in CPython's own headers; where it leads to is not read.) Inlined
   at once: gcc takes a function that only fetches for one without effects, and its calls away. */
#define FAR_DICTS 256
static inline __attribute__((always_inline)) void fetch_dict_ahead(const span *s, size_t i,
                                                                   size_t entries)
{
    if (s->n < FAR_DICTS || i + AHEAD >= s->n) {
        return;
    }
    PyObject *near = span_at(s, i + AHEAD / 2);
    __builtin_prefetch(span_at(s, i + AHEAD));
    if (PyDict_CheckExact(near)) {
        const char *table = (const char *)((PyDictObject *)near)->ma_keys;
        size_t size = 56 + 16 * (entries < 24 ? entries : 24); /* head, indices, entries */
        for (size_t at = 0; at < size; at += 64) {
            __builtin_prefetch(table + at);
        }
    }
}
/* The same for rows that are mostly lists: its items, and the first of these. */
static inline __attribute__((always_inline)) void fetch_list_ahead(const span *s, size_t i)
{
    if (s->n < FAR_DICTS || i + AHEAD >= s->n) {
        return;
    }
    PyObject *near = span_at(s, i + AHEAD / 2), *next = span_at(s, i + AHEAD / 4);
    __builtin_prefetch(span_at(s, i + AHEAD));
    if (PyList_CheckExact(near)) {
        __builtin_prefetch(PySequence_Fast_ITEMS(near));
    }
    if (PyList_CheckExact(next) && PyList_GET_SIZE(next)) {
        __builtin_prefetch(PyList_GET_ITEM(next, 0));
    }
}

static inline span span_of(PyObject **objects, size_t n)
{
    return (span){(const unsigned char *)objects, sizeof(PyObject *), n};
}

/* ---- where a cell stands ----------------------------------------------------------------------
 */
#define ORIGIN_ITEM 1  /* an item of a list: the key is its index */
#define ORIGIN_PAIR 2  /* a value of a dict beside its key */
#define ORIGIN_FIELD 3 /* the same key in each row: of a dict, or an attribute */

/* How the rows of a column that was not split yet belong to the rows above them. */
typedef struct origin {
    int form;
    uint32_t first;       /* roll index of the first parent */
    uint32_t parents;     /* ITEM, PAIR: how many there are */
    const uint32_t *ends; /* ITEM, PAIR: values of parents 0 to i together */
    span keys;            /* PAIR */
    PyObject *key;        /* FIELD; borrowed */
    uint32_t field;       /* FIELD: its position among the fields */
    PyTypeObject *type;   /* FIELD of instances that have a dict: their type; borrowed */
    Py_ssize_t start;     /* ITEM of a list target: index of row 0 */
} origin;

/* Where a cell is: which entry of which row on the roll. */
typedef struct cell_place {
    uint32_t row;
    uint32_t position;
    PyObject *key; /* borrowed; NULL: the index */
    Py_ssize_t index;
} cell_place;

cell_place find_place(const origin *from, uint32_t row);

/* The rows of a column, which may be some of those of its origin. */
typedef struct cells {
    const origin *from;
    const uint32_t *ids; /* row of the column -> row of the origin; NULL: the same */
} cells;

static inline uint32_t cell_id(const cells *c, size_t row)
{
    return c->ids ? c->ids[row] : (uint32_t)row;
}

/* A value that is set by opcodes later. */
typedef struct pending_cell {
    const origin *from;
    uint32_t row;
    PyObject *value; /* borrowed */
} pending_cell;

/* The rows that one mutable column puts on the roll: first, first + 1, ... */
typedef struct rolled_column {
    uint32_t first;
    uint32_t n;
    int build; /* how a value is set: BUILD_* */
    span objects;
    cells where;
} rolled_column;

#define BUILD_ITEM 0  /* SETITEM on a list or dict */
#define BUILD_SLOTS 1 /* BUILD with (None, dict) */

/* arena_alloc for a few items, without the call where there is room. */
static inline void *arena_take(arena *a, size_t bytes)
{
    arena_block *block = a->top;
    size_t size = (bytes + 15) & ~(size_t)15;
    if (PLUGIN_LIKELY(block && block->size - block->used >= size)) {
        void *room =
            (unsigned char *)block + ((sizeof(arena_block) + 15) & ~(size_t)15) + block->used;
        block->used += size;
        return room;
    }
    return arena_alloc(a, bytes, 1);
}

/* ---- objects met in this chunk ------------------------------------------------------------------
 */
typedef struct seen_entry {
    PyObject *obj;   /* NULL: free */
    uint32_t column; /* serial number of the column it was met in last; ROW_SERIAL for rows */
    uint32_t index;  /* its number in the DICTIONARY of that column */
    uint32_t again;  /* bytes its next occurrence takes as opcodes: 2 or 5 */
    uint32_t times;  /* how often it was met: when it has no more owners, it cannot be met again */
} seen_entry;

#define ROW_SERIAL UINT32_MAX         /* a mutable object that is a row of this chunk */
#define TYPE_SERIAL (UINT32_MAX - 1)  /* a type; index: its entry in `types` */
#define STATE_SERIAL (UINT32_MAX - 2) /* the dict of an instance that is a row */
#define NOT_MET 0                     /* as if it had not been entered */

typedef struct seen_set {
    seen_entry *entries; /* owned; a power of two of them, or NULL */
    size_t mask;
    size_t used;
    size_t texts; /* entries of columns: neither rows nor types */
} seen_set;

/* ---- types
 * ---------------------------------------------------------------------------------------
 */
#define TYPE_PENDING 1   /* asked for its reduction, by opcodes */
#define TYPE_INSTANCE 2  /* default path */
#define TYPE_REFERENCE 3 /* encode_ref.c */
#define TYPE_ZONE 4      /* a time zone: an external, in the values that have it */
#define TYPE_DATE 10     /* values, each with its own way to be read: encode_value.c */
#define TYPE_DATETIME 11
#define TYPE_TIME 12
#define TYPE_TIMEDELTA 13
#define TYPE_DECIMAL 14
#define TYPE_UUID 15
#define TYPE_ENUM 16
#define TYPE_FRACTION 17
#define TYPE_PATH 18
#define TYPE_NAMED 19

/* What a chunk knows about a type that it met. */
typedef struct type_entry {
    PyTypeObject *type; /* borrowed */
    int form;           /* TYPE_* */
    bool has_dict;
    bool own;                 /* REFERENCE: an ObjectRef, read directly */
    size_t slots;             /* INSTANCE, FRACTION, UUID: how many slots it has */
    PyObject **names;         /* of slots, ZONE: zones met; borrowed; in `lasting`, as the next */
    Py_ssize_t *offsets;      /* of slots in the object */
    Py_ssize_t first, second; /* UUID, FRACTION: offsets of the two slots that matter */
    PyObject *known;          /* UUID: SafeUUID.unknown; timezone: timedelta; NAMED:
                                 copyreg.__newobj__; borrowed */
    Py_ssize_t parts; /* PATH: offset of the list of parts; of drive and root: first, second */
    size_t arguments; /* values: what their callable takes */
    struct type_entry **variants; /* values whose objects differ in that: an entry for each number,
                                     where one was met; in `lasting` */
} type_entry;

/* The keys of dicts, or attributes of instances of one type, in order. */
typedef struct shape {
    const type_entry *type; /* NULL: dicts */
    bool slotted;           /* the attributes are slots */
    size_t n;
    PyObject **keys; /* exact str; borrowed, in the arena */
    size_t rows;     /* how many have it */
    PyObject **
        *taken; /* their values, where they were copied when the row was looked at; or NULL */
} shape;

/* ---- the writer ---------------------------------------------------------------------------------
 */
typedef struct chunk_writer {
    struct plugin_state *plugin;
    const torshi_services *services;
    const torshi_objects *objects;
    torshi_dump *dump;
    PyObject *target; /* borrowed */

    torshi_buf out;  /* owned: the payload */
    torshi_buf blob; /* owned: text of the column at work */
    PyObject *chunk; /* torshi.chunk; borrowed from the engine */
    arena arena;     /* owned: what columns need; a column may release what it took */
    arena lasting;   /* owned: what is known of types, as long as a chunk is scanned */
    seen_set seen;   /* owned */

    size_t values;   /* values of all columns so far */
    int64_t bound;   /* lower bound of the opcodes that the columns replace */
    int64_t extra;   /* what pending cells cost beyond what opcodes alone would */
    uint32_t serial; /* of the column at work */
    uint32_t rolled; /* objects on the roll; the target is number 0 */

    pending_cell *pending; /* owned */
    size_t pending_count, pending_room;
    rolled_column *columns; /* owned */
    size_t column_count, column_room;
    PyObject **externals; /* owned array of borrowed references */
    size_t external_count, external_room;
    type_entry **types; /* owned array; the entries are in `lasting` */
    size_t type_count, type_room;
    type_entry *recent[8]; /* by address */
    PyObject **excluded;   /* owned array, borrowed references: types that turned out not to be
                              plain, dicts that turned out to be an instance's */
    size_t excluded_count, excluded_room;
    bool shared_state;     /* a dict of an instance has other owners */
    bool hooks;            /* a hook is asked for every instance: none is plain */
    bool failed;           /* an exception was set where a kind was wanted */
    struct ref_scan *refs; /* owned: encode_ref.c; NULL: no references met */
} chunk_writer;

/* Take the writer out of the plugin's state (a new one when it is in use); NULL with MemoryError.
   Give it back, or free it, with writer_release. */
chunk_writer *writer_take(struct plugin_state *plugin, torshi_dump *dump);
void writer_release(chunk_writer *w);
/* Forget what the last attempt encoded; buffers stay allocated. */
void writer_reset(chunk_writer *w);

/* A vector of the writer's with more room: the new address (the old one is gone), or NULL with
   MemoryError, the vector unchanged. */
void *writer_grow(void *items, size_t *room, size_t size);

/* The entry of obj, a free one (obj NULL) to be filled in when it is not there; NULL with
   MemoryError. Valid until the next call. */
seen_entry *seen_find(seen_set *set, PyObject *obj);
/* The entry that seen_find returned is for a new object. */
static inline void seen_enter(seen_set *set, seen_entry *e, PyObject *obj, uint32_t column)
{
    *e = (seen_entry){obj, column, 0, 0, 1};
    set->used++;
    set->texts += column < STATE_SERIAL;
}

/* Whether the chunk's call needs a roll. */
static inline bool needs_roll(const chunk_writer *w)
{
    return w->rolled > 1 || w->external_count;
}

/* ---- columns ------------------------------------------------------------------------------------
 */
#define COLUMN_PLAIN 1u    /* nothing in it may be pending */
#define COLUMN_DISTINCT 2u /* the values are known to differ: no DICTIONARY is tried */

#define COLUMN_SORTED 4u /* classify() has found all values to be of this kind */
#define COLUMN_FRESH 8u  /* the objects are new ones, which nobody else has */
#define COLUMN_CHECKED                                                                             \
    16u /* items of tuples that is_plain_value() was asked about, items and all */

/* Append the column of s to w->out. ENC_OK, ENC_ERROR, ENC_LIMIT; ENC_DECLINE with COLUMN_PLAIN. */
int encode_column(chunk_writer *w, const span *s, const cells *c, int level, unsigned flags);

/* The keys of a dict target. ENC_DECLINE when one of them is not plain, and not all are references.
 */
int encode_keys(chunk_writer *w, const span *keys, const cells *c);
/* Count the values of one more column: ENC_OK or ENC_LIMIT. */
int count_values(chunk_writer *w, size_t n);
/*
 * A column of immutable objects, each of which is written once: put() appends the column of the
 * different objects at `level`, and where one stands in several rows that is a DICTIONARY's. A
 * fresh object takes `cost` bytes as opcodes beside what put() counts, and put() counts at least
 * `least` for it.
 */
/* The n columns of what tuples hold, of which items_are_plain() has been asked. As encode_column.
 */
int put_items(chunk_writer *w, const span *s, size_t n, int level);
typedef int (*put_objects_fn)(chunk_writer *w, const span *s, int level, void *detail);
int encode_by_identity(chunk_writer *w, const span *s, int level, int64_t cost, int64_t least,
                       put_objects_fn put, void *detail);
/* A column whose values are all of one kind; ENC_OTHER, having written and counted nothing, when
   they are not. (encode_int.c, encode_atoms.c, encode_str.c) */
int encode_ints(chunk_writer *w, const span *s);
int encode_bigs(chunk_writer *w, const span *s);
int encode_floats(chunk_writer *w, const span *s);
int encode_bools(chunk_writer *w, const span *s);
int encode_nones(chunk_writer *w, const span *s);
int encode_texts(chunk_writer *w, const span *s, unsigned flags); /* str or bytes */
/* Dicts of one shape, or instances of one type and shape. `known`: classified and claimed, all of
   this shape; NULL: to be found out, for dicts or (type not NULL) for instances. */
int encode_structs(chunk_writer *w, const span *s, const cells *c, int level, shape *known,
                   type_entry *type);
int encode_maps(chunk_writer *w, const span *s, const cells *c, int level);
int encode_lists(chunk_writer *w, const span *s, const cells *c, int level, unsigned flags);
int encode_values(chunk_writer *w, const span *s, int level, unsigned flags, type_entry *type);
int encode_tuples(chunk_writer *w, const span *s, int level, unsigned flags);
/*
 * PENDING, and a note of each cell. ENC_AGAIN for a field of an instance with a dict or its own
 * __setattr__: the dict of such an instance can be met while its value is being saved, and stock
 * pickle would then have it in the memo. So an instance with a pending field is itself pending.
 */
int encode_pending(chunk_writer *w, const span *s, const cells *c);
/* The same where no instance may have a pending field, in an attempt that is not written. */
int note_pending(chunk_writer *w, const span *s, const cells *c);

/* The head of a column. 0, or -1 with MemoryError. */
int put_head(chunk_writer *w, torshi_kind kind, int width);
static inline int put_no_memory(void)
{
    PyErr_NoMemory();
    return ENC_ERROR;
}

/* ---- kinds (classify.c) -------------------------------------------------------------------------
 */
#define KIND_NONE 1
#define KIND_BOOL 2
#define KIND_INT 3 /* fits 64 bits */
#define KIND_BIG 4
#define KIND_FLOAT 5
#define KIND_STR 6
#define KIND_BYTES 7
#define KIND_TUPLE 8 /* detail: arity */
#define KIND_DICT 9  /* detail: a shape; 0: none in particular */
#define KIND_MAP 10
#define KIND_LIST 11
#define KIND_INSTANCE 12  /* detail: a shape, or its type entry while that is not known */
#define KIND_VALUE 13     /* detail: its type entry */
#define KIND_REFERENCE 14 /* detail: encode_ref.c */
#define KIND_PENDING 15

/* What column a value goes to: values with equal kind and detail share one. */
typedef struct value_kind {
    int kind;
    uintptr_t detail;
} value_kind;

/* The kind of obj in a column at this level, before rows are claimed. Sets w->failed on errors. */
value_kind classify(chunk_writer *w, PyObject *obj, int level, unsigned flags);
/* Whether obj may stand in a column at this level as an immutable value. */
bool is_plain_value(chunk_writer *w, PyObject *obj, int level);
/* The same for all items of a tuple that stands there. */
bool items_are_plain(chunk_writer *w, PyObject *tuple, int level);
/* Whether all keys are plain, and equal to themselves: what is set later must find its entry. */
bool keys_are_plain(chunk_writer *w, const span *keys, int level);

typedef struct entries {
    PyObject **keys; /* borrowed, in the arena, as the next */
    PyObject **values;
    size_t n;
    bool slotted;
} entries;

/* Whether all keys are exact str. */
bool are_names(const entries *e);
/* Their shape, new in the arena; NULL with MemoryError. */
shape *make_shape(chunk_writer *w, const entries *e, const type_entry *type);
bool has_shape(const shape *sh, const entries *e);
/* The same for the entries of a view, whose values are copied to cells[f * n]. */
bool take_view(const torshi_dict_view *view, const shape *sh, PyObject **cells, size_t n);
/* Whether sh->rows rows of it are better as a STRUCT than as a MAP. */
bool shape_is_struct(const shape *sh);

/* ---- rows (rows.c)
 * -------------------------------------------------------------------------------
 */
/* Make a mutable object a row of this chunk: 1; 0 when it was met before, here or in the memo; -1
   with MemoryError. Objects with one owner cannot have been met and are not entered. */
int claim_row(chunk_writer *w, PyObject *obj);
/* The same for an instance and its dict. ENC_AGAIN when the dict is itself the target or a row of
   this chunk: where the instance is saved while that is being finished, it would take placeholders
   over. The dict is excluded then. */
int claim_instance(chunk_writer *w, PyObject *obj, const type_entry *type);
/* Leave obj out of what is plain from now on. ENC_AGAIN or ENC_ERROR. */
int exclude(chunk_writer *w, PyObject *obj);
bool is_excluded(const chunk_writer *w, const PyObject *obj);
/* Take it back; what was not entered is left alone. */
void unclaim_row(chunk_writer *w, PyObject *obj);
void unclaim_state(chunk_writer *w, PyObject *obj, const type_entry *type);
/* The next s->n places on the roll are these objects'. The number of the first in *first. ENC_OK or
   ENC_ERROR. */
int put_on_roll(chunk_writer *w, const span *s, const cells *c, int build, uint32_t *first);
/* The external number of a class or callable. ENC_OK or ENC_ERROR. */
int external_number(chunk_writer *w, PyObject *callable, uint32_t *number);
/* The same for an object that has none yet. */
int add_external(chunk_writer *w, PyObject *obj, uint32_t *number);

static inline PyObject *view_key(const torshi_dict_view *view, size_t i)
{
    return *(PyObject *const *)(const void *)(view->base + i * view->stride + view->key_offset);
}
static inline PyObject *view_value(const torshi_dict_view *view, size_t i)
{
    return view->values ? view->values[i]
                        : *(PyObject *const *)(const void *)(view->base + i * view->stride +
                                                             view->value_offset);
}

/* Where the entries of a dict or the attributes of an instance lie. 1: *view is filled and has no
   gaps; 0: use row_entries. */
int row_view(chunk_writer *w, PyObject *obj, const type_entry *type, torshi_dict_view *view);
/* The same in arrays, by whatever way there is, slots included. ENC_OK, ENC_OTHER when a key is no
   exact str (instances), or ENC_ERROR. */
int row_entries(chunk_writer *w, PyObject *obj, const type_entry *type, entries *out);
/* Equal exact str; b is one. */
bool equal_names(PyObject *a, PyObject *b);
static inline bool same_name(PyObject *a, PyObject *b)
{
    if (PLUGIN_LIKELY(a == b)) {
        return true;
    }
    /* Keys of dicts have been hashed, so other names are told apart by that. */
    Py_hash_t x = PyUnicode_CheckExact(a) ? ((PyASCIIObject *)a)->hash : 0;
    Py_hash_t y = ((PyASCIIObject *)b)->hash;
    return (x == y || x == -1 || y == -1) && equal_names(a, b);
}

/* The entries of a view as keys and values in turn; NULL where they do not lie so. (Where all keys
   are str there is no hash between them.) */
static inline PyObject *const *view_pairs(const torshi_dict_view *view)
{
    return !view->values && view->stride == 2 * sizeof(PyObject *) &&
                   view->value_offset == view->key_offset + sizeof(PyObject *)
               ? (PyObject *const *)(const void *)(view->base + view->key_offset)
               : NULL;
}
/* Whether the keys of sh->n such pairs are those of sh; their values are copied to cells[f * n]. */
static inline bool take_pairs_of(PyObject *const *pairs, const shape *sh, PyObject **cells,
                                 size_t n)
{
    PyObject *const *names = sh->keys;
    for (size_t f = 0, fields = sh->n; f < fields; f++, pairs += 2) {
        if (PLUGIN_UNLIKELY(pairs[0] != names[f]) && !same_name(pairs[0], names[f])) {
            return false;
        }
        cells[f * n] = pairs[1];
    }
    return true;
}

/* What is known about obj's type (types.c); NULL with an exception. */
type_entry *type_of(chunk_writer *w, PyObject *obj);
/* Whether obj, whose type is a value's, can be made again by that type's columns. */
bool is_known_value(chunk_writer *w, PyObject *obj, type_entry *type, int level);
/* The entry for those objects of its type whose callable takes as many arguments as that of obj,
   which is a known value; NULL with MemoryError and w->failed. is_known_value() makes the entries,
   as arrays of items that are being encoded are taken off the arena again. */
type_entry *value_variant(chunk_writer *w, PyObject *obj, type_entry *type);
/* Containers, tuples and values made by callables stand at most at this level: below them a MIXED,
   a DICTIONARY, a TUPLE and the items' own MIXED, DICTIONARY and AFFIX still have room. */
#define DEEPEST (TORSHI_MAX_DEPTH - 6)

/* The value of an exact int when it fits. */
static inline bool read_int64(PyObject *obj, int64_t *value)
{
#if PY_VERSION_HEX >= 0x030C0000
    if (PLUGIN_LIKELY(PyUnstable_Long_IsCompact((PyLongObject *)obj))) {
        *value = (int64_t)PyUnstable_Long_CompactValue((PyLongObject *)obj);
        return true;
    }
#else
    Py_ssize_t size = Py_SIZE(obj);
    if (PLUGIN_LIKELY(size >= -1 && size <= 1)) {
        *value = (int64_t)size * (int64_t)((PyLongObject *)obj)->ob_digit[0];
        return true;
    }
#endif
    int overflow;
    long long v = PyLong_AsLongLongAndOverflow(obj, &overflow);
    *value = (int64_t)v;
    return overflow == 0;
}

/* The kind of a value that is told without a look below it; 0 for all others. */
static inline int atom_kind(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    int64_t v;
    if (type == &PyUnicode_Type) {
        return PyUnicode_GET_LENGTH(obj) < LONG_TEXT ? KIND_STR : 0;
    }
    if (type == &PyLong_Type) {
        return read_int64(obj, &v) ? KIND_INT : 0;
    }
    return type == &PyFloat_Type  ? KIND_FLOAT
           : obj == Py_None       ? KIND_NONE
           : type == &PyBool_Type ? KIND_BOOL
                                  : 0;
}

/* Whether classify() takes a list for a row at every level that has rows, for its first item's
   sake: most lists are told so. */
static inline bool starts_plain(PyObject *list)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    return n == 0 || (n < LONG_ROW && atom_kind(PyList_GET_ITEM(list, 0)));
}

/* ---- what pays (cost.c) -------------------------------------------------------------------------
 */
/* Bytes of a str, bytes or tuple as opcodes when it was met before: 2 or 5; 0 when it was not. */
int met_cost(chunk_writer *w, PyObject *obj);
/* Bytes of a plain key that is written and memoized. */
int64_t key_cost(PyObject *key);

#endif
