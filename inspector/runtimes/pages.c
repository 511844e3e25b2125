// SPDX-License-Identifier: MIT
#include "runtimes/pages.h"

#include "base/align.h"

bool as_runtime_pages_add(as_runtime_page_vec *pages, uint32_t kind, uint64_t address, uint64_t size,
                          uint32_t page_size, struct as_runtime_piece *piece, struct as_error *err)
{
    uint64_t base = as_align_down(address, page_size);
    uint64_t count = (as_align_up(address + size, page_size) - base) / page_size;
    if (!as_vec_reserve(pages, count, err))
        return false;
    *piece = (struct as_runtime_piece){pages->items + pages->count, base, page_size};
    for (uint64_t i = 0; i < count; i++)
        pages->items[pages->count++] = (struct as_runtime_page_record){
            .address = base + i * page_size, .kind = (uint8_t)kind, .residency = AS_RES_UNKNOWN};
    return true;
}

// The page that has an address, and where it ends.
static struct as_runtime_page_record *page_at(const struct as_runtime_piece *piece, uint64_t address, uint64_t *end)
{
    uint64_t index = (address - piece->base) / piece->page_size;
    *end = piece->base + (index + 1) * piece->page_size;
    return &piece->pages[index];
}

// A page has one size of blocks, or 0: none, or several.
static void note_size(struct as_runtime_page_record *page, uint32_t block_size)
{
    bool first = page->in_use == 0 && page->free == 0;
    uint32_t units = block_size / AS_RUNTIME_UNIT;
    page->block_size = units <= UINT8_MAX && (first || page->block_size == units) ? (uint8_t)units : 0;
}

void as_runtime_piece_count(const struct as_runtime_piece *piece, uint64_t from, uint64_t to, uint64_t in_use,
                            uint32_t block_size)
{
    uint64_t units = (to - from) / AS_RUNTIME_UNIT, used = in_use / AS_RUNTIME_UNIT;
    bool mean = used != 0 && used != units;
    uint64_t behind = 0, used_behind = 0; // of the pages before this one
    for (uint64_t at = from, end; at < to; at = end) {
        struct as_runtime_page_record *page = page_at(piece, at, &end);
        mean &= at != from || end < to; // of a range on one page both numbers are the page's
        end = end < to ? end : to;
        note_size(page, block_size);
        uint64_t behind_here = (end - from) / AS_RUNTIME_UNIT;
        uint64_t used_here = used == units ? behind_here : used * behind_here / units;
        page->in_use += (uint16_t)(used_here - used_behind);
        page->free += (uint16_t)(behind_here - behind - (used_here - used_behind));
        page->flags |= mean ? AS_RUNTIME_PAGE_MEAN : 0;
        behind = behind_here;
        used_behind = used_here;
    }
}

void as_runtime_piece_free(const struct as_runtime_piece *piece, uint64_t from, uint64_t to)
{
    for (uint64_t at = from, end; at < to; at = end) {
        struct as_runtime_page_record *page = page_at(piece, at, &end);
        end = end < to ? end : to;
        uint16_t units = (uint16_t)((end - at) / AS_RUNTIME_UNIT);
        page->in_use -= units;
        page->free += units;
    }
}
