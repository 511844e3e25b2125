// SPDX-License-Identifier: MIT
// What is searched: the data of each module, the threads' stacks from their stack pointers on, thread-local variables, registers,
// shared memory, and all other anonymous memory. What is left out: malloc's heaps and its own structures (main_arena, mp_), whose
// pointers to free chunks lead into the chunks before these; what lies below a stack pointer; and pages of files that nobody has
// written to, which hold no address of a heap.
#include "graph/roots.h"
#include "base/align.h"
#include "base/memory.h"
#include "base/sort.h"

#include <string.h>

enum {
    BLOCK = 1 << 18,
    BESIDE = 80, // bytes behind a block that are read too: a pointer's neighbours may lie there
    WORD = sizeof(uint64_t),
    RED_ZONE = 128,    // of x86-64: a leaf function uses it without moving the stack pointer
    DESCRIPTOR = 4096, // no struct pthread is larger
};

// Which pages of such memory there are takes 8 bytes to read for each, whether it is there or not: a second for so many bytes.
static const uint64_t MOST_SHARED = UINT64_C(1) << 40;

struct root_search {
    struct as_roots *roots;
    const struct as_index *index;
    struct as_patterns *patterns;
    const struct as_objects *objects;
    struct as_target *target;
    struct as_error *err;
    const struct as_roots_plan *plan;
    uint8_t *block;
};

static bool add_root(struct root_search *s, uint64_t address, uint32_t node, bool begins)
{
    return as_vec_push(&s->roots->list, s->err,
                       (struct as_root){.address = address,
                                        .node = node,
                                        .source = (uint32_t)(s->roots->sources.count - 1) & AS_MOST_SOURCES,
                                        .begins = begins});
}

// `known`: of the block, `bytes` or more.
static bool add_words(struct root_search *s, uint64_t address, size_t bytes, size_t known)
{
    const uint64_t low = s->index->low + AS_HEADER, size = s->index->size;
    for (size_t i = 0; i + WORD <= bytes; i += WORD) {
        uint64_t word;
        bool begins;
        memcpy(&word, s->block + i, sizeof word);
        uint32_t node = word - low < size ? as_index_pointer(s->index, word, &begins) : AS_NO_NODE;
        if (node == AS_NO_NODE || as_object_is_listed(s->objects, s->index, node, word))
            continue;
        const struct as_beside beside = {address + i, s->block + i, i / WORD, (known - i) / WORD};
        if (begins && as_node_is_chunk(s->objects, s->index, node))
            as_pattern_match(s->patterns, node, &beside);
        else if (!begins && !as_index_is_mapped(s->index, node))
            as_claim_inside(&s->patterns->claims, node, &beside);
        if (!add_root(s, address + i, node, begins))
            return false;
    }
    return true;
}

// Memory that the clone which we inspect shares with the target, or has not got: what the target itself has of it now. The
// rest of the block is zeros. False: no clone is inspected.
static bool read_kept(struct root_search *s, uint64_t start, uint64_t end)
{
    struct as_target *t = s->target;
    uint8_t pages[BLOCK / AS_SMALLEST_PAGE];
    uint64_t first = as_align_down(start, t->page_size);
    if (!as_target_kept_pages(t, first, as_align_up(end, t->page_size), pages))
        return false;
    memset(s->block, 0, end - start);
    for (uint64_t at = start; at < end;) {
        uint64_t next = as_align_down(at, t->page_size) + t->page_size;
        next = next < end ? next : end;
        if (pages[(at - first) / t->page_size] && !as_target_read_kept(t, at, s->block + (at - start), next - at))
            memset(s->block + (at - start), 0, next - at);
        at = next;
    }
    s->roots->running = true;
    return true;
}

// Searches [start, end), in which malloc has nothing. `shared`: of which a clone has no page, or another.
static bool search_range(struct root_search *s, uint64_t start, uint64_t end, bool shared)
{
    struct as_target *t = s->target;
    uint8_t first;
    uint64_t page = as_align_down(start, t->page_size);
    if (shared && end - start > MOST_SHARED && as_target_kept_pages(t, page, page + t->page_size, &first)) {
        s->roots->unsearched += end - start;
        return true;
    }
    for (uint64_t at = as_align_up(start, WORD); at < end;) {
        uint64_t next = as_align_down(at, BLOCK) + BLOCK;
        next = next < end ? next : end;
        if (shared && read_kept(s, at, next)) {
            if (!add_words(s, at, next - at, next - at))
                return false;
            at = next;
            continue;
        }
        uint64_t present = as_target_skip_missing(t, as_target_skip_absent(t, at, end));
        if (present > at) {
            at = as_align_up(present, WORD);
            continue;
        }
        size_t known = as_target_read_resident(t, at, s->block, next - at + BESIDE);
        size_t got = known < next - at ? known : (size_t)(next - at);
        if (!add_words(s, at, got, known))
            return false;
        at = got > 0 && got < next - at ? as_align_down(at + got, t->page_size) + t->page_size : next;
    }
    return true;
}

