/*
 * save.h - the pickler at work: its state, its work stack, and what its files share.
 *
 * One dump is a loop over a stack of tasks on the heap (save.c), so that the depth of what is
 * pickled is bounded by memory alone. save_object() either writes an object at once, or pushes a
 * task that will; the loop always goes on with the topmost task.
 *
 * Return values throughout: SAVE_DONE (written), SAVE_PUSHED (a task on top of the stack will do
 * it; the caller keeps its own place in its task and returns to the loop), SAVE_ERROR.
 */
#ifndef TORSHI_ENGINE_SAVE_H
#define TORSHI_ENGINE_SAVE_H

#include "state.h"

#include "memo.h"
#include "opcodes.h"
#include "registry.h"

#define SAVE_DONE 0
#define SAVE_PUSHED 1
#define SAVE_ERROR (-1)

#define BATCH_SIZE 1000    /* items between a MARK and its APPENDS, SETITEMS or ADDITEMS */
#define FRAME_TARGET 65536 /* a frame is closed at the first opcode beyond */
#define FRAME_MINIMUM 4    /* a shorter one is written without its header */
#define FRAME_HEADER 9
#define OUT_SLACK 64          /* room that is there whenever save begins */
#define FAST_NESTING_LIMIT 50 /* Pickler.fast: containers nested deeper are checked for cycles */
#define REDUCTIONS_LIMIT 100  /* times the recursion limit: reductions unfinished at once */

enum task_kind {
    TASK_SAVE,       /* save obj, hooks included */
    TASK_VALUE,      /* save obj; frame boundary and persistent_id are behind it */
    TASK_HOLD,       /* keep obj alive until what lies above is done */
    TASK_WRITE,      /* write u.write */
    TASK_PERSID,     /* write BINPERSID; obj: whose id it is */
    TASK_LIST,       /* obj: exact list; pos, n in this batch */
    TASK_TUPLE,      /* obj: exact tuple; pos */
    TASK_DICT,       /* obj: exact dict; pos, size, n; extra: value of the key being saved */
    TASK_SET,        /* obj: exact set; pos, size, n */
    TASK_FROZENSET,  /* obj: exact frozenset; pos */
    TASK_ITEMS,      /* extra: iterator of list items; pending: one fetched ahead; n */
    TASK_PAIRS,      /* extra: iterator of pairs; pending: pair fetched ahead or in work; n */
    TASK_LEAVE_FAST, /* obj: container whose nesting ends (Pickler.fast) */
    TASK_REDUCE,     /* obj or NULL; extra: the tuple a reducer returned */
    TASK_INSTANCE,   /* obj: default instance; save_instance.c */
    TASK_GLOBAL,     /* obj: what is pickled by name; extra: the name; pending: the module's */
    TASK_CALL,       /* step of a plugin */
};

typedef struct torshi_task {
    uint32_t kind;
    uint32_t step;   /* where to go on, as the kind counts */
    PyObject *obj;   /* owned, may be NULL */
    PyObject *extra; /* owned, may be NULL */
    union torshi_task_data {
        struct {
            Py_ssize_t pos;
            Py_ssize_t size;
            Py_ssize_t n;
        } walk;
        struct {
            PyObject *pending; /* owned, may be NULL */
            Py_ssize_t n;
        } batch;
        struct {
            unsigned char bytes[8];
            size_t n;
        } write;
        struct {
            torshi_step_fn step;
            void *plugin;
            void *arg;
            torshi_free_fn free_arg;
        } call;
    } u;
} torshi_task;

/* Flags in torshi_task.step of containers. */
#define WALK_SINGLE 1u     /* list, dict: one item, no MARK */
#define WALK_VALUE_DUE 2u  /* dict: the key is written, `extra` is next */
#define WALK_SHARED 4u     /* tuple, frozenset: may be walked again, so all it holds gets a slot */
#define WALK_TEMPORARY 16u /* tuple: a reducer's, which only the engine holds */
#define WALK_ATTRS 8u      /* dict: that of the instance obj, which need not have been made */

enum row_kind {
    ROW_DICT,
    ROW_LIST,
    ROW_TUPLE,
    ROW_SET,
    ROW_FROZENSET,
    ROW_BYTEARRAY,
    ROW_PICKLEBUFFER,
    ROW_KINDS
};

