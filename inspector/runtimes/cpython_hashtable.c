// SPDX-License-Identifier: MIT
#include "runtimes/cpython_hashtable.h"

#include "base/align.h"
#include "malloc/chunk.h"

enum {
    LEAST_BUCKETS = 16,  // HASHTABLE_MIN_SIZE
    MOST_FULL = 2,       // buckets for each entry, at least (HASHTABLE_HIGH)
    TOGETHER = 512,      // buckets that are read at once
    MOST_READ = 1 << 23, // buckets: addresses that lie together have buckets that do
    KEYS = 0,            // of `destroy`
    VALUES = 1,
};

bool as_py_has_buckets(const struct as_py_hashtable *h)
{
    return h->buckets >= LEAST_BUCKETS && (h->buckets & (h->buckets - 1)) == 0 &&
           h->entries <= h->buckets / MOST_FULL + 1;
}

bool as_py_is_hashtable(const struct as_target *t, const struct as_py_hashtable *h)
{
    const struct as_mapping *m = as_target_mapping_at(t, h->first);
    bool has_room = m && (m->end - h->first) / AS_PY_BUCKET >= h->buckets;
    bool code = has_room && as_py_has_buckets(h) && as_target_is_code(t, h->malloc) && as_target_is_code(t, h->free);
    for (int i = 0; i < 3 && code; i++)
        code = as_target_is_code(t, h->functions[i]);
    for (int i = 0; i < 2 && code; i++)
        code = h->destroy[i] == 0 || as_target_is_code(t, h->destroy[i]);
    return code;
}

// Reads the first entry; false: none was found.
static bool read_first(struct as_target *t, const struct as_py_hashtable *h, int64_t *reads_left,
                       struct as_py_hashtable_entry *entry)
{
    uint64_t buckets[TOGETHER];
    uint64_t together = h->buckets < TOGETHER ? h->buckets : TOGETHER;
    for (uint64_t at = 0; at < h->buckets && at < MOST_READ; at += together) {
        if (--*reads_left <= 0 || !as_target_read(t, h->first + at * AS_PY_BUCKET, buckets, together * AS_PY_BUCKET))
            return false;
        for (uint64_t i = 0; i < together; i++)
            if (buckets[i] != 0)
                return as_target_read(t, buckets[i], entry, sizeof *entry);
    }
    return false;
}

bool as_py_has_traces(struct as_target *t, const struct as_py_hashtable *h, int64_t *reads_left)
{
    struct as_py_hashtable_entry entry;
    struct as_py_trace trace;
    // Nothing is done for keys; values are freed. A key is an address, by its hash (_Py_HashPointerRaw).
    return h->destroy[KEYS] == 0 && h->destroy[VALUES] != 0 && h->entries > 0 && as_py_is_hashtable(t, h) &&
           read_first(t, h, reads_left, &entry) && entry.key != 0 && entry.hash == (entry.key >> 4 | entry.key << 60) &&
           as_target_read(t, entry.value, &trace, sizeof trace) && as_target_mapping_at(t, trace.traceback);
}

static uint64_t chunk_of(uint64_t request)
{
    return as_align_up(request + sizeof(uint64_t), AS_ALIGNMENT);
}

uint64_t as_py_trace_bytes(const struct as_py_hashtable *h)
{
    return chunk_of(h->buckets * AS_PY_BUCKET) +
           h->entries * (chunk_of(sizeof(struct as_py_hashtable_entry)) + chunk_of(sizeof(struct as_py_trace)));
}
