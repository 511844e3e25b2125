// SPDX-License-Identifier: MIT
// What the finders and the walk make of a mock: all of it, in the order in which a snapshot asks (snapshot/worker.c).
#pragma once

#include "malloc/chain.h"
#include "malloc/fastbins.h"
#include "malloc/find.h"
#include "malloc/heaps.h"
#include "malloc/segments.h"
#include "malloc/walk.h"
#include "support/mock.h"

enum { FOUND_CHUNKS = 1 << 14, FOUND_NOTHING = -1 };

struct found {
    struct as_heaps heaps;
    struct as_chunk chunks[FOUND_CHUNKS]; // in the order of the heaps
    size_t count;
    uint64_t torn;
};

// Finds and walks everything. The chunks of each heap must follow each other without a gap, and fill it.
struct found *found_all(struct mock *m);
// Only the finders up to the walk.
struct found *found_heaps(struct mock *m);
void found_free(struct found *f);

// The class of the chunk at this address; FOUND_NOTHING when none begins there.
int found_class(const struct found *f, uint64_t chunk);
// Chunks of this class.
size_t found_count(const struct found *f, enum as_chunk_class class);
uint64_t found_bytes(const struct found *f, enum as_chunk_class class);
// The number of faults whose text has this in it.
size_t found_faults(const struct found *f, const char *text);

// CHECK_CLEAN(f): nothing is wrong. CHECK_FAULT(f, "..."): this is, once, and nothing else.
#define CHECK_CLEAN(f)                                                                                                 \
    CHECK((f)->heaps.faults.count == 0 && (f)->torn == 0, "%s",                                                        \
          (f)->heaps.faults.count ? (f)->heaps.faults.items[0].what : "torn")
#define CHECK_FAULT(f, text)                                                                                           \
    CHECK((f)->heaps.faults.count == 1 && found_faults(f, text) == 1, "%zu faults, the first: %s",                     \
          (f)->heaps.faults.count, (f)->heaps.faults.count ? (f)->heaps.faults.items[0].what : "none")

// A view of the chunks as a sink: appends them to f->chunks.
struct found_sink {
    struct as_chunk_sink sink;
    struct found *found;
};
struct found_sink found_sink(struct found *f);
