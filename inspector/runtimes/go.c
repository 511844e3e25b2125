// SPDX-License-Identifier: MIT
// Go's heap by structure. It consists of arenas of 64 MiB at multiples of 64 MiB. Go has a table with a word for each place in the
// address space where an arena can be (runtime.mheap_.arenas): 0, or the address of what describes the arena. A variable of Go's
// points to the table. A table is believed when each word that is not 0 stands for a place with private memory, and leads to
// private memory itself. (runtime/mheap.go and malloc.go, linux/amd64 and linux/arm64)
#include "runtimes/finder.h"

#include "runtimes/go.h"
#include "runtimes/regions.h"
#include "runtimes/variables.h"

#include <inttypes.h>

enum {
    ELEMENTS = 1 << 22,
    TABLE = ELEMENTS * 8, // bytes
    CANDIDATES = 1024,    // pointers that are tried
    FREE_READS = 1 << 16, // at 4 KiB, whatever the target's size
    MOST_ARENAS = 1 << 16,
    RELEASES = 64, // bytes of their names
};
static const uint64_t ARENA = UINT64_C(1) << AS_GO_ARENA_BITS;

struct go_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    const struct as_variable_words *words;
    uint32_t runtime;
    int64_t reads_left; // that are left
    int candidates;
    bool ok;    // false: our memory ran out
    bool found; // the table
    struct as_go_heap heap;
    struct as_go_goroutines goroutines;
    uint64_t bytes;
};

// The address that element `index` of the table stands for: on x86-64 the table begins with the lowest negative address.
static uint64_t arena_at(const struct go_search *s, uint64_t index)
{
    uint64_t base = s->target->arch == AS_ARCH_X86_64 ? UINT64_C(0xffff800000000000) : 0;
    return base + (index << AS_GO_ARENA_BITS);
}

// Is there private memory anywhere in the arena?
static bool has_memory(const struct go_search *s, uint64_t start)
{
    const struct as_target *t = s->target;
    for (size_t i = as_target_mapping_from(t, start);
         i < t->mappings.count && t->mappings.items[i].start < start + ARENA; i++)
        if (as_is_runtime_memory(&t->mappings.items[i]))
            return true;
    return false;
}

// Adds the arena of an element. False: it is none.
static bool add_arena(struct go_search *s, uint64_t index, uint64_t word)
{
    uint64_t start = arena_at(s, index);
    if (word % sizeof word != 0 || !as_is_runtime_memory(as_target_mapping_at(s->target, word)) || start == 0 ||
        start > UINT64_MAX - ARENA || s->heap.arenas.count == MOST_ARENAS || !has_memory(s, start))
        return false;
    s->ok = as_vec_push(&s->heap.arenas, s->err, (struct as_go_arena){start, word}) &&
            as_regions_add(s->target, s->store, s->runtime, start, start + ARENA, &s->bytes, s->err);
    return s->ok;
}

struct arena_visit {
    struct go_search *search;
    uint64_t table;
    bool fit; // all so far
};

static bool visit_arena(void *context, uint64_t address, uint64_t word)
{
    struct arena_visit *v = context;
    v->fit = add_arena(v->search, (address - v->table) / sizeof word, word);
    return v->fit;
}

// Adds the arenas of a table. False: it is none.
static bool add_arenas(struct go_search *s, uint64_t table)
{
    struct arena_visit v = {s, table, true};
    return as_words_visit(s->target, &s->reads_left, table, table + TABLE, visit_arena, &v) && v.fit &&
           s->heap.arenas.count > 0;
}

// Could a table be there?
static bool may_be_table(struct go_search *s, uint64_t address)
{
    return address % s->target->page_size == 0 && as_is_runtime_range(s->target, address, TABLE, &s->reads_left) &&
           s->candidates-- > 0;
}

static bool try_variable(void *context, uint64_t address, uint64_t word)
{
    struct go_search *s = context;
    size_t regions = s->store->regions.count;
    (void)address;
    if (!may_be_table(s, word))
        return true;
    s->found = add_arenas(s, word);
    if (s->found || !s->ok)
        return false;
    s->store->regions.count = regions;
    s->heap.arenas.count = s->bytes = 0;
    return true;
}

