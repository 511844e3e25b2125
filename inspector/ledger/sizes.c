// SPDX-License-Identifier: MIT
#include "ledger/sizes.h"
#include "base/memory.h"

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

static struct as_size_record *slot_for(struct as_size_record *items, size_t slots, uint64_t size)
{
    size_t at = (size_t)((size / AS_UNIT) * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (slots - 1);
    while (items[at].chunk_size != 0 && items[at].chunk_size != size)
        at = (at + 1) & (slots - 1);
    return &items[at];
}

static bool grow(struct as_sizes *s)
{
    AS_VEC(struct as_size_record) bigger = {0};
    size_t slots = s->slots * 2;
    if (!as_vec_reserve(&bigger, slots, NULL))
        return false;
    for (size_t i = 0; i < s->slots; i++)
        if (s->large.items[i].chunk_size != 0)
            *slot_for(bigger.items, slots, s->large.items[i].chunk_size) = s->large.items[i];
    size_t count = s->large.count;
    as_vec_free(&s->large);
    memcpy(&s->large, &bigger, sizeof bigger);
    s->large.count = count;
    s->slots = slots;
    return true;
}

struct as_size_record *as_sizes_large(struct as_sizes *s, uint64_t size)
{
    if (s->large.count * 2 >= s->slots && !grow(s))
        return NULL;
    struct as_size_record *slot = slot_for(s->large.items, s->slots, size);
    if (slot->chunk_size == 0) {
        slot->chunk_size = size;
        s->large.count++;
    }
    return slot;
}

static void add_counts(struct as_size_record *to, const struct as_size_record *from)
{
    to->in_use += from->in_use;
    to->tcache += from->tcache;
    to->fastbin += from->fastbin;
    to->binned += from->binned;
    to->pin_count += from->pin_count;
    to->pin_pages += from->pin_pages;
    to->pin_stranded += from->pin_stranded;
    to->tail_count += from->tail_count;
    to->tail_bytes += from->tail_bytes;
}

bool as_sizes_add(struct as_sizes *to, const struct as_sizes *from)
{
    for (size_t i = 0; i < AS_SIZES_DIRECT; i++)
        add_counts(&to->direct[i], &from->direct[i]);
    for (size_t i = 0; i < from->slots; i++) {
        const struct as_size_record *size = &from->large.items[i];
        struct as_size_record *sum = size->chunk_size != 0 ? as_sizes_large(to, size->chunk_size) : NULL;
        if (sum)
            add_counts(sum, size);
        else if (size->chunk_size != 0)
            return false;
    }
    return true;
}
