/*
 * decode.h - the reading half of the plugin: payload columns become arrays of objects.
 *
 * A column is decoded as a whole: its function fills `out` with n new references, through the
 * engine's bulk constructors where there is one. Nested columns are decoded child first, so the
 * work is level by level and the C stack at most TORSHI_MAX_DEPTH frames deep.
 *
 * Failure, everywhere: -1 with either a Python exception set or the cursor's status (never both
 * looked at: chunk.c raises the status when no exception is set). A function that fails has
 * released what it put into `out`; its caller does not look at the array again.
 *
 * Re-entrance: callables, hashes and __setstate__ run in the middle of a call and may call chunk
 * again, change target and roll, or drop the last other reference to them. So a call owns
 * references to all its arguments, takes the arena out of the plugin's state while it works, and
 * keeps what goes on the roll in an array of its own until the end.
 */
#ifndef TORSHI_DECODE_H
#define TORSHI_DECODE_H

#include "plugin.h"

/* ---- scratch memory ------------------------------------------------------------------------ */
typedef struct arena_block {
    struct arena_block *below;
    size_t size;
    size_t used;
    /* the bytes follow, aligned for any object */
} arena_block;

/* A stack of blocks: what was allocated since a mark is released together. */
typedef struct arena {
    arena_block *top; /* owned */
} arena;

typedef struct arena_mark {
    arena_block *top;
    size_t used;
} arena_mark;

/* What stays allocated between calls is one block of at most this size. */
#define ARENA_KEEP ((size_t)1 << 20)

/* Uninitialised memory for `count` items of `size` bytes; NULL with MemoryError. */
void *arena_alloc(arena *a, size_t count, size_t size);
arena_mark arena_here(const arena *a);
void arena_release(arena *a, arena_mark mark);
/* Free all blocks but, when it is small enough, the lowest. */
void arena_reset(arena *a);
void arena_free(arena *a);

/* What reading keeps for an interpreter between calls. */
struct decode_state {
    arena scratch; /* empty while a call uses it */
};

/* ---- a call of torshi.chunk at work -------------------------------------------------------- */
typedef struct decoder {
    torshi_cursor cursor;
    const torshi_objects *objects;
    plugin_state *plugin;
    torshi_load *load;          /* the unpickler at work, or NULL */
    PyObject *own_load;         /* owned: ref_load.c's, when load is NULL */
    arena arena;                /* owned while the call runs */
    PyObject *const *externals; /* borrowed from the arguments, each owned by the call */
    size_t external_count;
    bool has_roll;
    bool collector_paused; /* 3.11: to be switched on again */
    bool has_foreign;      /* a callable has made values: their hash may be user code */
    PyObject **rolled;     /* owned, as are the references; NULL where a place is only reserved */
    size_t rolled_count;
    size_t rolled_size;
} decoder;

/* Sets of column kinds, one bit each. */
typedef uint32_t kind_set;
#define KIND_BIT(NAME) ((kind_set)1 << TORSHI_COL_##NAME)
#define KINDS_ANY (~(kind_set)0)
#define KINDS_MUTABLE                                                                              \
    (KIND_BIT(STRUCT) | KIND_BIT(LIST) | KIND_BIT(MAP) | KIND_BIT(INSTANCE) | KIND_BIT(SLOTTED) |  \
     KIND_BIT(BARE) | KIND_BIT(REFERENCE))
#define KINDS_KEY (~(KINDS_MUTABLE | KIND_BIT(PENDING)))
/* A whole column of keys may be references, which are complete when they are made. */
#define KINDS_KEYS (KINDS_KEY | KIND_BIT(REFERENCE))
#define KINDS_ENTRY (KINDS_KEY & ~KIND_BIT(DICTIONARY))
#define KINDS_NAME (KIND_BIT(STR) | KIND_BIT(STR_KINDS) | KIND_BIT(AFFIX))
#define KINDS_AFFIXED (KIND_BIT(STR) | KIND_BIT(STR_KINDS) | KIND_BIT(INT) | KIND_BIT(PROGRESSION))

/* A column whose head has been read. */
typedef struct column {
    size_t n;
    int width;
    int depth; /* 1: a column of the target */
    torshi_kind kind;
    kind_set below; /* what may stand in it: nothing mutable or pending below a key */
    PyObject **out; /* room for n */
} column;

/* Read a column of n values into `out`. 0 or -1. */
int read_column_into(decoder *d, size_t n, int depth, kind_set allowed, PyObject **out);
/* The same into an array made in the arena once the head allows n; NULL on failure. */
PyObject **read_column(decoder *d, size_t n, int depth, kind_set allowed);
/* `count` columns of c->n values, one level below c; the array and the columns are in the arena.
   NULL on failure. */
PyObject ***read_columns(decoder *d, const column *c, size_t count, kind_set allowed);
/* The body of a DICTIONARY, not spread over the rows: *count entries, owned by the caller, and c->n
   indexes below that; both in the arena. NULL on failure. */
PyObject **read_dictionary(decoder *d, const column *c, size_t *count, uint32_t **indexes);
/* A head alone, for columns whose body another kind reads. */
bool read_head(decoder *d, size_t n, int depth, kind_set allowed, column *c);

/* Drop n references (NULLs are skipped); may run finalisers. */
void release_refs(PyObject **refs, size_t n);
/* The rows from `from` on of `count` columns. */
void release_columns(PyObject ***columns, size_t count, size_t from, size_t n);
/* n more references to value (borrowed). */
void fill_refs(PyObject **out, size_t n, PyObject *value);

/* Reserve n places on the roll; *at is the first. 0 or -1. */
int roll_reserve(decoder *d, size_t n, size_t *at);
/* Put rows (borrowed) into reserved places. */
void roll_set(decoder *d, size_t at, PyObject *const *rows, size_t n);

/* Around anything that may run user code: the collector is at work meanwhile. */
void wake_collector(decoder *d);
void rest_collector(decoder *d);
/* The same around hashing what columns have made. */
static inline void hashing_begins(decoder *d)
{
    if (d->has_foreign) {
        wake_collector(d);
    }
}
static inline void hashing_ends(decoder *d)
{
    if (d->has_foreign) {
        rest_collector(d);
    }
}

/* Whether making instances of cls runs no user code, so that the collector may go on resting. */
bool is_quiet_class(PyObject *cls, PyObject *const *names, size_t fields, int slots);

/* One function a kind: decode_NAME. */
#define COLUMN(NAME, CODE, WIDTHS, MUTABLE, DOC) int decode_##NAME(decoder *d, const column *c);
#include "wire/columns.def"

#endif
