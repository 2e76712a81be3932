/*
 * load.h - one unpickler at work: its input, stack, marks and memo, and what its opcodes use.
 *
 * load.c holds the loop with the fast paths of the frequent opcodes. Every opcode has a complete
 * handler load_NAME besides (opcodes.def), in load_atoms.c, load_containers.c, load_build.c and
 * load_global.c; the loop calls it whenever a fast path does not apply.
 *
 * Unless said otherwise functions return 0, or -1 with an exception set. Pointers into the stack
 * are not kept across calls that may push.
 */
#ifndef TORSHI_ENGINE_LOAD_H
#define TORSHI_ENGINE_LOAD_H

#include "opcodes.h"
#include "state.h"

/* Before 3.12 any allocation may start a collection, and a load makes nothing but live objects. */
#define LOAD_PAUSES_GC (PY_VERSION_HEX < 0x030C0000)

typedef struct load_memo {
    PyObject **slots; /* owned array of owned references; NULL where there is no entry */
    size_t size;      /* slots allocated */
    size_t high;      /* slots from here on are NULL */
    size_t count;     /* entries, those in `sparse` included: the index of the next MEMOIZE */
    PyObject *sparse; /* owned {index: object} for indexes far beyond count, or NULL */
} load_memo;

typedef struct load_kept {
    const void *key;
    PyObject *value; /* owned */
} load_kept;

/* Attribute names lately interned: the string of the stream and the interned one. */
#define LOAD_NAMES 32
typedef struct load_name {
    PyObject *from; /* owned */
    PyObject *to;   /* owned */
} load_name;

struct torshi_load {
    torshi_state *st; /* borrowed */

    /* input: the unread bytes are pos..end */
    const unsigned char *pos;
    const unsigned char *end;
    const unsigned char *taken; /* bytes before this have been read from the file (file only) */
    PyObject *bytes;            /* owned: what they lie in, or NULL */
    Py_buffer view;             /* the same, where it is not exact bytes; view.obj NULL: not held,
                                   and the rest of it may never have been set */
    PyObject *read;             /* owned, bound methods of the file; NULL: input is in memory */
    PyObject *readline;
    PyObject *readinto; /* or NULL */
    PyObject *peek;     /* or NULL */
    char *line;         /* owned: the last line, NUL-terminated */
    size_t line_size;

    /* stack: items stack..top; those below the topmost mark are below fence */
    PyObject **stack; /* owned array of owned references */
    PyObject **top;
    PyObject **limit;
    PyObject **fence;
    Py_ssize_t *marks; /* owned: depths of the stack */
    Py_ssize_t mark_count;
    Py_ssize_t mark_size;

    load_memo memo;

    int proto;
    int fix_imports;
    int pausing;               /* 1: the collector is to rest while this load runs no user code */
    int gc_paused;             /* 1: it does rest now */
    int scratch;               /* 1: stack, marks and memo are those of torshi_loaders */
    PyObject *encoding;        /* owned str, or NULL: ASCII */
    PyObject *errors;          /* owned str, or NULL: strict */
    PyObject *buffers;         /* owned iterator, or NULL */
    PyObject *persistent_load; /* owned callable, or NULL */
    PyObject *unpickler;       /* borrowed: whose find_class is asked; NULL: the default one */

    load_name *names;    /* LOAD_NAMES of them, those of torshi_loaders; or NULL */
    uint32_t names_used; /* bit i: names[i] is filled */

    load_kept *kept; /* owned: svc_load_once */
    size_t kept_count;
};

#define READY_SPECS 8

