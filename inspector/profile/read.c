// SPDX-License-Identifier: MIT
#include "profile/read.h"
#include "base/memory.h"
#include "base/sort.h"
#include "libc/elf.h"
#include "profile/copy.h"
#include "profile/keep.h"
#include "profile/lines.h"
#include "profile/shares.h"
#include "profile/stacks.h"

#include <stdio.h>
#include <string.h>

enum { MOST_RATE = 16, LEAST_SHIFT = 12, MOST_SHIFT = 16, MOST_FUNCTIONS = 1 << 24, MOST_OBJECTS = 4096 };
#define LEAST_BYTES (UINT64_C(32) << 20)
#define MOST_BYTES (UINT64_C(4) << 30)
#define BLOCK_MASK ((UINT64_C(1) << AS_PROFILE_BLOCK_BITS) - 1)
#define ID_MASK ((1U << AS_PROFILE_ID_BITS) - 1)

_Static_assert((int)AS_PROFILE_RELEASE_UNKNOWN == (int)AS_PROFILE_SOME_RELEASE, "a head's and a dump's");

// --- The head ---------------------------------------------------------------------------------------------------------

static bool table_holds(const struct as_profile_head *head, const struct as_profile_table *table, uint64_t entry,
                        uint64_t most)
{
    return table->offset >= sizeof *head && table->offset < head->size && table->offset % 64 == 0 &&
           table->size <= most && table->size <= (head->size - table->offset) / entry;
}

bool as_profile_head_holds(const struct as_profile_head *head, uint64_t address, uint64_t room)
{
    return head->magic == AS_PROFILE_MAGIC && head->version == AS_PROFILE_VERSION && head->head_size == sizeof *head &&
           head->self == address && head->size <= room && head->size >= LEAST_BYTES && head->rate_shift <= MOST_RATE &&
           head->page_shift >= LEAST_SHIFT && head->page_shift <= MOST_SHIFT &&
           head->block_size == 4U << (head->page_shift - AS_PROFILE_SLOT_SHIFT) && head->pages.size > 0 &&
           (head->pages.size & (head->pages.size - 1)) == 0 &&
           table_holds(head, &head->pages, sizeof(uint64_t), BLOCK_MASK) &&
           table_holds(head, &head->blocks, head->block_size, BLOCK_MASK) &&
           table_holds(head, &head->large_slots, sizeof(uint32_t), BLOCK_MASK) && head->refused.size > 0 &&
           (head->refused.size & (head->refused.size - 1)) == 0 &&
           table_holds(head, &head->refused, sizeof(uint64_t), BLOCK_MASK) &&
           table_holds(head, &head->contexts, sizeof(struct as_profile_context), ID_MASK) &&
           table_holds(head, &head->sampled, sizeof(struct as_profile_sampled), ID_MASK) &&
           table_holds(head, &head->frames, sizeof(uint64_t), AS_PROFILE_BRANCH_BIT) &&
           table_holds(head, &head->stacks, sizeof(uint32_t), UINT64_C(1) << AS_PROFILE_STACK_BITS) &&
           table_holds(head, &head->modules, sizeof(struct as_profile_module), AS_PROFILE_MOST_MODULES) &&
           table_holds(head, &head->functions, sizeof(struct as_profile_function), MOST_FUNCTIONS) &&
           table_holds(head, &head->texts, 1, UINT32_MAX) &&
           table_holds(head, &head->threads, sizeof(struct as_profile_thread), 1U << AS_PROFILE_THREAD_BITS);
}

static uint64_t find(struct as_target *t, struct as_profile_head *head)
{
    for (size_t i = 0; i < t->mappings.count; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        uint64_t magic;
        if (m->kind != AS_MAP_ANON || m->end - m->start < LEAST_BYTES || m->end - m->start > MOST_BYTES ||
            !(m->prot & AS_PROT_WRITE) || m->out_of_reach)
            continue;
        if (as_target_read_u64(t, m->start, &magic) && magic == AS_PROFILE_MAGIC &&
            as_target_read(t, m->start, head, sizeof *head) && as_profile_head_holds(head, m->start, m->end - m->start))
            return m->start;
    }
    return 0;
}

uint64_t as_profile_find(struct as_target *t)
{
    struct as_profile_head head;
    return find(t, &head);
}

// --- The tables -------------------------------------------------------------------------------------------------------

