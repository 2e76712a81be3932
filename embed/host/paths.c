/*
 * paths.c - where the host's own plugin and package lie.
 *
 * Two layouts: the build folder (torshi, chunked.so and lib/torshi in one place) and an installed
 * one (bin/torshi, lib/torshi/chunked.so, lib/torshi/torshi).
 */
#include "host.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* folder + tail, malloc'ed; NULL without memory. */
static char *join(const char *folder, const char *tail)
{
    size_t a = strlen(folder), b = strlen(tail);
    char *path = malloc(a + b + 1);

    if (path != NULL) {
        memcpy(path, folder, a);
        memcpy(path + a, tail, b + 1);
    }
    return path;
}

/* Cut the last component off, in place. */
static void cut_name(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash != NULL)
        *slash = '\0';
}

/* Take the real path of folder + tail if there is such a file; *found stays NULL otherwise. -1: no
   memory. */
static int take(char **found, const char *folder, const char *tail)
{
    if (*found != NULL)
        return 0;
    char *path = join(folder, tail);
    if (path == NULL)
        return -1;
    if (access(path, R_OK) == 0)
        *found = realpath(path, NULL);
    free(path);
    return 0;
}

/* Look into a folder for both layouts. */
static int look_into(host_paths *paths, const char *folder)
{
    static const struct {
        const char *plugin, *package, *landmark;
    } layouts[] = {
        {"/chunked.so", "/lib", "/lib/torshi/__init__.py"},
        {"/../lib/torshi/chunked.so", "/../lib/torshi", "/../lib/torshi/torshi/__init__.py"},
    };

    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        char *landmark = NULL;
        if (take(&paths->plugin, folder, layouts[i].plugin) < 0 ||
            take(&landmark, folder, layouts[i].landmark) < 0)
            return -1;
        int here = landmark != NULL;
        free(landmark);
        if (here && take(&paths->package, folder, layouts[i].package) < 0)
            return -1;
    }
    return 0;
}

/* Look beside a program; `real` tells to follow symbolic links first. */
static int look_beside(host_paths *paths, const char *program, int real)
{
    if (paths->plugin != NULL && paths->package != NULL)
        return 0;
    char *path = real ? realpath(program, NULL) : join(program, "");
    if (path == NULL)
        return real ? 0 : -1; /* a program that is not there has nothing beside it */
    cut_name(path);
    int result = look_into(paths, path);
    free(path);
    return result;
}

char *host_paths_self(void)
{
    return realpath("/proc/self/exe", NULL);
}

/* The value of `home = ...` in folder + "/pyvenv.cfg": malloc'ed; NULL when there is none. */
static char *read_home(const char *folder)
{
    char line[PATH_MAX + 64], *home = NULL, *path = join(folder, "/pyvenv.cfg");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;

    while (file != NULL && home == NULL && fgets(line, sizeof(line), file) != NULL) {
        char *value = strchr(line, '=');
        if (value == NULL || strncasecmp(line + strspn(line, " \t"), "home", 4) != 0)
            continue;
        *value++ = '\0';
        line[strcspn(line, " \t")] = '\0';
        if (strcasecmp(line, "home") != 0)
            continue;
        value += strspn(value, " \t");
        size_t length = strcspn(value, "\r\n");
        while (length > 0 && strchr(" \t", value[length - 1]) != NULL)
            length--;
        value[length] = '\0';
        home = join(value, "");
    }
    if (file != NULL)
        fclose(file);
    free(path);
    return home;
}

/* A copy of the host in a virtual environment: look where its original lies. */
static int look_from_venv(host_paths *paths, const char *self)
{
    static const char *const names[] = {"/torshi", "/python3"};
    char *folder = join(self, ""), *home = NULL;
    int result = -1;

    if (folder == NULL)
        return -1;
    for (int up = 0; up < 2 && home == NULL; up++) {
        cut_name(folder);
        home = read_home(folder);
    }
    result = home != NULL ? look_into(paths, home) : 0;
    for (size_t i = 0; home != NULL && result == 0 && i < sizeof(names) / sizeof(*names); i++) {
        char *program = join(home, names[i]);
        result = program != NULL ? look_beside(paths, program, 1) : -1;
        free(program);
    }
    free(folder);
    free(home);
    return result;
}

int host_paths_find(host_paths *paths, const char *argv0, const char *home)
{
    char *self = NULL;
    int result = -1;

    if (home != NULL)
        return look_into(paths, home);
    self = host_paths_self();
    if (self != NULL && look_beside(paths, self, 0) < 0)
        goto done;
    if (argv0 != NULL && strchr(argv0, '/') != NULL && look_beside(paths, argv0, 0) < 0)
        goto done;
    if (self != NULL && (paths->plugin == NULL || paths->package == NULL) &&
        look_from_venv(paths, self) < 0)
        goto done;
    result = 0;
done:
    free(self);
    return result;
}

void host_paths_clear(host_paths *paths)
{
    free(paths->plugin);
    free(paths->package);
    *paths = (host_paths){0};
}
