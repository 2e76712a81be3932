/* A major ABI version that this engine does not have. */
#include "fake.h"

static torshi_plugin_info info = {FAKE_RECORD("abi_major"), .init = fake_init_too_early};

TORSHI_PLUGIN_EXPORT const torshi_plugin_info *torshi_plugin_info_v1(void);

const torshi_plugin_info *torshi_plugin_info_v1(void)
{
    info.abi_major = TORSHI_ABI_MAJOR + 1;
    return &info;
}
