// SPDX-License-Identifier: MIT
// All records of a snapshot, read-only.
#pragma once

#include "model/records.h"

#include <stdbool.h>

// Everything above, wherever it lies: in a snapshot's own memory or mapped from a dump file. What the JSON, the terminal
// table and the pictures are made from.
struct as_view {
#define AS_ONE(name, record, ...) const struct as_##record##_record *name;
#define AS_WALKED(name, record, ...)                                                                                   \
    const struct as_##record##_record *name;                                                                           \
    uint64_t record##_count;
#define AS_MANY AS_WALKED
#define AS_PLAIN(name, type, size, ...)                                                                                \
    const type *name; /* NULL: the dump does not have it */                                                            \
    uint64_t size;
#include "model/sections.def"
};

// An arena's place among all arenas of a process: what its name is made of. To go through all arenas, begin with zeros and
// the number of main arenas, and call as_arena_place_step for each.
struct as_arena_place {
    uint32_t index;    // in malloc's list; with several libcs, one list after the other
    uint32_t mains;    // main arenas among all arenas: one of each libc
    uint32_t nth_main; // main arenas up to this one
    uint32_t is_main;
};
void as_arena_place_step(struct as_arena_place *place, uint32_t index, bool is_main);
// The place before a view's first arena.
struct as_arena_place as_arena_place_begin(const struct as_view *v);

enum { AS_ARENA_NAME = 32 };

// What every surface calls an arena: "main arena", or "arena 3" by its place among all arenas. With several libcs their main
// arenas are counted: "main arena 2". Returns `out`.
const char *as_arena_place_name(const struct as_arena_place *place, char out[AS_ARENA_NAME]);
// The same for one arena of a view.
const char *as_arena_name(const struct as_view *v, uint32_t arena, char out[AS_ARENA_NAME]);

// A string of the view; "" for an offset that lies outside.
static inline const char *as_view_string(const struct as_view *v, uint32_t offset)
{
    return offset < v->strings_size ? v->strings + offset : "";
}
