/* alone.c - wire.h compiles by itself as C; the tests include it as C++. */
#include "wire/wire.h"

_Static_assert(TORSHI_MAX_MIXED <= 16, "selectors have at most four bits");
_Static_assert(sizeof(torshi_kinds) / sizeof(torshi_kinds[0]) == 32, "kinds have five bits");
