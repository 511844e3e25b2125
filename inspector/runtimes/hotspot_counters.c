// SPDX-License-Identifier: MIT
// HotSpot's counters (jvmstat): a header, then entries, each with a name and a value. PerfMemory, in the table of variables,
// says where they are in the process: whether they are also a file, and what the file is called, does not matter.
// (src/hotspot/share/runtime/perfMemory.hpp)
#include "runtimes/hotspot.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_BYTES = 4 << 20, // of all counters: 32 KiB unless -XX:PerfDataMemorySize says otherwise
    MOST_GENERATIONS = 4,
    MOST_SPACES = 4, // of a generation: all of them have room
    NAME = 80,
};
static const uint32_t MAGIC = 0xc0c0feca; // cafec0c0, in the order of big-endian bytes

struct counters_header {
    uint32_t magic;
    uint8_t byte_order, major, minor, accessible;
    int32_t used, overflow;
    int64_t modified;
    int32_t first_entry, entries;
};
struct counter_entry {
    int32_t length, name, vector_length; // bytes; offset of the name in the entry; 0: a number
    uint8_t type, flags, unit, variability;
    int32_t value; // its offset in the entry
};
_Static_assert(sizeof(struct counters_header) == 32 && sizeof(struct counter_entry) == 20, "HotSpot's structures");
enum { LITTLE_ENDIAN_BYTES = 1, NUMBER = 'J', TEXT = 'B' };

typedef AS_VEC(uint8_t) bytes_vec;

// The entry of that name, or NULL.
static const uint8_t *find_entry(const bytes_vec *b, const char *name, struct counter_entry *found)
{
    struct counters_header h;
    size_t length = strlen(name) + 1;
    memcpy(&h, b->items, sizeof h);
    size_t at = h.first_entry > 0 ? (size_t)h.first_entry : b->count;
    for (int32_t i = 0; i < h.entries && at < b->count && b->count - at >= sizeof *found; i++) {
        memcpy(found, b->items + at, sizeof *found);
        if (found->length < (int32_t)sizeof *found || (size_t)found->length > b->count - at)
            return NULL;
        size_t whole = (size_t)found->length;
        if (found->name > 0 && (size_t)found->name < whole && length <= whole - (size_t)found->name &&
            memcmp(b->items + at + found->name, name, length) == 0)
            return found->value > 0 && (size_t)found->value < whole ? b->items + at : NULL;
        at += whole;
    }
    return NULL;
}

static uint64_t number(const bytes_vec *b, const char *name)
{
    struct counter_entry e;
    const uint8_t *at = find_entry(b, name, &e);
    if (!at || e.type != NUMBER || e.vector_length != 0 || (size_t)(e.length - e.value) < sizeof(uint64_t))
        return AS_UNKNOWN;
    uint64_t value = as_load_u64(at + e.value);
    return value >> 62 ? AS_UNKNOWN : value; // a negative one is none
}

static void text(const bytes_vec *b, const char *name, char *out, size_t size)
{
    struct counter_entry e;
    const uint8_t *at = find_entry(b, name, &e);
    size_t room = at && e.type == TEXT ? (size_t)(e.length - e.value) : 0;
    room = room < size ? room : size;
    if (room > 0 && memchr(at + e.value, 0, room))
        memcpy(out, at + e.value, strlen((const char *)at + e.value) + 1);
    else
        out[0] = 0;
}

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    return a == AS_UNKNOWN || b == AS_UNKNOWN ? AS_UNKNOWN : a + b;
}

// Adds the spaces of a generation. A generation that has only one gives it its name.
static void count_spaces(const bytes_vec *b, uint64_t generation, uint64_t count, struct as_hotspot_counters *out)
{
    char name[NAME];
    for (uint64_t k = 0; k < count && out->space_count < AS_HOTSPOT_SPACES; k++) {
        struct as_hotspot_space *space = &out->spaces[out->space_count++];
        snprintf(name, sizeof name, "sun.gc.generation.%" PRIu64 ".space.%" PRIu64 ".used", generation, k);
        space->used = number(b, name);
        snprintf(name, sizeof name, "sun.gc.generation.%" PRIu64 ".space.%" PRIu64 ".capacity", generation, k);
        space->committed = number(b, name);
        snprintf(name, sizeof name, "sun.gc.generation.%" PRIu64 ".space.%" PRIu64 ".name", generation, k);
        if (count == 1)
            snprintf(name, sizeof name, "sun.gc.generation.%" PRIu64 ".name", generation);
        text(b, name, space->name, sizeof space->name);
        out->heap_used = sum_of(out->heap_used, space->used);
    }
}

// The sums over all generations, and over all spaces of each.
static void count_heap(const bytes_vec *b, struct as_hotspot_counters *out)
{
    char name[NAME];
    uint64_t generations = number(b, "sun.gc.policy.generations");
    out->heap_used = out->heap_committed = AS_UNKNOWN;
    out->space_count = 0;
    if (generations == 0 || generations > MOST_GENERATIONS)
        return;
    out->heap_used = out->heap_committed = 0;
    for (uint64_t i = 0; i < generations; i++) {
        snprintf(name, sizeof name, "sun.gc.generation.%" PRIu64 ".capacity", i);
        out->heap_committed = sum_of(out->heap_committed, number(b, name));
        snprintf(name, sizeof name, "sun.gc.generation.%" PRIu64 ".spaces", i);
        uint64_t spaces = number(b, name);
        if (spaces > MOST_SPACES)
            out->heap_used = AS_UNKNOWN;
        else
            count_spaces(b, i, spaces, out);
    }
}

static bool read_all(struct as_hotspot *h, bytes_vec *b, struct as_error *err)
{
    uint64_t start = h->fields[AS_HOTSPOT_counters_start];
    uint64_t end = h->fields[AS_HOTSPOT_counters_end];
    struct counters_header header;
    if (!h->known[AS_HOTSPOT_counters_start] || !h->known[AS_HOTSPOT_counters_end] || start == 0 || start >= end ||
        end - start > MOST_BYTES || !as_target_read(h->target, start, &header, sizeof header))
        return false;
    if (header.magic != MAGIC || header.byte_order != LITTLE_ENDIAN_BYTES || header.major != 2 ||
        header.used < (int32_t)sizeof header || (uint64_t)header.used > end - start)
        return false;
    if (!as_vec_reserve(b, (size_t)header.used, err))
        return false;
    b->count = (size_t)header.used;
    return as_target_read(h->target, start, b->items, b->count);
}

bool as_hotspot_count(struct as_hotspot *h, struct as_hotspot_counters *out, struct as_error *err)
{
    bytes_vec b = {0};
    bool ok = read_all(h, &b, err);
    if (ok) {
        count_heap(&b, out);
        out->metaspace_used = number(&b, "sun.gc.metaspace.used");
        out->metaspace_committed = number(&b, "sun.gc.metaspace.capacity");
        text(&b, "sun.gc.policy.name", out->collector, sizeof out->collector);
    }
    as_vec_free(&b);
    return ok;
}
