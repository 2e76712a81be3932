/*
 * paths.c - where the host's own plugin and package lie.
 *
 * Two layouts: the build folder (torshi, chunked.so and lib/torshi in one place) and an installed
 * one (bin/torshi, lib/torshi/chunked.so, lib/torshi/torshi).
 */
#include "host.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
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

/* Take folder + tail if there is such a file; *found stays NULL otherwise. -1: no memory. */
static int take(char **found, const char *folder, const char *tail)
{
    if (*found != NULL)
        return 0;
    char *path = join(folder, tail);
    if (path == NULL)
        return -1;
    if (access(path, R_OK) == 0)
        *found = path;
    else
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

int host_paths_find(host_paths *paths, const PyConfig *config, const char *home)
{
    const wchar_t *programs[] = {config->executable, config->base_executable};
    char *self = NULL;
    int result = -1;

    if (home != NULL) {
        result = look_into(paths, home);
        goto done;
    }
    self = host_paths_self();
    if (self != NULL && look_beside(paths, self, 0) < 0)
        goto done;
    for (size_t i = 0; i < 2; i++) {
        if (programs[i] == NULL || programs[i][0] == L'\0')
            continue;
        char *program = Py_EncodeLocale(programs[i], NULL);
        if (program == NULL)
            continue; /* not a path of this file system */
        int looked = look_beside(paths, program, 0);
        if (looked == 0)
            looked = look_beside(paths, program, 1);
        PyMem_Free(program);
        if (looked < 0)
            goto done;
    }
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
