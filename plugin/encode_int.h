/*
 * encode_int.h - int columns out of numbers that are not Python's.
 */
#ifndef TORSHI_ENCODE_INT_H
#define TORSHI_ENCODE_INT_H

#include "encode.h"

/* Append the INT or PROGRESSION column of n > 0 numbers from min to max. ENC_OK or ENC_ERROR. */
int put_ints(chunk_writer *w, const int64_t *v, size_t n, int64_t min, int64_t max);

/* The columns of a dict whose keys and values are all ints of 64 bits; ENC_OTHER, having written
   and counted nothing, when they are not. ENC_OK, ENC_LIMIT or ENC_ERROR besides. */
int encode_int_pairs(chunk_writer *w, const span *keys, const span *values);

/* Bytes of an int as opcodes: BININT1, BININT2, BININT, or LONG1 with its fewest bytes. */
static inline int64_t int_cost(int64_t v)
{
    if (v >= 0 && v <= 0xffff) {
        return v <= 0xff ? 2 : 3;
    }
    if (v >= INT32_MIN && v <= INT32_MAX) {
        return 5;
    }
    uint64_t u = (uint64_t)(v < 0 ? ~v : v);
    int bits = 65 - __builtin_clzll(u); /* with the sign */
    return 2 + (bits + 7) / 8;
}

#endif
