/*
 * finish.h - chunks on their way into the stream, and what is set in them afterwards.
 */
#ifndef TORSHI_FINISH_H
#define TORSHI_FINISH_H

#include "encode.h"

/* One thing to do in a row of a chunk: set a value, or see to a row below it. */
typedef struct chunk_step {
    uint32_t row;      /* roll index */
    uint32_t position; /* among the row's entries; steps are sorted by row and position */
    uint32_t child;    /* number in the record's rows; NO_CHILD: set a value */
    PyObject *key;     /* owned; NULL: the list index */
    Py_ssize_t index;
    PyObject *value;    /* owned; NULL for a child */
    PyObject *callable; /* owned, as args: what a reducer returned for it; or NULL */
    PyObject *args;
} chunk_step;

#define NO_CHILD UINT32_MAX

/* A row in which, or below which, something is pending. */
typedef struct chunk_row {
    PyObject *obj; /* owned */
    uint32_t roll_index;
    int build;        /* BUILD_* */
    size_t next, end; /* its steps that are still to be done */
    bool busy;        /* in the middle of being finished */
    bool done;
} chunk_row;

/* What outlives the writing of a chunk: it belongs to the memo and to the steps under way. */
typedef struct chunk_record {
    size_t refs;
    PyObject *roll;    /* owned: stands for the roll in the memo; NULL: no roll */
    chunk_step *steps; /* owned */
    size_t step_count;
    chunk_row *rows; /* owned; sorted by roll_index */
    size_t row_count;
    PyObject **rolled; /* owned array of borrowed references: objects on the roll, in order, but for
                          those that lie side by side in the target */
    PyObject **externals; /* owned */
    size_t external_count;
    PyObject **kept; /* owned: what is marked in the memo */
    size_t kept_count;
} chunk_record;

/*
 * Turn what w holds into a record: the steps of all pending cells below `target`, objects to mark.
 * New (refs 1) in *out, NULL when there is nothing to record. 0 or -1 with an exception.
 */
int record_new(chunk_writer *w, PyObject *target, int has_roll, chunk_record **out);
void record_release(void *record); /* a torshi_free_fn */
/* Schedule the steps of row 0, which is on the stack. 0 or -1. */
int record_finish_target(chunk_record *r, const torshi_services *services, torshi_dump *dump);
/* Enter the rolled objects, and hand one reference of r to the memo. 0 or -1. */
int record_enter(chunk_record *r, chunk_writer *w);

/* ---- the order of what is written ---------------------------------------------------------------
 */
/* BININT1, BININT2 or BININT. 0 or -1. */
int write_index(const torshi_services *services, torshi_dump *dump, Py_ssize_t index);
/* torshi.chunk itself (borrowed), and as opcodes. */
PyObject *chunk_callable(const torshi_services *services);

/* ---- targets (target.c) -------------------------------------------------------------------------
 */
/* Rows of a target from *position on: at most `most`; *position is behind them then. `keys` is for
   dicts. Fewer when there are no more. ENC_OK or ENC_ERROR. */
typedef int (*take_rows_fn)(chunk_writer *w, PyObject *target, Py_ssize_t *position, size_t most,
                            span *keys, span *values);

typedef struct target_form {
    bool is_dict;
    take_rows_fn take_rows;
    Py_ssize_t (*length)(PyObject *target);
} target_form;

/* The save function of both rows. */
int save_target(struct plugin_state *plugin, torshi_dump *dump, PyObject *target,
                const target_form *form);

/* ---- what pays (cost.c) -------------------------------------------------------------------------
 */
/* Whether a dict or list of n entries can be passed over without a look at its columns. */
bool too_small(const torshi_objects *objects, PyObject *target, Py_ssize_t n);
/* Whether a container of these values is worth an attempt. `large_enough`: they are all that
   too_small was asked about. */
bool worth_trying(chunk_writer *w, const span *values, bool large_enough);
/* Whether the payload in w is shorter than what it replaces. */
bool chunk_pays(chunk_writer *w, bool has_roll);

#endif
