/* Compiled for another Python. */
#include "fake.h"

static torshi_plugin_info info = {FAKE_RECORD("python_version"), .init = fake_init_too_early};

TORSHI_PLUGIN_EXPORT const torshi_plugin_info *torshi_plugin_info_v1(void);

const torshi_plugin_info *torshi_plugin_info_v1(void)
{
    info.py_version_hex = 0x02071200;
    return &info;
}
