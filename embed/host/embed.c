/*
 * embed.c - start, run and stop: the life of the host, for main.c and for other programs.
 */
#include "torshi/embed.h"

#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_BAD_OPTION 2

/* An environment variable as it was before start. */
typedef struct variable {
    const char *name;
    char *before; /* owned; NULL: it was not set */
    int changed;
} variable;

/* One start at a time, for Python itself is one per process. No PyObject lives here. */
static struct {
    char *home; /* owned; torshi_embed_set_home */
    int running;
    host_options options;
    host_paths paths;
    variable mode, plugins;
} host = {.mode = {.name = "TORSHI"}, .plugins = {.name = "TORSHI_PLUGINS"}};

/* ---- the environment of child processes ------------------------------------------------------ */

static int set_variable(variable *v, const char *value)
{
    const char *before = getenv(v->name);

    if (!v->changed && before != NULL) {
        v->before = strdup(before);
        if (v->before == NULL)
            return -1;
    }
    v->changed = 1;
    return setenv(v->name, value, 1);
}

static void restore_variable(variable *v)
{
    if (!v->changed)
        return;
    if (v->before != NULL)
        setenv(v->name, v->before, 1);
    else
        unsetenv(v->name);
    free(v->before);
    v->before = NULL;
    v->changed = 0;
}

