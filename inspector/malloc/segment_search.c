// SPDX-License-Identifier: MIT
#include "malloc/chain.h"
#include "malloc/heaps.h"
#include "malloc/segments.h"

#include <string.h>

enum {
    CHAIN_PROOF = 4,      // chunks at least in a segment that fenceposts end: fewer could be chance
    MOST_LINKS = 1 << 14, // followed in one list
    FASTBINS = 10,
};

// A main arena whose top has not been found yet.
struct wanted_top {
    uint32_t arena;
    uint64_t top, top_end;
    uint64_t missing_bytes; // bytes of system_mem that are not in its heaps
};
typedef AS_VEC(struct wanted_top) wanted_vec;
typedef AS_VEC(struct as_heap) heap_vec;

static bool add_wanted(const struct as_heaps *h, wanted_vec *wanted, uint32_t arena, struct as_error *err)
{
    const struct as_arena *a = &h->arenas.items[arena];
    struct wanted_top *s = as_vec_add(wanted, err);
    if (!s)
        return false;
    *s = (struct wanted_top){
        .arena = arena, .top = a->top, .top_end = a->top + a->top_size, .missing_bytes = a->system_mem};
    AS_FOR_EACH(const struct as_heap, heap, &h->heaps) {
        uint64_t size = heap->arena == arena ? heap->end - heap->start : 0;
        s->missing_bytes -= size < s->missing_bytes ? size : s->missing_bytes;
    }
    return true;
}

// The first top at or after `start` that a chain from there may arrive at, or NULL. `start` is not behind it.
static const struct wanted_top *next_top(const struct as_heaps *h, const wanted_vec *wanted, uint64_t start,
                                         uint64_t to)
{
    const struct wanted_top *next = NULL;
    AS_FOR_EACH(const struct wanted_top, s, wanted) {
        if (s->top >= start && s->top < to && s->top % AS_ALIGNMENT == 0 && s->top_end > s->top &&
            s->top_end % AS_ALIGNMENT == 0 && as_heap_fits(h, s->top, s->top_end) && (!next || s->top < next->top))
            next = s;
    }
    return next;
}

// Searches for the first chunk of a segment in [from, to), `step` bytes apart: one whose chain arrives at a wanted top, or at
// fenceposts (then out->arena is UINT32_MAX). False: there is none.
static bool find_segment(struct as_heaps *h, const wanted_vec *wanted, uint64_t from, uint64_t to, uint64_t step,
                         struct as_window *w, struct as_heap *out)
{
    w->limit = to;
    const struct wanted_top *next = next_top(h, wanted, from, to);
    uint64_t asked = UINT64_MAX; // the page that was last asked for
    for (uint64_t start = from; start < to && to - start >= AS_HEADER && h->search_budget > 0; start += step) {
        const uint64_t *head = as_window_at(w, start, AS_HEADER);
        if (!head) { // protected: the unused rest of a thread's heap, say, which the search passes
            const struct as_mapping *m = as_target_mapping_at(h->target, start);
            start = as_align_up(m ? m->end : start + 1, h->target->page_size) - step;
            continue;
        }
        uint64_t size;
        memcpy(&size, (const uint8_t *)head + 8, sizeof size);
        // A reservation is passed over.
        uint64_t page = start & ~(uint64_t)(h->target->page_size - 1);
        uint64_t stop = as_align_up(to, h->target->page_size);
        uint64_t memory = size == 0 && page != asked ? as_target_skip_absent(h->target, page, stop) : page;
        asked = page;
        if (memory > start) {
            start = as_align_up(memory, step) - step;
            continue;
        }
        h->search_budget--;
        if (!(size & AS_PREV_INUSE))
            continue;
        if (next && start > next->top)
            next = next_top(h, wanted, start, to);
        uint64_t limit = next ? next->top : to;
        // Most of what resembles a chain breaks soon; what does not is followed to its end.
        uint64_t end;
        enum as_chain_end how = as_chain_follow(w, start, limit, true, AS_CHAIN_PROBE, &end);
        h->search_budget -= h->search_budget < AS_CHAIN_PROBE ? h->search_budget : AS_CHAIN_PROBE;
        if (how == AS_CHAIN_LIMIT && end != limit) {
            how = as_chain_follow(w, start, limit, true, h->search_budget, &end);
            // As if it had been made of the smallest chunks: a window that goes back and forth costs time too.
            uint64_t cost = (end - start) / AS_MIN_CHUNK;
            h->search_budget -= cost < h->search_budget ? cost : h->search_budget;
        }
        bool top = how == AS_CHAIN_LIMIT && next && end == next->top;
        bool fence = how == AS_CHAIN_FENCEPOST && end - start >= CHAIN_PROOF * AS_MIN_CHUNK;
        *out = (struct as_heap){
            .arena = top ? next->arena : UINT32_MAX,
            .start = start,
            .first_chunk = start,
            .end = top ? next->top_end : end,
            .has_top = top,
        };
        out->protected_end = out->end;
        if ((top || fence) && as_heap_fits(h, out->start, out->end))
            return true;
    }
    return false;
}

