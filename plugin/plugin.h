/*
 * plugin.h - what the two halves of the chunked plugin share: the writer (classify, encode, dict,
 * list, finish) and the reader (decode, chunk).
 *
 * Of Torshi's engine the plugin knows abi.h and nothing else. All state hangs on plugin_state, one
 * for each interpreter; there are no C globals that hold objects.
 */
#ifndef TORSHI_PLUGIN_H
#define TORSHI_PLUGIN_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "extract.h"
#include "torshi/abi.h"
#include "wire/wire.h"

#define PLUGIN_LIKELY(x) __builtin_expect(!!(x), 1)
#define PLUGIN_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PLUGIN_NOINLINE __attribute__((noinline))

typedef struct plugin_state {
    const torshi_services *services; /* the engine's, valid until fini */
    const torshi_objects *objects;   /* services->objects */
    struct chunk_writer *writer;     /* owned; encode.h: scratch of the writing half */
    struct decode_state *decode;     /* owned; decode.h: scratch of the reading half */
    extract_types extract;           /* default classes of extract_serialize */
    PyObject *refs;                  /* owned module; its state is refs.h's */
} plugin_state;

/* ---- the reading half (chunk.c, decode*.c) --------------------------------------------------- */
/* torshi.chunk as Python calls it, and as REDUCE does: `plugin` is a plugin_state. New reference
   or NULL. */
PyObject *chunk_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames);
PyObject *chunk_load(void *plugin, torshi_load *load, PyObject *const *args, intptr_t nargs);
int decode_init(struct plugin_state *plugin); /* 0, or -1 with an exception */
int decode_traverse(struct plugin_state *plugin, int (*visit)(PyObject *, void *), void *arg);
void decode_clear(struct plugin_state *plugin); /* idempotent */

/* ---- the writing half -------------------------------------------------------------------------
 */
/* Saver rows of builtins.dict and builtins.list. */
int save_dict(void *plugin, torshi_dump *dump, PyObject *obj);
int save_list(void *plugin, torshi_dump *dump, PyObject *obj);
/* torshi._encode(container, mode, when, margin), for reducers: reduce.c. New reference or NULL. */
PyObject *encode_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames);
int writer_init(struct plugin_state *plugin); /* 0, or -1 with an exception */
int writer_traverse(struct plugin_state *plugin, int (*visit)(PyObject *, void *), void *arg);
void writer_clear(struct plugin_state *plugin); /* idempotent */

#endif
