/*
 * options.c - Torshi's own -X options and environment variables.
 *
 * argv is walked exactly as Python walks it, because an -X behind the script's name is the
 * script's. Python itself reads the same argv later and keeps our options in sys._xoptions.
 */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODE_DEFAULT TORSHI_MODE_CHUNKED
#define PATH_SEPARATOR ':'

typedef struct word {
    const char *name;
    int value;
} word;

static const word modes[] = {
    {"chunked", TORSHI_MODE_CHUNKED},
    {"standard", TORSHI_MODE_STANDARD},
    {"off", TORSHI_MODE_OFF},
    {NULL, 0},
};

static const word switches[] = {{"on", 1}, {"off", 0}, {"1", 1}, {"0", 0}, {NULL, 0}};

/* The words of PYTHONMALLOC, which an isolated configuration does not read. */
static const word allocators[] = {
    {"default", PYMEM_ALLOCATOR_DEFAULT},
    {"debug", PYMEM_ALLOCATOR_DEBUG},
    {"malloc", PYMEM_ALLOCATOR_MALLOC},
    {"malloc_debug", PYMEM_ALLOCATOR_MALLOC_DEBUG},
    {"pymalloc", PYMEM_ALLOCATOR_PYMALLOC},
    {"pymalloc_debug", PYMEM_ALLOCATOR_PYMALLOC_DEBUG},
    {NULL, 0},
};

/* Options of the running Python that take a value, besides -c and -m, which end the options. */
#define OPTIONS_WITH_VALUE "WX"

/* ---- values ---------------------------------------------------------------------------------- */

/* Find value[0:length] in words. Prints what would have been right and returns -1 otherwise. */
static int choose(const char *setting, const char *value, const word *words, int *result)
{
    for (const word *w = words; w->name != NULL; w++) {
        if (strcmp(w->name, value) == 0) {
            *result = w->value;
            return 0;
        }
    }
    fprintf(stderr, "torshi: %s=%s: the value must be ", setting, value);
    for (const word *w = words; w->name != NULL; w++) {
        const char *between = w == words ? "" : w[1].name == NULL ? " or " : ", ";
        fprintf(stderr, "%s%s", between, w->name);
    }
    fputc('\n', stderr);
    return -1;
}

static int no_memory(void)
{
    fputs("torshi: out of memory\n", stderr);
    return -1;
}

/* The absolute form of path[0:length], the '?' in front kept. malloc'ed, or NULL. */
static char *absolute(const char *path, size_t length)
{
    char *folder = NULL, *result = NULL;
    size_t mark = length > 0 && path[0] == '?', folder_length = 0;

    if (length > mark && path[mark] != '/') {
        folder = getcwd(NULL, 0);
        if (folder == NULL)
            goto done;
        folder_length = strlen(folder);
    }
    if (length > SIZE_MAX - folder_length - 3)
        goto done;
    result = malloc(length + folder_length + 3);
    if (result == NULL)
        goto done;
    char *end = result;
    if (mark)
        *end++ = '?';
    if (folder != NULL) {
        memcpy(end, folder, folder_length);
        end += folder_length;
        *end++ = '/';
    }
    memcpy(end, path + mark, length - mark);
    end[length - mark] = '\0';
done:
    free(folder);
    return result;
}

/* Append a plugin's path to the list. */
static int add_plugin(host_options *options, const char *path, size_t length)
{
    char **grown = realloc(options->plugins, (options->plugin_count + 1) * sizeof(*grown));

    if (grown == NULL)
        return no_memory();
    options->plugins = grown;
    grown[options->plugin_count] = absolute(path, length);
    if (grown[options->plugin_count] == NULL)
        return no_memory();
    options->plugin_count++;
    return 0;
}

/* ---- -X options ------------------------------------------------------------------------------ */

/* What argv says; the environment fills in what it leaves open. */
typedef struct argv_settings {
    int mode;    /* -1: not given */
    int plugins; /* how many were given */
} argv_settings;

/* One -X option. Those that do not begin with "torshi" are Python's. */
static int read_x_option(host_options *options, argv_settings *given, const char *text)
{
    if (strncmp(text, "torshi", 6) != 0 || (text[6] != '\0' && text[6] != '=' && text[6] != '.'))
        return 0;
    const char *value = strchr(text, '=');
    size_t name = value != NULL ? (size_t)(value - text) : strlen(text);
    value = value != NULL ? value + 1 : "";

#define IS(word) (name == sizeof(word) - 1 && memcmp(text, word, name) == 0)
    if (IS("torshi"))
        return choose("-X torshi", value, modes, &given->mode);
    if (IS("torshi.allocator"))
        return choose("-X torshi.allocator", value, allocators, &options->allocator);
    if (IS("torshi.internals"))
        return choose("-X torshi.internals", value, switches, &options->internals);
    if (IS("torshi.plugin")) {
        if (value[value[0] == '?'] == '\0') {
            fputs("torshi: -X torshi.plugin: the path of a plugin must follow\n", stderr);
            return -1;
        }
        if (strchr(value, PATH_SEPARATOR) != NULL) {
            fprintf(stderr,
                    "torshi: -X torshi.plugin=%s: a path with '%c' in it cannot be handed"
                    " to child processes\n",
                    value, PATH_SEPARATOR);
            return -1;
        }
        given->plugins++;
        return add_plugin(options, value, strlen(value));
    }
#undef IS
    fprintf(stderr,
            "torshi: -X %s: no such option; there are torshi, torshi.plugin,"
            " torshi.allocator and torshi.internals\n",
            text);
    return -1;
}

