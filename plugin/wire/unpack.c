/*
 * unpack.c - reading packed arrays, lengths and bitmaps; the mirror of pack.c.
 */
#include "byteorder.h"
#include "wire.h"

#include <assert.h>

/* Below a byte: PER items a byte, BITS each. */
#define UNPACK_BITS(TYPE, PER, BITS)                                                               \
    do {                                                                                           \
        size_t whole = n / PER;                                                                    \
        for (size_t j = 0; j < whole; j++) {                                                       \
            unsigned byte = in[j];                                                                 \
            for (unsigned k = 0; k < PER; k++) {                                                   \
                out[j * PER + k] = (TYPE)(byte >> (BITS * k) & ((1u << BITS) - 1));                \
            }                                                                                      \
        }                                                                                          \
        for (size_t i = whole * PER; i < n; i++) {                                                 \
            out[i] = (TYPE)(in[whole] >> (BITS * (i % PER)) & ((1u << BITS) - 1));                 \
        }                                                                                          \
    } while (0)

/* Function NAME(out, in, n, w) into items of TYPE; widths above TYPE's own are never asked for. */
#define DEFINE_UNPACK(NAME, TYPE)                                                                  \
    static void NAME(TYPE *restrict out, const uint8_t *restrict in, size_t n, int w)              \
    {                                                                                              \
        switch (w) {                                                                               \
        case 0:                                                                                    \
            if (n) {                                                                               \
                memset(out, 0, n * sizeof(TYPE));                                                  \
            }                                                                                      \
            break;                                                                                 \
        case 1:                                                                                    \
            UNPACK_BITS(TYPE, 8, 1);                                                               \
            break;                                                                                 \
        case 2:                                                                                    \
            UNPACK_BITS(TYPE, 4, 2);                                                               \
            break;                                                                                 \
        case 3:                                                                                    \
            UNPACK_BITS(TYPE, 2, 4);                                                               \
            break;                                                                                 \
        case 4:                                                                                    \
            for (size_t i = 0; i < n; i++) {                                                       \
                out[i] = in[i];                                                                    \
            }                                                                                      \
            break;                                                                                 \
        case 5:                                                                                    \
            for (size_t i = 0; i < n; i++) {                                                       \
                out[i] = (TYPE)load_le16(in + 2 * i);                                              \
            }                                                                                      \
            break;                                                                                 \
        case 6:                                                                                    \
            for (size_t i = 0; i < n; i++) {                                                       \
                out[i] = (TYPE)load_le32(in + 4 * i);                                              \
            }                                                                                      \
            break;                                                                                 \
        default:                                                                                   \
            for (size_t i = 0; i < n; i++) {                                                       \
                out[i] = (TYPE)load_le64(in + 8 * i);                                              \
            }                                                                                      \
            break;                                                                                 \
        }                                                                                          \
    }

DEFINE_UNPACK(unpack_items_u64, uint64_t)
DEFINE_UNPACK(unpack_items_u32, uint32_t)
DEFINE_UNPACK(unpack_items_u8, uint8_t)

bool torshi_read_packed(torshi_cursor *c, size_t n, int w, const uint8_t **in)
{
    size_t size = torshi_packed_size(n, w);
    if (!torshi_read_span(c, size, in)) {
        return false;
    }
    if (w >= 1 && w <= 3) {
        unsigned used = (unsigned)(n << (w - 1)) & 7; /* bits of the last byte; 0: all */
        if (used && (*in)[size - 1] >> used) {
            return torshi_fail_at(c, TORSHI_E_PADDING, *in + size - 1);
        }
    }
    return true;
}

bool torshi_unpack_u64(torshi_cursor *c, uint64_t *out, size_t n, int w)
{
    const uint8_t *in;
    if (!torshi_read_packed(c, n, w, &in)) {
        return false;
    }
    unpack_items_u64(out, in, n, w);
    return true;
}

bool torshi_unpack_u32(torshi_cursor *c, uint32_t *out, size_t n, int w)
{
    assert(w <= 6);
    const uint8_t *in;
    if (!torshi_read_packed(c, n, w, &in)) {
        return false;
    }
    unpack_items_u32(out, in, n, w);
    return true;
}

bool torshi_unpack_u8(torshi_cursor *c, uint8_t *out, size_t n, int w)
{
    assert(w <= 4);
    const uint8_t *in;
    if (!torshi_read_packed(c, n, w, &in)) {
        return false;
    }
    unpack_items_u8(out, in, n, w);
    return true;
}

bool torshi_read_lens(torshi_cursor *c, uint32_t *out, size_t n, int w, uint64_t *total)
{
    const uint8_t *at = c->pos;
    uint64_t base;
    if (!torshi_read_uvar(c, &base)) {
        return false;
    }
    if (base > UINT32_MAX) {
        return torshi_fail_at(c, TORSHI_E_LENGTH, at);
    }
    if (!torshi_unpack_u32(c, out, n, w)) {
        return false;
    }
    uint64_t sum = 0;
    uint32_t low = (uint32_t)base;
    uint32_t most = UINT32_MAX - low;
    unsigned over = 0;
    for (size_t i = 0; i < n; i++) {
        over |= out[i] > most;
        out[i] += low;
        sum += out[i];
    }
    if (over) {
        return torshi_fail_at(c, TORSHI_E_LENGTH, at);
    }
    *total = sum;
    return true;
}

bool torshi_read_bitmap(torshi_cursor *c, size_t n, const uint8_t **bits, size_t *ones)
{
    if (!torshi_read_packed(c, n, 1, bits)) {
        return false;
    }
    const uint8_t *p = *bits;
    size_t size = torshi_packed_size(n, 1);
    size_t count = 0;
    size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        count += (size_t)__builtin_popcountll(load_le64(p + i));
    }
    for (; i < size; i++) {
        count += (size_t)__builtin_popcount(p[i]);
    }
    *ones = count;
    return true;
}
