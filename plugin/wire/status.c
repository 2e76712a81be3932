/*
 * status.c - the two tables of the wire format as data: statuses and column kinds.
 */
#include "wire.h"

const char *torshi_status_text(torshi_status status)
{
    switch (status) {
#define STATUS(NAME, VALUE, TEXT)                                                                  \
    case TORSHI_##NAME:                                                                            \
        return TEXT;
#include "status.def"
    }
    return "unknown status";
}

const torshi_kind_info torshi_kinds[32] = {
#define COLUMN(NAME, CODE, WIDTHS, MUTABLE, DOC) [CODE] = {#NAME, WIDTHS, MUTABLE},
#include "columns.def"
};
