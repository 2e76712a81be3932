/* Nothing is wrong with it; loaded before chain_new. Names the set type. */
#define CHAIN_NAME "old"
#define CHAIN_SET_TYPE NULL
#include "chain.h"
