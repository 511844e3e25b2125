// SPDX-License-Identifier: MIT
// What runtimes keep for themselves as rows of their own: the resident bytes of each part of a runtime's heap are taken out of the
// row that they were counted in. The row is malloc's for a part that is a chunk (Ruby's pages up to 3.0, by posix_memalign), and
// other anonymous memory for a part that is a mapping of its own.
#include "ledger/ledger.h"

#include <string.h>

enum { STEP = 512 }; // pages whose residency is asked for in one go

// A part: a page of Ruby's heap, or a region of another runtime's.
struct runtime_part {
    uint64_t address, size;
    uint64_t *resident; // to be filled in, as `heap`
    uint32_t *heap;
    int row; // index of the runtime's row
};

static size_t part_count(const struct as_store *s)
{
    return s->ruby.count + s->regions.count;
}

static struct runtime_part part_at(struct as_store *s, size_t index)
{
    if (index < s->ruby.count) {
        struct as_ruby_page_record *page = &s->ruby.items[index];
        return (struct runtime_part){page->address, page->size, &page->resident, &page->heap, AS_ROW_ruby_pages};
    }
    struct as_region_record *region = &s->regions.items[index - s->ruby.count];
    return (struct runtime_part){region->address, region->size, &region->resident, &region->heap,
                                 (int)s->runtimes.items[region->runtime].row};
}

// The heap among [first, first + count), which are in order of address, that holds `address`; UINT32_MAX: none.
static uint32_t heap_among(const struct as_store *s, uint32_t first, uint32_t count, uint64_t address)
{
    const struct as_heap_record *heaps = s->heaps.items;
    size_t end = (size_t)first + count, at = AS_PARTITION_POINT(first, end, i, heaps[i].end <= address);
    return at < end && address >= heaps[at].start ? (uint32_t)at : UINT32_MAX;
}

// The heap of malloc's that holds an address; UINT32_MAX: none. Each arena's stand in order, then the mmapped chunks: there are
// as many parts as heaps, and the target stands still meanwhile.
static uint32_t heap_at(const struct as_store *s, uint64_t address, uint32_t hint)
{
    if (hint < s->heaps.count && address >= s->heaps.items[hint].start && address < s->heaps.items[hint].end)
        return hint;
    uint32_t behind = 0;
    AS_FOR_EACH(const struct as_arena_record, arena, &s->arenas) {
        uint32_t found = heap_among(s, arena->first_heap, arena->heap_count, address);
        if (found != UINT32_MAX)
            return found;
        if (arena->heap_count > 0 && arena->first_heap + arena->heap_count > behind)
            behind = arena->first_heap + arena->heap_count;
    }
    return heap_among(s, behind, (uint32_t)s->heaps.count - behind, address);
}

// The row of malloc's that a part was counted in, and the ledger that has it; NULL: it is not malloc's.
static uint64_t *row_of(struct as_store *s, const struct runtime_part *part, struct as_ledger **ledger)
{
    if (*part->heap == UINT32_MAX)
        return NULL;
    uint32_t arena = s->heaps.items[*part->heap].arena;
    *ledger = arena == UINT32_MAX ? &s->totals.ledger : &s->arenas.items[arena].ledger;
    return arena == UINT32_MAX ? &(*ledger)->mmapped_in_use : &(*ledger)->in_use;
}

// Moves the parts [0, count) of a row that are malloc's from malloc's rows to the runtime's, or back. False: *stuck is the first
// that would not go.
static bool move_parts(struct as_store *s, int row, size_t count, bool back, size_t *stuck)
{
    for (size_t i = 0; i < count; i++) {
        struct runtime_part part = part_at(s, i);
        struct as_ledger *ledger;
        uint64_t *mallocs = part.row == row ? row_of(s, &part, &ledger) : NULL;
        if (!mallocs)
            continue;
        uint64_t *runtimes = as_row_of(ledger, row);
        uint64_t *from = back ? runtimes : mallocs;
        uint64_t *to = back ? mallocs : runtimes;
        if (*from == AS_UNKNOWN || *from < *part.resident) {
            *stuck = i;
            return false;
        }
        *from -= *part.resident;
        *to += *part.resident;
    }
    return true;
}