// The page on which the last chunk that was counted begins.
struct counted_page {
    uint64_t number;
    bool known, watched, found;
    const uint8_t *block; // its slots; NULL: it has none
    uint32_t large;       // the only slot of a page that is not watched
};

struct profile_tables {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    struct as_profile_head head;
    struct as_profile_pieces blocks;
    struct as_profile_source page_source, large_source, context_source, sampled_source, frame_source, stack_source;
    struct as_profile_source refused_source;
    uint64_t *pages, *refused;
    uint32_t *large_slots;
    struct as_profile_context *contexts;
    struct as_profile_sampled *sampled;
    struct as_profile_tree tree;
    struct as_profile_stack_state *stack_states;                                   // of each stack
    uint64_t block_count, large_count, context_count, sampled_count, module_count; // that were read
    struct counted_page page;
    uint32_t objects_opened;
    struct as_profile_live *live; // of each context
    struct as_profile_live unseen;
    struct as_profile_stacks stacks;
    uint32_t *module_of; // a module's record
    const as_boundary_vec *boundaries;
    uint32_t *id_of;        // of each boundary: the context of the chunk that begins there
    AS_VEC(uint64_t) sites; // of each site's record: its context
};

static uint64_t used(const struct as_profile_table *table)
{
    return table->used < table->size ? table->used : table->size;
}

static struct as_profile_source source(const struct profile_tables *r, const struct as_profile_table *table,
                                       uint64_t count, uint64_t entry)
{
    return (struct as_profile_source){r->target, &r->head, table, count, entry};
}

static void find_sources(struct profile_tables *r)
{
    r->block_count = used(&r->head.blocks);
    r->large_count = used(&r->head.large_slots);
    r->context_count = used(&r->head.contexts);
    r->sampled_count = used(&r->head.sampled);
    r->tree.frame_count = used(&r->head.frames);
    r->tree.stack_count = used(&r->head.stacks);
    r->blocks.source = source(r, &r->head.blocks, r->block_count, r->head.block_size);
    r->page_source = source(r, &r->head.pages, r->head.pages.size, sizeof *r->pages);
    r->large_source = source(r, &r->head.large_slots, r->large_count, sizeof *r->large_slots);
    r->refused_source =
        source(r, &r->head.refused, r->head.counts.lost != 0 ? r->head.refused.size : 0, sizeof *r->refused);
    r->context_source = source(r, &r->head.contexts, r->context_count, sizeof *r->contexts);
    r->sampled_source = source(r, &r->head.sampled, r->sampled_count, sizeof *r->sampled);
    r->frame_source = source(r, &r->head.frames, r->tree.frame_count, sizeof *r->tree.frames);
    r->stack_source = source(r, &r->head.stacks, r->tree.stack_count, sizeof *r->tree.stacks);
}

static bool copy_tables(struct profile_tables *r)
{
    find_sources(r);
    return as_profile_pieces_open(&r->blocks, r->err) && (r->pages = as_profile_copy(&r->page_source, r->err)) &&
           (r->large_slots = as_profile_copy(&r->large_source, r->err)) &&
           (r->refused = as_profile_copy(&r->refused_source, r->err)) &&
           (r->contexts = as_profile_copy(&r->context_source, r->err)) &&
           (r->sampled = as_profile_copy(&r->sampled_source, r->err)) &&
           (r->tree.frames = as_profile_copy(&r->frame_source, r->err)) &&
           (r->tree.stacks = as_profile_copy(&r->stack_source, r->err)) &&
           (r->stack_states =
                as_memory_map(r->tree.stack_count * sizeof *r->stack_states + 1, "the stacks of a profile", r->err)) &&
           (r->live = as_memory_map(r->context_count * sizeof *r->live + 1, "the sites of a profile", r->err)) &&
           (r->id_of = as_memory_map_large(r->boundaries->count * sizeof *r->id_of + 1, "the sites of chunks", r->err));
}

static void free_tables(struct profile_tables *r)
{
    as_profile_pieces_free(&r->blocks);
    as_profile_copy_free(&r->page_source, r->pages);
    as_profile_copy_free(&r->large_source, r->large_slots);
    as_profile_copy_free(&r->refused_source, r->refused);
    as_profile_copy_free(&r->context_source, r->contexts);
    as_profile_copy_free(&r->sampled_source, r->sampled);
    as_profile_copy_free(&r->frame_source, r->tree.frames);
    as_profile_copy_free(&r->stack_source, r->tree.stacks);
    as_memory_unmap(r->stack_states, r->tree.stack_count * sizeof *r->stack_states + 1);
    as_memory_unmap(r->live, r->context_count * sizeof *r->live + 1);
    as_memory_unmap(r->module_of, AS_PROFILE_MOST_MODULES * sizeof *r->module_of);
    as_memory_unmap(r->id_of, r->boundaries->count * sizeof *r->id_of + 1);
    as_vec_free(&r->sites);
    as_profile_stacks_free(&r->stacks);
}

