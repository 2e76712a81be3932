/*
 * type_name.h - comparing a type's name with one that is written in C.
 */
#ifndef TORSHI_ENGINE_TYPE_NAME_H
#define TORSHI_ENGINE_TYPE_NAME_H

#include "state.h"

/*
 * Whether the type is called `module`.`name`: 1 or 0, never an exception. A class is asked for its
 * own __module__ and __qualname__, a static type for tp_name; neither runs code of the type's.
 * str_module: the interned "__module__", borrowed.
 */
TORSHI_HIDDEN int type_is_named(PyTypeObject *type, PyObject *str_module, const char *module,
                                const char *name);

#endif
