// SPDX-License-Identifier: MIT
#include "base/memory.h"
#include "ledger/builder.h"

#include <string.h>

enum { FIRST_SLOTS = 1024 };

bool as_sizes_open(struct as_sizes *s, struct as_error *err)
{
    *s = (struct as_sizes){0};
    s->direct = as_memory_map(AS_SIZES_DIRECT * sizeof *s->direct, "the table of chunk sizes", err);
    if (!s->direct)
        return false;
    s->slots = FIRST_SLOTS;
    return as_vec_reserve(&s->large, s->slots, err);
}

void as_sizes_close(struct as_sizes *s)
{
    as_memory_unmap(s->direct, AS_SIZES_DIRECT * sizeof *s->direct);
    as_vec_free(&s->large);
    *s = (struct as_sizes){0};
}

static struct as_size_count *slot_for(struct as_size_count *items, size_t slots, uint64_t size)
{
    size_t at = (size_t)((size / AS_UNIT) * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (slots - 1);
    while (items[at].record.chunk_size != 0 && items[at].record.chunk_size != size)
        at = (at + 1) & (slots - 1);
    return &items[at];
}

static bool grow_sizes(struct as_sizes *s)
{
    AS_VEC(struct as_size_count) bigger = {0};
    size_t slots = s->slots * 2;
    if (!as_vec_reserve(&bigger, slots, NULL))
        return false;
    for (size_t i = 0; i < s->slots; i++)
        if (s->large.items[i].record.chunk_size != 0)
            *slot_for(bigger.items, slots, s->large.items[i].record.chunk_size) = s->large.items[i];
    size_t count = s->large.count;
    as_vec_free(&s->large);
    memcpy(&s->large, &bigger, sizeof bigger);
    s->large.count = count;
    s->slots = slots;
    return true;
}

struct as_size_count *as_sizes_large(struct as_sizes *s, uint64_t size)
{
    if (s->large.count * 2 >= s->slots && !grow_sizes(s))
        return NULL;
    struct as_size_count *slot = slot_for(s->large.items, s->slots, size);
    if (slot->record.chunk_size == 0) {
        slot->record.chunk_size = size;
        s->large.count++;
    }
    return slot;
}

static void add_counts(struct as_size_count *to, const struct as_size_count *from)
{
    to->record.in_use += from->record.in_use;
    to->record.tcache += from->record.tcache;
    to->record.fastbin += from->record.fastbin;
    to->record.binned += from->record.binned;
    to->record.pin_count += from->record.pin_count;
    to->record.pin_pages += from->record.pin_pages;
    to->record.pin_stranded += from->record.pin_stranded;
    to->record.tail_count += from->record.tail_count;
    to->record.tail_bytes += from->record.tail_bytes;
    to->places += from->places;
    to->shared_stranded += from->shared_stranded;
}

// Most sizes have no chunk. Their pages stay untouched in the sum.
static bool has_counts(const struct as_size_count *size)
{
    static const struct as_size_count none;
    return memcmp(size, &none, sizeof none) != 0;
}

bool as_sizes_add(struct as_sizes *to, struct as_sizes *from)
{
    if (!to->used) { // the first to be added, and often the only one
        struct as_sizes unused = *to;
        *to = *from;
        *from = unused;
        return true;
    }
    for (size_t i = 0; i < AS_SIZES_DIRECT; i++)
        if (has_counts(&from->direct[i]))
            add_counts(&to->direct[i], &from->direct[i]);
    AS_FOR_ITEMS(const struct as_size_count, size, from->large.items, from->slots) {
        struct as_size_count *sum = size->record.chunk_size != 0 ? as_sizes_large(to, size->record.chunk_size) : NULL;
        if (sum)
            add_counts(sum, size);
        else if (size->record.chunk_size != 0)
            return false;
    }
    return true;
}
