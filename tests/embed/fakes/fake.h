/*
 * fake.h - what the fake plugins have in common: a record that fits, of which each changes one
 * thing. What it changes is the file of the fake.
 */
#ifndef TORSHI_TESTS_FAKE_H
#define TORSHI_TESTS_FAKE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "torshi/abi.h"

#ifdef Py_DEBUG
#define FAKE_BUILD TORSHI_BUILD_DEBUG
#else
#define FAKE_BUILD 0u
#endif

/* The members of a record that fits, to be followed by those that do not. */
#define FAKE_RECORD(fake_name)                                                                     \
    .size = sizeof(torshi_plugin_info), .abi_major = TORSHI_ABI_MAJOR,                             \
    .abi_minor = TORSHI_ABI_MINOR, .py_version_hex = PY_VERSION_HEX, .py_build = FAKE_BUILD,       \
    .pointer_size = sizeof(void *), .format_version = TORSHI_FORMAT_VERSION, .name = (fake_name),  \
    .version = "1", .row_size = sizeof(torshi_row)

/* An init that must never run: whoever calls it has not compared the record first. */
static inline int fake_init_too_early(const torshi_services *services, void **state)
{
    (void)services;
    (void)state;
    Py_FatalError("init was called of a plugin that does not fit");
}

/* The exported function, over a record called `info`. */
#define FAKE_EXPORT                                                                                \
    TORSHI_PLUGIN_EXPORT const torshi_plugin_info *torshi_plugin_info_v1(void);                    \
    const torshi_plugin_info *torshi_plugin_info_v1(void)                                          \
    {                                                                                              \
        return &info;                                                                              \
    }

#endif
