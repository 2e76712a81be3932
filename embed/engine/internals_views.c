/*
 * internals_views.c - dicts and instances read where they lie (internals_layout.h).
 *
 * Reading a dict's entries costs a pointer step each, where PyDict_Next costs a call, and an
 * instance's values are there without a __dict__, which getattr would make and leave behind.
 */
#include "internals_layout.h"

#if INTERNALS_SUPPORTED

int internals_dict_view(PyObject *dict, torshi_dict_view *view)
{
    PyDictObject *d = (PyDictObject *)dict;
    keys_table *k = dict_keys(dict);

    view->base = keys_entries(k);
    view->used = d->ma_used;
    if (d->ma_values != NULL) {
        return internals_values_view(k, (value_array *)(void *)d->ma_values, view);
    }
    view->values = NULL;
    view->count = k->nentries;
    view->shared_keys = 0;
    if (k->kind == KIND_GENERAL) {
        view->stride = sizeof(general_entry);
        view->key_offset = offsetof(general_entry, key);
        view->value_offset = offsetof(general_entry, value);
        view->unicode_keys = 0;
    } else {
        view->stride = sizeof(unicode_entry);
        view->key_offset = offsetof(unicode_entry, key);
        view->value_offset = offsetof(unicode_entry, value);
        view->unicode_keys = 1;
    }
    return 1;
}

int internals_values_view(keys_table *k, value_array *v, torshi_dict_view *view)
{
    unsigned size = values_size(v);
    unsigned last = 0;

    for (unsigned i = 0; i < size; i++) {
        unsigned entry = values_order(v, i);
        if (i > 0 && entry <= last) {
            return 0; /* inserted in another order than the class's keys: a view cannot show it */
        }
        last = entry;
    }
    view->base = keys_entries(k);
    view->stride = sizeof(unicode_entry);
    view->key_offset = offsetof(unicode_entry, key);
    view->value_offset = 0;
    view->values = v->values;
    view->count = size > 0 ? (intptr_t)last + 1 : 0;
    view->used = (intptr_t)size;
    view->unicode_keys = 1;
    view->shared_keys = 1;
    return 1;
}

int internals_instance_view(PyObject *obj, torshi_instance_view *view)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) {
        return public_instance_view(obj, view);
    }
    PyObject *dict;
    value_array *v = instance_values(obj, &dict);
    memset(view, 0, sizeof *view);
    if (dict != NULL) {
        view->dict = dict;
        return PyDict_CheckExact(dict);
    }
    keys_table *k = type_shared_keys(type);
    return v == NULL || k == NULL ? 1 : internals_values_view(k, v, &view->view);
}

#else

int internals_dict_view(PyObject *dict, torshi_dict_view *view)
{
    return public_dict_view(dict, view);
}

int internals_instance_view(PyObject *obj, torshi_instance_view *view)
{
    return public_instance_view(obj, view);
}

#endif
