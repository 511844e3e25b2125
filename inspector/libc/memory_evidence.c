// SPDX-License-Identifier: MIT
// Evidence for a layout from the memory of a malloc that runs: what a file does not show (a version's tcache, whether
// links are mangled) the heap itself does.
#include "libc/memory_evidence.h"
#include "libc/safe_linking.h"

#include "libc/layouts.h"

#include <string.h>

enum { LIVE_PAR_BYTES = 160, MAX_CACHED = 64, FIRST_TRIED = 8, MAX_PLACES = 16 };

// The tunables' ceilings, and glibc's own.
#define MAX_ATTACHED_THREADS 65536
#define MAX_TCACHE_BYTES ((uint64_t)8 << 20)
#define MAX_THRESHOLD ((uint64_t)1 << 46)

static bool state_fits(struct as_target *t, uint64_t main_arena, const struct as_state_layout *state)
{
    struct as_state_copy copy;
    if (!as_state_read(t, main_arena, state, &copy) || as_load_u32(copy.bytes + state->flags) > 15)
        return false;
    uint64_t attached = state->attached_threads == AS_NONE ? 1 : as_state_u64(&copy, state->attached_threads);
    uint64_t system_mem = as_state_u64(&copy, state->system_mem);
    if (as_state_is_initial(&copy, state))
        return attached < MAX_ATTACHED_THREADS && system_mem == 0 && as_state_u64(&copy, state->next) == main_arena;
    // An arena has at least a page; in the other layout the count of threads stands in that place.
    if (system_mem < t->page_size || system_mem > as_state_u64(&copy, state->max_system_mem) ||
        attached >= MAX_ATTACHED_THREADS)
        return false;
    return as_is_heap_memory(t, as_state_u64(&copy, state->top)) && as_ring_length(t, main_arena, state->next) &&
           as_state_linked_bins(t, &copy, state) * 2 > AS_BIN_COUNT;
}

uint32_t as_live_state_rows(struct as_target *t, uint64_t main_arena)
{
    uint32_t rows = 0;
    bool fits = false;
    for (unsigned i = 0; i < AS_LAYOUT_ROWS; i++) {
        const struct as_state_layout *state = &as_layout_row(i)->state;
        // Neighbours in the table mostly have the same struct; what follows of it is inspected once.
        if (i == 0 || memcmp(state, &as_layout_row(i - 1)->state, sizeof *state) != 0)
            fits = state_fits(t, main_arena, state);
        rows |= (uint32_t)fits << i;
    }
    return rows;
}

// The tcache fields: 64 small bins and any larger limit, or fewer bins that just reach the limit that was set.
static bool tcache_fits(const struct as_par_layout *par, const uint8_t *bytes)
{
    uint64_t bins = as_load_u64(bytes + par->tcache_bins);
    uint64_t limit = as_load_u64(bytes + par->tcache_max_bytes);
    if (as_load_u64(bytes + par->tcache_count) > UINT16_MAX || bins < 1 || bins > 64 || limit > MAX_TCACHE_BYTES)
        return false;
    uint64_t reach = 16 * bins + 8; // the largest request that the last of them serves
    return bins == 64 ? limit >= 1024 : limit <= reach + 16 && limit + 32 >= reach;
}

// Whether what lies at sbrk_base is main_arena's memory: up to the end of top, if it is all contiguous.
static bool base_fits(struct as_target *t, uint64_t base, const struct as_state_copy *arena,
                      const struct as_state_layout *state, bool *exact)
{
    uint64_t top = as_state_u64(arena, state->top);
    uint64_t size;
    *exact = false;
    if (as_state_is_initial(arena, state))
        return base == 0;
    if (base == 0 || !as_is_heap_memory(t, base))
        return false;
    *exact = as_target_read_u64(t, top + 8, &size) &&
             base + as_state_u64(arena, state->system_mem) == top + (size & ~(uint64_t)7);
    return true;
}

bool as_may_be_par(const uint8_t *bytes)
{
    uint64_t thresholds = as_load_u64(bytes) | as_load_u64(bytes + 8) | as_load_u64(bytes + 16);
    return as_load_u64(bytes + 24) < MAX_ATTACHED_THREADS && as_load_u64(bytes + 32) < MAX_ATTACHED_THREADS &&
           thresholds < MAX_THRESHOLD && as_load_u64(bytes + 16) != 0;
}

