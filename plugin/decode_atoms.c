/*
 * decode_atoms.c - columns of plain immutable values: None, bool, int, float, str, bytes.
 */
#include "decode.h"

/* Offsets of up to a byte are looked up in a table of the values made so far. */
#define TABLE_ROWS 64

/* ---- constants ----------------------------------------------------------------------------- */
int decode_NONE(decoder *d, const column *c)
{
    (void)d;
    fill_refs(c->out, c->n, Py_None);
    return 0;
}

int decode_PENDING(decoder *d, const column *c)
{
    return decode_NONE(d, c);
}

int decode_FALSE(decoder *d, const column *c)
{
    (void)d;
    fill_refs(c->out, c->n, Py_False);
    return 0;
}

int decode_TRUE(decoder *d, const column *c)
{
    (void)d;
    fill_refs(c->out, c->n, Py_True);
    return 0;
}

int decode_BOOL(decoder *d, const column *c)
{
    const uint8_t *bits;
    size_t ones;
    if (!torshi_read_bitmap(&d->cursor, c->n, &bits, &ones)) {
        return -1;
    }
    for (size_t i = 0; i < c->n; i++) {
        PyObject *value = bits[i >> 3] >> (i & 7) & 1 ? Py_True : Py_False;
        c->out[i] = Py_NewRef(value);
    }
    return 0;
}

/* ---- int ----------------------------------------------------------------------------------- */
/* base + offset modulo 2**64 as a signed number. */
static int64_t add_offset(int64_t base, uint64_t offset)
{
    uint64_t sum = (uint64_t)base + offset;
    int64_t value;
    memcpy(&value, &sum, sizeof(value));
    return value;
}

/* The same int in every row. */
static int fill_int(PyObject **out, size_t n, int64_t v)
{
    PyObject *value = PyLong_FromLongLong(v);
    if (!value) {
        return -1;
    }
    fill_refs(out, n, value);
    Py_DECREF(value);
    return 0;
}

/* Rows whose offsets are few: every distinct int is made once. 0 or -1. */
static int spread_ints(const uint8_t *offsets, int64_t base, size_t n, PyObject **out)
{
    PyObject *made[256] = {NULL};
    int status = 0;
    for (size_t i = 0; i < n; i++) {
        PyObject *value = made[offsets[i]];
        if (!value) {
            value = PyLong_FromLongLong(add_offset(base, offsets[i]));
            if (!value) {
                release_refs(out, i);
                status = -1;
                break;
            }
            made[offsets[i]] = value;
        }
        out[i] = Py_NewRef(value);
    }
    release_refs(made, 256);
    return status;
}

int decode_INT(decoder *d, const column *c)
{
    int64_t base;
    if (!torshi_read_zvar(&d->cursor, &base)) {
        return -1;
    }
    if (c->width == 0) {
        return fill_int(c->out, c->n, base);
    }
    if (c->width < 4) {
        arena_mark mark = arena_here(&d->arena);
        uint8_t *offsets = arena_alloc(&d->arena, c->n, 1);
        int status = -1;
        if (offsets && torshi_unpack_u8(&d->cursor, offsets, c->n, c->width)) {
            status = spread_ints(offsets, base, c->n, c->out);
        }
        arena_release(&d->arena, mark);
        return status;
    }
    const uint8_t *offsets;
    if (!torshi_read_span(&d->cursor, torshi_packed_size(c->n, c->width), &offsets)) {
        return -1;
    }
    if (c->width == 4 && c->n >= TABLE_ROWS) {
        return spread_ints(offsets, base, c->n, c->out);
    }
    return d->objects->make_ints(offsets, 1 << (c->width - 4), base, (intptr_t)c->n, c->out);
}

