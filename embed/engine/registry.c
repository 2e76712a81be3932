/*
 * registry.c - the registration table of one interpreter.
 *
 * Rows live in plugin records, in the order of registration. From them registry_build makes, for
 * each type or type name that has saver rows, the chain of its entries, newest first. Chains that
 * were replaced are kept until the registry goes: a pickler at work may still hold one.
 */
#include "registry.h"

#include "function_object.h"
#include "refusal.h"
#include "services.h"
#include "type_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of n rows: n function rows' objects, then n reducers and n batch functions of reference rows. */
#define FUNCTIONS_A_ROW 3

typedef struct plugin_record {
    struct plugin_record *next;
    char *path;              /* owned */
    torshi_plugin_info info; /* a copy; rows are ours */
    torshi_row *rows;        /* owned copy, of this engine's row size */
    PyObject **functions;    /* owned array of owned references; see FUNCTIONS_A_ROW */
    void *state;             /* the plugin's, from init */
    int started;             /* 1: init has returned 0, so fini is due */
} plugin_record;

/* The saver rows of one type: `type` given, or by name where it is NULL. */
typedef struct saver_slot {
    void *type;
    const char *module;
    const char *name;
    saver_entry *chain;
} saver_slot;

typedef struct chain_block {
    struct chain_block *next;
    saver_entry entries[];
} chain_block;

typedef struct loader_block {
    struct loader_block *next; /* the one registered before */
    loader_entry entry;
    plugin_record *plugin;
} loader_block;

struct torshi_registry {
    torshi_services services; /* first: plugins hand its address back */
    torshi_state *st;
    uint64_t version;
    PyTypeObject *function_type; /* owned */
    plugin_record *plugins;      /* oldest first */
    saver_slot *slots;           /* owned */
    size_t slot_count;
    chain_block *blocks;   /* every chain ever built */
    loader_block *loaders; /* newest first */
    size_t unresolved;     /* loaders without a callable yet */
};

torshi_registry *registry_of_services(const torshi_services *services)
{
    return (torshi_registry *)(uintptr_t)services;
}

const torshi_state *registry_state(const torshi_registry *r)
{
    return r->st;
}

torshi_registry *registry_new(torshi_state *st)
{
    torshi_registry *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    r->st = st;
    r->version = 1;
    services_init(&r->services, st);
    return r;
}

int registry_add_types(torshi_registry *r, PyObject *module)
{
    r->function_type = function_type_new(module);
    return r->function_type != NULL ? 0 : -1;
}

const torshi_services *registry_services(const torshi_registry *r)
{
    return &r->services;
}

uint64_t registry_version(const torshi_registry *r)
{
    return r->version;
}

/* ---- plugin records -------------------------------------------------------------------------- */

static void drop_functions(plugin_record *p)
{
    for (size_t i = 0; p->functions != NULL && i < FUNCTIONS_A_ROW * p->info.row_count; i++) {
        if (p->functions[i] != NULL) {
            function_close(p->functions[i]);
            Py_CLEAR(p->functions[i]);
        }
    }
}

static void free_plugin(plugin_record *p)
{
    if (p != NULL) {
        drop_functions(p);
        free(p->functions);
        free(p->rows);
        free(p->path);
        free(p);
    }
}

/* Look at one row before anything of it is used. 0, or -1 with ImportError. */
static int check_row(const torshi_registry *r, const plugin_record *p, size_t index)
{
    const torshi_row *row = &p->rows[index];
    int complete = 0;
    const char *wants = "";

    if (row->module == NULL || row->name == NULL) {
        refuse_plugin(p->path, "row %zu: %s is NULL", index,
                      row->module == NULL ? "module" : "name");
        return -1;
    }
    switch (row->kind) {
    case TORSHI_ROW_SAVER:
        complete = row->save != NULL;
        wants = "save";
        break;
    case TORSHI_ROW_LOADER:
        complete = row->load != NULL;
        wants = "load";
        break;
    case TORSHI_ROW_FUNCTION:
        complete = row->call != NULL;
        wants = "call";
        break;
    case TORSHI_ROW_REFERENCE:
        complete = row->reference != NULL && row->reference->size >= sizeof(torshi_reference);
        wants = "reference";
        break;
    default:
        refuse_plugin(p->path, "row %zu (%s.%s): kind is %u, which this engine does not have",
                      index, row->module, row->name, (unsigned)row->kind);
        return -1;
    }
    if (!complete) {
        refuse_plugin(p->path, "row %zu (%s.%s): %s is NULL", index, row->module, row->name, wants);
        return -1;
    }
    if (row->kind == TORSHI_ROW_FUNCTION) {
        if (registry_function(r, row->module, row->name) != NULL) {
            refuse_plugin(p->path, "row %zu: function %s.%s is another plugin's already", index,
                          row->module, row->name);
            return -1;
        }
        for (size_t i = 0; i < index; i++) {
            if (p->rows[i].kind == TORSHI_ROW_FUNCTION && p->functions[i] != NULL &&
                strcmp(p->rows[i].module, row->module) == 0 &&
                strcmp(p->rows[i].name, row->name) == 0) {
                refuse_plugin(p->path, "row %zu: function %s.%s is row %zu already", index,
                              row->module, row->name, i);
                return -1;
            }
        }
    }
    return 0;
}

