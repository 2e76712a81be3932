/*
 * services.c - the part of the services vtable that is the registry's own; what concerns a dump
 * or a load at work comes from the pickler and the unpickler.
 */
#include "services.h"

#include "internals.h"

static PyObject *service_function_object(const torshi_services *self, const char *module,
                                         const char *name)
{
    return registry_function(registry_of_services(self), module, name);
}

static PyObject *service_exception(const torshi_services *self, int which)
{
    const torshi_state *st = registry_state(registry_of_services(self));
    switch (which) {
    case 1:
        return st->PicklingError;
    case 2:
        return st->UnpicklingError;
    default:
        return st->PickleError;
    }
}

void services_init(torshi_services *services, const torshi_state *st)
{
    *services = (torshi_services){
        .size = sizeof(torshi_services),
        .abi_major = TORSHI_ABI_MAJOR,
        .abi_minor = TORSHI_ABI_MINOR,
        .objects = internals_objects(st->internals),
        .function_object = service_function_object,
        .exception = service_exception,
    };
    pickler_fill_services(services);
    unpickler_fill_services(services);
}
