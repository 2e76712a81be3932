/*
 * load_stack.c - what a load works on: the stack and its marks, the memo, and the scratch memory
 * that one load after the other uses.
 */
#include "load.h"

/* Scratch that grew beyond these is given back after the load. */
#define STACK_START 256
#define STACK_KEPT 8192
#define MARKS_START 32
#define MARKS_KEPT 8192
#define MEMO_START 64
#define MEMO_KEPT 131072

/* An index this far beyond the number of entries goes into a dict: a damaged index may not
   become gigabytes. */
#define MEMO_GAP 4096

/* ---- stack ----------------------------------------------------------------------------------- */

int stack_grow(torshi_load *load, Py_ssize_t more)
{
    Py_ssize_t used = load->top - load->stack;
    Py_ssize_t size = load->limit - load->stack;
    if (size - used >= more) {
        return 0;
    }
    Py_ssize_t wanted = size < STACK_START ? STACK_START : size + (size >> 1);
    if (more > PY_SSIZE_T_MAX / (Py_ssize_t)sizeof(PyObject *) - used) {
        PyErr_NoMemory();
        return -1;
    }
    if (wanted < used + more) {
        wanted = used + more;
    }
    PyObject **stack = PyMem_Realloc(load->stack, (size_t)wanted * sizeof(PyObject *));
    if (stack == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    load->fence = stack + (load->fence - load->stack);
    load->stack = stack;
    load->top = stack + used;
    load->limit = stack + wanted;
    return 0;
}

int stack_push(torshi_load *load, PyObject *obj)
{
    if (obj == NULL) {
        return -1;
    }
    if (load->top == load->limit && stack_grow(load, 1) < 0) {
        Py_DECREF(obj);
        return -1;
    }
    *load->top++ = obj;
    return 0;
}

int stack_underflow(torshi_load *load)
{
    PyErr_SetString(load->st->UnpicklingError,
                    load->mark_count ? "unexpected MARK found" : "unpickling stack underflow");
    return -1;
}

PyObject *stack_pop(torshi_load *load)
{
    if (load->top <= load->fence) {
        stack_underflow(load);
        return NULL;
    }
    return *--load->top;
}

void stack_cut(torshi_load *load, PyObject **down_to)
{
    /* Top goes first, so that what a finaliser might see is never an item already dropped. */
    while (load->top > down_to) {
        PyObject *item = *--load->top;
        Py_DECREF(item);
    }
}

int mark_push(torshi_load *load)
{
    if (load->mark_count == load->mark_size) {
        Py_ssize_t size = load->mark_size < MARKS_START ? MARKS_START : 2 * load->mark_size;
        Py_ssize_t *marks = NULL;
        if (size <= PY_SSIZE_T_MAX / (Py_ssize_t)sizeof(*marks)) {
            marks = PyMem_Realloc(load->marks, (size_t)size * sizeof(*marks));
        }
        if (marks == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        load->marks = marks;
        load->mark_size = size;
    }
    load->marks[load->mark_count++] = load->top - load->stack;
    load->fence = load->top;
    return 0;
}

PyObject **mark_pop(torshi_load *load)
{
    if (load->mark_count == 0) {
        PyErr_SetString(load->st->UnpicklingError, "could not find MARK");
        return NULL;
    }
    PyObject **items = load->fence;
    mark_drop(load);
    return items;
}

/* ---- memo ------------------------------------------------------------------------------------ */

PyObject *memo_peek(const load_memo *memo, size_t index)
{
    if (index < memo->size && memo->slots[index] != NULL) {
        return memo->slots[index];
    }
    if (memo->sparse == NULL) {
        return NULL;
    }
    PyObject *key = PyLong_FromSize_t(index);
    if (key == NULL) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *value = PyDict_GetItemWithError(memo->sparse, key);
    Py_DECREF(key);
    return value;
}

PyObject *memo_get(torshi_load *load, size_t index)
{
    PyObject *value = memo_peek(&load->memo, index);
    if (value == NULL) {
        PyErr_Format(load->st->UnpicklingError, "Memo value not found at index %zu", index);
    }
    return value;
}

static int memo_put_sparse(load_memo *memo, size_t index, PyObject *obj)
{
    int status = -1;
    PyObject *key = PyLong_FromSize_t(index);
    if (key == NULL) {
        return -1;
    }
    if (memo->sparse == NULL) {
        memo->sparse = PyDict_New();
    }
    if (memo->sparse != NULL) {
        Py_ssize_t before = PyDict_GET_SIZE(memo->sparse);
        status = PyDict_SetItem(memo->sparse, key, obj);
        memo->count += (size_t)(PyDict_GET_SIZE(memo->sparse) - before);
    }
    Py_DECREF(key);
    return status;
}

int memo_put(torshi_load *load, size_t index, PyObject *obj)
{
    load_memo *memo = &load->memo;
    if (index >= memo->size) {
        /* Once there are sparse entries the array stays as it is: no index is in both. */
        if (memo->sparse != NULL || index > 2 * memo->count + MEMO_GAP) {
            user_code_begins(load);
            int status = memo_put_sparse(memo, index, obj);
            user_code_ended(load);
            return status;
        }
        size_t size = memo->size < MEMO_START ? MEMO_START : 2 * memo->size;
        if (size <= index) {
            size = index + 1;
        }
        PyObject **slots = NULL;
        if (size <= PY_SSIZE_T_MAX / sizeof(*slots)) {
            slots = PyMem_Realloc(memo->slots, size * sizeof(*slots));
        }
        if (slots == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        memset(slots + memo->size, 0, (size - memo->size) * sizeof(*slots));
        memo->slots = slots;
        memo->size = size;
    }
    PyObject *old = memo->slots[index];
    memo->slots[index] = Py_NewRef(obj);
    if (index >= memo->high) {
        memo->high = index + 1;
    }
    if (old == NULL) {
        memo->count++;
    } else {
        user_code_begins(load);
        Py_DECREF(old);
        user_code_ended(load);
    }
    return 0;
}

void memo_clear(load_memo *memo)
{
    size_t high = memo->high;
    memo->high = 0;
    memo->count = 0;
    /* A finaliser may come back to this memo (through Unpickler.memo): a slot is emptied first. */
    for (size_t i = 0; i < high && i < memo->size; i++) {
        Py_CLEAR(memo->slots[i]);
    }
    Py_CLEAR(memo->sparse);
}

void memo_free(load_memo *memo)
{
    memo_clear(memo);
    PyMem_Free(memo->slots);
    memo->slots = NULL;
    memo->size = 0;
}

/* ---- scratch --------------------------------------------------------------------------------- */

int scratch_take(torshi_load *load, int with_memo)
{
    torshi_loaders *shared = load->st->loaders;
    if (with_memo) {
        load->memo = (load_memo){0};
    }
    load->mark_count = 0;
    load->names = NULL;
    load->scratch = !shared->scratch_used && shared->stack != NULL;
    if (load->scratch) {
        shared->scratch_used = 1;
        load->names = shared->names;
        load->stack = shared->stack;
        load->limit = shared->stack + shared->stack_size;
        load->marks = shared->marks;
        load->mark_size = shared->mark_size;
        if (with_memo) {
            load->memo.slots = shared->memo;
            load->memo.size = shared->memo_size;
        }
    } else {
        load->stack = PyMem_Malloc(STACK_START * sizeof(PyObject *));
        load->marks = NULL;
        load->mark_size = 0;
        if (load->stack == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        load->limit = load->stack + STACK_START;
    }
    load->top = load->fence = load->stack;
    return 0;
}

static void forget_kept(torshi_load *load)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    while (load->kept_count > 0) {
        load->kept_count--;
        Py_DECREF(load->kept[load->kept_count].value);
    }
    PyMem_Free(load->kept);
    load->kept = NULL;
    PyErr_Restore(type, value, traceback);
}

/* Strings only: nothing of the user's runs. */
static void forget_names(torshi_load *load)
{
    for (unsigned i = 0; i < LOAD_NAMES; i++) {
        if (load->names_used >> i & 1) {
            Py_DECREF(load->names[i].from);
            Py_DECREF(load->names[i].to);
        }
    }
    load->names_used = 0;
}

static void drop_leftovers(torshi_load *load, int with_memo)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    stack_cut(load, load->stack);
    if (with_memo) {
        memo_clear(&load->memo);
    }
    PyErr_Restore(type, value, traceback);
}

/* Lend what the load has to the next one. */
static inline void lend_scratch(torshi_load *load, int with_memo)
{
    torshi_loaders *shared = load->st->loaders;
    shared->stack = load->stack;
    shared->stack_size = load->stack != NULL ? (size_t)(load->limit - load->stack) : 0;
    shared->marks = load->marks;
    shared->mark_size = load->mark_size;
    if (with_memo) {
        shared->memo = load->memo.slots;
        shared->memo_size = load->memo.size;
    }
    shared->scratch_used = 0;
}

/* What scratch_return does when the load left nothing behind and nothing grew too large: 1 when it
   is done. */
static inline int return_clean(torshi_load *load, int with_memo)
{
    if (!load->scratch || load->kept != NULL || load->names_used != 0 || load->top > load->stack ||
        load->memo.sparse != NULL || load->limit - load->stack > STACK_KEPT ||
        load->mark_size > MARKS_KEPT || load->memo.size > MEMO_KEPT) {
        return 0;
    }
    if (with_memo) {
        memo_clear(&load->memo);
    }
    lend_scratch(load, with_memo);
    if (!with_memo) { /* an Unpickler's, which lives on */
        load->stack = load->top = load->limit = load->fence = NULL;
        load->marks = NULL;
        load->mark_count = load->mark_size = 0;
    }
    return 1;
}

void scratch_return(torshi_load *load, int with_memo)
{
    torshi_loaders *shared = load->st->loaders;
    if (TORSHI_LIKELY(return_clean(load, with_memo))) {
        return;
    }
    if (load->kept != NULL) {
        forget_kept(load);
    }
    if (load->names_used != 0) {
        forget_names(load);
    }
    if (load->top > load->stack || load->memo.sparse != NULL) {
        drop_leftovers(load, with_memo);
    } else if (with_memo) {
        /* Nothing can be set here that a destructor could overwrite: destructors save it. */
        memo_clear(&load->memo);
    }
    if (!load->scratch && (shared->scratch_used || shared->stack != NULL)) {
        PyMem_Free(load->stack);
        PyMem_Free(load->marks);
        if (with_memo) {
            PyMem_Free(load->memo.slots);
        }
    } else {
        /* What grew too large to keep is not lent. */
        if ((size_t)(load->limit - load->stack) > STACK_KEPT) {
            PyMem_Free(load->stack);
            load->stack = NULL;
        }
        if (load->mark_size > MARKS_KEPT) {
            PyMem_Free(load->marks);
            load->marks = NULL;
            load->mark_size = 0;
        }
        if (with_memo && load->memo.size > MEMO_KEPT) {
            PyMem_Free(load->memo.slots);
            load->memo.slots = NULL;
            load->memo.size = 0;
        }
        if (!load->scratch) {
            PyMem_Free(shared->marks);
            PyMem_Free(with_memo ? shared->memo : NULL);
        }
        lend_scratch(load, with_memo);
    }
    load->stack = load->top = load->limit = load->fence = NULL;
    load->marks = NULL;
    load->mark_count = load->mark_size = 0;
    if (with_memo) {
        load->memo = (load_memo){0};
    }
}

/* ---- per load cache -------------------------------------------------------------------------- */

PyObject *svc_load_once(torshi_load *load, const void *key, PyObject *(*make)(void *arg), void *arg,
                        PyObject **temporary)
{
    *temporary = NULL;
    if (load == NULL) {
        return *temporary = make(arg);
    }
    for (size_t i = 0; i < load->kept_count; i++) {
        if (load->kept[i].key == key) {
            return load->kept[i].value;
        }
    }
    PyObject *value = make(arg);
    if (value == NULL) {
        return NULL;
    }
    load_kept *kept = PyMem_Realloc(load->kept, (load->kept_count + 1) * sizeof(*kept));
    if (kept == NULL) {
        Py_DECREF(value);
        return PyErr_NoMemory();
    }
    load->kept = kept;
    kept[load->kept_count++] = (load_kept){.key = key, .value = value};
    return value;
}
