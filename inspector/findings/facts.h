// SPDX-License-Identifier: MIT
// A snapshot, with the questions that rules ask.
#pragma once

#include "findings/findings.h"
#include "findings/humanize.h"
#include "ledger/ledger.h"

#define AS_MIB (UINT64_C(1) << 20)
// Parts of a whole, from which on something is said: of Rss, where a row is no waste and another row is the largest; of all chunks, where
// a size is named; of what is in use, where it is next to nothing.
#define AS_LARGE 0.25
#define AS_NOTABLE 0.1
#define AS_FEW 0.01

struct as_facts {
    const struct as_view *view;
    const struct as_ledger *rows;
    const struct as_tallies *chunks;
    struct as_ledger_sums sums;
    uint64_t whole;           // what shares are of: Rss, or the rows that are known where Rss is not
    uint64_t least;           // of waste that is worth a sentence
    int largest_row;          // that holds most of Rss; less than 0: no row is known to hold anything
    uint64_t allocated;       // chunks in use, resident or not; AS_UNKNOWN
    const char *doubt;        // why what is forecast is an estimate; NULL: it is none
    uint32_t no_thread, idle; // arenas
    uint64_t idle_free;       // free bytes of idle arenas; AS_UNKNOWN
    bool is_glibc;            // malloc() is glibc's
    bool has_ruby;            // proven or not
};
struct as_facts as_facts_of(const struct as_view *v);

#define AS_ROW_BIT(name) (UINT64_C(1) << AS_ROW_##name)

// Whether a number is known, and not 0.
static inline bool as_any(uint64_t number)
{
    return number != 0 && number != AS_UNKNOWN;
}
// Whether the bytes of the rows are so many that they are worth a sentence: the largest row always is.
static inline bool as_matters(const struct as_facts *f, uint64_t bytes, uint64_t rows)
{
    return as_any(bytes) && ((f->largest_row >= 0 && rows >> f->largest_row & 1) || bytes >= f->least);
}
// Whether they have a finding although they are no waste.
static inline bool as_is_large(const struct as_facts *f, uint64_t bytes, uint64_t rows, double least)
{
    return as_any(bytes) &&
           ((f->largest_row >= 0 && rows >> f->largest_row & 1) || (double)bytes >= least * (double)f->whole);
}

// Appends to a sentence; what has no room is left out.
void as_say(struct as_finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define AS_SIZE(bytes) (as_size_text(bytes).text)

// The rules. `out` has the bytes of the rule's rows, and what the table of rules says; true: the cause is there, and `out` has its
// sentence.
typedef bool as_rule(const struct as_facts *f, struct as_finding *out);
as_rule as_another_allocator, as_residency_unknown;                                // elsewhere.c
as_rule as_free_pages, as_withheld_tops, as_pinned, as_caches, as_too_many_arenas; // free_memory.c
as_rule as_in_use, as_large_blocks, as_gone_already, as_swapped, as_open_files;    // in_use.c
as_rule as_ruby_pages, as_python_arenas, as_managed, as_other_malloc;              // elsewhere.c
as_rule as_part_of_rss, as_stacks, as_any_other;                                   // elsewhere.c
