/*
 * text.c - what the characters of a blob are.
 */
#include "byteorder.h"
#include "wire.h"

bool torshi_is_ascii(const uint8_t *p, size_t n)
{
    size_t i = 0;
    /* Four words a round, to leave early on a long text whose beginning is not ASCII. */
    for (; i + 32 <= n; i += 32) {
        uint64_t seen =
            load_le64(p + i) | load_le64(p + i + 8) | load_le64(p + i + 16) | load_le64(p + i + 24);
        if (seen & 0x8080808080808080u) {
            return false;
        }
    }
    uint8_t rest = 0;
    for (; i < n; i++) {
        rest |= p[i];
    }
    return rest < 0x80;
}

uint32_t torshi_max_char(const uint8_t *p, size_t n, unsigned kind)
{
    uint32_t max = 0;
    switch (torshi_char_size(kind)) {
    case 1:
        for (size_t i = 0; i < n; i++) {
            max = p[i] > max ? p[i] : max;
        }
        break;
    case 2:
        for (size_t i = 0; i < n; i++) {
            uint32_t v = load_le16(p + 2 * i);
            max = v > max ? v : max;
        }
        break;
    default:
        for (size_t i = 0; i < n; i++) {
            uint32_t v = load_le32(p + 4 * i);
            max = v > max ? v : max;
        }
        break;
    }
    return max;
}
