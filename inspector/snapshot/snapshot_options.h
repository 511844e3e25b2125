// SPDX-License-Identifier: MIT
// What the caller of a snapshot chooses.
#pragma once

#include "base/error.h"
#include "malloc/chunk.h"
#include "model/store.h"
#include "runtimes/heap_objects.h"

#include <stdint.h>

// How the agent, which reads its own process, keeps malloc out of an arena while that is walked.
struct as_heaps;
struct as_malloc;
struct as_arena_hold {
    // Before the walk of arena `arena` of h, whose heaps begin at index `heap`; may read both anew. False: no memory.
    bool (*take)(void *context, struct as_heaps *h, uint32_t arena, uint32_t heap, struct as_error *err);
    void (*release)(void *context, struct as_heaps *h); // after it
    void *context;
};

// Called once with the chunks of a target, before it runs on: what else is to be read of the same instant. Called by address, so that
// the agent, which never needs it, has no such code in it.
struct as_stopped_reader {
    // `boundaries`: of each heap in turn, in any order, where it begins (tagged AS_HEAP_BEGINS); then, ascending, the
    // addresses of its chunks in use, and where anything else begins behind them (tagged AS_GAP, perhaps AS_GAP_FREE).
    // The reader may free them: nobody needs them after it. False and `err`: the snapshot fails.
    bool (*read)(void *context, struct as_target *t, const struct as_malloc *m, const struct as_store *s,
                 as_boundary_vec *boundaries, struct as_error *err);
    void *context;
    // Called before, and perhaps more than once, if the target runs on meanwhile (or never runs): to begin what needs
    // nothing of the target. NULL: there is nothing.
    void (*begin)(void *context);
};

struct as_profile_baseline;
struct as_snapshot_options {
    int chunk_fd;                               // the file for chunk records, or -1
    uint64_t chunk_start;                       // where in that file they begin, bytes
    const struct as_object_counting *objects;   // counts the runtimes' objects by type; NULL: they are not wanted
    const struct as_stopped_reader *reader;     // NULL: none
    const struct as_profile_baseline *baseline; // what was in use when a profile began; NULL: not known
    as_boundary_vec *noted;                     // gets the chunks that the profile has noted; NULL: nobody asks
    bool profile;                     // what the target has recorded of its allocations is wanted (profile/read.h)
    bool runtime_pages;               // what lies on each page of CPython's arenas and Ruby's pages is wanted
    uint32_t allowed_sources;         // AS_LAYOUT_ANY, or fewer for tests
    enum as_mode mode;                // freeze, clone or live; 0: freeze or clone, as max_pause_ns allows
    bool force;                       // stop it even where a sleep may begin anew for it (as_target_stop.force)
    uint64_t max_pause_ns;            // how long the target may stand still where there is a choice; 0: 50 ms
    const struct as_arena_hold *hold; // NULL: nothing holds an arena
    const struct as_malloc *malloc;   // found before; NULL: it is to be found
};
