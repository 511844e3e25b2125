// SPDX-License-Identifier: MIT
// Regions of runtimes, as the finders add them. Internal to runtimes/, but for the last.
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// Could a runtime's own heap lie in there: private anonymous memory that can be written?
static inline bool as_is_runtime_memory(const struct as_mapping *m)
{
    return m && m->kind == AS_MAP_ANON && !(m->prot & AS_PROT_SHARED) && (m->prot & AS_PROT_WRITE);
}

// Could it lie in all of these bytes? What was mapped at once may be in as many mappings as the program has protected
// or advised parts of it. Each mapping behind the first takes one of *reads_left, as a target may have as many as it
// likes: false, too, where none is left.
bool as_is_runtime_range(const struct as_target *t, uint64_t address, uint64_t length, int64_t *reads_left);

// How many reads a search of all such memory may take: one for each `unit` bytes of it, and one for each mapping.
int64_t as_runtime_read_budget(const struct as_target *t, uint64_t unit);

// The memory around an address that it could lie in, without a gap: `reach` bytes on either side at most. Empty: there is none.
struct as_range as_runtime_around(const struct as_target *t, uint64_t address, uint64_t reach);

// Adds a record of a runtime without regions. Its index, or UINT32_MAX: our memory ran out.
uint32_t as_runtime_add(struct as_store *s, uint32_t kind, uint32_t row, struct as_error *err);

// Adds a region for each part of [start, end) that is private anonymous memory and can be accessed, of whose blocks
// nothing is known, and adds their bytes to *bytes. False (AS_NO_MEMORY): our memory ran out.
bool as_regions_add(struct as_target *t, struct as_store *s, uint32_t runtime, uint64_t start, uint64_t end,
                    uint64_t *bytes, struct as_error *err);

// Sorts the regions from index `first` on by address. False (AS_NO_MEMORY): our memory ran out.
bool as_regions_sort(struct as_store *s, size_t first, struct as_error *err);

// The regions of a runtime are what it is believed to have: `committed` bytes (AS_UNKNOWN: not known), of the releases that are named
// (NULL: none is). The rest of the arguments is the evidence, as for printf.
void __attribute__((format(printf, 5, 6))) as_runtime_found(struct as_store *s, uint32_t runtime, uint64_t committed,
                                                            const char *releases, const char *format, ...);

// Takes back the regions from index `first` on, and what is known of their runtime; a warning says `why`.
void as_runtime_unproven(struct as_store *s, uint32_t runtime, size_t first, const char *why);

// After all finders: a runtime whose regions overlap another's, or malloc's heaps, is unproven, as a target may claim anything.
// (CPython's arenas may be chunks of malloc's.) False (AS_NO_MEMORY): our memory ran out.
bool as_regions_check(struct as_store *s, struct as_error *err);
