// SPDX-License-Identifier: MIT
// THE table of layouts: one row for each range of glibc releases between which nothing that we read has moved. A row is
// made of parts, and each part is written down once. The numbers are those of LP64 (x86-64 and aarch64 agree); they
// were computed from the structs of the releases' malloc.c and arena.c, and hold against the DWARF of Debian's libc6
// of 2.31, 2.36, 2.41, 2.43 and 2.44 (tests/inspector/test_libc.py). How far back the first row holds was not looked up: older releases
// that have its structs (2.12 as Red Hat built it has) are read by it, and nothing tells which one it is.
#include "libc/layouts.h"

#include "libc/elf.h"

#include <string.h>

#define TRIM_THRESHOLD (128 * 1024) // DEFAULT_TRIM_THRESHOLD, and DEFAULT_MMAP_THRESHOLD
#define TOP_PAD (128 * 1024)        // DEFAULT_TOP_PAD of malloc-machine.h
#define MMAPS_MAX 65536             // DEFAULT_MMAP_MAX
#define ARENA_TEST 8                // NARENAS_FROM_NCORES (1) with 64-bit longs
#define TCACHE_SMALL_BINS 64

// struct malloc_state.
#define STATE_2_17                                                                                                     \
    {                                                                                                                  \
        .size = 2184, .mutex = 0, .flags = 4, .have_fastchunks = AS_NONE, .fastbins = 8, .fastbin_count = 10,          \
        .top = 88, .bins = 104, .binmap = 2136, .next = 2152, .next_free = 2160, .attached_threads = AS_NONE,          \
        .system_mem = 2168, .max_system_mem = 2176,                                                                    \
    }
#define STATE_2_23 /* attached_threads */                                                                              \
    {                                                                                                                  \
        .size = 2192, .mutex = 0, .flags = 4, .have_fastchunks = AS_NONE, .fastbins = 8, .fastbin_count = 10,          \
        .top = 88, .bins = 104, .binmap = 2136, .next = 2152, .next_free = 2160, .attached_threads = 2168,             \
        .system_mem = 2176, .max_system_mem = 2184,                                                                    \
    }
#define STATE_2_27 /* have_fastchunks */                                                                               \
    {                                                                                                                  \
        .size = 2200, .mutex = 0, .flags = 4, .have_fastchunks = 8, .fastbins = 16, .fastbin_count = 10, .top = 96,    \
        .bins = 112, .binmap = 2144, .next = 2160, .next_free = 2168, .attached_threads = 2176, .system_mem = 2184,    \
        .max_system_mem = 2192,                                                                                        \
    }
#define STATE_2_43 /* no fastbins any more */                                                                          \
    {                                                                                                                  \
        .size = 2112, .mutex = 0, .flags = 4, .have_fastchunks = AS_NONE, .fastbins = AS_NONE, .fastbin_count = 0,     \
        .top = 8, .bins = 24, .binmap = 2056, .next = 2072, .next_free = 2080, .attached_threads = 2088,               \
        .system_mem = 2096, .max_system_mem = 2104,                                                                    \
    }

// struct malloc_par.
#define PAR_FIRST .trim_threshold = 0, .top_pad = 8, .mmap_threshold = 16, .arena_test = 24, .arena_max = 32
#define PAR_NO_TCACHE .tcache_bins = AS_NONE, .tcache_max_bytes = AS_NONE, .tcache_count = AS_NONE
#define PAR_NO_THP .thp_pagesize = AS_NONE, .hp_pagesize = AS_NONE
#define PAR_2_17                                                                                                       \
    {                                                                                                                  \
        .size = 88, PAR_FIRST, PAR_NO_THP, .n_mmaps = 40, .n_mmaps_max = 44, .no_dyn_threshold = 52,                   \
        .mmapped_mem = 56, .sbrk_base = 80, PAR_NO_TCACHE,                                                             \
    }
#define PAR_2_24 /* without max_total_mem */                                                                           \
    {                                                                                                                  \
        .size = 80, PAR_FIRST, PAR_NO_THP, .n_mmaps = 40, .n_mmaps_max = 44, .no_dyn_threshold = 52,                   \
        .mmapped_mem = 56, .sbrk_base = 72, PAR_NO_TCACHE,                                                             \
    }
