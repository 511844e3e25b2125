// SPDX-License-Identifier: MIT
// The ledger's rows, as C has them: a struct with a field for each, and what rows.def says of it.
#pragma once

#include "model/enums.h"

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
    AS_ROW_PLACES = 28,      // that the dump format has in each ledger
    AS_ROW_LATER_PLACES = 6, // and, for rows of the whole process alone, in the record "meta"
};

// A row has its place in the ledger by its minor version. Since 1.11 it has none there.
#define AS_ROW_SINCE_0(name) uint64_t name;
#define AS_ROW_SINCE_1 AS_ROW_SINCE_0
#define AS_ROW_SINCE_3 AS_ROW_SINCE_0
#define AS_ROW_SINCE_4 AS_ROW_SINCE_0
#define AS_ROW_SINCE_5 AS_ROW_SINCE_0
#define AS_ROW_SINCE_11(name)

// The ledger and what belongs beside it, in bytes; the field names are those of the JSON. A row that came with a later
// minor version took a reserved place, which is 0 in an older dump.
struct as_ledger {
#define AS_ROW(name, kind, owner, group, since, ...) AS_ROW_SINCE_##since(name)
#include "model/rows.def"
};
_Static_assert((int)AS_ROW_COUNT <= (int)AS_ROW_PLACES + (int)AS_ROW_LATER_PLACES, "dump format");
_Static_assert(sizeof(struct as_ledger) == AS_ROW_PLACES * sizeof(uint64_t), "dump format");

// What a row is.
struct as_row {
    enum as_row_kind kind;
    enum as_row_owner owner;
};
extern const struct as_row as_rows[AS_ROW_COUNT];

// What it is called, and how it is shown.
struct as_row_words {
    const char *name, *title, *meaning;
    enum as_row_group group;
};
extern const struct as_row_words as_row_words[AS_ROW_COUNT];

// A row that has its place in a ledger: bytes, or AS_UNKNOWN.
static inline uint64_t *as_row_of(struct as_ledger *l, int row)
{
    return (uint64_t *)l + row;
}

// All rows of a process; or of an arena, which has nothing in the later ones (`later` is NULL).
struct as_row_values {
    const struct as_ledger *ledger;
    const uint64_t *later;
};

// A row's bytes, or AS_UNKNOWN.
static inline uint64_t as_row_value(struct as_row_values rows, int row)
{
    if (row < AS_ROW_PLACES)
        return ((const uint64_t *)rows.ledger)[row];
    if (rows.later)
        return rows.later[row - AS_ROW_PLACES];
    return rows.ledger->unknown == UINT64_MAX ? UINT64_MAX : 0;
}
