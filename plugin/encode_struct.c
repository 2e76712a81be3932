/*
 * encode_struct.c - dicts with the same keys, and instances with the same attributes: the names
 * once, then a column for each field.
 */
#include "encode.h"

/* More fields than this many times the rows are better off as a MAP. */
#define FIELDS_A_ROW 8

bool shape_is_struct(const shape *sh)
{
    if (sh->n > TORSHI_MAX_FIELDS) {
        return false;
    }
    return sh->type || (sh->rows >= 2 && sh->n <= FIELDS_A_ROW * sh->rows);
}

bool are_names(const entries *e)
{
    for (size_t i = 0; i < e->n; i++) {
        if (!PyUnicode_CheckExact(e->keys[i])) {
            return false;
        }
    }
    return true;
}

shape *make_shape(chunk_writer *w, const entries *e, const type_entry *type)
{
    shape *sh = arena_alloc(&w->arena, 1, sizeof(*sh));
    if (sh) {
        *sh = (shape){type, e->slotted, e->n, e->keys, 0, NULL};
    }
    return sh;
}

bool has_shape(const shape *sh, const entries *e)
{
    if (e->n != sh->n || e->slotted != sh->slotted) {
        return false;
    }
    for (size_t f = 0; f < sh->n; f++) {
        if (!same_name(e->keys[f], sh->keys[f])) {
            return false;
        }
    }
    return true;
}

/* ---- rows into columns --------------------------------------------------------------------------
 */
static inline bool copy_view(const torshi_dict_view *view, const shape *sh, PyObject **cells,
                             size_t n)
{
    const size_t fields = sh->n, stride = view->stride;
    PyObject *const *names = sh->keys;
    if ((size_t)view->count != fields) {
        return false;
    }
    PyObject *const *pairs = view_pairs(view);
    if (pairs) {
        return take_pairs_of(pairs, sh, cells, n);
    }
    const unsigned char *key = view->base + view->key_offset;
    const unsigned char *value = view->base + view->value_offset;
    size_t value_stride = stride;
    if (view->values) {
        value = (const unsigned char *)view->values;
        value_stride = sizeof(PyObject *);
    }
    for (size_t f = 0; f < fields; f++) {
        PyObject *name = *(PyObject *const *)(const void *)key;
        if (PLUGIN_UNLIKELY(name != names[f]) && !same_name(name, names[f])) {
            return false;
        }
        cells[f * n] = *(PyObject *const *)(const void *)value;
        key += stride;
        value += value_stride;
    }
    return true;
}

bool take_view(const torshi_dict_view *view, const shape *sh, PyObject **cells, size_t n)
{
    return copy_view(view, sh, cells, n);
}

static bool take_slots(PyObject *obj, const shape *sh, PyObject **cells, size_t n)
{
    const type_entry *type = sh->type;
    size_t f = 0;
    for (size_t i = 0; i < type->slots; i++) {
        PyObject *value = *(PyObject **)(void *)((char *)obj + type->offsets[i]);
        if (value) {
            if (f == sh->n || sh->keys[f] != type->names[i]) {
                return false;
            }
            cells[f++ * n] = value;
        }
    }
    return f == sh->n;
}

/* ENC_OK, ENC_OTHER or ENC_ERROR. */
static int take_row(chunk_writer *w, PyObject *obj, const shape *sh, PyObject **cells, size_t n)
{
    torshi_dict_view view;
    if (row_view(w, obj, sh->type, &view)) {
        return take_view(&view, sh, cells, n) ? ENC_OK : ENC_OTHER;
    }
    if (sh->type && !sh->type->has_dict) {
        return take_slots(obj, sh, cells, n) ? ENC_OK : ENC_OTHER;
    }
    arena_mark mark = arena_here(&w->arena);
    entries e;
    int status = row_entries(w, obj, sh->type, &e);
    if (status == ENC_OK && !has_shape(sh, &e)) {
        status = ENC_OTHER;
    }
    for (size_t f = 0; status == ENC_OK && f < sh->n; f++) {
        cells[f * n] = e.values[f];
    }
    arena_release(&w->arena, mark);
    return status;
}