#define PAR_2_26 /* tcache */                                                                                          \
    {                                                                                                                  \
        .size = 112, PAR_FIRST, PAR_NO_THP, .n_mmaps = 40, .n_mmaps_max = 44, .no_dyn_threshold = 52,                  \
        .mmapped_mem = 56, .sbrk_base = 72, .tcache_bins = 80, .tcache_max_bytes = 88, .tcache_count = 96,             \
    }
#define PAR_2_35 /* huge pages */                                                                                      \
    {                                                                                                                  \
        .size = 136, PAR_FIRST, .thp_pagesize = 40, .hp_pagesize = 48, .n_mmaps = 60, .n_mmaps_max = 64,               \
        .no_dyn_threshold = 72, .mmapped_mem = 80, .sbrk_base = 96, .tcache_bins = 104, .tcache_max_bytes = 112,       \
        .tcache_count = 120,                                                                                           \
    }
#define PAR_2_43_OF_SIZE(bytes) /* thp_mode */                                                                         \
    {                                                                                                                  \
        .size = (bytes), PAR_FIRST, .thp_pagesize = 48, .hp_pagesize = 56, .n_mmaps = 68, .n_mmaps_max = 72,           \
        .no_dyn_threshold = 80, .mmapped_mem = 88, .sbrk_base = 104, .tcache_bins = 112, .tcache_max_bytes = 120,      \
        .tcache_count = 128,                                                                                           \
    }
#define PAR_2_43 PAR_2_43_OF_SIZE(144)
#define PAR_2_44 PAR_2_43_OF_SIZE(136) // without tcache_unsorted_limit

// heap_info, tcache_perthread_struct, and the rules that no struct shows.
#define HEAP_INFO_2_17 .heap_info_size = 32, .heap_pagesize = AS_NONE
#define HEAP_INFO_2_35 .heap_info_size = 48, .heap_pagesize = 32
#define NO_TCACHE .tcache_size = 0, .tcache_bins = 0, .tcache_count_size = 0, .tcache_entries = 0
#define TCACHE_2_26 .tcache_size = 576, .tcache_bins = 64, .tcache_count_size = 1, .tcache_entries = 64
#define TCACHE_2_30 .tcache_size = 640, .tcache_bins = 64, .tcache_count_size = 2, .tcache_entries = 128
#define TCACHE_2_42                                                                                                    \
    .tcache_size = 760, .tcache_bins = 76, .tcache_count_size = 2, .tcache_entries = 152, .tcache_counts_down = true
#define SAFE_LINKING_2_32 .safe_linking = true
#define MMAP_EXTRA_2_43 .mmap_extra = 16 // the chunk header no longer counts in the size of an mmapped chunk

