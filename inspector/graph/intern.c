// SPDX-License-Identifier: MIT
#include "base/memory.h"
#include "graph/section_owners.h"

bool as_keys_open(struct as_keys *k, uint32_t most, struct as_error *err)
{
    *k = (struct as_keys){.size = 4, .most = most};
    while (k->size < (size_t)most * 2)
        k->size *= 2;
    k->slots = as_memory_map(k->size * sizeof *k->slots, "numbers of keys", err);
    return k->slots;
}

void as_keys_close(struct as_keys *k)
{
    as_memory_unmap(k->slots, k->size * sizeof *k->slots);
    as_vec_free(&k->list);
    *k = (struct as_keys){0};
}

// Where a key is, or would be. At most half of the slots are taken, so that the search ends.
static uint32_t *slot_of(const struct as_keys *k, uint64_t key)
{
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t at = (hash ^ hash >> 32) & (k->size - 1);; at = (at + 1) & (k->size - 1)) {
        uint32_t number = k->slots[at];
        if (number == 0 || k->list.items[number - 1] == key)
            return &k->slots[at];
    }
}

uint32_t as_key_find(const struct as_keys *k, uint64_t key)
{
    return *slot_of(k, key) - 1; // 0 becomes AS_NO_KEY
}

uint32_t as_key_add(struct as_keys *k, uint64_t key)
{
    uint32_t *slot = slot_of(k, key);
    if (*slot != 0)
        return *slot - 1;
    uint64_t *added = k->list.count < k->most ? as_vec_add(&k->list, NULL) : NULL;
    if (!added)
        return AS_NO_KEY;
    *added = key;
    *slot = (uint32_t)k->list.count;
    return *slot - 1;
}
