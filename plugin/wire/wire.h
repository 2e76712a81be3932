/*
 * wire.h - the payload format (docs/format.md) without Python: buffers, cursors, packed arrays.
 *
 * Nothing in plugin/wire/ includes Python.h, so that Valgrind, the sanitizers, fuzzers and
 * out-of-memory tests run on it at full strength.
 */
#ifndef TORSHI_WIRE_H
#define TORSHI_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of docs/format.md. */
#define TORSHI_MAX_ROWS 65536u
#define TORSHI_MAX_VALUES 1048576u
#define TORSHI_MAX_DEPTH 32
#define TORSHI_MAX_FIELDS 4096u
#define TORSHI_MAX_ARITY 255u
#define TORSHI_MAX_MIXED 16u
#define TORSHI_MAX_AFFIX 127u

/* Status values: explicit, gapped, never reused. */
typedef enum torshi_status {
#define STATUS(NAME, VALUE, TEXT) TORSHI_##NAME = VALUE,
#include "status.def"
} torshi_status;

/* The constant text of a status; never NULL. */
const char *torshi_status_text(torshi_status status);

/* Column kinds. */
typedef enum torshi_kind {
#define COLUMN(NAME, CODE, WIDTHS, MUTABLE, DOC) TORSHI_COL_##NAME = CODE,
#include "columns.def"
} torshi_kind;

typedef struct torshi_kind_info {
    const char *name; /* NULL: reserved */
    uint8_t widths;   /* bit w set: width code w is allowed */
    bool is_mutable;  /* objects go on the roll */
} torshi_kind_info;
extern const torshi_kind_info torshi_kinds[32];

/* ---- growable output ------------------------------------------------------------------------- */
typedef struct torshi_buf {
    uint8_t *data; /* owned (malloc) */
    size_t len;
    size_t cap;
} torshi_buf;

/* Make room for n more bytes. false: out of memory or size overflow, buffer unchanged. */
bool torshi_buf_grow(torshi_buf *b, size_t n);
void torshi_buf_free(torshi_buf *b); /* and zero it */

static inline bool torshi_buf_reserve(torshi_buf *b, size_t n)
{
    return n <= b->cap - b->len || torshi_buf_grow(b, n);
}

static inline bool torshi_buf_put(torshi_buf *b, const void *p, size_t n)
{
    if (!torshi_buf_reserve(b, n)) {
        return false;
    }
    if (n) {
        memcpy(b->data + b->len, p, n);
    }
    b->len += n;
    return true;
}

static inline bool torshi_buf_byte(torshi_buf *b, uint8_t byte)
{
    if (!torshi_buf_reserve(b, 1)) {
        return false;
    }
    b->data[b->len++] = byte;
    return true;
}

bool torshi_buf_uvar(torshi_buf *b, uint64_t v);
bool torshi_buf_zvar(torshi_buf *b, int64_t v);
size_t torshi_uvar_size(uint64_t v); /* bytes that uvar takes, 1..10 */
static inline uint64_t torshi_zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0);
}

/* ---- packed arrays --------------------------------------------------------------------------- */
/* The smallest width code whose bits hold max. */
int torshi_width_for(uint64_t max);
/* Bytes of n items at width code w (0..7); n <= TORSHI_MAX_VALUES. */
size_t torshi_packed_size(size_t n, int w);
/* Append n items, each already below 2**bits(w); zero padding. */
bool torshi_pack_u64(torshi_buf *b, const uint64_t *items, size_t n, int w);
bool torshi_pack_u32(torshi_buf *b, const uint32_t *items, size_t n, int w); /* w <= 6 */
bool torshi_pack_u8(torshi_buf *b, const uint8_t *items, size_t n, int w);   /* w <= 4 */
/* Append items[i] - base (modulo 2**64) at width w: the INT column's body. */
bool torshi_pack_offsets(torshi_buf *b, const int64_t *items, size_t n, int64_t base, int w);
/* Append `uvar base` + packed lens; sets *w. lens[i] < 2**32. n may be 0 (base 0, w 0). The column
   byte, which needs w, comes first: so the caller asks for it with torshi_lens_width. */
int torshi_lens_width(const uint32_t *lens, size_t n, uint32_t *base);
bool torshi_pack_lens(torshi_buf *b, const uint32_t *lens, size_t n, uint32_t base, int w);

/* ---- input ------------------------------------------------------------------------------------
 */
typedef struct torshi_cursor {
    const uint8_t *start;
    const uint8_t *pos;
    const uint8_t *end;
    torshi_status status; /* first error; TORSHI_S_OK until then */
    size_t error_at;      /* offset of the first error */
    size_t values;        /* values promised by the columns so far (limit MAX_VALUES) */
} torshi_cursor;

