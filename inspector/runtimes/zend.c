// SPDX-License-Identifier: MIT
// PHP's heaps by structure. A heap consists of chunks of 2 MiB at multiples of 2 MiB, in a ring; each points to the heap, whose
// description stands in its first chunk. A heap is believed when the ring closes after as many chunks as it says, and chunks, cached
// chunks and huge blocks add up to what it says it has taken. The structures are those of Zend/zend_alloc.c, read in 7.x, tested on 8.2.
#include "runtimes/finder.h"

#include "base/align.h"
#include "runtimes/regions.h"

#include <inttypes.h>

enum {
    CHUNK = 2 << 20,
    HEAP_AT = 64,     // of the heap's description in its first chunk
    HEAP_WORDS = 64,  // of it that are inspected
    SIZE_AT = 2,      // word: bytes in use
    LEAST_LISTS = 32, // words that stand before the next two: among them 30 lists of free slots
    LEAST_MAIN = 36,  // word: the least that the address of the first chunk can be
    FREE_READS = 1 << 12,
    READS = 4, // more for each place where a chunk may be
};

struct zend_chunk {
    uint64_t heap, next, previous;
};
struct huge_block {
    uint64_t address, size, next;
};

struct zend_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    uint32_t runtime;
    int64_t reads_left; // that are left
    bool ok;            // false: our memory ran out
    uint64_t heaps, chunks, huge, bytes, used;
};

static bool read_chunk(struct zend_search *s, uint64_t address, struct zend_chunk *c)
{
    return --s->reads_left > 0 && address % CHUNK == 0 &&
           as_is_runtime_range(s->target, address, CHUNK, &s->reads_left) &&
           as_target_read(s->target, address, c, sizeof *c);
}

static bool add_segment(struct zend_search *s, uint64_t start, uint64_t size)
{
    uint64_t bytes = 0;
    s->ok = s->ok && as_regions_add(s->target, s->store, s->runtime, start, start + size, &bytes, s->err);
    s->bytes += bytes;
    return s->ok && bytes == size;
}

// Adds the ring of chunks; their number. 0: it does not close.
static uint64_t add_ring(struct zend_search *s, uint64_t first)
{
    struct zend_chunk c, next;
    uint64_t count = 0;
    if (!read_chunk(s, first, &c))
        return 0;
    for (uint64_t at = first;; c = next) {
        if (c.heap != first + HEAP_AT || !add_segment(s, at, CHUNK) || !read_chunk(s, c.next, &next) ||
            next.previous != at)
            return 0;
        count++;
        at = c.next;
        if (at == first)
            return count;
    }
}

// Adds the chunks that are kept for later; their number.
static uint64_t add_cached(struct zend_search *s, uint64_t at)
{
    struct zend_chunk c;
    uint64_t count = 0;
    for (; at != 0 && read_chunk(s, at, &c) && add_segment(s, at, CHUNK); at = c.next)
        count++;
    return count;
}

// Adds the blocks that have mappings of their own; their bytes.
static uint64_t add_huge(struct zend_search *s, uint64_t at)
{
    struct huge_block block;
    uint64_t bytes = 0;
    for (; at != 0 && --s->reads_left > 0 && as_target_read(s->target, at, &block, sizeof block); at = block.next) {
        if (block.address % CHUNK != 0 || block.size == 0 || block.size % s->target->page_size != 0 ||
            block.size > UINT64_MAX - block.address || !add_segment(s, block.address, block.size))
            return AS_UNKNOWN;
        bytes += block.size;
        s->huge++;
    }
    return bytes;
}

// Does a heap say that it has taken so much from the kernel, and used no more? The most that it ever took stands behind (real_size,
// real_peak); how far before the first chunk's address differs between releases.
static bool has_taken(const uint64_t *words, size_t main, uint64_t bytes)
{
    for (size_t i = LEAST_LISTS; i + 1 < main; i++)
        if (words[i] == bytes && words[i + 1] >= bytes)
            return words[SIZE_AT] <= bytes;
    return false;
}

