// SPDX-License-Identifier: MIT
// Counts every chunk of a heap onto the pages that it touches, as the chunks stream by: what is where, which pages a trim
// would return, which chunks are pins.
#include "base/align.h"
#include "base/memory.h"
#include "ledger/builder.h"
#include "malloc/trim_rules.h"

#include <stddef.h>

static void mark(struct as_ledger_builder *b, uint64_t from, uint64_t to, enum as_page_state state)
{
    uint64_t page_size = b->target->page_size;
    from = as_align_up(from, page_size);
    to = as_align_down(to, page_size);
    for (uint64_t at = from; at < to; at += page_size)
        b->pages[(at - b->base) / page_size].state = (uint8_t)state;
}

// A run of free chunks ended, of which malloc_trim makes one before it gives back its whole pages.
static void end_run(struct as_ledger_builder *b, uint64_t end)
{
    if (b->run != 0)
        mark(b, as_mtrim_start(b->run), end, AS_PAGE_RELEASABLE);
    b->run = 0;
}

// The top: malloc_trim cuts off the main arena's end, a deep trim drops all whole pages behind the top's header.
static void count_top(struct as_ledger_builder *b, uint64_t start, uint64_t end)
{
    uint64_t from = b->systrim_unit != 0 ? as_systrim_start(start, end, b->systrim_unit) : end;
    mark(b, as_deep_trim_start(start), from, AS_PAGE_WITHHELD);
    mark(b, from, end, AS_PAGE_RELEASABLE);
    b->cut = from;
}

// Each chunk in use on the current page gets an equal part of its stranded bytes; the last gets what is left over.
static void share(struct as_ledger_builder *b, uint64_t stranded)
{
    uint64_t part = stranded / b->users;
    for (uint32_t i = 0; i < b->users; i++) {
        struct as_size_count *size = as_sizes_at(&b->sizes, b->here.items[i]);
        if (!size) // out of memory: the next chunk of a new size says so
            return;
        size->places++;
        size->shared_stranded += i + 1 < b->users ? part : stranded - part * (b->users - 1);
    }
}

// Counts a resident page with stranded bytes: how full is it, and with how many chunks?
static void count_fill(struct as_ledger_builder *b, const struct as_page_record *page, uint32_t users)
{
    static const uint32_t bounds[AS_FILL_CHUNKS] = {0, 1, 2, 3, 5, 9};
    uint32_t class = AS_FILL_CHUNKS - 1;
    while (bounds[class] > users)
        class --;
    uint32_t eighths = ((uint32_t)page->in_use * AS_UNIT * AS_FILL_EIGHTHS) >> b->page_shift;
    struct as_fill_record *fill = &b->fill[class][eighths];
    fill->chunks = bounds[class];
    fill->eighths = eighths;
    fill->pages++;
    fill->in_use += (uint64_t)page->in_use * AS_UNIT;
    fill->stranded += ((uint64_t)page->binned + page->top) * AS_UNIT;
}

void as_ledger_count_unheld(struct as_ledger_builder *b, const struct as_page_record *page)
{
    bool whole = page->state == AS_PAGE_RELEASABLE || page->state == AS_PAGE_WITHHELD;
    if (page->in_use == 0 && !whole && (page->binned || page->top))
        count_fill(b, page, 0);
}

// No more chunks will touch the current page: what keeps the free bytes that are on it? A single chunk in use is a pin, if all else
// is free.
static void close_page(struct as_ledger_builder *b)
{
    struct as_page_record *page = &b->pages[b->page];
    bool stranded = b->users > 0 && (page->binned || page->top) && (page->residency & AS_RES_PRESENT);
    if (stranded) {
        count_fill(b, page, b->users);
        if (b->users > 1)
            share(b, ((uint64_t)page->binned + page->top) * AS_UNIT);
    }
    if (b->users != 1 || page->binned == 0 || page->tcache || page->fastbin || page->metadata || page->top ||
        page->unknown || !(page->residency & (AS_RES_PRESENT | AS_RES_UNKNOWN)))
        return;
    struct as_size_count *found = as_sizes_at(&b->sizes, as_chunk_size(b->user));
    if (!found)
        return;
    struct as_size_record *size = &found->record;
    page->state = AS_PAGE_PINNED;
    size->pin_pages++;
    size->pin_stranded += (uint64_t)page->binned * AS_UNIT;
    size->pin_count += b->user.address != b->last_pin;
    b->last_pin = b->user.address;
}

static void count_user(struct as_ledger_builder *b, struct as_chunk c, uint64_t first, uint64_t last)
{
    if (b->page != first) {
        close_page(b);
        b->page = first;
        b->users = 0;
    }
    b->here.items[b->users++] = as_chunk_size(c);
    b->user = c;
    if (last != first) {
        close_page(b);
        b->page = last;
        b->here.items[0] = as_chunk_size(c);
        b->users = 1;
    }
}

