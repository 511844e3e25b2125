// SPDX-License-Identifier: MIT
// Where a main arena goes on that could not get its memory from brk in one piece: behind what somebody else took from brk,
// or in maps. No list has these segments, so they are looked for: a chain of chunks that arrives at the top of a main arena,
// or at fenceposts. In a process with several libcs (dlmopen) several main arenas may have such segments side by side; whose one
// is, its free chunks say, as their lists lead to their arena.
#pragma once

#include "malloc/heaps.h"

// After as_segments_find: finds where main arenas go on whose first segment does not hold their top, and inserts those heaps
// behind it. `only`: of this one arena; UINT32_MAX: of all. AS_NO_MEMORY.
bool as_segments_complete(struct as_heaps *h, uint32_t only, struct as_error *err);

// To be called when the walk of a heap of the main arena ended at fenceposts below the top (has_top was true and is false
// now): finds where the arena goes on and inserts those heaps behind `heap`. AS_NO_MEMORY.
bool as_segments_after(struct as_heaps *h, uint32_t heap, struct as_window *w, struct as_error *err);
