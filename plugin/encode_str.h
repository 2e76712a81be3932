/*
 * encode_str.h - what the two files of text columns share.
 */
#ifndef TORSHI_ENCODE_STR_H
#define TORSHI_ENCODE_STR_H

#include "encode.h"

/* The blob is readable this many bytes beyond its end, so that short strings load as two words. */
#define TEXT_SLACK 16

/* A column's strings as they lie in the writer's blob. */
typedef struct texts {
    size_t n;
    bool bytes;      /* bytes, not str */
    bool repeated;   /* one object stands in two rows */
    uint32_t *lens;  /* in characters */
    uint8_t *kinds;  /* NULL: all ASCII, or bytes */
    size_t *sizes;   /* with kinds: bytes in UTF-8 of those rows that are not ASCII */
    bool shared;     /* an object has more than one owner */
    uint8_t *owners; /* of FAR_ROWS rows or more: references to each object, at most 255 */
    uint32_t shortest, longest;
    int64_t cost;   /* as opcodes */
    uint32_t *same; /* the first row with the same object; NULL when nothing is shared */
} texts;

/* The distinct values of a column in order of first appearance. */
typedef struct text_dictionary {
    size_t count; /* 0: none was made */
    uint32_t *lens;
    uint8_t *kinds; /* NULL: all ASCII, or bytes */
    size_t *offsets;
    size_t blob_size;
    uint32_t *indexes; /* one a row */
    uint32_t base;
    int lens_width;
    int width;
} text_dictionary;

static inline size_t text_bytes(uint32_t len, unsigned kind)
{
    return (size_t)len * torshi_char_size(kind);
}

/* Whether a string that is not ASCII is among those of kinds (NULL: none is). */
static inline bool any_wide(const uint8_t *kinds, size_t n)
{
    for (size_t i = 0; kinds && i < n; i++) {
        if (kinds[i]) {
            return true;
        }
    }
    return false;
}

/* Whether the sample has two equal values. */
bool texts_repeat(const chunk_writer *w, const texts *t);
/* Fill d, or leave d->count 0 when there are too many distinct values. ENC_OK or ENC_ERROR. */
int find_distinct(chunk_writer *w, const span *s, const texts *t, text_dictionary *d);
/* Bytes of a str or bytes that is written and memoized. */
size_t text_cost(PyObject *obj);

#endif
