/* init fails and sets no exception. */
#include "fake.h"

static int init(const torshi_services *services, void **state)
{
    (void)services;
    (void)state;
    return -1;
}

static const torshi_plugin_info info = {FAKE_RECORD("init_fails_silently"), .init = init};

FAKE_EXPORT
