// SPDX-License-Identifier: MIT
// pymalloc's arenas by structure. A variable of CPython's points to its array of struct as_py_arena, one for each arena; an
// arena is divided into pools, each of which begins with its header. A pool that was ever used names its arena's index, and
// how far the arena is divided follows from its arena_object: so a pointer to anything else does not pass. The structures are
// those of Objects/obmalloc.c (Include/internal/pycore_obmalloc.h from 3.12 on), read in 3.6 to 3.14, on 64-bit machines.
#include "runtimes/cpython.h"

#include "runtimes/cpython_arenas.h"
#include "runtimes/cpython_hashtable.h"
#include "runtimes/cpython_interpreters.h"
#include "runtimes/pointers.h"
#include "runtimes/regions.h"
#include "runtimes/variables.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    FIRST_ARENAS = 16,    // elements of the array at first; it doubles
    FREE_READS = 1 << 20, // at an arena_object or a pool header, whatever the target's size
    READS = 4,            // more for each place where a pool may be
    TEXT = 256,
};
static const uint64_t LARGEST_MAPPING = UINT64_C(1) << 40; // bytes: what is larger is a reservation

static const struct as_py_layout layouts[] = {
    {"3.6 to 3.9", 256 << 10, 4 << 10},
    {"3.10 to 3.14", 1 << 20, 16 << 10},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

// An array has FIRST_ARENAS elements, or twice as many, and so on. Is there such a length from `last` to `end`?
static bool is_length(uint32_t last, uint32_t end)
{
    uint32_t length = FIRST_ARENAS;
    while (length < last)
        length *= 2;
    return length <= end;
}

// The elements without an arena are a list: one alone has no next.
static size_t count_last_unused(const struct as_py_arena *group)
{
    size_t count = 0;
    for (int i = 0; i < FIRST_ARENAS; i++)
        count += group[i].address == 0 && group[i].next == 0;
    return count;
}

// Adds the arenas of the array at `table`. Where it ends is not known: before the first group with an element that cannot be
// one, or with a second one that would be the last of the list: blocks that are full of zeros may follow. False: it is no
// array; *ok turns false when memory ran out.
static bool add_arenas(struct as_py_search *s, uint64_t table, struct as_size_class_record *classes, bool *ok)
{
    struct as_py_arena group[FIRST_ARENAS];
    struct as_py_element elements[AS_PY_TOGETHER];
    size_t count = 0, last_unused = 0, together = 1; // what is no array fails with its first arena
    uint32_t last = 0;
    bool linked = false;
    for (uint32_t index = 0; (s->reads_left -= FIRST_ARENAS) > 0; index += FIRST_ARENAS) {
        uint64_t at = table + index * sizeof *group;
        bool fits = at >= table && as_target_read(s->target, at, group, sizeof group);
        for (int i = 0; i < FIRST_ARENAS && fits; i++)
            fits = as_py_is_arena(s, table, &group[i]);
        if (!fits || (last_unused += count_last_unused(group)) > 1)
            return last > 0 && is_length(last, index) && as_py_add_arenas(s, elements, count, classes, ok);
        for (uint32_t i = 0; i < FIRST_ARENAS; i++) {
            linked |= group[i].address == 0 && group[i].next != 0;
            if (group[i].address == 0)
                continue;
            if (count == together) {
                if (!as_py_add_arenas(s, elements, count, classes, ok))
                    return false;
                together = AS_PY_TOGETHER;
                count = 0;
            }
            elements[count++] = (struct as_py_element){group[i], index + i};
            last = index + i + 1;
        }
        if (last == 0 && !linked) // zeros, and not elements whose arenas have been returned
            return false;
    }
    return false;
}

// As add_arenas, and what is no array leaves nothing behind.
static bool add_table(struct as_py_search *s, uint64_t table, bool *ok)
{
    struct as_size_class_record classes[AS_PY_CLASSES];
    size_t regions = s->store->regions.count, pages = s->store->runtime_pages.count;
    uint64_t unsettled = s->unsettled, pools = s->pools;
    memcpy(classes, s->classes, sizeof classes);
    if (add_arenas(s, table, classes, ok) && s->pools > pools && s->unsettled - unsettled <= 1) {
        memcpy(s->classes, classes, sizeof classes);
        s->tables[s->table_count++] = table;
        return true;
    }
    s->store->regions.count = regions;
    s->store->runtime_pages.count = pages;
    s->unsettled = unsettled;
    s->pools = pools;
    return false;
}

static void describe_arenas(struct as_py_search *s)
{
    struct as_runtime_record *record = &s->store->runtimes.items[s->runtime];
    record->releases = as_strings_add(&s->store->strings, s->layout->releases, TEXT);
    record->region_size = s->layout->arena;
    record->pool_size = s->layout->pool;
}

static bool is_known(const struct as_py_search *s, uint64_t table)
{
    for (size_t i = 0; i < s->table_count; i++)
        if (s->tables[i] == table)
            return true;
    return false;
}

// Adds the arenas of the array at `table`, if it is one that is not known. False: memory ran out.
static bool try_table(struct as_py_search *s, uint64_t table, const struct as_py_arena *first)
{
    bool ok = true;
    for (int k = 0; k < LAYOUTS && ok && s->table_count < AS_PY_TABLES; k++) {
        s->layout = &layouts[k];
        if (!as_py_is_arena(s, table, first) || is_known(s, table) || !add_table(s, table, &ok))
            continue;
        describe_arenas(s);
        ok = as_regions_sort(s->store, s->first, s->err);
        s->sorted = s->store->regions.count - s->first;
    }
    return ok;
}

// Notes whether behind the variable at `place`, which has an array's address, stands how many elements that has.
static void note_length(struct as_py_search *s, uint64_t place)
{
    uint64_t behind;
    if (!s->has_length && --s->reads_left > 0)
        s->has_length =
            as_target_read_u64(s->target, place + sizeof place, &behind) && as_py_is_array_length((uint32_t)behind);
}

// Notes the traces of the table at `address`, if it is tracemalloc's: there is one. `begin`: its first bytes, as far as an arena_object goes.
static void note_traces(struct as_py_search *s, uint64_t address, const struct as_py_arena *begin)
{
#ifdef AS_AGENT
    (void)s, (void)address, (void)begin;
#else
    struct as_runtime_record *record = &s->store->runtimes.items[s->runtime];
    struct as_py_hashtable h;
    memcpy(&h, begin, sizeof *begin);
    if (record->traces != AS_UNKNOWN || !as_py_has_buckets(&h) || (s->reads_left -= 2) <= 0 ||
        !as_target_read(s->target, address, &h, sizeof h) || !as_py_has_traces(s->target, &h, &s->reads_left))
        return;
    record->traces = h.entries;
    if (s->glibc)
        record->trace_bytes = as_py_trace_bytes(&h);
#endif
}

// Follows pointers; adds the arenas of each array that one of them points to. False: memory ran out.
static bool follow_tables(struct as_py_search *s, const uint64_t *pointers, const uint64_t *places, size_t count)
{
    struct as_py_arena first[AS_POINTERS];
    bool read[AS_POINTERS], ok = true;
    as_target_gather(s->target, pointers, count, sizeof *first, first, sizeof *first, read);
    s->reads_left -= (int64_t)count;
    for (size_t i = 0; i < count && ok && s->reads_left > 0; i++) {
        ok = !read[i] || try_table(s, pointers[i], &first[i]);
        if (read[i] && ok)
            note_traces(s, pointers[i], &first[i]);
        if (places && is_known(s, pointers[i]))
            note_length(s, places[i]);
    }
    return ok;
}

static bool follow_pointers(void *context, const uint64_t *pointers, const uint64_t *places, size_t count)
{
    return follow_tables(context, pointers, places, count);
}

// Does the address lie in an arena that was found? Arrays of arenas do not: CPython gets their memory of malloc (PyMem_RawRealloc).
static bool is_in_arena(const struct as_py_search *s, uint64_t address)
{
    const struct as_region_record *regions = s->store->regions.items; // null as long as there is none
    size_t after = AS_PARTITION_POINT(s->first, s->first + s->sorted, i, regions[i].address <= address);
    return after > s->first && address - regions[after - 1].address < regions[after - 1].size;
}

static bool is_candidate(void *context, uint64_t place, uint64_t word)
{
    struct as_py_search *s = context;
    if (word == AS_PY_RUNTIME_COOKIE)
        s->offsets = place;
    return word % AS_PY_ALIGNMENT == 0 && as_is_in_runtime_memory(&s->places, s->target, word) && !is_in_arena(s, word);
}

// Reads CPython's variables in [start, end) for pointers to private memory.
static bool search_range(struct as_py_search *s, uint64_t start, uint64_t end)
{
    const struct as_pointer_search p = {s->target, s, is_candidate, follow_pointers, &s->reads_left, s->words};
    // Those that begin as 0 come first. Before 3.12 the address of the array is one of them, and most of the others are addresses of objects,
    // which need not be followed once the arenas are known.
    const struct as_mapping *m = as_target_mapping_at(s->target, start);
    uint64_t zeros = m && m->end < end ? m->end : end;
    return as_pointers_search(&p, zeros, end) && as_pointers_search(&p, start, zeros);
}

// Goes through the interpreter's variables.
static bool search(struct as_py_search *s, bool (*visit)(struct as_py_search *s, uint64_t start, uint64_t end))
{
    const struct as_target *t = s->target;
    for (size_t i = 0; i < t->mappings.count; i++) {
        struct as_range variables;
        if (as_interpreters_have(s->interpreters, AS_INTERPRETER_CPYTHON, &t->mappings.items[i]) &&
            as_variables_at(t, i, &variables) && !visit(s, variables.start, variables.end))
            return false;
    }
    return true;
}

// Sorts the arenas found. False: two overlap, so that one of them is none; or memory ran out, and *ok turns false.
static bool sort_regions(struct as_py_search *s, bool *ok)
{
    const struct as_region_record *regions = s->store->regions.items;
    size_t count = s->store->regions.count;
    if (count - s->first >= (size_t)1 << AS_PY_INDEX_BITS) // a terabyte of them: no place for the index
        return false;
    *ok = as_regions_sort(s->store, s->first, s->err);
    bool disjoint = *ok;
    for (size_t i = s->first + 1; i < count && disjoint; i++)
        disjoint = regions[i].address - regions[i - 1].address >= regions[i - 1].size;
    return disjoint;
}

// Adds the size classes that have a pool, and what shows that all of this is CPython's.
static bool add_classes(struct as_py_search *s)
{
    struct as_store *store = s->store;
    struct as_runtime_record *record = &store->runtimes.items[s->runtime];
    char evidence[TEXT];
    for (uint32_t i = 0; i < AS_PY_CLASSES; i++) {
        if (s->classes[i].pools == 0)
            continue;
        struct as_size_class_record *class = as_vec_add(&store->size_classes, s->err);
        if (!class)
            return false;
        *class = s->classes[i];
        class->runtime = s->runtime;
        class->size = (i + 1) * AS_PY_ALIGNMENT;
    }
    snprintf(evidence, sizeof evidence,
             "a variable of the interpreter points to its table of arenas at 0x%" PRIx64
             "%s; the headers of all %" PRIu64 " pools in the %zu arenas fit the table%s",
             s->tables[0], s->table_count > 1 ? ", other interpreters have their own" : "", s->pools,
             store->regions.count - s->first, s->table_count > 1 ? "s" : "");
    record->evidence = as_strings_add(&store->strings, evidence, sizeof evidence);
    record->state = AS_REGIONS_FOUND;
    return true;
}

// Adds the arenas of those tables that are some, and frees the list of them.
static bool follow_all(struct as_py_search *s, as_py_pointer_vec *tables, bool ok)
{
    for (size_t i = 0; i < tables->count && ok; i += AS_POINTERS)
        ok = follow_tables(s, tables->items + i, NULL,
                           tables->count - i < AS_POINTERS ? tables->count - i : AS_POINTERS);
    as_vec_free(tables);
    return ok;
}

// Adds the arenas of interpreters that publish no offsets: a list has them.
static bool search_list(struct as_py_search *s, uint64_t start, uint64_t end)
{
    as_py_pointer_vec tables = {0};
    bool ok = as_py_interpreters_listed(s->target, start, end, s->tables[0], &tables, &s->reads_left, s->err);
    return follow_all(s, &tables, ok);
}

// Adds the arenas of interpreters besides the first one, whose state is none of the variables.
static bool search_interpreters(struct as_py_search *s)
{
    as_py_pointer_vec tables = {0};
    bool whole = true;
    if (s->offsets == 0)
        return s->table_count == 0 || !s->has_length || search(s, search_list);
    bool ok = as_py_interpreters_find(s->target, s->offsets, &tables, &s->reads_left, &whole, s->err);
    ok = follow_all(s, &tables, ok);
    if (ok && !whole && s->table_count > 0)
        as_store_warn(s->store, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, s->offsets,
                      "the list of Python's interpreters could not be read to its end: if there are others than the "
                      "first one, their arenas are counted in the other rows");
    return ok;
}

static int64_t reads_of(const struct as_target *t)
{
    uint64_t memory = 0;
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings)
        if (as_is_runtime_memory(m) && m->end - m->start <= LARGEST_MAPPING)
            memory += m->end - m->start;
    return FREE_READS + READS * (int64_t)(memory / layouts[0].pool);
}

