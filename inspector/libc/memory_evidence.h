// SPDX-License-Identifier: MIT
// What a malloc's structures show of themselves in a target's memory. The proof is built from these, and so is the
// choice of a layout where the object's file leaves it open.
#pragma once

#include "libc/sources.h"

enum { AS_BIN_COUNT = 127, AS_STATE_BYTES = 2304, AS_MAX_ARENAS = 65536 };

// One arena's struct malloc_state, as it was read.
struct as_state_copy {
    uint64_t address;
    uint8_t bytes[AS_STATE_BYTES];
};

// Reads an arena's struct; false when its memory cannot be read.
bool as_state_read(struct as_target *t, uint64_t address, const struct as_state_layout *layout,
                   struct as_state_copy *copy);
static inline uint64_t as_state_u64(const struct as_state_copy *copy, int32_t offset)
{
    return as_load_u64(copy->bytes + offset);
}

// Whether the arena has never handed out memory: top is still null, or the bin that stands in for it.
bool as_state_is_initial(const struct as_state_copy *copy, const struct as_state_layout *layout);

// How many of the 127 bins are doubly linked: the head's neighbours point back at it.
unsigned as_state_linked_bins(struct as_target *t, const struct as_state_copy *copy,
                              const struct as_state_layout *layout);

// How many arenas the ring of next pointers passes until it is back at `main_arena`; 0 when it does not come back.
uint64_t as_ring_length(struct as_target *t, uint64_t main_arena, int32_t next);

// Whether an address is in memory that malloc could own: mapped, private and writable.
bool as_is_heap_memory(struct as_target *t, uint64_t address);

// Rows whose struct malloc_state fits the memory at main_arena as it is now; 0: none.
uint32_t as_live_state_rows(struct as_target *t, uint64_t main_arena);

// Rows whose struct malloc_par fits the memory at `mp`, given the arena; 0: none. *has_tcache as for a data image.
uint32_t as_live_par_rows(struct as_target *t, uint64_t mp, uint64_t main_arena, uint32_t state_rows, bool *has_tcache);

// Whether the first 40 bytes, the tunables that all releases share, can be those of a struct malloc_par. Cheap, and far
// from a proof.
bool as_may_be_par(const uint8_t *bytes);

// Completes an answer (in the target's addresses) from memory: which rows of the table its heaps, caches and lists fit.
// Writes them as hints, the strongest first, and returns how many (at most 4).
enum { AS_LIVE_HINTS = 4 };
size_t as_live_hints(struct as_target *t, const struct as_answer *answer, uint32_t hints[AS_LIVE_HINTS]);

// Scans [start, end) for a main_arena: bins that point at themselves, and a ring that closes. Exactly one, or false.
bool as_scan_main_arena(struct as_target *t, uint64_t start, uint64_t end, struct as_answer *answer);
// Scans it for the mp_ that goes with answer->main_arena; sets mp, par_rows and has_tcache.
bool as_scan_par(struct as_target *t, uint64_t start, uint64_t end, struct as_answer *answer);
