// SPDX-License-Identifier: MIT
// One heap from beginning to end: makes its page records with the kernel's word on each, has the chunks counted onto
// them (chunks.c), and adds every page to the rows.
#include "ledger/ledger.h"
#include "base/align.h"
#include "malloc/trim_rules.h"

#include <string.h>

bool as_ledger_open(struct as_ledger_builder *b, struct as_store *s, struct as_target *t,
                    struct as_chunk_writer *chunks, struct as_collecting collecting, struct as_error *err)
{
    *b = (struct as_ledger_builder){
        .sink = {.chunks = as_ledger_chunks},
        .store = s,
        .target = t,
        .err = err,
        .chunks = chunks,
        .collecting = collecting,
        .page_shift = (unsigned)__builtin_ctz(t->page_size),
    };
    return as_vec_reserve(&b->here, t->page_size / AS_UNIT + 2, err) && as_sizes_open(&b->sizes, err);
}

void as_ledger_close(struct as_ledger_builder *b)
{
    as_sizes_close(&b->sizes);
    AS_FREE_VECS(b, collected, here);
}

void as_ledger_partial_open(struct as_ledger_builder *b, struct as_ledger_partial *part, bool in_place)
{
    b->part = part;
    part->pages = in_place ? &b->store->pages : &part->own;
}

bool as_ledger_partial_close(struct as_store *s, struct as_ledger_partial *part, struct as_error *err)
{
    uint64_t first = part->pages == &part->own ? s->pages.count : 0;
    size_t heaps = s->heaps.count;
    bool ok = as_vec_reserve(&s->heaps, part->heaps.count, err) && as_vec_reserve(&s->pages, part->own.count, err);
    for (size_t i = 0; ok && i < part->heaps.count; i++) {
        s->heaps.items[s->heaps.count] = part->heaps.items[i];
        s->heaps.items[s->heaps.count++].first_page += first;
    }
    if (ok && part->own.count > 0) {
        memcpy(s->pages.items + s->pages.count, part->own.items, part->own.count * sizeof *s->pages.items);
        s->pages.count += part->own.count;
    }
    AS_FOR_EACH_WHILE(ok, const struct as_residency_failure, doubt, &part->doubts) {
        uint32_t heap = (uint32_t)heaps + doubt->heap;
        as_store_warn(s, AS_WARN_RESIDENCY, s->heaps.items[heap].arena, heap, doubt->address, "%s", doubt->why.text);
    }
    AS_FREE_VECS(part, heaps, own, doubts);
    return ok;
}

static void add_fill(struct as_fill_record *to, const struct as_fill_record *from)
{
    if (from->pages == 0)
        return;
    to->chunks = from->chunks;
    to->eighths = from->eighths;
    to->pages += from->pages;
    to->in_use += from->in_use;
    to->stranded += from->stranded;
}

bool as_ledger_join(struct as_ledger_builder *to, struct as_ledger_builder *from)
{
    if (to->collected.count == 0) {
        as_vec_free(&to->collected);
        to->collected = from->collected;
        from->collected = (as_boundary_vec){0};
    }
    if (!as_vec_reserve(&to->collected, from->collected.count, to->err))
        return false;
    if (from->collected.count > 0)
        memcpy(to->collected.items + to->collected.count, from->collected.items,
               from->collected.count * sizeof *from->collected.items);
    to->collected.count += from->collected.count;
    for (int i = 0; i < AS_FILL_CHUNKS; i++)
        for (int k = 0; k < AS_FILL_EIGHTHS; k++)
            add_fill(&to->fill[i][k], &from->fill[i][k]);
    return as_sizes_add(&to->sizes, &from->sizes) ||
           as_fail(to->err, AS_NO_MEMORY, "no memory for the table of chunk sizes");
}

// Makes the heap's page records, with the kernel's word on each.
static bool add_pages(struct as_ledger_builder *b, uint64_t start, uint64_t end)
{
    enum { STEP = 16384 };
    as_page_vec *pages = b->part->pages;
    uint64_t page_size = b->target->page_size;
    b->base = as_align_down(start, page_size);
    uint64_t count = (as_align_up(end, page_size) - b->base) / page_size;
    if (!as_vec_reserve(pages, count, b->err))
        return false;
    b->heap->first_page = pages->count;
    b->heap->page_count = count;
    b->pages = pages->items + pages->count;
    pages->count += count;
    for (uint64_t i = 0; i < count; i += STEP) {
        uint8_t residency[STEP];
        uint64_t n = count - i < STEP ? count - i : STEP;
        struct as_error err;
        uint64_t from = b->base + i * page_size;
        if (!as_target_residency(b->target, from, from + n * page_size, residency, &err)) {
            memset(residency, AS_RES_UNKNOWN, n);
            struct as_residency_failure *doubt = as_vec_add(&b->part->doubts, NULL);
            if (doubt)
                *doubt = (struct as_residency_failure){(uint32_t)(b->part->heaps.count - 1), from, err};
        }
        for (uint64_t k = 0; k < n; k++)
            b->pages[i + k] = (struct as_page_record){.residency = residency[k]};
    }
    return true;
}

