// SPDX-License-Identifier: MIT
#include "target/mapping.h"
#include "target/target.h"

size_t as_target_mapping_from(const struct as_target *t, uint64_t address)
{
    return AS_PARTITION_POINT(0, t->mappings.count, i, t->mappings.items[i].end <= address);
}

const struct as_mapping *as_target_mapping_at(const struct as_target *t, uint64_t address)
{
    size_t i = as_target_mapping_from(t, address);
    return i < t->mappings.count && t->mappings.items[i].start <= address ? &t->mappings.items[i] : NULL;
}
