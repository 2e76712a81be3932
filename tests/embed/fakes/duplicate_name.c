/* Takes the name of the engine's own plugin. */
#include "fake.h"

static const torshi_plugin_info info = {FAKE_RECORD("chunked"), .init = fake_init_too_early};

FAKE_EXPORT
