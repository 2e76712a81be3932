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

#include "torshi/abi.h"
#include "wire/wire.h"

/* abi.h functions become void * in tables, which ISO C has no cast for. */
#define PLUGIN_LIKELY(x) __builtin_expect(!!(x), 1)
#define PLUGIN_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PLUGIN_NOINLINE __attribute__((noinline))

typedef struct chunk_writer chunk_writer; /* encode.h: scratch of the writing half */
typedef struct chunk_reader chunk_reader; /* decode.c: scratch of the reading half, if any */

typedef struct plugin_state {
    const torshi_services *services; /* the engine's, valid until fini */
    const torshi_objects *objects;   /* services->objects */
    chunk_writer *writer;            /* owned; made at first use */
    chunk_reader *reader;            /* owned by the reading half; NULL until it wants one */
} plugin_state;

/* ---- the reading half (chunk.c, decode*.c) --------------------------------------------------- */
/* torshi.chunk as Python calls it, and as REDUCE does: `plugin` is a plugin_state. New reference
   or NULL. */
PyObject *chunk_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames);
PyObject *chunk_load(void *plugin, torshi_load *load, PyObject *const *args, intptr_t nargs);
/* Free state->reader (NULL is fine); the GIL is held. */
void reader_free(plugin_state *state);
/* Visit the objects it holds, as tp_traverse does. */
int reader_traverse(plugin_state *state, visitproc visit, void *arg);

/* ---- the writing half ------------------------------------------------------------------------- */
/* Saver rows of builtins.dict and builtins.list. */
int save_dict(void *plugin, torshi_dump *dump, PyObject *obj);
int save_list(void *plugin, torshi_dump *dump, PyObject *obj);
void writer_free(plugin_state *state);
int writer_traverse(plugin_state *state, visitproc visit, void *arg);

#endif