struct torshi_dump {
    /* output: out's bytes up to p are written; end is the end of out */
    unsigned char *p;
    unsigned char *soft; /* save() takes the slow way in at or beyond; NULL: always */
    unsigned char *end;
    PyObject *out;       /* owned bytes, never shown; NULL before out_begin */
    Py_ssize_t skipped;  /* bytes at its start that are not part of the stream */
    Py_ssize_t expected; /* what the next result is likely to take; 0: little */
    Py_ssize_t frame;    /* offset of the open frame's header; -1: none is open */
    int framing;
    int frames;  /* frames closed, and payloads written outside of frames, in this dump */
    int chunked; /* a table row wrote something in this dump */

    int proto;
    int bin;    /* Pickler.bin */
    int fast;   /* Pickler.fast */
    int modern; /* protocol 4 and up, bin and not fast: what nearly every dump is */
    int fix_imports;
    int use_rows; /* the registration table is asked */
    int running;
    int collector_paused; /* it is to be resumed when user code runs */

    torshi_state *st; /* borrowed; kept by the type or module of whoever dumps */
    torshi_memo memo;

    torshi_task *tasks;
    size_t top, size; /* in use; allocated */

    PyObject *write;            /* owned, as all below; NULL: dumps */
    PyObject *persistent_id;    /* NULL: none */
    PyObject *reducer_override; /* NULL: none */
    PyObject *dispatch_table;   /* NULL: copyreg's */
    PyObject *buffer_callback;  /* NULL: none */

    const saver_entry *rows[ROW_KINDS]; /* of the built-in containers, in registry `rows_version` */
    Py_ssize_t row_min[ROW_KINDS];      /* with fewer items no row of the chain is asked */
    uint64_t rows_version;
    void *plugin; /* state of the plugin whose function runs */

    size_t unfinished; /* reductions on the stack */
    int fast_nesting;
    PyObject *fast_seen; /* owned dict {address: None}, made at need */
};

/* What is known about pickling objects of one type; save_types.c. */
enum type_kind {
    TYPE_GENERIC,  /* ask its reducer */
    TYPE_REDUCE,   /* object's own __reduce_ex__, which would call __reduce__ */
    TYPE_GETSTATE, /* object's own __reduce_ex__, which would call __getstate__ */
    TYPE_DEFAULT,  /* object's own __reduce_ex__, state from __dict__ and slots */
};

typedef struct type_slot {
    PyObject *name;    /* owned */
    Py_ssize_t offset; /* of the value in an instance */
} type_slot;

typedef struct type_info {
    PyTypeObject *type;    /* borrowed: compared, together with tag, before it is believed */
    unsigned int tag;      /* the type's version; 0: it has none, so nothing outlives the epoch */
    enum type_kind nature; /* what the type itself says */
    enum type_kind kind;   /* and with copyreg.dispatch_table */
    uint64_t epoch;        /* in which all this was last found valid */
    uint64_t rows_version;
    const saver_entry *row;
    int has_dict;
    Py_ssize_t slot_count;
    type_slot *slots; /* owned */
} type_info;

#define TYPE_CACHE_SIZE 256 /* power of two */

struct torshi_savers {
    torshi_state *st;
    int default_reducers;       /* of a call that does not say */
    uint64_t epoch;             /* grows whenever user code may have run */
    torshi_dump *idle;          /* owned: what the next dumps() uses */
    PyObject *proxy_types[2];   /* owned: PicklerMemoProxy by flavour */
    PyObject *pickler_types[2]; /* owned: Pickler by flavour */
    PyObject *object_reduce_ex, *object_reduce, *object_getstate, *object_class; /* owned */
    PyObject *newobj; /* owned: copyreg.__newobj__ */
    PyObject *str_slotnames, *str_slots, *str_latin1, *str_import;
    type_info cache[TYPE_CACHE_SIZE];
};

/* ---- save.c ---------------------------------------------------------------------------------- */
/* Write a whole pickle of obj into d->out, through d->write in pieces if it is set. The options of
   d are set; afterwards out_take or out_flush has the rest. 0 or -1; d can be used again. */
TORSHI_HIDDEN int dump_object(torshi_dump *d, PyObject *obj);
/* Save obj (borrowed; alive until code that is not the engine's runs): SAVE_*. `solo`:
   d->memo.solo, or -1 where an object may be met again though its reference count is 1. */
TORSHI_HIDDEN int save_object(torshi_dump *d, PyObject *obj, Py_ssize_t solo);
/* The same behind the frame boundary and persistent_id. */
TORSHI_HIDDEN int save_value(torshi_dump *d, PyObject *obj, Py_ssize_t solo);
/* Push a task; steals obj and extra, also on failure. Borrowed, valid until the next push; NULL
   with MemoryError. */