/* What unpickling keeps per interpreter. */
struct torshi_loaders {
    PyTypeObject *unpickler_types[2];   /* owned, by flavour */
    PyTypeObject *proxy_type;           /* owned */
    PyTypeObject *target_type;          /* owned: the buffer that readinto() fills */
    PyObject *import_function;          /* owned: builtins.__import__ as it was */
    PyObject *str_import;               /* owned: "__import__" */
    PyObject *str_spec;                 /* owned: "__spec__" */
    PyObject *str_initializing;         /* owned: "_initializing" */
    PyObject *str_release;              /* owned: "release" */
    PyObject *ready_specs[READY_SPECS]; /* owned or NULL: of modules that are imported for good */
    PyObject *str_dot;                  /* owned: "." */
    int scratch_used;                   /* 1: lent to a load */
    PyObject **stack;                   /* owned, empty */
    size_t stack_size;
    Py_ssize_t *marks; /* owned */
    Py_ssize_t mark_size;
    load_name names[LOAD_NAMES]; /* filled only while they are lent */
    PyObject **memo;             /* owned, all NULL */
    size_t memo_size;
};

/* A load without input, options, stack and memo. Field by field, and view left alone: to clear all
   of it took longer than to load a small pickle. */
static inline void load_init(torshi_load *load, torshi_state *st)
{
    load->st = st;
    load->pos = load->end = load->taken = NULL;
    load->bytes = NULL;
    load->view.obj = NULL;
    load->read = load->readline = load->readinto = load->peek = NULL;
    load->line = NULL;
    load->line_size = 0;
    load->stack = load->top = load->limit = load->fence = NULL;
    load->marks = NULL;
    load->mark_count = load->mark_size = 0;
    load->memo = (load_memo){0};
    load->proto = 0;
    load->fix_imports = 1;
    load->pausing = load->gc_paused = load->scratch = 0;
    load->encoding = load->errors = load->buffers = NULL;
    load->persistent_load = load->unpickler = NULL;
    load->names = NULL;
    load->names_used = 0;
    load->kept = NULL;
    load->kept_count = 0;
}

/* ---- load.c ---------------------------------------------------------------------------------- */

/* Read one pickle; new reference or NULL. Input is set up; stack and marks come from scratch. */
TORSHI_HIDDEN PyObject *load_run(torshi_load *load);

/* ---- load_stack.c ---------------------------------------------------------------------------- */

/* Stack and marks (and memo, when `with_memo`) for one load, from the interpreter's scratch if
   that is free. scratch_return drops what is left in them; it keeps an exception that is set. */
TORSHI_HIDDEN int scratch_take(torshi_load *load, int with_memo);
TORSHI_HIDDEN void scratch_return(torshi_load *load, int with_memo);

TORSHI_HIDDEN int stack_grow(torshi_load *load, Py_ssize_t more);    /* room for `more` items */
TORSHI_HIDDEN int stack_push(torshi_load *load, PyObject *obj);      /* steals obj; obj NULL: -1 */
TORSHI_HIDDEN PyObject *stack_pop(torshi_load *load);                /* new; NULL on underflow */
TORSHI_HIDDEN void stack_cut(torshi_load *load, PyObject **down_to); /* drops what is above */
TORSHI_HIDDEN int stack_underflow(torshi_load *load);                /* raises; -1 */
TORSHI_HIDDEN int mark_push(torshi_load *load);
/* The first item above the topmost mark, which is removed; NULL when there is none. */
TORSHI_HIDDEN PyObject **mark_pop(torshi_load *load);
/* Forget the topmost mark (there is one). */
static inline void mark_drop(torshi_load *load)
{
    load->mark_count--;
    load->fence = load->stack + (load->mark_count ? load->marks[load->mark_count - 1] : 0);
}

TORSHI_HIDDEN PyObject *memo_get(torshi_load *load, size_t index); /* borrowed; raises */
TORSHI_HIDDEN int memo_put(torshi_load *load, size_t index, PyObject *obj);
TORSHI_HIDDEN void memo_clear(load_memo *memo); /* drops the entries, keeps the array */
TORSHI_HIDDEN void memo_free(load_memo *memo);
/* The borrowed object at an index, or NULL without an exception. */
TORSHI_HIDDEN PyObject *memo_peek(const load_memo *memo, size_t index);

/* services->load_once, as abi.h has it. */
TORSHI_HIDDEN PyObject *svc_load_once(torshi_load *load, const void *key,
                                      PyObject *(*make)(void *arg), void *arg,
                                      PyObject **temporary);