// Searches [start, end), of one kind, around what is malloc's.
static bool search_around(struct root_search *s, struct as_root_source source, bool shared)
{
    if (!as_vec_push(&s->roots->sources, s->err, source))
        return false;
    const struct as_range *parts = s->plan->kept_out.items; // of malloc's
    size_t count = s->plan->kept_out.count;
    uint64_t at = source.start;
    for (size_t i = AS_PARTITION_POINT(0, count, k, parts[k].end <= at); i < count && parts[i].start < source.end;
         i++) {
        if (parts[i].start > at && !search_range(s, at, parts[i].start, shared))
            return false;
        at = parts[i].end;
    }
    return at >= source.end || search_range(s, at, source.end, shared);
}

// The stacks in a mapping. Where guards are no mappings of their own, several threads' stacks are one mapping.
static bool search_stacks(struct root_search *s, uint32_t mapping, size_t first)
{
    const struct as_target *t = s->target;
    const struct as_mapping *m = &t->mappings.items[mapping];
    for (size_t i = first; i < s->plan->stack_pointers.count && s->plan->stack_pointers.items[i] < m->end; i++) {
        uint64_t sp = as_align_down(s->plan->stack_pointers.items[i], WORD);
        bool last = i + 1 == s->plan->stack_pointers.count || s->plan->stack_pointers.items[i + 1] >= m->end;
        uint64_t limit = last ? m->end : s->plan->stack_pointers.items[i + 1];
        uint64_t tp = t->threads.items[s->plan->stack_threads.items[i]].tp;
        struct as_root_source source = {.kind = AS_ROOT_STACK,
                                        .start = sp - m->start > RED_ZONE ? sp - RED_ZONE : m->start,
                                        .end = limit,
                                        .mapping = mapping,
                                        .thread = s->plan->stack_threads.items[i],
                                        .module = UINT32_MAX};
        if (tp == AS_UNKNOWN || tp < sp || tp >= limit) { // the main thread's variables are elsewhere
            if (!search_around(s, source, m->out_of_reach))
                return false;
            continue;
        }
        // x86-64: variables, then the descriptor at the thread pointer. aarch64: the descriptor, then variables.
        bool below = t->arch == AS_ARCH_X86_64;
        uint64_t before = below ? s->plan->tls_bytes : DESCRIPTOR,
                 behind = below ? DESCRIPTOR : s->plan->tls_bytes + DESCRIPTOR;
        uint64_t variables = tp - sp > before ? as_align_down(tp - before, WORD) : sp;
        source.end = variables;
        if (!search_around(s, source, m->out_of_reach))
            return false;
        source.kind = AS_ROOT_THREAD;
        source.start = variables;
        source.end = last || limit - tp < behind ? limit : as_align_up(tp + behind, t->page_size);
        source.end = source.end < limit ? source.end : limit;
        if (!search_around(s, source, m->out_of_reach))
            return false;
    }
    return true;
}

static bool holds_thread_pointer(const struct as_target *t, const struct as_mapping *m)
{
    for (size_t i = 0; i < t->threads.count && i < 2; i++) // the main thread's; others lie in their stacks
        if (t->threads.items[i].tp != AS_UNKNOWN && t->threads.items[i].tp - m->start < m->end - m->start)
            return true;
    return false;
}

// May a mapping hold an address of a heap? Not what nobody can have written to.
static bool is_worth_it(const struct as_target *t, const struct as_mapping *m)
{
    bool written = m->anonymous != 0 || t->kind == AS_TARGET_CORE;
    bool resident = m->rss != 0 || m->swap != 0;
    switch (m->kind) {
    case AS_MAP_FILE:
        return !(m->prot & AS_PROT_SHARED) && written;
    case AS_MAP_SHMEM:
        return resident && (m->prot & AS_PROT_READ);
    case AS_MAP_ANON:
        return resident;
    default:
        return false;
    }
}

// Is it a mapping of a runtime's heap, and nobody else's?
static bool is_runtime(const struct root_search *s, uint32_t i)
{
    return s->plan->runtime.items[i] && s->plan->module_of.items[i] == UINT32_MAX &&
           s->target->mappings.items[i].kind == AS_MAP_ANON;
}