int decode_PROGRESSION(decoder *d, const column *c)
{
    const uint8_t *at = d->cursor.pos;
    int64_t start;
    int64_t step;
    if (!torshi_read_zvar(&d->cursor, &start) || !torshi_read_zvar(&d->cursor, &step)) {
        return -1;
    }
    if (!torshi_progression_fits(start, step, c->n)) {
        torshi_fail_at(&d->cursor, TORSHI_E_RANGE, at);
        return -1;
    }
    if (step == 0) {
        return fill_int(c->out, c->n, start);
    }
    return d->objects->make_progression(start, step, (intptr_t)c->n, c->out);
}

/* An int of any size out of little-endian two's complement. New reference or NULL. */
static PyObject *make_big(const uint8_t *bytes, size_t n)
{
#if PY_VERSION_HEX >= 0x030D0000
    if (n == 0) {
        return PyLong_FromLong(0);
    }
    return PyLong_FromNativeBytes(bytes, n, Py_ASNATIVEBYTES_LITTLE_ENDIAN);
#else
    return _PyLong_FromByteArray(bytes, n, 1, 1);
#endif
}

int decode_BIG(decoder *d, const column *c)
{
    int status = -1;
    arena_mark mark = arena_here(&d->arena);
    uint32_t *lens = arena_alloc(&d->arena, c->n, sizeof(*lens));
    uint64_t total;
    const uint8_t *blob;
    if (!lens || !torshi_read_lens(&d->cursor, lens, c->n, c->width, &total) ||
        !torshi_read_span(&d->cursor, total, &blob)) {
        goto done;
    }
    for (size_t i = 0; i < c->n; i++) {
        c->out[i] = make_big(blob, lens[i]);
        if (!c->out[i]) {
            release_refs(c->out, i);
            goto done;
        }
        blob += lens[i];
    }
    status = 0;
done:
    arena_release(&d->arena, mark);
    return status;
}

/* ---- float --------------------------------------------------------------------------------- */
int decode_FLOAT(decoder *d, const column *c)
{
    const uint8_t *bits;
    if (!torshi_read_span(&d->cursor, 8 * c->n, &bits)) {
        return -1;
    }
    return d->objects->make_floats(bits, (intptr_t)c->n, c->out);
}

int decode_FLOAT_CONST(decoder *d, const column *c)
{
    const uint8_t *bits;
    PyObject *value;
    if (!torshi_read_span(&d->cursor, 8, &bits) || d->objects->make_floats(bits, 1, &value) < 0) {
        return -1;
    }
    double v = PyFloat_AS_DOUBLE(value);
    int status = 0;
    if (v == v) {
        fill_refs(c->out, c->n, value);
    } else {
        for (size_t i = 0; i < c->n; i++) { /* equal NaNs are told apart by identity */
            if (d->objects->make_floats(bits, 1, &c->out[i]) < 0) {
                release_refs(c->out, i);
                status = -1;
                break;
            }
        }
    }
    Py_DECREF(value);
    return status;
}

/* ---- str and bytes ------------------------------------------------------------------------- */
/* What a STR or STR_KINDS column holds, not yet made into objects. */
typedef struct texts {
    uint32_t *lens;      /* in the arena */
    uint8_t *kinds;      /* in the arena; NULL: all ASCII */
    const uint8_t *blob; /* in the payload */
    size_t size;
} texts;

/* Record what make_strs found malformed: the whole blob of a STR column, the string of another. */
static int fail_texts(decoder *d, const texts *t, size_t n)
{
    const uint8_t *at = t->blob;
    for (size_t i = 0; t->kinds && i < n; i++) {
        if (!torshi_kind_holds(t->kinds[i], torshi_max_char(at, t->lens[i], t->kinds[i]))) {
            break;
        }
        at += t->lens[i] * torshi_char_size(t->kinds[i]);
    }
    torshi_fail_at(&d->cursor, TORSHI_E_TEXT, at);
    return -1;
}

