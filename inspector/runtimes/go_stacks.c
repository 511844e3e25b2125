// SPDX-License-Identifier: MIT
// The stacks in Go's heap. Go cuts its arenas into spans of pages. What describes an arena has for each of its pages the address of the span that
// has the page, or had it last, and behind these a bit for each page that begins a span of objects. A span says where it begins, how many
// pages it has, and its state: spans of stacks, and of what the collector needs, are "manual". Spans of stacks say how large a stack is.
// (runtime/mheap.go, stack.go; linux/amd64 and linux/arm64)
#include "runtimes/go.h"

#include "runtimes/memory_places.h"

#include <string.h>

enum {
    PAGE = 8192, // bytes, whatever the kernel's are
    PAGES = 1 << (AS_GO_ARENA_BITS - 13),
    WORD_BITS = 64,
    WORDS = PAGES + PAGES / WORD_BITS, // the addresses, and the bits
    BATCH = 256,                       // spans that are read in one go
    MOST_SPANS = 1 << 20,              // that are read
    MOST_READS = 1 << 16,              // of 4 KiB, for the words of all arenas: those of 240 GiB
    MANUAL = 2,                        // a state
    SHARED = 32 << 10,                 // bytes of a span that has several stacks
    SMALLEST = 2048,                   // bytes of a stack
};
static const uint64_t LARGEST = UINT64_C(1) << 30; // bytes of a stack

// Numbers of words of a span; the last three are by layout.
enum { START = 3, LENGTH = 4, SPAN_WORDS = 16 };

static const struct span_layout {
    const char *releases;
    uint64_t spans; // bytes before the addresses of spans
    size_t counts;  // number of the word that has the state; then the size of a stack, and the end
} layouts[] = {
    {"Go 1.22 to 1.26", 0, 12},
    {"Go 1.21", (1 << 20) + (16 << 10), 13},
    {"Go 1.20", (1 << 20) + (16 << 10), 12},
    {"Go 1.12 to 1.19", 2 << 20, 12},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

// Pages that follow each other and have the same span.
struct page_run {
    size_t first, end;
};

struct span_search {
    struct as_target *target;
    struct as_error *err;
    struct as_go_heap *heap;
    const struct span_layout *layout;
    uint64_t *words; // of an arena
    uint64_t from;   // where they are
    uint64_t arena;  // where it begins
    struct page_run runs[BATCH];
    uint64_t spans[BATCH]; // their addresses
    size_t count;
    int64_t spans_left, reads_left;
    bool fits, ok; // not ok: our memory ran out
    struct as_memory_places places;
};

static bool take_words(void *context, uint64_t address, const uint64_t *words, size_t count)
{
    struct span_search *s = context;
    memcpy(s->words + (address - s->from) / sizeof *words, words, count * sizeof *words);
    return true;
}

static bool is_stack_size(uint64_t size, uint64_t span)
{
    return size >= SMALLEST && (size & (size - 1)) == 0 && (span == SHARED ? size <= span : size == span);
}

static void add_stacks(struct span_search *s, uint64_t start, uint64_t end)
{
    struct as_range *last = s->heap->stacks.count > 0 ? &s->heap->stacks.items[s->heap->stacks.count - 1] : NULL;
    if (last && last->end == start)
        last->end = end;
    else
        s->ok = as_vec_push(&s->heap->stacks, s->err, (struct as_range){start, end});
}

// A span that had the pages and was made anew may lie elsewhere: then it tells nothing of these pages. One that has not got all its
// pages, or whose stacks have no size, is being made.
static void take_span(struct span_search *s, const struct page_run *run, const uint64_t span[SPAN_WORDS])
{
    uint64_t start = span[START], from = s->arena + run->first * PAGE, to = s->arena + run->end * PAGE;
    uint64_t counts = span[s->layout->counts], size = span[s->layout->counts + 1], end = span[s->layout->counts + 2];
    uint64_t arena_end = s->arena + (uint64_t)PAGES * PAGE;
    if (start < from || start >= to || (counts >> 24 & 0xff) != MANUAL || size == 0)
        return;
    s->fits = start % PAGE == 0 && end > start && end - start <= LARGEST && end - start == span[LENGTH] * PAGE &&
              is_stack_size(size, end - start);
    if (s->fits && (end < arena_end ? end : arena_end) <= to)
        add_stacks(s, start, end);
}

static void take_spans(struct span_search *s)
{
    uint64_t spans[BATCH][SPAN_WORDS];
    bool read[BATCH];
    size_t count = s->count;
    s->count = 0;
    as_target_gather(s->target, s->spans, count, sizeof *spans, spans, sizeof *spans, read);
    s->spans_left -= (int64_t)count;
    s->fits &= s->spans_left > 0;
    for (size_t i = 0; i < count && s->fits && s->ok; i++) {
        s->fits = read[i];
        if (read[i])
            take_span(s, &s->runs[i], spans[i]);
    }
}

static bool has_bit(const uint64_t *bits, size_t from, size_t end)
{
    bool has = false;
    for (size_t i = from; i < end && !has; i++)
        has = bits[i / WORD_BITS] >> i % WORD_BITS & 1;
    return has;
}

static void take_run(struct span_search *s, uint64_t span, size_t first, size_t end)
{
    s->fits = span % sizeof span == 0 && as_is_in_runtime_memory(&s->places, s->target, span);
    if (!s->fits || has_bit(s->words + PAGES, first, end))
        return;
    s->spans[s->count] = span;
    s->runs[s->count++] = (struct page_run){first, end};
    if (s->count == BATCH)
        take_spans(s);
}

static bool read_words(struct span_search *s)
{
    memset(s->words, 0, WORDS * sizeof *s->words);
    struct as_range range = {s->from, s->from + WORDS * sizeof *s->words};
    return as_words_read(s->target, &s->reads_left, range, false, take_words, s);
}

static void search_arena(struct span_search *s, const struct as_go_arena *arena)
{
    s->arena = arena->start;
    s->from = arena->described + s->layout->spans;
    s->fits = read_words(s);
    for (size_t i = 0, end; i < PAGES && s->fits && s->ok; i = end) {
        for (end = i + 1; end < PAGES && s->words[end] == s->words[i];)
            end++;
        if (s->words[i] != 0)
            take_run(s, s->words[i], i, end);
    }
    if (s->fits && s->ok)
        take_spans(s);
}

// Do the spans of all arenas fit, and are there stacks among them? Any Go has some.
static bool search_by(struct span_search *s, const struct span_layout *layout)
{
    s->layout = layout;
    s->fits = true;
    s->count = s->heap->stacks.count = 0;
    for (size_t i = 0; i < s->heap->arenas.count && s->fits && s->ok; i++)
        search_arena(s, &s->heap->arenas.items[i]);
    return s->fits && s->ok && s->heap->stacks.count > 0;
}

bool as_go_stacks_find(struct as_target *t, struct as_go_heap *heap, const char **releases, struct as_error *err)
{
    AS_VEC(uint64_t) words = {0};
    struct span_search s = {.target = t, .heap = heap, .err = err, .spans_left = MOST_SPANS, .reads_left = MOST_READS};
    s.ok = as_vec_reserve(&words, WORDS, err);
    s.words = words.items;
    *releases = NULL;
    for (size_t i = 0; i < LAYOUTS && s.ok && !*releases; i++)
        if (search_by(&s, &layouts[i]))
            *releases = layouts[i].releases;
    if (!*releases)
        heap->stacks.count = 0;
    as_vec_free(&words);
    return s.ok;
}
