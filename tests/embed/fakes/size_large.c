/* A record of another size than its ABI version has. */
#include "fake.h"

static torshi_plugin_info info = {FAKE_RECORD("size_large"), .init = fake_init_too_early};

TORSHI_PLUGIN_EXPORT const torshi_plugin_info *torshi_plugin_info_v1(void);

const torshi_plugin_info *torshi_plugin_info_v1(void)
{
    info.size = sizeof(torshi_plugin_info) + 8;
    return &info;
}
