/*
 * fuzz.h - what every fuzz target is: one function over bytes. libFuzzer calls it, or replay.c.
 */
#ifndef TORSHI_FUZZ_H
#define TORSHI_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Always returns 0; a broken property aborts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Holds in every build, unlike assert. */
#define PROPERTY(WHAT)                                                                             \
    ((WHAT) ? (void)0 : (fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #WHAT), abort()))

#endif
