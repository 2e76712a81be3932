/*
 * encode_distinct.c - the distinct values of a column of strings.
 *
 * A table of 24-byte entries that hold strings of up to 16 bytes inline, so that most look-ups
 * touch one cache line and no object. The hash is cheap and anybody can find collisions, so a long
 * probe sends the column to a Python dict, whose hash is keyed. The result is the same.
 */
#include "encode_str.h"

#include "wire/byteorder.h"

#define PROBE_LIMIT 64
#define TABLE_START 64
/* A column of so many rows is given up early when few of its first values repeat. */
#define EARLY_ROWS 2048
/* Columns so small are told to be of different values by 64 bits. */
#define BITS_TELL 32

/* A string as the table compares it: itself when short, else two hashes of it. */
typedef struct text_key {
    uint64_t a, b;
    uint32_t size; /* bytes and kind, plus 1: never 0, which is that of a free entry */
} text_key;

typedef struct table_entry {
    uint64_t a, b;
    uint32_t size;  /* 0: free */
    uint32_t index; /* of the distinct value */
} table_entry;

__extension__ typedef unsigned __int128 wide;

static inline uint64_t mix(uint64_t x, uint64_t y)
{
    wide product = (wide)(x ^ UINT64_C(0x9e3779b97f4a7c15)) * (y ^ UINT64_C(0xd6e8feb86659fd93));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t key_hash(const text_key *k)
{
    /* make_key sets every field; the analyzer loses `size` where a key is returned by value. */
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
    return mix(k->a ^ ((uint64_t)k->size << 32), k->b);
}

#define WORDS ((size_t)16) /* bytes of a short string, which is two words */

static inline uint32_t key_size(size_t bytes, unsigned kind)
{
    return ((uint32_t)bytes << 2 | kind) + 1;
}

/* Up to 16 bytes, by masks and not branches: lengths follow no pattern. p is readable TEXT_SLACK
   bytes beyond the end. */
static inline text_key make_short_key(const uint8_t *p, size_t bytes, unsigned kind)
{
    static const uint8_t masks[2 * WORDS] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                             0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    const uint8_t *mask = masks + WORDS - bytes;
    return (text_key){load_le64(p) & load_le64(mask), load_le64(p + 8) & load_le64(mask + 8),
                      key_size(bytes, kind)};
}

/* p is readable TEXT_SLACK bytes beyond the end. */
static inline text_key make_key(const uint8_t *p, size_t bytes, unsigned kind)
{
    if (PLUGIN_LIKELY(bytes <= WORDS)) {
        return make_short_key(p, bytes, kind);
    }
    uint64_t h = bytes;
    for (size_t i = 0; i + WORDS <= bytes; i += WORDS) {
        h = mix(h ^ load_le64(p + i), load_le64(p + i + 8));
    }
    return (text_key){h, mix(load_le64(p + bytes - 16), load_le64(p + bytes - 8)),
                      key_size(bytes < (1u << 29) ? bytes : 1u << 29, kind)};
}

static inline bool same_key(const text_key *k, const table_entry *e)
{
    return ((k->a ^ e->a) | (k->b ^ e->b) | (k->size ^ e->size)) == 0;
}

static inline size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Whether more than `most` of so few values differ, as far as a bit for each hash can tell. */
static bool mostly_differ(const chunk_writer *w, const texts *t, size_t most)
{
    const uint8_t *p = w->blob.data;
    uint64_t bits = 0;
    size_t differ = 0;
    for (size_t i = 0; i < t->n; i++) {
        unsigned kind = t->kinds ? t->kinds[i] : 0;
        size_t bytes = text_bytes(t->lens[i], kind);
        text_key k = make_key(p, bytes, kind);
        unsigned bit = key_hash(&k) & 63;
        differ += !(bits >> bit & 1);
        if (differ > most) {
            return true;
        }
        bits |= UINT64_C(1) << bit;
        p += bytes;
    }
    return false;
}

bool texts_repeat(const chunk_writer *w, const texts *t)
{
    const size_t n = t->n, samples = SAMPLE, mask = 4 * SAMPLE - 1;
    uint16_t slots[4 * SAMPLE]; /* number of a sample, plus 1 */
    text_key keys[SAMPLE];
    size_t offsets[SAMPLE], sizes[SAMPLE];
    if (n <= SAMPLE) { /* find_distinct looks at all of them, and gives up at n / 2 + 2 */
        return n >= 8 && !(n <= BITS_TELL && mostly_differ(w, t, n / 2 + 1));
    }
    /* Of n values that are n / 2 different ones, s samples have s * s / 2n repeats at least; half
       of that allows for chance. */
    size_t enough = ceil_div((size_t)SAMPLE * SAMPLE, 4 * n);
    size_t row = 0, offset = 0, repeats = 0;
    memset(slots, 0, sizeof(slots));
    for (size_t i = 0; i < samples && i - repeats + enough <= samples; i++) {
        size_t at = i * n / samples;
        if (t->kinds) {
            for (; row < at; row++) {
                offset += text_bytes(t->lens[row], t->kinds[row]);
            }
        } else {
            for (; row < at; row++) {
                offset += t->lens[row];
            }
        }
        unsigned kind = t->kinds ? t->kinds[row] : 0;
        offsets[i] = offset;
        sizes[i] = text_bytes(t->lens[row], kind);
        keys[i] = make_key(w->blob.data + offset, sizes[i], kind);
        size_t slot = (size_t)key_hash(&keys[i]) & mask;
        while (slots[slot]) {
            size_t j = slots[slot] - 1u;
            if (keys[j].a == keys[i].a && keys[j].b == keys[i].b && keys[j].size == keys[i].size &&
                sizes[i] == sizes[j] &&
                memcmp(w->blob.data + offsets[i], w->blob.data + offsets[j], sizes[i]) == 0) {
                if (++repeats >= enough) {
                    return true;
                }
                break;
            }
            slot = (slot + 1) & mask;
        }
        slots[slot] = (uint16_t)(i + 1);
    }
    return false;
}

/* Most distinct values that n rows, or the first *look of them, may have for a dictionary to be
   worth its time. */
static size_t most_distinct(size_t n, size_t *look)
{
    *look = n >= EARLY_ROWS ? n / 8 : 0;
    return *look ? *look * 15 / 16 : n / 2 + 1;
}

/* ---- all values ---------------------------------------------------------------------------------
 */
typedef struct distinct_table {
    table_entry *entries; /* in the arena */
    size_t mask;
} distinct_table;

static int resize_table(chunk_writer *w, distinct_table *table)
{
    size_t size = table->entries ? (table->mask + 1) * 4 : TABLE_START;
    table_entry *entries = arena_alloc(&w->arena, size, sizeof(*entries));
    if (!entries) {
        return ENC_ERROR;
    }
    memset(entries, 0, size * sizeof(*entries));
    for (size_t i = 0; table->entries && i <= table->mask; i++) {
        const table_entry *e = &table->entries[i];
        if (e->size) {
            text_key k = {e->a, e->b, e->size};
            size_t slot = (size_t)key_hash(&k) & (size - 1);
            while (entries[slot].size) {
                slot = (slot + 1) & (size - 1);
            }
            entries[slot] = *e;
        }
    }
    *table = (distinct_table){entries, size - 1};
    return ENC_OK;
}

static inline void add_distinct(const texts *t, text_dictionary *d, size_t row, size_t offset,
                                size_t bytes)
{
    d->lens[d->count] = t->lens[row];
    if (d->kinds) {
        d->kinds[d->count] = t->kinds[row];
    }
    d->offsets[d->count] = offset;
    d->blob_size += bytes;
    d->indexes[row] = (uint32_t)d->count++;
}

/* By a Python dict: for columns whose strings collide. */
static PLUGIN_NOINLINE int find_by_dict(const span *s, const texts *t, text_dictionary *d)
{
    int status = ENC_ERROR;
    size_t look, most = most_distinct(t->n, &look);
    PyObject *number = NULL, *numbers = PyDict_New();
    size_t offset = 0;
    if (!numbers) {
        goto done;
    }
    d->count = 0;
    d->blob_size = 0;
    for (size_t i = 0; i < t->n; i++) {
        size_t bytes = text_bytes(t->lens[i], t->kinds ? t->kinds[i] : 0);
        PyObject *found = PyDict_GetItemWithError(numbers, span_at(s, i));
        if (found) {
            d->indexes[i] = (uint32_t)PyLong_AsUnsignedLong(found);
        } else {
            if (PyErr_Occurred()) {
                goto done;
            }
            if (i >= look) {
                most = t->n / 2 + 1;
            }
            if (d->count >= most) {
                d->count = 0;
                break;
            }
            number = PyLong_FromSize_t(d->count);
            if (!number || PyDict_SetItem(numbers, span_at(s, i), number) < 0) {
                goto done;
            }
            Py_CLEAR(number);
            add_distinct(t, d, i, offset, bytes);
        }
        offset += bytes;
    }
    status = ENC_OK;
done:
    Py_XDECREF(number);
    Py_XDECREF(numbers);
    return status;
}

/* The rows of t in the table. `narrow`: all are ASCII or bytes, and short; a constant where this is
   inlined. */
static inline int find_rows(chunk_writer *w, const span *s, const texts *t, text_dictionary *d,
                            bool narrow)
{
    const size_t n = t->n;
    const uint32_t *const lens = t->lens, *const same = t->same;
    const uint8_t *const kinds = narrow ? NULL : t->kinds, *p = w->blob.data;
    uint32_t *const indexes = d->indexes;
    distinct_table table = {NULL, 0};
    size_t look, most = n / 2 + 1, limit = most_distinct(n, &look), bytes;
    if (resize_table(w, &table) != ENC_OK) {
        return ENC_ERROR;
    }
    for (size_t i = 0; i < n; i++, p += bytes) {
        unsigned kind = kinds ? kinds[i] : 0;
        bytes = narrow ? lens[i] : text_bytes(lens[i], kind);
        if (same && same[i] != i) {
            indexes[i] = indexes[same[i]];
            continue;
        }
        text_key k = narrow ? make_short_key(p, bytes, 0) : make_key(p, bytes, kind);
        size_t slot = (size_t)key_hash(&k) & table.mask;
        const table_entry *e;
        for (int probes = 0;; slot = (slot + 1) & table.mask) {
            e = &table.entries[slot];
            if (same_key(&k, e) && (narrow || bytes <= WORDS ||
                                    (d->lens[e->index] == lens[i] &&
                                     memcmp(w->blob.data + d->offsets[e->index], p, bytes) == 0))) {
                indexes[i] = e->index;
                break;
            }
            if (!e->size) {
                break;
            }
            if (++probes > PROBE_LIMIT) {
                return find_by_dict(s, t, d);
            }
        }
        if (PLUGIN_LIKELY(e->size)) {
            continue;
        }
        if (d->count == limit) {
            if (i < look || limit == most) {
                d->count = 0;
                return ENC_OK;
            }
            limit = most;
        }
        table.entries[slot] = (table_entry){k.a, k.b, k.size, (uint32_t)d->count};
        add_distinct(t, d, i, (size_t)(p - w->blob.data), bytes);
        if (d->count * 2 > table.mask && resize_table(w, &table) != ENC_OK) {
            return ENC_ERROR;
        }
    }
    return ENC_OK;
}

int find_distinct(chunk_writer *w, const span *s, const texts *t, text_dictionary *d)
{
    size_t n = t->n, most = n / 2 + 1;
    d->lens = arena_alloc(&w->arena, most, sizeof(*d->lens));
    d->offsets = arena_alloc(&w->arena, most, sizeof(*d->offsets));
    d->kinds = t->kinds ? arena_alloc(&w->arena, most, 1) : NULL;
    d->indexes = arena_alloc(&w->arena, n, sizeof(*d->indexes));
    if (!d->lens || !d->offsets || (t->kinds && !d->kinds) || !d->indexes) {
        return ENC_ERROR;
    }
    int status = !t->kinds && t->longest <= WORDS ? find_rows(w, s, t, d, true)
                                                  : find_rows(w, s, t, d, false);
    if (status == ENC_OK && !any_wide(d->kinds, d->count)) {
        d->kinds = NULL;
    }
    return status;
}
