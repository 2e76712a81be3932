/*
 * encode_ref.h - references on their way into columns.
 *
 * torshi.ObjectRef is read directly. All other registered classes have a reducer, which is Python
 * code and must not run while a chunk is scanned: the first attempt at a chunk notes the references
 * in it as pending cells; then they are reduced, in the order in which pickle would come to them;
 * then the chunk is encoded once more with what the reducers returned.
 */
#ifndef TORSHI_ENCODE_REF_H
#define TORSHI_ENCODE_REF_H

#include "finish.h"
#include "refs.h"

/* Whether the attempt at hand found references to reduce. */
bool refs_wanted(const chunk_writer *w);
/*
 * Call the reducers of all references that the attempt noted. Runs user code: nothing borrowed in
 * w is good afterwards, and the attempt has to be repeated. ENC_OK, ENC_ERROR, or ENC_DECLINE when
 * a chunk would not pay even with the references in columns; then no reducer was called.
 */
int reduce_refs(chunk_writer *w, PyObject *target);
/* Whether reducers were called: what they returned must be used, so the chunk is to be written. */
bool refs_used(const chunk_writer *w);
/* Forget what the reducers returned; may run user code. */
void refs_forget(chunk_writer *w);
/* Forget what the last attempt noted. */
void refs_reset(chunk_writer *w);

/* What a reducer returned for an object: the callable, and its arguments in *args; both borrowed,
   NULL when none was called. */
PyObject *ref_reduction(const chunk_writer *w, PyObject *obj, PyObject **args);
/* Schedule what puts such an object on the stack. 0 or -1. */
int then_save_reduced(const torshi_services *services, torshi_dump *dump, PyObject *obj,
                      PyObject *callable, PyObject *args);

/* Set t->form when its objects are references. 1 when they are; 0; -1. */
int find_ref_form(chunk_writer *w, type_entry *t);
/* The column that a reference goes to. */
value_kind classify_ref(chunk_writer *w, PyObject *obj, const type_entry *t, int level);
/* REFERENCE, or PENDING when the column is to be reduced first; as the others in encode.h. */
int encode_refs(chunk_writer *w, const span *s, const cells *c, int level, unsigned flags,
                value_kind kind);

#endif
