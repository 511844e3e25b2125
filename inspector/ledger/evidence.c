// SPDX-License-Identifier: MIT
#include "ledger/ledger.h"

#include <string.h>

uint32_t as_largest_sizes(const struct as_view *v, struct as_largest_size out[AS_LARGEST_SIZES])
{
    uint32_t count = 0;
    AS_FOR_ITEMS(const struct as_size_record, s, v->sizes, v->size_count) {
        struct as_largest_size size = {s->chunk_size, s->in_use, 0};
        bool known = s->chunk_size != AS_UNKNOWN && s->in_use != AS_UNKNOWN;
        if (!known || __builtin_mul_overflow(size.chunk_size, size.count, &size.bytes) || size.bytes == 0)
            continue;
        uint32_t at = count; // of equals the smaller size stays ahead
        while (at > 0 && out[at - 1].bytes < size.bytes)
            at--;
        if (at == AS_LARGEST_SIZES)
            continue;
        count += count < AS_LARGEST_SIZES;
        memmove(&out[at + 1], &out[at], (count - at - 1) * sizeof out[0]);
        out[at] = size;
    }
    return count;
}

uint64_t as_largest_mmapped(const struct as_view *v)
{
    uint64_t largest = 0;
    AS_FOR_ITEMS(const struct as_heap_record, h, v->heaps, v->heap_count)
        if (h->kind == AS_HEAP_MMAPPED && h->end > h->start && h->end - h->start > largest)
            largest = h->end - h->start;
    return largest;
}

static struct as_releasable pages_of(const struct as_view *v, const struct as_heap_record *h)
{
    struct as_releasable found = {0};
    for (uint64_t i = h->first_page; i < h->first_page + h->page_count; i++) {
        if (v->pages[i].state != AS_PAGE_RELEASABLE)
            continue;
        if (v->pages[i].top)
            found.end++;
        else
            found.below++;
    }
    return found;
}

struct as_releasable as_releasable_pages(const struct as_view *v)
{
    if (v->totals->ledger.malloc_trim == AS_UNKNOWN)
        return (struct as_releasable){AS_UNKNOWN, AS_UNKNOWN, AS_UNKNOWN};
    struct as_releasable sum = {0};
    uint32_t counted = UINT32_MAX; // the heaps of an arena follow one another
    AS_FOR_ITEMS(const struct as_heap_record, h, v->heaps, v->heap_count) {
        // Most pages of most arenas are in use: the row tells without a snapshot of each.
        if (h->arena == UINT32_MAX || v->arenas[h->arena].ledger.releasable == 0)
            continue;
        struct as_releasable found = pages_of(v, h);
        sum.end += found.end * v->meta->page_size;
        sum.below += found.below * v->meta->page_size;
        if (found.below && h->arena != counted) {
            sum.arenas++;
            counted = h->arena;
        }
    }
    return sum;
}
