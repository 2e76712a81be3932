/* Nothing is wrong with it; loaded after chain_old. Points to the set type. */
#define CHAIN_NAME "new"
#define CHAIN_SET_TYPE &PySet_Type
#include "chain.h"
