/*
 * torshi/abi.h - the contract between the engine and its plugins.
 *
 * This is the only header of Torshi's that a plugin needs. It includes libc headers alone and
 * declares PyObject opaque, so it compiles as C11 and as C++17 with or without Python.h before or
 * after it. A plugin is a shared library that exports one function, torshi_plugin_info_v1.
 *
 * Rules that hold for every function below:
 *  - the GIL is held; the interpreter is the one `init` was called for;
 *  - a return value of TORSHI_ERROR (-1) or NULL means that a Python exception is set;
 *  - "new", "borrowed" and "steals" have CPython's meaning;
 *  - fields are only ever added at the end of a struct; `size` tells how much is there.
 */
#ifndef TORSHI_ABI_H
#define TORSHI_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct _object PyObject; /* as Python.h declares it */

#define TORSHI_ABI_MAJOR 1u      /* must be equal in plugin and engine */
#define TORSHI_ABI_MINOR 0u      /* the plugin's may not be above the engine's */
#define TORSHI_FORMAT_VERSION 1u /* payload layout, docs/format.md */

/* Bits of torshi_plugin_info.py_build. */
#define TORSHI_BUILD_DEBUG 1u /* Py_DEBUG */
#define TORSHI_BUILD_NOGIL 2u /* Py_GIL_DISABLED */

/* Results of a save function. */
#define TORSHI_OK 0 /* written, or scheduled */
#define TORSHI_DECLINE                                                                             \
    1                     /* nothing written, nothing scheduled: the row before this one is asked  \
                           */
#define TORSHI_ERROR (-1) /* a Python exception is set */

typedef struct torshi_dump torshi_dump;         /* one pickler at work; opaque */
typedef struct torshi_load torshi_load;         /* one unpickler at work; opaque */
typedef struct torshi_services torshi_services; /* what the engine does for plugins */

/* ---- functions of a plugin ----------------------------------------------------------------- */

/*
 * Save `obj` (borrowed, kept alive by the engine until all that the call scheduled has run).
 * Must not recurse into obj's children: it writes, and schedules children and what follows them.
 * Must call services->leave before it runs any code but its own.
 * Return TORSHI_OK, TORSHI_DECLINE or TORSHI_ERROR.
 */
typedef int (*torshi_save_fn)(void *plugin, torshi_dump *dump, PyObject *obj);

/*
 * Stand for a call of the row's callable with `nargs` positional arguments (borrowed).
 * `load` is the unpickler at work, or NULL when Python code calls the function itself.
 * Return a new reference, or NULL with an exception.
 */
typedef PyObject *(*torshi_load_fn)(void *plugin, torshi_load *load, PyObject *const *args,
                                    intptr_t nargs);

/*
 * A function reachable from Python: `nargs` positional arguments, then the values of the keyword
 * arguments whose names are the tuple `kwnames` (NULL: none), all borrowed, as METH_FASTCALL has
 * it. Return a new reference, or NULL with an exception.
 */
typedef PyObject *(*torshi_call_fn)(void *plugin, PyObject *const *args, intptr_t nargs,
                                    PyObject *kwnames);

/* A step scheduled by a save function; may write and schedule like one. TORSHI_OK or _ERROR. */
typedef int (*torshi_step_fn)(void *plugin, torshi_dump *dump, void *arg);

/*
 * An object that was entered with services->roll has been met by save(): write what puts it on the
 * stack, and schedule what is pending in it. `arg` and `index` are what `roll` was given.
 */
typedef int (*torshi_met_fn)(void *plugin, torshi_dump *dump, PyObject *obj, void *arg,
                             uint32_t index);

/* Free `arg`; runs when the memo it belongs to is cleared or freed. */
typedef void (*torshi_free_fn)(void *arg);

/* ---- rows ---------------------------------------------------------------------------------- */

#define TORSHI_ROW_SAVER 10u     /* type -> save function */
#define TORSHI_ROW_LOADER 20u    /* callable -> native function that stands for it */
#define TORSHI_ROW_FUNCTION 30u  /* name -> native function, as an attribute of a module */
#define TORSHI_ROW_REFERENCE 40u /* reference class -> how it is taken apart and made in bulk */