/* Only a fixed list of -X options reaches children, so the settings travel in the environment. */
static int export_settings(const host_options *options)
{
    static const char *const names[] = {
        [TORSHI_MODE_OFF] = "off",
        [TORSHI_MODE_STANDARD] = "standard",
        [TORSHI_MODE_CHUNKED] = "chunked",
    };

    if (options->mode_export && set_variable(&host.mode, names[options->mode]) < 0)
        return -1;
    if (!options->plugins_export)
        return 0;
    size_t length = 1;
    for (size_t i = 0; i < options->plugin_count; i++)
        length += strlen(options->plugins[i]) + 1;
    char *joined = malloc(length), *end = joined;
    if (joined == NULL)
        return -1;
    for (size_t i = 0; i < options->plugin_count; i++) {
        size_t n = strlen(options->plugins[i]);
        if (i > 0)
            *end++ = ':';
        memcpy(end, options->plugins[i], n);
        end += n;
    }
    *end = '\0';
    int result = set_variable(&host.plugins, joined);
    free(joined);
    return result;
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Release what one start has taken; Python is not running. */
static void release(void)
{
    static const torshi_config none = {.mode = TORSHI_MODE_CHUNKED, .internals = 1};

    torshi_config_set(&none);
    host_options_clear(&host.options);
    host_paths_clear(&host.paths);
    restore_variable(&host.mode);
    restore_variable(&host.plugins);
    host.running = 0;
}

/* Report a PyStatus that stopped the start, as python3 does; return the exit status. */
static int report_status(PyStatus status)
{
    if (PyStatus_IsExit(status)) {
        if (status.exitcode == 0 && host.options.help)
            host_options_print_help();
        else if (status.exitcode == 0 && host.options.version)
            host_options_print_version();
        return status.exitcode;
    }
    if (status.func != NULL)
        fprintf(stderr, "Fatal Python error: %s: %s\n", status.func, status.err_msg);
    else
        fprintf(stderr, "Fatal Python error: %s\n", status.err_msg);
    return 1;
}

/* Give the engine its configuration. @return 0, or the exit status with a line on stderr. */
static int configure_engine(void)
{
    const host_options *options = &host.options;

    if (options->mode == TORSHI_MODE_CHUNKED && host.paths.plugin == NULL && !options->help &&
        !options->version) {
        fputs("torshi: chunked.so is not beside the host; -X torshi=standard does without it\n",
              stderr);
        return EXIT_BAD_OPTION;
    }
    torshi_config config = {
        .mode = options->mode,
        .in_host = 1,
        .internals = options->internals,
        .plugins = (const char *const *)options->plugins,
        .plugin_count = options->plugin_count,
        .default_plugin = host.paths.plugin,
    };
    torshi_config_set(&config);
    if (export_settings(options) < 0 ||
        host_inittab_install(options->mode, host.paths.package) < 0) {
        fputs("torshi: out of memory\n", stderr);
        return 1;
    }
    return 0;
}

/* Print the current exception as one line. */
static void print_refusal(void)
{
    PyObject *type, *value, *traceback, *text = NULL;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value != NULL)
        text = PyObject_Str(value);
    const char *line = text != NULL ? PyUnicode_AsUTF8(text) : NULL;
    fprintf(stderr, "torshi: %s\n", line != NULL ? line : "the engine does not start");
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

/* Plugins that were asked for are loaded now, so that a refusal stops the start. */
static int check_plugins(void)
{
    if (host.options.plugin_count == 0)
        return 0;
    PyObject *engine = PyImport_ImportModule("_torshi");
    Py_XDECREF(engine);
    return engine != NULL ? 0 : -1;
}

int torshi_embed_set_home(const char *folder)
{
    char *copy = NULL;

    if (folder != NULL) {
        copy = strdup(folder);
        if (copy == NULL)
            return -1;
    }
    free(host.home);
    host.home = copy;
    return 0;
}

int torshi_embed_start(int argc, char **argv, int *exit_status)
{
    PyConfig config = {0}; /* what PyConfig_Clear takes, however far the start comes */
    PyStatus status;
    int result = EXIT_BAD_OPTION;

    if (host.running || Py_IsInitialized()) {
        fputs("torshi: Python is running already\n", stderr);
        if (exit_status != NULL)
            *exit_status = 1;
        return -1;
    }
    if (host_options_read(&host.options, argc, argv) < 0)
        goto done;
    if (host_paths_find(&host.paths, argc > 0 ? argv[0] : NULL, host.home) < 0) {
        fputs("torshi: out of memory\n", stderr);
        goto done;
    }
    result = configure_engine();
    if (result != 0)
        goto done;
    status = host_config_fill(&config, &host.options, argc, argv);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    if (PyStatus_Exception(status)) {
        result = report_status(status);
        goto done;
    }
    host.running = 1;
    if (host_mend_base_executable() < 0 || check_plugins() < 0) {
        print_refusal();
        result = EXIT_BAD_OPTION;
        Py_FinalizeEx();
    }
done:
    PyConfig_Clear(&config);
    if (result == 0 && host.running)
        return 0;
    release();
    if (exit_status != NULL)
        *exit_status = result;
    return -1;
}

/* ---- run, use, stop -------------------------------------------------------------------------- */

int torshi_embed_run(void)
{
    int status = Py_RunMain();

    release();
    return status;
}

/* A function row of a plugin, the default one's loaded first; new, or NULL with AttributeError. */
static PyObject *plugin_function(PyObject *engine, const char *name)
{
    PyObject *loaded = PyObject_CallMethod(engine, "load_default_plugin", NULL);
    PyObject *function = NULL;

    if (loaded != NULL) {
        Py_DECREF(loaded);
        function = PyObject_CallMethod(engine, "function", "ss", "torshi", name);
    }
    if (function == NULL && PyErr_ExceptionMatches(PyExc_LookupError))
        PyErr_Format(PyExc_AttributeError, "neither the engine nor a plugin has a function %.200s",
                     name);
    return function;
}

torshi_object *torshi_embed_function(const char *name)
{
    PyObject *engine = PyImport_ImportModule("_torshi");

    if (engine == NULL)
        return NULL;
    PyObject *function = PyObject_GetAttrString(engine, name);
    if (function == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        function = plugin_function(engine, name);
    }
    Py_DECREF(engine);
    return function;
}

static PyObject *call_one(const char *name, PyObject *argument)
{
    PyObject *function = torshi_embed_function(name);

    if (function == NULL)
        return NULL;
    PyObject *result = PyObject_CallOneArg(function, argument);
    Py_DECREF(function);
    return result;
}

torshi_object *torshi_embed_dumps(torshi_object *object)
{
    return call_one("dumps", object);
}

torshi_object *torshi_embed_loads(torshi_object *data)
{
    return call_one("loads", data);
}

int torshi_embed_stop(void)
{
    if (!host.running)
        return 0;
    int result = Py_FinalizeEx();
    release();
    return result;
}