static bool search_mapping(struct root_search *s, uint32_t i)
{
    const struct as_target *t = s->target;
    const struct as_mapping *m = &t->mappings.items[i];
    bool shared = m->out_of_reach || m->kind == AS_MAP_SHMEM;
    struct as_root_source source = {.kind = AS_ROOT_MEMORY,
                                    .start = m->start,
                                    .end = m->end,
                                    .mapping = i,
                                    .thread = UINT32_MAX,
                                    .module = s->plan->module_of.items[i]};
    size_t sp = as_lower_bound(s->plan->stack_pointers.items, s->plan->stack_pointers.count, m->start);
    if (m->kind == AS_MAP_ANON && sp < s->plan->stack_pointers.count && s->plan->stack_pointers.items[sp] < m->end)
        return search_stacks(s, i, sp);
    if (source.module != UINT32_MAX || m->kind == AS_MAP_FILE) {
        uint64_t end = source.module != UINT32_MAX ? as_roots_end_of_module(s->plan, source.module) : m->end;
        source.kind = AS_ROOT_GLOBAL;
        source.end = m->kind == AS_MAP_ANON && end < m->end ? end : m->end;
        if (!search_around(s, source, shared))
            return false;
        source.start = source.end;
        source.end = m->end;
        source.module = UINT32_MAX;
        if (source.start == source.end)
            return true;
    }
    source.kind = m->kind == AS_MAP_SHMEM      ? AS_ROOT_SHARED
                  : s->plan->runtime.items[i]  ? AS_ROOT_RUNTIME
                  : holds_thread_pointer(t, m) ? AS_ROOT_THREAD
                                               : AS_ROOT_MEMORY;
    return search_around(s, source, shared);
}

static bool add_registers(struct root_search *s)
{
    const struct as_target *t = s->target;
    for (size_t i = 0; i < t->threads.count; i++) {
        if (!as_vec_push(
                &s->roots->sources, s->err,
                (struct as_root_source){
                    .kind = AS_ROOT_REGISTER, .mapping = UINT32_MAX, .thread = (uint32_t)i, .module = UINT32_MAX}))
            return false;
        for (size_t k = 0; k < AS_GENERAL_REGISTERS; k++) {
            bool begins;
            uint32_t node = as_index_pointer(s->index, t->threads.items[i].general[k], &begins);
            if (node != AS_NO_NODE && !add_root(s, 0, node, begins))
                return false;
        }
    }
    return true;
}

bool as_roots_find(struct as_roots *r, const struct as_index *x, struct as_patterns *patterns,
                   const struct as_objects *objects, const struct as_roots_plan *plan, struct as_error *err)
{
    struct as_target *t = plan->target;
    struct root_search s = {
        .roots = r, .index = x, .patterns = patterns, .objects = objects, .target = t, .err = err, .plan = plan};
    *r = (struct as_roots){.modules = plan->modules};
    s.block = as_memory_map(BLOCK + BESIDE, "a block of memory", err);
    bool ok = s.block;
    // Runtimes' heaps come last, one behind the other: all of them are one owner.
    for (size_t i = 0; ok && i < t->mappings.count; i++)
        if (is_worth_it(t, &t->mappings.items[i]) && !is_runtime(&s, (uint32_t)i))
            ok = search_mapping(&s, (uint32_t)i);
    for (size_t i = 0; ok && i < t->mappings.count; i++)
        if (is_worth_it(t, &t->mappings.items[i]) && is_runtime(&s, (uint32_t)i))
            ok = search_mapping(&s, (uint32_t)i);
    ok = ok && add_registers(&s);
    as_memory_unmap(s.block, BLOCK + BESIDE);
    return ok;
}

const char *as_root_kind_name(enum as_root_kind kind)
{
    static const char *const names[AS_ROOT_KINDS] = {
        [AS_ROOT_GLOBAL] = "variable", [AS_ROOT_THREAD] = "thread_variables", [AS_ROOT_RUNTIME] = "runtime",
        [AS_ROOT_MEMORY] = "memory",   [AS_ROOT_SHARED] = "shared_memory",    [AS_ROOT_REGISTER] = "registers",
        [AS_ROOT_STACK] = "stack",     [AS_ROOT_FRAMES] = "frames",           [AS_ROOT_UNREACHED] = "unreached_objects",
    };
    return names[kind];
}

void as_roots_free(struct as_roots *r)
{
    AS_FREE_VECS(r, sources, list);
}
