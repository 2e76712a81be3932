/* A function that another plugin has brought. */
#include "fake.h"

static PyObject *call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    (void)plugin;
    (void)args;
    (void)nargs;
    (void)kwnames;
    Py_RETURN_NONE;
}

static const torshi_row rows[] = {
    {.kind = TORSHI_ROW_FUNCTION, .module = "torshi", .name = "chunk", .call = call}};

static const torshi_plugin_info info = {FAKE_RECORD("duplicate_function"),
                                        .init = fake_init_too_early, .rows = rows, .row_count = 1};

FAKE_EXPORT
