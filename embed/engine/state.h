/*
 * state.h - what one interpreter's engine holds, and the process-wide configuration.
 *
 * A torshi_state belongs to the `_torshi` module object of one interpreter; `_pickle` (in the
 * host) shares it and keeps `_torshi` alive. Nothing of it is global.
 */
#ifndef TORSHI_ENGINE_STATE_H
#define TORSHI_ENGINE_STATE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "torshi/abi.h"

#define TORSHI_VERSION "0.1.0"

/* PyType_Slot and PyModuleDef_Slot hold functions as void *, which ISO C has no cast for. */
#define TORSHI_FN(f) (__extension__(void *)(f))
#define TORSHI_HIDDEN __attribute__((visibility("hidden")))
#define TORSHI_NOINLINE __attribute__((noinline))
#define TORSHI_LIKELY(x) __builtin_expect(!!(x), 1)
#define TORSHI_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- process-wide configuration (plain C, no objects) --------------------------------------- */
#define TORSHI_MODE_OFF 0      /* stock _pickle stays in its place */
#define TORSHI_MODE_STANDARD 1 /* our engine, rows not used: the bytes of _pickle */
#define TORSHI_MODE_CHUNKED 2  /* our engine with the plugins' rows */

typedef struct torshi_config {
    int mode;
    int in_host;                /* 1: `_torshi` is a built-in module of a host */
    int internals;              /* 0: public API only */
    const char *const *plugins; /* further plugins, absolute paths; a leading '?' marks optional */
    size_t plugin_count;
    const char *default_plugin; /* absolute path of chunked.so, or NULL: beside _torshi's file */
} torshi_config;

/* Set before Py_Initialize by the host; copied by value, the strings must outlive the process's
   use of Python. The extension has its own default (chunked, internals from TORSHI_INTERNALS). */
TORSHI_HIDDEN void torshi_config_set(const torshi_config *config);
TORSHI_HIDDEN const torshi_config *torshi_config_get(void);

/* ---- the state of one interpreter ------------------------------------------------------------ */
typedef struct torshi_registry torshi_registry; /* registry.h */
typedef struct torshi_savers torshi_savers;     /* save.h: what pickling keeps per interpreter */
typedef struct torshi_loaders torshi_loaders;   /* load.h: likewise for unpickling */

typedef struct torshi_state {
    /* exception classes; the engine's own in the host, stock _pickle's in the extension */
    PyObject *PickleError; /* owned, as all below */
    PyObject *PicklingError;
    PyObject *UnpicklingError;

    /* copyreg */
    PyObject *dispatch_table;     /* {type: reducer} */
    PyObject *extension_registry; /* {(module, name): code} */
    PyObject *inverted_registry;  /* {code: (module, name)} */
    PyObject *extension_cache;    /* {code: object} */

    /* _compat_pickle */
    PyObject *name_mapping_2to3;
    PyObject *import_mapping_2to3;
    PyObject *name_mapping_3to2;
    PyObject *import_mapping_3to2;

    PyObject *codecs_encode;     /* codecs.encode */
    PyObject *builtins_getattr;  /* getattr */
    PyObject *functools_partial; /* functools.partial */

    /* interned names */
    PyObject *str_reduce;           /* __reduce__ */
    PyObject *str_reduce_ex;        /* __reduce_ex__ */
    PyObject *str_getstate;         /* __getstate__ */
    PyObject *str_setstate;         /* __setstate__ */
    PyObject *str_dict;             /* __dict__ */
    PyObject *str_class;            /* __class__ */
    PyObject *str_name;             /* __name__ */
    PyObject *str_qualname;         /* __qualname__ */
    PyObject *str_module;           /* __module__ */
    PyObject *str_main;             /* __main__ */
    PyObject *str_new;              /* __new__ */
    PyObject *str_newobj;           /* __newobj__ */
    PyObject *str_newobj_ex;        /* __newobj_ex__ */
    PyObject *str_getnewargs;       /* __getnewargs__ */
    PyObject *str_getnewargs_ex;    /* __getnewargs_ex__ */
    PyObject *str_getinitargs;      /* __getinitargs__ */
    PyObject *str_getattribute;     /* __getattribute__ */
    PyObject *str_append;           /* append */
    PyObject *str_extend;           /* extend */
    PyObject *str_add;              /* add */
    PyObject *str_update;           /* update */
    PyObject *str_items;            /* items */
    PyObject *str_write;            /* write */
    PyObject *str_read;             /* read */
    PyObject *str_readline;         /* readline */
    PyObject *str_readinto;         /* readinto */
    PyObject *str_peek;             /* peek */
    PyObject *str_persistent_id;    /* persistent_id */
    PyObject *str_persistent_load;  /* persistent_load */
    PyObject *str_find_class;       /* find_class */
    PyObject *str_reducer_override; /* reducer_override */
    PyObject *str_dispatch_table;   /* dispatch_table */

    torshi_registry *registry; /* owned */
    torshi_savers *savers;     /* owned */
    torshi_loaders *loaders;   /* owned */

    int internals; /* 1: internals.c passed its checks and is switched on */
} torshi_state;

