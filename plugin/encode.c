/*
 * encode.c - a column: of one kind when all its values are, else split by kind.
 */
#include "encode.h"
#include "encode_ref.h"

/* The values of one kind in a column, in order. */
typedef struct group {
    value_kind kind;
    size_t n;
    PyObject **objects; /* in the arena */
    uint32_t *ids;      /* in the arena: their rows in the origin of the column */
} group;

/* Kinds told apart before shapes are settled; further ones are pending. */
#define RAW_KINDS 255
/* Shapes of dicts told apart in a column; dicts of further ones go to a MAP. */
#define DICT_SHAPES 12
/* So many entries of a dict are fetched ahead before its shape is known. */
#define USUAL_FIELDS 4

/* A column being split. */
typedef struct splitter {
    value_kind raw[RAW_KINDS];
    size_t raw_count;
    shape *shapes[RAW_KINDS];
    uint8_t raw_of[RAW_KINDS]; /* shape -> raw kind, or RAW_KINDS */
    size_t shape_count, dict_shapes;
    group groups[TORSHI_MAX_MIXED];
    size_t count;
    size_t rows;
    uint8_t *selectors; /* row -> raw kind, then group */
} splitter;

int count_values(chunk_writer *w, size_t n)
{
    w->values += n;
    return n > TORSHI_MAX_ROWS || w->values > TORSHI_MAX_VALUES ? ENC_LIMIT : ENC_OK;
}

/* A column whose first value is of this kind. ENC_OTHER when not all are. */
static int encode_kind(chunk_writer *w, value_kind kind, const span *s, const cells *c, int level,
                       unsigned flags)
{
    bool sorted = (flags & COLUMN_SORTED) != 0;
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
    case KIND_VALUE:
        return encode_values(w, s, level, flags, (type_entry *)kind.detail);
    case KIND_DICT:
        return encode_structs(w, s, c, level, (shape *)kind.detail, NULL);
    case KIND_INSTANCE:
        return sorted ? encode_structs(w, s, c, level, (shape *)kind.detail, NULL)
                      : encode_structs(w, s, c, level, NULL, (type_entry *)kind.detail);
    case KIND_MAP:
        return encode_maps(w, s, c, level);
    case KIND_LIST:
        return encode_lists(w, s, c, level, flags);
    case KIND_REFERENCE:
        return encode_refs(w, s, c, level, flags, kind);
    default:
        return flags & COLUMN_PLAIN ? ENC_DECLINE : encode_pending(w, s, c);
    }
}

/* ---- split columns ------------------------------------------------------------------------------
 */
static const value_kind pending_kind = {KIND_PENDING, 0};

static int claim(chunk_writer *w, PyObject *obj, const type_entry *type)
{
    return type ? claim_instance(w, obj, type) : claim_row(w, obj);
}

/*
 * The shapes so far against a dict or instance whose entries lie open. Most rows of a split column
 * end here, so their values are copied at once. ENC_OTHER when it has none of the shapes (*other),
 * or that could not be seen.
 */
static int find_known_shape(chunk_writer *w, splitter *sp, PyObject *obj, const type_entry *type,
                            bool *other, value_kind *kind)
{
    torshi_dict_view view;
    if (!row_view(w, obj, type, &view)) {
        return ENC_OTHER;
    }
    arena_mark mark = arena_here(&w->arena);
    PyObject **values = arena_take(&w->arena, (size_t)view.count * sizeof(*values));
    if (!values) {
        return ENC_ERROR;
    }
    for (size_t i = 0; i < sp->shape_count; i++) {
        shape *sh = sp->shapes[i];
        if (sh->type != type || sh->slotted || !take_view(&view, sh, values, 1)) {
            continue;
        }
        int claimed = claim(w, obj, type);
        if (claimed != 1) {
            *kind = pending_kind;
            arena_release(&w->arena, mark);
            return claimed; /* ENC_OK, ENC_ERROR or ENC_AGAIN */
        }
        sh->taken[sh->rows++] = values;
        *kind = (value_kind){type ? KIND_INSTANCE : KIND_DICT, (uintptr_t)sh};
        return ENC_OK;
    }
    arena_release(&w->arena, mark);
    *other = true;
    return ENC_OTHER;
}

