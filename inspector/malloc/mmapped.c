// SPDX-License-Identifier: MIT
#include "base/align.h"
#include "base/sort.h"
#include "malloc/find.h"
#include "malloc/heap_info.h"
#include "malloc/heaps.h"

#include <string.h>

enum {
    BATCH = 256,             // pages inspected in one go
    ALIGNMENTS = 34,         // aligned_alloc's leads: powers of two from 32 to 128 GiB, each in two places
    MMAP_HP = 1,             // 2.43+: a bit of prev_size, for maps of huge pages
    RESIDENCY_PAGES = 65536, // residency asked for at a time, in large memory
    LEAST_PAGES = 512,       // and where it begins
    // Against memory made to resemble map after map. Without these readings a chunk may be missed, which mp_'s count shows.
    MOST_PLACES = 1 << 22, // inspected within maps, for chunks that are not at their start
};
static const uint64_t MOST_PAGES = UINT64_C(1) << 33; // that are not known to be absent: 32 TiB

struct head {
    uint64_t prev_size, size;
};

struct search {
    struct as_heaps *heaps;
    uint64_t count, bytes;           // found so far
    uint64_t want_count, want_bytes; // by mp_; AS_UNKNOWN
    bool bytes_drift;                // mp_.mmapped_mem cannot be taken at its word
    bool thorough;                   // snapshot also for chunks that aligned_alloc placed and realloc moved
    uint64_t huge_bit;               // MMAP_HP, where the libc that is tried may set it
    uint64_t places, pages;          // inspected so far
    uint8_t *residency;
};

// The map's size if `head` at `offset` into a map that begins at a page can be that of an mmapped chunk, else 0.
static uint64_t map_size(const struct search *s, const struct head *head, uint64_t offset, uint32_t extra,
                         uint64_t room)
{
    uint64_t page_size = s->heaps->target->page_size;
    uint64_t size = as_chunksize(head->size);
    uint64_t lead = head->prev_size & ~s->huge_bit;
    uint64_t total;
    if ((head->size & AS_FLAG_BITS) != AS_IS_MMAPPED || lead != offset || size < AS_MIN_CHUNK ||
        size % AS_ALIGNMENT != 0 || __builtin_add_overflow(lead + extra, size, &total))
        return 0;
    return total % page_size == 0 && total <= room ? total : 0;
}

// The first of some places at which the header of a map from `start` on stands, or 0.
static uint64_t first_chunk(struct search *s, uint64_t start, uint32_t extra, uint64_t room, const uint64_t *places,
                            size_t count, struct head *head)
{
    struct as_target *t = s->heaps->target;
    struct head heads[BATCH];
    bool ok[BATCH];
    s->places += count;
    as_target_gather(t, places, count, sizeof *heads, heads, sizeof *heads, ok);
    for (size_t i = 0; i < count; i++) {
        if (ok[i] && map_size(s, &heads[i], places[i] - start, extra, room) != 0) {
            *head = heads[i];
            return places[i];
        }
    }
    return 0;
}

// Searches for the chunk that aligned_alloc placed inside a map at `start`. _int_memalign leaves the header that the map
// was made with, so the place is one of few: 16 bytes before a multiple of a power of two.
static uint64_t aligned_chunk(struct search *s, uint64_t start, uint32_t extra, uint64_t room, struct head *head)
{
    uint64_t places[2 * ALIGNMENTS];
    size_t count = 0;
    if (s->places >= MOST_PLACES)
        return 0;
    for (int bit = 5; bit < 5 + ALIGNMENTS; bit++) {
        uint64_t alignment = UINT64_C(1) << bit;
        uint64_t first = as_align_up(start + AS_HEADER, alignment) - AS_HEADER;
        for (int again = 0; again < 2; again++) { // one further on when the first lead is too small to be a chunk
            uint64_t place = first + (uint64_t)again * alignment;
            if (place > start && place - start < room - AS_MIN_CHUNK)
                places[count++] = place;
        }
    }
    return as_sort_u64(places, count, NULL) ? first_chunk(s, start, extra, room, places, count, head) : 0;
}