/* Flags of a saver row. */
#define TORSHI_SAVER_VALUE_LIKE 1u /* identity does not matter: equal objects may become one */

/*
 * What a reference row brings: the same as torshi.register_ref(cls, reduce=, batch=) from Python,
 * with the same contract (docs/references.md). Either function may be NULL.
 */
typedef struct torshi_reference {
    size_t size; /* sizeof(torshi_reference) as the plugin was compiled */
    /* args[0] is a reference of the row's class; return the new tuple (callable, arguments). Called
       once per reference, in order. NULL: the class's own reducer. */
    torshi_call_fn reduce;
    /* args[0] is the load (once, call_site, outer, worker), args[1..] a sequence of n values for
       each argument; return a new sequence of n references. NULL: the callable makes each one. */
    torshi_call_fn batch;
} torshi_reference;

typedef struct torshi_row {
    uint32_t kind;  /* TORSHI_ROW_* */
    uint32_t flags; /* TORSHI_SAVER_*, else 0 */
    /*
     * saver: the module and qualified name of the type, which need not be imported yet; matched
     *   exactly (a subclass is another type). loader: of the callable; the callable is the
     *   function row of the same plugin with these names if there is one, else it is imported.
     * reference: of the class, which is imported when the plugin is loaded, after init. The row
     *   has no effect where torshi.register_ref is not (reducers off).
     * function: the module and name under which Python sees it.
     */
    const char *module; /* never NULL */
    const char *name;   /* never NULL */
    void *type;         /* saver: the PyTypeObject itself if it is static, else NULL */
    intptr_t min_items; /* saver of dict, list, tuple, set: containers with fewer are not offered */
    torshi_save_fn save; /* saver only */
    torshi_load_fn load; /* loader only */
    torshi_call_fn call; /* function only */
    const char *doc;     /* function only; "name(args)\n--\n\ntext" as builtins have it, or NULL */
    const torshi_reference *reference; /* reference only; stays valid as the record does */
} torshi_row;

/* The record that a plugin exports. */
typedef struct torshi_plugin_info {
    size_t size; /* sizeof(torshi_plugin_info) as the plugin was compiled */
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t py_version_hex; /* PY_VERSION_HEX; major and minor must match the running Python */
    uint32_t py_build;       /* TORSHI_BUILD_* bits */
    uint32_t pointer_size;   /* sizeof(void *) */
    uint32_t format_version; /* TORSHI_FORMAT_VERSION */
    const char *name;        /* unique among the plugins loaded */
    const char *version;
    /*
     * Called once for each interpreter, before any row is used; *state is handed to every other
     * function as `plugin`. NULL: none. Return 0, or -1 with an exception set.
     */
    int (*init)(const torshi_services *services, void **state);
    /* Called when the interpreter's engine goes away; frees *state. NULL: none. */
    void (*fini)(void *state);
    /* Visit and clear the objects that `state` holds, as tp_traverse and tp_clear do; NULL: none.
       `visit` is CPython's visitproc. */
    int (*traverse)(void *state, int (*visit)(PyObject *, void *), void *arg);
    const torshi_row *rows;
    size_t row_count;
    size_t row_size; /* sizeof(torshi_row) as the plugin was compiled */
} torshi_plugin_info;

/* The one exported symbol. The record must stay valid as long as the library is loaded. */
#define TORSHI_PLUGIN_SYMBOL "torshi_plugin_info_v1"
typedef const torshi_plugin_info *(*torshi_plugin_info_fn)(void);
#if defined(__GNUC__)
#define TORSHI_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define TORSHI_PLUGIN_EXPORT
#endif

/* ---- services: a dump in progress ---------------------------------------------------------- */

