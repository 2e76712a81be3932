#include "counting.h"

#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static size_t count, fail_at, fail_from, alive;
static bool failed;

void fail_allocation(size_t k)
{
    count = 0;
    fail_at = k;
    fail_from = 0;
    failed = false;
}

void fail_from_allocation(size_t k)
{
    fail_allocation(0);
    fail_from = k;
}

bool allocation_failed(void)
{
    return failed;
}

size_t blocks_alive(void)
{
    return alive;
}

static bool fails_now(void)
{
    count++;
    bool now = count == fail_at || (fail_from && count >= fail_from);
    failed |= now;
    return now;
}

/* Counts a new block. */
static void *taken(void *p)
{
    alive += p != NULL;
    return p;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : taken(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : taken(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t size)
{
    if (fails_now()) {
        return NULL; /* p stays */
    }
    return p ? __real_realloc(p, size) : taken(__real_realloc(p, size));
}

void __wrap_free(void *p)
{
    alive -= p != NULL;
    __real_free(p);
}
