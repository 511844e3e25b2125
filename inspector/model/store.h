// SPDX-License-Identifier: MIT
// The records of one snapshot as they are made: growable, and owned by the snapshot's caller.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "model/view.h"

// as_page_vec, ...: one for each record.
#define AS_RECORD(name, ...) typedef AS_VEC(struct as_##name##_record) as_##name##_vec;
#include "model/records.def"

struct as_store {
#define AS_ONE(name, record, ...) struct as_##record##_record name;
#define AS_WALKED(name, record, ...) as_##record##_vec name;
#define AS_MANY AS_WALKED
#define AS_PLAIN(name, ...) // below
#include "model/sections.def"
    struct as_strings strings;
    AS_VEC(char) summary; // JSON
    // Chunk records go straight to a file: they may be many times our memory limit. Here is only how many there are.
    uint64_t chunk_count;
    uint64_t ruby_interpreter; // where the object that has it begins; 0: none has. Of no use once the process has ended
};

// Frees what a walk of the heaps fills in, before another walk. The first `warnings` warnings stay: they are of before the walk.
void as_store_clear_walk(struct as_store *s, size_t warnings);
// Frees all records.
void as_store_free(struct as_store *s);

// The snapshot as a view (without chunks: they are in the file).
struct as_view as_store_view(const struct as_store *s);

// Adds a warning; address AS_UNKNOWN, arena and heap UINT32_MAX when it is about none.
void as_store_warn(struct as_store *s, enum as_warning_code code, uint32_t arena, uint32_t heap, uint64_t address,
                   const char *format, ...) __attribute__((format(printf, 6, 7)));
