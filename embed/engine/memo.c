/*
 * memo.c - the pickler's memo; memo.h says how it is built.
 */
#include "memo.h"

#include <string.h>

#include "internals.h"

#define SMALL_SLOTS ((size_t)64) /* powers of two */
#define KEPT_SLOTS ((size_t)4096)
#define SMALL_ORDER ((size_t)64)
#define KEPT_ORDER ((size_t)32768)

/* Grow *array of *size elements to hold one more; 0 or -1 with MemoryError. */
static int grow_array(void **array, size_t *size, size_t element)
{
    size_t more = *size < 8 ? 8 : *size + *size / 2;
    void *p;
    if (more > (size_t)PY_SSIZE_T_MAX / element ||
        (p = PyMem_Realloc(*array, more * element)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *array = p;
    *size = more;
    return 0;
}

int memo_init(torshi_memo *m)
{
    memset(m, 0, sizeof *m);
    m->slots = PyMem_Calloc(SMALL_SLOTS, sizeof(memo_slot));
    m->order = PyMem_Malloc(SMALL_ORDER * sizeof(uintptr_t));
    if (m->slots == NULL || m->order == NULL) {
        PyMem_Free(m->slots);
        PyMem_Free(m->order);
        m->slots = NULL;
        m->order = NULL;
        PyErr_NoMemory();
        return -1;
    }
    m->mask = SMALL_SLOTS - 1;
    m->order_size = SMALL_ORDER;
    m->stamp = 1;
    m->quiet = 1;
    m->solo = 1;
    return 0;
}

int memo_grow_slots(torshi_memo *m)
{
    size_t old_count = m->mask + 1;
    size_t new_count = old_count * 4;
    memo_slot *old = m->slots;
    memo_slot *fresh = NULL;
    uint32_t stamp = m->stamp;
    if (new_count > old_count && new_count <= SIZE_MAX / sizeof(memo_slot)) {
        fresh = PyMem_Calloc(new_count, sizeof(memo_slot));
    }
    if (fresh == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    m->slots = fresh;
    m->mask = new_count - 1;
    for (size_t i = 0; i < old_count; i++) {
        if (old[i].stamp == stamp) {
            *memo_probe(m, old[i].key) = old[i];
        }
    }
    PyMem_Free(old);
    return 0;
}

int memo_grow_order(torshi_memo *m)
{
    void *array = m->order;
    if (m->count >= MEMO_NUMBER_LIMIT) {
        PyErr_SetString(PyExc_OverflowError, "too many objects for one memo");
        return -1;
    }
    if (grow_array(&array, &m->order_size, sizeof(uintptr_t)) < 0) {
        return -1;
    }
    m->order = array;
    return 0;
}

/* Enter what memo_roll_many only noted. 0, or -1 with MemoryError (then to be done again). */
static TORSHI_NOINLINE int enter_noted(torshi_memo *m)
{
    for (size_t i = 0; i < m->noted_count; i++) {
        memo_noted_entry e = m->noted[i];
        for (size_t j = 0; j < e.n; j++) {
            if (!memo_slot_used(m, memo_probe(m, e.objects[j])) &&
                memo_roll(m, e.objects[j], e.met, e.plugin, e.arg, e.first_index + (uint32_t)j) <
                    0) {
                return -1;
            }
        }
    }
    m->noted_count = 0;
    return 0;
}

int memo_settle(torshi_memo *m)
{
    if (!m->quiet) {
        return 0;
    }
    if (m->noted_count && enter_noted(m) < 0) {
        return -1;
    }
    for (size_t i = 0; i < m->count; i++) {
        PyObject *obj = (PyObject *)(m->order[i] & ~MEMO_TAGS);
        if (obj == NULL) {
            continue;
        }
        if (!(m->order[i] & MEMO_HASHED)) {
            memo_slot *slot;
            if (m->used * 2 > m->mask && memo_grow_slots(m) < 0) {
                return -1;
            }
            slot = memo_probe(m, obj);
            if (!memo_slot_used(m, slot)) {
                slot->key = obj;
                slot->stamp = m->stamp;
                slot->code = (uint32_t)i;
                m->used++;
            }
            m->order[i] |= MEMO_HASHED;
        }
        if (!(m->order[i] & MEMO_OWNED)) {
            Py_INCREF(obj);
            m->order[i] |= MEMO_OWNED;
            m->some_owned = 1;
        }
    }
    m->quiet = 0;
    m->solo = -1;
    m->unmade_stale = 1;
    return 0;
}

/* Bring the table back to a size that fits what the last dump needed: probing a table that does
   not fit the cache costs more than growing it again. */
static void shrink(torshi_memo *m, size_t used, size_t count)
{
    if (m->mask + 1 > KEPT_SLOTS && used < (m->mask + 1) / 16) {
        memo_slot *slots = PyMem_Calloc(SMALL_SLOTS, sizeof(memo_slot));
        if (slots != NULL) {
            PyMem_Free(m->slots);
            m->slots = slots;
            m->mask = SMALL_SLOTS - 1;
        }
    }
    if (m->order_size > KEPT_ORDER && count < m->order_size / 16) {
        uintptr_t *order = PyMem_Realloc(m->order, SMALL_ORDER * sizeof(uintptr_t));
        if (order != NULL) {
            m->order = order;
            m->order_size = SMALL_ORDER;
        }
    }
}

static void empty_slots(torshi_memo *m)
{
    m->used = 0;
    m->count = 0;
    m->some_owned = 0;
    m->quiet = 1;
    m->solo = 1;
    m->unmade_count = 0;
    m->given_count = 0;
    m->noted_count = 0;
    m->filling_count = 0;
    m->stamp++;
    if (TORSHI_UNLIKELY(m->stamp == 0)) {
        memset(m->slots, 0, (m->mask + 1) * sizeof(memo_slot));
        m->stamp = 1;
    }
}

static TORSHI_NOINLINE void release_entries(torshi_memo *m)
{
    /* What is released may run code that uses this memo, so it is emptied first. */
    torshi_memo gone = *m;
    m->order = PyMem_Malloc(SMALL_ORDER * sizeof(uintptr_t));
    m->order_size = m->order != NULL ? SMALL_ORDER : 0;
    m->rolls = NULL;
    m->roll_count = m->roll_size = 0;
    m->owns = NULL;
    m->own_count = m->own_size = 0;
    empty_slots(m);
    if (gone.some_owned) {
        for (size_t i = 0; i < gone.count; i++) {
            if (gone.order[i] & MEMO_OWNED) {
                Py_DECREF((PyObject *)(gone.order[i] & ~MEMO_TAGS));
            }
        }
    }
    for (size_t i = 0; i < gone.roll_count; i++) {
        Py_DECREF(gone.rolls[i].obj);
    }
    for (size_t i = 0; i < gone.own_count; i++) {
        if (gone.owns[i].free_arg != NULL) {
            gone.owns[i].free_arg(gone.owns[i].arg);
        }
    }
    PyMem_Free(gone.order);
    PyMem_Free(gone.rolls);
    PyMem_Free(gone.owns);
}

void memo_reset(torshi_memo *m)
{
    size_t used = m->used, count = m->count;
    if (m->slots == NULL) {
        return;
    }
    if (m->some_owned || m->roll_count != 0 || m->own_count != 0) {
        release_entries(m);
    } else {
        empty_slots(m);
    }
    if (m->count == 0 && m->used == 0) {
        shrink(m, used, count);
    }
}

void memo_fini(torshi_memo *m)
{
    memo_reset(m);
    PyMem_Free(m->slots);
    PyMem_Free(m->order);
    PyMem_Free(m->rolls);
    PyMem_Free(m->noted);
    PyMem_Free(m->owns);
    PyMem_Free(m->unmade);
    PyMem_Free(m->given);
    PyMem_Free(m->filling);
    memset(m, 0, sizeof *m);
}

int memo_traverse(torshi_memo *m, visitproc visit, void *arg)
{
    if (m->some_owned) {
        for (size_t i = 0; i < m->count; i++) {
            if (m->order[i] & MEMO_OWNED) {
                Py_VISIT((PyObject *)(m->order[i] & ~MEMO_TAGS));
            }
        }
    }
    for (size_t i = 0; i < m->roll_count; i++) {
        Py_VISIT(m->rolls[i].obj);
    }
    return 0;
}

int memo_set_number(torshi_memo *m, PyObject *obj, Py_ssize_t number)
{
    memo_slot *slot;
    if (memo_settle(m) < 0) {
        return -1;
    }
    if (number >= 0 && (size_t)number == m->count) {
        slot = memo_probe(m, obj);
        if (!memo_slot_used(m, slot)) {
            return memo_put_at(m, slot, obj);
        }
    }
    if (m->given_count == m->given_size) {
        void *array = m->given;
        if (grow_array(&array, &m->given_size, sizeof(Py_ssize_t)) < 0) {
            return -1;
        }
        m->given = array;
    }
    if (m->given_count >= MEMO_COLUMN_CODE - MEMO_GIVEN_BASE) {
        PyErr_NoMemory();
        return -1;
    }
    slot = memo_probe(m, obj);
    m->given[m->given_count] = number;
    if (memo_slot_used(m, slot) && memo_code_is_number(slot->code)) {
        slot->code = MEMO_GIVEN_BASE + (uint32_t)m->given_count++;
        return 0;
    }
    if (memo_put_at(m, slot, obj) < 0) {
        return -1;
    }
    memo_probe(m, obj)->code = MEMO_GIVEN_BASE + (uint32_t)m->given_count++;
    return 0;
}

/* Set the code of obj, which has no number; the slot is made when there is none. 0 or -1. */
static int mark(torshi_memo *m, PyObject *obj, uint32_t code)
{
    memo_slot *slot;
    if (m->used * 2 > m->mask && memo_grow_slots(m) < 0) {
        return -1;
    }
    slot = memo_probe(m, obj);
    if (!memo_slot_used(m, slot)) {
        slot->key = obj;
        slot->stamp = m->stamp;
        m->used++;
    } else if (memo_code_is_number(slot->code)) {
        return 0;
    }
    slot->code = code;
    return 0;
}

int memo_roll(torshi_memo *m, PyObject *obj, torshi_met_fn met, void *plugin, void *arg,
              uint32_t index)
{
    if (m->roll_count == m->roll_size) {
        void *array = m->rolls;
        if (grow_array(&array, &m->roll_size, sizeof(memo_roll_entry)) < 0) {
            return -1;
        }
        m->rolls = array;
    }
    if (m->roll_count >= MEMO_GIVEN_BASE - MEMO_ROLL_BASE) {
        PyErr_SetString(PyExc_OverflowError, "too many objects for one memo");
        return -1;
    }
    if (mark(m, obj, MEMO_ROLL_BASE + (uint32_t)m->roll_count) < 0) {
        return -1;
    }
    m->rolls[m->roll_count++] = (memo_roll_entry){Py_NewRef(obj), met, plugin, arg, index};
    return 0;
}

int memo_roll_many(torshi_memo *m, PyObject *const *objects, size_t n, torshi_met_fn met,
                   void *plugin, void *arg, uint32_t first_index)
{
    for (size_t i = 0; i < n; i++) {
        if (i + 16 < n) { /* many have left the cache since their rows were read */
            __builtin_prefetch(objects[i + 16]);
        }
        if (Py_REFCNT(objects[i]) != m->solo &&
            memo_roll(m, objects[i], met, plugin, arg, first_index + (uint32_t)i) < 0) {
            return -1;
        }
    }
    if (!m->quiet) {
        return 0;
    }
    if (m->noted_count == m->noted_size) {
        void *array = m->noted;
        if (grow_array(&array, &m->noted_size, sizeof(memo_noted_entry)) < 0) {
            return -1;
        }
        m->noted = array;
    }
    m->noted[m->noted_count++] = (memo_noted_entry){objects, n, met, plugin, arg, first_index};
    return 0;
}

int memo_own(torshi_memo *m, void *arg, torshi_free_fn free_arg)
{
    if (m->own_count == m->own_size) {
        void *array = m->owns;
        if (grow_array(&array, &m->own_size, sizeof(memo_own_entry)) < 0) {
            if (free_arg != NULL) {
                free_arg(arg);
            }
            return -1;
        }
        m->owns = array;
    }
    m->owns[m->own_count++] = (memo_own_entry){arg, free_arg};
    return 0;
}

int memo_begin_filling(torshi_memo *m, PyObject *dict)
{
    if (m->filling_count == m->filling_size) {
        void *array = m->filling;
        if (grow_array(&array, &m->filling_size, sizeof(PyObject *)) < 0) {
            return -1;
        }
        m->filling = array;
    }
    m->filling[m->filling_count++] = dict;
    return 0;
}

void memo_end_filling(torshi_memo *m)
{
    m->filling_count--;
}

int memo_is_filling(const torshi_memo *m, const PyObject *dict)
{
    for (size_t i = m->filling_count; i-- > 0;) {
        if (m->filling[i] == dict) {
            return 1;
        }
    }
    return 0;
}

int memo_mark_column(torshi_memo *m, PyObject *obj)
{
    return mark(m, obj, MEMO_COLUMN_CODE);
}

int memo_note_unmade(torshi_memo *m, PyObject *instance, size_t number)
{
    if (m->unmade_count == m->unmade_size) {
        void *array = m->unmade;
        if (grow_array(&array, &m->unmade_size, sizeof(memo_unmade_entry)) < 0) {
            return -1;
        }
        m->unmade = array;
    }
    m->unmade[m->unmade_count++] = (memo_unmade_entry){instance, number};
    return 0;
}

int memo_adopt_dicts(torshi_memo *m)
{
    size_t kept = 0;
    int status = 0;
    for (size_t i = 0; i < m->unmade_count; i++) {
        memo_unmade_entry e = m->unmade[i];
        torshi_instance_view view;
        if (status == 0 && internals_instance_view(e.instance, &view) && view.dict != NULL &&
            m->order[e.number] == 0) {
            memo_slot *slot = memo_probe(m, view.dict);
            if (!memo_slot_used(m, slot) || !memo_code_is_number(slot->code)) {
                status = mark(m, view.dict, (uint32_t)e.number);
                if (status == 0) {
                    m->order[e.number] = (uintptr_t)Py_NewRef(view.dict) | MEMO_HASHED | MEMO_OWNED;
                    m->some_owned = 1;
                }
            }
            continue;
        }
        m->unmade[kept++] = e;
    }
    m->unmade_count = kept;
    m->unmade_stale = 0;
    return status;
}
