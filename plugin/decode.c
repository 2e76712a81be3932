/*
 * decode.c - the frame of decoding: scratch memory, heads, and the columns that only arrange the
 * values of others (DICTIONARY, NULLABLE, MIXED).
 */
#include "decode.h"

/* ---- scratch memory ------------------------------------------------------------------------ */
#define ARENA_ALIGN ((size_t)16)
#define ARENA_HEADER ((sizeof(arena_block) + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1))
#define ARENA_FIRST ((size_t)1 << 14)

/* Out of line: a block on top that holds at least `bytes`. */
static arena_block *add_block(arena *a, size_t bytes)
{
    size_t size = a->top ? 2 * a->top->size : ARENA_FIRST;
    if (size > ARENA_KEEP) {
        size = ARENA_KEEP;
    }
    if (size < bytes) {
        size = bytes;
    }
    arena_block *block = PyMem_Malloc(ARENA_HEADER + size);
    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    *block = (arena_block){.below = a->top, .size = size, .used = 0};
    a->top = block;
    return block;
}

void *arena_alloc(arena *a, size_t count, size_t size)
{
    /* Counts are below 2**32 and items small, but lengths come from outside. */
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > (size_t)PY_SSIZE_T_MAX / 2) {
        PyErr_NoMemory();
        return NULL;
    }
    bytes = (bytes + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1);
    arena_block *block = a->top;
    if (!block || bytes > block->size - block->used) {
        block = add_block(a, bytes);
        if (!block) {
            return NULL;
        }
    }
    void *memory = (char *)block + ARENA_HEADER + block->used;
    block->used += bytes;
    return memory;
}

arena_mark arena_here(const arena *a)
{
    return (arena_mark){a->top, a->top ? a->top->used : 0};
}

void arena_release(arena *a, arena_mark mark)
{
    while (a->top != mark.top) {
        arena_block *block = a->top;
        if (!block->below) { /* the mark is older than the first block: keep that */
            block->used = 0;
            return;
        }
        a->top = block->below;
        PyMem_Free(block);
    }
    if (a->top) {
        a->top->used = mark.used;
    }
}

void arena_reset(arena *a)
{
    arena_release(a, (arena_mark){NULL, 0});
    if (a->top && a->top->size > ARENA_KEEP) {
        arena_free(a);
    }
}

void arena_free(arena *a)
{
    while (a->top) {
        arena_block *block = a->top;
        a->top = block->below;
        PyMem_Free(block);
    }
}

/* ---- references ---------------------------------------------------------------------------- */
void release_refs(PyObject **refs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        Py_XDECREF(refs[i]);
    }
}

void release_columns(PyObject ***columns, size_t count, size_t from, size_t n)
{
    for (size_t f = 0; f < count; f++) {
        release_refs(columns[f] + from, n - from);
    }
}

void fill_refs(PyObject **out, size_t n, PyObject *value)
{
    /* Leaves the counts of immortal objects alone. */
    Py_SET_REFCNT(value, Py_REFCNT(value) + (Py_ssize_t)n);
    for (size_t i = 0; i < n; i++) {
        out[i] = value;
    }
}

/* ---- columns ------------------------------------------------------------------------------- */
static int (*const decoders[32])(decoder *d, const column *c) = {
#define COLUMN(NAME, CODE, WIDTHS, MUTABLE, DOC) [CODE] = decode_##NAME,
#include "wire/columns.def"
};

bool read_head(decoder *d, size_t n, int depth, kind_set allowed, column *c)
{
    const uint8_t *at = d->cursor.pos;
    c->n = n;
    c->depth = depth;
    c->below = allowed & KIND_BIT(PENDING) ? KINDS_ANY : KINDS_KEY;
    if (!torshi_read_head(&d->cursor, n, depth, &c->kind, &c->width)) {
        return false;
    }
    if (!(allowed >> c->kind & 1)) {
        return torshi_fail_at(&d->cursor, TORSHI_E_CHILD, at);
    }
    if (!d->has_roll && KINDS_MUTABLE >> c->kind & 1) {
        return torshi_fail_at(&d->cursor, TORSHI_E_ROLL, at);
    }
    return true;
}

int read_column_into(decoder *d, size_t n, int depth, kind_set allowed, PyObject **out)
{
    column c;
    if (!read_head(d, n, depth, allowed, &c)) {
        return -1;
    }
    c.out = out;
    return decoders[c.kind](d, &c);
}

PyObject **read_column(decoder *d, size_t n, int depth, kind_set allowed)
{
    column c;
    if (!read_head(d, n, depth, allowed, &c)) {
        return NULL;
    }
    c.out = arena_alloc(&d->arena, n, sizeof(*c.out));
    if (!c.out || decoders[c.kind](d, &c) < 0) {
        return NULL;
    }
    return c.out;
}

PyObject ***read_columns(decoder *d, const column *c, size_t count, kind_set allowed)
{
    PyObject ***columns = arena_alloc(&d->arena, count, sizeof(*columns));
    if (!columns) {
        return NULL;
    }
    for (size_t f = 0; f < count; f++) {
        columns[f] = read_column(d, c->n, c->depth + 1, allowed);
        if (!columns[f]) {
            release_columns(columns, f, 0, c->n);
            return NULL;
        }
    }
    return columns;
}

