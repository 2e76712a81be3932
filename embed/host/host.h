/*
 * host.h - what the files of the host share. Python.h comes in with state.h.
 */
#ifndef TORSHI_HOST_H
#define TORSHI_HOST_H

#include "state.h"

/* What argv and the environment ask of Torshi. Plain C: read before Python is there. */
typedef struct host_options {
    int mode;       /* TORSHI_MODE_* */
    int internals;  /* 0: public API only */
    int allocator;  /* PyMemAllocatorName; PYMEM_ALLOCATOR_NOT_SET: Python's own choice */
    char **plugins; /* owned, each too; absolute paths, a leading '?' marks optional */
    size_t plugin_count;
    int mode_export;    /* children would conclude something else: export TORSHI */
    int plugins_export; /* likewise TORSHI_PLUGINS */
    int help;           /* -h, -? or --help is among the options */
    int version;        /* -V or --version */
} host_options;

/*
 * Read options and environment. Prints one line on stderr when something is wrong.
 * @return 0, or -1; host_options_clear is due in both cases.
 */
TORSHI_HIDDEN int host_options_read(host_options *options, int argc, char **argv);
TORSHI_HIDDEN void host_options_clear(host_options *options);
/* Print on stdout what we add to Python's own --help or --version. */
TORSHI_HIDDEN void host_options_print_help(void);
TORSHI_HIDDEN void host_options_print_version(void);

/* Where the plugin and the package lie. */
typedef struct host_paths {
    char *plugin;  /* owned; absolute path of chunked.so, or NULL */
    char *package; /* owned; the folder to import torshi from, or NULL */
} host_paths;

/*
 * Look beside the running program's real path, beside argv[0], and in the `home` of pyvenv.cfg
 * where the program is a copy in a virtual environment; `home`, when not NULL, is the only place
 * looked at.
 * @return 0, or -1 when there is no memory; host_paths_clear is due in both cases.
 */
TORSHI_HIDDEN int host_paths_find(host_paths *paths, const char *argv0, const char *home);
TORSHI_HIDDEN void host_paths_clear(host_paths *paths);
/* The real path of the running program: malloc'ed, or NULL when it cannot be told. */
TORSHI_HIDDEN char *host_paths_self(void);

/* Fill in `config` for argv; PyConfig_Clear is due in any case. */
TORSHI_HIDDEN PyStatus host_config_fill(PyConfig *config, const host_options *options, int argc,
                                        char **argv);
/*
 * Make sys._base_executable name a host in a virtual environment. @pre Python runs.
 * @return 0, or -1 with an exception set.
 */
TORSHI_HIDDEN int host_mend_base_executable(void);

/*
 * Put the engine into the table of built-in modules: `_torshi`, `_torshi_stock_pickle`, `torshi`
 * (the package in that folder, unless NULL) and, unless the mode is off, `_pickle`.
 * @pre Python is not running. @param package  borrowed until Python has ended.
 * @return 0, or -1 when there is no memory.
 */
TORSHI_HIDDEN int host_inittab_install(int mode, const char *package);

#endif
