// SPDX-License-Identifier: MIT
// What malloc_trim(0) gives back, and what a deep trim gives back in addition: the forecast
// (ledger/) and the trim itself (trim/) go by the same rules. From malloc.c: mtrim (since 2.8), systrim.
#pragma once

#include "base/align.h"
#include "libc/libc.h"
#include "malloc/chunk.h"
#include "malloc/heaps.h"

// mtrim gives back the whole pages of a free chunk, but for its first bytes: sizeof (struct malloc_chunk), all six fields.
enum { AS_MALLOC_CHUNK_BYTES = 48 };
static inline uint64_t as_mtrim_start(uint64_t chunk)
{
    return chunk + AS_MALLOC_CHUNK_BYTES;
}

// mtrim consolidates fastbins before it inspects the bins (to 2.42, the last release that has them).
static inline bool as_mtrim_consolidates(const struct as_libc *libc)
{
    return libc->layout.state.fastbin_count > 0;
}

// systrim gives back whole units of a main arena's top: pages, or huge pages (glibc.malloc.hugetlb=1).
static inline uint64_t as_systrim_unit(const struct as_par *par, uint64_t page_size)
{
    uint64_t huge = par->thp_pagesize;
    return huge != AS_UNKNOWN && huge > page_size && (huge & (huge - 1)) == 0 ? huge : page_size;
}

// Where begins what systrim gives back of the top [top, end), by lowering brk, which must still be at `end`. It keeps a pad
// (0), MINSIZE and one byte. `end`: it gives back nothing.
static inline uint64_t as_systrim_start(uint64_t top, uint64_t end, uint64_t unit)
{
    return end - top > AS_MIN_CHUNK + 1 ? end - as_align_down(end - top - AS_MIN_CHUNK - 1, unit) : end;
}

// A deep trim gives back the whole pages of any top, but for its header.
static inline uint64_t as_deep_trim_start(uint64_t top)
{
    return top + AS_HEADER;
}