TORSHI_HIDDEN torshi_task *push_task(torshi_dump *d, enum task_kind kind, PyObject *obj,
                                     PyObject *extra);
/* Remove the topmost task, releasing what it owns. */
TORSHI_HIDDEN void pop_task(torshi_dump *d);
TORSHI_HIDDEN void pop_tasks(torshi_dump *d, size_t top);
/* Let the tasks from `base` on run in the order in which they were pushed. */
TORSHI_HIDDEN void reverse_tasks(torshi_dump *d, size_t base);
/* What persistent_id returned (stolen, not None) for obj: SAVE_*. */
TORSHI_HIDDEN int save_persistent(torshi_dump *d, PyObject *obj, PyObject *pid);

/* Before code runs that is not the engine's: 0, or -1 with MemoryError. */
TORSHI_HIDDEN int leave_engine(torshi_dump *d);

/* ---- framing.c ------------------------------------------------------------------------------- */
/* A buffer that holds PROTO and, from protocol 4 on, an open frame. 0 or -1. */
TORSHI_HIDDEN int out_begin(torshi_dump *d);
/* Make room for n bytes and OUT_SLACK more. 0 or -1. */
TORSHI_HIDDEN int out_grow(torshi_dump *d, size_t n);
TORSHI_HIDDEN int out_write(torshi_dump *d, const void *bytes, size_t n);
/* Open a frame; the room for its header is left free. 0 or -1. */
TORSHI_HIDDEN int out_open_frame(torshi_dump *d);
TORSHI_HIDDEN void out_close_frame(torshi_dump *d);
/* Close the last frame: a lone one that holds a chunk stays without its header. */
TORSHI_HIDDEN void out_close_last_frame(torshi_dump *d);
/* Hand what is written to d->write and empty the buffer; runs user code. 0 or -1. */
TORSHI_HIDDEN int out_flush(torshi_dump *d);
/* header and data, outside of frames and straight to the file when data is large. payload is a
   bytes object with this data, or NULL. 0 or -1. */
TORSHI_HIDDEN int out_payload(torshi_dump *d, const void *header, size_t header_size,
                              const void *data, size_t n, PyObject *payload);
/* The bytes written, as a new object; the buffer is gone or empty then. NULL with an exception. */
TORSHI_HIDDEN PyObject *out_take(torshi_dump *d);
TORSHI_HIDDEN void out_set_soft(torshi_dump *d);
/* What save() does first: close a full frame, and hand it to the file (which runs user code). */
TORSHI_HIDDEN int out_boundary(torshi_dump *d);

static inline unsigned char *out_base(const torshi_dump *d)
{
    return (unsigned char *)PyBytes_AS_STRING(d->out);
}

/* Room for at least n <= OUT_SLACK bytes. */
static inline int out_room(torshi_dump *d, size_t n)
{
    return TORSHI_LIKELY((size_t)(d->end - d->p) >= n) ? 0 : out_grow(d, n);
}

static inline int out_op(torshi_dump *d, enum opcode op)
{
    if (TORSHI_UNLIKELY(d->p == d->end) && out_grow(d, 1) < 0) {
        return -1;
    }
    *d->p++ = (unsigned char)op;
    return 0;
}

/* ---- save_atoms.c ---------------------------------------------------------------------------- */
TORSHI_HIDDEN int save_long(torshi_dump *d, PyObject *obj);
TORSHI_HIDDEN int save_float_text(torshi_dump *d, PyObject *obj);
TORSHI_HIDDEN int save_bool_text(torshi_dump *d, int value);
TORSHI_HIDDEN int write_str(torshi_dump *d, PyObject *obj); /* without its memo opcode; 0 or -1 */
/* A str that is not in the memo; `alone`: its reference count is solo. 0 or -1. */
TORSHI_HIDDEN int save_str_slowly(torshi_dump *d, PyObject *obj, int alone);
TORSHI_HIDDEN int save_bytes(torshi_dump *d, PyObject *obj, Py_ssize_t solo);
/* SHORT_BINBYTES or longer (protocol 3 and up), BYTEARRAY8 (5 and up); 0 or -1. */
TORSHI_HIDDEN int write_bytes_data(torshi_dump *d, const void *data, size_t n, PyObject *payload);
TORSHI_HIDDEN int write_bytearray_data(torshi_dump *d, const void *data, size_t n,
                                       PyObject *payload);
