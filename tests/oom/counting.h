/*
 * counting.h - malloc, calloc, realloc and free of the code under test, counted and made to fail.
 *
 * The linker puts these in the place of libc's (--wrap); libc's own calls are not touched.
 */
#ifndef TORSHI_OOM_COUNTING_H
#define TORSHI_OOM_COUNTING_H

#include <stdbool.h>
#include <stddef.h>

/* From now on let allocation number k fail (1: the next); 0: none. Starts counting anew. */
void fail_allocation(size_t k);
/* Let every allocation from number k on fail. */
void fail_from_allocation(size_t k);
/* Whether an allocation was made to fail since then. */
bool allocation_failed(void);
/* Blocks that are not freed. */
size_t blocks_alive(void);

#endif
