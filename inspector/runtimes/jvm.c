// SPDX-License-Identifier: MIT
// HotSpot's memory. The heap is the range that the collector has reserved (G1, Serial, Parallel, Shenandoah; ZGC has
// none, its heap is shared memory under several addresses); the code cache is the list of code heaps, each a range with
// a map beside it; metaspace has lists of reserved ranges. A range is believed when the mappings there are what they
// must be: private memory, of which the parts that can be written are what the JVM has committed.
#include "runtimes/jvm.h"

#include "runtimes/hotspot_metaspace.h"
#include "runtimes/regions.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_CODE_HEAPS = 8, // HotSpot has three, or one
    WORD = 8,
    EVIDENCE = 256,
};
static const uint64_t LARGEST_RESERVE = UINT64_C(1) << 44; // bytes

// What is being searched for.
struct jvm_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    struct as_hotspot *hotspot;
    struct as_hotspot_counters counters;
    bool counted;
};

// A VirtualSpace of HotSpot's: reserved, and of it committed.
struct space {
    uint64_t low_boundary, high_boundary, low, high;
};

static uint64_t field(const struct jvm_search *s, enum as_hotspot_field place)
{
    return s->hotspot->fields[place];
}

static bool all_known(const struct jvm_search *s, const enum as_hotspot_field *places, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!s->hotspot->known[places[i]])
            return false;
    return true;
}

static struct as_runtime_record *record_of(struct jvm_search *s, uint32_t runtime)
{
    return &s->store->runtimes.items[runtime];
}

// Adds a record of a part. Its index, or UINT32_MAX: our memory ran out.
static uint32_t add_part(struct jvm_search *s, uint32_t kind, uint32_t row)
{
    uint32_t runtime = as_runtime_add(s->store, kind, row, s->err);
    if (runtime != UINT32_MAX)
        record_of(s, runtime)->releases =
            as_strings_add(&s->store->strings, s->hotspot->release, sizeof s->hotspot->release);
    return runtime;
}

