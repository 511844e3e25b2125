// SPDX-License-Identifier: MIT
#include "target/mapping.h"
#include "target/target.h"

size_t as_target_mapping_from(const struct as_target *t, uint64_t address)
{
    size_t low = 0;
    size_t high = t->mappings.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->mappings.items[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct as_mapping *as_target_mapping_at(const struct as_target *t, uint64_t address)
{
    size_t i = as_target_mapping_from(t, address);
    return i < t->mappings.count && t->mappings.items[i].start <= address ? &t->mappings.items[i] : NULL;
}