/* Memoize obj by table and opcode (nothing when `fast`); 0 or -1. */
TORSHI_HIDDEN int memoize(torshi_dump *d, PyObject *obj);
/* Give the next number to nothing that can be met again, and write the opcode. 0 or -1. */
TORSHI_HIDDEN int memoize_nothing(torshi_dump *d);
TORSHI_HIDDEN int write_memo_op(torshi_dump *d, Py_ssize_t number); /* MEMOIZE, or a PUT */
TORSHI_HIDDEN int write_get(torshi_dump *d, Py_ssize_t number);
/* Write GET, or what `met` writes, for what lies at slot: SAVE_*. */
TORSHI_HIDDEN int save_met(torshi_dump *d, PyObject *obj, uint32_t code);

/* ---- save_containers.c, save_dict.c
 * ----------------------------------------------------------------------- */
TORSHI_HIDDEN int save_list(torshi_dump *d, PyObject *obj, Py_ssize_t solo);
TORSHI_HIDDEN int save_dict(torshi_dump *d, PyObject *obj, Py_ssize_t solo);
TORSHI_HIDDEN int save_tuple(torshi_dump *d, PyObject *obj, Py_ssize_t solo);
TORSHI_HIDDEN int save_set(torshi_dump *d, PyObject *obj, Py_ssize_t solo);
TORSHI_HIDDEN int save_frozenset(torshi_dump *d, PyObject *obj, Py_ssize_t solo);
/* Go on with the topmost task, which is of this kind, until it is done and popped (SAVE_DONE), or
   other tasks lie on it (SAVE_PUSHED). */
TORSHI_HIDDEN int step_list(torshi_dump *d);
TORSHI_HIDDEN int step_tuple(torshi_dump *d);
TORSHI_HIDDEN int step_dict(torshi_dump *d);
TORSHI_HIDDEN int step_set(torshi_dump *d);
TORSHI_HIDDEN int step_frozenset(torshi_dump *d);
/* What lists and dicts have in common: the empty container, its number, and, under Pickler.fast, a
   guard against cycles. `empty`: it has no items. 0 or -1. */
TORSHI_HIDDEN int begin_container(torshi_dump *d, PyObject *obj, Py_ssize_t solo,
                                  enum opcode binary, enum opcode text, int empty);
/* Pickler.fast: note that a container is entered / left. 0 or -1. */
TORSHI_HIDDEN int fast_enter(torshi_dump *d, PyObject *obj);
TORSHI_HIDDEN int fast_leave(torshi_dump *d, PyObject *obj);

/* ---- save_batches.c: what iterators give, in batches ----------------------------------------- */
TORSHI_HIDDEN int step_items(torshi_dump *d);
TORSHI_HIDDEN int step_pairs(torshi_dump *d);

/* ---- save_buffers.c -------------------------------------------------------------------------- */
TORSHI_HIDDEN int save_bytearray(torshi_dump *d, PyObject *obj);
TORSHI_HIDDEN int save_picklebuffer(torshi_dump *d, PyObject *obj);

/* ---- save_reduce.c --------------------------------------------------------------------------- */
/* What a reducer would return (a tuple; stolen) for obj (borrowed, or NULL: not memoized); the
   engine made it, so it does not count as a reduction. SAVE_PUSHED or SAVE_ERROR. */
TORSHI_HIDDEN int save_reduce(torshi_dump *d, PyObject *value, PyObject *obj);
/* The same for what a reducer did return (`counted`). */
TORSHI_HIDDEN int begin_reduce(torshi_dump *d, PyObject *value, PyObject *obj, int counted);
TORSHI_HIDDEN int step_reduce(torshi_dump *d);
/* Count the topmost task as a reduction of obj: 0, or -1 with RecursionError. */
TORSHI_HIDDEN int count_reduction(torshi_dump *d, PyObject *obj);

/* ---- save_other.c ---------------------------------------------------------------------------- */
/* Anything that is no atom and no built-in container: SAVE_*. */
TORSHI_HIDDEN int save_other(torshi_dump *d, PyObject *obj, Py_ssize_t solo);
/* The function registered for a type in the dump's dispatch table or copyreg's: 1 and a new
   reference, 0 none (*function NULL), -1 exception. */
TORSHI_HIDDEN int find_registered(torshi_dump *d, PyObject *type, PyObject **function);
/* As getattr(obj, name, NULL): 1 and a new reference, 0 absent (*value NULL), -1 exception. */
TORSHI_HIDDEN int lookup_attr(PyObject *obj, PyObject *name, PyObject **value);
/* Ask the table row `entry` and those it replaced: SAVE_*, or SAVE_DECLINED. */
#define SAVE_DECLINED 2
TORSHI_HIDDEN int save_by_row(torshi_dump *d, const saver_entry *entry, PyObject *obj,
                              Py_ssize_t items);