static const struct {
    unsigned since; // release 2.since
    struct as_layout layout;
} rows[AS_LAYOUT_ROWS] = {
    {17, {"up to 2.22", "malloc.c, arena.c of glibc 2.17 and 2.22", STATE_2_17, PAR_2_17, {HEAP_INFO_2_17, NO_TCACHE}}},
    {23, {"2.23", "malloc.c, arena.c of glibc 2.23", STATE_2_23, PAR_2_17, {HEAP_INFO_2_17, NO_TCACHE}}},
    {24, {"2.24-2.25", "malloc.c, arena.c of glibc 2.24 and 2.25", STATE_2_23, PAR_2_24, {HEAP_INFO_2_17, NO_TCACHE}}},
    {26, {"2.26", "malloc.c, arena.c of glibc 2.26", STATE_2_23, PAR_2_26, {HEAP_INFO_2_17, TCACHE_2_26}}},
    {27,
     {"2.27-2.29",
      "malloc.c, arena.c of glibc 2.27, 2.28 and 2.29",
      STATE_2_27,
      PAR_2_26,
      {HEAP_INFO_2_17, TCACHE_2_26}}},
    {30,
     {"2.30-2.31",
      "malloc.c, arena.c of glibc 2.30; DWARF of Debian's 2.31",
      STATE_2_27,
      PAR_2_26,
      {HEAP_INFO_2_17, TCACHE_2_30}}},
    {32,
     {"2.32-2.34",
      "malloc.c, arena.c of glibc 2.32 and 2.34",
      STATE_2_27,
      PAR_2_26,
      {HEAP_INFO_2_17, TCACHE_2_30, SAFE_LINKING_2_32}}},
    {35,
     {"2.35-2.41",
      "malloc.c, arena.c of glibc 2.35, 2.38 and 2.41; DWARF of Debian's 2.36 and 2.41",
      STATE_2_27,
      PAR_2_35,
      {HEAP_INFO_2_35, TCACHE_2_30, SAFE_LINKING_2_32}}},
    {42,
     {"2.42",
      "malloc.c, arena.c of glibc 2.42",
      STATE_2_27,
      PAR_2_35,
      {HEAP_INFO_2_35, TCACHE_2_42, SAFE_LINKING_2_32}}},
    {43,
     {"2.43",
      "malloc.c, arena.c before the release of glibc 2.43; DWARF of Debian's 2.43",
      STATE_2_43,
      PAR_2_43,
      {HEAP_INFO_2_35, TCACHE_2_42, SAFE_LINKING_2_32, MMAP_EXTRA_2_43}}},
    {44,
     {"2.44",
      "DWARF of Debian's 2.44",
      STATE_2_43,
      PAR_2_44,
      {HEAP_INFO_2_35, TCACHE_2_42, SAFE_LINKING_2_32, MMAP_EXTRA_2_43}}},
};

const struct as_layout *as_layout_row(unsigned index)
{
    return index < AS_LAYOUT_ROWS ? &rows[index].layout : NULL;
}

uint32_t as_layout_rows_of_version(const char *version)
{
    if (strncmp(version, "2.", 2) != 0)
        return AS_LAYOUT_ALL_ROWS;
    unsigned minor = 0;
    for (const char *c = version + 2; *c >= '0' && *c <= '9' && minor < 1000; c++)
        minor = minor * 10 + (unsigned)(*c - '0');
    for (unsigned i = AS_LAYOUT_ROWS; i-- > 0;) {
        if (minor >= rows[i].since)
            return 1u << i;
    }
    return 0; // older than the table
}

uint32_t as_layout_rows_with_next(uint64_t offset)
{
    uint32_t found = 0;
    for (unsigned i = 0; i < AS_LAYOUT_ROWS; i++)
        found |= (uint32_t)((uint64_t)rows[i].layout.state.next == offset) << i;
    return found;
}

uint32_t as_layout_rows_with_state_size(uint64_t size)
{
    uint32_t found = 0;
    for (unsigned i = 0; i < AS_LAYOUT_ROWS; i++)
        found |= (uint32_t)((uint64_t)rows[i].layout.state.size == size) << i;
    return found;
}

uint32_t as_layout_rows_with_heap_info(uint64_t size)
{
    uint32_t found = 0;
    for (unsigned i = 0; i < AS_LAYOUT_ROWS; i++)
        found |= (uint32_t)((uint64_t)rows[i].layout.heap.heap_info_size == size) << i;
    return found;
}

uint32_t as_layout_rows_with_linking(bool safe_linking)
{
    uint32_t found = 0;
    for (unsigned i = 0; i < AS_LAYOUT_ROWS; i++)
        found |= (uint32_t)(rows[i].layout.heap.safe_linking == safe_linking) << i;
    return found;
}

static bool state_fits(const struct as_state_layout *state, const uint8_t *bytes, uint64_t address)
{
    for (int32_t at = 0; at < state->size; at += 8) {
        uint64_t word = as_load_u64(bytes + at);
        if (at == state->next ? word != 0 && word != address : word != (at == state->attached_threads))
            return false;
    }
    return true;
}

