/*
 * reduce.h - columns without a dump in progress: for reducers that any pickler may call.
 */
#ifndef TORSHI_REDUCE_H
#define TORSHI_REDUCE_H

#include "encode.h"

/*
 * What stands in for the engine's services while no dump is under way: nothing is in a memo, values
 * and instances are asked for the way they pickle by default, as protocol 4 has it. The services
 * that write are NULL. A writer that uses them has the address of a quiet_services as its `dump`.
 */
typedef struct quiet_services {
    torshi_services services;
    const torshi_services *engine;
    PyObject *dispatch_table; /* owned: copyreg's, or NULL */
} quiet_services;

/* Fill q in. 0 or -1 with an exception. */
int quiet_services_init(quiet_services *q, const torshi_services *engine);
void quiet_services_clear(quiet_services *q);

#endif