// --- Chunks -----------------------------------------------------------------------------------------------------------

// The number of a page's block, or of its large slot; UINT64_MAX: it has none.
static uint64_t find_page(const struct profile_tables *r, uint64_t page, uint64_t count)
{
    uint64_t mask = r->head.pages.size - 1;
    uint64_t place = as_profile_place(page, as_profile_run(r->head.rate_shift), mask);
    const uint32_t probes = as_profile_probes(r->head.rate_shift);
    for (uint32_t i = 0; i < probes; i++, place = (place + 1) & mask) {
        uint64_t entry = r->pages[place];
        uint64_t number = (entry & BLOCK_MASK) - 1;
        if (entry == 0)
            return UINT64_MAX;
        if (entry >> AS_PROFILE_BLOCK_BITS == page && number < count)
            return number;
    }
    return UINT64_MAX;
}

// Chunks come by their addresses: some 40 in a row begin on the same page.
static void turn_page(struct profile_tables *r, uint64_t page)
{
    if (page == r->page.number && r->page.known)
        return;
    const bool watched = as_profile_page_hash(page) <= as_profile_watched(r->head.rate_shift);
    const uint64_t number = find_page(r, page, watched ? r->block_count : r->large_count);
    r->page = (struct counted_page){.number = page, .known = true, .watched = watched};
    if (number == UINT64_MAX)
        return;
    r->page.found = true;
    if (watched)
        r->page.block = as_profile_piece(&r->blocks, number);
    else
        r->page.large = r->large_slots[number];
}

static uint32_t slot_of(const struct profile_tables *r, uint64_t chunk)
{
    uint64_t offset = chunk & ((UINT64_C(1) << r->head.page_shift) - 1);
    uint32_t slot = r->page.large;
    if (r->page.block)
        memcpy(&slot, r->page.block + (offset >> AS_PROFILE_SLOT_SHIFT) * sizeof slot, sizeof slot);
    return slot;
}

// Whether a chunk on a page without slots was seen: there was no room for it.
static bool was_refused(const struct profile_tables *r, uint64_t chunk)
{
    if (r->page.found || r->refused_source.count == 0)
        return false;
    uint64_t bit = as_profile_refused_bit(chunk, r->refused_source.count);
    return r->refused[bit / 64] >> bit % 64 & 1;
}

// Counts a chunk in use for its context, which it returns; AS_PROFILE_NOBODY: it is not known.
static uint32_t count_chunk(struct profile_tables *r, uint64_t chunk, uint64_t size)
{
    bool large = size >= r->head.large;
    uint64_t rate = large ? 1 : UINT64_C(1) << r->head.rate_shift;
    turn_page(r, chunk >> r->head.page_shift);
    if (!large && !r->page.watched)
        return AS_PROFILE_NOBODY;
    uint32_t slot = slot_of(r, chunk);
    uint32_t id = slot & ID_MASK;
    uint32_t check = r->page.watched ? as_profile_check(chunk, size) : as_profile_large_check(chunk, size);
    // Another chunk than the one that was seen to begin there.
    bool unseen = id == AS_PROFILE_NOBODY || id >= r->context_count || slot >> AS_PROFILE_ID_BITS != check;
    if (unseen && was_refused(r, chunk)) {
        unseen = false;
        id = AS_PROFILE_LOST;
    }
    struct as_profile_live *live = unseen ? &r->unseen : &r->live[id];
    live->seen_count++;
    live->seen_bytes += size;
    live->count += rate;
    live->bytes += rate * size;
    return unseen ? AS_PROFILE_NOBODY : id;
}

static void count_chunks(struct profile_tables *r)
{
    for (size_t i = 0; i + 1 < r->boundaries->count; i++) {
        uint64_t at = r->boundaries->items[i];
        uint64_t next = as_untagged(r->boundaries->items[i + 1]);
        if (!(at & (AS_GAP | AS_HEAP_BEGINS)) && next > at)
            r->id_of[i] = count_chunk(r, at, next - at);
    }
}

