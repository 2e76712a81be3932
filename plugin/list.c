/*
 * list.c - the saver row of exact lists.
 */
#include "finish.h"

static int take_items(chunk_writer *w, PyObject *target, Py_ssize_t *position, size_t most,
                      span *keys, span *values)
{
    (void)w;
    Py_ssize_t n = PyList_GET_SIZE(target) - *position;
    size_t rows = n <= 0 ? 0 : (size_t)n < most ? (size_t)n : most;
    *values = span_of(rows ? &PyList_GET_ITEM(target, *position) : NULL, rows);
    *keys = (span){NULL, 0, rows};
    *position += (Py_ssize_t)rows;
    return ENC_OK;
}

static Py_ssize_t list_length(PyObject *target)
{
    return PyList_GET_SIZE(target);
}

static const target_form list_form = {false, take_items, list_length};

int save_list(void *plugin, torshi_dump *dump, PyObject *obj)
{
    return save_target(plugin, dump, obj, &list_form);
}