static bool read_texts(decoder *d, const column *c, texts *t)
{
    uint64_t size;
    t->kinds = NULL;
    t->lens = arena_alloc(&d->arena, c->n, sizeof(*t->lens));
    if (!t->lens || !torshi_read_lens(&d->cursor, t->lens, c->n, c->width, &size)) {
        return false;
    }
    if (c->kind == TORSHI_COL_STR_KINDS) {
        t->kinds = arena_alloc(&d->arena, c->n, 1);
        if (!t->kinds || !torshi_unpack_u8(&d->cursor, t->kinds, c->n, 2)) {
            return false;
        }
        size = 0;
        for (size_t i = 0; i < c->n; i++) {
            size += (uint64_t)t->lens[i] * torshi_char_size(t->kinds[i]);
        }
    }
    t->size = size;
    return torshi_read_span(&d->cursor, size, &t->blob);
}

int decode_STR(decoder *d, const column *c)
{
    arena_mark mark = arena_here(&d->arena);
    texts t;
    int status = -1;
    if (read_texts(d, c, &t)) {
        status = d->objects->make_strs(t.blob, t.size, t.lens, t.kinds, (intptr_t)c->n, c->out);
        if (status > 0) {
            status = fail_texts(d, &t, c->n);
        }
    }
    arena_release(&d->arena, mark);
    return status;
}

int decode_STR_KINDS(decoder *d, const column *c)
{
    return decode_STR(d, c);
}

int decode_BYTES(decoder *d, const column *c)
{
    arena_mark mark = arena_here(&d->arena);
    uint32_t *lens = arena_alloc(&d->arena, c->n, sizeof(*lens));
    uint64_t total;
    const uint8_t *blob;
    int status = -1;
    if (lens && torshi_read_lens(&d->cursor, lens, c->n, c->width, &total) &&
        torshi_read_span(&d->cursor, total, &blob)) {
        status = d->objects->make_bytes(blob, lens, (intptr_t)c->n, c->out);
    }
    arena_release(&d->arena, mark);
    return status;
}

/* ---- strings with affixes ------------------------------------------------------------------ */
typedef struct affixes {
    const uint8_t *prefix;
    const uint8_t *suffix;
    size_t prefix_size;
    size_t suffix_size;
} affixes;

static bool read_affix(decoder *d, const uint8_t **bytes, size_t *size)
{
    if (!torshi_read_count(&d->cursor, 0, TORSHI_MAX_AFFIX, size) ||
        !torshi_read_span(&d->cursor, *size, bytes)) {
        return false;
    }
    return torshi_is_ascii(*bytes, *size) || torshi_fail_at(&d->cursor, TORSHI_E_TEXT, *bytes);
}

/* Characters of `width` bytes at `to`, little-endian, from ASCII; returns the end. */
static uint8_t *put_ascii(uint8_t *to, const uint8_t *text, size_t n, size_t width)
{
    if (width == 1) {
        memcpy(to, text, n);
        return to + n;
    }
    memset(to, 0, n * width);
    for (size_t i = 0; i < n; i++) {
        to[i * width] = text[i];
    }
    return to + n * width;
}

#define DIGITS_MAX 20 /* of -2**63, its sign included */

