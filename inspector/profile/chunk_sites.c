// SPDX-License-Identifier: MIT
#include "profile/head.h"
#include "profile/parts.h"

#include <string.h>

bool as_profile_chunks_open(struct as_profile_chunks *c, struct as_target *t, const struct as_profile_head *head,
                            struct as_error *err)
{
    c->head = head;
    c->block_count = as_profile_used(&head->blocks);
    c->large_count = as_profile_used(&head->large_slots);
    c->blocks.source = as_profile_source_of(t, head, &head->blocks, c->block_count, head->block_size);
    c->page_source = as_profile_source_of(t, head, &head->pages, head->pages.size, sizeof *c->pages);
    c->large_source = as_profile_source_of(t, head, &head->large_slots, c->large_count, sizeof *c->large_slots);
    c->refused_source = as_profile_source_of(t, head, &head->refused, head->counts.lost != 0 ? head->refused.size : 0,
                                             sizeof *c->refused);
    return as_profile_pieces_open(&c->blocks, err) && (c->pages = as_profile_copy(&c->page_source, err)) &&
           (c->large_slots = as_profile_copy(&c->large_source, err)) &&
           (c->refused = as_profile_copy(&c->refused_source, err));
}

void as_profile_chunks_free(struct as_profile_chunks *c)
{
    as_profile_pieces_free(&c->blocks);
    as_profile_copy_free(&c->page_source, c->pages);
    as_profile_copy_free(&c->large_source, c->large_slots);
    as_profile_copy_free(&c->refused_source, c->refused);
}

// The number of a page's block, or of its large slot; UINT64_MAX: it has none.
static uint64_t find_page(const struct as_profile_chunks *c, uint64_t page, uint64_t count)
{
    uint64_t mask = c->head->pages.size - 1;
    uint64_t place = as_profile_place(page, as_profile_run(c->head->rate_shift), mask);
    const uint32_t probes = as_profile_probes(c->head->rate_shift);
    for (uint32_t i = 0; i < probes; i++, place = (place + 1) & mask) {
        uint64_t entry = c->pages[place];
        uint64_t number = (entry & AS_PROFILE_BLOCK_MASK) - 1;
        if (entry == 0)
            return UINT64_MAX;
        if (entry >> AS_PROFILE_BLOCK_BITS == page && number < count)
            return number;
    }
    return UINT64_MAX;
}

// Chunks come by their addresses: some 40 in a row begin on the same page.
static void turn_page(struct as_profile_chunks *c, uint64_t page)
{
    if (page == c->page.number && c->page.known)
        return;
    const bool watched = as_profile_page_hash(page) <= as_profile_watched(c->head->rate_shift);
    const uint64_t number = find_page(c, page, watched ? c->block_count : c->large_count);
    c->page = (struct as_profile_chunks_page){.number = page, .known = true, .watched = watched};
    if (number == UINT64_MAX)
        return;
    c->page.found = true;
    if (watched)
        c->page.block = as_profile_piece(&c->blocks, number);
    else
        c->page.large = c->large_slots[number];
}

static uint32_t slot_of(const struct as_profile_chunks *c, uint64_t chunk)
{
    uint64_t offset = chunk & ((UINT64_C(1) << c->head->page_shift) - 1);
    uint32_t slot = c->page.large;
    if (c->page.block)
        memcpy(&slot, c->page.block + (offset >> AS_PROFILE_SLOT_SHIFT) * sizeof slot, sizeof slot);
    return slot;
}

// Whether a chunk on a page without slots was seen: there was no room for it.
static bool was_refused(const struct as_profile_chunks *c, uint64_t chunk)
{
    if (c->page.found || c->refused_source.count == 0)
        return false;
    uint64_t bit = as_profile_refused_bit(chunk, c->refused_source.count);
    return c->refused[bit / 64] >> bit % 64 & 1;
}

// Counts a chunk in use for its context, which it returns; AS_PROFILE_NOBODY: it is not known.
static uint32_t count_chunk(struct as_profile_chunks *c, struct as_profile_counted *counted, uint64_t chunk,
                            uint64_t size)
{
    bool large = size >= c->head->large;
    uint64_t rate = large ? 1 : UINT64_C(1) << c->head->rate_shift;
    turn_page(c, chunk >> c->head->page_shift);
    if (!large && !c->page.watched)
        return AS_PROFILE_NOBODY;
    uint32_t slot = slot_of(c, chunk);
    uint32_t id = slot & AS_PROFILE_ID_MASK;
    uint32_t check = c->page.watched ? as_profile_check(chunk, size) : as_profile_large_check(chunk, size);
    // Another chunk than the one that was seen to begin there.
    bool unseen = id == AS_PROFILE_NOBODY || id >= counted->context_count || slot >> AS_PROFILE_ID_BITS != check;
    if (unseen && was_refused(c, chunk)) {
        unseen = false;
        id = AS_PROFILE_LOST;
    }
    struct as_profile_live *live = unseen ? &counted->unseen : &counted->live[id];
    live->seen_count++;
    live->seen_bytes += size;
    live->count += rate;
    live->bytes += rate * size;
    return unseen ? AS_PROFILE_NOBODY : id;
}

void as_profile_chunks_count(struct as_profile_chunks *c, const as_boundary_vec *boundaries,
                             struct as_profile_counted *counted)
{
    for (size_t i = 0; i < boundaries->count; i++) {
        const uint64_t size = as_boundary_size(boundaries, i);
        if (size != 0)
            counted->id_of[i] = count_chunk(c, counted, boundaries->items[i], size);
    }
}
