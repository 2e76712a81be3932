/*
 * load.c - the loop that reads a pickle.
 *
 * The frequent opcodes have a fast path here, which applies when all that it needs is in the buffer
 * and on the stack; it works on local copies of the input and stack pointers. Everything else, and
 * every fast path that does not apply, is the opcode's handler in op_table. Built with
 * TORSHI_SLOW_LOAD there are no fast paths: suites compare the two.
 */
#include "load.h"

const op_info op_table[256] = {
#define OP(NAME, BYTE, PROTO, ARG, POPS, PUSHES, DOC)                                              \
    [BYTE] = {#NAME, load_##NAME, PROTO, POPS, PUSHES},
#include "opcodes.def"
};

static void unknown_opcode(torshi_load *load, unsigned char byte)
{
    if (byte >= 0x20 && byte <= 0x7e && byte != '\'' && byte != '\\') {
        PyErr_Format(load->st->UnpicklingError, "invalid load key, '%c'.", byte);
    } else {
        PyErr_Format(load->st->UnpicklingError, "invalid load key, '\\x%02x'.", byte);
    }
}

/* The locals of the loop, written back before anything outside it is called, and read again. */
#define LEAVE_LOOP() (load->pos = pos, load->top = top)
#define ENTER_LOOP() (pos = load->pos, end = load->end, top = load->top, limit = load->limit)

/* Opcodes until STOP; 0 or -1. */
static int run(torshi_load *load)
{
    const unsigned char *pos, *end;
    PyObject **top, **limit;
    PyObject *value;
    unsigned char byte;
#ifndef TORSHI_SLOW_LOAD
    PyObject **args;
#endif

    ENTER_LOOP();
    for (;;) {
        if (TORSHI_UNLIKELY(pos == end)) {
            LEAVE_LOOP();
            if (input_refill(load, 1) == NULL) {
                if (PyErr_ExceptionMatches(load->st->UnpicklingError)) {
                    PyErr_SetString(PyExc_EOFError, "Ran out of input");
                }
                return -1;
            }
            ENTER_LOOP();
            pos--;
        }
        byte = *pos++;
        switch (byte) {
#ifndef TORSHI_SLOW_LOAD
        case OP_PROTO:
            if (end == pos || pos[0] > OP_HIGHEST_PROTOCOL) {
                goto general;
            }
            load->proto = *pos++;
            continue;
        case OP_FRAME:
            if (end - pos < 8 || le64(pos) > (uint64_t)(end - pos - 8)) {
                goto general;
            }
            pos += 8;
            continue;
        case OP_NONE:
            value = Py_NewRef(Py_None);
            break;
        case OP_NEWTRUE:
            value = Py_NewRef(Py_True);
            break;
        case OP_NEWFALSE:
            value = Py_NewRef(Py_False);
            break;
        case OP_BININT1:
            if (end - pos < 1) {
                goto general;
            }
            value = PyLong_FromLong(pos[0]);
            pos += 1;
            break;
        case OP_BININT2:
            if (end - pos < 2) {
                goto general;
            }
            value = PyLong_FromLong((long)le16(pos));
            pos += 2;
            break;
        case OP_BININT:
            if (end - pos < 4) {
                goto general;
            }
            value = PyLong_FromLong((int32_t)le32(pos));
            pos += 4;
            break;
        case OP_LONG1:
            if (end - pos < 9 || pos[0] == 0 || pos[0] > 8) {
                goto general;
            }
            value = PyLong_FromLongLong((int64_t)(le64(pos + 1) << (64 - 8 * pos[0])) >>
                                        (64 - 8 * pos[0]));
            pos += 1 + pos[0];
            break;
        case OP_BINFLOAT:
            if (end - pos < 8) {
                goto general;
            }
            value = PyFloat_FromDouble(be_double(pos));
            pos += 8;
            break;
        case OP_SHORT_BINUNICODE:
            if (end - pos < 1 || end - pos <= pos[0]) {
                goto general;
            }
            value = str_from_utf8(pos + 1, pos[0]);
            pos += 1 + pos[0];
            goto memoized;
        case OP_BINUNICODE:
            if (end - pos < 4 || end - pos - 4 < (Py_ssize_t)le32(pos)) {
                goto general;
            }
            value = str_from_utf8(pos + 4, (Py_ssize_t)le32(pos));
            pos += 4 + le32(pos);
            goto memoized;
        case OP_SHORT_BINBYTES:
            if (end - pos < 1 || end - pos <= pos[0]) {
                goto general;
            }
            value = PyBytes_FromStringAndSize((const char *)pos + 1, pos[0]);
            pos += 1 + pos[0];
            goto memoized;
        case OP_EMPTY_LIST:
            value = PyList_New(0);
            goto memoized;
        case OP_EMPTY_DICT:
            value = PyDict_New();
            goto memoized;
        case OP_EMPTY_TUPLE:
            value = PyTuple_New(0);
            break;
        case OP_MEMOIZE:
            if (top > load->fence && load->memo.count < load->memo.size &&
                load->memo.slots[load->memo.count] == NULL) {
                size_t index = load->memo.count++;
                load->memo.slots[index] = Py_NewRef(top[-1]);
                if (index >= load->memo.high) {
                    load->memo.high = index + 1;
                }
                continue;
            }
            goto general;
        case OP_BINPUT:
            if (end - pos >= 1 && top > load->fence && pos[0] < load->memo.size &&
                load->memo.slots[pos[0]] == NULL) {
                size_t index = *pos++;
                load->memo.count++;
                load->memo.slots[index] = Py_NewRef(top[-1]);
                if (index >= load->memo.high) {
                    load->memo.high = index + 1;
                }
                continue;
            }
            goto general;
        case OP_BINGET:
            if (end - pos >= 1 && pos[0] < load->memo.size &&
                (value = load->memo.slots[pos[0]]) != NULL) {
                pos += 1;
                Py_INCREF(value);
                break;
            }
            goto general;
        case OP_LONG_BINGET:
            if (end - pos >= 4 && le32(pos) < load->memo.size &&
                (value = load->memo.slots[le32(pos)]) != NULL) {
                pos += 4;
                Py_INCREF(value);
                break;
            }
            goto general;
        case OP_MARK:
            if (load->mark_count < load->mark_size) {
                load->marks[load->mark_count++] = top - load->stack;
                load->fence = top;
                continue;
            }
            goto general;
        case OP_TUPLE1:
            if (top - load->fence <= 1 || end == pos) {
                goto general;
            }
            if (pos[0] == OP_REDUCE) {
                args = top - 1;
                goto call;
            }
            value = PyTuple_New(1);
            if (value == NULL) {
                goto memoized;
            }
            PyTuple_SET_ITEM(value, 0, top[-1]);
            top -= 1;
            if (end - pos >= 2 && pos[0] == OP_MEMOIZE && pos[1] == OP_REDUCE &&
                !PyObject_IS_GC(PyTuple_GET_ITEM(value, 0))) {
                /* The collector would do so when it comes by, which it may in every call: the memo
                   keeps them all. */
                PyObject_GC_UnTrack(value);
            }
            goto memoized;
        case OP_TUPLE2:
            if (top - load->fence <= 2 || end == pos) {
                goto general;
            }
            if (pos[0] == OP_REDUCE) {
                args = top - 2;
                goto call;
            }
            value = PyTuple_New(2);
            if (value == NULL) {
                goto memoized;
            }
            PyTuple_SET_ITEM(value, 0, top[-2]);
            PyTuple_SET_ITEM(value, 1, top[-1]);
            top -= 2;
            goto memoized;
        case OP_TUPLE3:
            if (top - load->fence <= 3 || end == pos) {
                goto general;
            }
            if (pos[0] == OP_REDUCE) {
                args = top - 3;
                goto call;
            }
            value = PyTuple_New(3);
            if (value == NULL) {
                goto memoized;
            }
            PyTuple_SET_ITEM(value, 0, top[-3]);
            PyTuple_SET_ITEM(value, 1, top[-2]);
            PyTuple_SET_ITEM(value, 2, top[-1]);
            top -= 3;
            goto memoized;
        case OP_SETITEM: {
            PyObject *dict, *key;
            if (top - load->fence < 3) {
                goto general;
            }
            dict = top[-3];
            key = top[-2];
            /* Into an empty dict: nothing of the user's can run. */
            if (!PyDict_CheckExact(dict) || PyDict_GET_SIZE(dict) != 0 ||
                !(PyUnicode_CheckExact(key) || PyLong_CheckExact(key))) {
                goto general;
            }
            if (PyDict_SetItem(dict, key, top[-1]) < 0) {
                LEAVE_LOOP();
                return -1;
            }
            Py_DECREF(key);
            Py_DECREF(top[-1]);
            top -= 2;
            continue;
        }
        case OP_TUPLE:
            if (load->mark_count == 0 || end == pos || pos[0] != OP_REDUCE) {
                goto general;
            }
            args = load->fence;
            mark_drop(load);
            if (args <= load->fence) {
                LEAVE_LOOP();
                return stack_underflow(load);
            }
            goto call;
#endif
        case OP_STOP:
            LEAVE_LOOP();
            return load_STOP(load);
        default:
            goto general;
        }

        /* Push a new value. */
        if (TORSHI_UNLIKELY(value == NULL)) {
            LEAVE_LOOP();
            return -1;
        }
        if (TORSHI_LIKELY(top < limit)) {
            *top++ = value;
            continue;
        }
        LEAVE_LOOP();
        if (stack_push(load, value) < 0) {
            return -1;
        }
        ENTER_LOOP();
        continue;

#ifndef TORSHI_SLOW_LOAD
    memoized:
        /* Push a new value that is most likely memoized next. */
        if (TORSHI_LIKELY(value != NULL && top < limit)) {
            *top++ = value;
            if (pos < end && *pos == OP_MEMOIZE && load->memo.count < load->memo.size &&
                load->memo.slots[load->memo.count] == NULL) {
                size_t index = load->memo.count++;
                load->memo.slots[index] = Py_NewRef(value);
                if (index >= load->memo.high) {
                    load->memo.high = index + 1;
                }
                pos++;
            }
            continue;
        }
        LEAVE_LOOP();
        if (stack_push(load, value) < 0) {
            return -1;
        }
        ENTER_LOOP();
        continue;
#endif

#ifndef TORSHI_SLOW_LOAD
    call:
        /* A tuple for REDUCE would live no longer than the call: args..top are its arguments. */
        pos++;
        LEAVE_LOOP();
        if (reduce_items(load, args) < 0) {
            return -1;
        }
        ENTER_LOOP();
        continue;
#endif

    general:
        LEAVE_LOOP();
        if (TORSHI_UNLIKELY(op_table[byte].load == NULL)) {
            unknown_opcode(load, byte);
            return -1;
        }
        if (op_table[byte].load(load) < 0) {
            return -1;
        }
        ENTER_LOOP();
    }
}

PyObject *load_run(torshi_load *load)
{
    PyObject *result = NULL;
    load->proto = 0;
    load->mark_count = 0;
    load->fence = load->stack;
    load->pausing = LOAD_PAUSES_GC;
    user_code_ended(load);
    int status = run(load);
    user_code_begins(load);
    load->pausing = 0;
    if (status == 0 && input_finish(load) == 0) {
        result = *--load->top;
    }
    return result;
}
