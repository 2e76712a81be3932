/*
 * config.c - PyPreConfig and PyConfig of the host: python3's own, with three things set.
 *
 * 1. The allocator, when asked for. 2. prefix and exec_prefix: those of the interpreter this was
 * built against, because the search for landmarks starts at the executable, which lies outside
 * of that Python and might find another one's library first. PYTHONHOME still wins, and virtual
 * environments are found as ever, both by the path configuration itself. 3. The base executable
 * of a virtual environment, when the path configuration has guessed a file that is not a host.
 */
#include "host.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static PyStatus preinitialize(const host_options *options, int argc, char **argv)
{
    PyPreConfig preconfig;

    PyPreConfig_InitPythonConfig(&preconfig);
    if (options->allocator != PYMEM_ALLOCATOR_NOT_SET)
        preconfig.allocator = options->allocator;
    return Py_PreInitializeFromBytesArgs(&preconfig, argc, argv);
}

/* Whether a decoded path names a file that can be run. */
static int is_program(const wchar_t *path)
{
    char *bytes = Py_EncodeLocale(path, NULL);
    int result = bytes != NULL && access(bytes, X_OK) == 0;

    PyMem_Free(bytes);
    return result;
}

/* Replace the last component of the base executable by name, if that names a program. */
static PyStatus try_sibling(PyConfig *config, const wchar_t *name, int *found)
{
    PyStatus status = PyStatus_Ok();
    const wchar_t *slash = wcsrchr(config->base_executable, L'/');

    if (slash == NULL)
        return status;
    size_t folder = (size_t)(slash - config->base_executable) + 1, length = wcslen(name);
    wchar_t *path = PyMem_RawMalloc((folder + length + 1) * sizeof(*path));
    if (path == NULL)
        return PyStatus_NoMemory();
    wmemcpy(path, config->base_executable, folder);
    wmemcpy(path + folder, name, length + 1);
    if (is_program(path)) {
        *found = 1;
        status = PyConfig_SetString(config, &config->base_executable, path);
    }
    PyMem_RawFree(path);
    return status;
}

/*
 * In a virtual environment the base executable is `home` of pyvenv.cfg with the name that this
 * program was called by. Where the environment links to the host, what it links to is right
 * whatever `home` says; where it holds a copy, the name may not exist in `home`.
 */
static PyStatus mend_base_executable(PyConfig *config)
{
    PyStatus status = PyStatus_Ok();
    char *self = NULL, *executable = NULL, *real_folder = NULL;
    const wchar_t *base = config->base_executable;

    if (base == NULL || config->executable == NULL || wcscmp(base, config->executable) == 0)
        goto done;
    executable = Py_EncodeLocale(config->executable, NULL);
    self = host_paths_self();
    if (executable == NULL || self == NULL)
        goto done;
    char *slash = strrchr(executable, '/');
    if (slash != NULL) {
        *slash = '\0';
        real_folder = realpath(executable, NULL);
    }
    size_t length = real_folder != NULL ? strlen(real_folder) : 0;
    if (length > 0 && (strncmp(self, real_folder, length) != 0 || self[length] != '/')) {
        status = PyConfig_SetBytesString(config, &config->base_executable, self);
        goto done;
    }
    int found = is_program(base);
    if (!found)
        status = try_sibling(config, L"torshi", &found);
    if (!PyStatus_Exception(status) && !found)
        status = try_sibling(config, L"python3", &found);
done:
    PyMem_Free(executable);
    free(self);
    free(real_folder);
    return status;
}

PyStatus host_config_read(PyConfig *config, const host_options *options, int argc, char **argv)
{
    PyStatus status = preinitialize(options, argc, argv);

    if (PyStatus_Exception(status))
        return status;
    PyConfig_InitPythonConfig(config);
    status = PyConfig_SetBytesArgv(config, argc, argv);
    if (PyStatus_Exception(status))
        return status;
    if (access(TORSHI_PYTHON_STDLIB "/os.py", R_OK) == 0) {
        status = PyConfig_SetBytesString(config, &config->prefix, TORSHI_PYTHON_PREFIX);
        if (PyStatus_Exception(status))
            return status;
        status = PyConfig_SetBytesString(config, &config->exec_prefix, TORSHI_PYTHON_EXEC_PREFIX);
        if (PyStatus_Exception(status))
            return status;
    }
    status = PyConfig_Read(config);
    if (PyStatus_Exception(status))
        return status;
    return mend_base_executable(config);
}