/* One more shape in the column, that of a claimed obj; KIND_MAP for dicts of too many shapes.
   `other`: it is known to have none of the shapes so far. */
static int add_shape(chunk_writer *w, splitter *sp, PyObject *obj, bool other, value_kind *kind)
{
    const type_entry *type = (const type_entry *)kind->detail;
    entries e;
    if (other && !type && sp->dict_shapes == DICT_SHAPES) {
        *kind = (value_kind){KIND_MAP, 0};
        return ENC_OK;
    }
    int status = row_entries(w, obj, type, &e);
    if (status == ENC_ERROR) {
        return status;
    }
    for (size_t i = 0; status == ENC_OK && !other && i < sp->shape_count; i++) {
        shape *sh = sp->shapes[i];
        if (sh->type == type && has_shape(sh, &e)) {
            sh->taken[sh->rows++] = e.values;
            kind->detail = (uintptr_t)sh;
            return ENC_OK;
        }
    }
    int plain = type && status == ENC_OK ? w->services->is_default_instance(w->dump, obj) : 1;
    if (plain < 0) {
        return ENC_ERROR;
    }
    if (status == ENC_OTHER || !plain || sp->shape_count == RAW_KINDS ||
        (type ? e.n > TORSHI_MAX_FIELDS : sp->dict_shapes == DICT_SHAPES || !are_names(&e))) {
        *kind = type ? pending_kind : (value_kind){KIND_MAP, 0};
        return ENC_OK;
    }
    shape *sh = make_shape(w, &e, type);
    PyObject ***taken = arena_alloc(&w->arena, sp->rows, sizeof(*taken));
    if (!sh || !taken) {
        return ENC_ERROR;
    }
    taken[0] = e.values;
    sh->taken = taken;
    sh->rows = 1;
    sp->shapes[sp->shape_count++] = sh;
    sp->dict_shapes += !type;
    kind->detail = (uintptr_t)sh;
    return ENC_OK;
}

