// SPDX-License-Identifier: MIT
// The heaps that a graph leaves out: those of other allocators and of runtimes. Who reads "0 chunks are lost" has to know them.
#pragma once

#include "cli/graph_command.h"

enum { AS_HEAP_NAMES = 8 };

struct as_not_searched {
    uint64_t bytes; // resident in these heaps; AS_UNKNOWN
    uint64_t searched;
    const char *names[AS_HEAP_NAMES]; // of their allocators and runtimes, as in the JSON
    size_t count;
    const char *unfound[2]; // interpreters that run here, of which no object was found: Python, Ruby
    size_t unfound_count;
    bool larger; // than what the graph has, or nobody knows: the answer may be about the smaller part
};

// `collected`: the heaps of collectors count, too. Nothing in these is ever lost, as a collector frees what nobody holds.
struct as_not_searched as_not_searched_find(const struct as_graph_snapshot *g, bool collected);
// The first lines of an answer in the terminal: if the answer is about the smaller part, or objects of an interpreter were not found.
void as_not_searched_print(const struct as_not_searched *n);
// The member "not_searched".
void as_not_searched_put(struct as_json *j, const struct as_not_searched *n);
// True; AS_PARTIAL if the answer is about the smaller part. After the answer.
bool as_not_searched_judge(const struct as_not_searched *n, struct as_error *err);
