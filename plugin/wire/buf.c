/*
 * buf.c - growable output.
 */
#include "wire.h"

#include <stdlib.h>

enum { FIRST_CAP = 256 };

bool torshi_buf_grow(torshi_buf *b, size_t n)
{
    /* No object is larger than PTRDIFF_MAX; below that no sum here wraps. */
    if (n > PTRDIFF_MAX - b->len) {
        return false;
    }
    size_t need = b->len + n;
    /* Half as much again: appending stays linear in all, and memory near what is used. */
    size_t cap = b->cap + b->cap / 2;
    if (cap < need) {
        cap = need;
    }
    if (cap < FIRST_CAP) {
        cap = FIRST_CAP;
    }
    uint8_t *data = realloc(b->data, cap);
    if (!data) {
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

void torshi_buf_free(torshi_buf *b)
{
    free(b->data);
    *b = (torshi_buf){0};
}

size_t torshi_uvar_size(uint64_t v)
{
    size_t size = 1;
    while (v >= 0x80) {
        v >>= 7;
        size++;
    }
    return size;
}

bool torshi_buf_uvar(torshi_buf *b, uint64_t v)
{
    if (!torshi_buf_reserve(b, 10)) {
        return false;
    }
    uint8_t *p = b->data + b->len;
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    b->len = (size_t)(p - b->data);
    return true;
}

bool torshi_buf_zvar(torshi_buf *b, int64_t v)
{
    return torshi_buf_uvar(b, torshi_zigzag(v));
}
