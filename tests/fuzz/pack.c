/*
 * pack.c - fuzz target: what is packed is read back, and what is read packs to the same bytes.
 *
 * First byte: the width. The next eight: a base. The rest: items, or a packed array.
 */
#include "fuzz.h"
#include "wire/wire.h"

static const unsigned width_bits[8] = {0, 1, 2, 4, 8, 16, 32, 64};

/* n items of size bytes, for the caller to free. */
static void *take(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    PROPERTY(p);
    return p;
}

/* items -> bytes -> items, through every pair of functions that takes this width. */
static void check_items(const uint64_t *items, size_t n, int w, uint64_t base)
{
    torshi_buf b = {0}, other = {0};
    torshi_cursor c;
    uint64_t *wide = take(n, sizeof(*wide));
    int64_t *sums = take(n, sizeof(*sums));
    uint32_t *narrow = take(n, sizeof(*narrow));
    uint8_t *bytes = take(n, sizeof(*bytes));

    PROPERTY(torshi_pack_u64(&b, items, n, w) && b.len == torshi_packed_size(n, w));
    torshi_cursor_init(&c, b.data, b.len);
    PROPERTY(torshi_unpack_u64(&c, wide, n, w) && c.pos == c.end);
    PROPERTY(n == 0 || memcmp(wide, items, n * sizeof(*items)) == 0);

    for (size_t i = 0; i < n; i++) {
        uint64_t sum = items[i] + base;
        memcpy(&sums[i], &sum, sizeof(sum));
        narrow[i] = (uint32_t)items[i];
        bytes[i] = (uint8_t)items[i];
    }
    int64_t start;
    memcpy(&start, &base, sizeof(base));
    PROPERTY(torshi_pack_offsets(&other, sums, n, start, w));
    if (w <= 6) {
        PROPERTY(torshi_pack_u32(&other, narrow, n, w));
    }
    if (w <= 4) {
        PROPERTY(torshi_pack_u8(&other, bytes, n, w));
    }
    for (size_t at = 0; b.len && at < other.len; at += b.len) {
        PROPERTY(memcmp(other.data + at, b.data, b.len) == 0);
    }
    if (w <= 6) {
        torshi_cursor_init(&c, b.data, b.len);
        PROPERTY(torshi_unpack_u32(&c, narrow, n, w) && c.pos == c.end);
    }
    if (w <= 4) {
        torshi_cursor_init(&c, b.data, b.len);
        PROPERTY(torshi_unpack_u8(&c, bytes, n, w) && c.pos == c.end);
    }
    for (size_t i = 0; i < n; i++) {
        PROPERTY(w > 6 || narrow[i] == items[i]);
        PROPERTY(w > 4 || bytes[i] == items[i]);
    }
    free(bytes);
    free(narrow);
    free(sums);
    free(wide);
    torshi_buf_free(&other);
    torshi_buf_free(&b);
}

/* Lengths take the least base and width, and come back. */
static void check_lens(const uint64_t *items, size_t n)
{
    torshi_buf b = {0};
    torshi_cursor c;
    uint32_t *lens = take(n, sizeof(*lens));
    uint32_t *read = take(n, sizeof(*read));
    uint32_t base, most = 0;
    uint64_t sum = 0, total;
    for (size_t i = 0; i < n; i++) {
        lens[i] = (uint32_t)items[i];
        sum += lens[i];
        most = lens[i] > most ? lens[i] : most;
    }
    int w = torshi_lens_width(lens, n, &base);
    PROPERTY(w == torshi_width_for(most - base));
    PROPERTY(torshi_pack_lens(&b, lens, n, base, w));
    PROPERTY(b.len == torshi_uvar_size(base) + torshi_packed_size(n, w));
    torshi_cursor_init(&c, b.data, b.len);
    PROPERTY(torshi_read_lens(&c, read, n, w, &total) && c.pos == c.end && total == sum);
    PROPERTY(n == 0 || memcmp(read, lens, n * sizeof(*lens)) == 0);
    free(read);
    free(lens);
    torshi_buf_free(&b);
}

/* Any bytes as an array: refused for their padding, or packed to the same bytes again. */
static void check_bytes(const uint8_t *data, size_t size, int w)
{
    size_t n = w ? size * 8 / width_bits[w] : 0;
    if (w >= 1 && w <= 3 && n) {
        n -= 1; /* so that there is padding */
    }
    torshi_buf b = {0};
    torshi_cursor c;
    uint64_t *items = take(n, sizeof(*items));
    torshi_cursor_init(&c, data, size);
    if (torshi_unpack_u64(&c, items, n, w)) {
        size_t used = (size_t)(c.pos - c.start);
        PROPERTY(torshi_pack_u64(&b, items, n, w));
        PROPERTY(b.len == used && (used == 0 || memcmp(b.data, data, used) == 0));
        for (size_t i = 0; i < n; i++) {
            PROPERTY(torshi_width_for(items[i]) <= w);
        }
    } else {
        PROPERTY(c.status == TORSHI_E_PADDING && c.error_at == torshi_packed_size(n, w) - 1);
    }
    const uint8_t *bits;
    size_t ones, seen = 0;
    torshi_cursor_init(&c, data, size);
    PROPERTY(torshi_read_bitmap(&c, 8 * size, &bits, &ones));
    for (size_t i = 0; i < 8 * size; i++) {
        seen += bits[i / 8] >> i % 8 & 1;
    }
    PROPERTY(seen == ones);
    free(items);
    torshi_buf_free(&b);
}

/* Numbers one after the other: each is written again in no more bytes, and read again. */
static void check_numbers(const uint8_t *data, size_t size)
{
    torshi_cursor c, again;
    torshi_cursor_init(&c, data, size);
    torshi_buf b = {0};
    while (c.pos != c.end) {
        const uint8_t *at = c.pos;
        uint64_t v, v2;
        int64_t z, z2;
        if (!torshi_read_uvar(&c, &v)) {
            PROPERTY(c.status == TORSHI_E_TRUNCATED || c.status == TORSHI_E_VARINT);
            PROPERTY(c.error_at == (size_t)(at - c.start));
            break;
        }
        b.len = 0;
        PROPERTY(torshi_buf_uvar(&b, v) && b.len <= (size_t)(c.pos - at));
        PROPERTY(b.len == torshi_uvar_size(v));
        torshi_cursor_init(&again, b.data, b.len);
        PROPERTY(torshi_read_uvar(&again, &v2) && v2 == v && again.pos == again.end);
        torshi_cursor_init(&again, b.data, b.len);
        PROPERTY(torshi_read_zvar(&again, &z) && torshi_zigzag(z) == v);
        b.len = 0;
        PROPERTY(torshi_buf_zvar(&b, z));
        torshi_cursor_init(&again, b.data, b.len);
        PROPERTY(torshi_read_zvar(&again, &z2) && z2 == z);
    }
    torshi_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 9 || size > 100000) {
        return 0;
    }
    int w = data[0] & 7;
    uint64_t base = 0;
    for (int i = 0; i < 8; i++) {
        base = base << 8 | data[1 + i];
    }
    data += 9;
    size -= 9;
    size_t n = size / 8;
    uint64_t *items = take(n, sizeof(*items));
    if (n) {
        memcpy(items, data, n * 8);
    }
    check_lens(items, n);
    for (size_t i = 0; i < n; i++) {
        items[i] = w ? items[i] >> (64 - width_bits[w]) : 0;
    }
    check_items(items, n, w, base);
    free(items);
    check_bytes(data, size, w);
    check_numbers(data, size);
    return 0;
}
