/*
 * services.h - filling the services vtable of one interpreter.
 */
#ifndef TORSHI_ENGINE_SERVICES_H
#define TORSHI_ENGINE_SERVICES_H

#include "registry.h"

/* Fill every member of the vtable. Cannot fail. */
TORSHI_HIDDEN void services_init(torshi_services *services, const torshi_state *st);

/* The registry whose vtable this is; borrowed. */
TORSHI_HIDDEN torshi_registry *registry_of_services(const torshi_services *services);
TORSHI_HIDDEN const torshi_state *registry_state(const torshi_registry *r);

#endif
