/* Says that it has rows, and has none. */
#include "fake.h"

static const torshi_plugin_info info = {FAKE_RECORD("no_rows"), .init = fake_init_too_early,
                                        .row_count = 3};

FAKE_EXPORT
