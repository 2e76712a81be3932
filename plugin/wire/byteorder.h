/*
 * byteorder.h - little-endian loads and stores at any address.
 *
 * Private to plugin/wire/. memcpy of a constant size is a plain move for the compiler, so loops
 * over these vectorize. On a big-endian machine the bytes are swapped; nothing else knows.
 */
#ifndef TORSHI_BYTEORDER_H
#define TORSHI_BYTEORDER_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define TORSHI_LE16(v) __builtin_bswap16(v)
#define TORSHI_LE32(v) __builtin_bswap32(v)
#define TORSHI_LE64(v) __builtin_bswap64(v)
#else
#define TORSHI_LE16(v) (v)
#define TORSHI_LE32(v) (v)
#define TORSHI_LE64(v) (v)
#endif

static inline uint16_t load_le16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return TORSHI_LE16(v);
}

static inline uint32_t load_le32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return TORSHI_LE32(v);
}

static inline uint64_t load_le64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return TORSHI_LE64(v);
}

static inline void store_le16(uint8_t *p, uint16_t v)
{
    v = TORSHI_LE16(v);
    memcpy(p, &v, sizeof(v));
}

static inline void store_le32(uint8_t *p, uint32_t v)
{
    v = TORSHI_LE32(v);
    memcpy(p, &v, sizeof(v));
}

static inline void store_le64(uint8_t *p, uint64_t v)
{
    v = TORSHI_LE64(v);
    memcpy(p, &v, sizeof(v));
}

#endif