uint32_t as_live_par_rows(struct as_target *t, uint64_t mp, uint64_t main_arena, uint32_t state_rows, bool *has_tcache)
{
    uint8_t bytes[LIVE_PAR_BYTES];
    *has_tcache = false;
    if (!state_rows || !as_target_read(t, mp, bytes, sizeof bytes))
        return 0;
    const struct as_state_layout *state = &as_layout_row((unsigned)__builtin_ctz(state_rows))->state;
    struct as_state_copy arena;
    if (!as_state_read(t, main_arena, state, &arena))
        return 0;
    bool plain = as_may_be_par(bytes);
    uint32_t with = 0;
    uint32_t without = 0;
    for (unsigned i = 0; plain && i < AS_LAYOUT_ROWS; i++) {
        const struct as_par_layout *par = &as_layout_row(i)->par;
        uint32_t count = as_load_u32(bytes + par->n_mmaps);
        uint32_t maximum = as_load_u32(bytes + par->n_mmaps_max);
        uint64_t mapped = as_load_u64(bytes + par->mmapped_mem);
        // From 2.43 mmapped_mem grows by 16 bytes too much with every realloc of an mmapped chunk (mremap_chunk).
        bool drifts = as_layout_row(i)->heap.mmap_extra != 0;
        uint64_t unit = drifts ? 16 : t->page_size;
        bool exact;
        if (as_load_u32(bytes + par->no_dyn_threshold) > 1 || count > INT32_MAX || (count != 0 && mapped == 0) ||
            (count == 0 && mapped != 0 && !drifts) || mapped % unit ||
            mapped > as_load_u64(bytes + par->mmapped_mem + 8) /* max_mmapped_mem */ ||
            count > as_load_u32(bytes + par->n_mmaps_max + 4) /* max_n_mmaps */ ||
            !base_fits(t, as_load_u64(bytes + par->sbrk_base), &arena, state, &exact))
            continue;
        // One of the two must be as it always is: the limit that hardly anyone sets, or where the heap begins.
        if (maximum != 65536 && !exact)
            continue;
        if (par->tcache_bins != AS_NONE && tcache_fits(par, bytes))
            with |= 1u << i;
        else
            without |= 1u << i;
    }
    *has_tcache = with != 0;
    return with ? with : without;
}

// The size of heap_info shows in where the first arena of a thread stands in its heap: right behind it.
static uint32_t rows_by_heap_info(struct as_target *t, const struct as_answer *answer)
{
    uint64_t arena;
    if (!as_target_read_u64(t, answer->main_arena + (uint64_t)answer->layout.state.next, &arena) ||
        arena == answer->main_arena)
        return AS_LAYOUT_ALL_ROWS;
    uint32_t rows = as_layout_rows_with_heap_info(arena & 0xfff);
    return rows ? rows : AS_LAYOUT_ALL_ROWS;
}

// A chunk that may be a tcache_perthread_struct.
struct cache {
    uint64_t size; // of the chunk
    size_t length; // of bytes: what was read of it; 0: it is too large to be one
    uint8_t bytes[1024];
};

// Reads it once for all rows. False: there is no chunk.
static bool read_cache(struct as_target *t, uint64_t chunk, struct cache *cache)
{
    if (!as_target_read_u64(t, chunk + 8, &cache->size))
        return false;
    cache->size &= ~(uint64_t)7;
    uint64_t length = cache->size > 8 ? cache->size - 8 : 0;
    cache->length = length <= sizeof cache->bytes ? as_target_read_resident(t, chunk + 16, cache->bytes, length) : 0;
    return true;
}

static unsigned cached(const struct cache *cache, const struct as_heap_layout *heap, unsigned bin)
{
    const uint8_t *counts = cache->bytes + bin * (unsigned)heap->tcache_count_size;
    return heap->tcache_count_size == 1 ? counts[0] : counts[0] | (unsigned)counts[1] << 8;
}

// Whether the chunk that an arena begins with, a thread's tcache, is one of that row: its size, its counts, and that a
// list is empty exactly where its count says so. *lists: how many are not empty.
static bool cache_fits(const struct cache *cache, const struct as_layout *row, uint64_t limit, unsigned *lists)
{
    const struct as_heap_layout *heap = &row->heap;
    uint64_t least = ((uint64_t)heap->tcache_size + 8 + 15) & ~(uint64_t)15;
    // Seen 16 bytes longer than needed, where it is allocated with an alignment.
    if (heap->tcache_size == 0 || cache->size < least || cache->size > least + 16 ||
        cache->length < (size_t)heap->tcache_size)
        return false;
    *lists = 0;
    for (unsigned bin = 0; bin < (unsigned)heap->tcache_bins; bin++) {
        uint64_t entry = as_load_u64(cache->bytes + (unsigned)heap->tcache_entries + bin * 8);
        unsigned count = cached(cache, heap, bin);
        // The free slots are no witness of emptiness once the tunable has been changed; the limit is.
        bool empty = heap->tcache_counts_down ? count >= limit : count == 0;
        if (count > limit || entry % 16 || (entry == 0) != empty)
            return false;
        *lists += entry != 0;
    }
    return *lists != 0;
}

