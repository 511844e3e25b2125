// SPDX-License-Identifier: MIT
// The ranges of metaspace, which no table of HotSpot's names. Two of its variables point to the contexts of metaspace, one for
// classes and one for all else (src/hotspot/share/memory/metaspace/metaspaceContext.hpp, from 16 on). A context has its name
// and a list of reserved ranges; the list has the same name, and how many words its ranges have and how many of them are
// committed (virtualSpaceList.hpp); each range leads to the next one, and back to these two counters of its list
// (virtualSpaceNode.hpp). So a list is proven if its ranges add up to what it has reserved. Read in 17 and 25.
#include "runtimes/hotspot_metaspace.h"

#include "runtimes/pointers.h"
#include "runtimes/regions.h"

#include <stddef.h>
#include <string.h>

enum {
    WORD = 8,
    READS = 1 << 18,   // of pointers, whatever the target has
    GRANULE = 1 << 16, // bytes, of which metaspace commits all or nothing
    NODES = 4096,      // of a list; each has 64 MiB as a rule
    NODE_WORDS = 24,   // that are inspected
    LISTS = 2,
};
static const uint64_t MOST_WORDS = UINT64_C(1) << 41; // reserved

struct context {
    uint64_t name, list;
};
struct range_list {
    uint64_t vtable, name, first, flags, limiter, reserved, committed;
};

struct metaspace_search {
    struct as_target *target;
    struct as_hotspot_metaspace *out;
    struct as_error *err;
    uint64_t start, end; // of libjvm.so, with its variables
    uint64_t lists[LISTS];
    int64_t reads_left;
    bool doubtful; // something resembles a context, and its list is not proven
};

static bool is_inside(const struct metaspace_search *s, uint64_t address)
{
    return address >= s->start && address < s->end;
}

static bool may_be_object(const struct metaspace_search *s, uint64_t address)
{
    return address != 0 && address % WORD == 0 && !is_inside(s, address) &&
           as_is_runtime_memory(as_target_mapping_at(s->target, address));
}

// Reads a range: the address of the next one, where it begins, its length, and then once more both (the length in words); and its
// list's limiter and counters.
static bool read_node(const struct metaspace_search *s, uint64_t address, uint64_t list_at,
                      const struct range_list *list, uint64_t *next, struct as_range *range)
{
    uint64_t words[NODE_WORDS];
    if (!may_be_object(s, address) || !as_target_read(s->target, address, words, sizeof words))
        return false;
    uint64_t base = words[1], bytes = words[2];
    if (base == 0 || base % GRANULE != 0 || bytes == 0 || bytes % GRANULE != 0 || bytes / WORD > list->reserved ||
        base > UINT64_MAX - bytes)
        return false;
    bool again = false, leads_back = false;
    for (int i = 3; i + 1 < NODE_WORDS; i++) {
        again |= words[i] == base && words[i + 1] == bytes / WORD;
        leads_back |= words[i - 1] == list->limiter && words[i] == list_at + offsetof(struct range_list, reserved) &&
                      words[i + 1] == list_at + offsetof(struct range_list, committed);
    }
    *next = words[0];
    *range = (struct as_range){base, base + bytes};
    return again && leads_back;
}

// Adds the ranges of a list. False: they are not what it says; *ok turns false when our memory ran out.
static bool add_nodes(struct metaspace_search *s, uint64_t list_at, const struct range_list *list, bool *ok)
{
    uint64_t left = list->reserved, at = list->first;
    for (int i = 0; i < NODES && at != 0; i++) {
        struct as_range range;
        if (!read_node(s, at, list_at, list, &at, &range) || (range.end - range.start) / WORD > left)
            return false;
        left -= (range.end - range.start) / WORD;
        *ok = as_vec_push(&s->out->nodes, s->err, range);
        if (!*ok)
            return false;
    }
    return at == 0 && left == 0;
}

// Follows what may be a context. False: our memory ran out.
static bool follow_context(struct metaspace_search *s, const struct context *context)
{
    struct range_list list;
    bool ok = true;
    if (!is_inside(s, context->name) || !may_be_object(s, context->list) ||
        !as_target_read(s->target, context->list, &list, sizeof list) || list.name != context->name ||
        !is_inside(s, list.vtable) || !is_inside(s, list.limiter))
        return true;
    for (size_t i = 0; i < s->out->lists; i++)
        if (s->lists[i] == context->list)
            return true;
    if (s->out->lists == LISTS || list.reserved > MOST_WORDS || list.committed > list.reserved ||
        !add_nodes(s, context->list, &list, &ok)) {
        s->doubtful = true;
        return ok;
    }
    s->lists[s->out->lists++] = context->list;
    s->out->committed += list.committed * WORD;
    return true;
}

static bool follow_all(void *context, const uint64_t *pointers, const uint64_t *places, size_t count)
{
    (void)places;
    struct metaspace_search *s = context;
    struct context contexts[AS_POINTERS];
    bool read[AS_POINTERS];
    as_target_gather(s->target, pointers, count, sizeof *contexts, contexts, sizeof *contexts, read);
    s->reads_left -= (int64_t)count;
    for (size_t i = 0; i < count; i++)
        if (read[i] && !follow_context(s, &contexts[i]))
            return false;
    return true;
}

static bool is_candidate(void *context, uint64_t place, uint64_t word)
{
    (void)place;
    return may_be_object(context, word);
}

// Is the mapping of libjvm.so, or the nameless one behind it (.bss)? A core has no numbers of files, but their names.
static bool is_library(const struct metaspace_search *s, const char *library, const struct as_mapping *m)
{
    const char *path = as_mapping_path(s->target, m);
    return as_mapping_of_file(m) ? strcmp(path, library) == 0
                                 : m->start == s->end && as_is_runtime_memory(m) && *path == 0;
}

bool as_hotspot_metaspace_find(const struct as_hotspot *h, struct as_hotspot_metaspace *out, struct as_error *err)
{
    struct as_target *t = h->target;
    struct metaspace_search s = {
        .target = t, .out = out, .err = err, .start = h->start, .end = h->start, .reads_left = READS};
    size_t first = as_target_mapping_from(t, h->start), end = first;
    *out = (struct as_hotspot_metaspace){0};
    const char *library = as_mapping_path(t, &t->mappings.items[first]); // as_hotspot_read has seen that it is mapped
    for (; end < t->mappings.count && is_library(&s, library, &t->mappings.items[end]); end++)
        s.end = t->mappings.items[end].end;
    const struct as_pointer_search search = {t, &s, is_candidate, follow_all, &s.reads_left, NULL};
    bool ok = true;
    for (size_t i = first; i < end && ok; i++)
        if (t->mappings.items[i].prot & AS_PROT_WRITE)
            ok = as_pointers_search(&search, t->mappings.items[i].start, t->mappings.items[i].end);
    if (s.doubtful || s.reads_left <= 0)
        out->lists = 0;
    return ok;
}