/* The kind of a value, rows claimed and shapes told apart. */
static int find_kind(chunk_writer *w, splitter *sp, PyObject *obj, int level, unsigned flags,
                     value_kind *kind)
{
    bool other = false;
    if (sp->shape_count) {
        const type_entry *type = NULL;
        bool is_dict = PyDict_CheckExact(obj);
        if (!is_dict && (Py_TYPE(obj)->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
            type = type_of(w, obj);
            if (!type) {
                return ENC_ERROR;
            }
        }
        if (is_dict || (type && type->form == TYPE_INSTANCE)) {
            int status = find_known_shape(w, sp, obj, type, &other, kind);
            if (status != ENC_OTHER) {
                return status;
            }
        }
    }
    *kind = classify(w, obj, level, flags);
    bool shaped = kind->kind == KIND_DICT || kind->kind == KIND_INSTANCE;
    if (!shaped && kind->kind != KIND_LIST && kind->kind != KIND_REFERENCE) {
        return ENC_OK;
    }
    int claimed = claim(w, obj, shaped ? (const type_entry *)kind->detail : NULL);
    if (claimed != 1) {
        *kind = pending_kind;
        return claimed; /* ENC_OK, ENC_ERROR or ENC_AGAIN */
    }
    return shaped ? add_shape(w, sp, obj, other, kind) : ENC_OK;
}

/*
 * The same for a dict that nobody else has, so that there is nothing to claim: most rows of a split
 * column of dicts end here. *k: its raw kind. ENC_OTHER when it must be looked at again.
 */
static int find_own_dict(chunk_writer *w, splitter *sp, PyObject *obj, size_t *k)
{
    torshi_dict_view view;
    PyObject **values = NULL;
    if (!w->objects->dict_view(obj, &view) || view.used != view.count) {
        return ENC_OTHER;
    }
    PyObject *const *pairs = view_pairs(&view);
    for (size_t i = 0; i < sp->shape_count; i++) {
        shape *sh = sp->shapes[i];
        if (sh->type || sh->n != (size_t)view.count) {
            continue;
        }
        if (!values) {
            values = arena_take(&w->arena, sh->n * sizeof(*values));
            if (!values) {
                return ENC_ERROR;
            }
        }
        if (pairs ? take_pairs_of(pairs, sh, values, 1) : take_view(&view, sh, values, 1)) {
            sh->taken[sh->rows++] = values;
            *k = sp->raw_of[i];
            return ENC_OK;
        }
    }
    return ENC_OTHER;
}

/* selectors[i]: the raw kind of row i. ENC_OK, ENC_DECLINE or ENC_ERROR. */
static int find_raw_kinds(chunk_writer *w, splitter *sp, const span *s, int level, unsigned flags)
{
    uint8_t follower[RAW_KINDS + 1] = {0}; /* what came after each last time: kinds come in turns */
    uint8_t atoms[KIND_STR + 1] = {0};     /* the raw kind of each, plus 1 */
    size_t last = 0;
    uint8_t *const selectors = sp->selectors;
    const unsigned char *at = s->base;
    for (size_t i = 0; i < s->n; i++, at += s->stride) {
        PyObject *obj = object_at(at);
        value_kind kind;
        int atom = atom_kind(obj);
        if (atom && atoms[atom]) {
            last = atoms[atom] - 1u;
            selectors[i] = (uint8_t)last;
            continue;
        }
        fetch_dict_ahead(s, i, USUAL_FIELDS);
        int status = ENC_OTHER;
        if (sp->dict_shapes && PyDict_CheckExact(obj) && Py_REFCNT(obj) == 1) {
            size_t own;
            status = find_own_dict(w, sp, obj, &own);
            if (status == ENC_OK) {
                selectors[i] = follower[last] = (uint8_t)own;
                last = own;
                continue;
            }
        }
        if (status == ENC_OTHER) {
            status = find_kind(w, sp, obj, level, flags, &kind);
        }
        if (status != ENC_OK) {
            return status;
        }
        if (kind.kind == KIND_PENDING && (flags & COLUMN_PLAIN)) {
            return ENC_DECLINE;
        }
        size_t k = follower[last];
        if (k >= sp->raw_count || sp->raw[k].kind != kind.kind ||
            sp->raw[k].detail != kind.detail) {
            for (k = 0; k < sp->raw_count; k++) {
                if (sp->raw[k].kind == kind.kind && sp->raw[k].detail == kind.detail) {
                    break;
                }
            }
            if (sp->shape_count && (uintptr_t)sp->shapes[sp->shape_count - 1] == kind.detail &&
                k == sp->raw_count) {
                sp->raw_of[sp->shape_count - 1] = (uint8_t)k; /* it was made for this row */
            }
            if (k == sp->raw_count && k < RAW_KINDS) {
                sp->raw[sp->raw_count++] = kind;
            }
        }
        if (kind.kind <= KIND_STR && k < RAW_KINDS) {
            atoms[kind.kind] = (uint8_t)(k + 1);
        }
        selectors[i] = (uint8_t)k; /* RAW_KINDS: one too many */
        follower[last] = (uint8_t)k;
        last = k;
    }
    return ENC_OK;
}

static size_t find_group(splitter *sp, value_kind kind)
{
    for (size_t g = 0; g < sp->count; g++) {
        if (sp->groups[g].kind.kind == kind.kind && sp->groups[g].kind.detail == kind.detail) {
            return g;
        }
    }
    if (sp->count >= TORSHI_MAX_MIXED - 1 && kind.kind != KIND_PENDING) {
        return find_group(sp, pending_kind); /* the last column takes all further kinds */
    }
    sp->groups[sp->count] = (group){.kind = kind};
    return sp->count++;
}

/* Sort the rows into groups. ENC_OK, ENC_DECLINE or ENC_ERROR. */
static int find_groups(chunk_writer *w, splitter *sp, const span *s, int level, unsigned flags)
{
    uint8_t group_of[RAW_KINDS + 1];
    int status = find_raw_kinds(w, sp, s, level, flags);
    if (status != ENC_OK) {
        return status;
    }
    for (size_t k = 0; k < sp->raw_count; k++) {
        value_kind kind = sp->raw[k];
        if (kind.kind == KIND_DICT && !shape_is_struct((const shape *)kind.detail)) {
            kind = (value_kind){KIND_MAP, 0};
        }
        group_of[k] = (uint8_t)find_group(sp, kind);
    }
    if (sp->raw_count == RAW_KINDS) {
        group_of[RAW_KINDS] = (uint8_t)find_group(sp, pending_kind);
    }
    size_t rows[TORSHI_MAX_MIXED] = {0};
    uint8_t *const selectors = sp->selectors;
    for (size_t i = 0, n = s->n; i < n; i++) {
        uint8_t g = group_of[selectors[i]];
        selectors[i] = g;
        rows[g]++;
    }
    for (size_t g = 0; g < sp->count; g++) {
        sp->groups[g].n = rows[g];
    }
    if ((flags & COLUMN_PLAIN) && sp->groups[sp->count - 1].kind.kind == KIND_PENDING) {
        return ENC_DECLINE;
    }
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
    const unsigned char *at = s->base;
    const size_t n = s->n, stride = s->stride;
    const uint32_t *const known = c->ids;
    for (size_t i = 0; i < n; i++, at += stride) {
        size_t g = selectors[i];
        *objects[g]++ = object_at(at);
        *ids[g]++ = known ? known[i] : (uint32_t)i;
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

static PLUGIN_NOINLINE int encode_split(chunk_writer *w, const span *s, const cells *c, int level,
                                        unsigned flags)
{
    splitter *sp = arena_alloc(&w->arena, 1, sizeof(*sp));
    uint8_t *selectors = arena_alloc(&w->arena, s->n, 1);
    if (!sp || !selectors) {
        return ENC_ERROR;
    }
    sp->raw_count = sp->shape_count = sp->dict_shapes = sp->count = 0;
    sp->selectors = selectors;
    sp->rows = s->n;
    int status = find_groups(w, sp, s, level, flags);
    if (status != ENC_OK) {
        return status;
    }
    group *groups = sp->groups;
    size_t count = sp->count;
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

int encode_keys(chunk_writer *w, const span *keys, const cells *c)
{
    const cells nowhere = {NULL, NULL};
    const unsigned flags = COLUMN_PLAIN | COLUMN_DISTINCT;
    int status = count_values(w, keys->n);
    if (status != ENC_OK || keys->n == 0) {
        return status != ENC_OK ? status : put_head(w, TORSHI_COL_NONE, 0);
    }
    value_kind kind = classify(w, span_at(keys, 0), 1, flags);
    if (kind.kind == KIND_PENDING) {
        kind = classify(w, span_at(keys, 0), 1, 0);
        if (kind.kind == KIND_REFERENCE) {
            status = encode_refs(w, keys, c, 1, 0, kind);
            return status == ENC_OTHER ? ENC_DECLINE : status;
        }
    }
    if (kind.kind == KIND_STR || kind.kind == KIND_BYTES || kind.kind == KIND_INT) {
        status = encode_kind(w, kind, keys, &nowhere, 1, flags);
        if (status != ENC_OTHER) {
            return status;
        }
    }
    return keys_are_plain(w, keys, 1) ? encode_split(w, keys, &nowhere, 1, flags) : ENC_DECLINE;
}
