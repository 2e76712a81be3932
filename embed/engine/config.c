/*
 * config.c - process-wide configuration: plain C data, set once before Python starts.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>

static torshi_config process_config;
static int process_config_given;

void torshi_config_set(const torshi_config *config)
{
    process_config = *config;
    process_config_given = 1;
}

/* What the extension module of an ordinary python3 gets: there is no host that asked. */
static const torshi_config extension_config = {.mode = TORSHI_MODE_CHUNKED, .internals = 1};
static const torshi_config extension_config_public = {.mode = TORSHI_MODE_CHUNKED};

const torshi_config *torshi_config_get(void)
{
    if (process_config_given) {
        return &process_config;
    }
    /* Read each time rather than kept: nothing then has to be written under several GILs. */
    const char *internals = getenv("TORSHI_INTERNALS");
    if (internals != NULL && strcmp(internals, "0") == 0) {
        return &extension_config_public;
    }
    return &extension_config;
}

int torshi_default_reducers(void)
{
    /* A host under `off` is an ordinary python3: there `import torshi` is a choice. */
    return torshi_config_get()->mode == TORSHI_MODE_STANDARD ? TORSHI_REDUCERS_STANDARD
                                                             : TORSHI_REDUCERS_CHUNKED;
}

int torshi_parse_reducers(PyObject *value)
{
    if (value == NULL || value == Py_None) {
        return torshi_default_reducers();
    }
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "reducers must be 'chunked', 'standard' or None, not %.200s",
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    if (str_is(value, "chunked", 7)) {
        return TORSHI_REDUCERS_CHUNKED;
    }
    if (str_is(value, "standard", 8)) {
        return TORSHI_REDUCERS_STANDARD;
    }
    PyErr_Format(PyExc_ValueError, "reducers must be 'chunked', 'standard' or None, not %R", value);
    return -1;
}