// What was found is kept only if it is all there is. A runtime whose arenas were not found is a record without regions.
static bool keep_arenas_or_drop(struct as_py_search *s, bool ok)
{
    struct as_store *store = s->store;
    // With as many tables as there is room for, another one may have been left out.
    bool found = ok && s->reads_left > 0 && s->table_count < AS_PY_TABLES && store->regions.count > s->first &&
                 sort_regions(s, &ok);
    if (found)
        return add_classes(s);
    store->regions.count = s->first;
    store->runtime_pages.count = s->first_page;
    store->runtimes.items[s->runtime].releases = 0;
    bool free_threaded = s->offsets != 0 && as_py_is_free_threaded(s->target, s->offsets);
    as_store_warn(
        store, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN, "%s",
        free_threaded
            ? "this process runs a free-threaded build of Python, which has mimalloc in place of arenas: its "
              "objects lie in the memory of mimalloc, and are not divided by type"
            : "this process runs Python, but no arenas of Python's own allocator (pymalloc) were found: it is "
              "switched off (PYTHONMALLOC=malloc), the build is free-threaded, the release is unknown, or the "
              "arenas changed during the snapshot. Python's objects are counted in the other rows");
    return ok;
}

bool as_cpython_find(const struct as_finder_input *in)
{
    if (as_interpreters_first(&in->malloc->interpreters, AS_INTERPRETER_CPYTHON) == 0)
        return true;
    uint32_t runtime = as_runtime_add(in->store, AS_RUNTIME_CPYTHON, AS_ROW_python_arenas, in->err);
    if (runtime == UINT32_MAX)
        return false;
    struct as_py_search s = {
        .target = in->target,
        .interpreters = &in->malloc->interpreters,
        .store = in->store,
        .err = in->err,
        .runtime = runtime,
        .first = in->store->regions.count,
        .first_page = in->store->runtime_pages.count,
        .glibc = in->malloc->kind == AS_MALLOC_GLIBC,
        .pages = in->pages,
        .words = in->words,
        .reads_left = reads_of(in->target),
    };
    if (in->words)
        as_variable_words_read(in->words, in->target, s.interpreters);
    bool ok = keep_arenas_or_drop(&s, search(&s, search_range) && search_interpreters(&s));
    AS_FREE_VECS(&s, addresses, headers, read);
    return ok;
}
