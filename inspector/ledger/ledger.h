// SPDX-License-Identifier: MIT
// Chunk x residency: turns the walk's chunks into page records, ledger rows, pins and the forecast. docs/ledger.md
// defines every row; the rules of malloc_trim are those of glibc's mtrim and systrim.
#pragma once

#include "ledger/sizes.h"
#include "malloc/heaps.h"
#include "model/store.h"

// What some heaps came to, until it is their turn in the store: several workers may count at once.
struct as_ledger_part {
    AS_VEC(struct as_heap_record) heaps; // first_page counts from the first of `pages`
    as_page_vec *pages;                  // where their page records go: `own`, or the store's
    as_page_vec own;
    AS_VEC(struct as_ledger_doubt) doubts;
};

// Pages whose residency the kernel did not tell.
struct as_ledger_doubt {
    uint32_t heap; // index in the part
    uint64_t address;
    struct as_error why;
};

// What is being counted right now: one heap at a time.
struct as_ledger_builder {
    struct as_chunk_sink sink; // the walk's chunks come in here
    struct as_store *store;    // of its records only the arena's at hand, and the mappings' malloc_rss, are written to
    struct as_ledger_part *part;
    struct as_target *target;
    struct as_error *err;
    struct as_sizes sizes;
    struct as_chunk_writer *chunks; // NULL: chunk records not wanted

    // The heap at hand.
    struct as_heap_record *heap;
    struct as_ledger *ledger;
    struct as_tallies *tallies;
    unsigned page_shift; // page_size is 1 << page_shift: a division for each chunk would cost more than all else
    uint64_t base;       // address of its first page
    struct as_page_record *pages;
    bool slack; // what is neither chunk nor header of the heap at hand is slack of a map, not malloc's metadata
    bool trims_fastbins;   // malloc_trim consolidates fastbins first (to 2.42)
    uint64_t systrim_unit; // for this heap's top (trim_rules.h); 0: systrim cannot cut it
    uint64_t cut;          // from here on brk gives the top back; UINT64_MAX: it gives nothing

    bool ruby_known; // the resident bytes of Ruby's pages are

    // The run of free chunks that malloc_trim would have merged into one, from `run` to wherever the walk is. 0: none.
    uint64_t run;
    // The page at hand: how many chunks in use touch it, and the last of them.
    uint64_t page;
    uint32_t users;
    struct as_chunk user;
    uint64_t last_pin; // address of the chunk last counted as a pin
    // For the tail: the last chunk in use so far, and the free run below it.
    struct as_chunk last_in_use;
    uint64_t below_last;
    uint64_t free_since;
};

bool as_ledger_open(struct as_ledger_builder *b, struct as_store *s, struct as_target *t,
                    struct as_chunk_writer *chunks, struct as_error *err);
void as_ledger_close(struct as_ledger_builder *b);

// What is counted from now on goes to `part`, all zero; `in_place`: its pages straight to the store's, as it is its turn.
void as_ledger_part_open(struct as_ledger_builder *b, struct as_ledger_part *part, bool in_place);
// Appends a part to the store, whose pages are then the store's, and frees it. AS_NO_MEMORY.
bool as_ledger_part_close(struct as_store *s, struct as_ledger_part *part, struct as_error *err);
// Adds what another worker has counted by sizes.
bool as_ledger_join(struct as_ledger_builder *to, const struct as_ledger_builder *from);

// Begins a heap: asks the kernel for the residency of its pages and makes their records. The record's index is that of
// the last of part->heaps, which this adds.
bool as_ledger_begin(struct as_ledger_builder *b, const struct as_heap *heap, const struct as_arena *arena,
                     const struct as_par *par, uint64_t brk_end);
// As above for one mmapped chunk; hands its three parts (lead, chunk, rest) to the sink itself and ends it.
bool as_ledger_mmapped(struct as_ledger_builder *b, const struct as_mmapped *m);
// Ends the heap at `end` (the walk may have found that it is shorter than it seemed) and adds its pages to the rows.
bool as_ledger_end(struct as_ledger_builder *b, uint64_t end);

// After the walk, while the target still stands: what is resident of Ruby's pages (store->ruby), and those of them that are
// malloc's into a row of their own.
void as_ledger_ruby_open(struct as_ledger_builder *b);
// After the mappings have been counted: those that are mappings of their own. as_ledger_finish calls it.
void as_ledger_ruby_close(struct as_ledger_builder *b);

// After the last heap: the sizes, the mappings, the process's totals, and whether it all adds up. `all_found`: false when
// a glibc is there whose heap could not be read, so that anonymous memory may be malloc's.
bool as_ledger_finish(struct as_ledger_builder *b, bool all_found);

// Adds every row of `from` to `to`; what is unknown in either is unknown in the sum.
void as_ledger_add(struct as_ledger *to, const struct as_ledger *from);
// The sum of the resident rows; AS_UNKNOWN when one of them is.
uint64_t as_ledger_resident(const struct as_ledger *l);
