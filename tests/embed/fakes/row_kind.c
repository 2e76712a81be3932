/* A row of a kind that this engine does not have. */
#include "fake.h"

static const torshi_row rows[] = {{.kind = 99, .module = "fakes", .name = "thing"}};

static const torshi_plugin_info info = {FAKE_RECORD("row_kind"), .init = fake_init_too_early,
                                        .rows = rows, .row_count = 1};

FAKE_EXPORT
