// SPDX-License-Identifier: MIT
// Giving memory back from inside: what malloc_trim(0) does, and what it does not. Runs in the process whose malloc it works on,
// in a thread of its own, under one arena's lock at a time (lock.c), and allocates nothing from malloc.
//
// A pass over an arena goes from chunk to chunk by address, as the walk does. Bounded, it opens the lock after a slice of work,
// and must find its place again when it has it back: chunks may have been split and merged meanwhile, and nothing in memory
// proves that an address is still a chunk's. So before it opens the lock it takes a free chunk out of its bin, as malloc would
// (bookmark.c): a chunk in use stays where it is. Its pages can be released with the lock open, for nobody else will touch them;
// back under the lock it is freed as free() does, merged with its neighbours. docs/trim.md has the proof and the figures.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "libc/libc.h"
#include "target/target.h"

#include <stdbool.h>
#include <stdint.h>

struct as_trim_request {
    bool deep;             // thread arenas' tops, too
    uint64_t max_hold_ns;  // of one arena's lock; 0: as long as it takes
    uint64_t only;         // the one arena's address; 0: all
    const bool *cancelled; // checked between slices; NULL: never
};

struct as_trim_arena {
    uint64_t address;
    uint64_t resident;             // bytes of its heaps in memory, before
    uint64_t releasable, withheld; // forecast
    uint64_t returned;             // resident bytes that are not any more, by the kernel's page tables
    uint64_t returned_swap;
    uint64_t released; // bytes handed to madvise or brk
    uint64_t longest_hold_ns;
    bool skipped; // its data made no sense
};

struct as_trim_outcome {
    AS_VEC(struct as_trim_arena) arenas;
    uint64_t elapsed_ns, cpu_ns;
    char note[512]; // what was left undone and why; "" when nothing
};

// What a trim would return, arena by arena; changes nothing.
bool as_trim_forecast(struct as_target *self, const struct as_malloc *m, const struct as_trim_request *request,
                      struct as_trim_outcome *out, struct as_error *err);
// Trims. False when nothing could be done; an arena that makes no sense is skipped and said to be.
bool as_trim_run(struct as_target *self, const struct as_malloc *m, const struct as_trim_request *request,
                 struct as_trim_outcome *out, struct as_error *err);
void as_trim_free(struct as_trim_outcome *out);