/* Arguments of services->option. */
#define TORSHI_OPT_PROTOCOL 1 /* 0..5 */
#define TORSHI_OPT_ASKS_HOOKS                                                                      \
    2                     /* 1: reducer_override, or a dispatch_table that is not copyreg's:       \
                             such hooks see every object that is not a built-in container,         \
                             atom or class, so no instance is plain */
#define TORSHI_OPT_FAST 3 /* 1: Pickler.fast */
#define TORSHI_OPT_FIX_IMPORTS 4 /* 1 or 0 */
#define TORSHI_OPT_BUFFERS 5     /* 1: a buffer_callback is set */

/* Results of services->memo_find below 0. */
#define TORSHI_MEMO_ABSENT (-1)
#define TORSHI_MEMO_ROLLED (-2) /* entered with roll, not pushed yet */
#define TORSHI_MEMO_COLUMN (-3) /* an immutable value marked with mark_column, not memoized */

/* ---- services: objects in bulk -------------------------------------------------------------- */

/*
 * Where the entries of an exact dict lie. Valid until code that may change the dict runs. Entry i
 * (0 <= i < count, in insertion order): key at base + i*stride + key_offset, value at
 * values[i] if `values` is not NULL, else at base + i*stride + value_offset; skip it when its
 * value is NULL. All references are borrowed.
 */
typedef struct torshi_dict_view {
    const unsigned char *base;
    size_t stride;
    size_t key_offset;
    size_t value_offset;
    PyObject *const *values;
    intptr_t count;   /* entries to look at, deleted ones included */
    intptr_t used;    /* len(dict) */
    int unicode_keys; /* 1: every key is an exact str */
    int shared_keys;  /* 1: keys belong to a table that other dicts share (split table) */
} torshi_dict_view;

/*
 * The attribute values of an instance without making its __dict__: names[i], values[i] borrowed,
 * in the order in which __dict__ would have them.
 */
typedef struct torshi_instance_view {
    PyObject *dict; /* borrowed: the instance's __dict__ when it has a real one (then look there) */
    torshi_dict_view view; /* filled when dict is NULL */
} torshi_instance_view;

/*
 * Bulk constructors and readers. `direct` tells whether paths below the public API are in use;
 * results are the same either way. Where `out` is filled, every out[i] is a new reference; on
 * failure nothing is left in it that the caller would have to release (all n slots are NULL).
 * "steals columns" means that on success the references are moved, and on failure released, with
 * the slots set to NULL in both cases.
 */
