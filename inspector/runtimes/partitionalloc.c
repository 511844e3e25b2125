// SPDX-License-Identifier: MIT
// PartitionAlloc by structure. Each partition has a root, a variable of the program's. A word of the root is the root's
// own address with all bits inverted. Among the root's first words are, twice, the address and the mask of a pool:
// addresses that PartitionAlloc has reserved, in which all memory is its own. For each size of block the root has a
// bucket, which begins with a pointer to what describes the first of its slot spans; and this has the bucket's address.
// (partition_root.h, partition_bucket.h and partition_page.h, as known of 2024; seen in the memory of Chromium 156, and
// tested there)
#include "runtimes/finder.h"

#include "runtimes/ranges.h"
#include "runtimes/regions.h"
#include "runtimes/variables.h"

#include <inttypes.h>

enum {
    HEAD_WORDS = 16,         // of a root: the pool is among them
    LARGEST_ROOT = 64 << 10, // bytes
    LEAST_BITS = 30,         // of a pool's size
    MOST_BITS = 40,
    ADDRESS_BITS = 47,
    MOST_POOLS = 16,
    FREE_READS = 1 << 16, // at a description, whatever the target's size; and at 4 KiB of variables
};

struct slot_span {
    uint64_t free, next, bucket;
};

struct partition_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    int64_t reads_left;                      // that are left
    bool ok;                                 // false: our memory ran out
    struct as_range variables;               // that are gone through
    struct as_range pool, pools[MOST_POOLS]; // of the root that is inspected, and of all
    size_t pool_count;
    uint64_t roots, spans, here; // here: spans of this root
    struct as_ranges ranges;
};

static bool is_in(const struct as_range *range, uint64_t address)
{
    return address >= range->start && address < range->end;
}

// Reads which pool a root has. False: none.
static bool read_pool(struct partition_search *s, uint64_t root)
{
    uint64_t words[HEAD_WORDS];
    if (!as_target_read(s->target, root, words, sizeof words))
        return false;
    for (size_t i = 0; i + 1 < HEAD_WORDS; i++) {
        uint64_t start = words[i], size = ~words[i + 1] + 1;
        if (start == 0 || size < UINT64_C(1) << LEAST_BITS || size > UINT64_C(1) << MOST_BITS ||
            (size & (size - 1)) != 0 || start % size != 0 || start >> ADDRESS_BITS != 0)
            continue;
        for (size_t k = i + 2; k + 1 < HEAD_WORDS; k++)
            if (words[k] == start && words[k + 1] == words[i + 1]) {
                s->pool = (struct as_range){start, start + size};
                return true;
            }
    }
    return false;
}

// Is this word of a root where a bucket begins?
static bool visit_bucket(void *context, uint64_t address, uint64_t word)
{
    struct partition_search *s = context;
    struct slot_span span;
    if (word % sizeof word != 0 || !as_is_runtime_memory(as_target_mapping_at(s->target, word)))
        return true;
    if (--s->reads_left <= 0)
        return false;
    if (as_target_read(s->target, word, &span, sizeof span) && span.bucket == address &&
        (span.free == 0 || is_in(&s->pool, span.free)))
        s->here++;
    return true;
}

static void add_pool(struct partition_search *s)
{
    for (size_t i = 0; i < s->pool_count; i++)
        if (s->pools[i].start == s->pool.start)
            return;
    s->pools[s->pool_count++] = s->pool;
    s->ok = as_ranges_add(&s->ranges, s->pool.start, s->pool.end - s->pool.start, s->err);
}

// Is this variable the inverted address of the root that it is in?
static bool try_variable(void *context, uint64_t address, uint64_t word)
{
    struct partition_search *s = context;
    uint64_t root = ~word;
    if (root % sizeof root != 0 || root < s->variables.start || root > address || address - root > LARGEST_ROOT ||
        !read_pool(s, root))
        return true;
    s->here = 0;
    as_words_visit(s->target, &s->reads_left, root, address, visit_bucket, s);
    if (s->here > 0) {
        s->roots++;
        s->spans += s->here;
        add_pool(s);
    }
    return s->ok && s->reads_left > 0 && s->pool_count < MOST_POOLS;
}

static void search_variables(struct partition_search *s)
{
    struct as_target *t = s->target;
    for (size_t i = 0; i < t->mappings.count && s->ok && s->reads_left > 0 && s->pool_count < MOST_POOLS; i++) {
        int64_t reads_left = FREE_READS;
        if (as_variables_at(t, i, &s->variables))
            as_words_visit(t, &reads_left, s->variables.start, s->variables.end, try_variable, s);
    }
}

bool as_partitionalloc_find(const struct as_finder_input *in)
{
    struct partition_search s = {
        .target = in->target, .store = in->store, .err = in->err, .reads_left = FREE_READS, .ok = true};
    uint64_t bytes = 0;
    search_variables(&s);
    if (s.ok && s.roots > 0 && s.reads_left > 0 && s.pool_count < MOST_POOLS) {
        uint32_t runtime = as_runtime_add(in->store, AS_RUNTIME_PARTITIONALLOC, AS_ROW_other_malloc, in->err);
        s.ok = runtime != UINT32_MAX &&
               as_ranges_settle(&s.ranges, in->target, in->store, runtime, false, &bytes, in->err);
        if (s.ok)
            as_runtime_found(in->store, runtime, bytes, NULL,
                             "%" PRIu64 " roots of partitions have their own addresses, inverted; %" PRIu64
                             " slot spans lead back to the buckets that lead to them; and the roots name %zu pools of "
                             "addresses",
                             s.roots, s.spans, s.pool_count);
    }
    as_ranges_free(&s.ranges);
    return s.ok;
}