static bool begin_heap(struct as_ledger_builder *b, struct as_heap_record record)
{
    b->heap = as_vec_add(&b->part->heaps, b->err);
    if (!b->heap)
        return false;
    *b->heap = record;
    b->heap->first_chunk = b->chunks ? b->chunks->count : 0;
    b->run = 0;
    b->page = 0;
    b->users = 0;
    b->last_pin = 0;
    b->below_last = 0;
    b->free_since = 0;
    b->in_gap = false;
    b->cut = UINT64_MAX;
    return (!b->collecting.gaps || as_ledger_collect(b, record.start | AS_HEAP_BEGINS)) &&
           add_pages(b, record.start, record.end);
}

bool as_ledger_begin(struct as_ledger_builder *b, const struct as_heap *heap, const struct as_arena *arena,
                     const struct as_par *par, uint64_t brk_end)
{
    uint64_t page_size = b->target->page_size;
    struct as_arena_record *record = &b->store->arenas.items[heap->arena];
    b->ledger = &record->ledger;
    b->tallies = &record->chunks;
    b->slack = false;
    b->trims_fastbins = as_mtrim_consolidates(arena->libc);
    b->systrim_unit = 0;
    // systrim acts only where brk is still where malloc left it.
    if (arena->main && heap->has_top && heap->kind == AS_HEAP_BRK && as_align_up(heap->end, page_size) == brk_end)
        b->systrim_unit = as_systrim_unit(par, page_size);
    return begin_heap(b, (struct as_heap_record){
                             .start = heap->start,
                             .end = heap->end,
                             .arena = heap->arena,
                             .kind = heap->kind,
                             .protected_end = heap->protected_end,
                         });
}

