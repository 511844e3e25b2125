// SPDX-License-Identifier: MIT
#include "cli/summary/mappings_left.h"

#include "findings/humanize.h"
#include "ledger/ledger.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_GUARD = 1 << 20,       // a larger area without access is a reservation, not a guard
    MIN_RESERVATION = 1 << 20, // a smaller one says nothing
    SHOWN_NAME = 200,          // bytes of a name in a sentence
};

// How many steps a search for the mappings of all regions may take: a forged dump can have regions that all span everything.
enum { STEPS_PER_RECORD = 64 };

// The first mapping that ends behind `address`.
static uint64_t mapping_from(const struct as_view *v, uint64_t address)
{
    return AS_PARTITION_POINT(0, v->mapping_count, i, v->mappings[i].end <= address);
}

// A part of a runtime's heap, [start, end), to the mappings that it lies in. A mapping that lies in it wholly is all the
// runtime's. Of what is left the bytes are known as long as only one mapping has the rest.
static void add_part(struct as_mappings_left *m, const struct as_view *v, uint64_t start, uint64_t end,
                     uint64_t resident, uint64_t *steps)
{
    uint64_t partial = UINT64_MAX, rest = resident;
    for (uint64_t i = mapping_from(v, start); i < v->mapping_count && v->mappings[i].start < end; i++) {
        if (*steps == 0)
            return;
        --*steps;
        const struct as_mapping_record *mapping = &v->mappings[i];
        if (mapping->start >= start && mapping->end <= end) {
            m->runtimes.items[i] = mapping->rss;
            rest = rest == AS_UNKNOWN || mapping->rss > rest ? AS_UNKNOWN : rest - mapping->rss;
        } else if (partial == UINT64_MAX) {
            partial = i;
        } else {
            m->runtimes.items[i] = rest = AS_UNKNOWN;
        }
    }
    if (partial != UINT64_MAX)
        m->runtimes.items[partial] = as_add(m->runtimes.items[partial], rest);
}

static void add_parts(struct as_mappings_left *m, const struct as_view *v)
{
    uint64_t steps = STEPS_PER_RECORD * (v->mapping_count + v->ruby_page_count + v->region_count);
    for (uint64_t i = 0; i < v->ruby_page_count; i++)
        if (v->ruby[i].heap == UINT32_MAX)
            add_part(m, v, v->ruby[i].address, v->ruby[i].address + v->ruby[i].size, v->ruby[i].resident, &steps);
    for (uint64_t i = 0; i < v->region_count; i++)
        if (v->regions[i].heap == UINT32_MAX)
            add_part(m, v, v->regions[i].address, v->regions[i].address + v->regions[i].size, v->regions[i].resident,
                     &steps);
}

bool as_mappings_left_open(struct as_mappings_left *m, const struct as_view *v, struct as_error *err)
{
    *m = (struct as_mappings_left){0};
    if (!as_vec_reserve(&m->runtimes, v->mapping_count, err) || !as_vec_reserve(&m->left, v->mapping_count, err)) {
        as_mappings_left_close(m);
        return false;
    }
    m->runtimes.count = m->left.count = v->mapping_count;
    add_parts(m, v);
    for (uint64_t i = 0; i < v->mapping_count; i++) {
        const struct as_mapping_record *mapping = &v->mappings[i];
        uint64_t others = as_add(mapping->malloc_rss, m->runtimes.items[i]);
        bool known = mapping->rss != AS_UNKNOWN && others != AS_UNKNOWN && others <= mapping->rss;
        m->left.items[i] = known ? mapping->rss - others : AS_UNKNOWN;
    }
    return true;
}

void as_mappings_left_close(struct as_mappings_left *m)
{
    AS_FREE_VECS(m, runtimes, left);
}

