// SPDX-License-Identifier: MIT
// Which part of Go's heap is stacks, and how many goroutines there are. Internal to runtimes/.
#pragma once

#include "base/vec.h"
#include "runtimes/variable_words.h"
#include "target/target.h"

enum {
    AS_GO_ARENA_BITS = 26,
    AS_GO_READS =
        1 << 21, // of records of goroutines, and of variables: those of a million goroutines, and as many again
};

// Where an arena begins, and where what describes it does.
struct as_go_arena {
    uint64_t start, described;
};

// By address.
struct as_go_heap {
    AS_VEC(struct as_go_arena) arenas;
    AS_VEC(struct as_range) stacks; // neighbours are one
};

// Fills heap->stacks by what describes the arenas. *releases: whose structures fit; NULL: those of none, and the stacks are not
// known. False (AS_NO_MEMORY): our memory ran out.
bool as_go_stacks_find(struct as_target *t, struct as_go_heap *heap, const char **releases, struct as_error *err);

struct as_go_goroutines {
    int64_t reads_left; // for the search; AS_GO_READS at first
    uint64_t length;    // of the table of them; 0: it was not found
    uint64_t first;     // address of the first one's record
    uint64_t count;     // those that have not ended
    uint64_t free;      // records of others, which Go keeps for the next ones
    bool several;       // tables with different ones were found: nothing is proven
};

// Searches a range of variables for the table of all goroutines. The stack of each must be one of heap->stacks.
void as_go_goroutines_find(struct as_target *t, const struct as_go_heap *heap, const struct as_variable_words *words,
                           struct as_range variables, struct as_go_goroutines *out);