/* Fill st (zeroed by the caller): names, copyreg, compat tables, exceptions (made here when
   `own_exceptions`, else imported from `_pickle`), then registry_new, savers_new, loaders_new.
   0 or -1 with an exception; what was filled is released by state_clear. */
TORSHI_HIDDEN int state_init(torshi_state *st, int own_exceptions);
TORSHI_HIDDEN int state_traverse(torshi_state *st, visitproc visit, void *arg);
TORSHI_HIDDEN void
state_clear(torshi_state *st); /* idempotent: drops objects, for tp_clear and free */

/* The state behind a type made by `_torshi` or `_pickle`, or by a subclass of one; borrowed.
   NULL with TypeError when there is none. */
TORSHI_HIDDEN torshi_state *state_of_type(PyTypeObject *type);
/* The state behind a `_torshi` or `_pickle` module object; borrowed, never NULL. */
TORSHI_HIDDEN torshi_state *state_of_module(PyObject *module);

/* ---- what the parts give to module.c ----------------------------------------------------------
 */
#define TORSHI_FLAVOUR_PICKLE 0 /* module `_pickle`: pickle's signatures exactly */
#define TORSHI_FLAVOUR_TORSHI 1 /* module `_torshi`: the same plus reducers= */

/* Reducers of one pickler: whether table rows are asked. */
#define TORSHI_REDUCERS_STANDARD 0
#define TORSHI_REDUCERS_CHUNKED 1
/* What a call without reducers= gets: CHUNKED in the extension and in a chunked host. */
TORSHI_HIDDEN int torshi_default_reducers(void);
/* None, "chunked" or "standard" -> TORSHI_REDUCERS_*; -1 with ValueError/TypeError. */
TORSHI_HIDDEN int torshi_parse_reducers(PyObject *value);

/* Add Pickler (pickler.c) or Unpickler (unpickler.c) types to a module of either flavour and
   the memo proxy types; called from the module's exec slot. 0 or -1. */
TORSHI_HIDDEN int pickler_add_types(torshi_state *st, PyObject *module, int flavour);
TORSHI_HIDDEN int unpickler_add_types(torshi_state *st, PyObject *module, int flavour);
/* METH_FASTCALL|METH_KEYWORDS tables of both flavours: dump, dumps / load, loads; ended by a NULL
   name. module.c puts them together. */
extern TORSHI_HIDDEN PyMethodDef pickler_functions_pickle[];
extern TORSHI_HIDDEN PyMethodDef pickler_functions_torshi[];
extern TORSHI_HIDDEN PyMethodDef unpickler_functions[]; /* the same in both */

/* Set the members of the vtable that concern a dump (option .. registered_reducer) or a load
   (load_once) at work; services.c does the others. */
TORSHI_HIDDEN void pickler_fill_services(torshi_services *services);
TORSHI_HIDDEN void unpickler_fill_services(torshi_services *services);

TORSHI_HIDDEN torshi_savers *savers_new(torshi_state *st);
TORSHI_HIDDEN int savers_traverse(torshi_savers *s, visitproc visit, void *arg);
TORSHI_HIDDEN void savers_clear(torshi_savers *s); /* drops objects; idempotent */
TORSHI_HIDDEN void savers_free(torshi_savers *s);
TORSHI_HIDDEN torshi_loaders *loaders_new(torshi_state *st);
TORSHI_HIDDEN int loaders_traverse(torshi_loaders *s, visitproc visit, void *arg);
TORSHI_HIDDEN void loaders_clear(torshi_loaders *s);
TORSHI_HIDDEN void loaders_free(torshi_loaders *s);

PyMODINIT_FUNC PyInit__torshi(void);
/* A static libpython (Debian's) has a PyInit__pickle of its own in the same program. */
#define PyInit__pickle torshi_init__pickle
PyMODINIT_FUNC PyInit__pickle(void); /* host only */

/* Whether a str is this ASCII text. PyUnicode_CompareWithASCIIString costs a call and two lengths,
   which the keywords of a call on a tiny value feel. */
static inline int str_is(PyObject *str, const char *text, size_t n)
{
    if (TORSHI_LIKELY(PyUnicode_IS_COMPACT_ASCII(str))) {
        return (size_t)PyUnicode_GET_LENGTH(str) == n &&
               memcmp(PyUnicode_1BYTE_DATA(str), text, n) == 0;
    }
    return PyUnicode_CompareWithASCIIString(str, text) == 0;
}

#endif
