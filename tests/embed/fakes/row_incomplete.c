/* A saver row without a save function. */
#include "fake.h"

static const torshi_row rows[] = {{.kind = TORSHI_ROW_SAVER, .module = "fakes", .name = "Thing"}};

static const torshi_plugin_info info = {FAKE_RECORD("row_incomplete"), .init = fake_init_too_early,
                                        .rows = rows, .row_count = 1};

FAKE_EXPORT
