// SPDX-License-Identifier: MIT
// Chunks in use that nothing leads to, or nothing but a word of a stack.
#pragma once

#include "graph/graph.h"

// What is lost directly, or only together with another lost chunk (LeakSanitizer's words). Of chunks that lead to each other in a
// circle, and that nothing else leads to, one is lost directly: that with the lowest address that leads to all others.
enum as_leak { AS_LEAK_NONE, AS_LEAK_DIRECT, AS_LEAK_INDIRECT, AS_LEAK_SUSPECT, AS_LEAK_KINDS };
// Besides, of a lost chunk: it is lost in a cycle. Only chunks that lead to each other, or what these lead to, lead to it.
enum { AS_LEAK_IN_CYCLE = 1 << 2 };
static inline enum as_leak as_leak_kind(uint8_t leak)
{
    return (enum as_leak)(leak & (AS_LEAK_IN_CYCLE - 1));
}

struct as_leak_sum {
    uint64_t count, bytes; // chunks; bytes with headers
};

// The lost chunks of one type and size.
struct as_leak_group {
    uint32_t type; // as_graph_type
    uint64_t size; // bytes, header included
    struct as_leak_sum sums[AS_LEAK_KINDS];
    uint64_t in_cycles; // of the chunks, those that are lost in a cycle
    uint64_t example;   // address that malloc returned for one of them: a direct one, if there is any
};

struct as_leaks {
    uint8_t *of_node; // as_leak, and AS_LEAK_IN_CYCLE
    uint32_t nodes;
    struct as_leak_sum sums[AS_LEAK_KINDS];
    struct as_leak_sum in_cycles[AS_LEAK_KINDS]; // of these
    // A runtime's objects that nothing leads to, and what only they lead to: garbage that is not yet collected, or held in an unknown way.
    // AS_UNKNOWN: no runtime has objects that are nodes.
    struct as_leak_sum garbage;
    AS_VEC(struct as_leak_group) groups; // most bytes first
};

// Finds them: of_node. Free it in either case. False: AS_NO_MEMORY.
bool as_leaks_find(struct as_leaks *l, const struct as_graph *g, struct as_error *err);
// The sums and the groups, once the types of the lost chunks are known. False: AS_NO_MEMORY.
bool as_leaks_add_up(struct as_leaks *l, const struct as_graph *g, struct as_error *err);
void as_leaks_free(struct as_leaks *l);
