// SPDX-License-Identifier: MIT
// The heaps of an arena. A thread arena's are linked (heap_info.prev) from the one that holds the top. The main arena has
// no list of its segments: it begins at mp_.sbrk_base, and continues elsewhere after a foreign sbrk, or where mmap had to
// stand in for a blocked brk; only fenceposts tell (segment_search.c).
#include "malloc/segments.h"
#include "malloc/chain.h"
#include "malloc/heap_info.h"

#include <string.h>

uint64_t as_anonymous_end(const struct as_target *t, uint64_t address, uint64_t enough)
{
    uint64_t end = address;
    const struct as_mapping *m = as_target_mapping_at(t, address);
    const struct as_mapping *stop = t->mappings.items + t->mappings.count;
    if (!as_is_writable_anonymous(m))
        return end;
    for (; m < stop && m->start <= end && end < enough && as_is_private_anonymous(m); m++)
        end = m->end;
    return end;
}

bool as_heap_fits(const struct as_heaps *h, uint64_t start, uint64_t end)
{
    const struct as_target *t = h->target;
    bool mapped = (t->kind == AS_TARGET_PROCESS && !t->stop.active) || t->in_place.only;
    return as_span_is_clear(&h->spans, start, end) && (mapped || as_anonymous_end(t, start, end) >= end);
}

bool as_heap_add(struct as_heaps *h, size_t at, struct as_heap heap, struct as_error *err)
{
    if (!as_vec_reserve(&h->heaps, 1, err) || !as_span_add(&h->spans, heap.start, heap.end, err))
        return false;
    memmove(h->heaps.items + at + 1, h->heaps.items + at, (h->heaps.count - at) * sizeof heap);
    h->heaps.items[at] = heap;
    h->heaps.count++;
    return true;
}

// The heap of a thread arena whose header was read at `address`. `newest`: the one that ought to hold the top.
static struct as_heap thread_heap(const struct as_arena *arena, uint32_t arena_index, uint64_t address,
                                  const struct as_heap_info *info, uint64_t heap_max, bool newest)
{
    bool first = as_heap_is_first(address, arena->address, heap_max);
    bool protected = info->mprotect_size > info->size && info->mprotect_size <= heap_max;
    return (struct as_heap){
        .kind = AS_HEAP_THREAD,
        .arena = arena_index,
        .start = address,
        .first_chunk = as_heap_first_chunk(arena->libc, address, arena->address, heap_max),
        .end = address + info->size,
        .protected_end = address + (protected ? info->mprotect_size : info->size),
        .has_top = newest,
        .malloc_state = first ? arena->address : 0,
    };
}

static bool top_ends_heap(const struct as_arena *arena, const struct as_heap *heap)
{
    return arena->top >= heap->first_chunk && arena->top % AS_ALIGNMENT == 0 && arena->top <= heap->end &&
           heap->end - arena->top == arena->top_size;
}

// Reads a header and makes *heap of it. Returns what is wrong with it, or NULL.
static const char *read_thread_heap(const struct as_heaps *h, uint32_t arena_index, uint64_t address, bool newest,
                                    struct as_heap_info *info, struct as_heap *heap)
{
    const struct as_arena *arena = &h->arenas.items[arena_index];
    uint64_t heap_max = h->pars.items[arena->libc_index].heap_max;
    if (address % heap_max != 0)
        return "a heap is not aligned to HEAP_MAX_SIZE";
    if (!as_target_read(h->target, address, info, sizeof *info))
        return "a heap_info cannot be read";
    const char *fault = as_heap_info_fault(info, arena->libc, address, arena->address, heap_max);
    if (fault)
        return fault;
    *heap = thread_heap(arena, arena_index, address, info, heap_max, newest);
    // A cycle ends here: its heap is known already.
    return as_heap_fits(h, heap->start, heap->end)
               ? NULL
               : "a heap lies in memory that cannot be malloc's, or overlaps another heap";
}

static bool thread_heaps(struct as_heaps *h, uint32_t arena_index, struct as_error *err)
{
    const struct as_arena *arena = &h->arenas.items[arena_index];
    uint64_t address = as_heap_for_ptr(arena->top, h->pars.items[arena->libc_index].heap_max);
    size_t first = h->heaps.count;
    uint64_t sum = 0;
    for (bool newest = true; address != 0; newest = false) {
        struct as_heap_info info;
        struct as_heap heap;
        const char *wrong = read_thread_heap(h, arena_index, address, newest, &info, &heap);
        if (wrong) {
            as_fault_note_incomplete(h, arena_index, address, wrong);
            return true;
        }
        if (heap.has_top && !top_ends_heap(arena, &heap)) {
            as_fault_note(h, arena_index, UINT32_MAX, arena->top, "an arena's top does not end with its heap");
            heap.has_top = false;
        }
        sum += info.size;
        if (!as_heap_add(h, first, heap, err)) // newest first in the list, oldest first here
            return false;
        address = info.prev;
    }
    if (sum != arena->system_mem)
        as_fault_note_incomplete(h, arena_index, AS_UNKNOWN, "an arena's heaps do not add up to its system_mem");
    return true;
}

