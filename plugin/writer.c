/*
 * writer.c - the writer's memory: buffers that stay from chunk to chunk, and the set of objects
 * met.
 */
#include "encode.h"
#include "encode_ref.h"

/* What a writer keeps allocated between chunks. */
#define KEEP_BYTES ((size_t)1 << 20)
#define SEEN_START 64
#define SEEN_KEEP 4096

static void writer_free(chunk_writer *w)
{
    refs_forget(w);
    torshi_buf_free(&w->out);
    torshi_buf_free(&w->blob);
    arena_free(&w->arena);
    arena_free(&w->lasting);
    PyMem_Free(w->seen.entries);
    PyMem_Free(w->pending);
    PyMem_Free(w->columns);
    PyMem_Free(w->externals);
    PyMem_Free(w->types);
    PyMem_Free(w->excluded);
    PyMem_Free(w);
}

int writer_init(struct plugin_state *plugin)
{
    plugin->writer = NULL;
    return 0;
}

int writer_traverse(struct plugin_state *plugin, int (*visit)(PyObject *, void *), void *arg)
{
    (void)plugin, (void)visit, (void)arg; /* no reference is kept between chunks */
    return 0;
}

void writer_clear(struct plugin_state *plugin)
{
    if (plugin->writer) {
        writer_free(plugin->writer);
        plugin->writer = NULL;
    }
}

chunk_writer *writer_take(struct plugin_state *plugin, torshi_dump *dump)
{
    chunk_writer *w = plugin->writer;
    if (w) {
        plugin->writer = NULL;
    } else {
        w = PyMem_Calloc(1, sizeof(*w));
        if (!w) {
            PyErr_NoMemory();
            return NULL;
        }
        w->plugin = plugin;
        w->services = plugin->services;
        w->objects = plugin->objects;
        w->chunk = chunk_callable(plugin->services);
        if (!w->chunk) {
            PyErr_SetString(PyExc_SystemError, "torshi.chunk is not there");
            PyMem_Free(w);
            return NULL;
        }
    }
    w->dump = dump;
    w->excluded_count = 0;
    w->hooks = plugin->services->option(dump, TORSHI_OPT_ASKS_HOOKS) != 0;
    return w;
}

static void trim_buf(torshi_buf *b)
{
    if (b->cap > KEEP_BYTES) {
        torshi_buf_free(b);
    }
    b->len = 0;
}

static void *trim_vector(void *items, size_t *room, size_t size)
{
    if (*room * size > KEEP_BYTES) {
        PyMem_Free(items);
        items = NULL;
        *room = 0;
    }
    return items;
}

void writer_release(chunk_writer *w)
{
    refs_forget(w);
    writer_reset(w);
    w->dump = NULL;
    if (w->plugin->writer) { /* a dump within this one left its own */
        writer_free(w);
        return;
    }
    trim_buf(&w->out);
    trim_buf(&w->blob);
    w->pending = trim_vector(w->pending, &w->pending_room, sizeof(*w->pending));
    w->columns = trim_vector(w->columns, &w->column_room, sizeof(*w->columns));
    w->externals = trim_vector(w->externals, &w->external_room, sizeof(*w->externals));
    w->plugin->writer = w;
}

/* The next chunk is likely to need as much: one block of that size, within bounds. */
static void reset_arena(arena *a)
{
    size_t size = 0;
    if (a->top && a->top->below) {
        for (const arena_block *block = a->top; block; block = block->below) {
            size += block->size;
        }
        arena_free(a);
        (void)arena_alloc(a, size < ARENA_KEEP ? size : ARENA_KEEP, 1);
        PyErr_Clear();
    }
    arena_reset(a);
}

void writer_reset(chunk_writer *w)
{
    w->out.len = 0;
    w->blob.len = 0;
    reset_arena(&w->arena);
    arena_reset(&w->lasting);
    if (w->seen.used) {
        if (w->seen.mask >= SEEN_KEEP) {
            PyMem_Free(w->seen.entries);
            w->seen.entries = NULL;
            w->seen.mask = 0;
        } else {
            memset(w->seen.entries, 0, (w->seen.mask + 1) * sizeof(seen_entry));
        }
        w->seen.used = w->seen.texts = 0;
    }
    refs_reset(w);
    w->values = 0;
    w->bound = 0;
    w->extra = 0;
    w->serial = 0;
    w->rolled = 1;
    w->pending_count = 0;
    w->column_count = 0;
    w->external_count = 0;
    w->type_count = 0;
    memset(w->recent, 0, sizeof(w->recent));
    w->shared_state = false;
    w->failed = false;
}

void *writer_grow(void *items, size_t *room, size_t size)
{
    size_t wanted = *room ? *room * 2 : 16;
    void *grown =
        wanted > (size_t)PY_SSIZE_T_MAX / size ? NULL : PyMem_Realloc(items, wanted * size);
    if (!grown) {
        PyErr_NoMemory();
        return NULL;
    }
    *room = wanted;
    return grown;
}

/* ---- objects met --------------------------------------------------------------------------------
 */
static inline size_t seen_hash(PyObject *obj)
{
    uint64_t h = (uint64_t)(uintptr_t)obj * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(h >> 20);
}

static seen_entry *seen_probe(const seen_set *set, PyObject *obj)
{
    size_t i = seen_hash(obj) & set->mask;
    while (set->entries[i].obj && set->entries[i].obj != obj) {
        i = (i + 1) & set->mask;
    }
    return &set->entries[i];
}

static PLUGIN_NOINLINE int seen_resize(seen_set *set)
{
    size_t size = set->entries ? (set->mask + 1) * 4 : SEEN_START;
    seen_entry *entries = PyMem_Calloc(size, sizeof(*entries));
    if (!entries) {
        PyErr_NoMemory();
        return -1;
    }
    seen_set grown = {entries, size - 1, set->used, set->texts};
    for (size_t i = 0; set->entries && i <= set->mask; i++) {
        if (set->entries[i].obj) {
            *seen_probe(&grown, set->entries[i].obj) = set->entries[i];
        }
    }
    PyMem_Free(set->entries);
    *set = grown;
    return 0;
}

seen_entry *seen_find(seen_set *set, PyObject *obj)
{
    if ((set->used + 1) * 2 > set->mask && seen_resize(set) < 0) {
        return NULL;
    }
    return seen_probe(set, obj);
}
