// SPDX-License-Identifier: MIT
#include "model/store.h"

#include <stdarg.h>
#include <stdio.h>

enum { TEXT = 512 };

void as_store_warn(struct as_store *s, enum as_warning code, uint32_t arena, uint32_t heap, uint64_t address,
                   const char *format, ...)
{
    char text[TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct as_warning_record *warning = as_vec_add(&s->warnings, NULL);
    if (warning)
        *warning = (struct as_warning_record){.text = as_strings_add(&s->strings, text, sizeof text),
                                              .code = code,
                                              .arena = arena,
                                              .heap = heap,
                                              .address = address};
}

// What a walk fills in.
static void free_walk(struct as_store *s)
{
    as_vec_free(&s->mallocs);
    as_vec_free(&s->arenas);
    as_vec_free(&s->heaps);
    as_vec_free(&s->pages);
    as_vec_free(&s->sizes);
    as_vec_free(&s->page_fill);
    as_vec_free(&s->sharers);
    as_vec_free(&s->threads);
    as_vec_free(&s->mappings);
}

void as_store_clear_walk(struct as_store *s, size_t warnings)
{
    free_walk(s);
    s->warnings.count = warnings;
    s->totals = (struct as_totals_record){0};
    s->meta.torn_chunks = 0;
}

void as_store_free(struct as_store *s)
{
    free_walk(s);
    as_vec_free(&s->ruby);
    as_vec_free(&s->runtimes);
    as_vec_free(&s->regions);
    as_vec_free(&s->size_classes);
    as_vec_free(&s->types);
    as_vec_free(&s->classes);
    as_vec_free(&s->runtime_pages);
    as_vec_free(&s->spaces);
    as_vec_free(&s->graph);
    as_vec_free(&s->graph_types);
    as_vec_free(&s->graph_owners);
    as_vec_free(&s->graph_branches);
    as_vec_free(&s->graph_leaks);
    as_vec_free(&s->graph_holders);
    as_vec_free(&s->graph_places);
    as_vec_free(&s->graph_leading);
    as_vec_free(&s->profile);
    as_vec_free(&s->profile_modules);
    as_vec_free(&s->profile_frames);
    as_vec_free(&s->profile_stacks);
    as_vec_free(&s->profile_sites);
    as_vec_free(&s->profile_kept);
    as_vec_free(&s->profile_places);
    as_vec_free(&s->profile_lines);
    as_vec_free(&s->profile_threads);
    as_vec_free(&s->profile_shares);
    as_vec_free(&s->warnings);
    as_vec_free(&s->strings);
}

struct as_view as_store_view(const struct as_store *s)
{
    return (struct as_view){
        .meta = &s->meta,
        .totals = &s->totals,
        .mallocs = s->mallocs.items,
        .arenas = s->arenas.items,
        .heaps = s->heaps.items,
        .pages = s->pages.items,
        .sizes = s->sizes.items,
        .threads = s->threads.items,
        .mappings = s->mappings.items,
        .ruby = s->ruby.items,
        .runtimes = s->runtimes.items,
        .regions = s->regions.items,
        .size_classes = s->size_classes.items,
        .classes = s->classes.items,
        .types = s->types.items,
        .runtime_pages = s->runtime_pages.items,
        .spaces = s->spaces.items,
        .page_fill = s->page_fill.items,
        .sharers = s->sharers.items,
        .graph = s->graph.items,
        .graph_types = s->graph_types.items,
        .graph_owners = s->graph_owners.items,
        .graph_branches = s->graph_branches.items,
        .graph_leaks = s->graph_leaks.items,
        .graph_holders = s->graph_holders.items,
        .graph_places = s->graph_places.items,
        .graph_leading = s->graph_leading.items,
        .profile = s->profile.items,
        .profile_modules = s->profile_modules.items,
        .profile_frames = s->profile_frames.items,
        .profile_stacks = s->profile_stacks.items,
        .profile_sites = s->profile_sites.items,
        .profile_kept = s->profile_kept.items,
        .profile_places = s->profile_places.items,
        .profile_lines = s->profile_lines.items,
        .tells_interpreters = true,
        .tells_lost_allocations = true,
        .profile_threads = s->profile_threads.items,
        .profile_shares = s->profile_shares.items,
        .warnings = s->warnings.items,
        .strings = s->strings.items,
        .malloc_count = s->mallocs.count,
        .arena_count = s->arenas.count,
        .heap_count = s->heaps.count,
        .page_count = s->pages.count,
        .size_count = s->sizes.count,
        .thread_count = s->threads.count,
        .mapping_count = s->mappings.count,
        .ruby_count = s->ruby.count,
        .runtime_count = s->runtimes.count,
        .region_count = s->regions.count,
        .size_class_count = s->size_classes.count,
        .class_count = s->classes.count,
        .type_count = s->types.count,
        .runtime_page_count = s->runtime_pages.count,
        .space_count = s->spaces.count,
        .page_fill_count = s->page_fill.count,
        .sharer_count = s->sharers.count,
        .graph_count = s->graph.count,
        .graph_type_count = s->graph_types.count,
        .graph_owner_count = s->graph_owners.count,
        .graph_branch_count = s->graph_branches.count,
        .graph_leak_count = s->graph_leaks.count,
        .graph_holder_count = s->graph_holders.count,
        .graph_place_count = s->graph_places.count,
        .graph_leading_count = s->graph_leading.count,
        .profile_count = s->profile.count,
        .profile_module_count = s->profile_modules.count,
        .profile_frame_count = s->profile_frames.count,
        .profile_stack_count = s->profile_stacks.count,
        .profile_site_count = s->profile_sites.count,
        .profile_kept_count = s->profile_kept.count,
        .profile_place_count = s->profile_places.count,
        .profile_line_count = s->profile_lines.count,
        .profile_thread_count = s->profile_threads.count,
        .profile_share_count = s->profile_shares.count,
        .warning_count = s->warnings.count,
        .strings_size = s->strings.count,
    };
}
