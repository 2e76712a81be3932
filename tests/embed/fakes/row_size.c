/* Rows of another size than its ABI version has. */
#include "fake.h"

static torshi_plugin_info info = {FAKE_RECORD("row_size"), .init = fake_init_too_early};

TORSHI_PLUGIN_EXPORT const torshi_plugin_info *torshi_plugin_info_v1(void);

const torshi_plugin_info *torshi_plugin_info_v1(void)
{
    info.row_size = sizeof(torshi_row) - 8;
    return &info;
}
