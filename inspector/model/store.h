// SPDX-License-Identifier: MIT
// The records of one capture as they are made: growable, and owned by the capture's caller.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "model/view.h"

typedef AS_VEC(struct as_page_record) as_page_vec;
typedef AS_VEC(struct as_runtime_page_record) as_runtime_page_vec;

struct as_store {
    struct as_meta_record meta;
    struct as_totals_record totals;
    AS_VEC(struct as_malloc_record) mallocs;
    AS_VEC(struct as_arena_record) arenas;
    AS_VEC(struct as_heap_record) heaps;
    as_page_vec pages;
    AS_VEC(struct as_size_record) sizes;
    AS_VEC(struct as_thread_record) threads;
    AS_VEC(struct as_mapping_record) mappings;
    AS_VEC(struct as_ruby_page_record) ruby;
    AS_VEC(struct as_runtime_record) runtimes;
    AS_VEC(struct as_region_record) regions;
    AS_VEC(struct as_size_class_record) size_classes;
    AS_VEC(struct as_type_record) types;
    AS_VEC(struct as_class_record) classes;
    as_runtime_page_vec runtime_pages;
    AS_VEC(struct as_space_record) spaces;
    AS_VEC(struct as_fill_record) page_fill;
    AS_VEC(struct as_sharer_record) sharers;
    AS_VEC(struct as_graph_record) graph;
    AS_VEC(struct as_graph_type_record) graph_types;
    AS_VEC(struct as_graph_owner_record) graph_owners;
    AS_VEC(struct as_graph_branch_record) graph_branches;
    AS_VEC(struct as_graph_leak_record) graph_leaks;
    AS_VEC(struct as_graph_holder_record) graph_holders;
    AS_VEC(struct as_graph_place_record) graph_places;
    AS_VEC(struct as_graph_leading_record) graph_leading;
    AS_VEC(struct as_profile_record) profile;
    AS_VEC(struct as_profile_module_record) profile_modules;
    AS_VEC(struct as_profile_frame_record) profile_frames;
    AS_VEC(struct as_profile_stack_record) profile_stacks;
    AS_VEC(struct as_profile_site_record) profile_sites;
    AS_VEC(struct as_profile_kept_record) profile_kept;
    AS_VEC(struct as_profile_place_record) profile_places;
    AS_VEC(struct as_profile_line_record) profile_lines;
    AS_VEC(struct as_profile_thread_record) profile_threads;
    AS_VEC(struct as_profile_share_record) profile_shares;
    AS_VEC(struct as_warning_record) warnings;
    struct as_strings strings;
    // Chunk records go straight to a file: they may be many times our memory limit. Here is only how many there are.
    uint64_t chunk_count;
};

// Frees what a walk of the heaps fills in, before another walk. The first `warnings` warnings stay: they are of before the walk.
void as_store_clear_walk(struct as_store *s, size_t warnings);
// Frees all records.
void as_store_free(struct as_store *s);

// The snapshot as a view (without chunks: they are in the file).
struct as_view as_store_view(const struct as_store *s);

// The rows of the whole process, and one of them.
static inline struct as_row_values as_store_rows(const struct as_store *s)
{
    return (struct as_row_values){&s->totals.ledger, s->meta.later_rows};
}
static inline uint64_t *as_store_row(struct as_store *s, int row)
{
    return row < AS_ROW_PLACES ? as_row_of(&s->totals.ledger, row) : &s->meta.later_rows[row - AS_ROW_PLACES];
}

// Adds a warning; address AS_UNKNOWN, arena and heap UINT32_MAX when it is about none.
void as_store_warn(struct as_store *s, enum as_warning code, uint32_t arena, uint32_t heap, uint64_t address,
                   const char *format, ...) __attribute__((format(printf, 6, 7)));