typedef struct torshi_objects {
    size_t size;
    int direct;

    /* 1: view filled; 0: use PyDict_Next instead (no exception). dict must be an exact dict. */
    int (*dict_view)(PyObject *dict, torshi_dict_view *view);
    /* 1: filled (dict or view); 0: not available, use getattr. For instances whose type has a
       managed or ordinary __dict__ and generic attribute access; makes no __dict__. An instance
       with no attributes gives a view with count 0. */
    int (*instance_view)(PyObject *obj, torshi_instance_view *view);

    /* n ints out of little-endian values; `base` is added modulo 2**64; width_bytes 1, 2, 4, 8,
       unsigned (8: wraps, so signed values may be given with base 0). 0 or -1. */
    int (*make_ints)(const unsigned char *le, int width_bytes, int64_t base, intptr_t n,
                     PyObject **out);
    /* start, start+step, ...; the caller made sure that all fit int64. 0 or -1. */
    int (*make_progression)(int64_t start, int64_t step, intptr_t n, PyObject **out);
    /* n floats out of raw little-endian IEEE 754 doubles (any alignment), payload bits kept. */
    int (*make_floats)(const unsigned char *le, intptr_t n, PyObject **out);
    /* n exact str. kinds[i]: 0 ASCII, 1 Latin-1, 2 UCS-2, 3 UCS-4 (kinds NULL: all ASCII);
       lens[i] in characters; blob holds the characters one string after the other, little-endian,
       blob_size bytes in all (the caller made sure that they add up). Returns 0; -1 with an
       exception; 1 without one when a string's kind is not the smallest that fits, or a byte of
       an ASCII string or a character is out of range. */
    int (*make_strs)(const unsigned char *blob, size_t blob_size, const uint32_t *lens,
                     const unsigned char *kinds, intptr_t n, PyObject **out);
    /* n exact bytes. 0 or -1. */
    int (*make_bytes)(const unsigned char *blob, const uint32_t *lens, intptr_t n, PyObject **out);

    /* n new dicts with the same nkeys keys (borrowed; distinct exact str unless `direct` paths
       decline) and the values columns[f][row]; steals columns. Keys are interned by the caller
       where wanted. 0 or -1. */
    int (*make_dicts)(PyObject *const *keys, intptr_t nkeys, PyObject **const *columns, intptr_t n,
                      PyObject **out);
    /* As dict[keys[i]] = values[i] for each i in order, on an exact dict that may have entries;
       steals both arrays. `more` is a hint: how many further entries the caller expects, 0 if
       unknown (an upper bound of what is reserved is the callee's affair). May run user code
       when keys have user-defined hashes. 0 or -1. */
    int (*fill_dict)(PyObject *dict, PyObject **keys, PyObject **values, intptr_t n, intptr_t more);
    /* list.extend(values) on an exact list; steals values. 0 or -1. */
    int (*fill_list)(PyObject *list, PyObject **values, intptr_t n, intptr_t more);
    /* A new list that owns values; steals values. NULL on failure. */
    PyObject *(*make_list)(PyObject **values, intptr_t n);
    /* What NEWOBJ (cls.__new__(cls)) and BUILD with {names[f]: columns[f][row]} do, n times;
       steals columns. slots != 0: BUILD with (None, state). names are exact str, interned here.
       nfields 0 and state_missing != 0: no BUILD at all. May run user code. 0 or -1. */
    int (*make_instances)(PyObject *cls, PyObject *const *names, intptr_t nfields, int slots,
                          int state_missing, PyObject **const *columns, intptr_t n, PyObject **out);
} torshi_objects;

/*
 * The vtable; one struct for each interpreter, valid until fini. Writing functions append to the
 * stream at once. Scheduling functions append to the list of what runs when the present save
 * function, step or met function has returned, in the order of the calls, each with all that it
 * schedules itself before the next. After a function of the plugin returned TORSHI_DECLINE nothing
 * may have been written or scheduled by it.
 */
struct torshi_services {
    size_t size;
    uint32_t abi_major;
    uint32_t abi_minor;

    int (*option)(torshi_dump *dump, int which);

    /* Append opcode bytes as they are; n small (under 64 KiB). 0 or -1. */
    int (*write)(torshi_dump *dump, const void *bytes, size_t n);
    /* Append a bytes object of this content by the shortest opcode (out of frame when large);
       it is not memoized. 0 or -1. */
    int (*write_bytes)(torshi_dump *dump, const void *bytes, size_t n);
    /* Put a callable that pickles by name on the stack: GET when it is in the memo, EXT when
       copyreg.add_extension has its code, else the two names and STACK_GLOBAL; memoizes it (not
       the names). `callable` is what `module`.`name` is. 0 or -1. */
    int (*write_global)(torshi_dump *dump, PyObject *callable, const char *module,
                        const char *name);
    /* MEMOIZE (or PUT) and the entry for obj, which the memo keeps alive. An entry of the kinds
       ROLLED or COLUMN becomes an ordinary one. 0 or -1. */
    int (*memoize)(torshi_dump *dump, PyObject *obj);
    /* The memo index of obj, or TORSHI_MEMO_*. Never fails. */
    int64_t (*memo_find)(torshi_dump *dump, PyObject *obj);
    /* GET for an obj with an ordinary entry. 0 or -1. */
    int (*memo_get)(torshi_dump *dump, PyObject *obj);
    /* Note that an immutable obj was written within a payload: memo_find says COLUMN from now on.
       Keeps no reference: `obj` must be kept alive by something given to `own`. 0 or -1. */
    int (*mark_column)(torshi_dump *dump, PyObject *obj);
    /* Enter a mutable obj that a payload makes: when save() meets it, `met` is called in place of
       everything else. Keeps obj alive as long as the memo does. 0 or -1. */
    int (*roll)(torshi_dump *dump, PyObject *obj, torshi_met_fn met, void *arg, uint32_t index);
    /* Hand `arg` to the memo, which calls free_arg(arg) when it is cleared. Takes it also on
       failure. 0 or -1. */
    int (*own)(torshi_dump *dump, void *arg, torshi_free_fn free_arg);