// Adds the heap that is described in the chunk at `first`. False: there is none.
static bool add_heap(struct zend_search *s, uint64_t first)
{
    uint64_t words[HEAP_WORDS];
    size_t main = LEAST_MAIN;
    if (!as_target_read(s->target, first + HEAP_AT, words, sizeof words))
        return false;
    while (main + 2 < HEAP_WORDS && words[main] != first)
        main++;
    if (main + 2 >= HEAP_WORDS)
        return false;
    // Behind it: cached_chunks, chunks_count. Before it: huge_list.
    uint64_t chunks = add_ring(s, first);
    if (chunks == 0 || chunks != (uint32_t)words[main + 2])
        return false;
    uint64_t cached = add_cached(s, words[main + 1]);
    uint64_t huge = add_huge(s, words[main - 1]);
    if (huge == AS_UNKNOWN || !has_taken(words, main, (chunks + cached) * CHUNK + huge))
        return false;
    s->heaps++;
    s->chunks += chunks + cached;
    s->used += words[SIZE_AT];
    return true;
}

// As add_heap, and what is none leaves nothing behind.
static void try_chunk(struct zend_search *s, uint64_t at)
{
    struct zend_chunk c;
    size_t regions = s->store->regions.count;
    uint64_t bytes = s->bytes, huge = s->huge;
    if (!read_chunk(s, at, &c) || c.heap != at + HEAP_AT || add_heap(s, at))
        return;
    s->store->regions.count = regions;
    s->bytes = bytes;
    s->huge = huge;
}

static void search_mappings(struct zend_search *s)
{
    const struct as_target *t = s->target;
    s->reads_left += READS * as_runtime_read_budget(t, CHUNK);
    AS_FOR_EACH_WHILE(s->ok, const struct as_mapping, m, &t->mappings) {
        if (!as_is_runtime_memory(m))
            continue;
        for (uint64_t at = as_align_up(m->start, CHUNK); s->ok && s->reads_left > 0 && at < m->end; at += CHUNK) {
            at = as_align_up(as_target_skip_absent(s->target, at, m->end), CHUNK);
            if (at < m->end)
                try_chunk(s, at);
        }
    }
}

static void keep_zend_or_drop(struct zend_search *s)
{
    as_runtime_found(s->store, s->runtime, s->bytes, "7 and 8",
                     "the %" PRIu64 " chunks of 2 MiB and %" PRIu64 " huge blocks of PHP's %" PRIu64
                     " heap%s are as many, and as much, as each heap says",
                     s->chunks, s->huge, s->heaps, s->heaps == 1 ? "" : "s");
    s->store->runtimes.items[s->runtime].used = s->used;
}

bool as_zend_find(const struct as_finder_input *in)
{
    if (as_interpreters_first(&in->malloc->interpreters, AS_INTERPRETER_PHP) == 0)
        return true;
    struct zend_search s = {
        .target = in->target, .store = in->store, .err = in->err, .reads_left = FREE_READS, .ok = true};
    size_t first = in->store->regions.count;
    s.runtime = as_runtime_add(in->store, AS_RUNTIME_ZEND, AS_ROW_other_malloc, in->err);
    if (s.runtime == UINT32_MAX)
        return false;
    search_mappings(&s);
    if (s.ok && s.heaps > 0 && s.reads_left > 0) {
        keep_zend_or_drop(&s);
        s.ok = as_regions_sort(in->store, first, in->err);
    } else if (s.ok) {
        as_runtime_unproven(
            in->store, s.runtime, first,
            "this process runs PHP, but no heap of PHP's own memory manager was found: it is switched off "
            "(USE_ZEND_ALLOC=0), the release is unknown, or the heap changed during the snapshot. What PHP "
            "holds is counted in the other rows");
    }
    return s.ok;
}
