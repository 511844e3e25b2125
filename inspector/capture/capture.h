// SPDX-License-Identifier: MIT
// A snapshot: one consistent look at a target. Puts the stages in order (target, libc, heap, ledger) and owns what
// they found, as the very records that a dump file holds.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "dump/format.h"
#include "target/target.h"

typedef AS_VEC(struct as_page) as_page_vec;

struct as_snapshot {
    struct as_dump_meta meta;
    struct as_dump_totals totals;
    AS_VEC(struct as_dump_malloc) mallocs;
    AS_VEC(struct as_dump_arena) arenas;
    AS_VEC(struct as_dump_heap) heaps;
    as_page_vec pages;
    AS_VEC(struct as_dump_size) sizes;
    AS_VEC(struct as_dump_thread) threads;
    AS_VEC(struct as_dump_mapping) mappings;
    AS_VEC(struct as_dump_ruby_page) ruby;
    AS_VEC(struct as_dump_warning) warnings;
    struct as_strings strings;
    // Chunk records go straight to a file (they may be many times our memory limit): from AS_DUMP_DATA_START on.
    int chunk_fd; // -1: not wanted
    uint64_t chunk_count;
};

// How the agent, which looks at its own process, keeps malloc out of an arena while that is walked.
struct as_heaps;
struct as_malloc;
struct as_arena_hold {
    // Before the walk of arena `arena` of h, whose heaps begin at index `heap`; may read both anew. False: no memory.
    bool (*take)(void *context, struct as_heaps *h, uint32_t arena, uint32_t heap, struct as_error *err);
    void (*release)(void *context, struct as_heaps *h); // after it
    void *context;
};

struct as_snapshot_options {
    int chunk_fd;                     // where to write chunk records, or -1
    uint32_t allowed_sources;         // AS_LAYOUT_ANY, or fewer for tests
    enum as_mode mode;                // freeze, snapshot or live; 0: freeze or snapshot, as max_pause_ns allows
    uint64_t max_pause_ns;            // how long the target may stand still where there is a choice; 0: 50 ms
    const struct as_arena_hold *hold; // NULL: nothing holds an arena
    const struct as_malloc *malloc;   // found before; NULL: it is to be found
};

// Looks at the target once; the target is stopped for as short as possible and always resumed. Free the snapshot in
// either case. False only when nothing at all can be said; what is merely unknown is AS_UNKNOWN and has a warning.
bool as_snapshot_take(struct as_target *t, const struct as_snapshot_options *options, struct as_snapshot *out,
                      struct as_error *err);
void as_snapshot_free(struct as_snapshot *s);

// The snapshot as a view (without chunks: they are in the file).
struct as_view as_snapshot_view(const struct as_snapshot *s);

// Adds a warning; address AS_UNKNOWN, arena and heap UINT32_MAX when it is about none.
void as_snapshot_warn(struct as_snapshot *s, enum as_warning code, uint32_t arena, uint32_t heap, uint64_t address,
                      const char *format, ...) __attribute__((format(printf, 6, 7)));
