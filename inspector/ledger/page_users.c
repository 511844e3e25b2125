// SPDX-License-Identifier: MIT
#include "ledger/page_users.h"
#include "base/memory.h"

#include <stdlib.h>

static int by_start(const void *a, const void *b)
{
    const struct as_heap_record *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

bool as_page_users_open(struct as_page_users *u, uint32_t users)
{
    u->users = users;
    u->page = UINT64_MAX;
    size_t count = u->store->heaps.count;
    if (!as_vec_reserve(&u->heaps, count + 1, u->err))
        return false;
    for (size_t i = 0; i < count; i++)
        u->heaps.items[u->heaps.count++] = u->store->heaps.items[i];
    if (count > 0)
        qsort(u->heaps.items, count, sizeof *u->heaps.items, by_start);
    u->places = as_memory_map(users * sizeof *u->places + 1, "the users of pages", u->err);
    return u->places != NULL;
}

void as_page_users_close(struct as_page_users *u)
{
    as_memory_unmap(u->places, u->users * sizeof *u->places + 1);
    AS_FREE_VECS(u, heaps, here);
}

const struct as_heap_record *as_page_users_heap(struct as_page_users *u, uint64_t address)
{
    const struct as_heap_record *heaps = u->heaps.items;
    if (u->heaps.count == 0)
        return NULL;
    if (address < heaps[u->heap].start || address >= heaps[u->heap].end)
        u->heap = AS_PARTITION_POINT(1, u->heaps.count, i, heaps[i].start <= address) - 1;
    const struct as_heap_record *found = &heaps[u->heap];
    return address >= found->start && address < found->end ? found : NULL;
}

static bool close_page(struct as_page_users *u)
{
    if (u->here.count == 0)
        return true;
    const struct as_page_record *page = &u->store->pages.items[u->page];
    struct as_used_page used = {
        .page = u->page,
        .here = u->here.items,
        .users = u->here.count,
        .chunks = u->chunks,
        .stranded = page->residency & AS_RES_PRESENT ? ((uint64_t)page->binned + page->top) * AS_UNIT : 0,
    };
    u->here.count = 0;
    return u->take(u->context, &used);
}

// On the current page.
static bool put_here(struct as_page_users *u, uint32_t user, uint64_t bytes)
{
    struct as_page_user_place *place = &u->places[user];
    u->chunks++;
    if (place->page != u->page + 1) {
        struct as_page_user *added = as_vec_add(&u->here, u->err);
        if (!added)
            return false;
        *added = (struct as_page_user){.user = user};
        *place = (struct as_page_user_place){u->page + 1, (uint32_t)(added - u->here.items)};
    }
    u->here.items[place->place].count++;
    u->here.items[place->place].bytes += bytes;
    return true;
}

static bool put_on_page(struct as_page_users *u, uint64_t page, uint32_t user, uint64_t bytes)
{
    if (page != u->page) {
        if (!close_page(u))
            return false;
        u->page = page;
        u->chunks = 0;
    }
    return put_here(u, user, bytes);
}

bool as_page_users_put(struct as_page_users *u, uint32_t user, uint64_t address, uint64_t size)
{
    uint64_t end = address + size;
    if (address >= u->from && end <= u->until && size > 0) // most chunks: they need no heap, and no division
        return put_here(u, user, size);
    const struct as_heap_record *heap = as_page_users_heap(u, address);
    if (!heap)
        return true;
    uint64_t page_size = u->page_size;
    uint64_t base = heap->start / page_size * page_size;
    for (uint64_t at = address; at < end;) {
        uint64_t start = at / page_size * page_size, next = start + page_size, index = (at - base) / page_size;
        if (index >= heap->page_count ||
            !put_on_page(u, heap->first_page + index, user, (next < end ? next : end) - at))
            return index >= heap->page_count;
        u->from = start > heap->start ? start : heap->start;
        u->until = next < heap->end ? next : heap->end;
        at = next;
    }
    return true;
}

bool as_page_users_end(struct as_page_users *u)
{
    return close_page(u);
}
