// SPDX-License-Identifier: MIT
// All records of a capture, read-only.
#pragma once

#include "model/records.h"

#include <stdbool.h>

// Everything above, wherever it lies: in a snapshot's own memory or mapped from a dump file. What the JSON, the terminal
// table and the pictures are made from.
struct as_view {
    const struct as_meta_record *meta;
    const struct as_totals_record *totals;
    const struct as_malloc_record *mallocs;
    const struct as_arena_record *arenas;
    const struct as_heap_record *heaps;
    const struct as_page_record *pages;
    const uint32_t *chunks; // NULL without --chunks
    const struct as_size_record *sizes;
    const struct as_thread_record *threads;
    const struct as_mapping_record *mappings;
    const struct as_ruby_page_record *ruby;   // NULL in a dump of before 1.1
    const struct as_runtime_record *runtimes; // this and the next two: NULL in a dump of before 1.3
    const struct as_region_record *regions;
    const struct as_size_class_record *size_classes;
    const struct as_type_record *types;    // NULL in a dump of before 1.4
    const struct as_class_record *classes; // this and the next three: NULL in a dump of before 1.5
    const struct as_runtime_page_record *runtime_pages;
    const struct as_fill_record *page_fill;
    const struct as_sharer_record *sharers;
    const struct as_graph_record *graph; // this and the next six: NULL in a dump of before 1.6
    const struct as_graph_type_record *graph_types;
    const struct as_graph_owner_record *graph_owners;
    const struct as_graph_branch_record *graph_branches;
    const struct as_graph_leak_record *graph_leaks;
    const struct as_graph_holder_record *graph_holders;
    const struct as_graph_place_record *graph_places;
    const struct as_space_record *spaces; // this and the next: NULL in a dump of before 1.7
    const struct as_graph_leading_record *graph_leading;
    const struct as_profile_record *profile; // this and the next six: NULL in a dump of before 1.8
    const struct as_profile_module_record *profile_modules;
    const struct as_profile_frame_record *profile_frames;
    const struct as_profile_stack_record *profile_stacks;
    const struct as_profile_site_record *profile_sites;
    const struct as_profile_kept_record *profile_kept;
    const struct as_profile_place_record *profile_places;
    const struct as_profile_line_record *profile_lines;     // NULL in a dump of before 1.9
    const struct as_profile_thread_record *profile_threads; // this and the next: NULL in a dump of before 1.13
    const struct as_profile_share_record *profile_shares;
    bool tells_interpreters;     // whether the profile says which it has no frames of: dumps of before 1.12 do not
    bool tells_lost_allocations; // and what was allocated without a stack: dumps of before 1.14 do not
    const struct as_warning_record *warnings;
    const char *strings;
    uint64_t malloc_count, arena_count, heap_count, page_count, chunk_count, size_count, thread_count, mapping_count,
        ruby_count, runtime_count, region_count, size_class_count, type_count, class_count, runtime_page_count,
        page_fill_count, sharer_count, graph_count, graph_type_count, graph_owner_count, graph_branch_count,
        graph_leak_count, graph_holder_count, graph_place_count, space_count, graph_leading_count, profile_count,
        profile_module_count, profile_frame_count, profile_stack_count, profile_site_count, profile_kept_count,
        profile_place_count, profile_line_count, profile_thread_count, profile_share_count, warning_count, strings_size;
};

// An arena's place among all arenas of a process: what its name is made of. To go through all arenas, begin with zeros and
// the number of main arenas, and call as_arena_place_step for each.
struct as_arena_place {
    uint32_t index;    // in malloc's list; with several libcs, one list after the other
    uint32_t mains;    // main arenas among all arenas: one of each libc
    uint32_t nth_main; // main arenas up to this one
    uint32_t is_main;
};
void as_arena_place_step(struct as_arena_place *place, uint32_t index, bool is_main);
// The place before a view's first arena.
struct as_arena_place as_arena_place_begin(const struct as_view *v);

enum { AS_ARENA_NAME = 32 };

// What every surface calls an arena: "main arena", or "arena 3" by its place among all arenas. With several libcs their main
// arenas are counted: "main arena 2". Returns `out`.
const char *as_arena_place_name(const struct as_arena_place *place, char out[AS_ARENA_NAME]);
// The same for one arena of a view.
const char *as_arena_name(const struct as_view *v, uint32_t arena, char out[AS_ARENA_NAME]);

// The rows of the whole process, and of an arena.
static inline struct as_row_values as_view_rows(const struct as_view *v)
{
    return (struct as_row_values){&v->totals->ledger, v->meta->later_rows};
}
static inline struct as_row_values as_arena_rows(const struct as_arena_record *a)
{
    return (struct as_row_values){&a->ledger, NULL};
}

// A string of the view; "" for an offset that lies outside.
static inline const char *as_view_string(const struct as_view *v, uint32_t offset)
{
    return offset < v->strings_size ? v->strings + offset : "";
}
