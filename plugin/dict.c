/*
 * dict.c - the saver row of exact dicts: their entries as two spans, keys and values.
 */
#include "finish.h"

/* Deleted entries in between: what is there goes to arrays. */
static int gather_view(chunk_writer *w, const torshi_dict_view *view, Py_ssize_t *position,
                       size_t most, span *keys, span *values)
{
    size_t room = (size_t)(view->count - *position), n = 0;
    room = room < most ? room : most;
    PyObject **k = arena_alloc(&w->arena, room, sizeof(*k));
    PyObject **v = arena_alloc(&w->arena, room, sizeof(*v));
    if (!k || !v) {
        return ENC_ERROR;
    }
    for (; *position < view->count && n < room; ++*position) {
        const unsigned char *entry = view->base + (size_t)*position * view->stride;
        PyObject *value = view->values
                              ? view->values[*position]
                              : *(PyObject *const *)(const void *)(entry + view->value_offset);
        if (value) {
            k[n] = *(PyObject *const *)(const void *)(entry + view->key_offset);
            v[n++] = value;
        }
    }
    *keys = span_of(k, n);
    *values = span_of(v, n);
    return ENC_OK;
}

static int gather_items(chunk_writer *w, PyObject *target, Py_ssize_t *position, size_t most,
                        span *keys, span *values)
{
    size_t room = (size_t)PyDict_GET_SIZE(target), n = 0;
    room = room < most ? room : most;
    PyObject **k = arena_alloc(&w->arena, room, sizeof(*k));
    PyObject **v = arena_alloc(&w->arena, room, sizeof(*v));
    if (!k || !v) {
        return ENC_ERROR;
    }
    while (n < room && PyDict_Next(target, position, &k[n], &v[n])) {
        n++;
    }
    *keys = span_of(k, n);
    *values = span_of(v, n);
    return ENC_OK;
}

static int take_pairs(chunk_writer *w, PyObject *target, Py_ssize_t *position, size_t most,
                      span *keys, span *values)
{
    torshi_dict_view view;
    if (!w->objects->dict_view(target, &view)) {
        return gather_items(w, target, position, most, keys, values);
    }
    if (*position >= view.count) { /* it was rebuilt meanwhile */
        *keys = *values = (span){NULL, 0, 0};
        return ENC_OK;
    }
    if (view.used != view.count) {
        return gather_view(w, &view, position, most, keys, values);
    }
    size_t rows = (size_t)(view.count - *position);
    rows = rows < most ? rows : most;
    const unsigned char *entries = view.base + (size_t)*position * view.stride;
    *keys = (span){entries + view.key_offset, view.stride, rows};
    *values = view.values ? (span){(const unsigned char *)(view.values + *position),
                                   sizeof(PyObject *), rows}
                          : (span){entries + view.value_offset, view.stride, rows};
    *position += (Py_ssize_t)rows;
    return ENC_OK;
}

static Py_ssize_t dict_length(PyObject *target)
{
    return PyDict_GET_SIZE(target);
}

static const target_form dict_form = {true, take_pairs, dict_length};

int save_dict(void *plugin, torshi_dump *dump, PyObject *obj)
{
    return save_target(plugin, dump, obj, &dict_form);
}