// Adds a chunk's units to the records of the pages that it touches.
static void claim(struct as_ledger_builder *b, struct as_chunk c, uint64_t first, uint64_t last,
                  enum as_chunk_class class)
{
    static const uint8_t place[] = {
        [AS_CHUNK_UNKNOWN] = offsetof(struct as_page_record, unknown) / 2,
        [AS_CHUNK_IN_USE] = offsetof(struct as_page_record, in_use) / 2,
        [AS_CHUNK_TCACHE] = offsetof(struct as_page_record, tcache) / 2,
        [AS_CHUNK_FASTBIN] = offsetof(struct as_page_record, fastbin) / 2,
        [AS_CHUNK_BINNED] = offsetof(struct as_page_record, binned) / 2,
        [AS_CHUNK_TOP] = offsetof(struct as_page_record, top) / 2,
        [AS_CHUNK_METADATA] = offsetof(struct as_page_record, metadata) / 2,
    };
    uint64_t size = as_chunk_size(c);
    uint16_t *counts = (uint16_t *)&b->pages[first];
    if (first == last) {
        counts[place[class]] += (uint16_t)(size / AS_UNIT);
        return;
    }
    const size_t step = sizeof(struct as_page_record) / sizeof *counts;
    uint64_t page_size = b->target->page_size;
    uint64_t head = b->base + (first + 1) * page_size - c.address;
    counts[place[class]] += (uint16_t)(head / AS_UNIT);
    counts += step;
    for (uint64_t i = first + 1; i < last; i++, counts += step)
        counts[place[class]] = (uint16_t)(page_size / AS_UNIT);
    uint64_t tail = c.address + size - (b->base + last * page_size);
    counts[place[class]] += (uint16_t)(tail / AS_UNIT);
}

static void tally(struct as_tally *t, uint64_t size)
{
    t->count++;
    t->bytes += size;
}

// Counts by class and by size. False when our memory ran out.
static bool count_chunk(struct as_ledger_builder *b, uint64_t size, enum as_chunk_class class)
{
    if (class == AS_CHUNK_TOP) {
        tally(&b->tallies->top, size);
        return true;
    }
    if (class == AS_CHUNK_METADATA || class == AS_CHUNK_UNKNOWN)
        return true;
    struct as_size_count *counts = as_sizes_at(&b->sizes, size);
    if (!counts)
        return as_fail(b->err, AS_NO_MEMORY, "no memory for the table of chunk sizes");
    _Static_assert(AS_CHUNK_IN_USE == 1 && AS_CHUNK_BINNED == 4, "classes in the order of the fields");
    (&counts->record.in_use)[class - AS_CHUNK_IN_USE]++;
    struct as_tally *tallies = &b->tallies->in_use;
    tally(b->heap->kind == AS_HEAP_MMAPPED && class == AS_CHUNK_IN_USE ? &b->tallies->mmapped
                                                                       : &tallies[class - AS_CHUNK_IN_USE],
          size);
    return true;
}

// What holds up the heap's tail is the last chunk in use, if nothing that is merely cached lies behind it.
static void follow_tail(struct as_ledger_builder *b, struct as_chunk c, enum as_chunk_class class)
{
    bool at_end = c.address + as_chunk_size(c) >= b->heap->end;
    if (class == AS_CHUNK_BINNED) {
        if (b->free_since == 0)
            b->free_since = c.address;
        return;
    }
    if (class == AS_CHUNK_IN_USE) {
        b->below_last = b->free_since != 0 ? c.address - b->free_since : 0;
        b->last_in_use = c;
    } else if (class != AS_CHUNK_TOP && !(class == AS_CHUNK_METADATA && at_end)) {
        b->below_last = 0;
    }
    b->free_since = 0;
}

bool as_ledger_collect(struct as_ledger_builder *b, uint64_t tagged)
{
    if (b->collected.count == b->collected.capacity) {
        if (!as_vec_reserve(&b->collected, 1, b->err))
            return false;
        as_memory_prefer_large_pages(b->collected.items, b->collected.capacity * sizeof *b->collected.items);
    }
    b->collected.items[b->collected.count++] = tagged;
    return true;
}

static bool collect_gap(struct as_ledger_builder *b, uint64_t address, bool is_free)
{
    is_free = is_free && b->collecting.free;
    bool known = (b->in_gap && b->gap_is_free == is_free) || !b->collecting.gaps;
    b->in_gap = true;
    b->gap_is_free = is_free;
    return known || as_ledger_collect(b, address | AS_GAP | (is_free ? AS_GAP_FREE : 0));
}

bool as_ledger_chunks(struct as_chunk_sink *sink, const struct as_chunk *batch, size_t n)
{
    struct as_ledger_builder *b = (struct as_ledger_builder *)sink;
    for (size_t i = 0; i < n; i++) {
        struct as_chunk c = batch[i];
        uint64_t size = as_chunk_size(c);
        enum as_chunk_class class = as_chunk_class_of(c);
        uint64_t first = (c.address - b->base) >> b->page_shift;
        uint64_t last = (c.address + size - 1 - b->base) >> b->page_shift;
        bool trims = class == AS_CHUNK_BINNED || (class == AS_CHUNK_FASTBIN && b->trims_fastbins);
        if (b->chunks && !as_chunk_write(b->chunks, c, b->err))
            return false;
        if (!count_chunk(b, size, class))
            return false;
        claim(b, c, first, last, class);
        if (class == AS_CHUNK_IN_USE) {
            count_user(b, c, first, last);
            if (b->collecting.from != 0 && size >= b->collecting.from && !as_ledger_collect(b, c.address))
                return false;
            b->in_gap = false;
        } else if (!collect_gap(b, c.address, trims)) {
            return false;
        }
        follow_tail(b, c, class);
        if (trims) {
            if (b->run == 0)
                b->run = c.address;
        } else if (class == AS_CHUNK_TOP) {
            count_top(b, b->run != 0 ? b->run : c.address, c.address + size);
            b->run = 0;
        } else {
            end_run(b, c.address);
        }
    }
    return true;
}

bool as_ledger_chunks_end(struct as_ledger_builder *b, uint64_t end)
{
    end_run(b, end);
    if (b->users > 0)
        close_page(b);
    if (b->below_last >= b->target->page_size) {
        struct as_size_count *size = as_sizes_at(&b->sizes, as_chunk_size(b->last_in_use));
        if (size) {
            size->record.tail_count++;
            size->record.tail_bytes += b->below_last;
        }
    }
    return collect_gap(b, end, false);
}
