/*
 * walk.c - the validator: a whole payload checked without making a single object.
 *
 * It follows the grammar of docs/format.md column by column, as a reader does. Columns nest at most
 * TORSHI_MAX_DEPTH deep, so it recurses; temporary arrays are freed before it goes down, so one
 * column's worth of memory is in use at a time.
 */
#include "wire.h"

#include <stdlib.h>

/* What the place of a column asks of it. */
enum place {
    PLAIN = 1,         /* key, name or distinct value: nothing mutable or pending at any level */
    IN_DICTIONARY = 2, /* the values of a DICTIONARY: no DICTIONARY */
    IN_AFFIX = 4,      /* STR, STR_KINDS, INT, PROGRESSION */
    STATE_NAMES = 8,   /* names of an instance's state: STR, STR_KINDS, AFFIX */
    ALL_KEYS = 16,     /* the whole column of keys: may be a REFERENCE, of PLAIN arguments */
};

typedef struct walker {
    torshi_cursor c;
    size_t external_count; /* how many were passed */
    size_t externals;      /* highest number met + 1 */
    size_t rolled;
    bool has_roll;
} walker;

static bool walk_column(walker *k, uint64_t total, int depth, unsigned place);

/* Whether this kind may stand in this place. */
static bool allow_kind(torshi_kind kind, unsigned place)
{
    if (place & IN_AFFIX) {
        return kind == TORSHI_COL_STR || kind == TORSHI_COL_STR_KINDS || kind == TORSHI_COL_INT ||
               kind == TORSHI_COL_PROGRESSION;
    }
    if (place & STATE_NAMES) {
        return kind == TORSHI_COL_STR || kind == TORSHI_COL_STR_KINDS || kind == TORSHI_COL_AFFIX;
    }
    if (place & ALL_KEYS && kind == TORSHI_COL_REFERENCE) {
        return true;
    }
    if (place & IN_DICTIONARY && kind == TORSHI_COL_DICTIONARY) {
        return false;
    }
    return !(place & PLAIN) || (kind != TORSHI_COL_PENDING && !torshi_kinds[kind].is_mutable);
}

/* n zero-initialised items, for the caller to free; NULL with E_MEMORY recorded. */
static void *take_memory(walker *k, size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p) {
        torshi_fail(&k->c, TORSHI_E_MEMORY);
    }
    return p;
}

/* BIG, BYTES, LIST, MAP: the lengths, of which only the sum matters. */
static bool walk_lens(walker *k, size_t n, int w, uint64_t *total)
{
    uint32_t *lens = take_memory(k, n, sizeof(*lens));
    bool ok = lens && torshi_read_lens(&k->c, lens, n, w, total);
    free(lens);
    return ok;
}

static bool walk_blob(walker *k, size_t n, int w, const uint8_t **blob, uint64_t *size)
{
    return walk_lens(k, n, w, size) && torshi_read_span(&k->c, *size, blob);
}

static bool walk_progression(walker *k, size_t n)
{
    const uint8_t *at = k->c.pos;
    int64_t start, step;
    if (!torshi_read_zvar(&k->c, &start) || !torshi_read_zvar(&k->c, &step)) {
        return false;
    }
    return torshi_progression_fits(start, step, n) || torshi_fail_at(&k->c, TORSHI_E_RANGE, at);
}

static bool walk_ascii(walker *k, const uint8_t *p, size_t n)
{
    return torshi_is_ascii(p, n) || torshi_fail_at(&k->c, TORSHI_E_TEXT, p);
}

static bool walk_str_kinds(walker *k, size_t n, int w)
{
    bool ok = false;
    uint64_t total;
    uint8_t *kinds = NULL;
    uint32_t *lens = take_memory(k, n, sizeof(*lens));
    if (!lens || !torshi_read_lens(&k->c, lens, n, w, &total)) {
        goto done;
    }
    kinds = take_memory(k, n, sizeof(*kinds));
    if (!kinds || !torshi_unpack_u8(&k->c, kinds, n, 2)) {
        goto done;
    }
    uint64_t size = 0; /* at most 65,536 * 2**32 * 4: no overflow */
    for (size_t i = 0; i < n; i++) {
        size += (uint64_t)lens[i] * torshi_char_size(kinds[i]);
    }
    const uint8_t *p;
    if (!torshi_read_span(&k->c, size, &p)) {
        goto done;
    }
    for (size_t i = 0; i < n; i++) {
        if (!torshi_kind_holds(kinds[i], torshi_max_char(p, lens[i], kinds[i]))) {
            torshi_fail_at(&k->c, TORSHI_E_TEXT, p);
            goto done;
        }
        p += lens[i] * torshi_char_size(kinds[i]);
    }
    ok = true;
done:
    free(kinds);
    free(lens);
    return ok;
}