bool as_ledger_mmapped(struct as_ledger_builder *b, const struct as_mmapped *m)
{
    b->ledger = &b->store->totals.ledger;
    b->tallies = &b->store->totals.chunks;
    b->slack = m->class != AS_CHUNK_METADATA; // all of a map that was made for a tcache_perthread_struct is metadata
    b->trims_fastbins = false;
    b->systrim_unit = 0;
    struct as_heap_record record = {
        .start = m->map_start,
        .end = m->map_end,
        .arena = UINT32_MAX,
        .kind = AS_HEAP_MMAPPED,
        .protected_end = m->map_end,
    };
    if (!begin_heap(b, record))
        return false;
    const struct as_chunk parts[] = {
        {m->map_start, (m->chunk - m->map_start) | AS_CHUNK_METADATA},
        {m->chunk, m->size | (uint64_t)m->class},
        {m->chunk + m->size, (m->map_end - m->chunk - m->size) | AS_CHUNK_METADATA},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (as_chunk_size(parts[i]) > 0 && !as_ledger_chunks(&b->sink, &parts[i], 1))
            return false;
    return as_ledger_end(b, m->map_end);
}

static uint64_t bytes(uint16_t units)
{
    return (uint64_t)units * AS_UNIT;
}

static enum as_page_state state_of(const struct as_page_record *p)
{
    if (p->in_use || p->metadata)
        return p->state == AS_PAGE_PINNED ? AS_PAGE_PINNED : AS_PAGE_USED;
    if (p->unknown)
        return AS_PAGE_UNKNOWN;
    return p->tcache || p->fastbin ? AS_PAGE_CACHED : AS_PAGE_STRANDED;
}

static void count_resident(struct as_ledger_builder *b, struct as_page_record *p, uint32_t page_size, bool mmapped)
{
    struct as_ledger *l = b->ledger;
    if (p->state == AS_PAGE_RELEASABLE) {
        l->releasable += page_size;
        l->malloc_trim += page_size;
        l->deep_trim += page_size;
        return;
    }
    if (p->state == AS_PAGE_WITHHELD) {
        l->withheld += page_size;
        l->deep_trim += page_size;
        return;
    }
    *(mmapped ? &l->mmapped_in_use : &l->in_use) += bytes(p->in_use);
    *(b->slack ? &l->mmapped_slack : &l->metadata) += bytes(p->metadata);
    l->tcache += bytes(p->tcache);
    l->fastbin += bytes(p->fastbin);
    l->stranded += bytes(p->binned) + bytes(p->top);
    l->unknown += bytes(p->unknown);
    as_ledger_count_unheld(b, p);
    p->state = (uint8_t)state_of(p);
}

static void count_swapped(struct as_ledger *l, struct as_page_record *p, uint32_t page_size)
{
    l->swapped_in_use += bytes(p->in_use) + bytes(p->metadata) + bytes(p->unknown);
    l->swapped_free += bytes(p->binned) + bytes(p->top) + bytes(p->tcache) + bytes(p->fastbin);
    l->malloc_trim_swap += p->state == AS_PAGE_RELEASABLE ? page_size : 0;
    l->deep_trim_swap += p->state == AS_PAGE_RELEASABLE || p->state == AS_PAGE_WITHHELD ? page_size : 0;
    p->state = AS_PAGE_SWAPPED;
}

static void count_absent(struct as_ledger *l, struct as_page_record *p)
{
    uint64_t untouched = bytes(p->in_use) + bytes(p->top) + bytes(p->metadata) + bytes(p->unknown);
    l->untouched += untouched;
    l->returned += bytes(p->binned) + bytes(p->tcache) + bytes(p->fastbin);
    p->state = untouched ? AS_PAGE_UNTOUCHED : AS_PAGE_RETURNED;
}

static uint64_t page_bytes(const struct as_page_record *p)
{
    return bytes(p->in_use) + bytes(p->tcache) + bytes(p->fastbin) + bytes(p->binned) + bytes(p->top) +
           bytes(p->metadata) + bytes(p->unknown);
}

// What is locked in memory stays there, whatever is freed: the kernel refuses to take it by madvise. brk is not asked.
static void keep_locked(const struct as_ledger_builder *b, struct as_page_record *p, uint64_t address)
{
    if (p->state == AS_PAGE_WITHHELD || (p->state == AS_PAGE_RELEASABLE && address < b->cut))
        p->state = 0;
}

bool as_ledger_end(struct as_ledger_builder *b, uint64_t end)
{
    struct as_store *s = b->store;
    uint32_t page_size = b->target->page_size;
    if (!as_ledger_chunks_end(b, end))
        return false;
    b->heap->end = end;
    b->heap->chunk_count = b->chunks ? b->chunks->count - b->heap->first_chunk : 0;
    b->heap->page_count = (as_align_up(end, page_size) - b->base) / page_size;
    b->part->pages->count = b->heap->first_page + b->heap->page_count;

    bool mmapped = b->heap->kind == AS_HEAP_MMAPPED;
    const struct as_mapping *m = NULL;
    struct as_mapping_record *record = NULL;
    for (uint64_t i = 0; i < b->heap->page_count; i++) {
        struct as_page_record *p = &b->pages[i];
        uint64_t address = b->base + i * page_size;
        if (!m || address >= m->end) {
            m = as_target_mapping_at(b->target, address);
            record = m ? &s->mappings.items[m - b->target->mappings.items] : NULL;
        }
        if (p->residency & AS_RES_UNKNOWN) {
            b->ledger->unknown = AS_UNKNOWN; // and with it every row (as_ledger_finish)
            p->state = AS_PAGE_UNKNOWN;
        } else if (p->residency & AS_RES_PRESENT) {
            if (m && m->locked)
                keep_locked(b, p, address);
            if (m && m->hugetlb != AS_UNKNOWN && m->hugetlb > 0) {
                b->ledger->hugetlb += page_bytes(p);
                p->state = (uint8_t)(p->state ? p->state : state_of(p));
                continue;
            }
            if (record) // heaps of several arenas may share a mapping
                __atomic_fetch_add(&record->malloc_rss, page_bytes(p), __ATOMIC_RELAXED);
            if (b->ledger->unknown != AS_UNKNOWN)
                count_resident(b, p, page_size, mmapped);
            else // no row can be told any more, but what this page is
                p->state = (uint8_t)(p->state ? p->state : state_of(p));
        } else if (p->residency & AS_RES_SWAPPED) {
            count_swapped(b->ledger, p, page_size);
        } else {
            count_absent(b->ledger, p);
        }
    }
    return true;
}
