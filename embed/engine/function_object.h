/*
 * function_object.h - the Python object of a function row.
 */
#ifndef TORSHI_ENGINE_FUNCTION_OBJECT_H
#define TORSHI_ENGINE_FUNCTION_OBJECT_H

#include "registry.h"

/* The type of function objects, made for `module` (`_torshi`, borrowed). New, or NULL. */
TORSHI_HIDDEN PyTypeObject *function_type_new(PyObject *module);

/*
 * A function object. `row` and `plugin_state` (where the plugin's state will be found at each
 * call) are borrowed until function_close. New, or NULL with an exception.
 */
TORSHI_HIDDEN PyObject *function_new(PyTypeObject *type, const torshi_row *row,
                                     void *const *plugin_state);

/* The plugin goes away: calls raise RuntimeError from now on, row and state are let go. */
TORSHI_HIDDEN void function_close(PyObject *function);

/* The loader row that stands for this function object, or NULL; borrowed from the registry. */
TORSHI_HIDDEN const loader_entry *function_loader(PyObject *function);
TORSHI_HIDDEN void function_set_loader(PyObject *function, const loader_entry *loader);

#endif