bool as_main_segments_find_after(struct as_heaps *h, uint32_t heap, struct as_window *w, struct as_error *err)
{
    struct as_heap ended = h->heaps.items[heap];
    const struct as_arena *arena = &h->arenas.items[ended.arena];
    struct wanted_top own = {.arena = ended.arena, .top = arena->top, .top_end = arena->top + arena->top_size};
    const wanted_vec wanted = {.items = &own, .count = 1};
    as_span_cut(&h->spans, ended.start, ended.end);
    uint64_t from = ended.end;
    for (size_t at = heap + 1; from < own.top_end; at++) {
        struct as_heap found;
        if (!find_segment(h, &wanted, from, own.top_end, AS_ALIGNMENT, w, &found)) {
            as_fault_note(h, ended.arena, UINT32_MAX, from,
                          "the main arena continues behind a foreign sbrk, at an unknown address");
            return true;
        }
        found.arena = ended.arena;
        found.kind = as_segment_kind(h->target, arena, found.start);
        if (!as_heap_add(h, at, found, err))
            return false;
        from = found.end;
    }
    return true;
}

// The arena with a wanted top in whose malloc_state an address lies, as the head of a bin does.
static uint32_t state_at(const struct as_heaps *h, const wanted_vec *wanted, uint64_t address)
{
    for (size_t i = 0; i < wanted->count; i++) {
        const struct as_arena *a = &h->arenas.items[wanted->items[i].arena];
        if (address >= a->address && address - a->address < (uint64_t)a->libc->layout.state.size)
            return wanted->items[i].arena;
    }
    return UINT32_MAX;
}

// By the first binned chunk of the segment whose list leads to an arena.
static uint32_t owner_by_bins(struct as_heaps *h, const wanted_vec *wanted, const struct as_heap *segment)
{
    struct {
        uint64_t prev_size, size, forward;
    } c;
    for (uint64_t at = segment->start; at < segment->end && h->search_budget > 0; h->search_budget--) {
        uint64_t after;
        if (!as_target_read(h->target, at, &c, sizeof c))
            break;
        uint64_t size = as_chunksize(c.size);
        if (size < AS_MIN_CHUNK || size > segment->end - at || !as_target_read_u64(h->target, at + size + 8, &after))
            break;
        at += size;
        if (after & AS_PREV_INUSE)
            continue;
        uint64_t link = c.forward;
        for (int n = 0; n < MOST_LINKS; n++) {
            uint32_t owner = state_at(h, wanted, link);
            if (owner != UINT32_MAX)
                return owner;
            if (link % AS_ALIGNMENT != 0 || !as_target_read_u64(h->target, link + AS_HEADER, &link))
                break;
        }
    }
    return UINT32_MAX;
}

// By the fastbins, whose chunks seem used.
static uint32_t owner_by_fastbins(const struct as_heaps *h, const wanted_vec *wanted, const struct as_heap *segment)
{
    for (size_t i = 0; i < wanted->count; i++) {
        const struct as_arena *a = &h->arenas.items[wanted->items[i].arena];
        for (int bin = 0; bin < a->libc->layout.state.fastbin_count && bin < FASTBINS; bin++) {
            uint64_t chunk = a->fastbins[bin];
            for (int n = 0; n < MOST_LINKS && chunk != 0; n++) {
                uint64_t link;
                if (chunk >= segment->start && chunk < segment->end)
                    return wanted->items[i].arena;
                if (!as_target_read_u64(h->target, chunk + AS_HEADER, &link))
                    break;
                chunk = as_reveal_ptr(a->libc->layout.heap.safe_linking, chunk + AS_HEADER, link);
            }
        }
    }
    return UINT32_MAX;
}

// Assigns a segment to its arena.
static bool assign(struct as_heaps *h, wanted_vec *wanted, struct as_heap segment, uint32_t owner, struct as_error *err)
{
    segment.arena = owner;
    segment.kind = as_segment_kind(h->target, &h->arenas.items[owner], segment.start);
    size_t at = 0;
    while (at < h->heaps.count && h->heaps.items[at].arena <= owner)
        at++;
    uint64_t size = segment.end - segment.start;
    for (size_t i = 0; i < wanted->count; i++)
        if (wanted->items[i].arena == owner)
            wanted->items[i].missing_bytes -=
                size < wanted->items[i].missing_bytes ? size : wanted->items[i].missing_bytes;
    return as_heap_add(h, at, segment, err);
}

// A segment without a free chunk can be that of any arena that still lacks as many bytes: *owner is the first. Returns how
// many there are.
static unsigned owners_by_size(const wanted_vec *wanted, uint64_t size, uint32_t *owner)
{
    unsigned count = 0;
    for (size_t i = wanted->count; i-- > 0;) {
        if (wanted->items[i].missing_bytes < size)
            continue;
        *owner = wanted->items[i].arena;
        count++;
    }
    return count;
}