/* Decimal digits of v at `to`; returns the end. */
static uint8_t *put_digits(uint8_t *to, int64_t v)
{
    uint8_t digits[DIGITS_MAX];
    size_t n = 0;
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do {
        digits[n++] = (uint8_t)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (v < 0) {
        *to++ = '-';
    }
    while (n) {
        *to++ = digits[--n];
    }
    return to;
}

/* The ints of an INT or PROGRESSION column as numbers. 0 or -1. */
static int read_numbers(decoder *d, const column *c, uint64_t *numbers)
{
    const uint8_t *at = d->cursor.pos;
    int64_t base;
    if (!torshi_read_zvar(&d->cursor, &base)) {
        return -1;
    }
    if (c->kind == TORSHI_COL_INT) {
        if (!torshi_unpack_u64(&d->cursor, numbers, c->n, c->width)) {
            return -1;
        }
        for (size_t i = 0; i < c->n; i++) {
            numbers[i] += (uint64_t)base;
        }
        return 0;
    }
    int64_t step;
    if (!torshi_read_zvar(&d->cursor, &step)) {
        return -1;
    }
    if (!torshi_progression_fits(base, step, c->n)) {
        torshi_fail_at(&d->cursor, TORSHI_E_RANGE, at);
        return -1;
    }
    for (size_t i = 0; i < c->n; i++) {
        numbers[i] = (uint64_t)base + i * (uint64_t)step;
    }
    return 0;
}

/* Prefix, digits, suffix. 0 or -1. */
static int affix_numbers(decoder *d, const column *c, const affixes *a, PyObject **out)
{
    uint64_t *numbers = arena_alloc(&d->arena, c->n, sizeof(*numbers));
    uint32_t *lens = arena_alloc(&d->arena, c->n, sizeof(*lens));
    uint8_t *blob = arena_alloc(&d->arena, c->n, a->prefix_size + DIGITS_MAX + a->suffix_size);
    if (!numbers || !lens || !blob || read_numbers(d, c, numbers) < 0) {
        return -1;
    }
    uint8_t *to = blob;
    for (size_t i = 0; i < c->n; i++) {
        uint8_t *from = to;
        to = put_ascii(to, a->prefix, a->prefix_size, 1);
        to = put_digits(to, add_offset(0, numbers[i]));
        to = put_ascii(to, a->suffix, a->suffix_size, 1);
        lens[i] = (uint32_t)(to - from);
    }
    return d->objects->make_strs(blob, (size_t)(to - blob), lens, NULL, (intptr_t)c->n, out);
}

/* Prefix, string, suffix; ASCII affixes leave a string of its kind. 0 or -1. */
static int affix_texts(decoder *d, const column *c, const affixes *a, PyObject **out)
{
    texts t;
    if (!read_texts(d, c, &t)) {
        return -1;
    }
    size_t affixed = a->prefix_size + a->suffix_size;
    size_t size = t.size;
    uint32_t *lens = arena_alloc(&d->arena, c->n, sizeof(*lens));
    if (!lens) {
        return -1;
    }
    for (size_t i = 0; i < c->n; i++) {
        if (t.lens[i] > UINT32_MAX - affixed) {
            torshi_fail_at(&d->cursor, TORSHI_E_LENGTH, t.blob);
            return -1;
        }
        lens[i] = t.lens[i] + (uint32_t)affixed;
        size += affixed * torshi_char_size(t.kinds ? t.kinds[i] : 0);
    }
    uint8_t *blob = arena_alloc(&d->arena, size, 1);
    if (!blob) {
        return -1;
    }
    uint8_t *to = blob;
    const uint8_t *from = t.blob;
    for (size_t i = 0; i < c->n; i++) {
        size_t width = torshi_char_size(t.kinds ? t.kinds[i] : 0);
        size_t n = t.lens[i] * width;
        to = put_ascii(to, a->prefix, a->prefix_size, width);
        memcpy(to, from, n);
        from += n;
        to = put_ascii(to + n, a->suffix, a->suffix_size, width);
    }
    int status = d->objects->make_strs(blob, size, lens, t.kinds, (intptr_t)c->n, out);
    return status > 0 ? fail_texts(d, &t, c->n) : status;
}

int decode_AFFIX(decoder *d, const column *c)
{
    arena_mark mark = arena_here(&d->arena);
    affixes a;
    column child;
    int status = -1;
    if (!read_affix(d, &a.prefix, &a.prefix_size) || !read_affix(d, &a.suffix, &a.suffix_size) ||
        !read_head(d, c->n, c->depth + 1, KINDS_AFFIXED, &child)) {
        goto done;
    }
    if (child.kind == TORSHI_COL_INT || child.kind == TORSHI_COL_PROGRESSION) {
        status = affix_numbers(d, &child, &a, c->out);
    } else {
        status = affix_texts(d, &child, &a, c->out);
    }
done:
    arena_release(&d->arena, mark);
    return status;
}
