// SPDX-License-Identifier: MIT
#include "base/number_map.h"
#include "base/memory.h"

enum { FIRST_CAPACITY = 1 << 10 };

// The slot of a key, or the free one where it would be.
static struct as_number_slot *slot_of(const struct as_number_map *m, uint64_t key)
{
    uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15);
    at ^= at >> 32;
    for (;; at++) {
        struct as_number_slot *slot = &m->slots[at & (m->capacity - 1)];
        if (slot->key == key || slot->key == 0)
            return slot;
    }
}

uint32_t as_number_map_get(const struct as_number_map *m, uint64_t key)
{
    return m->capacity == 0 ? 0 : slot_of(m, key)->value;
}

static bool grow_map(struct as_number_map *m, struct as_error *err)
{
    struct as_number_map larger = {.capacity = m->capacity ? m->capacity * 2 : FIRST_CAPACITY, .count = m->count};
    larger.slots = as_memory_map(larger.capacity * sizeof *larger.slots, "a table of types", err);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < m->capacity; i++)
        if (m->slots[i].key != 0)
            *slot_of(&larger, m->slots[i].key) = m->slots[i];
    as_number_map_free(m);
    *m = larger;
    return true;
}

bool as_number_map_put(struct as_number_map *m, uint64_t key, uint32_t value, struct as_error *err)
{
    if (m->count >= m->capacity / 2 && !grow_map(m, err))
        return false;
    struct as_number_slot *slot = slot_of(m, key);
    m->count += slot->key == 0;
    *slot = (struct as_number_slot){key, value};
    return true;
}

void as_number_map_free(struct as_number_map *m)
{
    as_memory_unmap(m->slots, m->capacity * sizeof *m->slots);
    *m = (struct as_number_map){0};
}
