// SPDX-License-Identifier: MIT
// The sections of a dump, as one table that writer and reader share: where each stands in a view.
#pragma once

#include "model/view.h"

#include <stdbool.h>
#include <stddef.h>

enum as_section_id {
    AS_SECTION_META,
    AS_SECTION_TOTALS,
    AS_SECTION_MALLOCS,
    AS_SECTION_ARENAS,
    AS_SECTION_HEAPS,
    AS_SECTION_PAGES,
    AS_SECTION_SIZES,
    AS_SECTION_THREADS,
    AS_SECTION_MAPPINGS,
    AS_SECTION_WARNINGS,
    AS_SECTION_STRINGS,
    AS_SECTION_RUBY, // from here on sections that may be missing
    AS_SECTION_RUNTIMES,
    AS_SECTION_REGIONS,
    AS_SECTION_SIZE_CLASSES,
    AS_SECTION_TYPES,
    AS_SECTION_CLASSES,
    AS_SECTION_RUNTIME_PAGES,
    AS_SECTION_SPACES,
    AS_SECTION_PAGE_FILL,
    AS_SECTION_SHARERS,
    AS_SECTION_GRAPH,
    AS_SECTION_GRAPH_TYPES,
    AS_SECTION_GRAPH_OWNERS,
    AS_SECTION_GRAPH_BRANCHES,
    AS_SECTION_GRAPH_LEAKS,
    AS_SECTION_GRAPH_HOLDERS,
    AS_SECTION_GRAPH_PLACES,
    AS_SECTION_GRAPH_LEADING,
    AS_SECTION_PROFILE,
    AS_SECTION_PROFILE_MODULES,
    AS_SECTION_PROFILE_FRAMES,
    AS_SECTION_PROFILE_STACKS,
    AS_SECTION_PROFILE_SITES,
    AS_SECTION_PROFILE_KEPT,
    AS_SECTION_PROFILE_PLACES,
    AS_SECTION_PROFILE_LINES,
    AS_SECTION_PROFILE_THREADS,
    AS_SECTION_PROFILE_SHARES,
    AS_SECTION_CHUNKS,
    AS_SECTION_COUNT,
    AS_SECTION_REQUIRED = AS_SECTION_RUBY
};

enum { AS_SECTION_ALIGN = 64, AS_NO_COUNT = 0xffff };

struct as_section_kind {
    char name[16];
    uint32_t record_size;
    uint16_t pointer; // offset of the section's pointer in struct as_view
    uint16_t count;   // offset of its count there; AS_NO_COUNT: always one record
};

extern const struct as_section_kind as_section_kinds[AS_SECTION_COUNT];
