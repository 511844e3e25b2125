// SPDX-License-Identifier: MIT
// Which slots of Ruby's pages hold no object. Every object begins with its flags, which are never 0; those of a free slot are
// (RBASIC(obj)->flags: what ObjectSpace.count_objects[:FREE] goes by, too).
#include "runtimes/pages.h"
#include "runtimes/ruby_layouts.h"

#include <string.h>

enum { LARGEST = 65536 };

// Adds the kernel's pages of a page of Ruby's, with all of its slots in use so far.
static bool add_kernel_pages(const struct as_target *t, struct as_ruby *r, const struct as_ruby_page *page,
                             struct as_runtime_piece *piece, struct as_error *err)
{
    uint64_t from = page->address + page->first_slot, size = (uint64_t)page->total_slots * page->slot_size;
    if (!as_runtime_pages_add(&r->kernel_pages, AS_RUNTIME_RUBY, page->address, page->size, t->page_size, piece, err))
        return false;
    as_runtime_piece_count(piece, from, from + size, size, page->slot_size);
    return true;
}

bool as_ruby_count_slots(struct as_target *t, struct as_ruby *r, struct as_error *err)
{
    AS_VEC(uint8_t) buffer = {0};
    if (!as_vec_reserve(&buffer, LARGEST, err))
        return false;
    for (size_t i = 0; i < r->pages.count && r->proven; i++) {
        struct as_ruby_page *page = &r->pages.items[i];
        r->proven =
            page->size <= LARGEST && as_target_read_resident(t, page->address, buffer.items, page->size) == page->size;
        struct as_runtime_piece piece;
        bool paged = r->proven && r->wants_kernel_pages;
        if (paged && !add_kernel_pages(t, r, page, &piece, err)) {
            as_vec_free(&buffer);
            return false;
        }
        const uint8_t *slot = buffer.items + page->first_slot;
        for (uint32_t k = 0; k < page->total_slots && r->proven; k++, slot += page->slot_size) {
            uint64_t flags;
            memcpy(&flags, slot, sizeof flags);
            page->free_slots += flags == 0;
            uint64_t at = page->address + (uint64_t)(slot - buffer.items);
            if (flags == 0 && paged)
                as_runtime_piece_free(&piece, at, at + page->slot_size);
        }
    }
    if (!r->proven)
        r->pages.count = r->kernel_pages.count = 0;
    as_vec_free(&buffer);
    return true;
}