// Calls `search` for each range of the program's variables; false ends it.
static void visit_variables(struct go_search *s, uint64_t program, bool (*search)(struct go_search *, struct as_range))
{
    const struct as_target *t = s->target;
    const struct as_mapping *first = as_target_mapping_at(t, program);
    bool goes_on = true;
    for (size_t i = as_target_mapping_from(t, program); first && i < t->mappings.count && goes_on; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        bool own = m->inode == first->inode && m->dev_major == first->dev_major && m->dev_minor == first->dev_minor;
        struct as_range variables;
        if (own && as_variables_at(t, i, &variables))
            goes_on = search(s, variables);
    }
}

// Is there a pointer to the table among the variables?
static bool search_arenas(struct go_search *s, struct as_range variables)
{
    as_words_visit(s->target, &s->reads_left, variables.start, variables.end, try_variable, s);
    return s->ok && !s->found;
}

#ifndef AS_AGENT
static bool search_goroutines(struct go_search *s, struct as_range variables)
{
    as_go_goroutines_find(s->target, &s->heap, s->words, variables, &s->goroutines);
    return true;
}

static void count_stacks(const struct go_search *s, struct as_runtime_record *record)
{
    record->stacks = record->stacks_resident = 0;
    AS_FOR_EACH(const struct as_range, r, &s->heap.stacks) {
        uint64_t resident = as_target_resident_bytes(s->target, r->start, r->end);
        bool known = resident != AS_UNKNOWN && record->stacks_resident != AS_UNKNOWN;
        record->stacks += r->end - r->start;
        record->stacks_resident = known ? record->stacks_resident + resident : AS_UNKNOWN;
    }
}

// Which of the heap is stacks, and whose.
static void add_stacks(struct go_search *s, uint64_t program)
{
    const char *releases;
    struct as_runtime_record *record = &s->store->runtimes.items[s->runtime];
    s->ok = as_go_stacks_find(s->target, &s->heap, &releases, s->err);
    if (!releases) {
        as_store_warn(
            s->store, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
            "Go's heap was found, but not which of it is stacks of goroutines: the release is unknown (Go 1.12 "
            "to 1.26 are known), the heap is too large, or it changed during the snapshot");
        return;
    }
    record->releases = as_strings_add(&s->store->strings, releases, RELEASES);
    count_stacks(s, record);
    s->goroutines = (struct as_go_goroutines){.reads_left = AS_GO_READS};
    visit_variables(s, program, search_goroutines);
    if (s->goroutines.length > 0 && !s->goroutines.several && s->goroutines.reads_left > 0) {
        record->goroutines = s->goroutines.count;
        record->free_goroutines = s->goroutines.free;
    }
}

#else
static void add_stacks(struct go_search *s, uint64_t program)
{
    (void)s, (void)program;
}
#endif

static void tell(struct go_search *s, uint64_t program, size_t first)
{
    if (!s->found) {
        as_runtime_unproven(
            s->store, s->runtime, first,
            "this is a program of Go's, but its table of arenas was not found: the release is unknown, or it "
            "changed during the snapshot. Go's heap is counted in the other rows");
        return;
    }
    as_runtime_found(s->store, s->runtime, s->bytes, NULL,
                     "a variable of the program points to Go's table of arenas: each of the %zu that it has is private "
                     "memory",
                     s->heap.arenas.count);
    add_stacks(s, program);
}

bool as_go_find(const struct as_finder_input *in)
{
    if (in->malloc->go_program == 0)
        return true;
    struct go_search s = {.target = in->target,
                          .store = in->store,
                          .err = in->err,
                          .words = in->words,
                          .reads_left = FREE_READS,
                          .ok = true};
    size_t first = in->store->regions.count;
    s.candidates = CANDIDATES;
    s.runtime = as_runtime_add(in->store, AS_RUNTIME_GO, AS_ROW_managed, in->err);
    s.ok = s.runtime != UINT32_MAX;
    if (s.ok)
        visit_variables(&s, in->malloc->go_program, search_arenas);
    if (s.ok)
        tell(&s, in->malloc->go_program, first);
    AS_FREE_VECS(&s.heap, arenas, stacks);
    return s.ok;
}