/* ---- columns of other columns -------------------------------------------------------------- */
static bool is_nan(PyObject *value)
{
    return PyFloat_CheckExact(value) && PyFloat_AS_DOUBLE(value) != PyFloat_AS_DOUBLE(value);
}

/* out[i] = entries[indexes[i]], a NaN being a new object in every row. 0 or -1. */
static int spread_entries(PyObject *const *entries, const uint32_t *indexes, size_t n, bool any_nan,
                          PyObject **out)
{
    for (size_t i = 0; i < n; i++) {
        PyObject *value = entries[indexes[i]];
        if (any_nan && is_nan(value)) {
            value = PyFloat_FromDouble(PyFloat_AS_DOUBLE(value));
            if (!value) {
                release_refs(out, i);
                return -1;
            }
        } else {
            Py_INCREF(value);
        }
        out[i] = value;
    }
    return 0;
}

PyObject **read_dictionary(decoder *d, const column *c, size_t *count, uint32_t **indexes)
{
    if (!torshi_read_count(&d->cursor, 1, TORSHI_MAX_ROWS, count)) {
        return NULL;
    }
    PyObject **entries = read_column(d, *count, c->depth + 1, KINDS_ENTRY);
    if (!entries) {
        return NULL;
    }
    const uint8_t *at = d->cursor.pos;
    *indexes = arena_alloc(&d->arena, c->n, sizeof(**indexes));
    if (!*indexes || !torshi_unpack_u32(&d->cursor, *indexes, c->n, c->width)) {
        goto error;
    }
    uint32_t highest = 0;
    for (size_t i = 0; i < c->n; i++) {
        highest = (*indexes)[i] > highest ? (*indexes)[i] : highest;
    }
    if (highest >= *count) {
        torshi_fail_at(&d->cursor, TORSHI_E_INDEX, at);
        goto error;
    }
    return entries;
error:
    release_refs(entries, *count);
    return NULL;
}

int decode_DICTIONARY(decoder *d, const column *c)
{
    int status = -1;
    arena_mark mark = arena_here(&d->arena);
    size_t count;
    uint32_t *indexes;
    PyObject **entries = read_dictionary(d, c, &count, &indexes);
    if (!entries) {
        goto done;
    }
    bool any_nan = false;
    for (size_t i = 0; i < count; i++) {
        any_nan |= is_nan(entries[i]);
    }
    status = spread_entries(entries, indexes, c->n, any_nan, c->out);
    release_refs(entries, count);
done:
    arena_release(&d->arena, mark);
    return status;
}

int decode_NULLABLE(decoder *d, const column *c)
{
    const uint8_t *bits;
    size_t ones;
    if (!torshi_read_bitmap(&d->cursor, c->n, &bits, &ones)) {
        return -1;
    }
    /* The values are read into the end of `out` and moved forward: a row's value never lies before
       its place. */
    size_t from = c->n - ones;
    if (read_column_into(d, ones, c->depth + 1, c->below, c->out + from) < 0) {
        return -1;
    }
    for (size_t i = 0; i < c->n; i++) {
        c->out[i] = bits[i >> 3] >> (i & 7) & 1 ? c->out[from++] : Py_NewRef(Py_None);
    }
    return 0;
}

int decode_MIXED(decoder *d, const column *c)
{
    int status = -1;
    arena_mark mark = arena_here(&d->arena);
    size_t kinds;
    size_t counts[TORSHI_MAX_MIXED] = {0};
    PyObject **columns[TORSHI_MAX_MIXED];
    size_t ready = 0;
    if (!torshi_read_count(&d->cursor, 2, TORSHI_MAX_MIXED, &kinds)) {
        goto done;
    }
    const uint8_t *at = d->cursor.pos;
    uint8_t *selectors = arena_alloc(&d->arena, c->n, 1);
    if (!selectors || !torshi_unpack_u8(&d->cursor, selectors, c->n, c->width)) {
        goto done;
    }
    for (size_t i = 0; i < c->n; i++) {
        counts[selectors[i]]++; /* a selector has at most 4 bits */
    }
    for (size_t k = kinds; k < TORSHI_MAX_MIXED; k++) {
        if (counts[k]) {
            torshi_fail_at(&d->cursor, TORSHI_E_INDEX, at);
            goto done;
        }
    }
    for (; ready < kinds; ready++) {
        columns[ready] = read_column(d, counts[ready], c->depth + 1, c->below);
        if (!columns[ready]) {
            goto done;
        }
    }
    for (size_t i = 0; i < c->n; i++) {
        c->out[i] = *columns[selectors[i]]++;
    }
    status = 0;
done:
    if (status < 0) {
        for (size_t k = 0; k < ready; k++) {
            release_refs(columns[k], counts[k]);
        }
    }
    arena_release(&d->arena, mark);
    return status;
}