/* Walk the interpreter's own options in argv. */
static int read_argv(host_options *options, argv_settings *given, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (arg[0] != '-' || arg[1] == '\0' || strcmp(arg, "--") == 0)
            return 0; /* script, standard input, end of options */
        if (arg[1] == '-') {
            options->help |= strncmp(arg, "--help", 6) == 0;
            options->version |= strcmp(arg, "--version") == 0;
            if (strcmp(arg, "--check-hash-based-pycs") == 0)
                i++;
            continue;
        }
        for (const char *letter = arg + 1; *letter != '\0'; letter++) {
            if (*letter == 'c' || *letter == 'm')
                return 0; /* the rest is the program's */
            options->help |= *letter == 'h' || *letter == '?';
            options->version |= *letter == 'V';
            if (strchr(OPTIONS_WITH_VALUE, *letter) == NULL)
                continue;
            const char *value = letter[1] != '\0' ? letter + 1 : ++i < argc ? argv[i] : "";
            if (*letter == 'X' && read_x_option(options, given, value) < 0)
                return -1;
            break;
        }
    }
    return 0;
}

/* ---- the environment ------------------------------------------------------------------------- */

static int read_plugins_variable(host_options *options, const char *text)
{
    for (;;) {
        size_t length = strcspn(text, ":");
        size_t mark = length > 0 && text[0] == '?';
        if (length > mark) {
            /* A relative path means something else in a child that has changed its folder. */
            options->plugins_export |= text[mark] != '/';
            if (add_plugin(options, text, length) < 0)
                return -1;
        }
        if (text[length] == '\0')
            return 0;
        text += length + 1;
    }
}

int host_options_read(host_options *options, int argc, char **argv)
{
    argv_settings given = {.mode = -1};
    const char *mode = getenv("TORSHI"), *plugins = getenv("TORSHI_PLUGINS");
    const char *internals = getenv("TORSHI_INTERNALS");
    int inherited = MODE_DEFAULT;

    *options = (host_options){.internals = 1, .allocator = PYMEM_ALLOCATOR_NOT_SET};
    if (internals != NULL && internals[0] != '\0' &&
        choose("TORSHI_INTERNALS", internals, switches, &options->internals) < 0)
        return -1;
    if (read_argv(options, &given, argc, argv) < 0)
        return -1;
    if (given.mode >= 0) {
        for (const word *w = modes; mode != NULL && w->name != NULL; w++)
            inherited = strcmp(w->name, mode) == 0 ? w->value : inherited;
        options->mode = given.mode;
        options->mode_export = inherited != given.mode;
    } else if (mode != NULL && mode[0] != '\0') {
        if (choose("TORSHI", mode, modes, &options->mode) < 0)
            return -1;
    } else {
        options->mode = MODE_DEFAULT;
    }
    if (given.plugins > 0)
        options->plugins_export = 1;
    else if (plugins != NULL)
        return read_plugins_variable(options, plugins);
    return 0;
}

void host_options_clear(host_options *options)
{
    for (size_t i = 0; i < options->plugin_count; i++)
        free(options->plugins[i]);
    free(options->plugins);
    options->plugins = NULL;
    options->plugin_count = 0;
}

/* ---- our part of --help and --version -------------------------------------------------------- */

void host_options_print_help(void)
{
    static const char text[] =
        "\n"
        "Torshi " TORSHI_VERSION " takes the place of _pickle in this Python:\n"
        "-X torshi=MODE          : chunked (default): dicts and references travel in chunks;\n"
        "                          standard: the bytes of _pickle; off: _pickle itself\n"
        "-X torshi.plugin=PATH   : load a further plugin (repeatable; ?PATH: go on without it\n"
        "                          when it is refused)\n"
        "-X torshi.allocator=NAME: as PYTHONMALLOC, under -E and -I too\n"
        "-X torshi.internals=off : use Python's public C API only\n"
        "TORSHI                  : MODE, unless -X torshi is given\n"
        "TORSHI_PLUGINS          : ':'-separated plugins, unless -X torshi.plugin is given\n"
        "TORSHI_INTERNALS        : on or off, unless -X torshi.internals is given\n";
    fputs(text, stdout);
}

void host_options_print_version(void)
{
    puts("Torshi " TORSHI_VERSION);
}
