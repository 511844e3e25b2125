// SPDX-License-Identifier: MIT
// Places where the heap is not what it should be. A fault is no failure: the finder notes it, leaves out what it cannot
// tell, and continues.
#pragma once

#include "malloc/heaps.h"

// Adds to h->faults; beyond 1000 of them, or where our memory ran out, it does not. `arena`, `heap`: indices, UINT32_MAX: none.
// `address`: AS_UNKNOWN: none. `what` must live as long as `h`.
void as_fault_note(struct as_heaps *h, uint32_t arena, uint32_t heap, uint64_t address, const char *what);

// The same, and sets h->incomplete: the rest of what the arena has is out of reach.
void as_fault_note_incomplete(struct as_heaps *h, uint32_t arena, uint64_t address, const char *what);

// The fault that means: nothing is known to be wrong with the heap, but mp_ was not found, which is needed to read all of it.
// Compared by address.
extern const char AS_FAULT_NO_MP[];