/* One of the two functions that register_ref is given for a reference row: nobody can look it up.
   0 or -1. */
static int make_hidden_function(const torshi_registry *r, plugin_record *p, size_t index,
                                size_t which, torshi_call_fn call)
{
    const torshi_row function = {
        .module = p->rows[index].module, .name = p->rows[index].name, .call = call};
    if (call == NULL) {
        return 0;
    }
    PyObject *made = function_new(r->function_type, &function, &p->state);
    p->functions[which * p->info.row_count + index] = made;
    return made != NULL ? 0 : -1;
}

static plugin_record *make_plugin(torshi_registry *r, const torshi_plugin_info *info,
                                  const char *path)
{
    plugin_record *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        goto no_memory;
    }
    p->info = *info;
    p->path = strdup(path);
    if (info->row_count > SIZE_MAX / FUNCTIONS_A_ROW - 1) {
        goto no_memory;
    }
    /* One more than needed: calloc(0) may be NULL. */
    p->rows = calloc(info->row_count + 1, sizeof(torshi_row));
    p->functions = calloc(FUNCTIONS_A_ROW * info->row_count + 1, sizeof(PyObject *));
    if (p->path == NULL || p->rows == NULL || p->functions == NULL) {
        goto no_memory;
    }
    for (size_t i = 0; i < info->row_count; i++) {
        memcpy(&p->rows[i], (const char *)info->rows + i * info->row_size,
               info->row_size < sizeof(torshi_row) ? info->row_size : sizeof(torshi_row));
    }
    p->info.rows = p->rows;
    p->info.row_size = sizeof(torshi_row);
    for (size_t i = 0; i < info->row_count; i++) {
        if (check_row(r, p, i) < 0) {
            goto error;
        }
        if (p->rows[i].kind == TORSHI_ROW_FUNCTION) {
            p->functions[i] = function_new(r->function_type, &p->rows[i], &p->state);
            if (p->functions[i] == NULL) {
                goto error;
            }
        }
        if (p->rows[i].kind == TORSHI_ROW_REFERENCE &&
            (make_hidden_function(r, p, i, 1, p->rows[i].reference->reduce) < 0 ||
             make_hidden_function(r, p, i, 2, p->rows[i].reference->batch) < 0)) {
            goto error;
        }
    }
    return p;

no_memory:
    PyErr_NoMemory();
error:
    free_plugin(p);
    return NULL;
}

static plugin_record **end_of_plugins(torshi_registry *r)
{
    plugin_record **link = &r->plugins;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    return link;
}

static void unlink_plugin(torshi_registry *r, const plugin_record *p)
{
    plugin_record **link = &r->plugins;
    while (*link != NULL && *link != p) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = p->next;
    }
}

/* ---- saver rows ------------------------------------------------------------------------------ */

static int row_is_for_slot(const torshi_registry *r, const torshi_row *row, const saver_slot *slot)
{
    if (row->kind != TORSHI_ROW_SAVER) {
        return 0;
    }
    if (slot->type == NULL) {
        return row->type == NULL && strcmp(row->module, slot->module) == 0 &&
               strcmp(row->name, slot->name) == 0;
    }
    return row->type != NULL ? row->type == slot->type
                             : type_is_named(slot->type, r->st->str_module, row->module, row->name);
}

