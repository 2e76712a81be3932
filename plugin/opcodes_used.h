/*
 * opcodes_used.h - the pickle opcodes that the plugin writes itself.
 */
#ifndef TORSHI_OPCODES_USED_H
#define TORSHI_OPCODES_USED_H

enum {
    OP_MARK = '(',
    OP_POP = '0',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_NONE = 'N',
    OP_REDUCE = 'R',
    OP_EMPTY_LIST = ']',
    OP_BUILD = 'b',
    OP_APPENDS = 'e',
    OP_SETITEM = 's',
    OP_TUPLE = 't',
    OP_SETITEMS = 'u',
    OP_EMPTY_DICT = '}',
    OP_TUPLE2 = 0x86,
};

#endif
