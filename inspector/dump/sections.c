// SPDX-License-Identifier: MIT
#include "dump/sections.h"

#define ONE(field, type)                                                                                               \
    {                                                                                                                  \
#field, sizeof(type), offsetof(struct as_view, field), AS_NO_COUNT                                             \
    }
#define MANY(field, type, counter)                                                                                     \
    {                                                                                                                  \
#field, sizeof(type), offsetof(struct as_view, field), offsetof(struct as_view, counter)                       \
    }

const struct as_section_kind as_section_kinds[AS_SECTION_COUNT] = {
    [AS_SECTION_META] = ONE(meta, struct as_meta_record),
    [AS_SECTION_TOTALS] = ONE(totals, struct as_totals_record),
    [AS_SECTION_MALLOCS] = MANY(mallocs, struct as_malloc_record, malloc_count),
    [AS_SECTION_ARENAS] = MANY(arenas, struct as_arena_record, arena_count),
    [AS_SECTION_HEAPS] = MANY(heaps, struct as_heap_record, heap_count),
    [AS_SECTION_PAGES] = MANY(pages, struct as_page_record, page_count),
    [AS_SECTION_SIZES] = MANY(sizes, struct as_size_record, size_count),
    [AS_SECTION_THREADS] = MANY(threads, struct as_thread_record, thread_count),
    [AS_SECTION_MAPPINGS] = MANY(mappings, struct as_mapping_record, mapping_count),
    [AS_SECTION_WARNINGS] = MANY(warnings, struct as_warning_record, warning_count),
    [AS_SECTION_STRINGS] = MANY(strings, char, strings_size),
    [AS_SECTION_RUBY] = MANY(ruby, struct as_ruby_page_record, ruby_count),
    [AS_SECTION_RUNTIMES] = MANY(runtimes, struct as_runtime_record, runtime_count),
    [AS_SECTION_REGIONS] = MANY(regions, struct as_region_record, region_count),
    [AS_SECTION_SIZE_CLASSES] = MANY(size_classes, struct as_size_class_record, size_class_count),
    [AS_SECTION_TYPES] = MANY(types, struct as_type_record, type_count),
    [AS_SECTION_CLASSES] = MANY(classes, struct as_class_record, class_count),
    [AS_SECTION_RUNTIME_PAGES] = MANY(runtime_pages, struct as_runtime_page_record, runtime_page_count),
    [AS_SECTION_SPACES] = MANY(spaces, struct as_space_record, space_count),
    [AS_SECTION_PAGE_FILL] = MANY(page_fill, struct as_fill_record, page_fill_count),
    [AS_SECTION_SHARERS] = MANY(sharers, struct as_sharer_record, sharer_count),
    [AS_SECTION_GRAPH] = MANY(graph, struct as_graph_record, graph_count),
    [AS_SECTION_GRAPH_TYPES] = MANY(graph_types, struct as_graph_type_record, graph_type_count),
    [AS_SECTION_GRAPH_OWNERS] = MANY(graph_owners, struct as_graph_owner_record, graph_owner_count),
    [AS_SECTION_GRAPH_BRANCHES] = MANY(graph_branches, struct as_graph_branch_record, graph_branch_count),
    [AS_SECTION_GRAPH_LEAKS] = MANY(graph_leaks, struct as_graph_leak_record, graph_leak_count),
    [AS_SECTION_GRAPH_HOLDERS] = MANY(graph_holders, struct as_graph_holder_record, graph_holder_count),
    [AS_SECTION_GRAPH_PLACES] = MANY(graph_places, struct as_graph_place_record, graph_place_count),
    [AS_SECTION_GRAPH_LEADING] = MANY(graph_leading, struct as_graph_leading_record, graph_leading_count),
    [AS_SECTION_PROFILE] = MANY(profile, struct as_profile_record, profile_count),
    [AS_SECTION_PROFILE_MODULES] = MANY(profile_modules, struct as_profile_module_record, profile_module_count),
    [AS_SECTION_PROFILE_FRAMES] = MANY(profile_frames, struct as_profile_frame_record, profile_frame_count),
    [AS_SECTION_PROFILE_STACKS] = MANY(profile_stacks, struct as_profile_stack_record, profile_stack_count),
    [AS_SECTION_PROFILE_SITES] = MANY(profile_sites, struct as_profile_site_record, profile_site_count),
    [AS_SECTION_PROFILE_KEPT] = MANY(profile_kept, struct as_profile_kept_record, profile_kept_count),
    [AS_SECTION_PROFILE_PLACES] = MANY(profile_places, struct as_profile_place_record, profile_place_count),
    [AS_SECTION_PROFILE_LINES] = MANY(profile_lines, struct as_profile_line_record, profile_line_count),
    [AS_SECTION_PROFILE_THREADS] = MANY(profile_threads, struct as_profile_thread_record, profile_thread_count),
    [AS_SECTION_PROFILE_SHARES] = MANY(profile_shares, struct as_profile_share_record, profile_share_count),
    [AS_SECTION_CHUNKS] = MANY(chunks, uint32_t, chunk_count),
};

