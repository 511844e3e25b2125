// SPDX-License-Identifier: MIT
// The further segments of a main arena that could not get its memory from brk in one piece: behind what others took from brk,
// or in mappings. No list has these segments, so the memory is searched for a chain of chunks that arrives at the top of a main
// arena, or at fenceposts. In a process with several libcs (dlmopen) several main arenas may have such segments side by side;
// the free chunks of a segment tell its owner, as their lists lead to their arena.
#pragma once

#include "malloc/heaps.h"

// After as_segments_find: finds the further segments of main arenas whose first segment does not hold their top, and inserts
// them behind it. `only`: of this one arena; UINT32_MAX: of all. AS_NO_MEMORY.
bool as_main_segments_find(struct as_heaps *h, uint32_t only, struct as_error *err);

// To be called when the walk of a heap of the main arena ended at fenceposts below the top (has_top was true and is false
// now): finds the next segments of the arena and inserts them behind `heap`. AS_NO_MEMORY.
bool as_main_segments_find_after(struct as_heaps *h, uint32_t heap, struct as_window *w, struct as_error *err);