enum as_heap_kind as_segment_kind(const struct as_target *t, const struct as_arena *arena, uint64_t address)
{
    const struct as_mapping *m = as_target_mapping_at(t, address);
    bool named = m && strcmp(as_mapping_path(t, m), "[heap]") == 0;
    bool unnamed_core = t->kind == AS_TARGET_CORE && !(arena->flags & AS_NONCONTIGUOUS);
    return named || unnamed_core ? AS_HEAP_BRK : AS_HEAP_MMAP;
}

// Where the first segment of a main arena ends whose end the addresses alone do not tell: at the top (heap->has_top: it lies
// further on in the same memory), or at its fenceposts, and the arena goes on elsewhere. Where its chain is broken, it is
// taken to be no larger than the whole arena.
static bool first_segment(struct as_heaps *h, const struct as_arena *arena, struct as_heap *heap, struct as_error *err)
{
    struct as_window w;
    if (!as_window_open(&w, h->target, err))
        return false;
    uint64_t end;
    uint64_t limit = heap->has_top ? arena->top : heap->end;
    w.limit = limit;
    enum as_chain_end how = as_chain_follow(&w, heap->start, limit, true, h->search_budget, &end);
    as_window_close(&w);
    bool at_top = heap->has_top && how == AS_CHAIN_LIMIT && end == limit;
    if (how == AS_CHAIN_FENCEPOST) {
        heap->end = end;
        heap->has_top = false;
    } else if (!at_top && arena->system_mem < heap->end - heap->start) {
        heap->end = heap->start + (as_align_down(arena->system_mem, AS_ALIGNMENT));
        heap->has_top = false;
    }
    return true;
}

static bool main_segments(struct as_heaps *h, uint32_t arena_index, struct as_error *err)
{
    const struct as_arena *arena = &h->arenas.items[arena_index];
    const struct as_par *par = &h->pars.items[arena->libc_index];
    if (arena->top == 0)
        return true; // malloc has not been called yet
    uint64_t top_end = arena->top + arena->top_size;
    uint64_t base = par->sbrk_base;
    const struct as_mapping *m = base == AS_UNKNOWN ? NULL : as_target_mapping_at(h->target, base);
    if (base == AS_UNKNOWN) // mp_ was not found: the arena begins with its mapping, unless the program used brk before
        m = as_target_mapping_at(h->target, arena->top);
    if (!as_is_writable_anonymous(m)) {
        as_fault_note_incomplete(h, arena_index, base, "mp_.sbrk_base is not in writable anonymous memory");
        return true;
    }
    if (base == AS_UNKNOWN) {
        as_fault_note(h, arena_index, UINT32_MAX, m->start, AS_FAULT_NO_MP);
        base = m->start;
    }
    uint64_t start = as_align_up(base, AS_ALIGNMENT); // the bytes before were never malloc's to use
    uint64_t reach = as_anonymous_end(h->target, base, UINT64_MAX);
    bool top_here = arena->top >= start && arena->top % AS_ALIGNMENT == 0 && top_end % AS_ALIGNMENT == 0 &&
                    top_end > arena->top && top_end <= reach;
    struct as_heap heap = {
        .kind = as_segment_kind(h->target, arena, base),
        .arena = arena_index,
        .start = start,
        .first_chunk = start,
        .end = top_here ? top_end : reach,
        .has_top = top_here,
    };
    // Segments that mmap provided (all of them with hugetlb pages) lie above and below the first, and the program's own maps
    // between them: memory without a gap up to the top does not mean that the segment reaches the top.
    if ((!top_here || arena->flags & AS_NONCONTIGUOUS) && !first_segment(h, arena, &heap, err))
        return false;
    heap.protected_end = heap.end;
    if (!as_heap_fits(h, heap.start, heap.end))
        as_fault_note(h, arena_index, UINT32_MAX, base, "mp_.sbrk_base lies in another heap");
    else if (!as_heap_add(h, h->heaps.count, heap, err))
        return false;
    if (!heap.has_top)
        return true; // as_main_segments_find searches for the rest
    // What others took from brk counts as well (sysmalloc), as long as brk has been enough.
    if (par->sbrk_base != AS_UNKNOWN && !(arena->flags & AS_NONCONTIGUOUS) && top_end - base != arena->system_mem)
        as_fault_note(h, arena_index, UINT32_MAX, AS_UNKNOWN,
                      "the main arena does not reach from mp_.sbrk_base as far as its system_mem says");
    return true;
}

bool as_segments_find(struct as_heaps *h, uint32_t arena, struct as_error *err)
{
    return h->arenas.items[arena].main ? main_segments(h, arena, err) : thread_heaps(h, arena, err);
}