int as_mapping_row(const struct as_mapping_record *m)
{
    if (m->role == AS_ROLE_STACK)
        return AS_ROW_stacks;
    if (m->role == AS_ROLE_UNKNOWN)
        return AS_ROW_unknown;
    return m->kind == AS_MAP_ANON    ? AS_ROW_other_anon
           : m->kind == AS_MAP_SHMEM ? AS_ROW_other_shmem
                                     : AS_ROW_other_file;
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static uint64_t size_of(const struct as_mapping_record *m)
{
    return m && m->end > m->start ? m->end - m->start : 0;
}

// The mapping that ends where this one begins, or begins where it ends; NULL.
static const struct as_mapping_record *below(const struct as_view *v, uint64_t index)
{
    return index > 0 && v->mappings[index - 1].end == v->mappings[index].start ? &v->mappings[index - 1] : NULL;
}
static const struct as_mapping_record *above(const struct as_view *v, uint64_t index)
{
    bool touches = index + 1 < v->mapping_count && v->mappings[index + 1].start == v->mappings[index].end;
    return touches ? &v->mappings[index + 1] : NULL;
}

static bool no_access(const struct as_mapping_record *m)
{
    return m && m->kind == AS_MAP_ANON && (m->prot & (AS_PROT_READ | AS_PROT_WRITE | AS_PROT_EXEC)) == 0;
}

// What the mapping's own name and protection say.
static bool of_itself(const struct as_view *v, const struct as_mapping_record *m, struct as_may_be *is)
{
    const char *name = as_view_string(v, m->path);
    if (starts_with(name, "[anon:")) {
        is->kind = "memory that the program has given a name";
        snprintf(is->evidence, sizeof is->evidence, "the kernel keeps the name \"%.*s\" for it",
                 (int)strcspn(name + 6, "]") > SHOWN_NAME ? SHOWN_NAME : (int)strcspn(name + 6, "]"), name + 6);
    } else if (strcmp(name, "[heap]") == 0) {
        is->kind =
            v->malloc_count ? "memory that something else than glibc's malloc took with brk()" : "memory of brk()";
        snprintf(is->evidence, sizeof is->evidence, "it is in the kernel's [heap]%s",
                 v->malloc_count ? ", and in no heap of malloc's" : "; no malloc of glibc's was found");
    } else if (m->prot & AS_PROT_EXEC) {
        is->kind = "code that the program made at run time (JIT)";
        snprintf(is->evidence, sizeof is->evidence, "it is executable, and of no file");
    }
    return is->kind;
}

static bool same_path(const struct as_view *v, const struct as_mapping_record *a, const struct as_mapping_record *b)
{
    return strcmp(as_view_string(v, a->path), as_view_string(v, b->path)) == 0;
}

// Does it follow a file's data that can be written? A program may have protected the last pages of these data.
static bool follows_data(const struct as_view *v, uint64_t index)
{
    const struct as_mapping_record *before = below(v, index), *first = before;
    if (!before || before->kind != AS_MAP_FILE || !*as_view_string(v, before->path))
        return false;
    for (uint64_t i = index - 1; first && same_path(v, first, before); first = below(v, i--))
        if (first->prot & AS_PROT_WRITE)
            return true;
    return false;
}

// What the mappings beside it say.
static void of_neighbours(const struct as_view *v, uint64_t index, struct as_may_be *is)
{
    const struct as_mapping_record *m = &v->mappings[index], *before = below(v, index), *after = above(v, index);
    const struct as_mapping_record *reserved = no_access(after)                                   ? after
                                               : no_access(before) && size_of(before) > MAX_GUARD ? before
                                                                                                  : NULL;
    if (follows_data(v, index)) {
        is->kind = "variables of a program or library (.bss)";
        snprintf(is->evidence, sizeof is->evidence, "it begins where the writable data of %.*s end", SHOWN_NAME,
                 as_view_string(v, before->path));
    } else if (m->prot & AS_PROT_WRITE && no_access(before) && size_of(before) <= MAX_GUARD &&
               size_of(m) > size_of(before)) {
        is->kind = "the stack of a coroutine, or of a thread that has ended";
        // Where the threads' stack pointers are not known, this may be the stack of one that runs.
        bool threads_known = v->totals->ledger.stacks != AS_UNKNOWN;
        is->stack_without_thread = threads_known;
        if (!threads_known)
            is->kind = "the stack of a thread, or of a coroutine";
        snprintf(is->evidence, sizeof is->evidence, "a guard of %s without access lies just below it%s",
                 as_size_text(size_of(before)).text, threads_known ? ", and no thread's stack pointer in it" : "");
    } else if (reserved && size_of(reserved) >= MIN_RESERVATION) {
        is->kind = "a heap that grows within a range reserved for it: a runtime's, or another allocator's";
        snprintf(is->evidence, sizeof is->evidence, "%s without access are reserved next to it",
                 as_size_text(size_of(reserved)).text);
    }
}

// What a part of it is known to be.
static bool of_parts(const struct as_mapping_record *m, uint64_t runtimes, struct as_may_be *is)
{
    if (runtimes != AS_UNKNOWN && runtimes > 0) {
        is->kind = "the runtime's own memory beside its heap, or a neighbour that the kernel joined with it";
        snprintf(is->evidence, sizeof is->evidence, "%s of the mapping are in a runtime's heap",
                 as_size_text(runtimes).text);
    } else if (m->malloc_rss != AS_UNKNOWN && m->malloc_rss > 0) {
        is->kind = "the program's own mmap() beside malloc's memory: the kernel joins neighbours";
        snprintf(is->evidence, sizeof is->evidence, "%s of the mapping are malloc's", as_size_text(m->malloc_rss).text);
    }
    return is->kind;
}

struct as_may_be as_mapping_may_be(const struct as_view *v, const struct as_mappings_left *left, uint64_t index)
{
    // A mapping that was joined with its neighbours tells nothing by where it begins.
    struct as_may_be is = {0};
    if (!of_itself(v, &v->mappings[index], &is) && !of_parts(&v->mappings[index], left->runtimes.items[index], &is))
        of_neighbours(v, index, &is);
    return is;
}

const char *as_format_protection(uint32_t prot, char out[5])
{
    snprintf(out, 5, "%c%c%c%c", prot & AS_PROT_READ ? 'r' : '-', prot & AS_PROT_WRITE ? 'w' : '-',
             prot & AS_PROT_EXEC ? 'x' : '-', prot & AS_PROT_SHARED ? 's' : 'p');
    return out;
}