/* ---- input.c --------------------------------------------------------------------------------- */

/* Take the methods of a file; TypeError when one is missing. */
TORSHI_HIDDEN int input_from_file(torshi_load *load, PyObject *file);
/* Hand back to the file what was looked at and not used: it stands right behind STOP then. */
TORSHI_HIDDEN int input_finish(torshi_load *load);
/* Release the input and the line buffer. */
TORSHI_HIDDEN void input_clear(torshi_load *load);
/* Add the readinto() buffer type; from loaders_new. */
TORSHI_HIDDEN int input_add_type(torshi_loaders *loaders);
/* The next n bytes, which are not in the buffer yet; NULL with an exception. */
TORSHI_HIDDEN const unsigned char *input_refill(torshi_load *load, Py_ssize_t n);
/* A line with its newline, in load->line; its length, or -1. */
TORSHI_HIDDEN Py_ssize_t input_line(torshi_load *load);
/* New bytes or bytearray object of the next n bytes; allocates only as the input gives them. */
TORSHI_HIDDEN PyObject *input_bytes(torshi_load *load, Py_ssize_t n);
TORSHI_HIDDEN PyObject *input_bytearray(torshi_load *load, Py_ssize_t n);
TORSHI_HIDDEN int input_truncated(torshi_load *load); /* raises; -1 */

/* The next n bytes; valid until the next read. NULL with an exception. */
static inline const unsigned char *input_take(torshi_load *load, Py_ssize_t n)
{
    if (TORSHI_LIKELY(load->end - load->pos >= n)) {
        const unsigned char *bytes = load->pos;
        load->pos += n;
        return bytes;
    }
    return input_refill(load, n);
}

/* ---- load_global.c --------------------------------------------------------------------------- */

/* Unpickler.find_class as it is when nothing overrides it. Arguments borrowed; new or NULL. */
TORSHI_HIDDEN PyObject *find_class_default(torshi_state *st, int proto, int fix_imports,
                                           PyObject *module, PyObject *name);

/* What two lines of the stream name (GLOBAL, INST); new or NULL. */
TORSHI_HIDDEN PyObject *global_from_lines(torshi_load *load, int ascii);

/* ---- load_build.c ---------------------------------------------------------------------------- */

/* REDUCE of what lies below args..top, without a tuple; the caller checked that it is there. */
TORSHI_HIDDEN int reduce_items(torshi_load *load, PyObject **args);

/* ---- load_containers.c ----------------------------------------------------------------------- */

/* dict[key] = value for what lies at items..load->top, which leaves the stack. `dict` is exact. */
TORSHI_HIDDEN int dict_fill(torshi_load *load, PyObject *dict, PyObject **items);

/* ---- load_functions.c ------------------------------------------------------------------------ */

typedef struct load_options {
    int fix_imports;
    PyObject *encoding; /* borrowed, NULL: default; likewise below */
    PyObject *errors;
    PyObject *buffers;
} load_options;

/*
 * Parse (first, *, fix_imports, encoding, errors, buffers) of `function` by a format of
 * PyArg_ParseTupleAndKeywords, in which `first_name` is "" when it is positional only. The results
 * are borrowed from args and kwargs.
 */
TORSHI_HIDDEN int load_parse(PyObject *args, PyObject *kwargs, const char *format,
                             const char *first_name, const char *function, PyObject **first,
                             load_options *options);
/* Give a load its options; what it took is released by load_clear_options, also on failure. */
TORSHI_HIDDEN int load_set_options(torshi_load *load, const load_options *options);
TORSHI_HIDDEN void load_clear_options(torshi_load *load);

#define FASTCALL_FN(f) ((PyCFunction)(void (*)(void))(f))

/* ---- unpickler.c ----------------------------------------------------------------------------- */

/* 1 when `type` is one of our Unpickler types itself. */
static inline int is_unpickler_exact(const torshi_loaders *loaders, const PyTypeObject *type)
{
    return type == loaders->unpickler_types[0] || type == loaders->unpickler_types[1];
}