static int have_slot(const saver_slot *slots, size_t count, const torshi_row *row)
{
    for (size_t i = 0; i < count; i++) {
        if (slots[i].type == row->type &&
            (row->type != NULL || (strcmp(slots[i].module, row->module) == 0 &&
                                   strcmp(slots[i].name, row->name) == 0))) {
            return 1;
        }
    }
    return 0;
}

/* Make slots and chains anew out of all started plugins. 0, or -1 with everything as it was. */
static int registry_build(torshi_registry *r)
{
    size_t rows = 0, slot_count = 0, used = 0;
    saver_slot *slots = NULL;
    chain_block *block = NULL;

    for (plugin_record *p = r->plugins; p != NULL; p = p->next) {
        rows += p->info.row_count;
    }
    slots = calloc(rows + 1, sizeof(*slots));
    if (slots == NULL) {
        goto no_memory;
    }
    for (plugin_record *p = r->plugins; p != NULL; p = p->next) {
        for (size_t i = 0; p->started && i < p->info.row_count; i++) {
            const torshi_row *row = &p->rows[i];
            if (row->kind == TORSHI_ROW_SAVER && !have_slot(slots, slot_count, row)) {
                slots[slot_count++] = (saver_slot){row->type, row->module, row->name, NULL};
            }
        }
    }
    block = calloc(1, sizeof(*block) + (rows + 1) * (slot_count + 1) * sizeof(saver_entry));
    if (block == NULL) {
        goto no_memory;
    }
    for (size_t s = 0; s < slot_count; s++) {
        for (plugin_record *p = r->plugins; p != NULL; p = p->next) {
            for (size_t i = 0; p->started && i < p->info.row_count; i++) {
                if (row_is_for_slot(r, &p->rows[i], &slots[s])) {
                    saver_entry *entry = &block->entries[used++];
                    *entry = (saver_entry){&p->rows[i], p->state, slots[s].chain};
                    slots[s].chain = entry;
                }
            }
        }
    }
    block->next = r->blocks;
    r->blocks = block;
    free(r->slots);
    r->slots = slots;
    r->slot_count = slot_count;
    return 0;

no_memory:
    free(slots);
    PyErr_NoMemory();
    return -1;
}

const saver_entry *registry_saver(torshi_registry *r, PyTypeObject *type)
{
    for (size_t i = 0; i < r->slot_count; i++) {
        if (r->slots[i].type == type) {
            return r->slots[i].chain;
        }
    }
    for (size_t i = 0; i < r->slot_count; i++) {
        if (r->slots[i].type == NULL &&
            type_is_named(type, r->st->str_module, r->slots[i].module, r->slots[i].name)) {
            return r->slots[i].chain;
        }
    }
    return NULL;
}

/* ---- loader rows ----------------------------------------------------------------------------- */

/* Enter the loader rows of p, without calling anything. 0, or -1 with none entered. */
static int add_loaders(torshi_registry *r, plugin_record *p)
{
    loader_block *before = r->loaders;
    for (size_t i = 0; i < p->info.row_count; i++) {
        const torshi_row *row = &p->rows[i];
        if (row->kind != TORSHI_ROW_LOADER) {
            continue;
        }
        loader_block *block = calloc(1, sizeof(*block));
        if (block == NULL) {
            while (r->loaders != before) {
                loader_block *next = r->loaders->next;
                r->unresolved -= r->loaders->entry.callable == NULL;
                Py_XDECREF(r->loaders->entry.callable);
                free(r->loaders);
                r->loaders = next;
            }
            PyErr_NoMemory();
            return -1;
        }
        block->entry.row = row;
        block->entry.plugin_state = p->state;
        block->plugin = p;
        for (size_t j = 0; j < p->info.row_count; j++) {
            if (p->functions[j] != NULL && strcmp(p->rows[j].module, row->module) == 0 &&
                strcmp(p->rows[j].name, row->name) == 0) {
                block->entry.callable = Py_NewRef(p->functions[j]);
            }
        }
        r->unresolved += block->entry.callable == NULL;
        block->next = r->loaders;
        r->loaders = block;
    }
    for (loader_block *b = r->loaders; b != before; b = b->next) {
        if (b->entry.callable != NULL) {
            function_set_loader(b->entry.callable, &b->entry);
        }
    }
    return 0;
}