uint32_t as_layout_rows_of_state_image(const uint8_t *bytes, size_t length, uint64_t address)
{
    uint32_t found = 0;
    for (unsigned i = 0; i < AS_LAYOUT_ROWS; i++) {
        const struct as_state_layout *state = &rows[i].layout.state;
        if ((size_t)state->size <= length && state_fits(state, bytes, address))
            found |= 1u << i;
    }
    return found;
}

// The tcache fields of a struct malloc_par as the linker left it: 64 small bins; chunks of up to 1032 or 1040 bytes,
// counted without or with their header (and with one added, from 2.43); 7 chunks a bin, 16 from 2.43.
static bool tcache_fits(const struct as_par_layout *par, const uint8_t *bytes)
{
    uint64_t max_bytes = as_load_u64(bytes + par->tcache_max_bytes);
    uint64_t count = as_load_u64(bytes + par->tcache_count);
    return as_load_u64(bytes + par->tcache_bins) == TCACHE_SMALL_BINS && max_bytes >= 1024 && max_bytes <= 1088 &&
           count > 0 && count < 128;
}

uint32_t as_layout_rows_of_par_image(const uint8_t *bytes, size_t length, bool *has_tcache)
{
    *has_tcache = false;
    uint64_t top_pad;
    if (length < 80 || as_load_u64(bytes) != TRIM_THRESHOLD || as_load_u64(bytes + 16) != TRIM_THRESHOLD ||
        as_load_u64(bytes + 24) != ARENA_TEST || as_load_u64(bytes + 32) != 0)
        return 0;
    top_pad = as_load_u64(bytes + 8);
    if (top_pad != TOP_PAD && top_pad != 0)
        return 0;
    uint32_t with_tcache = 0;
    uint32_t without = 0;
    for (unsigned i = 0; i < AS_LAYOUT_ROWS; i++) {
        const struct as_par_layout *par = &rows[i].layout.par;
        size_t least = (size_t)(par->tcache_bins == AS_NONE ? par->size : par->tcache_bins);
        if (length < least || as_load_u32(bytes + par->n_mmaps_max) != MMAPS_MAX ||
            as_load_u32(bytes + par->n_mmaps) != 0 || as_load_u32(bytes + par->no_dyn_threshold) != 0 ||
            as_load_u64(bytes + par->mmapped_mem) != 0 || as_load_u64(bytes + par->sbrk_base) != 0)
            continue;
        without |= 1u << i;
        if (par->tcache_bins != AS_NONE && length >= (size_t)par->size && tcache_fits(par, bytes))
            with_tcache |= 1u << i;
    }
    *has_tcache = with_tcache != 0;
    return with_tcache ? with_tcache : without;
}

void as_layout_without_tcache(struct as_layout *layout)
{
    struct as_par_layout *par = &layout->par;
    if (par->tcache_bins != AS_NONE)
        par->size = par->tcache_bins;
    par->tcache_bins = par->tcache_max_bytes = par->tcache_count = AS_NONE;
    layout->heap.tcache_size = layout->heap.tcache_bins = layout->heap.tcache_count_size = 0;
    layout->heap.tcache_entries = 0;
    layout->heap.tcache_counts_down = false;
}

static unsigned newest(uint32_t mask)
{
    return mask ? 31 - (unsigned)__builtin_clz(mask) : AS_LAYOUT_ROWS - 1;
}

void as_layout_compose(struct as_layout *out, uint32_t state, uint32_t par, bool has_tcache, const uint32_t *hints,
                       size_t hint_count)
{
    uint32_t both = state & par ? state & par : state;
    for (size_t i = 0; i < hint_count; i++) {
        if (both & hints[i])
            both &= hints[i];
        if (par & hints[i])
            par &= hints[i];
    }
    unsigned row = newest(both);
    *out = rows[row].layout;
    // Rows that nothing could tell apart differ in nothing that was there to be seen; but the release is not known.
    if (both & (both - 1))
        out->versions = "several releases fit";
    if (par && !(par & 1u << row)) {
        // A vendor's mixture, or --disable-tunables: no release has these two structs together.
        out->par = rows[newest(par)].layout.par;
        out->source = "parts of several rows of the table, as the structs showed";
    }
    if (!has_tcache)
        as_layout_without_tcache(out);
}
