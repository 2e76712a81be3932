/*
 * loader.h - from a path to registered rows: open, compare, register, or say what differs.
 */
#ifndef TORSHI_ENGINE_LOADER_H
#define TORSHI_ENGINE_LOADER_H

#include "registry.h"

/*
 * Load the plugin at `path` (file system encoding). 0, or -1 with an ImportError whose `path` is
 * set and whose message names the differing field and both values.
 */
TORSHI_HIDDEN int loader_load(torshi_registry *r, const char *path);

/* Load chunked.so, once: from the configured place, or beside the file of `module` (`_torshi`). */
TORSHI_HIDDEN int loader_load_default(torshi_registry *r, PyObject *module);

/* Load the configured further plugins in order; one marked with '?' that is refused is left out
   with an ImportWarning. */
TORSHI_HIDDEN int loader_load_configured(torshi_registry *r);

#endif