// Follows one list by either rule: the right one ends in null after as many chunks as were counted.
static bool list_ends(struct as_target *t, uint64_t entry, unsigned count, bool safe_linking)
{
    for (unsigned i = 0; i < count; i++) {
        uint64_t link;
        if (entry == 0 || entry % 16 || !as_target_read_u64(t, entry, &link))
            return false;
        entry = as_reveal_ptr(safe_linking, entry, link);
    }
    return entry == 0;
}

static uint32_t rows_by_linking(struct as_target *t, const struct cache *cache, const struct as_layout *row,
                                uint64_t limit)
{
    unsigned plain = 0;
    unsigned safe = 0;
    unsigned tried = 0;
    for (unsigned bin = 0; bin < (unsigned)row->heap.tcache_bins && tried < FIRST_TRIED; bin++) {
        uint64_t entry = as_load_u64(cache->bytes + (unsigned)row->heap.tcache_entries + bin * 8);
        unsigned count = cached(cache, &row->heap, bin);
        if (row->heap.tcache_counts_down)
            count = (unsigned)limit - count;
        if (entry == 0 || count > MAX_CACHED)
            continue;
        tried++;
        plain += list_ends(t, entry, count, false);
        safe += list_ends(t, entry, count, true);
    }
    return plain == safe ? AS_LAYOUT_ALL_ROWS : as_layout_rows_with_linking(safe > plain);
}

static bool has_same_lists(const struct as_heap_layout *a, const struct as_heap_layout *b)
{
    return a->tcache_bins == b->tcache_bins && a->tcache_count_size == b->tcache_count_size &&
           a->tcache_entries == b->tcache_entries && a->tcache_counts_down == b->tcache_counts_down;
}

// Where a thread's tcache can be: malloc allocates it before anything else, so it is the first chunk of the main arena, or of
// the thread arena that was made for its thread. Returns how many places there are.
static size_t cache_places(struct as_target *t, const struct as_answer *answer, uint64_t places[MAX_PLACES])
{
    const struct as_state_layout *state = &answer->layout.state;
    size_t count = 0;
    uint64_t base;
    if (as_target_read_u64(t, answer->mp + (uint64_t)answer->layout.par.sbrk_base, &base) && base != 0)
        places[count++] = (base + 15) & ~(uint64_t)15;
    for (uint64_t arena = answer->main_arena; count < MAX_PLACES;) {
        if (!as_target_read_u64(t, arena + (uint64_t)state->next, &arena) || arena == answer->main_arena)
            break;
        places[count++] = (arena + (uint64_t)state->size + 15) & ~(uint64_t)15;
    }
    return count;
}

// Rows by the first tcache that is in use, and by the links of its lists.
static uint32_t rows_by_tcache(struct as_target *t, const struct as_answer *answer, uint32_t *linking)
{
    const struct as_par_layout *par = &answer->layout.par;
    uint64_t limit;
    *linking = AS_LAYOUT_ALL_ROWS;
    if (answer->mp == AS_UNKNOWN || par->tcache_count == AS_NONE ||
        !as_target_read_u64(t, answer->mp + (uint64_t)par->tcache_count, &limit))
        return AS_LAYOUT_ALL_ROWS;
    uint64_t places[MAX_PLACES];
    size_t count = cache_places(t, answer, places);
    uint32_t rows = 0;
    for (size_t place = 0; place < count && !rows; place++) {
        struct cache cache;
        const struct as_heap_layout *followed =
            NULL; // of the last row that fits: the next ones mostly have the same lists
        for (unsigned i = 0; i < AS_LAYOUT_ROWS && (i > 0 || read_cache(t, places[place], &cache)); i++) {
            unsigned lists;
            const struct as_layout *row = as_layout_row(i);
            if (!cache_fits(&cache, row, limit, &lists))
                continue;
            rows |= 1u << i;
            if (!followed || !has_same_lists(followed, &row->heap))
                *linking = rows_by_linking(t, &cache, row, limit);
            followed = &row->heap;
        }
    }
    return rows ? rows : AS_LAYOUT_ALL_ROWS;
}

size_t as_live_hints(struct as_target *t, const struct as_answer *answer, uint32_t hints[AS_LIVE_HINTS])
{
    size_t count = 0;
    uint32_t linking;
    hints[count++] = rows_by_heap_info(t, answer);
    hints[count++] = rows_by_tcache(t, answer, &linking);
    hints[count++] = linking;
    return count;
}