/* module.name as it is now, without importing; new, or NULL without an exception. */
static PyObject *find_imported(const char *module, const char *name)
{
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *value = modules != NULL ? PyMapping_GetItemString(modules, module) : NULL;
    while (value != NULL && name != NULL) {
        const char *dot = strchr(name, '.');
        Py_ssize_t length = dot != NULL ? dot - name : (Py_ssize_t)strlen(name);
        PyObject *part = PyUnicode_FromStringAndSize(name, length);
        PyObject *next = part != NULL ? PyObject_GetAttr(value, part) : NULL;
        Py_XDECREF(part);
        Py_SETREF(value, next);
        name = dot != NULL ? dot + 1 : NULL;
    }
    if (value == NULL) {
        PyErr_Clear();
    }
    return value;
}

/* Give the loader rows whose modules have been imported meanwhile their callables. */
static TORSHI_NOINLINE void resolve_loaders(torshi_registry *r)
{
    for (loader_block *b = r->loaders; b != NULL; b = b->next) {
        if (b->entry.callable == NULL) {
            PyObject *callable = find_imported(b->entry.row->module, b->entry.row->name);
            if (b->entry.callable == NULL && callable != NULL) {
                b->entry.callable = callable;
                r->unresolved--;
            } else {
                Py_XDECREF(callable);
            }
        }
    }
}

static const loader_entry *find_loader(const torshi_registry *r, PyObject *callable)
{
    for (const loader_block *b = r->loaders; b != NULL; b = b->next) {
        if (b->entry.callable == callable) {
            return &b->entry;
        }
    }
    return NULL;
}

const loader_entry *registry_loader(torshi_registry *r, PyObject *callable)
{
    if (Py_IS_TYPE(callable, r->function_type)) {
        return function_loader(callable);
    }
    const loader_entry *entry = find_loader(r, callable);
    if (entry == NULL && r->unresolved != 0) {
        resolve_loaders(r);
        entry = find_loader(r, callable);
    }
    return entry;
}

/* ---- the whole ------------------------------------------------------------------------------- */

PyObject *registry_function(const torshi_registry *r, const char *module, const char *name)
{
    for (const plugin_record *p = r->plugins; p != NULL; p = p->next) {
        for (size_t i = 0; i < p->info.row_count; i++) {
            if (p->functions[i] != NULL && strcmp(p->rows[i].module, module) == 0 &&
                strcmp(p->rows[i].name, name) == 0) {
                return p->functions[i];
            }
        }
    }
    return NULL;
}

const char *registry_plugin_path(const torshi_registry *r, const char *name)
{
    for (const plugin_record *p = r->plugins; p != NULL; p = p->next) {
        if (strcmp(p->info.name, name) == 0) {
            return p->path;
        }
    }
    return NULL;
}

/* `what` failed: say so, with what it raised as the cause. */
static void refuse_with_cause(const plugin_record *p, const char *what)
{
    PyObject *type, *cause, *traceback, *refusal_type, *refusal, *refusal_traceback;
    PyErr_Fetch(&type, &cause, &traceback);
    if (type != NULL) {
        PyErr_NormalizeException(&type, &cause, &traceback);
    }
    if (cause != NULL) {
        refuse_plugin(p->path, "%s failed: %s: %S", what, Py_TYPE(cause)->tp_name, cause);
    } else {
        refuse_plugin(p->path, "%s failed without an exception", what);
    }
    PyErr_Fetch(&refusal_type, &refusal, &refusal_traceback);
    PyErr_NormalizeException(&refusal_type, &refusal, &refusal_traceback);
    if (cause != NULL && refusal != NULL) {
        if (traceback != NULL) {
            PyException_SetTraceback(cause, traceback);
        }
        PyException_SetCause(refusal, Py_NewRef(cause));
        PyException_SetContext(refusal, Py_NewRef(cause));
    }
    PyErr_Restore(refusal_type, refusal, refusal_traceback);
    Py_XDECREF(type);
    Py_XDECREF(cause);
    Py_XDECREF(traceback);
}

/* module.name, imported; new, or NULL with an exception. */
static PyObject *import_class(const torshi_row *row)
{
    PyObject *module = PyImport_ImportModule(row->module);
    PyObject *cls = module != NULL ? find_imported(row->module, row->name) : NULL;
    if (cls == NULL && module != NULL) {
        PyErr_Format(PyExc_AttributeError, "module '%s' has no attribute '%s'", row->module,
                     row->name);
    }
    Py_XDECREF(module);
    return cls;
}

/* What register_ref and its opposite are called with; owned, as importing a class may run anything.
 */