/* ---- save_global.c --------------------------------------------------------------------------- */
/* Pickle obj by name (`name` borrowed, or NULL: its own): SAVE_*. */
TORSHI_HIDDEN int save_global(torshi_dump *d, PyObject *obj, PyObject *name);
TORSHI_HIDDEN int step_global(torshi_dump *d);
/* type(None) and its like, or any other exact `type`. */
TORSHI_HIDDEN int save_type(torshi_dump *d, PyObject *obj);
/* The same without running user code: SAVE_DONE, SAVE_ERROR, or SAVE_DECLINED (nothing written). */
TORSHI_HIDDEN int save_global_quietly(torshi_dump *d, PyObject *obj);
TORSHI_HIDDEN int write_extension(torshi_dump *d, long code); /* EXT1, EXT2 or EXT4 */

/* ---- save_instance.c, save_types.c ----------------------------------------------------------- */
/* An object on the default path: SAVE_*, or SAVE_DECLINED (nothing written). */
TORSHI_HIDDEN int save_instance(torshi_dump *d, PyObject *obj, type_info *info, Py_ssize_t solo);
/* save_object(), for the state of an object on the default path. Up to 30 attributes an instance
   may have without a __dict__, which nobody can see: so that the same objects give the same bytes,
   a __dict__ of so many is not offered to the registration table. */
TORSHI_HIDDEN int save_attribute_dict(torshi_dump *d, PyObject *obj, PyObject *dict,
                                      Py_ssize_t solo);
/* save_object(), the dict not being offered to the registration table: that of slots never is. */
TORSHI_HIDDEN int save_without_rows(torshi_dump *d, PyObject *dict, Py_ssize_t solo);
TORSHI_HIDDEN int step_instance(torshi_dump *d);
/* 1: obj of a TYPE_DEFAULT type has nothing of its own that changes how it pickles, 0: it has;
   -1: MemoryError. */
TORSHI_HIDDEN int instance_is_plain(torshi_dump *d, PyObject *obj, const type_info *info);
/* What is known about the type, checked in this epoch; never NULL, valid until the next call.
   Runs no user code. */
TORSHI_HIDDEN type_info *type_info_of(torshi_savers *s, PyTypeObject *type);
TORSHI_HIDDEN void types_clear(torshi_savers *s);

/* ---- savers.c, pickler.c, memo_proxy.c ------------------------------------------------------ */
/* Zeroed d -> usable; 0 or -1. dump_close drops options and memo, dump_free everything. */
TORSHI_HIDDEN int dump_init(torshi_dump *d, torshi_state *st);
TORSHI_HIDDEN void dump_close(torshi_dump *d);
TORSHI_HIDDEN void dump_free(torshi_dump *d);
/* Set proto (None or NULL: the default), bin and fix_imports; then buffer_callback (None or NULL:
   none). 0 or -1. */
TORSHI_HIDDEN int dump_set_protocol(torshi_dump *d, PyObject *protocol, int fix_imports);
/* After a change of proto, bin or fast. */
static inline void dump_set_modern(torshi_dump *d)
{
    d->modern = d->proto >= 4 && d->bin && !d->fast;
}
TORSHI_HIDDEN int dump_set_callback(torshi_dump *d, PyObject *buffer_callback);
TORSHI_HIDDEN int dump_set_file(torshi_dump *d, PyObject *file);
/* An initialised dump for one call of dump or dumps, and back. NULL with MemoryError. */
TORSHI_HIDDEN torshi_dump *dump_acquire(torshi_state *st);
TORSHI_HIDDEN void dump_release(torshi_dump *d);

typedef struct pickler_object {
    PyObject_HEAD
    torshi_dump d;
    PyObject *dispatch_table;     /* owned, NULL: copyreg's */
    PyObject *persistent_id_attr; /* owned: set on this object, or NULL */
    int reducers;
    int flavour;
} pickler_object;

TORSHI_HIDDEN int memo_proxy_add_type(torshi_state *st, PyObject *module, int flavour);
TORSHI_HIDDEN PyObject *memo_proxy_new(torshi_state *st, pickler_object *pickler);
TORSHI_HIDDEN int pickler_set_memo(pickler_object *self, PyObject *value);
/* 0, or -1 with RuntimeError when the pickler is at work. */
TORSHI_HIDDEN int pickler_check_idle(pickler_object *self);

#endif