// As above for a chunk that realloc moved with its map (mremap): it keeps its distance from the map's start, but no
// longer its alignment. The header that the map was made with says how far away it can be.
static uint64_t moved_chunk(struct search *s, uint64_t start, uint32_t extra, uint64_t room, uint64_t made_size,
                            struct head *head)
{
    uint64_t page = s->heaps->target->page_size;
    uint64_t end = made_size < room ? made_size : room;
    for (uint64_t offset = page; offset <= end && s->places < MOST_PLACES;) {
        uint64_t places[BATCH];
        uint8_t residency[BATCH];
        size_t count = 0;
        uint64_t pages = (end - offset) / page + 1 < BATCH ? (end - offset) / page + 1 : BATCH;
        uint64_t first = start + offset - page;
        // Its header has been written: absent pages need no snapshot, and must not become resident by one.
        if (!s->heaps->target->ops->residency.pages(s->heaps->target, first, first + pages * page, residency, NULL))
            return 0;
        for (uint64_t i = 0; i < pages; i++, offset += page)
            if (residency[i] & (AS_RES_PRESENT | AS_RES_SWAPPED | AS_RES_UNKNOWN))
                places[count++] = start + offset - AS_HEADER;
        uint64_t chunk = first_chunk(s, start, extra, room, places, count, head);
        if (chunk != 0)
            return chunk;
    }
    return 0;
}

// Whether malloc alone has written behind the header that a map begins with: zeros, or the one byte that M_PERTURB fills new
// memory with. Then either the chunk has not been used, or it begins further on. An aligned chunk that was moved cannot be
// told from an unaligned one by the sizes when realloc gave it the size that its map was made with.
static bool untouched_lead(struct search *s, uint64_t start)
{
    uint8_t bytes[4096];
    if (!as_target_read(s->heaps->target, start, bytes, sizeof bytes))
        return false;
    return memcmp(bytes + AS_HEADER, bytes + AS_HEADER + 1, sizeof bytes - AS_HEADER - 1) == 0;
}

// A map that begins at `start`, whose first bytes are `head`? Returns its end, or 0. The map may reach up to `limit`.
static uint64_t add_map(struct search *s, uint64_t start, uint64_t limit, struct head head)
{
    struct as_heaps *h = s->heaps;
    struct as_target *t = h->target;
    if ((head.size & AS_FLAG_BITS) != AS_IS_MMAPPED || (head.prev_size & ~(uint64_t)MMAP_HP) != 0)
        return 0;
    const struct as_mapping *m = as_target_mapping_at(t, start);
    uint64_t unit = m && m->kernel_page_size != AS_UNKNOWN && m->kernel_page_size > t->page_size &&
                            (m->kernel_page_size & (m->kernel_page_size - 1)) == 0
                        ? m->kernel_page_size
                        : t->page_size;
    if (start % unit != 0)
        return 0;
    for (uint32_t i = 0; i < h->malloc->libcs.count; i++) {
        uint32_t extra = (uint32_t)h->malloc->libcs.items[i].layout.heap.mmap_extra;
        bool seen = false;
        for (uint32_t k = 0; k < i; k++)
            seen |= (uint32_t)h->malloc->libcs.items[k].layout.heap.mmap_extra == extra;
        // Wherever the chunk is, the header that the map was made with has whole pages, if perhaps not as many as now.
        if (seen || ((as_chunksize(head.size)) + extra) % t->page_size != 0)
            continue;
        // Without the hugetlb tunable no map is of huge pages.
        s->huge_bit = extra != 0 && h->pars.items[i].hp_pagesize != 0 ? MMAP_HP : 0;
        if ((head.prev_size & ~s->huge_bit) != 0)
            continue;
        struct head inner;
        uint64_t chunk = aligned_chunk(s, start, extra, limit - start, &inner);
        if (chunk == 0 && (s->thorough || untouched_lead(s, start)))
            chunk = moved_chunk(s, start, extra, limit - start, as_chunksize(head.size), &inner);
        if (chunk == 0) {
            chunk = start;
            inner = head;
        }
        uint64_t total = map_size(s, &inner, chunk - start, extra, limit - start);
        if (total == 0)
            continue;
        uint64_t size = as_chunksize(inner.size);
        struct as_mmapped *found = as_vec_add(&h->mmapped, NULL);
        if (!found)
            return 0;
        // The kernel gives no part of a huge page, whatever the sizes say.
        uint64_t whole = as_align_up(total, unit);
        uint64_t map_end = start + (whole <= limit - start ? whole : total);
        *found = (struct as_mmapped){
            .map_start = start,
            .map_end = map_end,
            .counted = total,
            .chunk = chunk,
            .size = size,
            .class = AS_CHUNK_IN_USE,
            .libc_index = i,
        };
        s->count++;
        s->bytes += total;
        return map_end;
    }
    return 0;
}