typedef struct reference_calls {
    PyObject *register_ref;
    PyObject *known; /* (cls) -> its registration or None */
    PyObject *undo;  /* a list of (registration, the one before or None) */
} reference_calls;

/* torshi.register_ref(cls, reduce=..., batch=...) for one row. 0 or -1. */
static int call_register(const reference_calls *calls, const plugin_record *p, size_t index,
                         PyObject *cls)
{
    static const char *const keywords[] = {"reduce", "batch"};
    PyObject *args = PyTuple_Pack(1, cls);
    PyObject *kwargs = args != NULL ? PyDict_New() : NULL;
    PyObject *done = NULL;
    int status = kwargs != NULL ? 0 : -1;
    for (size_t i = 0; status == 0 && i < 2; i++) {
        PyObject *function = p->functions[(i + 1) * p->info.row_count + index];
        status = function != NULL ? PyDict_SetItemString(kwargs, keywords[i], function) : 0;
    }
    if (status == 0) {
        done = PyObject_Call(calls->register_ref, args, kwargs);
        status = done != NULL ? 0 : -1;
    }
    Py_XDECREF(done);
    Py_XDECREF(kwargs);
    Py_XDECREF(args);
    return status;
}

/* The same with a note of how to undo it. 0 or -1. */
static int add_reference(const reference_calls *calls, const plugin_record *p, size_t index)
{
    PyObject *cls = import_class(&p->rows[index]);
    PyObject *before = cls != NULL ? PyObject_CallOneArg(calls->known, cls) : NULL;
    PyObject *made = NULL;
    PyObject *note = NULL;
    int status = before != NULL ? call_register(calls, p, index, cls) : -1;
    if (status == 0) {
        made = PyObject_CallOneArg(calls->known, cls);
        note = made != NULL ? PyTuple_Pack(2, made, before) : NULL;
        status = note != NULL ? PyList_Append(calls->undo, note) : -1;
    }
    Py_XDECREF(note);
    Py_XDECREF(made);
    Py_XDECREF(before);
    Py_XDECREF(cls);
    return status;
}

/* Take back what the list says, the last first; keeps the exception that is set. */
static void remove_references(const torshi_registry *r, PyObject *undo)
{
    PyObject *type, *value, *traceback;
    PyObject *restore = registry_function(r, "torshi", "_restore_ref");
    PyErr_Fetch(&type, &value, &traceback);
    Py_XINCREF(restore);
    for (Py_ssize_t i = undo != NULL ? PyList_GET_SIZE(undo) : 0; restore != NULL && i > 0; i--) {
        PyObject *done = PyObject_CallObject(restore, PyList_GET_ITEM(undo, i - 1));
        Py_XDECREF(done);
        PyErr_Clear();
    }
    Py_XDECREF(restore);
    PyErr_Restore(type, value, traceback);
}

/* All reference rows of p, and in *undo (new, NULL where there are none) how to take them back. 0,
   or -1 with ImportError and none registered. */
static int add_references(const torshi_registry *r, const plugin_record *p, PyObject **undo)
{
    reference_calls calls = {Py_XNewRef(registry_function(r, "torshi", "register_ref")),
                             Py_XNewRef(registry_function(r, "torshi", "_known_ref")), NULL};
    int status = 0;
    for (size_t i = 0;
         calls.register_ref != NULL && calls.known != NULL && status == 0 && i < p->info.row_count;
         i++) {
        if (p->rows[i].kind == TORSHI_ROW_REFERENCE) {
            if (calls.undo == NULL) {
                calls.undo = PyList_New(0);
            }
            status = calls.undo != NULL ? add_reference(&calls, p, i) : -1;
            if (status < 0) {
                char what[40];
                snprintf(what, sizeof(what), "reference row %zu", i);
                refuse_with_cause(p, what);
                remove_references(r, calls.undo);
                Py_CLEAR(calls.undo);
            }
        }
    }
    Py_XDECREF(calls.register_ref);
    Py_XDECREF(calls.known);
    *undo = calls.undo;
    return status;
}

