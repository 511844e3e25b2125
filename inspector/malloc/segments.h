// SPDX-License-Identifier: MIT
// The heaps of an arena, and how a heap is added to those that are known.
#pragma once

#include "base/align.h"
#include "malloc/heaps.h"

// The heaps of one arena, oldest first; of a main arena only the first segment: segment_search.h has the others. What does not
// make sense is a fault. AS_NO_MEMORY.
bool as_segments_find(struct as_heaps *h, uint32_t arena, struct as_error *err);

// How far adjoining private anonymous mappings reach from `address`, which must be writable there: mprotect and madvise split
// one region into several mappings, and a program may protect pages of its own blocks as it likes. No need to inspect beyond
// `enough`. `address` itself when it lies in none.
uint64_t as_anonymous_end(const struct as_target *t, uint64_t address, uint64_t enough);

// Whether a heap can be where it says: in writable private memory, and clear of all others. A process that runs on may have
// got the memory since its mappings were read.
bool as_heap_fits(const struct as_heaps *h, uint64_t start, uint64_t end);

// Inserts a heap that fits at index `at`. AS_NO_MEMORY.
bool as_heap_add(struct as_heaps *h, size_t at, struct as_heap heap, struct as_error *err);

// Where the memory of a main arena's segment came from: the kernel names what came from brk; a core does not keep the name,
// but an arena that never had to do without brk says so in its flags (NONCONTIGUOUS).
enum as_heap_kind as_segment_kind(const struct as_target *t, const struct as_arena *arena, uint64_t address);

// The further segments of a main arena that could not get its memory from brk in one piece: behind what others took from brk,
// or in mappings. No list has these segments, so the memory is searched for a chain of chunks that arrives at the top of a main
// arena, or at fenceposts. In a process with several libcs (dlmopen) several main arenas may have such segments side by side;
// the free chunks of a segment tell its owner, as their lists lead to their arena.

// After as_segments_find: finds the further segments of main arenas whose first segment does not hold their top, and inserts
// them behind it. `only`: of this one arena; UINT32_MAX: of all. AS_NO_MEMORY.
bool as_main_segments_find(struct as_heaps *h, uint32_t only, struct as_error *err);

// To be called when the walk of a heap of the main arena ended at fenceposts below the top (has_top was true and is false
// now): finds the next segments of the arena and inserts them behind `heap`. AS_NO_MEMORY.
bool as_main_segments_find_after(struct as_heaps *h, uint32_t heap, struct as_window *w, struct as_error *err);
