// SPDX-License-Identifier: MIT
// All goroutines: a variable of Go's (runtime.allgs) is a slice of the addresses of their records, which are never freed. A record begins
// with where the goroutine's stack begins and ends, and leads to itself; a status says whether it has ended. While Go
// collects garbage it has the slice twice, as it was at the beginning, too: it only grows. (runtime/runtime2.go)
#include "runtimes/go.h"

#include "runtimes/pointers.h"

enum {
    BATCH = 256,      // records that are read in one go
    SMALLEST = 2048,  // bytes of a stack
    SCANNED = 0x1000, // a status beside another: the collector is at the stack
    STATUSES = 0xf5e, // a bit for each that there may be
    ENDED = 6,
    ENDED_FOR_C = 11, // kept for a thread of C
};

// Numbers of words of a record.
enum { LOW, HIGH, ITSELF = 9, RECORD_WORDS = 21 };

// Numbers of the word with the status, in Go 1.12 to 1.22 and 1.25 to 1.26, and in Go 1.23 to 1.24. The next one has the goroutine's number.
static const size_t statuses[] = {18, 19};
enum { LAYOUTS = sizeof statuses / sizeof *statuses };

struct slice {
    uint64_t items, length, capacity;
};

struct goroutine_search {
    struct as_target *target;
    const struct as_go_heap *heap;
    struct as_go_goroutines *out;
};

static bool is_in_heap(const struct goroutine_search *s, uint64_t address)
{
    const struct as_go_arena *arenas = s->heap->arenas.items;
    size_t behind = AS_PARTITION_POINT(0, s->heap->arenas.count, i, arenas[i].start <= address);
    return address % sizeof address == 0 && behind > 0 && (address - arenas[behind - 1].start) >> AS_GO_ARENA_BITS == 0;
}

static bool is_stack(const struct goroutine_search *s, uint64_t low, uint64_t high)
{
    const struct as_range *stacks = s->heap->stacks.items;
    size_t behind = AS_PARTITION_POINT(0, s->heap->stacks.count, i, stacks[i].start <= low);
    uint64_t size = high - low;
    return behind > 0 && high > low && high <= stacks[behind - 1].end && size >= SMALLEST && (size & (size - 1)) == 0;
}

// Is it a goroutine's record? *ended: the goroutine has, or it has not begun.
static bool is_goroutine(const struct goroutine_search *s, uint64_t address, const uint64_t *words, size_t status_at,
                         bool *ended)
{
    uint64_t status = words[status_at] & ~(uint64_t)SCANNED;
    *ended = status == ENDED || status == ENDED_FOR_C;
    bool empty = *ended && words[LOW] == 0 && words[HIGH] == 0;
    return status <= ENDED_FOR_C && (STATUSES >> status & 1) != 0 && (*ended || words[status_at + 1] != 0) &&
           (words[ITSELF] == address || (*ended && words[ITSELF] == 0)) &&
           (empty || is_stack(s, words[LOW], words[HIGH]));
}

// Counts the goroutines with these addresses. False: they are none.
static bool count_batch(const struct goroutine_search *s, const uint64_t *addresses, size_t count, size_t status_at,
                        struct as_go_goroutines *found)
{
    uint64_t records[BATCH][RECORD_WORDS];
    bool read[BATCH], ended = false;
    for (size_t i = 0; i < count; i++)
        if (!is_in_heap(s, addresses[i]))
            return false;
    s->out->reads_left -= (int64_t)count;
    as_target_gather(s->target, addresses, count, sizeof *records, records, sizeof *records, read);
    for (size_t i = 0; i < count; i++) {
        if (!read[i] || !is_goroutine(s, addresses[i], records[i], status_at, &ended))
            return false;
        *(ended ? &found->free : &found->count) += 1;
    }
    return true;
}

static bool count_all(const struct goroutine_search *s, const struct slice *slice, size_t status_at,
                      struct as_go_goroutines *found)
{
    uint64_t addresses[BATCH];
    *found = (struct as_go_goroutines){.length = slice->length};
    for (uint64_t at = 0, count; at < slice->length; at += count) {
        if (s->out->reads_left <= 0)
            return false;
        count = slice->length - at < BATCH ? slice->length - at : BATCH;
        if (!as_target_read(s->target, slice->items + at * sizeof *addresses, addresses, count * sizeof *addresses) ||
            !count_batch(s, addresses, count, status_at, found))
            return false;
        if (at == 0)
            found->first = addresses[0];
    }
    return found->count > 0;
}

// Takes the longest slice.
static void take(struct as_go_goroutines *out, const struct as_go_goroutines *found)
{
    bool several = out->several || (out->length > 0 && out->first != found->first);
    int64_t reads_left = out->reads_left;
    if (found->length > out->length)
        *out = *found;
    out->several = several;
    out->reads_left = reads_left;
}

static void try_slice(struct goroutine_search *s, const struct slice *slice)
{
    struct as_go_goroutines found;
    if (slice->length == 0 || slice->length > slice->capacity)
        return;
    for (size_t i = 0; i < LAYOUTS; i++)
        if (count_all(s, slice, statuses[i], &found)) {
            take(s->out, &found);
            return;
        }
}

static bool follow(void *context, const uint64_t *pointers, const uint64_t *places, size_t count)
{
    struct goroutine_search *s = context;
    struct slice slices[AS_POINTERS];
    bool read[AS_POINTERS];
    (void)pointers;
    s->out->reads_left -= (int64_t)count;
    as_target_gather(s->target, places, count, sizeof *slices, slices, sizeof *slices, read);
    for (size_t i = 0; i < count; i++)
        if (read[i] && is_in_heap(s, slices[i].items))
            try_slice(s, &slices[i]);
    return true;
}

static bool is_candidate(void *context, uint64_t place, uint64_t word)
{
    (void)place;
    return is_in_heap(context, word);
}

void as_go_goroutines_find(struct as_target *t, const struct as_go_heap *heap, const struct as_variable_words *words,
                           struct as_range variables, struct as_go_goroutines *out)
{
    struct goroutine_search s = {.target = t, .heap = heap, .out = out};
    const struct as_pointer_search search = {t, &s, is_candidate, follow, &out->reads_left, words};
    as_pointers_search(&search, variables.start, variables.end);
}
