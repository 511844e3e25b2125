// SPDX-License-Identifier: MIT
// Which slots of Ruby's pages hold no object. Every object begins with its flags, which are never 0; those of a free slot are
// (RBASIC(obj)->flags: what ObjectSpace.count_objects[:FREE] goes by, too).
#include "runtimes/ruby_layouts.h"

#include <string.h>

enum { LARGEST = 65536 };

bool as_ruby_count_slots(struct as_target *t, struct as_ruby *r, struct as_error *err)
{
    AS_VEC(uint8_t) buffer = {0};
    if (!as_vec_reserve(&buffer, LARGEST, err))
        return false;
    for (size_t i = 0; i < r->pages.count && r->proven; i++) {
        struct as_ruby_page *page = &r->pages.items[i];
        r->proven =
            page->size <= LARGEST && as_target_read_resident(t, page->address, buffer.items, page->size) == page->size;
        const uint8_t *slot = buffer.items + page->first_slot;
        for (uint32_t k = 0; k < page->total_slots && r->proven; k++, slot += page->slot_size) {
            uint64_t flags;
            memcpy(&flags, slot, sizeof flags);
            page->free_slots += flags == 0;
        }
    }
    if (!r->proven)
        r->pages.count = 0;
    as_vec_free(&buffer);
    return true;
}