// In 2.43 and 2.44 mremap_chunk forgets CHUNK_HDR_SZ when it adjusts mp_.mmapped_mem, which so grows by 16 bytes too much
// with every realloc of an mmapped chunk. Whole pages of drift may as well be a chunk that was taken for smaller than it is
// (by the header its map was made with): they are taken for drift only after a thorough search.
static bool complete(const struct search *s)
{
    if (s->count != s->want_count)
        return false;
    if (s->bytes == s->want_bytes)
        return true;
    uint64_t drift = s->want_bytes - s->bytes;
    return s->bytes_drift && s->want_bytes != AS_UNKNOWN && s->want_bytes > s->bytes && drift % AS_HEADER == 0 &&
           (s->thorough || drift < s->heaps->target->page_size);
}

// Whether there can be blocks that malloc could not unmap (mmapped_conflicts.h).
static bool munmap_can_fail(const struct as_heaps *h)
{
    for (size_t i = 0; i < h->pars.count; i++)
        if (h->malloc->libcs.items[i].layout.heap.mmap_extra == 0 && h->pars.items[i].hp_pagesize != AS_UNKNOWN &&
            h->pars.items[i].hp_pagesize != 0)
            return true;
    return false;
}

// From where on in [at, to) a map may begin. malloc maps without MAP_NORESERVE, and the kernel never makes one mapping of two
// that differ in that.
static uint64_t next_place(struct as_target *t, uint64_t at, uint64_t to)
{
    while (at < to) {
        const struct as_mapping *m = as_target_mapping_at(t, at);
        uint64_t end = m && m->end < to ? m->end : to;
        uint64_t readable = as_target_skip_missing(t, at) / t->page_size * t->page_size;
        uint64_t next = readable > at ? readable : at;
        if (m && m->noreserve)
            next = end;
        else if (next < end)
            next = as_target_skip_absent(t, next, end);
        if (next < end && (next == at || as_target_skip_missing(t, next) == next))
            return next;
        at = next;
    }
    return to;
}

// Where the memory in which maps may begin ends, at `to` at the latest.
static uint64_t places_end(const struct as_target *t, uint64_t at, uint64_t to)
{
    for (size_t i = as_target_mapping_from(t, at); i < t->mappings.count && t->mappings.items[i].start < to; i++)
        if (t->mappings.items[i].noreserve)
            return t->mappings.items[i].start;
    return to;
}

// The first page from `at` on that is not known to be another allocator's: no map begins in one of its pages, though a map may
// have them in it. A Python of 1 GB has 240,000 of them, and to inspect each takes as long as to copy them all.
static uint64_t behind_foreign(const struct as_heaps *h, uint64_t at, uint64_t end)
{
    const struct as_span *s = h->foreign ? as_span_from(h->foreign, at) : NULL;
    const struct as_span *behind = s ? h->foreign->items + h->foreign->count : NULL;
    for (; s < behind && s->start <= at && at < end; s++)
        at = s->end;
    return at < end ? at : end;
}

// Steps through [from, to), page by page until a map begins, then from map to map. A map's first page has been
// written to, so absent pages need no snapshot. All memory is inspected, though mp_'s counts may be met before: memory that only
// resembles malloc's could have met them.
static bool scan_range(struct search *s, uint64_t from, uint64_t to, struct as_error *err)
{
    struct as_target *t = s->heaps->target;
    uint64_t page = t->page_size;
    uint64_t next = from; // before this everything is decided
    uint64_t pages = LEAST_PAGES;
    for (uint64_t block = from;
         (block = next_place(t, block > next ? block : next, to)) < to && s->pages < MOST_PAGES;) {
        uint64_t end = places_end(t, block, to - block < pages * page ? to : block + pages * page);
        s->pages += (end - block) / page;
        if (!as_target_residency(t, block, end, s->residency, err))
            return false;
        uint64_t at = next = next > block ? next : block;
        while (at < end) {
            uint64_t addresses[BATCH];
            size_t count = 0;
            for (; (at = behind_foreign(s->heaps, at, end)) < end && count < BATCH; at += page)
                if (s->residency[(at - block) / page] & (AS_RES_PRESENT | AS_RES_SWAPPED | AS_RES_UNKNOWN))
                    addresses[count++] = at;
            struct head heads[BATCH];
            bool ok[BATCH];
            as_target_gather(t, addresses, count, sizeof *heads, heads, sizeof *heads, ok);
            for (size_t i = 0; i < count; i++) {
                if (addresses[i] < next)
                    continue;
                uint64_t behind = ok[i] ? add_map(s, addresses[i], to, heads[i])
                                        : as_target_skip_missing(t, addresses[i]) / page * page;
                if (behind > next)
                    next = behind;
            }
            at = at > next ? at : next;
        }
        // As in a snapshot: where memory ends, the next may be far away, and little.
        pages = s->residency[(end - block) / page - 1] == 0 ? LEAST_PAGES : pages < RESIDENCY_PAGES ? pages * 2 : pages;
        block = end;
    }
    return true;
}