// A part is located: in its row, and why.
static void __attribute__((format(printf, 3, 4)))
settle(struct jvm_search *s, uint32_t runtime, const char *format, ...)
{
    char text[EVIDENCE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct as_runtime_record *record = record_of(s, runtime);
    record->state = AS_REGIONS_FOUND;
    record->row = AS_ROW_managed;
    record->evidence = as_strings_add(&s->store->strings, text, sizeof text);
}

// Are all pages of [start, end) private, and the writable ones anonymous or of a file (archived objects)? *writable: bytes of them.
static bool is_reserve(const struct jvm_search *s, uint64_t start, uint64_t end, uint64_t *writable)
{
    const struct as_target *t = s->target;
    *writable = 0;
    for (size_t i = as_target_mapping_from(t, start); i < t->mappings.count && t->mappings.items[i].start < end; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        if ((m->prot & AS_PROT_SHARED) || (m->kind != AS_MAP_ANON && m->kind != AS_MAP_FILE))
            return false;
        uint64_t from = m->start > start ? m->start : start;
        uint64_t to = m->end < end ? m->end : end;
        *writable += m->prot & AS_PROT_WRITE ? to - from : 0;
    }
    return *writable > 0;
}

// The range that the collector has reserved. False: not known, or no such range.
static bool read_reserve(const struct jvm_search *s, uint64_t *start, uint64_t *end)
{
    static const enum as_hotspot_field needed[] = {AS_HOTSPOT_collected_heap, AS_HOTSPOT_heap_reserved,
                                                   AS_HOTSPOT_region_start, AS_HOTSPOT_region_words};
    uint64_t words;
    if (!all_known(s, needed, sizeof needed / sizeof *needed) || field(s, AS_HOTSPOT_collected_heap) == 0)
        return false;
    uint64_t reserved = field(s, AS_HOTSPOT_collected_heap) + field(s, AS_HOTSPOT_heap_reserved);
    if (!as_target_read_u64(s->target, reserved + field(s, AS_HOTSPOT_region_start), start) ||
        !as_target_read_u64(s->target, reserved + field(s, AS_HOTSPOT_region_words), &words))
        return false;
    if (*start == 0 || *start % s->target->page_size != 0 || words == 0 || words > LARGEST_RESERVE / WORD ||
        words * WORD % s->target->page_size != 0 || *start > UINT64_MAX - words * WORD)
        return false;
    *end = *start + words * WORD;
    return true;
}

// Is what the counters say of the heap possible, and the same as the mappings'? Each may be some words off, but no page.
static bool agrees(const struct jvm_search *s, uint64_t writable)
{
    uint64_t committed = s->counters.heap_committed;
    return s->counted && committed != AS_UNKNOWN && committed >= writable &&
           committed - writable < s->target->page_size;
}

// Adds what the JVM counts of each space of its collector.
static bool add_spaces(struct jvm_search *s, uint32_t runtime)
{
    for (size_t i = 0; s->counted && i < s->counters.space_count; i++) {
        const struct as_hotspot_space *space = &s->counters.spaces[i];
        if (!as_vec_push(
                &s->store->spaces, s->err,
                (struct as_space_record){.runtime = runtime,
                                         .name = as_strings_add(&s->store->strings, space->name, sizeof space->name),
                                         .used = space->used,
                                         .committed = space->committed}))
            return false;
    }
    return true;
}

static bool find_heap(struct jvm_search *s)
{
    uint64_t start, end, writable, bytes = 0;
    size_t first = s->store->regions.count;
    uint32_t runtime = add_part(s, AS_RUNTIME_JVM_HEAP, AS_ROW_managed);
    if (runtime == UINT32_MAX || !add_spaces(s, runtime))
        return false;
    struct as_runtime_record *record = record_of(s, runtime);
    record->used = s->counted ? s->counters.heap_used : AS_UNKNOWN;
    record->committed = s->counted ? s->counters.heap_committed : AS_UNKNOWN;
    bool found = read_reserve(s, &start, &end) && is_reserve(s, start, end, &writable);
    if (found && !as_regions_add(s->target, s->store, runtime, start, end, &bytes, s->err))
        return false;
    if (!found || bytes == 0) {
        as_runtime_unproven(
            s->store, runtime, first,
            "this process is a Java virtual machine, and its heap could not be located: its collector "
            "reserves no range of private memory for it (ZGC's heap is shared memory), or the release is "
            "unknown. Java's objects are counted in the other rows");
        return true;
    }
    record->committed = writable;
    settle(s, runtime,
           "the collector%s%s reserved 0x%" PRIx64 " to 0x%" PRIx64 ", private mappings, %" PRIu64
           " bytes of them writable; the JVM's own counters %s",
           s->counters.collector[0] ? " " : "", s->counters.collector, start, end, writable,
           agrees(s, writable) ? "say the same"
           : s->counted        ? "lag, or differ"
                               : "are switched off");
    return true;
}

// Reads a VirtualSpace, whose committed part must be private memory.
static bool read_space(const struct jvm_search *s, uint64_t address, struct space *out)
{
    uint64_t page = s->target->page_size, writable;
    if (!as_target_read_u64(s->target, address + field(s, AS_HOTSPOT_low_boundary), &out->low_boundary) ||
        !as_target_read_u64(s->target, address + field(s, AS_HOTSPOT_high_boundary), &out->high_boundary) ||
        !as_target_read_u64(s->target, address + field(s, AS_HOTSPOT_low), &out->low) ||
        !as_target_read_u64(s->target, address + field(s, AS_HOTSPOT_high), &out->high))
        return false;
    return out->low_boundary != 0 && out->low_boundary <= out->low && out->low < out->high &&
           out->high <= out->high_boundary && out->low % page == 0 && out->high % page == 0 &&
           out->high - out->low <= LARGEST_RESERVE && is_reserve(s, out->low, out->high, &writable) &&
           writable == out->high - out->low;
}

// Adds one code heap and its map. False: it is none; *ok turns false when our memory ran out.
static bool add_code_heap(struct jvm_search *s, uint32_t runtime, uint64_t heap, bool *ok)
{
    const enum as_hotspot_field parts[] = {AS_HOTSPOT_code_memory, AS_HOTSPOT_code_map};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && *ok; i++) {
        struct space space;
        uint64_t bytes = 0;
        if (!read_space(s, heap + field(s, parts[i]), &space))
            return false;
        *ok = as_regions_add(s->target, s->store, runtime, space.low, space.high, &bytes, s->err);
        if (!*ok || bytes != space.high - space.low) // of a file: not the JVM's
            return false;
        record_of(s, runtime)->committed += bytes;
    }
    return *ok;
}

// Reads the list of code heaps. How many there are; 0: it makes no sense.
static size_t read_code_heaps(const struct jvm_search *s, uint64_t heaps[MOST_CODE_HEAPS])
{
    static const enum as_hotspot_field needed[] = {
        AS_HOTSPOT_code_heaps,    AS_HOTSPOT_code_memory, AS_HOTSPOT_code_map,
        AS_HOTSPOT_array_length,  AS_HOTSPOT_array_data,  AS_HOTSPOT_low_boundary,
        AS_HOTSPOT_high_boundary, AS_HOTSPOT_low,         AS_HOTSPOT_high,
    };
    uint32_t count;
    uint64_t data;
    if (!all_known(s, needed, sizeof needed / sizeof *needed) || field(s, AS_HOTSPOT_code_heaps) == 0)
        return 0;
    uint64_t array = field(s, AS_HOTSPOT_code_heaps);
    bool read = as_target_read(s->target, array + field(s, AS_HOTSPOT_array_length), &count, sizeof count) &&
                as_target_read_u64(s->target, array + field(s, AS_HOTSPOT_array_data), &data) && count > 0 &&
                count <= MOST_CODE_HEAPS && as_target_read(s->target, data, heaps, count * sizeof *heaps);
    return read ? count : 0;
}

