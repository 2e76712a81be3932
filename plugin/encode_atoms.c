/*
 * encode_atoms.c - columns of None, bool and float, and of what is set later.
 */
#include "encode.h"
#include "wire/byteorder.h"

int put_head(chunk_writer *w, torshi_kind kind, int width)
{
    return torshi_buf_byte(&w->out, (uint8_t)(width << 5 | (int)kind)) ? 0 : put_no_memory();
}

int encode_nones(chunk_writer *w, const span *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (span_at(s, i) != Py_None) {
            return ENC_OTHER;
        }
    }
    w->bound += (int64_t)s->n;
    return put_head(w, TORSHI_COL_NONE, 0);
}

int encode_bools(chunk_writer *w, const span *s)
{
    size_t n = s->n, size = torshi_packed_size(n, 1), trues = 0, at = w->out.len;
    if (!torshi_buf_reserve(&w->out, 1 + size)) {
        return put_no_memory();
    }
    uint8_t *bits = w->out.data + at + 1;
    for (size_t i = 0; i < n; i += 8) {
        unsigned byte = 0, end = n - i < 8 ? (unsigned)(n - i) : 8;
        for (unsigned j = 0; j < end; j++) {
            PyObject *obj = span_at(s, i + j);
            unsigned is_true = obj == Py_True;
            if (!is_true && obj != Py_False) {
                return ENC_OTHER; /* w->out.len is as it was */
            }
            byte |= is_true << j;
            trues += is_true;
        }
        *bits++ = (uint8_t)byte;
    }
    w->bound += (int64_t)n;
    if (trues == 0 || trues == n) {
        return put_head(w, trues ? TORSHI_COL_TRUE : TORSHI_COL_FALSE, 0);
    }
    w->out.data[at] = TORSHI_COL_BOOL;
    w->out.len = at + 1 + size;
    return ENC_OK;
}

int encode_floats(chunk_writer *w, const span *s)
{
    size_t at = w->out.len, n = s->n;
    if (!torshi_buf_reserve(&w->out, 1 + 8 * n)) {
        return put_no_memory();
    }
    uint8_t *out = w->out.data + at + 1;
    uint64_t first = 0, different = 0;
    for (size_t i = 0; i < n; i++) {
        PyObject *obj = span_at(s, i);
        if (!PyFloat_CheckExact(obj)) {
            return ENC_OTHER; /* w->out.len is as it was */
        }
        double d = PyFloat_AS_DOUBLE(obj);
        uint64_t bits;
        memcpy(&bits, &d, 8);
        store_le64(out + 8 * i, bits);
        first = i ? first : bits;
        different |= bits ^ first;
    }
    w->bound += 9 * (int64_t)n;
    if (n > 1 && different == 0) {
        w->out.data[at] = TORSHI_COL_FLOAT_CONST;
        w->out.len = at + 1 + 8;
    } else {
        w->out.data[at] = TORSHI_COL_FLOAT;
        w->out.len = at + 1 + 8 * n;
    }
    return ENC_OK;
}

/* What it takes to set cell i later, beyond what its value takes anyway. */
static int64_t pending_cost(const cells *c, size_t i, uint32_t *row)
{
    cell_place at = find_place(c->from, cell_id(c, i));
    int64_t cost = 1; /* SETITEM */
    if (c->from->form == ORIGIN_PAIR) {
        cost += key_cost(at.key); /* it is in the payload, and once more here */
    } else if (c->from->form == ORIGIN_ITEM) {
        cost += at.index <= 0xff ? 2 : at.index <= 0xffff ? 3 : 5;
    } else {
        cost += 5 + 4; /* GET of the name; NONE, EMPTY_DICT, TUPLE2 and BUILD of slots */
        cost += i == 0 ? key_cost(at.key) : 0;
    }
    if (at.row && at.row != *row) {
        cost += 18; /* chunk(roll, index), MEMOIZE and POP */
    }
    *row = at.row;
    return cost;
}

int encode_pending(chunk_writer *w, const span *s, const cells *c)
{
    return c->from->type ? exclude(w, (PyObject *)c->from->type) : note_pending(w, s, c);
}

int note_pending(chunk_writer *w, const span *s, const cells *c)
{
    uint32_t row = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (w->pending_count == w->pending_room) {
            pending_cell *grown = writer_grow(w->pending, &w->pending_room, sizeof(*w->pending));
            if (!grown) {
                return ENC_ERROR;
            }
            w->pending = grown;
        }
        w->pending[w->pending_count++] = (pending_cell){c->from, cell_id(c, i), span_at(s, i)};
        w->extra += pending_cost(c, i, &row);
    }
    return put_head(w, TORSHI_COL_PENDING, 0);
}