static bool walk_dictionary(walker *k, size_t n, int depth, int w)
{
    size_t count;
    if (!torshi_read_count(&k->c, 1, TORSHI_MAX_ROWS, &count) ||
        !walk_column(k, count, depth + 1, PLAIN | IN_DICTIONARY)) {
        return false;
    }
    const uint8_t *at = k->c.pos;
    uint32_t *indexes = take_memory(k, n, sizeof(*indexes));
    bool ok = indexes && torshi_unpack_u32(&k->c, indexes, n, w);
    for (size_t i = 0; ok && i < n; i++) {
        ok = indexes[i] < count || torshi_fail_at(&k->c, TORSHI_E_INDEX, at);
    }
    free(indexes);
    return ok;
}

static bool walk_mixed(walker *k, size_t n, int depth, int w, unsigned place)
{
    size_t count;
    if (!torshi_read_count(&k->c, 2, TORSHI_MAX_MIXED, &count)) {
        return false;
    }
    size_t rows[TORSHI_MAX_MIXED] = {0}; /* selectors of four bits at most: always inside */
    const uint8_t *at = k->c.pos;
    uint8_t *selectors = take_memory(k, n, sizeof(*selectors));
    bool ok = selectors && torshi_unpack_u8(&k->c, selectors, n, w);
    for (size_t i = 0; ok && i < n; i++) {
        rows[selectors[i]]++;
        ok = selectors[i] < count || torshi_fail_at(&k->c, TORSHI_E_INDEX, at);
    }
    free(selectors);
    for (size_t j = 0; ok && j < count; j++) {
        ok = walk_column(k, rows[j], depth + 1, place);
    }
    return ok;
}

static bool walk_affix(walker *k, size_t n, int depth)
{
    for (int i = 0; i < 2; i++) { /* prefix, suffix */
        size_t size;
        const uint8_t *p;
        if (!torshi_read_count(&k->c, 0, TORSHI_MAX_AFFIX, &size) ||
            !torshi_read_span(&k->c, size, &p) || !walk_ascii(k, p, size)) {
            return false;
        }
    }
    return walk_column(k, n, depth + 1, IN_AFFIX);
}

static bool walk_columns(walker *k, size_t columns, size_t n, int depth, unsigned place)
{
    for (size_t i = 0; i < columns; i++) {
        if (!walk_column(k, n, depth, place)) {
            return false;
        }
    }
    return true;
}

/* The names of a STRUCT or of an instance's state, then the fields. */
static bool walk_fields(walker *k, size_t n, int depth, unsigned names)
{
    size_t fields;
    if (!torshi_read_count(&k->c, 0, TORSHI_MAX_FIELDS, &fields)) {
        return false;
    }
    if (fields) {
        torshi_cursor before = k->c;
        if (!walk_column(k, fields, depth + 1, names)) {
            return false;
        }
        before.values = 0;
        torshi_status status = torshi_check_names(&before, fields);
        if (status != TORSHI_S_OK) {
            return torshi_fail_at(&k->c, status, k->c.start + before.error_at);
        }
    }
    return walk_columns(k, fields, n, depth + 1, 0);
}

static bool walk_external(walker *k, size_t *number)
{
    if (!torshi_read_external(&k->c, k->external_count, number)) {
        return false;
    }
    if (*number >= k->externals) {
        k->externals = *number + 1;
    }
    return true;
}

/* EXTERNAL: a base, and how far beyond it the rows' numbers are. */
static bool walk_externals(walker *k, size_t n, int w)
{
    size_t base;
    if (!walk_external(k, &base)) {
        return false;
    }
    const uint8_t *at = k->c.pos;
    uint32_t *offsets = take_memory(k, n, sizeof(*offsets));
    bool ok = offsets && torshi_unpack_u32(&k->c, offsets, n, w);
    for (size_t i = 0; ok && i < n; i++) {
        ok = offsets[i] < k->external_count - base || torshi_fail_at(&k->c, TORSHI_E_EXTERNAL, at);
        if (ok && base + offsets[i] >= k->externals) {
            k->externals = base + offsets[i] + 1;
        }
    }
    free(offsets);
    return ok;
}

