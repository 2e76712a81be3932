/*
 * refusal.h - the one form in which a plugin is refused.
 */
#ifndef TORSHI_ENGINE_REFUSAL_H
#define TORSHI_ENGINE_REFUSAL_H

#include "state.h"

/* Set an ImportError "plugin PATH: REASON" with that `path` (file system encoding); the reason as
   PyUnicode_FromFormat makes it. Always -1. */
TORSHI_HIDDEN int refuse_plugin(const char *path, const char *format, ...);

#endif
