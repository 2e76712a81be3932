/* A library, but no plugin. */
#include "fake.h"

TORSHI_PLUGIN_EXPORT int some_other_symbol(void);

int some_other_symbol(void)
{
    return 1;
}
