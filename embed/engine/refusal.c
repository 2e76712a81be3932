/*
 * refusal.c - the one form in which a plugin is refused.
 */
#include "refusal.h"

#include <stdarg.h>

int refuse_plugin(const char *path, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    PyObject *reason = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    PyObject *where = PyUnicode_DecodeFSDefault(path);
    PyObject *message = NULL;
    if (reason != NULL && where != NULL) {
        message = PyUnicode_FromFormat("plugin %U: %U", where, reason);
    }
    if (message != NULL) {
        PyErr_SetImportError(message, NULL, where);
    }
    Py_XDECREF(message);
    Py_XDECREF(where);
    Py_XDECREF(reason);
    return -1;
}
