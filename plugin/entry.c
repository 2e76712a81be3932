/*
 * entry.c - the plugin's record and its rows; its one exported symbol.
 */
#include "plugin.h"
#include "refs.h"

#ifdef Py_DEBUG
#define BUILD_DEBUG TORSHI_BUILD_DEBUG
#else
#define BUILD_DEBUG 0u
#endif
#ifdef Py_GIL_DISABLED
#define BUILD_NOGIL TORSHI_BUILD_NOGIL
#else
#define BUILD_NOGIL 0u
#endif

/* Containers of one entry are not looked at: what is in them is. */
#ifdef TORSHI_ALWAYS_CHUNK /* a build for tests */
#define MIN_ITEMS 0
#else
#define MIN_ITEMS 2
#endif

static void plugin_fini(void *plugin)
{
    plugin_state *state = plugin;
    decode_clear(state);
    writer_clear(state);
    extract_types_clear(&state->extract);
    refs_clear(state);
    PyMem_Free(state);
}

static int plugin_init(const torshi_services *services, void **plugin)
{
    plugin_state *state = PyMem_Calloc(1, sizeof(*state));
    if (!state) {
        PyErr_NoMemory();
        return -1;
    }
    state->services = services;
    state->objects = services->objects;
    if (decode_init(state) < 0 || writer_init(state) < 0 ||
        extract_types_init(&state->extract) < 0 || refs_init(state) < 0) {
        plugin_fini(state);
        return -1;
    }
    *plugin = state;
    return 0;
}

static int plugin_traverse(void *plugin, int (*visit)(PyObject *, void *), void *arg)
{
    plugin_state *state = plugin;
    int result = decode_traverse(state, visit, arg);
    if (result == 0) {
        result = writer_traverse(state, visit, arg);
    }
    if (result == 0) {
        result = extract_types_traverse(&state->extract, visit, arg);
    }
    if (result == 0) {
        result = refs_traverse(state, visit, arg);
    }
    return result;
}

static PyObject *extract_call(void *plugin, PyObject *const *args, intptr_t nargs,
                              PyObject *kwnames)
{
    plugin_state *state = plugin;
    return extract_serialize(state->objects, &state->extract, args, nargs, kwnames);
}

static PyObject *insert_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    (void)plugin;
    return insert_serialized(args, nargs, kwnames);
}

static PyObject *types_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    (void)args;
    if (nargs || kwnames) {
        PyErr_SetString(PyExc_TypeError, "_serialize_types() takes no arguments");
        return NULL;
    }
    return extract_types_tuple(&((plugin_state *)plugin)->extract);
}

static PyObject *survey_call(void *plugin, PyObject *const *args, intptr_t nargs, PyObject *kwnames)
{
    (void)plugin;
    return survey_types(args, nargs, kwnames);
}

static const torshi_row rows[] = {
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "chunk",
     .call = chunk_call,
     .doc =
         "chunk($module, target, payload, roll=None, /, *externals)\n--\n\n"
         "Fill target, a dict or list, or a new one of a class derived from these, from payload\n"
         "(docs/format.md) and return it.\n\n"
         "Mutable objects made on the way are appended to roll; chunk(roll, index) fetches one."},
    {.kind = TORSHI_ROW_LOADER, .module = "torshi", .name = "chunk", .load = chunk_load},
    {.kind = TORSHI_ROW_SAVER,
     .module = "builtins",
     .name = "dict",
     .type = &PyDict_Type,
     .min_items = MIN_ITEMS,
     .save = save_dict},
    {.kind = TORSHI_ROW_SAVER,
     .module = "builtins",
     .name = "list",
     .type = &PyList_Type,
     .min_items = MIN_ITEMS,
     .save = save_list},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "extract_serialize",
     .call = extract_call,
     .doc = "extract_serialize($module, x, /, *, types=None)\n--\n\n"
            "Take Serialize objects and large byte strings out of nested dicts and lists.\n\n"
            "Returns (x2, ser, bytestrings): a copy without them, and what was where, by path."},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "insert_serialized",
     .call = insert_call,
     .doc = "insert_serialized($module, x, ser, bytestrings=(), /)\n--\n\n"
            "Put what extract_serialize took out back into x, which is changed and returned."},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "_serialize_types",
     .call = types_call,
     .doc = "_serialize_types($module, /)\n--\n\n"
            "The default classes of extract_serialize: (Serialize, Serialized, to_serialize)."},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "_survey",
     .call = survey_call,
     .doc = "_survey($module, x, watch, /)\n--\n\n"
            "The types of the leaves of a nested collection, and those leaves that are watched."},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "_encode",
     .call = encode_call,
     .doc =
         "_encode($module, container, mode, when, margin, /)\n--\n\n"
         "Columns of a dict or list for a reducer, when they look worth trying and are shorter by\n"
         "margin bytes (when 0), are shorter by them (1), or in any case (2).\n"
         "None, or (arguments of chunk from the payload on, pairs to set later, numbers of those\n"
         "whose value nobody else has)."},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "object_ref",
     .call = object_ref_call,
     .doc = "object_ref($module, id, owner, site, /)\n--\n\n"
            "An ObjectRef; what one pickles as a call of."},
    {.kind = TORSHI_ROW_LOADER, .module = "torshi", .name = "object_ref", .load = object_ref_load},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "ref_count",
     .call = ref_count_call,
     .doc = "ref_count($module, id, /)\n--\n\nHow many ObjectRefs with this id are alive."},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "ref_counts",
     .call = ref_counts_call,
     .doc = "ref_counts($module, /)\n--\n\nThe same for every id that there is, as a dict."},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "register_ref",
     .call = register_ref_call,
     .doc = "register_ref($module, cls, /, *, reduce=None, batch=None, callables=(), outer=None, "
            "worker=None)\n--\n\n"
            "Objects of exactly cls are references: many of one class become a column for each\n"
            "argument. docs/references.md has the contract."},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "unregister_ref",
     .call = unregister_ref_call,
     .doc = "unregister_ref($module, cls, /)\n--\n\nUndo register_ref; ValueError if there is "
            "nothing to undo."},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "_known_ref",
     .call = known_ref_call,
     .doc = "_known_ref($module, cls, /)\n--\n\nThe registration of a class, or None."},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "_restore_ref",
     .call = restore_ref_call,
     .doc = "_restore_ref($module, made, before, /)\n--\n\n"
            "Put a registration back in the place of a later one."},
    {.kind = TORSHI_ROW_FUNCTION,
     .module = "torshi",
     .name = "_ref_types",
     .call = ref_types_call,
     .doc = "_ref_types($module, /)\n--\n\n(ObjectRef, RefLoad)"},
};

static const torshi_plugin_info info = {
    .size = sizeof(torshi_plugin_info),
    .abi_major = TORSHI_ABI_MAJOR,
    .abi_minor = TORSHI_ABI_MINOR,
    .py_version_hex = PY_VERSION_HEX,
    .py_build = BUILD_DEBUG | BUILD_NOGIL,
    .pointer_size = sizeof(void *),
    .format_version = TORSHI_FORMAT_VERSION,
    .name = "chunked",
    .version = "0.1.0",
    .init = plugin_init,
    .fini = plugin_fini,
    .traverse = plugin_traverse,
    .rows = rows,
    .row_count = sizeof(rows) / sizeof(rows[0]),
    .row_size = sizeof(torshi_row),
};

TORSHI_PLUGIN_EXPORT const torshi_plugin_info *torshi_plugin_info_v1(void);

const torshi_plugin_info *torshi_plugin_info_v1(void)
{
    return &info;
}