/* ---- small things ---------------------------------------------------------------------------- */

#define PAUSE_ABOVE 128

/* Between these two user code may run: the collector is as the user has it. Never nested. */
static inline void user_code_begins(torshi_load *load)
{
#if LOAD_PAUSES_GC
    if (load->gc_paused) {
        PyGC_Enable();
        load->gc_paused = 0;
    }
#else
    (void)load;
#endif
}

static inline void user_code_ended(torshi_load *load)
{
#if LOAD_PAUSES_GC
    /* Not for the few objects that few bytes can make (a file read byte by byte comes here often).
     */
    if (load->pausing && load->end - load->pos > PAUSE_ABOVE) {
        load->gc_paused = PyGC_Disable();
    }
#else
    (void)load;
#endif
}

static inline uint32_t le16(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t le32(const unsigned char *p)
{
    return le16(p) | le16(p + 2) << 16;
}

static inline uint64_t le64(const unsigned char *p)
{
    return (uint64_t)le32(p) | (uint64_t)le32(p + 4) << 32;
}

static inline double be_double(const unsigned char *p)
{
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) {
        bits = bits << 8 | p[i];
    }
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* The attribute as a new reference in *value, NULL when there is none. 0 or -1. */
static inline int lookup_attribute(PyObject *obj, PyObject *name, PyObject **value)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyObject_GetOptionalAttr(obj, name, value) < 0 ? -1 : 0;
#else
    return _PyObject_LookupAttr(obj, name, value) < 0 ? -1 : 0;
#endif
}

#define NOT_ASCII 0x8080808080808080u

/* A new str of n > 16 bytes of UTF-8. */
TORSHI_HIDDEN PyObject *str_from_long_utf8(const unsigned char *s, Py_ssize_t n);

/* A new str out of UTF-8, surrogates let through; NULL on failure. Short ASCII is copied by two
   words that may overlap (a memcpy of a length that is known to be small became `rep movsq`, which
   cost half the time of a list of strings). Strings of up to one character go through the API,
   which shares them. */
static inline PyObject *str_from_utf8(const unsigned char *s, Py_ssize_t n)
{
    PyObject *str;
    if (TORSHI_UNLIKELY(n > 16)) {
        return str_from_long_utf8(s, n);
    }
    if (n >= 8) {
        uint64_t head, tail;
        memcpy(&head, s, 8);
        memcpy(&tail, s + n - 8, 8);
        if (((head | tail) & NOT_ASCII) == 0) {
            str = PyUnicode_New(n, 127);
            if (TORSHI_LIKELY(str != NULL)) {
                unsigned char *text = (unsigned char *)((PyASCIIObject *)str + 1);
                memcpy(text, &head, 8);
                memcpy(text + n - 8, &tail, 8);
            }
            return str;
        }
    } else if (n >= 4) {
        uint32_t head, tail;
        memcpy(&head, s, 4);
        memcpy(&tail, s + n - 4, 4);
        if (((head | tail) & (uint32_t)NOT_ASCII) == 0) {
            str = PyUnicode_New(n, 127);
            if (TORSHI_LIKELY(str != NULL)) {
                unsigned char *text = (unsigned char *)((PyASCIIObject *)str + 1);
                memcpy(text, &head, 4);
                memcpy(text + n - 4, &tail, 4);
            }
            return str;
        }
    } else if (n == 1 && s[0] < 0x80) {
        return PyUnicode_FromOrdinal(s[0]);
    } else if (n >= 2 && ((s[0] | s[1] | s[n - 1]) & 0x80) == 0) {
        str = PyUnicode_New(n, 127);
        if (TORSHI_LIKELY(str != NULL)) {
            unsigned char *text = (unsigned char *)((PyASCIIObject *)str + 1);
            text[0] = s[0];
            text[1] = s[1];
            text[n - 1] = s[n - 1];
        }
        return str;
    }
    return PyUnicode_DecodeUTF8((const char *)s, n, "surrogatepass");
}

#endif