// The sizes are the contract with other readers; a compiler that pads differently must not pass.
_Static_assert(sizeof(struct as_meta_record) == 176, "dump format");
_Static_assert(sizeof(struct as_malloc_record) == 176, "dump format");
_Static_assert(sizeof(struct as_totals_record) == 320, "dump format");
_Static_assert(sizeof(struct as_arena_record) == 384, "dump format");
_Static_assert(sizeof(struct as_heap_record) == 80, "dump format");
_Static_assert(sizeof(struct as_size_record) == 80, "dump format");
_Static_assert(sizeof(struct as_thread_record) == 56, "dump format");
_Static_assert(sizeof(struct as_mapping_record) == 64, "dump format");
_Static_assert(sizeof(struct as_ruby_page_record) == 40, "dump format");
_Static_assert(sizeof(struct as_runtime_record) == 72, "dump format");
_Static_assert(sizeof(struct as_region_record) == 64, "dump format");
_Static_assert(sizeof(struct as_size_class_record) == 32, "dump format");
_Static_assert(sizeof(struct as_type_record) == 64, "dump format");
_Static_assert(sizeof(struct as_class_record) == 64, "dump format");
_Static_assert(sizeof(struct as_runtime_page_record) == 16, "dump format");
_Static_assert(sizeof(struct as_space_record) == 24, "dump format");
_Static_assert(sizeof(struct as_fill_record) == 32, "dump format");
_Static_assert(sizeof(struct as_sharer_record) == 24, "dump format");
_Static_assert(sizeof(struct as_graph_record) == 136, "dump format");
_Static_assert(sizeof(struct as_graph_type_record) == 64, "dump format");
_Static_assert(sizeof(struct as_graph_owner_record) == 72, "dump format");
_Static_assert(sizeof(struct as_graph_branch_record) == 40, "dump format");
_Static_assert(sizeof(struct as_graph_leak_record) == 72, "dump format");
_Static_assert(sizeof(struct as_graph_holder_record) == 56, "dump format");
_Static_assert(sizeof(struct as_graph_place_record) == 8, "dump format");
_Static_assert(sizeof(struct as_graph_leading_record) == 16, "dump format");
_Static_assert(sizeof(struct as_profile_record) == 184, "dump format");
_Static_assert(sizeof(struct as_profile_module_record) == 32, "dump format");
_Static_assert(sizeof(struct as_profile_frame_record) == 16, "dump format");
_Static_assert(sizeof(struct as_profile_stack_record) == 8, "dump format");
_Static_assert(sizeof(struct as_profile_site_record) == 80, "dump format");
_Static_assert(sizeof(struct as_profile_kept_record) == 64, "dump format");
_Static_assert(sizeof(struct as_profile_place_record) == 8, "dump format");
_Static_assert(sizeof(struct as_profile_line_record) == 16, "dump format");
_Static_assert(sizeof(struct as_profile_thread_record) == 8, "dump format");
_Static_assert(sizeof(struct as_profile_share_record) == 40, "dump format");
_Static_assert(sizeof(struct as_warning_record) == 24, "dump format");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the records are written as they lie in memory");
