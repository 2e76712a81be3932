/*
 * loader.c - open a plugin, compare its record field by field, register it.
 *
 * Nothing of a plugin but torshi_plugin_info_v1 is called before its record fits, and a library is
 * closed only while no other code of it has run; what a message needs is copied before that.
 */
#include "loader.h"

#include "refusal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* What a record of each minor ABI version takes; a new minor adds a line. */
static const struct {
    size_t info_size;
    size_t row_size;
} sizes_of_minor[] = {
    {sizeof(torshi_plugin_info), sizeof(torshi_row)},
};

#define DEFAULT_PLUGIN "chunked" /* its name, and that of its file */

#ifdef Py_DEBUG
#define DEBUG_BIT TORSHI_BUILD_DEBUG
#else
#define DEBUG_BIT 0u
#endif
#ifdef Py_GIL_DISABLED
#define NOGIL_BIT TORSHI_BUILD_NOGIL
#else
#define NOGIL_BIT 0u
#endif

static int refuse_number(const char *path, const char *field, size_t theirs, size_t ours)
{
    return refuse_plugin(path, "%s is %zu, this engine has %zu", field, theirs, ours);
}

/*
 * Compare the record with this engine, in an order in which each field is known to be there before
 * it is read. 0, or -1 with ImportError.
 */
static int compare_record(const char *path, const torshi_plugin_info *info)
{
    if (info->size < offsetof(torshi_plugin_info, py_version_hex)) {
        return refuse_number(path, "size", info->size, sizeof(torshi_plugin_info));
    }
    if (info->abi_major != TORSHI_ABI_MAJOR) {
        return refuse_number(path, "abi_major", info->abi_major, TORSHI_ABI_MAJOR);
    }
    if (info->abi_minor > TORSHI_ABI_MINOR) {
        return refuse_number(path, "abi_minor", info->abi_minor, TORSHI_ABI_MINOR);
    }
    if (info->size != sizes_of_minor[info->abi_minor].info_size) {
        return refuse_number(path, "size", info->size, sizes_of_minor[info->abi_minor].info_size);
    }
    if (info->py_version_hex >> 16 != Py_Version >> 16) {
        return refuse_plugin(path, "py_version_hex is %u.%u, this Python is %u.%u",
                             (unsigned)(info->py_version_hex >> 24),
                             (unsigned)(info->py_version_hex >> 16 & 0xff),
                             (unsigned)(Py_Version >> 24), (unsigned)(Py_Version >> 16 & 0xff));
    }
    if (info->py_build != (DEBUG_BIT | NOGIL_BIT)) {
        return refuse_number(path, "py_build", info->py_build, DEBUG_BIT | NOGIL_BIT);
    }
    if (info->pointer_size != sizeof(void *)) {
        return refuse_number(path, "pointer_size", info->pointer_size, sizeof(void *));
    }
    if (info->format_version != TORSHI_FORMAT_VERSION) {
        return refuse_number(path, "format_version", info->format_version, TORSHI_FORMAT_VERSION);
    }
    if (info->row_size != sizes_of_minor[info->abi_minor].row_size) {
        return refuse_number(path, "row_size", info->row_size,
                             sizes_of_minor[info->abi_minor].row_size);
    }
    if (info->name == NULL || info->version == NULL) {
        return refuse_plugin(path, "%s is NULL", info->name == NULL ? "name" : "version");
    }
    if (info->row_count != 0 && info->rows == NULL) {
        return refuse_plugin(path, "row_count is %zu, but rows is NULL", info->row_count);
    }
    return 0;
}

/* Tell a file that is not there from one that cannot be loaded. Always -1. */
static int refuse_open(const char *path)
{
    struct stat status;
    const char *reason = dlerror();
    if (stat(path, &status) != 0) {
        return refuse_plugin(path, "%s", strerror(errno));
    }
    return refuse_plugin(path, "not a library that can be loaded (%s)",
                         reason != NULL ? reason : "no reason given");
}

int loader_load(torshi_registry *r, const char *path)
{
    int status = -1, entered = 0;
    char local[4096];
    union {
        void *data;
        torshi_plugin_info_fn function; /* ISO C has no cast between the two */
    } symbol;

    /* Without a slash dlopen would search the library path. */
    if (strchr(path, '/') == NULL) {
        int length = snprintf(local, sizeof(local), "./%s", path);
        if (length < 0 || (size_t)length >= sizeof(local)) {
            return refuse_plugin(path, "%s", strerror(ENAMETOOLONG));
        }
        path = local;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return refuse_open(path);
    }
    symbol.data = dlsym(library, TORSHI_PLUGIN_SYMBOL);
    if (symbol.data == NULL) {
        refuse_plugin(path, "no symbol %s: not a plugin of this engine", TORSHI_PLUGIN_SYMBOL);
        goto done;
    }
    const torshi_plugin_info *info = symbol.function();
    if (info == NULL) {
        refuse_plugin(path, "%s returned NULL", TORSHI_PLUGIN_SYMBOL);
        goto done;
    }
    if (compare_record(path, info) < 0) {
        goto done;
    }
    const char *other = registry_plugin_path(r, info->name);
    if (other != NULL) {
        refuse_plugin(path, "name is '%s', which %s has registered already", info->name, other);
        goto done;
    }
    status = registry_add(r, info, path, &entered);

done:
    if (!entered) {
        dlclose(library);
    }
    return status;
}

/* The path of `name` beside the file of a module; new bytes, or NULL with ImportError. */
static PyObject *path_beside(PyObject *module, const char *name)
{
    PyObject *result = NULL, *beside = NULL;
    PyObject *file = PyModule_GetFilenameObject(module);
    if (file == NULL) {
        return NULL;
    }
    Py_ssize_t slash = PyUnicode_FindChar(file, '/', 0, PyUnicode_GET_LENGTH(file), -1);
    if (slash == -2) {
        goto done;
    }
    PyObject *folder = PyUnicode_Substring(file, 0, slash + 1);
    if (folder == NULL) {
        goto done;
    }
    beside = PyUnicode_FromFormat("%U%s", folder, name);
    Py_DECREF(folder);
    if (beside != NULL) {
        result = PyUnicode_EncodeFSDefault(beside);
    }
done:
    Py_XDECREF(beside);
    Py_DECREF(file);
    return result;
}

int loader_load_default(torshi_registry *r, PyObject *module)
{
    const torshi_config *config = torshi_config_get();
    if (registry_plugin_path(r, DEFAULT_PLUGIN) != NULL) {
        return 0;
    }
    if (config->default_plugin != NULL) {
        return loader_load(r, config->default_plugin);
    }
    PyObject *path = path_beside(module, DEFAULT_PLUGIN ".so");
    if (path == NULL) {
        return -1;
    }
    int status = loader_load(r, PyBytes_AS_STRING(path));
    Py_DECREF(path);
    return status;
}

/* The exception that is set becomes a warning. 0, or -1 when warnings are errors. */
static int warn_left_out(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    int status = PyErr_WarnFormat(PyExc_ImportWarning, 1, "left out: %S", value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return status;
}

int loader_load_configured(torshi_registry *r)
{
    const torshi_config *config = torshi_config_get();
    for (size_t i = 0; i < config->plugin_count; i++) {
        const char *path = config->plugins[i];
        int optional = path[0] == '?';
        if (loader_load(r, path + optional) < 0) {
            if (!optional || !PyErr_ExceptionMatches(PyExc_ImportError)) {
                return -1;
            }
            if (warn_left_out() < 0) {
                return -1;
            }
        }
    }
    return 0;
}