// Segments with one possible owner come first. The others may be any owner's: the sums over all arenas are right, and how many
// bytes may be another arena's is counted.
static bool assign_rest(struct as_heaps *h, wanted_vec *wanted, heap_vec *rest, struct as_error *err)
{
    bool forced = false;
    while (rest->count > 0) {
        size_t chosen = rest->count;
        uint32_t owner = UINT32_MAX;
        for (size_t i = 0; i < rest->count && chosen == rest->count; i++) {
            unsigned owners = owners_by_size(wanted, rest->items[i].end - rest->items[i].start, &owner);
            if (owners == 1 || (owners > 1 && forced))
                chosen = i;
        }
        if (chosen == rest->count && forced)
            break; // no arena lacks as much: what is left only resembled segments
        if (chosen == rest->count) {
            forced = true;
            continue;
        }
        struct as_heap segment = rest->items[chosen];
        h->ambiguous_segment_bytes += forced ? segment.end - segment.start : 0;
        forced = false;
        rest->items[chosen] = rest->items[--rest->count];
        if (!assign(h, wanted, segment, owner, err))
            return false;
    }
    return true;
}

// Searches one run of memory that no heap has claimed, page by page, as mappings begin with a page.
static bool search_run(struct as_heaps *h, wanted_vec *wanted, uint64_t from, uint64_t to, struct as_window *w,
                       heap_vec *rest, struct as_error *err)
{
    struct as_heap found;
    while (from < to && find_segment(h, wanted, from, to, h->target->page_size, w, &found)) {
        uint32_t owner = found.arena;
        if (owner == UINT32_MAX && wanted->count == 1)
            owner = wanted->items[0].arena;
        if (owner == UINT32_MAX)
            owner = owner_by_bins(h, wanted, &found);
        if (owner == UINT32_MAX)
            owner = owner_by_fastbins(h, wanted, &found);
        struct as_heap *place = owner == UINT32_MAX ? as_vec_add(rest, err) : NULL;
        if (place)
            *place = found;
        else if (owner == UINT32_MAX || !assign(h, wanted, found, owner, err))
            return false;
        from = as_align_up(found.end, h->target->page_size);
    }
    return true;
}

static bool search_all(struct as_heaps *h, wanted_vec *wanted, struct as_window *w, heap_vec *rest,
                       struct as_error *err)
{
    struct as_target *t = h->target;
    uint64_t from = 0;
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings) {
        from = from > m->start ? from : m->start;
        uint64_t region = from < m->end ? as_anonymous_end(t, from, UINT64_MAX) : from;
        while (from < region) {
            const struct as_span *claimed = as_heaps_at(h, from);
            if (claimed) {
                from = as_align_up(claimed->end, t->page_size);
                continue;
            }
            const struct as_span *next = as_span_from(&h->spans, from);
            uint64_t to = next && next->start < region ? next->start : region;
            if (!search_run(h, wanted, from, to, w, rest, err))
                return false;
            from = as_align_up(to + 1, t->page_size);
        }
    }
    return true;
}

// Whether each arena has all that it lacked.
static void check(struct as_heaps *h, const wanted_vec *wanted)
{
    for (size_t k = 0; k < wanted->count; k++) {
        uint32_t arena = wanted->items[k].arena;
        bool found = false;
        uint64_t sum = 0;
        AS_FOR_EACH(const struct as_heap, heap, &h->heaps) {
            found |= heap->arena == arena && heap->has_top;
            sum += heap->arena == arena ? heap->end - heap->start : 0;
        }
        if (h->search_budget == 0)
            as_fault_note(h, arena, UINT32_MAX, AS_UNKNOWN,
                          "the search for the main arena's segments was stopped: too much memory resembles chunks");
        if (!found)
            as_fault_note_incomplete(h, arena, h->arenas.items[arena].top,
                                     "the segment that holds the main arena's top was not found");
        if (sum != h->arenas.items[arena].system_mem)
            as_fault_note(h, arena, UINT32_MAX, AS_UNKNOWN,
                          "the main arena's segments that were found do not add up to its system_mem");
    }
}

bool as_main_segments_find(struct as_heaps *h, uint32_t only, struct as_error *err)
{
    wanted_vec wanted = {0};
    heap_vec rest = {0};
    struct as_window w = {0};
    bool ok = true;
    for (uint32_t i = 0; ok && i < h->arenas.count; i++) {
        bool complete = !h->arenas.items[i].main || h->arenas.items[i].top == 0 || (only != UINT32_MAX && only != i);
        for (size_t k = 0; !complete && k < h->heaps.count; k++)
            complete = h->heaps.items[k].arena == i && h->heaps.items[k].has_top;
        ok = complete || add_wanted(h, &wanted, i, err);
    }
    if (ok && wanted.count > 0) {
        ok = as_window_open(&w, h->target, err) && search_all(h, &wanted, &w, &rest, err) &&
             assign_rest(h, &wanted, &rest, err);
        as_window_close(&w);
        if (ok)
            check(h, &wanted);
    }
    as_vec_free(&rest);
    as_vec_free(&wanted);
    return ok;
}
