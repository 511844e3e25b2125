// SPDX-License-Identifier: MIT
#include "profile/read.h"
#include "base/memory.h"
#include "base/sort.h"
#include "libc/elf.h"
#include "profile/head.h"
#include "profile/parts.h"
#include "profile/remote_copy.h"
#include "profile/stacks.h"
#include "profile/thread_shares.h"

#include <string.h>

enum { MOST_OBJECTS = 4096 };

_Static_assert((int)AS_PROFILE_RELEASE_UNKNOWN == (int)AS_PROFILE_SOME_RELEASE, "a head's and a dump's");

// --- The tables -------------------------------------------------------------------------------------------------------

struct profile_tables {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    struct as_profile_head head;
    struct as_profile_source context_source, sampled_source, frame_source, stack_source;
    struct as_profile_chunks chunks;
    struct as_profile_context *contexts;
    struct as_profile_sampled *sampled;
    struct as_profile_tree tree;
    struct as_profile_stack_state *stack_states; // of each stack
    uint64_t sampled_count, module_count;        // that were read
    uint32_t objects_opened;
    const as_boundary_vec *boundaries;
    const struct as_profile_baseline *baseline; // NULL: not known
    as_boundary_vec *noted;                     // NULL: nobody asks
    struct as_profile_grown *grown;             // of each context; NULL likewise
    struct as_profile_counted counted;
    struct as_profile_stacks stacks;
    uint32_t *module_of;    // a module's record
    AS_VEC(uint64_t) sites; // of each site's record: its context
};

static void find_sources(struct profile_tables *r)
{
    r->counted.context_count = as_profile_used(&r->head.contexts);
    r->sampled_count = as_profile_used(&r->head.sampled);
    r->tree.frame_count = as_profile_used(&r->head.frames);
    r->tree.stack_count = as_profile_used(&r->head.stacks);
    r->context_source =
        as_profile_source_of(r->target, &r->head, &r->head.contexts, r->counted.context_count, sizeof *r->contexts);
    r->sampled_source =
        as_profile_source_of(r->target, &r->head, &r->head.sampled, r->sampled_count, sizeof *r->sampled);
    r->frame_source =
        as_profile_source_of(r->target, &r->head, &r->head.frames, r->tree.frame_count, sizeof *r->tree.frames);
    r->stack_source =
        as_profile_source_of(r->target, &r->head, &r->head.stacks, r->tree.stack_count, sizeof *r->tree.stacks);
}

static bool copy_tables(struct profile_tables *r)
{
    find_sources(r);
    return as_profile_chunks_open(&r->chunks, r->target, &r->head, r->err) &&
           (r->contexts = as_profile_copy(&r->context_source, r->err)) &&
           (r->sampled = as_profile_copy(&r->sampled_source, r->err)) &&
           (r->tree.frames = as_profile_copy(&r->frame_source, r->err)) &&
           (r->tree.stacks = as_profile_copy(&r->stack_source, r->err)) &&
           (r->stack_states =
                as_memory_map(r->tree.stack_count * sizeof *r->stack_states + 1, "the stacks of a profile", r->err)) &&
           (r->counted.live = as_memory_map(r->counted.context_count * sizeof *r->counted.live + 1,
                                            "the sites of a profile", r->err)) &&
           (r->counted.id_of = as_memory_map_large(r->boundaries->count * sizeof *r->counted.id_of + 1,
                                                   "the sites of chunks", r->err));
}

static void free_tables(struct profile_tables *r)
{
    as_profile_chunks_free(&r->chunks);
    as_profile_copy_free(&r->context_source, r->contexts);
    as_profile_copy_free(&r->sampled_source, r->sampled);
    as_profile_copy_free(&r->frame_source, r->tree.frames);
    as_profile_copy_free(&r->stack_source, r->tree.stacks);
    as_memory_unmap(r->stack_states, r->tree.stack_count * sizeof *r->stack_states + 1);
    as_memory_unmap(r->counted.live, r->counted.context_count * sizeof *r->counted.live + 1);
    as_memory_unmap(r->module_of, AS_PROFILE_MOST_MODULES * sizeof *r->module_of);
    as_memory_unmap(r->counted.id_of, r->boundaries->count * sizeof *r->counted.id_of + 1);
    as_memory_unmap(r->grown, r->counted.context_count * sizeof *r->grown + 1);
    as_vec_free(&r->sites);
    as_profile_stacks_free(&r->stacks);
}