void torshi_cursor_init(torshi_cursor *c, const void *data, size_t size);
/* Record the first error; returns false so that callers can `return torshi_fail(...)`. */
bool torshi_fail(torshi_cursor *c, torshi_status status);
/* The same, at a place that is already behind the cursor (the start of what is wrong). */
bool torshi_fail_at(torshi_cursor *c, torshi_status status, const uint8_t *at);
bool torshi_read_uvar(torshi_cursor *c, uint64_t *v);
bool torshi_read_zvar(torshi_cursor *c, int64_t *v);
bool torshi_read_byte(torshi_cursor *c, uint8_t *v);
/* n bytes in place: *p points into the payload. */
bool torshi_read_span(torshi_cursor *c, uint64_t n, const uint8_t **p);
/* A column's head: kind and width, checked against torshi_kinds; counts n values, checks limits
   (n <= MAX_ROWS, values, depth <= MAX_DEPTH where level 1 is a column of the target). */
bool torshi_read_head(torshi_cursor *c, uint64_t n, int depth, torshi_kind *kind, int *w);
/* The payload's head. */
bool torshi_read_rows(torshi_cursor *c, size_t *rows, uint64_t *following);
/* The bytes of a packed array in place; checks the padding. */
bool torshi_read_packed(torshi_cursor *c, size_t n, int w, const uint8_t **in);
/* Unpack n items; checks the padding. out has room for n. */
bool torshi_unpack_u64(torshi_cursor *c, uint64_t *out, size_t n, int w);
bool torshi_unpack_u32(torshi_cursor *c, uint32_t *out, size_t n, int w); /* w <= 6 */
bool torshi_unpack_u8(torshi_cursor *c, uint8_t *out, size_t n, int w);   /* w <= 4 */
/* A lens array: base and items, each below 2**32; *total is their sum. */
bool torshi_read_lens(torshi_cursor *c, uint32_t *out, size_t n, int w, uint64_t *total);
/* A bitmap of n bits; *ones counts them; padding checked; points into the payload. */
bool torshi_read_bitmap(torshi_cursor *c, size_t n, const uint8_t **bits, size_t *ones);

/* A count: uvar between low and high, else E_LIMIT at its first byte. */
bool torshi_read_count(torshi_cursor *c, size_t low, size_t high, size_t *v);
/* An external number: below count, else E_EXTERNAL at its first byte. */
bool torshi_read_external(torshi_cursor *c, size_t count, size_t *v);
/* PROGRESSION: whether start + i * step fits int64 for all i < n. */
bool torshi_progression_fits(int64_t start, int64_t step, size_t n);

/* ---- text ---------------------------------------------------------------------------------------
 */
/* Whether all n bytes are below 128. */
bool torshi_is_ascii(const uint8_t *p, size_t n);
/* Bytes a character of a string kind (0 ASCII, 1 Latin-1, 2 UCS-2, 3 UCS-4). */
static inline size_t torshi_char_size(unsigned kind)
{
    return kind < 2 ? 1 : kind == 2 ? 2 : 4;
}
/* The largest character of n little-endian characters of kind 0..3 at p (unaligned); 0 when n is 0.
 */
uint32_t torshi_max_char(const uint8_t *p, size_t n, unsigned kind);
/* Whether kind is the smallest that holds a string with this largest character. */
static inline bool torshi_kind_holds(unsigned kind, uint32_t max)
{
    switch (kind) {
    case 0:
        return max < 0x80;
    case 1:
        return max >= 0x80 && max < 0x100;
    case 2:
        return max >= 0x100 && max < 0x10000;
    default:
        return max >= 0x10000 && max < 0x110000;
    }
}

/* ---- names --------------------------------------------------------------------------------------
 */
/* Whether the n names whose column starts at the cursor, and has been found valid, are distinct:
   S_OK, E_NAMES or E_MEMORY, the two with c->error_at at the column. It compares strings of STR,
   STR_KINDS and AFFIX; names of other kinds are S_OK here, for the reader to compare as objects.
   The cursor ends up anywhere. */
torshi_status torshi_check_names(torshi_cursor *c, size_t n);

/* ---- the walker: a whole payload checked without Python ----------------------------------------
 */
typedef struct torshi_walk {
    torshi_status status;
    size_t error_at;
    size_t rows;
    size_t values;
    size_t rolled;    /* mutable objects below the target */
    size_t externals; /* highest external number + 1 */
} torshi_walk;
/* target_is_dict: two columns. has_roll / externals as in the call. What the walker cannot know:
   whether keys hash, whether names are equal as objects of different kinds, what callables do. It
   allocates at most a few bytes a row of one column; *status E_MEMORY when that fails. */
torshi_walk torshi_walk_payload(const void *data, size_t size, bool target_is_dict, bool has_roll,
                                size_t externals);

#ifdef __cplusplus
}
#endif

#endif
