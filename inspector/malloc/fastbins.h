// SPDX-License-Identifier: MIT
// Which chunks sit in a fastbin (to 2.42). Their lists run all over an arena, and a read for
// each member would take longer than reading the whole heap once. So the walk, which sees every chunk anyway, keeps each one
// whose first word can be a fastbin's link as a candidate; afterwards the lists are followed through the candidates, in our
// own memory. An application's chunk may resemble a member; only what the lists reach is one.
#pragma once

#include "malloc/heaps.h"

struct as_fastbin_link {
    uint64_t chunk; // address | index of its bin
    uint64_t next;  // the chunk that follows; 0: none
};

// One arena's candidates: collected by the walk of its heaps, resolved after it.
struct as_fastbin_candidates {
    uint16_t bins; // bit i: fastbin i is not empty, so chunks of its size are candidates
    bool safe_linking;
    bool overflow;      // too many to note (an application full of plain pointers, before 2.32)
    uint64_t low, high; // where the arena's chunks lie
    AS_VEC(struct as_fastbin_link) links;
    AS_VEC(uint32_t) slots; // scratch of as_fastbin_members_resolve
};

// Keeps a chunk that can be a member. The walk calls it for every chunk in use of a size that some fastbin holds.
// `link` is the chunk's first word.
void as_fastbin_candidate_add(struct as_fastbin_candidates *n, uint64_t chunk, uint64_t size, uint64_t link);

// Starts one arena: which bins are in use, and where its heaps lie. Reuses the memory of the arena before.
void as_fastbin_candidates_begin(struct as_fastbin_candidates *n, const struct as_heaps *h, uint32_t arena);
void as_fastbin_candidates_free(struct as_fastbin_candidates *n);

typedef AS_VEC(uint64_t) as_address_vec;

// The members of the arena's fastbins, ascending. `fault` (may be NULL) is called with what is wrong with a list, at most
// once for each bin.
bool as_fastbin_members_resolve(const struct as_arena *arena, struct as_fastbin_candidates *n, as_address_vec *members,
                                void (*fault)(void *context, uint64_t address, const char *what), void *context,
                                struct as_error *err);

// The same by following the lists in the target, for when there were too many candidates (overflow).
bool as_fastbin_members_read(struct as_heaps *h, uint32_t arena, as_address_vec *members, struct as_error *err);
