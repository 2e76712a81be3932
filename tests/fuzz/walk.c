/*
 * walk.c - fuzz target: the walker over any payload.
 *
 * First byte: bit 0 dict target, bit 1 roll, bits 2 to 4 externals passed. The rest: the payload.
 */
#include "fuzz.h"
#include "wire/wire.h"

static torshi_walk walk(const uint8_t *payload, size_t size, unsigned call)
{
    return torshi_walk_payload(payload, size, call & 1, call & 2, call >> 2 & 7);
}

static bool is_equal(const torshi_walk *a, const torshi_walk *b)
{
    return a->status == b->status && a->error_at == b->error_at && a->rows == b->rows &&
           a->values == b->values && a->rolled == b->rolled && a->externals == b->externals;
}

/* What an accepted payload implies. */
static void check_accepted(const uint8_t *payload, size_t size, unsigned call, torshi_walk first)
{
    PROPERTY(first.values >= first.rows && first.rolled <= first.values);
    PROPERTY(first.externals <= (call >> 2 & 7));
    /* More externals, or a roll that nothing goes on, change nothing. */
    torshi_walk more = walk(payload, size, call | 7u << 2 | 2);
    if (call & 2) {
        PROPERTY(is_equal(&more, &first));
    } else {
        PROPERTY(more.status == TORSHI_S_OK && more.rolled == 0 && first.externals == 0);
    }
    /* Fewer are missed exactly when they are used. */
    torshi_walk bare = walk(payload, size, call & 1);
    PROPERTY((bare.status == TORSHI_S_OK) == (first.rolled == 0 && first.externals == 0) ||
             bare.status == TORSHI_E_ROLL);
    /* A byte more trails, wherever it comes from; each byte less is missed. */
    uint8_t *longer = malloc(size + 1);
    PROPERTY(longer);
    memcpy(longer, payload, size);
    longer[size] = 0xff;
    torshi_walk r = walk(longer, size + 1, call);
    PROPERTY(r.status == TORSHI_E_TRAILING && r.error_at == size);
    free(longer);
    for (size_t cut = size > 64 ? size - 64 : 0; cut < size; cut++) {
        r = walk(payload, cut, call);
        PROPERTY(r.status == TORSHI_E_TRUNCATED && r.error_at <= cut);
    }
}

/* What a refused one implies. */
static void check_refused(const uint8_t *payload, size_t size, unsigned call, torshi_walk first)
{
    PROPERTY(first.error_at <= size);
    PROPERTY(first.status != TORSHI_E_MEMORY);
    if (first.status == TORSHI_E_TRUNCATED) {
        return;
    }
    /* What follows the error does not matter: another byte there gives the same error, or none
       but the one that was looked at before (a rule that needs the whole of a thing). */
    uint8_t *longer = malloc(size + 1);
    PROPERTY(longer);
    memcpy(longer, payload, size);
    longer[size] = 0;
    torshi_walk r = walk(longer, size + 1, call);
    PROPERTY(is_equal(&r, &first));
    free(longer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    unsigned call = data[0];
    torshi_walk first = walk(data + 1, size - 1, call);
    torshi_walk second = walk(data + 1, size - 1, call);
    PROPERTY(is_equal(&first, &second));
    PROPERTY(first.values <= TORSHI_MAX_VALUES && first.rows <= TORSHI_MAX_ROWS);
    if (first.status == TORSHI_S_OK) {
        check_accepted(data + 1, size - 1, call, first);
    } else {
        check_refused(data + 1, size - 1, call, first);
    }
    return 0;
}