int registry_add(torshi_registry *r, const torshi_plugin_info *info, const char *path, int *entered)
{
    PyObject *undo = NULL; /* how to take the references back */
    plugin_record *p = make_plugin(r, info, path);
    if (p == NULL) {
        return -1;
    }
    *end_of_plugins(r) = p;
    if (entered != NULL) {
        *entered = 1;
    }
    if (p->info.init != NULL && p->info.init(&r->services, &p->state) < 0) {
        refuse_with_cause(p, "init");
        goto error;
    }
    if (add_references(r, p, &undo) <
        0) { /* runs Python code: the other rows are not in force yet */
        if (p->info.fini != NULL) {
            p->info.fini(p->state);
        }
        goto error;
    }
    p->started = 1;
    if (add_loaders(r, p) < 0) {
        goto error;
    }
    if (registry_build(r) < 0) {
        goto error;
    }
    r->version++;
    Py_XDECREF(undo);
    return 0;

error:
    if (p->started) {
        remove_references(r, undo);
    }
    Py_XDECREF(undo);
    if (p->started && p->info.fini != NULL) {
        p->info.fini(p->state);
    }
    while (r->loaders != NULL && r->loaders->plugin == p) {
        loader_block *next = r->loaders->next;
        r->unresolved -= r->loaders->entry.callable == NULL;
        Py_XDECREF(r->loaders->entry.callable);
        free(r->loaders);
        r->loaders = next;
    }
    unlink_plugin(r, p);
    free_plugin(p);
    return -1;
}

int registry_traverse(torshi_registry *r, visitproc visit, void *arg)
{
    Py_VISIT(r->function_type);
    for (plugin_record *p = r->plugins; p != NULL; p = p->next) {
        for (size_t i = 0; i < FUNCTIONS_A_ROW * p->info.row_count; i++) {
            Py_VISIT(p->functions[i]);
        }
        if (p->started && p->info.traverse != NULL && p->state != NULL) {
            int status = p->info.traverse(p->state, visit, arg);
            if (status != 0) {
                return status;
            }
        }
    }
    for (loader_block *b = r->loaders; b != NULL; b = b->next) {
        Py_VISIT(b->entry.callable);
    }
    return 0;
}

void registry_clear(torshi_registry *r)
{
    free(r->slots);
    r->slots = NULL;
    r->slot_count = 0;
    r->version++;
    while (r->loaders != NULL) {
        loader_block *next = r->loaders->next;
        PyObject *callable = r->loaders->entry.callable;
        if (callable != NULL && Py_IS_TYPE(callable, r->function_type)) {
            function_set_loader(callable, NULL);
        }
        Py_XDECREF(callable);
        free(r->loaders);
        r->loaders = next;
    }
    r->unresolved = 0;
    for (plugin_record *p = r->plugins; p != NULL; p = p->next) {
        drop_functions(p);
    }
    /* Newest first: a plugin may lean on one that was there before it. */
    for (plugin_record *last = NULL; last != r->plugins;) {
        plugin_record *p = r->plugins;
        while (p->next != last) {
            p = p->next;
        }
        if (p->started && p->info.fini != NULL) {
            p->started = 0;
            p->info.fini(p->state);
            p->state = NULL;
        }
        last = p;
    }
    Py_CLEAR(r->function_type);
}

void registry_free(torshi_registry *r)
{
    while (r->plugins != NULL) {
        plugin_record *next = r->plugins->next;
        free_plugin(r->plugins);
        r->plugins = next;
    }
    while (r->blocks != NULL) {
        chain_block *next = r->blocks->next;
        free(r->blocks);
        r->blocks = next;
    }
    free(r);
}

static const char *kind_name(uint32_t kind)
{
    switch (kind) {
    case TORSHI_ROW_SAVER:
        return "saver";
    case TORSHI_ROW_LOADER:
        return "loader";
    case TORSHI_ROW_FUNCTION:
        return "function";
    default:
        return "reference";
    }
}

PyObject *registry_list(torshi_registry *r)
{
    PyObject *list = PyList_New(0);
    if (list == NULL) {
        return NULL;
    }
    for (plugin_record *p = r->plugins; p != NULL; p = p->next) {
        for (size_t i = 0; p->started && i < p->info.row_count; i++) {
            const torshi_row *row = &p->rows[i];
            PyObject *name = PyUnicode_FromFormat("%s.%s", row->module, row->name);
            PyObject *item = name != NULL ? Py_BuildValue("(sNss)", kind_name(row->kind), name,
                                                          p->info.name, p->info.version)
                                          : NULL;
            if (item == NULL || PyList_Append(list, item) < 0) {
                Py_XDECREF(item);
                Py_DECREF(list);
                return NULL;
            }
            Py_DECREF(item);
        }
    }
    return list;
}
