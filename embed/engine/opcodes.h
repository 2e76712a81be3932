/*
 * opcodes.h - the opcodes of the pickle stream, expanded from opcodes.def.
 *
 * The enum is for both directions. op_info describes an opcode and holds the unpickler's handler;
 * a row without a handler does not link, because the prototypes are hidden.
 */
#ifndef TORSHI_ENGINE_OPCODES_H
#define TORSHI_ENGINE_OPCODES_H

#include "state.h"

enum opcode {
#define OP(NAME, BYTE, PROTO, ARG, POPS, PUSHES, DOC) OP_##NAME = BYTE,
#include "opcodes.def"
};

#define OP_HIGHEST_PROTOCOL 5
#define DOWN_TO_MARK 0x10 /* in POPS: also a mark and what is above it */

/* Handle the opcode, whose byte has been read: read its argument, change the stack. 0 or -1. */
typedef int (*load_op_fn)(torshi_load *load);

#define OP(NAME, BYTE, PROTO, ARG, POPS, PUSHES, DOC)                                              \
    TORSHI_HIDDEN int load_##NAME(torshi_load *load);
#include "opcodes.def"

typedef struct op_info {
    const char *name; /* NULL: no such opcode */
    load_op_fn load;
    unsigned char proto;
    unsigned char pops;
    unsigned char pushes;
} op_info;

extern TORSHI_HIDDEN const op_info op_table[256];

#endif
