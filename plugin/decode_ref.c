/*
 * decode_ref.c - REFERENCE columns: torshi's own references straight out of the payload, those of
 * registered classes by one batch call, all others by calls, row by row.
 */
#include "decode.h"
#include "refs.h"

/* ---- torshi.ObjectRef ---------------------------------------------------------------------------
 */
/* Ids where they lie in the payload: 1; 0 when they are in a column of another kind; -1. */
static int read_ids(decoder *d, const column *c, const uint8_t **blob, uint32_t **lens)
{
    column head;
    uint64_t total;
    if (d->cursor.pos == d->cursor.end || (*d->cursor.pos & 31) != TORSHI_COL_BYTES) {
        return 0;
    }
    if (!read_head(d, c->n, c->depth + 1, c->below, &head)) {
        return -1;
    }
    *lens = arena_alloc(&d->arena, c->n, sizeof(**lens));
    return *lens && torshi_read_lens(&d->cursor, *lens, c->n, head.width, &total) &&
                   torshi_read_span(&d->cursor, total, blob)
               ? 1
               : -1;
}

/* A DICTIONARY's entries and the index of each row's, which are not spread: references are made
   from them directly. 0 or -1. */
static int read_part(decoder *d, const column *c, ref_part *part)
{
    column head;
    uint32_t *indexes;
    *part = (ref_part){NULL, 0, NULL};
    if (d->cursor.pos == d->cursor.end || (*d->cursor.pos & 31) != TORSHI_COL_DICTIONARY) {
        part->entries = read_column(d, c->n, c->depth + 1, c->below);
        part->count = c->n;
        return part->entries ? 0 : -1;
    }
    if (!read_head(d, c->n, c->depth + 1, c->below, &head)) {
        return -1;
    }
    part->entries = read_dictionary(d, &head, &part->count, &indexes);
    part->indexes = indexes;
    return part->entries ? 0 : -1;
}

static void release_part(const ref_part *part)
{
    if (part->entries) {
        release_refs(part->entries, part->count);
    }
}

static bool all_are(const ref_part *part, PyTypeObject *type, PyObject *other)
{
    for (size_t i = 0; i < part->count; i++) {
        if (!Py_IS_TYPE(part->entries[i], type) && part->entries[i] != other) {
            return false;
        }
    }
    return true;
}

/* Put on the roll, too. 1; 0 when a row is not what an ObjectRef is made of, which its callable is
 * to say; -1. */
static int make_own(decoder *d, const column *c, size_t at)
{
    const uint8_t *blob;
    uint32_t *lens;
    ref_part owners = {NULL, 0, NULL}, sites = owners;
    int made = read_ids(d, c, &blob, &lens);
    if (made != 1) {
        return made;
    }
    made = -1;
    if (read_part(d, c, &owners) < 0 || read_part(d, c, &sites) < 0) {
        goto done;
    }
    made = all_are(&owners, &PyBytes_Type, NULL) && all_are(&sites, &PyUnicode_Type, Py_None);
    if (made && object_refs_make(refs_of(d->plugin), blob, lens, &owners, &sites, c->n, c->out,
                                 d->rolled + at) < 0) {
        made = -1;
    }
done:
    release_part(&owners);
    release_part(&sites);
    return made;
}

/* ---- registered classes -------------------------------------------------------------------------
 */
static int make_batch(decoder *d, const column *c, ref_class *known, size_t count)
{
    PyObject ***columns = read_columns(d, c, count, c->below);
    if (!columns) {
        return -1;
    }
    wake_collector(d);
    d->has_foreign = true;
    int status =
        ref_batch_call(d->plugin, d->load, &d->own_load, known, columns, count, c->n, c->out);
    rest_collector(d);
    return status < 0 ? -1 : 1;
}

/* ---- the column ---------------------------------------------------------------------------------
 */
int decode_REFERENCE(decoder *d, const column *c)
{
    int made = -1;
    bool own = false;
    arena_mark mark = arena_here(&d->arena);
    torshi_cursor start = d->cursor;
    size_t at;
    size_t external;
    size_t count;
    if (roll_reserve(d, c->n, &at) < 0 ||
        !torshi_read_external(&d->cursor, d->external_count, &external) ||
        !torshi_read_count(&d->cursor, 0, TORSHI_MAX_ARITY, &count)) {
        goto done;
    }
    PyObject *callable = d->externals[external];
    ref_class *known = ref_class_of_callable(refs_of(d->plugin), callable);
    if (known) {
        ref_class_keep(known);
        made = make_batch(d, c, known, count);
        ref_class_drop(known);
    } else if (count == 3 && callable == object_ref_maker(d->plugin)) {
        made = make_own(d, c, at);
        own = made == 1;
    } else {
        made = 0;
    }
    if (made == 0) {
        d->cursor = start;
        made = decode_REDUCE(d, c) < 0 ? -1 : 1;
    }
    if (made == 1 && !own) {
        roll_set(d, at, c->out, c->n);
    }
done:
    arena_release(&d->arena, mark);
    return made == 1 ? 0 : -1;
}