// --- What was allocated -----------------------------------------------------------------------------------------------

// No process allocates 2^56 bytes, or parts of objects: 1 GB in each second takes two years.
static bool is_plausible(const struct as_profile_sampled *s)
{
    return (s->objects | s->bytes) >> 56 == 0;
}

static void add_sampled(struct profile_tables *r)
{
    for (uint64_t id = AS_PROFILE_LOST; id < r->context_count; id++) {
        uint32_t place = r->contexts[id].sampled;
        if (place == 0 || place >= r->sampled_count || !is_plausible(&r->sampled[place]))
            continue;
        r->live[id].samples = r->sampled[place].samples;
        r->live[id].allocated = r->sampled[place].objects;
        r->live[id].allocated_bytes = r->sampled[place].bytes;
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
    r->module_count = used(&r->head.modules);
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
    as_profile_live_add(&r->live[AS_PROFILE_LOST], &r->live[id]);
    r->live[id] = (struct as_profile_live){0};
}

static bool add_site(struct profile_tables *r, uint64_t id)
{
    const struct as_profile_context *c = &r->contexts[id];
    const struct as_profile_live *live = &r->live[id];
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
    *site = (struct as_profile_site_record){.stack = stack,
                                            .flags = c->complete ? 0 : AS_PROFILE_CUT,
                                            .seen_count = live->seen_count,
                                            .seen_bytes = live->seen_bytes,
                                            .count = live->count,
                                            .bytes = live->bytes,
                                            .samples = live->samples,
                                            .alloc_count = as_profile_whole(live->allocated),
                                            .alloc_bytes = live->allocated_bytes};
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
        sorted.items[i] = sites[keys.items[i] & ID_MASK];
        keys.items[i] = r->sites.items[keys.items[i] & ID_MASK];
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
    const struct as_profile_live *lost = &r->live[AS_PROFILE_LOST];
    *p = (struct as_profile_record){
        .flags = (h->on ? AS_PROFILE_ON : 0) | (h->rate_shift == 0 ? AS_PROFILE_EXACT : 0),
        .page_rate = 1U << h->rate_shift,
        .large = h->large,
        .mean = h->mean,
        .started_ns = h->started_ns,
        .memory = r->block_count * h->block_size + r->tree.stack_count * sizeof *r->tree.stacks +
                  r->tree.frame_count * (sizeof *r->tree.frames + sizeof(uint32_t)) +
                  r->context_count * sizeof *r->contexts + r->sampled_count * sizeof *r->sampled,
        .unseen_count = r->unseen.count,
        .unseen_bytes = r->unseen.bytes,
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
    };
    for (uint64_t i = AS_PROFILE_FIRST; i < r->context_count; i++) {
        p->known_count += r->live[i].count;
        p->known_bytes += r->live[i].bytes;
    }
    return true;
}

// What the sites keep, and threads have of them. An agent's own dumps do not have it: its copy in each process has to be small.
static bool add_kept(struct profile_tables *r)
{
#ifdef AS_AGENT
    (void)r;
    return true;
#else
    const struct as_site_keeping keeping = {
        r->boundaries, r->id_of, r->context_count, r->sites.items, r->target->page_size, 1U << r->head.rate_shift,
        r->head.large};
    return as_sites_keep(&keeping, r->store, r->err) && as_profile_shares_end(r->store, r->sites.items, r->err);
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

static bool read_all(struct profile_tables *r)
{
    if (!copy_tables(r))
        return false;
    if (r->context_count < AS_PROFILE_FIRST)
        return true; // the recorder is about to begin
    count_chunks(r);
    add_sampled(r);
    const struct as_profile_merging merging = {r->store,         r->contexts, r->live,
                                               r->context_count, r->id_of,    r->boundaries->count};
    if (!add_threads(r) || !as_profile_merge(&merging, r->err) || !add_modules(r))
        return false;
    for (uint64_t i = AS_PROFILE_FIRST; i < r->context_count; i++)
        if (!add_site(r, i))
            return false;
    return add_profile(r) && sort_sites(r) && add_kept(r);
}

bool as_profile_read(struct as_target *t, const as_boundary_vec *boundaries, struct as_store *s, struct as_error *err)
{
    struct profile_tables r = {.target = t, .store = s, .err = err, .boundaries = boundaries};
    if (!find(t, &r.head))
        return true;
    bool ok = read_all(&r);
    free_tables(&r);
    return ok;
}
