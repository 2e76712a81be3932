/*
 * type_name.c - what a type is called, going by its own fields alone.
 */
#include "type_name.h"

#include <string.h>

/* 1 when text is the exact str with these contents; sets no exception. */
static int equals_utf8(PyObject *text, const char *utf8)
{
    if (text == NULL || !PyUnicode_CheckExact(text)) {
        return 0;
    }
    Py_ssize_t size;
    const char *own = PyUnicode_AsUTF8AndSize(text, &size);
    if (own == NULL) {
        PyErr_Clear(); /* surrogates, which no row can name, or no memory */
        return 0;
    }
    return (size_t)size == strlen(utf8) && memcmp(own, utf8, (size_t)size) == 0;
}

/* A class's own __module__, borrowed, or NULL. A loop and not a look-up, since a class may have
   keys in its __dict__ that run code when they are compared. */
static PyObject *module_of_heap_type(PyTypeObject *type, PyObject *str_module)
{
    PyObject *key, *value;
    Py_ssize_t position = 0;
    if (type->tp_dict == NULL) {
        return NULL;
    }
    while (PyDict_Next(type->tp_dict, &position, &key, &value)) {
        if (key == str_module || (PyUnicode_CheckExact(key) && equals_utf8(key, "__module__"))) {
            return value;
        }
    }
    return NULL;
}

int type_is_named(PyTypeObject *type, PyObject *str_module, const char *module, const char *name)
{
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        return equals_utf8(((PyHeapTypeObject *)type)->ht_qualname, name) &&
               equals_utf8(module_of_heap_type(type, str_module), module);
    }
    const char *dot = strrchr(type->tp_name, '.');
    if (dot == NULL) {
        return strcmp(module, "builtins") == 0 && strcmp(type->tp_name, name) == 0;
    }
    size_t length = (size_t)(dot - type->tp_name);
    return strcmp(dot + 1, name) == 0 && strlen(module) == length &&
           memcmp(type->tp_name, module, length) == 0;
}
