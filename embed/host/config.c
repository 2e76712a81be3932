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

#include <stdio.h>
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

PyStatus host_config_fill(PyConfig *config, const host_options *options, int argc, char **argv)
{
    PyStatus status = preinitialize(options, argc, argv);

    if (PyStatus_Exception(status))
        return status;
    PyConfig_InitPythonConfig(config);
    status = PyConfig_SetBytesArgv(config, argc, argv);
    if (PyStatus_Exception(status) || access(TORSHI_PYTHON_STDLIB "/os.py", R_OK) != 0)
        return status;
    status = PyConfig_SetBytesString(config, &config->prefix, TORSHI_PYTHON_PREFIX);
    if (PyStatus_Exception(status))
        return status;
    return PyConfig_SetBytesString(config, &config->exec_prefix, TORSHI_PYTHON_EXEC_PREFIX);
}

/* Set sys._base_executable to path, if that is a program; 1 when it is, 0, or -1 on error. */
static int set_base_executable(const char *folder, const char *name)
{
    PyObject *text = NULL;
    size_t length = strlen(folder) + strlen(name) + 1;
    char *path = malloc(length);
    int result = -1;

    if (path == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    snprintf(path, length, "%s%s", folder, name);
    result = access(path, X_OK) == 0;
    if (result) {
        text = PyUnicode_DecodeFSDefault(path);
        if (text == NULL || PySys_SetObject("_base_executable", text) < 0)
            result = -1;
    }
    Py_XDECREF(text);
    free(path);
    return result;
}

/* The file name behind a name in sys: new bytes, or NULL without or with an exception. */
static PyObject *encoded(const char *name)
{
    PyObject *text = PySys_GetObject(name);

    if (text == NULL || !PyUnicode_Check(text) || PyUnicode_GET_LENGTH(text) == 0)
        return NULL;
    return PyUnicode_EncodeFSDefault(text);
}

/*
 * In a virtual environment the path configuration takes `home` of pyvenv.cfg with the name that
 * this program was called by. Where the environment links to the host, what it links to is right
 * whatever `home` says; where it holds a copy, the name may not exist in `home`.
 */
int host_mend_base_executable(void)
{
    PyObject *executable = encoded("executable"), *base = encoded("_base_executable");
    char *self = host_paths_self(), *folder = NULL, *real = NULL;
    int result = 0;

    if (executable == NULL || base == NULL || self == NULL ||
        strcmp(PyBytes_AS_STRING(executable), PyBytes_AS_STRING(base)) == 0)
        goto done;
    folder = strdup(PyBytes_AS_STRING(executable));
    char *slash = folder != NULL ? strrchr(folder, '/') : NULL;
    if (slash != NULL) {
        *slash = '\0';
        real = realpath(folder, NULL);
    }
    size_t length = real != NULL ? strlen(real) : 0;
    if (length > 0 && (strncmp(self, real, length) != 0 || self[length] != '/')) {
        result = set_base_executable(self, "");
        goto done;
    }
    slash = strrchr(PyBytes_AS_STRING(base), '/');
    if (access(PyBytes_AS_STRING(base), X_OK) == 0 || slash == NULL)
        goto done;
    *slash = '\0'; /* our own bytes object */
    result = set_base_executable(PyBytes_AS_STRING(base), "/torshi");
    if (result == 0)
        result = set_base_executable(PyBytes_AS_STRING(base), "/python3");
done:
    if (PyErr_Occurred())
        result = -1;
    Py_XDECREF(executable);
    Py_XDECREF(base);
    free(self);
    free(folder);
    free(real);
    return result < 0 ? -1 : 0;
}