// Is everything found that belongs into a runtime's row?
static bool is_found(const struct as_store *s, int row)
{
    if (row == AS_ROW_ruby_pages)
        return s->meta.ruby != AS_RUBY_UNPROVEN;
    for (size_t i = 0; i < s->runtimes.count; i++)
        if ((int)s->runtimes.items[i].row == row && s->runtimes.items[i].state != AS_REGIONS_FOUND)
            return false;
    return true;
}

static void open_row(struct as_ledger_builder *b, int row)
{
    struct as_store *s = b->store;
    bool known = is_found(s, row);
    for (size_t i = 0; i < part_count(s) && known; i++) {
        struct runtime_part part = part_at(s, i);
        known = part.row != row || *part.resident != AS_UNKNOWN;
    }
    size_t stuck;
    if (known && !move_parts(s, row, part_count(s), false, &stuck)) { // the target runs, and a part is not what it was
        known = false;
        move_parts(s, row, stuck, true, &stuck);
    }
    for (size_t i = 0; i < s->arenas.count && !known; i++)
        *as_row_of(&s->arenas.items[i].ledger, row) = AS_UNKNOWN;
    b->runtime_known[row] = known;
}

// How much of a part is resident. Of what a clone has not got only whole mappings are counted.
static uint64_t resident_of(struct as_target *t, const struct runtime_part *part)
{
    const struct as_mapping *m = as_target_mapping_at(t, part->address);
    if (m && m->out_of_reach)
        return m->start == part->address && m->end - m->start == part->size ? m->rss : AS_UNKNOWN;
    return as_target_resident_bytes(t, part->address, part->address + part->size);
}

// Fills in the residency of the runtimes' pages, and drops those that malloc's heaps have: they have page records there.
static void settle_pages(struct as_ledger_builder *b)
{
    struct as_store *s = b->store;
    uint64_t page_size = b->target->page_size;
    uint32_t hint = UINT32_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < s->runtime_pages.count;) {
        uint8_t residency[STEP];
        size_t n = 1;
        uint64_t from = s->runtime_pages.items[i].address;
        while (n < STEP && i + n < s->runtime_pages.count &&
               s->runtime_pages.items[i + n].address == from + n * page_size)
            n++;
        hint = heap_at(s, from, hint);
        if (!as_target_residency(b->target, from, from + n * page_size, residency, NULL))
            memset(residency, AS_RES_UNKNOWN, n);
        for (size_t k = 0; k < n; k++, i++) {
            struct as_runtime_page_record page = s->runtime_pages.items[i];
            page.residency = residency[k];
            if (hint == UINT32_MAX)
                s->runtime_pages.items[kept++] = page;
        }
    }
    s->runtime_pages.count = kept;
}

void as_ledger_runtimes_open(struct as_ledger_builder *b)
{
    struct as_store *s = b->store;
    uint32_t hint = UINT32_MAX;
    for (size_t i = 0; i < part_count(s); i++) {
        struct runtime_part part = part_at(s, i);
        *part.resident = resident_of(b->target, &part);
        *part.heap = hint = heap_at(s, part.address, hint);
    }
    for (int row = 0; row < AS_ROW_COUNT; row++)
        if (as_rows[row].owner == AS_ROW_OF_RUNTIME)
            open_row(b, row);
    settle_pages(b);
}

static void close_row(struct as_ledger_builder *b, int row)
{
    struct as_store *s = b->store;
    struct as_ledger *l = &s->totals.ledger;
    uint64_t rest = 0;
    for (size_t i = 0; i < part_count(s) && b->runtime_known[row]; i++) {
        struct runtime_part part = part_at(s, i);
        rest += part.row == row && *part.heap == UINT32_MAX ? *part.resident : 0;
    }
    if (b->runtime_known[row] && (rest == 0 || (l->other_anon != AS_UNKNOWN && l->other_anon >= rest))) {
        l->other_anon -= rest;
        *as_row_of(&s->totals.ledger, row) += rest;
        return;
    }
    *as_row_of(&s->totals.ledger, row) = AS_UNKNOWN;
}

void as_ledger_runtimes_close(struct as_ledger_builder *b)
{
    for (int row = 0; row < AS_ROW_COUNT; row++)
        if (as_rows[row].owner == AS_ROW_OF_RUNTIME)
            close_row(b, row);
}
