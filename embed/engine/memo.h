/*
 * memo.h - what a pickler has written so far.
 *
 * Two structures. `order` lists every object that has a memo number, by number: a plain array that
 * only grows. `slots` is a hash table from object to number (open addressing, linear probing), in
 * which a slot counts only if its stamp is the memo's: emptying the table is one increment.
 *
 *     order   | 0: obj+tags | 1: obj+tags | 2: NULL | ...      (tags: HASHED, OWNED)
 *     slots   | key, stamp, code | ...                         (code: number, or a mark)
 *
 * Until user code runs, no object of the graph can die or be met in a way that the graph does not
 * show. In that time (`quiet`) the memo owns no references, and an object whose reference count is
 * 1 gets a number but no slot: it can be met only through the one place that holds it, which is
 * walked once. memo_settle() ends the quiet: it takes references to everything in `order` and
 * enters what has no slot. `solo` is the reference count that allows this: 1, and -1 (which no
 * object has) afterwards. It must not be used for what is walked more than once: keys of shared
 * key tables, and whatever lies below a tuple or frozenset that has more than one reference (such
 * a one is expanded again when it contains itself).
 */
#ifndef TORSHI_ENGINE_MEMO_H
#define TORSHI_ENGINE_MEMO_H

#include "state.h"

/* Codes of a slot from here on are not memo numbers. */
#define MEMO_NUMBER_LIMIT 0xC0000000u
#define MEMO_ROLL_BASE 0xC0000000u   /* + index into `rolls` */
#define MEMO_GIVEN_BASE 0xE0000000u  /* + index into `given`: numbers set through Pickler.memo */
#define MEMO_COLUMN_CODE 0xFFFFFFFEu /* written within a payload; holds no reference */

#define MEMO_HASHED ((uintptr_t)1) /* tags in `order` */
#define MEMO_OWNED ((uintptr_t)2)
#define MEMO_TAGS ((uintptr_t)3)

typedef struct memo_slot {
    PyObject *key;  /* borrowed from `order`, `rolls` or (COLUMN) what was given to memo_own */
    uint32_t stamp; /* in use if equal to the memo's */
    uint32_t code;
} memo_slot;

typedef struct memo_roll_entry {
    PyObject *obj; /* owned */
    torshi_met_fn met;
    void *plugin;
    void *arg;
    uint32_t index;
} memo_roll_entry;

/* Objects entered together, of which those without a slot are to get one when the quiet ends. */
typedef struct memo_noted_entry {
    PyObject *const *objects; /* borrowed from whoever has arg */
    size_t n;
    torshi_met_fn met;
    void *plugin;
    void *arg;
    uint32_t first_index;
} memo_noted_entry;

typedef struct memo_own_entry {
    void *arg;
    torshi_free_fn free_arg;
} memo_own_entry;

/* An instance whose __dict__ was written from its inline values, without being made. */
typedef struct memo_unmade_entry {
    PyObject *instance; /* borrowed; in `order` */
    size_t number;      /* of the __dict__; order[number] is NULL */
} memo_unmade_entry;

typedef struct torshi_memo {
    memo_slot *slots;
    size_t mask;
    size_t used; /* slots with the present stamp */
    uint32_t stamp;
    int quiet;
    Py_ssize_t solo;
    int some_owned; /* an entry of `order` may carry OWNED */

    uintptr_t *order;
    size_t count;
    size_t order_size;

    memo_roll_entry *rolls;
    size_t roll_count, roll_size;
    memo_noted_entry *noted;
    size_t noted_count, noted_size;
    memo_own_entry *owns;
    size_t own_count, own_size;
    memo_unmade_entry *unmade;
    size_t unmade_count, unmade_size;
    int unmade_stale; /* user code ran since the instances of `unmade` were looked at */
    Py_ssize_t *given;
    size_t given_count, given_size;
    PyObject **filling; /* borrowed: see services->begin_filling */
    size_t filling_count, filling_size;
} torshi_memo;

/* An empty memo with a small table. 0, or -1 with MemoryError. */
TORSHI_HIDDEN int memo_init(torshi_memo *m);
/* Forget everything: release references, call free functions. May run user code, which finds the
   memo empty. Keeps tables, shrunk when they were little used. The memo is quiet afterwards. */
TORSHI_HIDDEN void memo_reset(torshi_memo *m);
TORSHI_HIDDEN void memo_fini(torshi_memo *m);
TORSHI_HIDDEN int memo_traverse(torshi_memo *m, visitproc visit, void *arg);

/* End the quiet. 0, or -1 with MemoryError (then still quiet, and consistent). */
TORSHI_HIDDEN int memo_settle(torshi_memo *m);

/* Make room for one more slot or one more number. 0 or -1 with MemoryError. */
TORSHI_HIDDEN int memo_grow_slots(torshi_memo *m);
TORSHI_HIDDEN int memo_grow_order(torshi_memo *m);