/* The first rows of s, as long as they are dicts that nobody else has and lie open; how many. */
static size_t take_own_dicts(chunk_writer *w, const span *s, const shape *sh, PyObject **cells)
{
    int (*const dict_view)(PyObject *, torshi_dict_view *) = w->objects->dict_view;
    PyTypeObject *const type = &PyDict_Type;
    size_t i = 0;
    for (; i < s->n; i++) {
        PyObject *obj = span_at(s, i);
        torshi_dict_view view;
        fetch_dict_ahead(s, i, sh->n);
        if (Py_TYPE(obj) != type || Py_REFCNT(obj) != 1 || !dict_view(obj, &view) ||
            view.used != view.count || !copy_view(&view, sh, cells + i, s->n)) {
            break;
        }
    }
    return i;
}

/* The same for instances, of which neither they nor their dicts have another owner. */
static size_t take_own_instances(chunk_writer *w, const span *s, const shape *sh, PyObject **cells)
{
    const torshi_objects *objects = w->objects;
    PyTypeObject *const type = sh->type->type;
    size_t i = 0;
    for (; i < s->n; i++) {
        PyObject *obj = span_at(s, i);
        torshi_instance_view instance;
        fetch_ahead(s, i);
        if (Py_TYPE(obj) != type || Py_REFCNT(obj) != 1 ||
            !objects->instance_view(obj, &instance)) {
            break;
        }
        if (instance.dict &&
            (Py_REFCNT(instance.dict) != 1 || !objects->dict_view(instance.dict, &instance.view))) {
            break;
        }
        if (instance.view.used != instance.view.count ||
            !copy_view(&instance.view, sh, cells + i, s->n)) {
            break;
        }
    }
    return i;
}

/* All rows of s, each claimed on the way unless that was done before. */
static int take_rows(chunk_writer *w, const span *s, const shape *sh, PyObject **cells,
                     bool claimed)
{
    const type_entry *type = sh->type;
    size_t i = !type                            ? take_own_dicts(w, s, sh, cells)
               : type->has_dict && !type->slots ? take_own_instances(w, s, sh, cells)
                                                : 0;
    int status = ENC_OK;
    for (; i < s->n; i++) {
        PyObject *obj = span_at(s, i);
        if (!claimed) {
            if (type ? Py_TYPE(obj) != type->type : !PyDict_CheckExact(obj)) {
                status = ENC_OTHER;
                break;
            }
            int claim = type ? claim_instance(w, obj, type) : claim_row(w, obj);
            if (claim != 1) {
                status = claim == 0 ? ENC_OTHER : claim;
                break;
            }
        }
        status = take_row(w, obj, sh, cells + i, s->n);
        if (status != ENC_OK) {
            i++;
            break;
        }
    }
    if (status == ENC_OTHER && !claimed) {
        while (i--) {
            unclaim_row(w, span_at(s, i));
            if (type) {
                unclaim_state(w, span_at(s, i), type);
            }
        }
    }
    return status;
}

/* Rows that were copied before, into columns. */
static void turn_rows(const shape *sh, PyObject **cells, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        PyObject *const *row = sh->taken[i];
        for (size_t f = 0; f < sh->n; f++) {
            cells[f * n + i] = row[f];
        }
    }
}

/* ---- writing ------------------------------------------------------------------------------------
 */
/* Bytes of n rows as opcodes, keys and values aside. */
static int64_t rows_cost(const shape *sh, size_t n)
{
    int64_t rows = (int64_t)n, fields = (int64_t)sh->n;
    int64_t dict =
        2 + (fields > 1 ? 2 : fields);       /* EMPTY_DICT, MEMOIZE, SETITEM or (MARK, SETITEMS) */
    int64_t names = 2 * (rows - 1) * fields; /* GET, after the first row */
    if (!sh->type) {
        return rows * dict + names;
    }
    /* GET of the class, EMPTY_TUPLE, NEWOBJ, MEMOIZE; BUILD; NONE, TUPLE2, MEMOIZE */
    int64_t instance = 2 * (rows - 1) + 3 * rows;
    return fields == 0 ? instance : instance + rows * (dict + 1 + (sh->slotted ? 3 : 0)) + names;
}