static bool walk_body(walker *k, torshi_kind kind, int w, size_t n, int depth, unsigned place)
{
    const uint8_t *blob;
    uint64_t total;
    int64_t base;
    size_t count;
    switch (kind) {
    case TORSHI_COL_NONE:
    case TORSHI_COL_PENDING:
    case TORSHI_COL_FALSE:
    case TORSHI_COL_TRUE:
        return true;
    case TORSHI_COL_BOOL:
        return torshi_read_bitmap(&k->c, n, &blob, &count);
    case TORSHI_COL_INT:
        /* Every offset is valid: only padding and size can be wrong. */
        return torshi_read_zvar(&k->c, &base) && torshi_read_packed(&k->c, n, w, &blob);
    case TORSHI_COL_PROGRESSION:
        return walk_progression(k, n);
    case TORSHI_COL_BIG:
    case TORSHI_COL_BYTES:
        return walk_blob(k, n, w, &blob, &total);
    case TORSHI_COL_FLOAT:
        return torshi_read_span(&k->c, n * 8, &blob);
    case TORSHI_COL_FLOAT_CONST:
        return torshi_read_span(&k->c, 8, &blob);
    case TORSHI_COL_STR:
        return walk_blob(k, n, w, &blob, &total) && walk_ascii(k, blob, (size_t)total);
    case TORSHI_COL_STR_KINDS:
        return walk_str_kinds(k, n, w);
    case TORSHI_COL_DICTIONARY:
        return walk_dictionary(k, n, depth, w);
    case TORSHI_COL_NULLABLE:
        return torshi_read_bitmap(&k->c, n, &blob, &count) &&
               walk_column(k, count, depth + 1, place);
    case TORSHI_COL_MIXED:
        return walk_mixed(k, n, depth, w, place);
    case TORSHI_COL_TUPLE:
        return torshi_read_count(&k->c, 0, TORSHI_MAX_ARITY, &count) &&
               walk_columns(k, count, n, depth + 1, place);
    case TORSHI_COL_STRUCT:
        return walk_fields(k, n, depth, PLAIN);
    case TORSHI_COL_LIST:
        return walk_lens(k, n, w, &total) && walk_column(k, total, depth + 1, 0);
    case TORSHI_COL_MAP:
        return walk_lens(k, n, w, &total) && walk_column(k, total, depth + 1, PLAIN | ALL_KEYS) &&
               walk_column(k, total, depth + 1, 0);
    case TORSHI_COL_INSTANCE:
    case TORSHI_COL_SLOTTED:
        return walk_external(k, &count) && walk_fields(k, n, depth, STATE_NAMES);
    case TORSHI_COL_BARE:
        return walk_external(k, &count);
    case TORSHI_COL_REDUCE:
    case TORSHI_COL_REFERENCE:
        return walk_external(k, &count) && torshi_read_count(&k->c, 0, TORSHI_MAX_ARITY, &count) &&
               walk_columns(k, count, n, depth + 1, place);
    case TORSHI_COL_AFFIX:
        return walk_affix(k, n, depth);
    case TORSHI_COL_EXTERNAL:
        return walk_externals(k, n, w);
    }
    return torshi_fail(&k->c, TORSHI_E_KIND);
}

static bool walk_column(walker *k, uint64_t total, int depth, unsigned place)
{
    const uint8_t *at = k->c.pos;
    torshi_kind kind;
    int w;
    if (!torshi_read_head(&k->c, total, depth, &kind, &w)) {
        return false;
    }
    size_t n = (size_t)total; /* within the limit now */
    if (!allow_kind(kind, place)) {
        return torshi_fail_at(&k->c, TORSHI_E_CHILD, at);
    }
    if (torshi_kinds[kind].is_mutable) {
        if (!k->has_roll) {
            return torshi_fail_at(&k->c, TORSHI_E_ROLL, at);
        }
        k->rolled += n;
    }
    /* PLAIN holds for everything below; the other demands are for this column alone. */
    return walk_body(k, kind, w, n, depth, place & PLAIN);
}

torshi_walk torshi_walk_payload(const void *data, size_t size, bool target_is_dict, bool has_roll,
                                size_t externals)
{
    walker k = {.external_count = has_roll ? externals : 0, .has_roll = has_roll};
    size_t rows = 0;
    uint64_t following;
    torshi_cursor_init(&k.c, data, size);
    if (torshi_read_rows(&k.c, &rows, &following) &&
        (!target_is_dict || walk_column(&k, rows, 1, PLAIN | ALL_KEYS)) &&
        walk_column(&k, rows, 1, 0) && k.c.pos != k.c.end) {
        torshi_fail(&k.c, TORSHI_E_TRAILING);
    }
    return (torshi_walk){
        .status = k.c.status,
        .error_at = k.c.error_at,
        .rows = rows,
        .values = k.c.values,
        .rolled = k.rolled,
        .externals = k.externals,
    };
}
