// SPDX-License-Identifier: MIT
// Whether words are addresses of memory that a runtime may have, for many words. Internal to runtimes/.
#pragma once

#include "runtimes/regions.h"

enum {
    AS_PLACES = 256, // mappings, or gaps between two, that words were last searched in
    AS_PLACE_BITS =
        16, // addresses are told apart by those above: a library's code, data and the memory behind it lie in few of them
};

// All 0 at first.
struct as_memory_places {
    struct {
        struct as_range range;
        bool is_memory; // a runtime may have memory there
    } asked[AS_PLACES];
};

// Does the address lie in memory that a runtime may have? Words that follow each other mostly lie in a few mappings, or in none.
static inline bool as_is_in_runtime_memory(struct as_memory_places *places, const struct as_target *t, uint64_t address)
{
    size_t place = (address >> AS_PLACE_BITS) % AS_PLACES;
    struct as_range *range = &places->asked[place].range;
    if (address < range->start || address >= range->end) {
        size_t i = as_target_mapping_from(t, address);
        const struct as_mapping *m = t->mappings.items + i;
        bool mapped = i < t->mappings.count && m->start <= address;
        uint64_t below = i > 0 ? m[-1].end : 0, above = i < t->mappings.count ? m->start : UINT64_MAX;
        *range = mapped ? (struct as_range){m->start, m->end} : (struct as_range){below, above};
        places->asked[place].is_memory = mapped && as_is_runtime_memory(m);
    }
    return places->asked[place].is_memory;
}
