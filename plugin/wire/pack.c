/*
 * pack.c - writing packed arrays.
 *
 *     w   0 1 2 3 4  5  6  7
 *     bits 0 1 2 4 8 16 32 64      below a byte: item 0 in the lowest bits of the first byte
 *
 * The loops are plain on purpose: with a constant width each of them vectorizes.
 */
#include "byteorder.h"
#include "wire.h"

#include <assert.h>

int torshi_width_for(uint64_t max)
{
    if (max > 0xf) {
        return max > 0xffffffffu ? 7 : max > 0xffff ? 6 : max > 0xff ? 5 : 4;
    }
    return max > 3 ? 3 : max > 1 ? 2 : (int)max;
}

size_t torshi_packed_size(size_t n, int w)
{
    assert(w >= 0 && w <= 7);
    if (w == 0) {
        return 0;
    }
    return w < 4 ? (n + (8u >> (w - 1)) - 1) / (8u >> (w - 1)) : n << (w - 4);
}

/* Below a byte: PER items a byte, BITS each. VALUE reads item i. */
#define PACK_BITS(PER, BITS, VALUE)                                                                \
    do {                                                                                           \
        size_t whole = n / PER;                                                                    \
        for (size_t j = 0; j < whole; j++) {                                                       \
            unsigned byte = 0;                                                                     \
            for (unsigned k = 0; k < PER; k++) {                                                   \
                size_t i = j * PER + k;                                                            \
                byte |= (unsigned)(VALUE) << (BITS * k);                                           \
            }                                                                                      \
            out[j] = (uint8_t)byte;                                                                \
        }                                                                                          \
        if (n % PER) {                                                                             \
            unsigned byte = 0;                                                                     \
            for (size_t i = whole * PER; i < n; i++) {                                             \
                byte |= (unsigned)(VALUE) << (BITS * (i % PER));                                   \
            }                                                                                      \
            out[whole] = (uint8_t)byte;                                                            \
        }                                                                                          \
    } while (0)

/* Function NAME(out, items, n, base, w) for items of TYPE; VALUE is item i as it is stored. */
#define DEFINE_PACK(NAME, TYPE, BASE, VALUE)                                                       \
    static void NAME(uint8_t *restrict out, const TYPE *restrict items, size_t n, BASE base,       \
                     int w)                                                                        \
    {                                                                                              \
        (void)base;                                                                                \
        switch (w) {                                                                               \
        case 1:                                                                                    \
            PACK_BITS(8, 1, VALUE);                                                                \
            break;                                                                                 \
        case 2:                                                                                    \
            PACK_BITS(4, 2, VALUE);                                                                \
            break;                                                                                 \
        case 3:                                                                                    \
            PACK_BITS(2, 4, VALUE);                                                                \
            break;                                                                                 \
        case 4:                                                                                    \
            for (size_t i = 0; i < n; i++) {                                                       \
                out[i] = (uint8_t)(VALUE);                                                         \
            }                                                                                      \
            break;                                                                                 \
        case 5:                                                                                    \
            for (size_t i = 0; i < n; i++) {                                                       \
                store_le16(out + 2 * i, (uint16_t)(VALUE));                                        \
            }                                                                                      \
            break;                                                                                 \
        case 6:                                                                                    \
            for (size_t i = 0; i < n; i++) {                                                       \
                store_le32(out + 4 * i, (uint32_t)(VALUE));                                        \
            }                                                                                      \
            break;                                                                                 \
        case 7:                                                                                    \
            for (size_t i = 0; i < n; i++) {                                                       \
                store_le64(out + 8 * i, (uint64_t)(VALUE));                                        \
            }                                                                                      \
            break;                                                                                 \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }

DEFINE_PACK(pack_items_u64, uint64_t, uint64_t, items[i])
DEFINE_PACK(pack_items_u32, uint32_t, uint32_t, items[i])
DEFINE_PACK(pack_items_u8, uint8_t, uint8_t, items[i])
DEFINE_PACK(pack_items_offsets, int64_t, uint64_t, ((uint64_t)items[i] - base))
DEFINE_PACK(pack_items_lens, uint32_t, uint32_t, (items[i] - base))

/* Room for the array; NULL when there is no memory. A place is returned for 0 bytes too. */
static uint8_t *reserve_packed(torshi_buf *b, size_t n, int w, size_t *size)
{
    *size = torshi_packed_size(n, w);
    return torshi_buf_reserve(b, *size + 1) ? b->data + b->len : NULL;
}

bool torshi_pack_u64(torshi_buf *b, const uint64_t *items, size_t n, int w)
{
    size_t size;
    uint8_t *out = reserve_packed(b, n, w, &size);
    if (!out) {
        return false;
    }
    pack_items_u64(out, items, n, 0, w);
    b->len += size;
    return true;
}

bool torshi_pack_u32(torshi_buf *b, const uint32_t *items, size_t n, int w)
{
    assert(w <= 6);
    size_t size;
    uint8_t *out = reserve_packed(b, n, w, &size);
    if (!out) {
        return false;
    }
    pack_items_u32(out, items, n, 0, w);
    b->len += size;
    return true;
}

bool torshi_pack_u8(torshi_buf *b, const uint8_t *items, size_t n, int w)
{
    assert(w <= 4);
    size_t size;
    uint8_t *out = reserve_packed(b, n, w, &size);
    if (!out) {
        return false;
    }
    pack_items_u8(out, items, n, 0, w);
    b->len += size;
    return true;
}

bool torshi_pack_offsets(torshi_buf *b, const int64_t *items, size_t n, int64_t base, int w)
{
    size_t size;
    uint8_t *out = reserve_packed(b, n, w, &size);
    if (!out) {
        return false;
    }
    pack_items_offsets(out, items, n, (uint64_t)base, w);
    b->len += size;
    return true;
}

int torshi_lens_width(const uint32_t *lens, size_t n, uint32_t *base)
{
    uint32_t low = n ? lens[0] : 0;
    uint32_t high = low;
    for (size_t i = 1; i < n; i++) {
        low = lens[i] < low ? lens[i] : low;
        high = lens[i] > high ? lens[i] : high;
    }
    *base = low;
    return torshi_width_for(high - low);
}

bool torshi_pack_lens(torshi_buf *b, const uint32_t *lens, size_t n, uint32_t base, int w)
{
    assert(w <= 6);
    if (!torshi_buf_uvar(b, base)) {
        return false;
    }
    size_t size;
    uint8_t *out = reserve_packed(b, n, w, &size);
    if (!out) {
        return false;
    }
    pack_items_lens(out, lens, n, base, w);
    b->len += size;
    return true;
}