/* The column's head, up to the fields. */
static int put_struct_head(chunk_writer *w, const shape *sh)
{
    torshi_kind kind = !sh->type     ? TORSHI_COL_STRUCT
                       : sh->n == 0  ? TORSHI_COL_BARE
                       : sh->slotted ? TORSHI_COL_SLOTTED
                                     : TORSHI_COL_INSTANCE;
    if (put_head(w, kind, 0) < 0) {
        return ENC_ERROR;
    }
    if (sh->type) {
        uint32_t number;
        if (external_number(w, (PyObject *)sh->type->type, &number) != ENC_OK) {
            return ENC_ERROR;
        }
        if (!torshi_buf_uvar(&w->out, number)) {
            return put_no_memory();
        }
    }
    return kind == TORSHI_COL_BARE || torshi_buf_uvar(&w->out, sh->n) ? ENC_OK : put_no_memory();
}

/* Whether a field of these objects may be set once only: their dict may be met meanwhile, and a
   __setattr__ of their own, which BUILD calls for slots, sees every value. */
static bool sets_once(const shape *sh)
{
    return sh->type && (!sh->slotted || sh->type->type->tp_setattro != PyObject_GenericSetAttr);
}

static int put_fields(chunk_writer *w, const shape *sh, PyObject **cells_of, size_t n,
                      uint32_t first, int level)
{
    span names = span_of(sh->keys, sh->n);
    const cells nowhere = {NULL, NULL};
    int status = encode_column(w, &names, &nowhere, level + 1, COLUMN_PLAIN | COLUMN_DISTINCT);
    for (size_t f = 0; f < sh->n && status == ENC_OK; f++) {
        origin *from = arena_alloc(&w->arena, 1, sizeof(*from));
        if (!from) {
            return ENC_ERROR;
        }
        *from = (origin){.form = ORIGIN_FIELD,
                         .first = first,
                         .key = sh->keys[f],
                         .field = (uint32_t)f,
                         .type = sets_once(sh) ? sh->type->type : NULL};
        cells where = {from, NULL};
        span column = span_of(cells_of + f * n, n);
        status = encode_column(w, &column, &where, level + 1, 0);
    }
    return status;
}

int encode_structs(chunk_writer *w, const span *s, const cells *c, int level, shape *known,
                   type_entry *type)
{
    arena_mark mark = arena_here(&w->arena);
    shape *sh = known;
    uint32_t first;
    int status = ENC_OK;
    if (!sh) {
        entries e;
        status = row_entries(w, span_at(s, 0), type, &e);
        if (status != ENC_OK || !are_names(&e)) {
            return status != ENC_OK ? status : ENC_OTHER;
        }
        sh = make_shape(w, &e, type);
        if (!sh) {
            return ENC_ERROR;
        }
        sh->rows = s->n;
        if (!shape_is_struct(sh)) {
            return ENC_OTHER;
        }
        if (type) {
            int plain = w->services->is_default_instance(w->dump, span_at(s, 0));
            if (plain <= 0) {
                return plain < 0 ? ENC_ERROR : ENC_OTHER;
            }
        }
    }
    if (sh->n && s->n > (TORSHI_MAX_VALUES - w->values) / sh->n) {
        return ENC_LIMIT;
    }
    PyObject **cells_of = arena_alloc(&w->arena, sh->n * s->n, sizeof(*cells_of));
    if (!cells_of) {
        return ENC_ERROR;
    }
    if (sh->taken) {
        turn_rows(sh, cells_of, s->n);
    } else {
        status = take_rows(w, s, sh, cells_of, known != NULL);
    }
    if (status != ENC_OK) {
        if (status == ENC_OTHER) {
            arena_release(&w->arena, mark);
        }
        return status;
    }
    int build = sh->slotted ? BUILD_SLOTS : BUILD_ITEM;
    status = put_struct_head(w, sh);
    if (status == ENC_OK) {
        status = put_on_roll(w, s, c, build, &first);
    }
    w->bound += rows_cost(sh, s->n);
    return status == ENC_OK && sh->n ? put_fields(w, sh, cells_of, s->n, first, level) : status;
}
