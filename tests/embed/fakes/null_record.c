/* Returns no record. */
#include "fake.h"

TORSHI_PLUGIN_EXPORT const torshi_plugin_info *torshi_plugin_info_v1(void);

const torshi_plugin_info *torshi_plugin_info_v1(void)
{
    return NULL;
}
