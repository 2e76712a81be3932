/*
 * names.c - whether the names of a column are distinct.
 *
 * A table of hashes, since comparing 4,096 names pairwise would let a small payload cost seconds.
 */
#include "wire.h"

#include <stdlib.h>

typedef struct name {
    const uint8_t *bytes; /* borrowed from the payload; NULL: free place */
    size_t size;
    unsigned kind;
} name;

static uint64_t hash_bytes(const uint8_t *p, size_t n)
{
    uint64_t h = 1469598103934665603u; /* FNV-1a */
    for (size_t i = 0; i < n; i++) {
        h = (h ^ p[i]) * 1099511628211u;
    }
    return h ^ h >> 32;
}

/* Enter a name. false: an equal one is there. There is always a free place. */
static bool enter_name(name *table, size_t mask, name one)
{
    size_t i = (size_t)hash_bytes(one.bytes, one.size) & mask;
    for (; table[i].bytes; i = (i + 1) & mask) {
        if (table[i].size == one.size && table[i].kind == one.kind &&
            memcmp(table[i].bytes, one.bytes, one.size) == 0) {
            return false;
        }
    }
    table[i] = one;
    return true;
}

/* Strings at the cursor, behind the head of their column. */
static torshi_status compare_strings(torshi_cursor *c, size_t n, torshi_kind kind, int w)
{
    torshi_status status = TORSHI_E_MEMORY;
    size_t cap = 8;
    while (cap < 2 * n) {
        cap *= 2;
    }
    uint32_t *lens = malloc((n + 1) * sizeof(*lens));
    uint8_t *kinds = calloc(n + 1, 1);
    name *table = calloc(cap, sizeof(*table));
    if (!lens || !kinds || !table) {
        goto done;
    }
    uint64_t total;
    bool ok = torshi_read_lens(c, lens, n, w, &total) &&
              (kind == TORSHI_COL_STR || torshi_unpack_u8(c, kinds, n, 2));
    for (size_t i = 0; ok && i < n; i++) {
        name one = {.size = lens[i] * torshi_char_size(kinds[i]), .kind = kinds[i]};
        ok = torshi_read_span(c, one.size, &one.bytes) && enter_name(table, cap - 1, one);
    }
    status = ok ? TORSHI_S_OK : TORSHI_E_NAMES;
done:
    free(table);
    free(kinds);
    free(lens);
    return status;
}

torshi_status torshi_check_names(torshi_cursor *c, size_t n)
{
    size_t at = (size_t)(c->pos - c->start);
    torshi_kind kind;
    int w;
    bool ok = torshi_read_head(c, n, 1, &kind, &w);
    if (ok && kind == TORSHI_COL_AFFIX) { /* the affixes are common: compare what they enclose */
        for (int i = 0; ok && i < 2; i++) {
            size_t size;
            const uint8_t *p;
            ok = torshi_read_count(c, 0, TORSHI_MAX_AFFIX, &size) && torshi_read_span(c, size, &p);
        }
        ok = ok && torshi_read_head(c, n, 1, &kind, &w);
    }
    torshi_status status = TORSHI_S_OK;
    if (ok && (kind == TORSHI_COL_STR || kind == TORSHI_COL_STR_KINDS)) {
        status = compare_strings(c, n, kind, w);
    }
    if (status != TORSHI_S_OK) {
        c->status = status;
        c->error_at = at;
    }
    return status;
}