/* Set the number of obj, as Pickler.memo = {...} does; obj is kept alive. 0 or -1. */
TORSHI_HIDDEN int memo_set_number(torshi_memo *m, PyObject *obj, Py_ssize_t number);
/* As services->roll and ->own; the latter takes arg also on failure. */
TORSHI_HIDDEN int memo_roll(torshi_memo *m, PyObject *obj, torshi_met_fn met, void *plugin,
                            void *arg, uint32_t index);
TORSHI_HIDDEN int memo_roll_many(torshi_memo *m, PyObject *const *objects, size_t n,
                                 torshi_met_fn met, void *plugin, void *arg, uint32_t first_index);
TORSHI_HIDDEN int memo_own(torshi_memo *m, void *arg, torshi_free_fn free_arg);
/* As services->begin_filling and ->end_filling; whether dict is between them. */
TORSHI_HIDDEN int memo_begin_filling(torshi_memo *m, PyObject *dict);
TORSHI_HIDDEN void memo_end_filling(torshi_memo *m);
TORSHI_HIDDEN int memo_is_filling(const torshi_memo *m, const PyObject *dict);
/* Mark obj as written within a payload, unless it has a number. 0 or -1. */
TORSHI_HIDDEN int memo_mark_column(torshi_memo *m, PyObject *obj);
/* Note that `number` belongs to the __dict__ that `instance` has not got yet. 0 or -1. */
TORSHI_HIDDEN int memo_note_unmade(torshi_memo *m, PyObject *instance, size_t number);
/* Enter the dicts that instances of `unmade` have got since, each under its number. 0 or -1. */
TORSHI_HIDDEN int memo_adopt_dicts(torshi_memo *m);

/* Number of a code that stands for one. */
static inline Py_ssize_t memo_number(const torshi_memo *m, uint32_t code)
{
    return code < MEMO_NUMBER_LIMIT ? (Py_ssize_t)code : m->given[code - MEMO_GIVEN_BASE];
}

static inline int memo_code_is_number(uint32_t code)
{
    return code < MEMO_NUMBER_LIMIT || (code >= MEMO_GIVEN_BASE && code < MEMO_COLUMN_CODE);
}

static inline size_t memo_hash(const PyObject *key)
{
    /* Objects lie 16 bytes apart or more; the higher bits keep arenas from falling together. */
    uintptr_t a = (uintptr_t)key >> 4;
    return (size_t)(a ^ (a >> 15));
}

/* The slot of key, or the one where it would go (stamp differs). */
static inline memo_slot *memo_probe(const torshi_memo *m, const PyObject *key)
{
    size_t i = memo_hash(key) & m->mask;
    for (;;) {
        memo_slot *slot = &m->slots[i];
        if (slot->stamp != m->stamp || slot->key == key) {
            return slot;
        }
        i = (i + 1) & m->mask;
    }
}

static inline int memo_slot_used(const torshi_memo *m, const memo_slot *slot)
{
    return slot->stamp == m->stamp;
}

/* Give obj the next number without a slot: nothing else can reach it while the memo is quiet, or
   (obj NULL) ever. 0 or -1. */
static inline int memo_log(torshi_memo *m, PyObject *obj)
{
    if (TORSHI_UNLIKELY(m->count == m->order_size) && memo_grow_order(m) < 0) {
        return -1;
    }
    m->order[m->count++] = (uintptr_t)obj;
    return 0;
}

/*
 * Give obj the next number; slot is memo_probe's for it, used or not. As stock pickle has it, the
 * next number is the count of entries, and an object that had one already changes it without
 * adding to the count. 0 or -1.
 */
static inline int memo_put_at(torshi_memo *m, memo_slot *slot, PyObject *obj)
{
    uintptr_t tagged = (uintptr_t)obj | MEMO_HASHED;
    if (TORSHI_UNLIKELY(m->count == m->order_size) && memo_grow_order(m) < 0) {
        return -1;
    }
    if (TORSHI_UNLIKELY(m->used * 2 > m->mask)) {
        if (memo_grow_slots(m) < 0) {
            return -1;
        }
        slot = memo_probe(m, obj);
    }
    if (memo_slot_used(m, slot)) {
        int numbered = memo_code_is_number(slot->code);
        slot->code = (uint32_t)m->count;
        if (numbered) {
            return 0;
        }
    } else {
        slot->key = obj;
        slot->stamp = m->stamp;
        slot->code = (uint32_t)m->count;
        m->used++;
    }
    if (!m->quiet) {
        Py_INCREF(obj);
        tagged |= MEMO_OWNED;
        m->some_owned = 1;
    }
    m->order[m->count++] = tagged;
    return 0;
}

#endif
