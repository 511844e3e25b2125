// SPDX-License-Identifier: MIT
// Ruby's own pages as a row: their resident bytes are taken out of the row that they were counted in, which is malloc's up to
// Ruby 3.0 (chunks in use, by posix_memalign) and other anonymous memory from 3.1 on.
#include "ledger/ledger.h"

enum { MOST_PAGES = 65536 / 4096 + 2 }; // of the kernel's, that a page of Ruby's may touch

// Bytes of a page of Ruby's that are resident; AS_UNKNOWN when the kernel does not say.
static uint64_t resident(struct as_target *t, const struct as_ruby_page_record *page)
{
    uint8_t residency[MOST_PAGES];
    uint64_t mask = (uint64_t)t->page_size - 1;
    uint64_t start = page->address & ~mask;
    uint64_t end = (page->address + page->size + mask) & ~mask;
    if ((end - start) / t->page_size > MOST_PAGES || !as_target_residency(t, start, end, residency, NULL))
        return AS_UNKNOWN;
    uint64_t bytes = 0;
    for (uint64_t at = start; at < end; at += t->page_size) {
        uint8_t r = residency[(at - start) / t->page_size];
        if (r & AS_RES_UNKNOWN)
            return AS_UNKNOWN;
        uint64_t from = at > page->address ? at : page->address;
        uint64_t to = at + t->page_size < page->address + page->size ? at + t->page_size : page->address + page->size;
        if (r & AS_RES_PRESENT)
            bytes += to - from;
    }
    return bytes;
}

// The heap among [first, first + count), which are in order of address, that holds `address`; UINT32_MAX: none.
static uint32_t heap_among(const struct as_store *s, uint32_t first, uint32_t count, uint64_t address)
{
    while (count > 0) {
        uint32_t half = count / 2;
        const struct as_heap_record *heap = &s->heaps.items[first + half];
        if (address < heap->start) {
            count = half;
        } else if (address < heap->end) {
            return first + half;
        } else {
            first += half + 1;
            count -= half + 1;
        }
    }
    return UINT32_MAX;
}

// The heap of malloc's that holds an address; UINT32_MAX: none. Each arena's stand in order, then the mmapped chunks: there are
// as many pages of Ruby's as heaps, and the target stands still meanwhile.
static uint32_t heap_at(const struct as_store *s, uint64_t address, uint32_t hint)
{
    if (hint < s->heaps.count && address >= s->heaps.items[hint].start && address < s->heaps.items[hint].end)
        return hint;
    uint32_t behind = 0;
    for (size_t i = 0; i < s->arenas.count; i++) {
        const struct as_arena_record *arena = &s->arenas.items[i];
        uint32_t found = heap_among(s, arena->first_heap, arena->heap_count, address);
        if (found != UINT32_MAX)
            return found;
        if (arena->heap_count > 0 && arena->first_heap + arena->heap_count > behind)
            behind = arena->first_heap + arena->heap_count;
    }
    return heap_among(s, behind, (uint32_t)s->heaps.count - behind, address);
}

// The row of malloc's that a page was counted in, and the ledger that has it; NULL: it is not malloc's.
static uint64_t *row_of(struct as_store *s, const struct as_ruby_page_record *page, struct as_ledger **ledger)
{
    if (page->heap == UINT32_MAX)
        return NULL;
    uint32_t arena = s->heaps.items[page->heap].arena;
    *ledger = arena == UINT32_MAX ? &s->totals.ledger : &s->arenas.items[arena].ledger;
    return arena == UINT32_MAX ? &(*ledger)->mmapped_in_use : &(*ledger)->in_use;
}

// Moves pages [0, count) that are malloc's from their rows to ruby_pages, or back. False: *stuck is the first that would not
// go.
static bool move_pages(struct as_store *s, size_t count, bool back, size_t *stuck)
{
    for (size_t i = 0; i < count; i++) {
        const struct as_ruby_page_record *page = &s->ruby.items[i];
        struct as_ledger *ledger;
        uint64_t *row = row_of(s, page, &ledger);
        if (!row)
            continue;
        uint64_t *from = back ? &ledger->ruby_pages : row;
        uint64_t *to = back ? row : &ledger->ruby_pages;
        if (*from == AS_UNKNOWN || *from < page->resident) {
            *stuck = i;
            return false;
        }
        *from -= page->resident;
        *to += page->resident;
    }
    return true;
}

void as_ledger_ruby_open(struct as_ledger_builder *b)
{
    struct as_store *s = b->store;
    uint32_t hint = UINT32_MAX;
    bool known = s->meta.ruby != AS_RUBY_UNPROVEN;
    for (size_t i = 0; i < s->ruby.count; i++) {
        struct as_ruby_page_record *page = &s->ruby.items[i];
        page->resident = b->target->residency.known ? resident(b->target, page) : AS_UNKNOWN;
        page->heap = hint = heap_at(s, page->address, hint);
        known &= page->resident != AS_UNKNOWN;
    }
    size_t stuck;
    if (known && !move_pages(s, s->ruby.count, false, &stuck)) { // the target runs, and a page is not what it was
        known = false;
        move_pages(s, stuck, true, &stuck);
    }
    for (size_t i = 0; i < s->arenas.count && !known; i++)
        s->arenas.items[i].ledger.ruby_pages = AS_UNKNOWN;
    b->ruby_known = known;
}

void as_ledger_ruby_close(struct as_ledger_builder *b)
{
    struct as_store *s = b->store;
    struct as_ledger *l = &s->totals.ledger;
    uint64_t rest = 0;
    for (size_t i = 0; i < s->ruby.count && b->ruby_known; i++)
        rest += s->ruby.items[i].heap == UINT32_MAX ? s->ruby.items[i].resident : 0;
    if (b->ruby_known && (rest == 0 || (l->other_anon != AS_UNKNOWN && l->other_anon >= rest))) {
        l->other_anon -= rest;
        l->ruby_pages += rest;
        return;
    }
    l->ruby_pages = AS_UNKNOWN;
}