// --- What was allocated -----------------------------------------------------------------------------------------------

// No process allocates 2^56 bytes, or parts of objects: 1 GB in each second takes two years.
static bool is_plausible(const struct as_profile_sampled *s)
{
    return (s->objects | s->bytes) >> 56 == 0;
}

static void add_sampled(struct profile_tables *r)
{
    for (uint64_t id = AS_PROFILE_LOST; id < r->counted.context_count; id++) {
        uint32_t place = r->contexts[id].sampled;
        if (place == 0 || place >= r->sampled_count || !is_plausible(&r->sampled[place]))
            continue;
        r->counted.live[id].samples = r->sampled[place].samples;
        r->counted.live[id].allocated = r->sampled[place].objects;
        r->counted.live[id].allocated_bytes = r->sampled[place].bytes;
    }
}

// --- Stacks -----------------------------------------------------------------------------------------------------------

// Another object may be where it was. (The program is never gone, and a core may lack its first page.) The table is the target's word, and
// each object costs some reads: of many more than a program has, the loader's names are taken.
static bool is_there(struct profile_tables *r, const struct as_profile_module *m, const char *id)
{
    struct as_elf elf;
    if (r->objects_opened++ >= MOST_OBJECTS)
        return false;
    return m->name[0] == '\0' || (as_elf_open_mapped(&elf, r->target, m->bias, NULL) && strcmp(elf.build_id, id) == 0);
}

// The path of the file that is mapped there; of an object that is gone, the name that the loader had for it.
static uint32_t module_path(struct profile_tables *r, const struct as_profile_module *m, const char *id)
{
    enum { MOST_PATH = 4096 };
    const struct as_mapping *mapping = as_target_mapping_at(r->target, m->start);
    if (mapping && as_mapping_of_file(mapping) && is_there(r, m, id))
        return as_strings_add(&r->store->strings, as_mapping_path(r->target, mapping), MOST_PATH);
    return as_strings_add(&r->store->strings, m->name, sizeof m->name);
}

static uint32_t read_line(void *tables, uint64_t frame, struct as_error *err)
{
    struct profile_tables *r = tables;
    return as_profile_read_line(r->target, &r->head, frame, r->store, err);
}

static bool add_modules(struct profile_tables *r)
{
    r->module_count = as_profile_used(&r->head.modules);
    r->module_of = as_memory_map(AS_PROFILE_MOST_MODULES * sizeof *r->module_of, "the modules of a profile", r->err);
    for (uint64_t i = 0; r->module_of && i < r->module_count; i++) {
        struct as_profile_module m;
        struct as_profile_module_record *record;
        char id[2 * AS_PROFILE_BUILD_ID + 1] = "";
        r->module_of[i] = UINT32_MAX;
        if (!as_target_read(r->target, r->head.self + r->head.modules.offset + i * sizeof m, &m, sizeof m) ||
            m.start >= m.end || m.end == UINT64_MAX || m.bias == UINT64_MAX) // no recorder writes this
            continue;
        as_profile_build_id_text(m.build_id, m.build_id_size, id);
        if (!(record = as_vec_add(&r->store->profile_modules, r->err)))
            return false;
        r->module_of[i] = (uint32_t)(r->store->profile_modules.count - 1);
        *record = (struct as_profile_module_record){.start = m.start, .end = m.end, .bias = m.bias};
        record->path = module_path(r, &m, id);
        record->build_id = as_strings_add(&r->store->strings, id, sizeof id);
    }
    r->stacks = (struct as_profile_stacks){
        .store = r->store, .module_of = r->module_of, .module_count = r->module_count, .line = read_line, .reader = r};
    as_profile_stacks_measure(&r->tree, r->stack_states);
    return r->module_of != NULL;
}

