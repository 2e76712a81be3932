/* Has no name. */
#include "fake.h"

static torshi_plugin_info info = {FAKE_RECORD("no_name"), .init = fake_init_too_early};

TORSHI_PLUGIN_EXPORT const torshi_plugin_info *torshi_plugin_info_v1(void);

const torshi_plugin_info *torshi_plugin_info_v1(void)
{
    info.name = NULL;
    return &info;
}
