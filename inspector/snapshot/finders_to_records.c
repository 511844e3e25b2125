// SPDX-License-Identifier: MIT
// What the finders found, as records.
#include "malloc/tcache.h"
#include "snapshot/steps.h"

#include <string.h>

uint32_t as_records_string(struct as_store *s, const struct as_target *t, uint32_t offset)
{
    const char *text = as_strings_at(&t->strings, offset);
    return as_strings_add(&s->strings, text, strlen(text));
}

static bool copy_mappings(struct as_store *s, const struct as_target *t, struct as_error *err)
{
    if (!as_vec_reserve(&s->mappings, t->mappings.count, err))
        return false;
    for (size_t i = 0; i < t->mappings.count; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        // A file's mappings follow each other: one copy of its name serves them all.
        const struct as_mapping_record *before = i > 0 ? &s->mappings.items[i - 1] : NULL;
        bool same = before && m->path == t->mappings.items[i - 1].path;
        s->mappings.items[s->mappings.count++] = (struct as_mapping_record){
            .start = m->start,
            .end = m->end,
            .prot = m->prot,
            .kind = m->kind,
            .path = same ? before->path : as_records_string(s, t, m->path),
            .rss = m->rss,
            .swap = m->swap,
            .hugetlb = m->hugetlb,
            .anonymous = m->kind == AS_MAP_ANON ? m->rss : m->anonymous,
        };
    }
    return true;
}

// What of one libc's caches no thread can get at.
static void count_lost(const struct as_heaps *h, uint32_t libc_index, struct as_malloc_record *record)
{
    bool stands = h->target->kind == AS_TARGET_CORE || h->target->stop.active;
    record->lost_known = stands && (h->tcaches_known.items[libc_index] || !as_has_tcache(h, libc_index));
    AS_FOR_EACH(const struct as_lost_tcache, lost, &h->lost_tcaches) {
        if (lost->libc_index != libc_index)
            continue;
        record->lost_tcaches++;
        record->lost_chunks += lost->count;
        record->lost_bytes += lost->bytes;
    }
}

static bool copy_mallocs(struct as_store *s, const struct as_heaps *h, struct as_error *err)
{
    for (size_t i = 0; i < h->malloc->libcs.count; i++) {
        const struct as_libc *libc = &h->malloc->libcs.items[i];
        const struct as_par *par = &h->pars.items[i];
        struct as_malloc_record *record = as_vec_add(&s->mallocs, err);
        if (!record)
            return false;
        *record = (struct as_malloc_record){
            .path = as_records_string(s, h->target, libc->path),
            .version = as_strings_add(&s->strings, libc->version, sizeof libc->version),
            .build_id = as_strings_add(&s->strings, libc->build_id, sizeof libc->build_id),
            .layout_versions = libc->layout.versions
                                   ? as_strings_add(&s->strings, libc->layout.versions, strlen(libc->layout.versions))
                                   : 0,
            .layout_source = libc->source,
            .proven = libc->proven,
            .main_arena = libc->main_arena,
            .mp = libc->mp,
            .trim_threshold = par->trim_threshold,
            .top_pad = par->top_pad,
            .mmap_threshold = par->mmap_threshold,
            .arena_max = par->arena_max,
            .arena_test = par->arena_test,
            .no_dyn_threshold = par->no_dyn_threshold,
            .tcache_count = par->tcache_count,
            .tcache_max_bytes = par->tcache_max_bytes,
            .thp_pagesize = par->thp_pagesize,
            .hp_pagesize = par->hp_pagesize,
            .n_mmaps = par->n_mmaps,
            .mmapped_mem = par->mmapped_mem,
            .heap_max_size = par->heap_max,
        };
        count_lost(h, (uint32_t)i, record);
    }
    return true;
}

static bool copy_arenas(struct as_store *s, const struct as_heaps *h, struct as_error *err)
{
    AS_FOR_EACH(const struct as_arena, arena, &h->arenas) {
        if (!as_vec_push(&s->arenas, err,
                         (struct as_arena_record){
                             .address = arena->address,
                             .malloc_index = arena->libc_index,
                             .flags = (arena->main ? AS_ARENA_MAIN : 0) |
                                      (arena->flags & AS_NONCONTIGUOUS ? AS_ARENA_NONCONTIGUOUS : 0) |
                                      (arena->mutex ? AS_ARENA_LOCKED : 0),
                             .system_mem = arena->system_mem,
                             .max_system_mem = arena->max_system_mem,
                             .attached_threads = arena->attached_threads,
                             .top = arena->top,
                         }))
            return false;
    }
    return true;
}

static bool copy_threads(struct as_store *s, const struct as_heaps *h, struct as_error *err)
{
    const struct as_target *t = h->target;
    bool missing = false;
    for (size_t i = 0; i < t->threads.count; i++) {
        const struct as_thread_use *use = &h->threads.items[i];
        struct as_thread_record *record = as_vec_add(&s->threads, err);
        if (!record)
            return false;
        *record = (struct as_thread_record){
            .tid = (uint32_t)t->threads.items[i].tid,
            .arena = use->arena,
            .tcache = use->tcache,
            .tcache_count = use->tcache_count,
            .tcache_bytes = use->tcache_bytes,
            .stack_resident = AS_UNKNOWN,
            .stack_unused = AS_UNKNOWN,
        };
        memcpy(record->name, t->threads.items[i].name, sizeof record->name);
        missing |= use->tcache == AS_UNKNOWN;
    }
    bool has_tcache = h->malloc->libcs.count > 0 && as_has_tcache(h, 0);
    if (missing && has_tcache)
        as_store_warn(s, AS_WARN_TCACHE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "some threads' tcaches could not be reached through the thread pointer: tcaches were searched "
                      "for by their structure, and the chunks of a missed tcache count as in use");
    return true;
}

bool as_records_copy(struct as_store *s, const struct as_heaps *h, struct as_error *err)
{
    return copy_mappings(s, h->target, err) && copy_mallocs(s, h, err) && copy_arenas(s, h, err) &&
           copy_threads(s, h, err);
}