// What a stack that does not hold has, nobody is known to have allocated.
static void lose(struct profile_tables *r, uint64_t id)
{
    as_profile_live_add(&r->counted.live[AS_PROFILE_LOST], &r->counted.live[id]);
    r->counted.live[id] = (struct as_profile_live){0};
}

static bool add_site(struct profile_tables *r, uint64_t id)
{
    const struct as_profile_context *c = &r->contexts[id];
    const struct as_profile_live *live = &r->counted.live[id];
    if (live->count == 0 && live->samples == 0)
        return true;
    if (c->stack >= r->tree.stack_count || c->count == 0 || r->stack_states[c->stack].depth != c->count) {
        lose(r, id);
        return true;
    }
    uint32_t stack = as_profile_stacks_add_known(&r->stacks, &r->tree, r->stack_states, c->stack, r->err);
    if (stack == UINT32_MAX)
        return false;
    struct as_profile_site_record *site = as_vec_add(&r->store->profile_sites, r->err);
    uint64_t *of_site = as_vec_add(&r->sites, r->err);
    if (!site || !of_site)
        return false;
    *of_site = id;
    *site =
        (struct as_profile_site_record){.stack = stack,
                                        .flags = c->complete ? 0 : AS_PROFILE_CUT,
                                        .seen_count = live->seen_count,
                                        .seen_bytes = live->seen_bytes,
                                        .count = live->count,
                                        .bytes = live->bytes,
                                        .samples = live->samples,
                                        .alloc_count = as_profile_whole(live->allocated),
                                        .alloc_bytes = live->allocated_bytes,
                                        .grown_count = r->grown ? (uint64_t)(r->grown[id].count + 0.5) : AS_UNKNOWN,
                                        .grown_bytes = r->grown ? (uint64_t)(r->grown[id].bytes + 0.5) : AS_UNKNOWN};
    return true;
}

// Most bytes in use first.
static bool sort_sites(struct profile_tables *r)
{
    enum { INDEX_BITS = AS_PROFILE_ID_BITS };
    const uint64_t most = (UINT64_C(1) << (64 - INDEX_BITS)) - 1;
    size_t count = r->store->profile_sites.count;
    struct as_profile_site_record *sites = r->store->profile_sites.items;
    AS_VEC(uint64_t) keys = {0};
    AS_VEC(struct as_profile_site_record) sorted = {0};
    bool ok = as_vec_reserve(&keys, count, r->err) && as_vec_reserve(&sorted, count, r->err);
    for (size_t i = 0; ok && i < count; i++)
        keys.items[i] = (most - (sites[i].bytes < most ? sites[i].bytes : most)) << INDEX_BITS | i;
    ok = ok && as_sort_u64(keys.items, count, r->err);
    for (size_t i = 0; ok && i < count; i++) {
        sorted.items[i] = sites[keys.items[i] & AS_PROFILE_ID_MASK];
        keys.items[i] = r->sites.items[keys.items[i] & AS_PROFILE_ID_MASK];
    }
    if (ok && count > 0) {
        memcpy(sites, sorted.items, count * sizeof *sites);
        memcpy(r->sites.items, keys.items, count * sizeof *keys.items);
    }
    as_vec_free(&keys);
    as_vec_free(&sorted);
    return ok;
}

