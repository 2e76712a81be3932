/* Writes another payload layout. */
#include "fake.h"

static torshi_plugin_info info = {FAKE_RECORD("format_version"), .init = fake_init_too_early};

TORSHI_PLUGIN_EXPORT const torshi_plugin_info *torshi_plugin_info_v1(void);

const torshi_plugin_info *torshi_plugin_info_v1(void)
{
    info.format_version = TORSHI_FORMAT_VERSION + 1;
    return &info;
}
