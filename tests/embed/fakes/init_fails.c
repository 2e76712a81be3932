/* init raises. */
#include "fake.h"

static int init(const torshi_services *services, void **state)
{
    (void)services;
    (void)state;
    PyErr_SetString(PyExc_ValueError, "no licence for the moon");
    return -1;
}

static const torshi_plugin_info info = {FAKE_RECORD("init_fails"), .init = init};

FAKE_EXPORT
