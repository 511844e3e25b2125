// SPDX-License-Identifier: MIT
// Chunk x residency: turns the walk's chunks into page records, ledger rows, pins and the forecast. docs/ledger.md
// defines every row; the rules of malloc_trim are those of glibc's mtrim and systrim.
#pragma once

#include "ledger/builder.h"
#include "malloc/heaps.h"
#include "model/view.h"

// `collecting`: what is wanted in b->collected. AS_NO_MEMORY.
bool as_ledger_open(struct as_ledger_builder *b, struct as_store *s, struct as_target *t,
                    struct as_chunk_writer *chunks, struct as_collecting collecting, struct as_error *err);
void as_ledger_close(struct as_ledger_builder *b);

// What is counted from now on goes to `part`, all zero; `in_place`: its pages straight to the store's, as no part before it is still to be
// added.
void as_ledger_partial_open(struct as_ledger_builder *b, struct as_ledger_partial *part, bool in_place);
// Appends a part to the store, whose pages are then the store's, and frees it. AS_NO_MEMORY.
bool as_ledger_partial_close(struct as_store *s, struct as_ledger_partial *part, struct as_error *err);
// Adds what another worker has counted by sizes, and takes what it has collected.
bool as_ledger_join(struct as_ledger_builder *to, struct as_ledger_builder *from);

// Begins a heap: asks the kernel for the residency of its pages and makes their records. The record's index is that of
// the last of part->heaps, which this adds.
bool as_ledger_begin(struct as_ledger_builder *b, const struct as_heap *heap, const struct as_arena *arena,
                     const struct as_par *par, uint64_t brk_end);
// As above for one mmapped chunk; hands its three parts (lead, chunk, rest) to the sink itself and ends it.
bool as_ledger_mmapped(struct as_ledger_builder *b, const struct as_mmapped *m);
// Ends the heap at `end` (the walk may have found that it is shorter than it seemed) and adds its pages to the rows.
bool as_ledger_end(struct as_ledger_builder *b, uint64_t end);

// After the walk, while the target still stands: what is resident of the runtimes' heaps (store->ruby, store->regions), and
// the parts of them that are malloc's into rows of their own.
void as_ledger_runtimes_open(struct as_ledger_builder *b);
// After the mappings have been counted: those that are mappings of their own. as_ledger_finish calls it.
void as_ledger_runtimes_close(struct as_ledger_builder *b);

// Gives the mappings that hold a stack their role, and the threads what is resident of theirs. as_ledger_finish calls it. False
// (AS_NO_MEMORY): our memory ran out.
bool as_ledger_find_stacks(struct as_ledger_builder *b);

// After the last heap: the sizes, the mappings, the process's totals, and whether it all adds up. `all_found`: false when
// a glibc is there whose heap could not be read, so that anonymous memory may be malloc's.
bool as_ledger_finish(struct as_ledger_builder *b, bool all_found);

// a + b, where either may be AS_UNKNOWN and a hostile dump may make the sum overflow: AS_UNKNOWN then.
static inline uint64_t as_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return a == AS_UNKNOWN || b == AS_UNKNOWN || __builtin_add_overflow(a, b, &sum) ? AS_UNKNOWN : sum;
}

// The bytes that are known: 0 of an unknown number.
static inline uint64_t as_known(uint64_t bytes)
{
    return bytes == AS_UNKNOWN ? 0 : bytes;
}

// Adds every row of `from` to `to`; what is unknown in either is unknown in the sum.
void as_ledger_add(struct as_ledger *to, const struct as_ledger *from);
// The sum of the resident rows; AS_UNKNOWN when one of them is.
uint64_t as_ledger_resident(const struct as_ledger *rows);

// The sums of rows that tables, page and JSON show, in bytes; the field names are those of the JSON. A sum is AS_UNKNOWN when a row
// of it is; but Ruby's pages, where they are not known, are counted in other rows.
struct as_ledger_sums {
    uint64_t resident;       // all resident rows
    uint64_t known;          // those of them that are known
    uint64_t used;           // in use by the application, in heaps or in mappings of their own
    uint64_t cached;         // in caches of malloc's
    uint64_t scattered;      // free or cached, on pages that something else keeps
    uint64_t free_pages;     // whole free pages, whatever returns them
    uint64_t free;           // scattered and free_pages: freed by the application, and resident
    uint64_t not_malloc;     // not malloc's
    uint64_t deep_trim_adds; // what a deep trim would return beyond malloc_trim(0)
};
struct as_ledger_sums as_ledger_sum_up(const struct as_ledger *rows);

// What a verdict needs beside the rows: the largest of what is in use, and where the pages of the forecast lie.

// Chunks in use of one size.
struct as_largest_size {
    uint64_t chunk_size, count, bytes;
};
enum { AS_LARGEST_SIZES = 10 };
// The sizes whose chunks in use have the most bytes (chunk sizes, resident or not; mmapped chunks are among them), most first.
// Returns how many there are. Sizes with a number that is not known are left out.
uint32_t as_largest_sizes(const struct as_view *v, struct as_largest_size out[AS_LARGEST_SIZES]);

// The size of the largest mapping that is one mmapped chunk, in bytes; 0: there is none.
uint64_t as_largest_mmapped(const struct as_view *v);

// Where the pages lie that malloc_trim(0) returns, in bytes.
struct as_releasable {
    uint64_t end;    // in the top of a main arena, the end of its heap
    uint64_t below;  // between what is in use
    uint64_t arenas; // number of arenas that have pages of the second kind
};
// All are AS_UNKNOWN where the forecast is.
struct as_releasable as_releasable_pages(const struct as_view *v);
