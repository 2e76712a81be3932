/*
 * chain.h - two plugins for the same types, of which each declines what the other should write:
 * instances of chained.Thing whose attribute `wants` is not CHAIN_NAME, and sets without it. What
 * it takes it writes as the string CHAIN_NAME.
 */
#include "fake.h"

static int write_name(torshi_dump *dump, const torshi_services *services)
{
    static const char text[] = "\x8c\x03" CHAIN_NAME; /* SHORT_BINUNICODE */
    return services->write(dump, text, sizeof(text) - 1) < 0 ? TORSHI_ERROR : TORSHI_OK;
}

static int save_thing(void *plugin, torshi_dump *dump, PyObject *obj)
{
    PyObject *wants = PyObject_GetAttrString(obj, "wants");
    if (wants == NULL) {
        return TORSHI_ERROR;
    }
    int mine = PyUnicode_CompareWithASCIIString(wants, CHAIN_NAME) == 0;
    Py_DECREF(wants);
    return mine ? write_name(dump, plugin) : TORSHI_DECLINE;
}

static int save_set(void *plugin, torshi_dump *dump, PyObject *obj)
{
    PyObject *name = PyUnicode_FromString(CHAIN_NAME);
    int mine = name != NULL ? PySet_Contains(obj, name) : -1;
    Py_XDECREF(name);
    if (mine < 0) {
        return TORSHI_ERROR;
    }
    return mine ? write_name(dump, plugin) : TORSHI_DECLINE;
}

static int init(const torshi_services *services, void **state)
{
    *state = (void *)(uintptr_t)services;
    return 0;
}

static const torshi_row rows[] = {
    {.kind = TORSHI_ROW_SAVER, .module = "chained", .name = "Thing", .save = save_thing},
    {.kind = TORSHI_ROW_SAVER, .module = "chained", .name = "Outer.Thing", .save = save_thing},
    {.kind = TORSHI_ROW_SAVER,
     .module = "builtins",
     .name = "set",
     .type = CHAIN_SET_TYPE,
     .min_items = 2,
     .save = save_set},
};

static const torshi_plugin_info info = {
    FAKE_RECORD("chain_" CHAIN_NAME),
    .init = init,
    .rows = rows,
    .row_count = sizeof(rows) / sizeof(rows[0]),
};

FAKE_EXPORT
