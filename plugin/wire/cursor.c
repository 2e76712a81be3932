/*
 * cursor.c - bounds-checked input: numbers, spans, column heads.
 *
 * Every failure is recorded once, with the offset of the first byte of what is wrong.
 */
#include "wire.h"

void torshi_cursor_init(torshi_cursor *c, const void *data, size_t size)
{
    static const uint8_t nothing[1] = {0}; /* so that start + 0 is never NULL arithmetic */
    const uint8_t *start = data && size ? data : nothing;
    *c = (torshi_cursor){.start = start, .pos = start, .end = start + (data ? size : 0)};
}

bool torshi_fail_at(torshi_cursor *c, torshi_status status, const uint8_t *at)
{
    if (c->status == TORSHI_S_OK) {
        c->status = status;
        c->error_at = (size_t)(at - c->start);
    }
    return false;
}

bool torshi_fail(torshi_cursor *c, torshi_status status)
{
    return torshi_fail_at(c, status, c->pos);
}

bool torshi_read_byte(torshi_cursor *c, uint8_t *v)
{
    if (c->pos == c->end) {
        return torshi_fail(c, TORSHI_E_TRUNCATED);
    }
    *v = *c->pos++;
    return true;
}

bool torshi_read_uvar(torshi_cursor *c, uint64_t *v)
{
    const uint8_t *p = c->pos;
    if (p != c->end && *p < 0x80) { /* nearly all of them */
        *v = *p;
        c->pos = p + 1;
        return true;
    }
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        if (p == c->end) {
            return torshi_fail(c, TORSHI_E_TRUNCATED);
        }
        uint8_t byte = *p++;
        if (shift == 63 && byte > 1) { /* an eleventh byte, or bits above 2**64 */
            return torshi_fail(c, TORSHI_E_VARINT);
        }
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            break;
        }
    }
    *v = value;
    c->pos = p;
    return true;
}

bool torshi_read_zvar(torshi_cursor *c, int64_t *v)
{
    uint64_t u;
    if (!torshi_read_uvar(c, &u)) {
        return false;
    }
    u = (u >> 1) ^ (u & 1 ? UINT64_MAX : 0);
    memcpy(v, &u, sizeof(u));
    return true;
}

bool torshi_read_span(torshi_cursor *c, uint64_t n, const uint8_t **p)
{
    if (n > (size_t)(c->end - c->pos)) {
        return torshi_fail(c, TORSHI_E_TRUNCATED);
    }
    *p = c->pos;
    c->pos += n;
    return true;
}

bool torshi_read_count(torshi_cursor *c, size_t low, size_t high, size_t *v)
{
    const uint8_t *at = c->pos;
    uint64_t u;
    if (!torshi_read_uvar(c, &u)) {
        return false;
    }
    if (u < low || u > high) {
        return torshi_fail_at(c, TORSHI_E_LIMIT, at);
    }
    *v = (size_t)u;
    return true;
}

bool torshi_read_external(torshi_cursor *c, size_t count, size_t *v)
{
    const uint8_t *at = c->pos;
    uint64_t u;
    if (!torshi_read_uvar(c, &u)) {
        return false;
    }
    if (u >= count) {
        return torshi_fail_at(c, TORSHI_E_EXTERNAL, at);
    }
    *v = (size_t)u;
    return true;
}

bool torshi_read_head(torshi_cursor *c, uint64_t n, int depth, torshi_kind *kind, int *w)
{
    const uint8_t *at = c->pos;
    uint8_t byte;
    if (!torshi_read_byte(c, &byte)) {
        return false;
    }
    const torshi_kind_info *info = &torshi_kinds[byte & 31];
    if (!info->name) {
        return torshi_fail_at(c, TORSHI_E_KIND, at);
    }
    if (!(info->widths >> (byte >> 5) & 1)) {
        return torshi_fail_at(c, TORSHI_E_WIDTH, at);
    }
    if (depth > TORSHI_MAX_DEPTH) {
        return torshi_fail_at(c, TORSHI_E_DEPTH, at);
    }
    if (n > TORSHI_MAX_ROWS || n > TORSHI_MAX_VALUES - c->values) {
        return torshi_fail_at(c, TORSHI_E_LIMIT, at);
    }
    c->values += n;
    *kind = (torshi_kind)(byte & 31);
    *w = byte >> 5;
    return true;
}

bool torshi_read_rows(torshi_cursor *c, size_t *rows, uint64_t *following)
{
    const uint8_t *at = c->pos;
    uint64_t head;
    if (!torshi_read_uvar(c, &head)) {
        return false;
    }
    if (head >> 1 > TORSHI_MAX_ROWS) {
        return torshi_fail_at(c, TORSHI_E_LIMIT, at);
    }
    *rows = (size_t)(head >> 1);
    *following = 0;
    return !(head & 1) || torshi_read_uvar(c, following);
}

bool torshi_progression_fits(int64_t start, int64_t step, size_t n)
{
    if (n < 2) {
        return true;
    }
    uint64_t steps = n - 1;
    /* The distance as an unsigned number, against the room there is on that side. */
    uint64_t size = step < 0 ? 0 - (uint64_t)step : (uint64_t)step;
    uint64_t room =
        step < 0 ? (uint64_t)start - (uint64_t)INT64_MIN : (uint64_t)INT64_MAX - (uint64_t)start;
    return size <= room / steps;
}
