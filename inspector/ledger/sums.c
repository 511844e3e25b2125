// SPDX-License-Identifier: MIT
// Sums of a ledger's rows, by what the table of rows says of each.
#include "ledger/ledger.h"

// The sum of the resident rows of some groups: a bit for each as_row_group.
static uint64_t sum_groups(const struct as_ledger *rows, unsigned groups)
{
    uint64_t sum = 0;
    for (int row = 0; row < AS_ROW_COUNT; row++)
        if (as_rows[row].kind == AS_ROW_RESIDENT && groups & 1u << as_row_words[row].group)
            sum = as_add(sum, as_row_value(rows, row));
    return sum;
}

static uint64_t sum_known(const struct as_ledger *rows)
{
    uint64_t sum = 0;
    for (int row = 0; row < AS_ROW_COUNT; row++)
        if (as_rows[row].kind == AS_ROW_RESIDENT && as_row_value(rows, row) != AS_UNKNOWN)
            sum = as_add(sum, as_row_value(rows, row));
    return sum;
}

static uint64_t sum_not_malloc(const struct as_ledger *rows)
{
    uint64_t sum = 0;
    for (int row = 0; row < AS_ROW_COUNT; row++) {
        uint64_t value = as_row_value(rows, row);
        bool elsewhere = as_rows[row].owner == AS_ROW_OF_RUNTIME && value == AS_UNKNOWN;
        if (as_rows[row].kind == AS_ROW_RESIDENT && as_rows[row].owner != AS_ROW_OF_MALLOC && !elsewhere)
            sum = as_add(sum, value);
    }
    return sum;
}

struct as_ledger_sums as_ledger_sum_up(const struct as_ledger *rows)
{
    const unsigned cached = 1u << AS_ROWS_CACHED;
    const unsigned scattered = cached | 1u << AS_ROWS_STRANDED;
    const unsigned free_pages = 1u << AS_ROWS_RELEASABLE | 1u << AS_ROWS_WITHHELD;
    struct as_ledger_sums sums = {
        .resident = as_ledger_resident(rows),
        .known = sum_known(rows),
        .used = as_add(rows->in_use, rows->mmapped_in_use),
        .cached = sum_groups(rows, cached),
        .scattered = sum_groups(rows, scattered),
        .free_pages = sum_groups(rows, free_pages),
        .free = sum_groups(rows, scattered | free_pages),
        .not_malloc = sum_not_malloc(rows),
        .deep_trim_adds = AS_UNKNOWN,
    };
    if (rows->deep_trim != AS_UNKNOWN && rows->malloc_trim != AS_UNKNOWN)
        sums.deep_trim_adds = rows->deep_trim > rows->malloc_trim ? rows->deep_trim - rows->malloc_trim : 0;
    return sums;
}
