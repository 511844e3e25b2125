// SPDX-License-Identifier: MIT
// Go's heap by structure. It consists of arenas of 64 MiB at multiples of 64 MiB. Go has a table with a word for each place in the
// address space where an arena can be (runtime.mheap_.arenas): 0, or the address of what describes the arena. A variable of Go's
// points to the table. A table is believed when each word that is not 0 stands for a place with private memory, and leads to
// private memory itself. (runtime/mheap.go and malloc.go, linux/amd64 and linux/arm64)
#include "runtimes/finder.h"

#include "runtimes/regions.h"
#include "runtimes/variables.h"

#include <inttypes.h>

enum {
    ARENA_BITS = 26,
    ELEMENTS = 1 << 22,
    TABLE = ELEMENTS * 8, // bytes
    CANDIDATES = 1024,    // pointers that are tried
    FREE_READS = 1 << 16, // at 4 KiB, whatever the target's size
    MOST_ARENAS = 1 << 16,
};
static const uint64_t ARENA = UINT64_C(1) << ARENA_BITS;

struct go_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    uint32_t runtime;
    int64_t reads_left; // that are left
    int candidates;
    bool ok;    // false: our memory ran out
    bool found; // the table
    uint64_t arenas, bytes;
};

// The address that element `index` of the table stands for: on x86-64 the table begins with the lowest negative address.
static uint64_t arena_at(const struct go_search *s, uint64_t index)
{
    uint64_t base = s->target->arch == AS_ARCH_X86_64 ? UINT64_C(0xffff800000000000) : 0;
    return base + (index << ARENA_BITS);
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
        start > UINT64_MAX - ARENA || s->arenas == MOST_ARENAS || !has_memory(s, start))
        return false;
    s->arenas++;
    s->ok = as_regions_add(s->target, s->store, s->runtime, start, start + ARENA, &s->bytes, s->err);
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
    return as_words_visit(s->target, &s->reads_left, table, table + TABLE, visit_arena, &v) && v.fit && s->arenas > 0;
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
    s->arenas = s->bytes = 0;
    return true;
}

// Goes through the program's variables for a pointer to the table.
static bool search_variables(struct go_search *s, uint64_t program)
{
    const struct as_target *t = s->target;
    const struct as_mapping *first = as_target_mapping_at(t, program);
    for (size_t i = as_target_mapping_from(t, program); first && i < t->mappings.count && s->ok && !s->found; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        bool own = m->inode == first->inode && m->dev_major == first->dev_major && m->dev_minor == first->dev_minor;
        struct as_range variables;
        if (own && as_variables_at(t, i, &variables))
            as_words_visit(s->target, &s->reads_left, variables.start, variables.end, try_variable, s);
    }
    return s->found;
}

bool as_go_find(const struct as_finder_input *in)
{
    if (in->malloc->go_program == 0)
        return true;
    struct go_search s = {
        .target = in->target, .store = in->store, .err = in->err, .reads_left = FREE_READS, .ok = true};
    size_t first = in->store->regions.count;
    s.candidates = CANDIDATES;
    s.runtime = as_runtime_add(in->store, AS_RUNTIME_GO, AS_ROW_managed, in->err);
    bool found = s.runtime != UINT32_MAX && search_variables(&s, in->malloc->go_program);
    if (s.runtime == UINT32_MAX || !s.ok)
        return false;
    if (found)
        as_runtime_found(in->store, s.runtime, s.bytes, NULL,
                         "a variable of the program points to Go's table of arenas: each of the %" PRIu64
                         " that it has is private memory",
                         s.arenas);
    else
        as_runtime_unproven(
            in->store, s.runtime, first,
            "this is a program of Go's, but its table of arenas was not found: the release is unknown, or it "
            "changed during the snapshot. Go's heap is counted in the other rows");
    return true;
}