static bool find_code(struct jvm_search *s)
{
    uint64_t heaps[MOST_CODE_HEAPS];
    size_t first = s->store->regions.count;
    uint32_t runtime = add_part(s, AS_RUNTIME_JVM_CODE, AS_ROW_other_anon);
    bool ok = runtime != UINT32_MAX;
    size_t count = ok ? read_code_heaps(s, heaps) : 0;
    bool found = count > 0;
    if (found)
        record_of(s, runtime)->committed = 0;
    for (size_t i = 0; i < count && found; i++)
        found = add_code_heap(s, runtime, heaps[i], &ok);
    if (ok && found && as_regions_sort(s->store, first, s->err)) {
        settle(s, runtime, "the list of code heaps has %zu: each is committed as its mappings are", count);
    } else if (ok) {
        s->store->regions.count = first;
        record_of(s, runtime)->committed = AS_UNKNOWN;
    }
    return ok;
}

// Adds what of a reserved range is committed, which are its writable mappings (a core may have made the others readable), and its
// bytes to *bytes. False: it is not all anonymous memory; *ok turns false when our memory ran out.
static bool add_committed(struct jvm_search *s, uint32_t runtime, const struct as_range *range, uint64_t *bytes,
                          bool *ok)
{
    const struct as_target *t = s->target;
    for (size_t i = as_target_mapping_from(t, range->start);
         i < t->mappings.count && t->mappings.items[i].start < range->end && *ok; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        if ((m->prot & AS_PROT_SHARED) || m->kind != AS_MAP_ANON)
            return false;
        uint64_t from = m->start > range->start ? m->start : range->start;
        uint64_t to = m->end < range->end ? m->end : range->end;
        *ok = !(m->prot & AS_PROT_WRITE) || as_regions_add(s->target, s->store, runtime, from, to, bytes, s->err);
    }
    return *ok;
}

// Adds the ranges of metaspace. False: the mappings are not what the JVM has committed; *ok turns false when our memory ran out.
static bool add_metaspace(struct jvm_search *s, uint32_t runtime, const struct as_hotspot_metaspace *m, bool *ok)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->nodes.count && m->lists > 0; i++)
        if (!add_committed(s, runtime, &m->nodes.items[i], &bytes, ok))
            return false;
    return bytes > 0 && bytes == m->committed;
}

// What is not located is counted by the JVM nevertheless.
static bool find_metaspace(struct jvm_search *s)
{
    struct as_hotspot_metaspace metaspace;
    size_t first = s->store->regions.count;
    uint32_t runtime = add_part(s, AS_RUNTIME_JVM_METASPACE, AS_ROW_other_anon);
    if (runtime == UINT32_MAX)
        return false;
    record_of(s, runtime)->used = s->counted ? s->counters.metaspace_used : AS_UNKNOWN;
    record_of(s, runtime)->committed = s->counted ? s->counters.metaspace_committed : AS_UNKNOWN;
#ifdef AS_AGENT
    return true;
#endif
    bool ok = as_hotspot_metaspace_find(s->hotspot, &metaspace, s->err);
    bool found = ok && add_metaspace(s, runtime, &metaspace, &ok);
    if (found) {
        record_of(s, runtime)->committed = metaspace.committed;
        settle(s, runtime,
               "%zu list%s, reserved ranges: %zu, the first at 0x%" PRIx64 "; %" PRIu64
               " bytes of them are committed, as the mappings are",
               metaspace.lists, metaspace.lists > 1 ? "s" : "", metaspace.nodes.count, metaspace.nodes.items[0].start,
               metaspace.committed);
        ok = as_regions_sort(s->store, first, s->err);
    } else {
        s->store->regions.count = first;
    }
    as_vec_free(&metaspace.nodes);
    return ok;
}

bool as_jvm_find(const struct as_finder_input *in)
{
    struct as_hotspot hotspot = *in->hotspot;
    if (!as_runtime_object_mapped(in->target, "libjvm.so"))
        return true;
    if (!as_hotspot_read(&hotspot)) {
        uint32_t runtime = as_runtime_add(in->store, AS_RUNTIME_JVM_HEAP, AS_ROW_managed, in->err);
        if (runtime != UINT32_MAX)
            as_runtime_unproven(
                in->store, runtime, in->store->regions.count,
                "a libjvm.so is mapped here, and has no table of HotSpot's that makes sense: the memory of "
                "a Java virtual machine is counted in the other rows");
        return runtime != UINT32_MAX;
    }
    struct jvm_search s = {.target = in->target, .store = in->store, .err = in->err, .hotspot = &hotspot};
    struct as_error failed = {0};
    s.counted = as_hotspot_count(&hotspot, &s.counters, &failed);
    return find_heap(&s) && find_code(&s) && find_metaspace(&s);
}
