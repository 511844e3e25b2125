// SPDX-License-Identifier: MIT
// The ledger's rows, as C has them: a struct with a field for each, and what rows.def says of it.
#pragma once

#include "model/enums.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum as_row_kind { AS_ROW_RESIDENT, AS_ROW_ABSENT, AS_ROW_FORECAST, AS_ROW_BESIDE };
enum as_row_owner { AS_ROW_OF_MALLOC, AS_ROW_OF_RUNTIME, AS_ROW_OF_PROCESS };
enum as_row_group {
    AS_ROWS_HELD,
    AS_ROWS_CACHED,
    AS_ROWS_STRANDED,
    AS_ROWS_RELEASABLE,
    AS_ROWS_WITHHELD,
    AS_ROWS_OVERHEAD,
    AS_ROWS_OTHER,
    AS_ROWS_UNKNOWN
};

// Each row's index, which is its place in the struct and in a dump: AS_ROW_in_use, ...
enum as_row_index {
#define AS_ROW(name, ...) AS_ROW_##name,
#include "model/rows.def"
    AS_ROW_COUNT,
};

// The ledger and what belongs beside it, in bytes; the field names are those of the JSON. A row of the whole process alone is 0 in an
// arena's.
struct as_ledger {
#define AS_ROW(name, ...) uint64_t name;
#include "model/rows.def"
};
_Static_assert(sizeof(struct as_ledger) == AS_ROW_COUNT * sizeof(uint64_t), "dump format");

// What a row is.
struct as_row {
    enum as_row_kind kind;
    enum as_row_owner owner;
    bool held; // a part of what the application holds
};
extern const struct as_row as_rows[AS_ROW_COUNT];

// What it is called, and how it is shown.
struct as_row_words {
    const char *name, *title, *meaning;
    enum as_row_group group;
};
extern const struct as_row_words as_row_words[AS_ROW_COUNT];

// A row's bytes, or AS_UNKNOWN.
static inline uint64_t *as_row_of(struct as_ledger *l, int row)
{
    return (uint64_t *)l + row;
}
static inline uint64_t as_row_value(const struct as_ledger *l, int row)
{
    return ((const uint64_t *)l)[row];
}
