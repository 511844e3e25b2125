// SPDX-License-Identifier: MIT
// Which chunks sit in a fastbin (to 2.42). Their lists run all over an arena, and a read for each member would take
// longer than reading the whole heap once. So the walk, which sees every chunk anyway, notes each one whose first word can
// be a fastbin's link; afterwards the lists are followed through those notes, in our own memory. An application's chunk
// may look like a member; only what the lists reach is one.
#pragma once

#include "malloc/heaps.h"

struct as_fast_link {
    uint64_t chunk; // address | index of its bin
    uint64_t next;  // the chunk that follows; 0: none
};

// One arena's notes. Made before the walk of its heaps, resolved after.
struct as_fast_notes {
    uint16_t bins; // bit i: fastbin i is not empty, so chunks of its size are noted
    bool safe_linking;
    bool overflow;      // too many to note (an application full of plain pointers, before 2.32)
    uint64_t low, high; // where the arena's chunks lie
    AS_VEC(struct as_fast_link) links;
    AS_VEC(uint32_t) slots; // scratch of as_fast_resolve
};

// What can be a member: called by the walk for every chunk in use of a size that some fastbin holds.
// `link` is the chunk's first word.
void as_fast_note(struct as_fast_notes *n, uint64_t chunk, uint64_t size, uint64_t link);

// Begins the notes for one arena: which bins are in use, and where its heaps lie. Room for notes that is there is used again.
void as_fast_notes_begin(struct as_fast_notes *n, const struct as_heaps *h, uint32_t arena);
void as_fast_notes_free(struct as_fast_notes *n);

typedef AS_VEC(uint64_t) as_address_vec;

// The members of the arena's fastbins, ascending. `fault` (may be NULL) is told what is wrong with a list, up to once for
// each bin.
bool as_fast_resolve(const struct as_arena *arena, struct as_fast_notes *n, as_address_vec *members,
                     void (*fault)(void *context, uint64_t address, const char *what), void *context,
                     struct as_error *err);

// The same by following the lists in the target, for when there were too many notes.
bool as_fast_follow(struct as_heaps *h, uint32_t arena, as_address_vec *members, struct as_error *err);
