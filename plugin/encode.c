/*
 * encode.c - a column: of one kind when all its values are, else split by kind.
 */
#include "encode.h"

/* The values of one kind in a column, in order. */
typedef struct group {
    value_kind kind;
    size_t n;
    PyObject **objects; /* in the arena */
    uint32_t *ids;      /* in the arena: their rows in the origin of the column */
} group;

static int count_values(chunk_writer *w, size_t n)
{
    w->values += n;
    return n > TORSHI_MAX_ROWS || w->values > TORSHI_MAX_VALUES ? ENC_LIMIT : ENC_OK;
}

/* A column whose first value is of this kind. ENC_OTHER when not all are. */
static int encode_kind(chunk_writer *w, value_kind kind, const span *s, const cells *c, int level,
                       unsigned flags)
{
    switch (kind.kind) {
    case KIND_NONE:
        return encode_nones(w, s);
    case KIND_BOOL:
        return encode_bools(w, s);
    case KIND_INT:
        return encode_ints(w, s);
    case KIND_BIG:
        return encode_bigs(w, s);
    case KIND_FLOAT:
        return encode_floats(w, s);
    case KIND_STR:
    case KIND_BYTES:
        return encode_texts(w, s, flags);
    case KIND_TUPLE:
        return encode_tuples(w, s, level, flags);
    default:
        return flags & COLUMN_PLAIN ? ENC_DECLINE : encode_pending(w, s, c);
    }
}

/* ---- split columns ------------------------------------------------------------------------------
 */
/* Sort the rows into groups; selectors[i] is the group of row i. ENC_OK or ENC_DECLINE. */
static int find_groups(chunk_writer *w, const span *s, int level, unsigned flags, group *groups,
                       size_t *count, uint8_t *selectors)
{
    size_t known = 0, last = 0;
    for (size_t i = 0; i < s->n; i++) {
        value_kind kind = classify(w, span_at(s, i), level, flags);
        size_t g = last;
        if (g >= known || groups[g].kind.kind != kind.kind ||
            groups[g].kind.detail != kind.detail) {
            for (g = 0; g < known; g++) {
                if (groups[g].kind.kind == kind.kind && groups[g].kind.detail == kind.detail) {
                    break;
                }
            }
            if (g == known && known + 1 >= TORSHI_MAX_MIXED && kind.kind != KIND_PENDING) {
                kind = (value_kind){KIND_PENDING, 0}; /* the last column takes all further kinds */
                for (g = 0; g < known && groups[g].kind.kind != KIND_PENDING; g++) {
                }
            }
            if (g == known) {
                groups[known++] = (group){.kind = kind};
            }
        }
        if (kind.kind == KIND_PENDING && (flags & COLUMN_PLAIN)) {
            return ENC_DECLINE;
        }
        groups[g].n++;
        selectors[i] = (uint8_t)g;
        last = g;
    }
    *count = known;
    return ENC_OK;
}

/* Give each group its objects and their rows. */
static int fill_groups(chunk_writer *w, const span *s, const cells *c, group *groups, size_t count,
                       const uint8_t *selectors)
{
    PyObject **objects[TORSHI_MAX_MIXED];
    uint32_t *ids[TORSHI_MAX_MIXED];
    for (size_t g = 0; g < count; g++) {
        groups[g].objects = objects[g] = arena_alloc(&w->arena, groups[g].n, sizeof(PyObject *));
        groups[g].ids = ids[g] = arena_alloc(&w->arena, groups[g].n, sizeof(uint32_t));
        if (!objects[g] || !ids[g]) {
            return ENC_ERROR;
        }
    }
    for (size_t i = 0; i < s->n; i++) {
        size_t g = selectors[i];
        *objects[g]++ = span_at(s, i);
        *ids[g]++ = cell_id(c, i);
    }
    return ENC_OK;
}

static int put_bitmap(chunk_writer *w, const uint8_t *selectors, size_t n, size_t none)
{
    size_t size = torshi_packed_size(n, 1);
    if (put_head(w, TORSHI_COL_NULLABLE, 0) < 0) {
        return ENC_ERROR;
    }
    if (!torshi_buf_reserve(&w->out, size)) {
        return put_no_memory();
    }
    uint8_t *bits = w->out.data + w->out.len;
    memset(bits, 0, size);
    for (size_t i = 0; i < n; i++) {
        bits[i / 8] |= (uint8_t)((selectors[i] != none) << (i % 8));
    }
    w->out.len += size;
    return ENC_OK;
}

static int encode_group(chunk_writer *w, const group *g, const cells *c, int level, unsigned flags)
{
    span s = span_of(g->objects, g->n);
    cells where = {c->from, g->ids};
    int status = count_values(w, g->n);
    return status == ENC_OK ? encode_kind(w, g->kind, &s, &where, level, flags | COLUMN_SORTED)
                            : status;
}

static int encode_split(chunk_writer *w, const span *s, const cells *c, int level, unsigned flags)
{
    group groups[TORSHI_MAX_MIXED];
    size_t count = 0;
    uint8_t *selectors = arena_alloc(&w->arena, s->n, 1);
    if (!selectors) {
        return ENC_ERROR;
    }
    int status = find_groups(w, s, level, flags, groups, &count, selectors);
    if (status != ENC_OK) {
        return status;
    }
    if (count == 1) {
        return encode_kind(w, groups[0].kind, s, c, level, flags | COLUMN_SORTED);
    }
    status = fill_groups(w, s, c, groups, count, selectors);
    if (status != ENC_OK) {
        return status;
    }
    if (count == 2 && (groups[0].kind.kind == KIND_NONE || groups[1].kind.kind == KIND_NONE)) {
        size_t none = groups[0].kind.kind == KIND_NONE ? 0 : 1;
        status = put_bitmap(w, selectors, s->n, none);
        w->bound += (int64_t)groups[none].n;
        return status == ENC_OK ? encode_group(w, &groups[1 - none], c, level + 1, flags) : status;
    }
    int width = torshi_width_for(count - 1);
    if (put_head(w, TORSHI_COL_MIXED, width) < 0) {
        return ENC_ERROR;
    }
    if (!torshi_buf_uvar(&w->out, count) || !torshi_pack_u8(&w->out, selectors, s->n, width)) {
        return put_no_memory();
    }
    for (size_t g = 0; g < count && status == ENC_OK; g++) {
        status = encode_group(w, &groups[g], c, level + 1, flags);
    }
    return status;
}

int encode_column(chunk_writer *w, const span *s, const cells *c, int level, unsigned flags)
{
    int status = count_values(w, s->n);
    if (status != ENC_OK) {
        return status;
    }
    if (s->n == 0) {
        return put_head(w, TORSHI_COL_NONE, 0);
    }
    value_kind kind = classify(w, span_at(s, 0), level, flags);
    if (kind.kind != KIND_PENDING) {
        status = encode_kind(w, kind, s, c, level, flags);
        if (status != ENC_OTHER) {
            return status;
        }
    }
    return encode_split(w, s, c, level, flags);
}
