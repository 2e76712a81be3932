/* A minor ABI version newer than this engine's. */
#include "fake.h"

static torshi_plugin_info info = {FAKE_RECORD("abi_minor"), .init = fake_init_too_early};

TORSHI_PLUGIN_EXPORT const torshi_plugin_info *torshi_plugin_info_v1(void);

const torshi_plugin_info *torshi_plugin_info_v1(void)
{
    info.abi_minor = TORSHI_ABI_MINOR + 7;
    return &info;
}