// The end of the private memory that follows `start` without a gap or a heap. A program may protect pages of its own
// blocks, but a map begins in a writable page: malloc's header.
static uint64_t free_run(const struct as_heaps *h, size_t mapping, uint64_t start)
{
    const struct as_target *t = h->target;
    const struct as_span *heap = as_span_from(&h->spans, start);
    uint64_t limit = heap ? as_align_down(heap->start, t->page_size) : UINT64_MAX;
    uint64_t end = t->mappings.items[mapping].end;
    for (size_t i = mapping + 1; i < t->mappings.count && end < limit; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        if (m->start != end || !as_is_private_anonymous(m) || m->out_of_reach)
            break;
        end = m->end;
    }
    return end < limit ? end : limit;
}

// Snapshots through all memory that may hold mmapped chunks, from the start.
static bool search_all(struct search *s, struct as_error *err)
{
    struct as_heaps *h = s->heaps;
    struct as_target *t = h->target;
    h->mmapped.count = 0;
    s->count = s->bytes = 0;
    uint64_t next = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < t->mappings.count; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        uint64_t from = m->start > next ? m->start : next;
        while (ok && as_is_writable_anonymous(m) && !m->out_of_reach && from < m->end) {
            const struct as_span *heap = as_heaps_at(h, from);
            if (heap) {
                from = as_align_up(heap->end, t->page_size);
                continue;
            }
            uint64_t to = free_run(h, i, from);
            if (to <= from) {
                from += t->page_size;
                continue;
            }
            ok = scan_range(s, from, to, err);
            from = to;
        }
        next = from;
    }
    return ok;
}

// More was found than there can be: leaves out what is too much, if that can be told.
static bool drop_surplus(struct search *s)
{
    if (s->count <= s->want_count || s->bytes <= s->want_bytes)
        return false;
    // Less than a page of the excess may be hidden by drift.
    uint64_t page = s->heaps->target->page_size;
    uint64_t excess = (s->bytes - s->want_bytes + page - 1) / page * page;
    if (!as_mmapped_drop_surplus(s->heaps, s->count - s->want_count, excess))
        return false;
    s->count = s->want_count;
    s->bytes -= excess;
    return complete(s);
}

void as_mmapped_classify(struct as_heaps *h)
{
    AS_FOR_EACH(struct as_mmapped, m, &h->mmapped) {
        size_t at = as_lower_bound(h->cached.items, h->cached.count, m->chunk);
        if (at < h->cached.count && (h->cached.items[at] ^ m->chunk) < AS_ALIGNMENT)
            m->class = as_tag(h->cached.items[at]);
    }
}

bool as_mmapped_find(struct as_heaps *h, struct as_error *err)
{
    struct search s = {.heaps = h};
    for (size_t i = 0; i < h->pars.count; i++) {
        if (h->pars.items[i].n_mmaps == AS_UNKNOWN)
            s.want_count = s.want_bytes = AS_UNKNOWN;
        if (s.want_count == AS_UNKNOWN)
            continue;
        s.bytes_drift |= h->malloc->libcs.items[i].layout.heap.mmap_extra != 0;
        s.want_count += h->pars.items[i].n_mmaps;
        s.want_bytes += h->pars.items[i].mmapped_mem;
    }
    // No chunks that have bytes are one damaged word, or drift.
    if (h->malloc->libcs.count == 0 || (s.want_count == 0 && s.want_bytes == 0 && !munmap_can_fail(h)))
        return true;
    AS_VEC(uint8_t) residency = {0};
    if (!as_vec_reserve(&residency, RESIDENCY_PAGES, err))
        return false;
    s.residency = residency.items;
    bool ok = search_all(&s, err);
    if (ok && s.want_count != AS_UNKNOWN && !complete(&s) && !drop_surplus(&s) && !h->munmap_failed_ambiguous) {
        s.thorough = true;
        ok = search_all(&s, err);
        if (ok && !complete(&s))
            drop_surplus(&s);
    }
    as_vec_free(&residency);
    if (ok && s.want_count == AS_UNKNOWN)
        as_fault_note(h, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "mp_ was not found: the number of mmapped chunks cannot be checked");
    else if (ok && !complete(&s) && !h->munmap_failed_ambiguous)
        as_fault_note(h, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "the mmapped chunks found differ from mp_.n_mmaps and mp_.mmapped_mem");
    return ok;
}
