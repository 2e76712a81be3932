/*
 * types.h - how objects of a type are made into columns: what types.c, values.c and encode_value.c
 * share.
 */
#ifndef TORSHI_TYPES_H
#define TORSHI_TYPES_H

#include "encode.h"

/* Fill in names and offsets of t's slots. 1; 0 when a slot is out of the ordinary; -1. */
int find_slots(chunk_writer *w, type_entry *t);
/* Set t->form when objects of the type are values that a column can make. 0 or -1. */
int find_value_form(chunk_writer *w, type_entry *t);

/* What is in a slot: borrowed, or NULL. */
static inline PyObject *part_at(PyObject *obj, Py_ssize_t offset)
{
    return *(PyObject **)(void *)((char *)obj + offset);
}
/* The 16 bytes of a UUID that is_known_value() has passed, highest first. */
bool uuid_bytes(PyObject *obj, const type_entry *type, uint8_t out[16]);
/* The tzinfo of a datetime or time, borrowed; NULL: it has none. */
PyObject *zone_of(PyObject *obj, const type_entry *type);
/* An argument of a path that is_known_value() has passed: borrowed. */
PyObject *path_part(PyObject *obj, const type_entry *type, size_t i);
/* The value of an Enum member: borrowed, or NULL. */
PyObject *enum_value(chunk_writer *w, PyObject *obj, const type_entry *type);

#endif
