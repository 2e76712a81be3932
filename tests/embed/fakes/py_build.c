/* Compiled with other build flags. */
#include "fake.h"

static torshi_plugin_info info = {FAKE_RECORD("py_build"), .init = fake_init_too_early};

TORSHI_PLUGIN_EXPORT const torshi_plugin_info *torshi_plugin_info_v1(void);

const torshi_plugin_info *torshi_plugin_info_v1(void)
{
    info.py_build = FAKE_BUILD ^ TORSHI_BUILD_DEBUG;
    return &info;
}
