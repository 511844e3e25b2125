// SPDX-License-Identifier: MIT
// Whose memory the mappings are that malloc does not have: how much of each is left, and what it may be.
#pragma once

#include "base/vec.h"
#include "model/view.h"

#include <stdbool.h>

// Indexed by mapping, as view->mappings.
struct as_mappings_left {
    AS_VEC(uint64_t) runtimes; // resident bytes that are in a runtime's row; AS_UNKNOWN
    AS_VEC(uint64_t) left;     // resident bytes that are neither malloc's nor a runtime's; AS_UNKNOWN
};
// AS_NO_MEMORY.
bool as_mappings_left_open(struct as_mappings_left *m, const struct as_view *v, struct as_error *err);
void as_mappings_left_close(struct as_mappings_left *m);

// The row that counts what is left of a mapping: an index of as_rows.
int as_mapping_row(const struct as_mapping_record *m);

// What is left of an anonymous mapping may be this, as a noun phrase: what speaks for it is the evidence, a clause. A suspicion,
// not a fact. `kind` is NULL, and the evidence "", where nothing is known.
struct as_may_be {
    const char *kind;
    bool stack_without_thread; // a coroutine's, or that of a thread that has ended
    char evidence[512];
};
struct as_may_be as_mapping_may_be(const struct as_view *v, const struct as_mappings_left *left, uint64_t index);

// "rw-p"; in `out`, which it returns.
const char *as_format_protection(uint32_t prot, char out[5]);