static bool add_profile(struct profile_tables *r)
{
    struct as_profile_record *p = as_vec_add(&r->store->profile, r->err);
    const struct as_profile_head *h = &r->head;
    if (!p)
        return false;
    const struct as_profile_live *lost = &r->counted.live[AS_PROFILE_LOST];
    *p = (struct as_profile_record){
        .flags = (h->on ? AS_PROFILE_ON : 0) | (h->rate_shift == 0 ? AS_PROFILE_EXACT : 0),
        .page_rate = 1U << h->rate_shift,
        .large = h->large,
        .mean = h->mean,
        .started_ns = h->started_ns,
        .memory = r->chunks.block_count * h->block_size + r->tree.stack_count * sizeof *r->tree.stacks +
                  r->tree.frame_count * (sizeof *r->tree.frames + sizeof(uint32_t)) +
                  r->counted.context_count * sizeof *r->contexts + r->sampled_count * sizeof *r->sampled,
        .unseen_count = r->counted.unseen.count,
        .unseen_bytes = r->counted.unseen.bytes,
        .lost_count = lost->count,
        .lost_bytes = lost->bytes,
        .lost_alloc_count = as_profile_whole(lost->allocated),
        .lost_alloc_bytes = lost->allocated_bytes,
        .lost = h->counts.lost,
        .misses = h->counts.misses,
        .checked = h->counts.checked,
        .wrong = h->counts.wrong,
        .cut = h->counts.cut,
        .samples = h->counts.samples,
        .unsampled = h->counts.unsampled,
        .unknown_python = h->unknown_python & UINT16_MAX,
        .unknown_ruby = h->unknown_ruby & UINT16_MAX,
        .hooks = h->at_entries ? AS_HOOKS_AT_ENTRIES : AS_HOOKS_IN_SLOTS,
        .baseline_ns = r->baseline ? r->baseline->time_ns : AS_UNKNOWN,
        .baseline_exact = r->baseline ? r->baseline->exact : AS_UNKNOWN,
        .types_exact = AS_UNKNOWN, // until the graph is there
    };
    for (uint64_t i = AS_PROFILE_FIRST; i < r->counted.context_count; i++) {
        p->known_count += r->counted.live[i].count;
        p->known_bytes += r->counted.live[i].bytes;
    }
    return true;
}

// What the sites keep, and threads have of them. An agent's own dumps do not have it: its copy in each process has to be small.
static bool add_pins(struct profile_tables *r)
{
#ifdef AS_AGENT
    (void)r;
    return true;
#else
    const struct as_site_keeping keeping = {r->boundaries,  r->counted.id_of,     r->counted.context_count,
                                            r->sites.items, r->target->page_size, 1U << r->head.rate_shift,
                                            r->head.large};
    return as_page_pins_make(&keeping, r->store, r->err) && as_profile_shares_end(r->store, r->sites.items, r->err);
#endif
}

static bool add_threads(struct profile_tables *r)
{
#ifdef AS_AGENT
    (void)r;
    return true;
#else
    return as_profile_add_threads(r->target, &r->head, r->store, r->err);
#endif
}

// Nor do they know what grew.
static bool add_growth(struct profile_tables *r)
{
#ifdef AS_AGENT
    (void)r;
    return true;
#else
    const struct as_profile_growing growing = {r->baseline, r->boundaries, r->counted.id_of, 1U << r->head.rate_shift,
                                               r->head.large};
    if (!r->baseline)
        return true;
    r->grown = as_memory_map(r->counted.context_count * sizeof *r->grown + 1, "what grew, by site", r->err);
    return r->grown && as_profile_growth_make(&growing, r->store, r->grown, r->err) &&
           (!r->noted || as_profile_note_chunks(&growing, r->noted, r->err));
#endif
}

static bool read_all(struct profile_tables *r)
{
    if (!copy_tables(r))
        return false;
    if (r->counted.context_count < AS_PROFILE_FIRST)
        return true; // the recorder is about to begin
    as_profile_chunks_count(&r->chunks, r->boundaries, &r->counted);
    add_sampled(r);
    const struct as_profile_merging merging = {
        r->store, r->contexts, r->counted.live, r->counted.context_count, r->counted.id_of, r->boundaries->count};
    if (!add_threads(r) || !as_profile_merge(&merging, r->err) || !add_growth(r) || !add_modules(r))
        return false;
    for (uint64_t i = AS_PROFILE_FIRST; i < r->counted.context_count; i++)
        if (!add_site(r, i))
            return false;
    return add_profile(r) && sort_sites(r) && add_pins(r);
}

bool as_profile_read(struct as_target *t, const as_boundary_vec *boundaries, const struct as_profile_baseline *baseline,
                     as_boundary_vec *noted, struct as_store *s, struct as_error *err)
{
    struct profile_tables r = {
        .target = t, .store = s, .err = err, .boundaries = boundaries, .baseline = baseline, .noted = noted};
    if (!as_profile_head_find(t, &r.head))
        return true;
    bool ok = read_all(&r);
    free_tables(&r);
    return ok;
}
