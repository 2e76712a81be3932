/*
 * registry.h - the registration table: which function saves a type, which stands for a callable.
 */
#ifndef TORSHI_ENGINE_REGISTRY_H
#define TORSHI_ENGINE_REGISTRY_H

#include "state.h"

/* A saver row in force for one type, with the row it replaced (asked when it declines). */
typedef struct saver_entry {
    const torshi_row *row;
    void *plugin_state;
    struct saver_entry *replaced; /* owned by the registry; NULL: the engine's built-in */
} saver_entry;

typedef struct loader_entry {
    const torshi_row *row;
    void *plugin_state;
    PyObject *callable; /* owned; NULL until resolved */
} loader_entry;

/* A registry without rows; services are complete. NULL with an exception. */
TORSHI_HIDDEN torshi_registry *registry_new(torshi_state *st);
/* Make the types that need `_torshi` itself (module, borrowed); before the first registry_add. */
TORSHI_HIDDEN int registry_add_types(torshi_registry *r, PyObject *module);
TORSHI_HIDDEN int registry_traverse(torshi_registry *r, visitproc visit, void *arg);
TORSHI_HIDDEN void registry_clear(torshi_registry *r); /* calls fini; drops objects; idempotent */
TORSHI_HIDDEN void registry_free(torshi_registry *r);

/*
 * Register a plugin's record, whose fixed part the loader has compared: look at the rows, make the
 * function objects, call init. `path` (copied) is for messages. 0, or -1 with ImportError, with
 * nothing registered. *entered (may be NULL) is set to 1 once code of the plugin has run: its
 * library must stay then, whatever the result.
 */
TORSHI_HIDDEN int registry_add(torshi_registry *r, const torshi_plugin_info *info, const char *path,
                               int *entered);
/* The path of the registered plugin of this name, or NULL; borrowed. */
TORSHI_HIDDEN const char *registry_plugin_path(const torshi_registry *r, const char *name);
/* The function row object `module`.`name`, or NULL without an exception; borrowed. */
TORSHI_HIDDEN PyObject *registry_function(const torshi_registry *r, const char *module,
                                          const char *name);

/*
 * The saver for exactly this type, or NULL without an exception. Runs no user code (by-name rows
 * are matched against the type's own tp_name/__module__ strings). Borrowed, valid until
 * registry_version changes; picklers cache it per type together with that number.
 */
TORSHI_HIDDEN const saver_entry *registry_saver(torshi_registry *r, PyTypeObject *type);
TORSHI_HIDDEN uint64_t registry_version(const torshi_registry *r); /* starts at 1, grows */

/* The loader whose callable is this very object, or NULL without an exception. Cheap enough to
   be asked at every REDUCE: one pointer comparison for a function object of ours, one for each
   loader row otherwise. A row whose module is not imported yet is looked up in sys.modules.
   Borrowed, valid until the registry goes. */
TORSHI_HIDDEN const loader_entry *registry_loader(torshi_registry *r, PyObject *callable);

/* The services vtable of this interpreter. */
TORSHI_HIDDEN const torshi_services *registry_services(const torshi_registry *r);

/* [(kind, "module.name", plugin, version), ...]; new list or NULL. */
TORSHI_HIDDEN PyObject *registry_list(torshi_registry *r);

#endif