    /* save(obj) later; the schedule keeps obj alive. 0 or -1. */
    int (*then_save)(torshi_dump *dump, PyObject *obj);
    /* write(bytes) later; n <= 8, copied. 0 or -1. */
    int (*then_write)(torshi_dump *dump, const void *bytes, size_t n);
    /* step(plugin, dump, arg) later; free_arg (may be NULL) is called when it ran or never will. */
    int (*then_call)(torshi_dump *dump, torshi_step_fn step, void *arg, torshi_free_fn free_arg);

    /* How an object of this type pickles, cached per type and checked again when the type changed:
       1: `obj` (exact type, default path: object.__reduce_ex__ with copyreg.__newobj__, state =
       __dict__ and/or slots, nothing registered, overridden or shadowed on the instance);
       0: anything else. Runs no user code. -1 on failure. */
    int (*is_default_instance)(torshi_dump *dump, PyObject *obj);
    /* The callable that an object of exactly `cls` is registered to be reduced by
       (copyreg.dispatch_table or the dump's own); new reference, or NULL without an exception. */
    PyObject *(*registered_reducer)(torshi_dump *dump, PyObject *cls);

    const torshi_objects *objects;

    /* The function row object that Python sees as `module`.`name` (borrowed; lives as long as the
       plugin's state), or NULL without an exception. Rows are there from init on. */
    PyObject *(*function_object)(const torshi_services *self, const char *module, const char *name);

    /* pickle's exception class: 0 PickleError, 1 PicklingError, 2 UnpicklingError; borrowed. */
    PyObject *(*exception)(const torshi_services *self, int which);

    /* The value kept under `key` (an address of the plugin's) for the length of this load, made by
       make(arg) at first use (NULL with an exception: not kept). Borrowed. load NULL: a cache that
       ends with the present call is not available, and make is called each time with a new
       reference returned through *temporary for the caller to release. */
    PyObject *(*load_once)(torshi_load *load, const void *key, PyObject *(*make)(void *arg),
                           void *arg, PyObject **temporary);

    /* As roll for each of n objects, objects[i] with first_index + i; for rows whose places are all
       within the chunk. One whose reference count is 1 can be met in no other way than by code
       that is not the engine's, so it is only noted until such code runs: that costs nothing.
       `objects` must stay as it is until then: for as long as `arg`, which services->own has, or as
       the items of a list that is being saved, which nothing else changes. 0 or -1. */
    int (*roll_many)(torshi_dump *dump, PyObject *const *objects, size_t n, torshi_met_fn met,
                     void *arg, uint32_t first_index);

    /*
     * Call this in a save function, a step or a met function before code runs that is neither the
     * engine's nor the plugin's: a call into Python, an attribute of a class that is not built in,
     * a hash or comparison of such an object, a reference that may be the last. Until it happens
     * the memo owns no references and knows objects that nothing else can reach by number alone;
     * on Python 3.11 the collector rests, too. Cheap; once in a dump is enough until the next save
     * function is called. 0, or -1 with MemoryError.
     */
    int (*leave)(torshi_dump *dump);

    /*
     * From begin_filling to end_filling, `dict` is in the stream with placeholders: stock pickle
     * would have left it empty until then. An instance that is saved meanwhile and whose __dict__
     * it is gets an empty state, as from stock pickle, not the placeholders. The calls nest, and
     * the dict lives until the memo is cleared. 0 or -1.
     */
    int (*begin_filling)(torshi_dump *dump, PyObject *dict);
    void (*end_filling)(torshi_dump *dump);
};

#ifdef __cplusplus
}
#endif
#endif
