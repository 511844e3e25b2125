// SPDX-License-Identifier: MIT
#include "malloc/fastbins.h"
#include "base/cycle.h"
#include "base/sort.h"
#include "malloc/tcache.h"

#include <string.h>
#include <sys/random.h>

enum {
    FASTBINS = 10,
    BIN_MASK = 15,
    VISITED = 15,             // in place of a bin's index
    MAX_CANDIDATES = 1 << 21, // 32 MiB of them
};

void as_fastbin_candidates_begin(struct as_fastbin_candidates *n, const struct as_heaps *h, uint32_t arena)
{
    const struct as_arena *a = &h->arenas.items[arena];
    n->links.count = 0;
    n->bins = 0;
    n->safe_linking = a->libc->layout.heap.safe_linking;
    n->overflow = false;
    n->low = UINT64_MAX;
    n->high = 0;
    for (int i = 0; i < a->libc->layout.state.fastbin_count && i < FASTBINS; i++)
        if (a->fastbins[i] != 0)
            n->bins |= (uint16_t)(1 << i);
    for (size_t i = 0; i < h->heaps.count; i++) {
        if (h->heaps.items[i].arena != arena)
            continue;
        n->low = h->heaps.items[i].start < n->low ? h->heaps.items[i].start : n->low;
        n->high = h->heaps.items[i].end > n->high ? h->heaps.items[i].end : n->high;
    }
}

void as_fastbin_candidate_add(struct as_fastbin_candidates *n, uint64_t chunk, uint64_t size, uint64_t link)
{
    uint64_t bin = size / AS_ALIGNMENT - 2;
    if (bin >= FASTBINS || !(n->bins & (1 << bin)))
        return;
    uint64_t next = as_reveal_ptr(n->safe_linking, chunk + AS_HEADER, link);
    if (next != 0 && (next % AS_ALIGNMENT != 0 || next < n->low || next >= n->high))
        return;
    if (n->links.count >= MAX_CANDIDATES) {
        n->overflow = true;
        return;
    }
    n->overflow |= !as_vec_push(&n->links, NULL, (struct as_fastbin_link){.chunk = chunk | bin, .next = next});
}

void as_fastbin_candidates_free(struct as_fastbin_candidates *n)
{
    AS_FREE_VECS(n, links, slots);
}

// From address to note, by open addressing.
struct index {
    uint32_t *slots; // number of a note, plus one
    uint64_t mask;
    uint64_t multiplier; // a random one: chunks cannot be placed so that they collide
};

static uint64_t slot_of(const struct index *x, uint64_t chunk)
{
    return ((chunk / AS_ALIGNMENT) * x->multiplier >> 24) & x->mask;
}

static bool index_candidates(struct index *x, struct as_fastbin_candidates *n, struct as_error *err)
{
    size_t slots = 1024;
    while (slots < n->links.count * 2)
        slots *= 2;
    if (!as_vec_reserve(&n->slots, slots, err))
        return false;
    x->slots = n->slots.items;
    // Written to before it is read, which would map pages of zeros first, to be exchanged one by one on all processors.
    memset(x->slots, 0, slots * sizeof *x->slots);
    x->mask = slots - 1;
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        random = 0; // the kernel has no random bytes yet: the constant must do
    x->multiplier = (random ^ UINT64_C(0x9E3779B97F4A7C15)) | 1;
    for (size_t i = 0; i < n->links.count; i++) {
        uint64_t at = slot_of(x, n->links.items[i].chunk & ~(uint64_t)BIN_MASK);
        while (x->slots[at] != 0)
            at = (at + 1) & x->mask;
        x->slots[at] = (uint32_t)i + 1;
    }
    return true;
}

static struct as_fastbin_link *find_link(const struct index *x, struct as_fastbin_candidates *n, uint64_t chunk)
{
    for (uint64_t at = slot_of(x, chunk); x->slots[at] != 0; at = (at + 1) & x->mask) {
        struct as_fastbin_link *link = &n->links.items[x->slots[at] - 1];
        if ((link->chunk & ~(uint64_t)BIN_MASK) == chunk)
            return link;
    }
    return NULL;
}

bool as_fastbin_members_resolve(const struct as_arena *arena, struct as_fastbin_candidates *n, as_address_vec *members,
                                void (*fault)(void *context, uint64_t address, const char *what), void *context,
                                struct as_error *err)
{
    struct index x = {0};
    if (!index_candidates(&x, n, err) || !as_vec_reserve(members, n->links.count, err))
        return false;
    uint64_t at[FASTBINS];
    int active = 0;
    for (int bin = 0; bin < FASTBINS; bin++) {
        at[bin] = n->bins & (1 << bin) ? arena->fastbins[bin] : 0;
        active += at[bin] != 0;
    }
    // All lists at once, one step each in turn: every step is a cache miss, and those of different lists overlap.
    while (active > 0) {
        for (int bin = 0; bin < FASTBINS; bin++) {
            if (at[bin] == 0)
                continue;
            struct as_fastbin_link *link = find_link(&x, n, at[bin]);
            if (!link || (link->chunk & BIN_MASK) != (uint64_t)bin) {
                bool twice = link && (link->chunk & BIN_MASK) == VISITED;
                if (fault)
                    fault(context, at[bin],
                          twice ? "a fastbin's list has a cycle"
                                : "a fastbin's list leads to something other than a chunk");
                at[bin] = 0;
            } else {
                link->chunk |= VISITED;
                members->items[members->count++] = at[bin];
                at[bin] = link->next;
            }
            active -= at[bin] == 0;
        }
    }
    return as_sort_u64(members->items, members->count, err);
}

struct free_chunk {
    uint64_t prev_size, size, link;
};

// One list in the target; false only when memory ran out.
static bool follow_list(struct as_heaps *h, uint32_t arena, int bin, struct as_page_cache *cache,
                        as_address_vec *members, struct as_error *err)
{
    const struct as_arena *a = &h->arenas.items[arena];
    uint64_t chunk = a->fastbins[bin];
    uint64_t remembered = 0;
    for (uint64_t steps = 1; chunk != 0; steps++) {
        struct free_chunk c;
        if (as_is_cycle(&remembered, chunk, steps)) {
            as_fault_note(h, arena, UINT32_MAX, chunk, "a fastbin's list has a cycle");
            return true;
        }
        if (chunk % AS_ALIGNMENT != 0 || !as_heaps_at(h, chunk) || !as_page_cache_read(cache, chunk, &c, sizeof c) ||
            (as_chunksize(c.size)) != AS_MIN_CHUNK + (uint64_t)bin * AS_ALIGNMENT) {
            as_fault_note(h, arena, UINT32_MAX, chunk, "a fastbin's list leads to something other than a chunk");
            return true;
        }
        if (!as_vec_push(members, err, chunk))
            return false;
        chunk = as_reveal_ptr(a->libc->layout.heap.safe_linking, chunk + AS_HEADER, c.link);
    }
    return true;
}

bool as_fastbin_members_read(struct as_heaps *h, uint32_t arena, as_address_vec *members, struct as_error *err)
{
    struct as_page_cache cache;
    if (!as_page_cache_open(&cache, h->target, err))
        return false;
    bool ok = true;
    for (int bin = 0; ok && bin < h->arenas.items[arena].libc->layout.state.fastbin_count && bin < FASTBINS; bin++)
        ok = follow_list(h, arena, bin, &cache, members, err);
    as_page_cache_close(&cache);
    return ok && as_sort_u64(members->items, members->count, err);
}
