// SPDX-License-Identifier: MIT
// What `arenadump summary` prints, as JSON and as a table, from a view; and the orders that both print in.
#pragma once

#include "base/error.h"
#include "model/view.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// `from_dump`: the view was read from a dump file, which becomes the target's kind.
bool as_summary_json(FILE *out, const struct as_view *v, bool from_dump, struct as_error *err);

// The same as a text of `size` bytes, which the caller frees, in either case: of the target, not of a dump file.
bool as_summary_text(const struct as_view *v, char **text, size_t *size, struct as_error *err);

struct as_json;
// The members "ruby" and "runtimes": the heaps that runtimes keep for themselves.
void as_summary_runtimes(struct as_json *j, const struct as_view *v);
// The member "graph": who holds most; null for a snapshot without a graph.
void as_summary_graph(struct as_json *j, const struct as_view *v);
// The member "mappings": what is left of the mappings beside malloc's and the runtimes' memory. AS_NO_MEMORY.
bool as_summary_mappings(struct as_json *j, const struct as_view *v, struct as_error *err);

// The member "stacks": of threads whose stack is a mapping of its own; null: none is known.
void as_summary_stacks(struct as_json *j, const struct as_view *v);

// The member "open_files": files in memory that are open and not mapped; null: not known.
void as_summary_open_files(struct as_json *j, const struct as_view *v);

// The members "verdict" and "findings": what holds the memory. AS_NO_MEMORY.
bool as_summary_findings(struct as_json *j, const struct as_view *v, struct as_error *err);

// How the table may inspect.
struct as_table_style {
    unsigned columns; // of the terminal
    bool colour;
    bool ascii; // nothing beyond ASCII
    bool live;  // the target is a process that runs now: commands that act on it make sense
};
bool as_summary_table(FILE *out, const struct as_view *v, const struct as_table_style *style, struct as_error *err);

struct as_writer;
// The first part of the table: what holds the memory, in sentences. AS_NO_MEMORY.
bool as_summary_verdict(struct as_writer *w, const struct as_view *v, struct as_error *err);
// The part of the table on the objects of runtimes: by type, and of a Ruby by class. Nothing where none were counted.
void as_summary_objects(struct as_writer *w, const struct as_view *v);

// Indexes of threads, grouped by arena: those of arena i are order[first[i]] to order[first[i + 1] - 1].
struct as_arena_threads {
    uint64_t *first;
    uint32_t *order;
};
bool as_arena_threads_sort(struct as_arena_threads *t, const struct as_view *v, struct as_error *err);
void as_arena_threads_free(struct as_arena_threads *t);

// Indexes of the sizes that pin something, most stranded bytes first.
struct as_pins {
    uint32_t *order;
    uint64_t count;
};
bool as_pins_sort(struct as_pins *p, const struct as_view *v, struct as_error *err);
void as_pins_free(struct as_pins *p);

// Indexes of what has the largest values, the largest first; of equals the first one stays ahead.
enum { AS_MOST_LARGEST = 24 };
struct as_largest {
    uint64_t index[AS_MOST_LARGEST], value[AS_MOST_LARGEST];
    uint32_t count, most; // `most` are kept
};
void as_largest_offer(struct as_largest *l, uint64_t index, uint64_t value);

// Those of the sizes whose chunks share pages with stranded bytes with others, by these bytes.
void as_sharers_sort(struct as_largest *s, const struct as_view *v);

// A string of the view; NULL where it is empty, which is null in JSON.
static inline const char *as_string_or_null(const struct as_view *v, uint32_t offset)
{
    const char *text = as_view_string(v, offset);
    return text[0] ? text : NULL;
}
