// SPDX-License-Identifier: MIT
#include "base/cycle.h"
#include "malloc/find.h"
#include "malloc/heaps.h"

#include <string.h>

enum {
    MAX_ARENAS = 65536, // far above 8 x CPUs of any machine: a ring longer than this is a cycle that misses its start
    MAX_STATE_SIZE = 4096, // of malloc_state; the largest is 2200
    FASTBINS = 10,
};

// HEAP_MAX_SIZE of arena.c, LP64: 2 * DEFAULT_MMAP_THRESHOLD_MAX; 4 huge pages where the hugetlb tunable is set (2.35-2.41).
static const uint64_t HEAP_MAX = 64 << 20;

static uint64_t field(const uint8_t *bytes, int32_t offset, size_t size)
{
    if (offset == AS_NONE)
        return AS_UNKNOWN;
    uint64_t value = 0;
    memcpy(&value, bytes + offset, size);
    return value;
}

static void par_unknown(struct as_par *par)
{
    memset(par, 0xff, sizeof *par);
    par->heap_max = HEAP_MAX;
}

// Reads mp_. All AS_UNKNOWN when it was not found or cannot be read.
static void par_read(struct as_target *t, const struct as_libc *libc, struct as_par *par)
{
    const struct as_par_layout *at = &libc->layout.par;
    uint8_t bytes[512];
    par_unknown(par);
    if (libc->mp == AS_UNKNOWN || at->size <= 0 || (size_t)at->size > sizeof bytes ||
        !as_target_read(t, libc->mp, bytes, (size_t)at->size))
        return;
    par->trim_threshold = field(bytes, at->trim_threshold, 8);
    par->top_pad = field(bytes, at->top_pad, 8);
    par->mmap_threshold = field(bytes, at->mmap_threshold, 8);
    par->arena_test = field(bytes, at->arena_test, 8);
    par->arena_max = field(bytes, at->arena_max, 8);
    par->thp_pagesize = field(bytes, at->thp_pagesize, 8);
    par->hp_pagesize = field(bytes, at->hp_pagesize, 8);
    par->n_mmaps = field(bytes, at->n_mmaps, 4);
    par->no_dyn_threshold = field(bytes, at->no_dyn_threshold, 4);
    par->mmapped_mem = field(bytes, at->mmapped_mem, 8);
    par->sbrk_base = field(bytes, at->sbrk_base, 8);
    par->tcache_count = field(bytes, at->tcache_count, 8);
    par->tcache_max_bytes = field(bytes, at->tcache_max_bytes, 8);
    // Only the releases that have heap_info.pagesize but not yet the constant of 2.42 scale the heap; a tcache of the 2.42
    // kind tells those apart. A heap's address is proven through heap_info.ar_ptr all the same (segments.c).
    bool scales = libc->layout.heap.heap_pagesize != AS_NONE && !libc->layout.heap.tcache_counts_down;
    if (scales && par->hp_pagesize != AS_UNKNOWN && par->hp_pagesize != 0 && par->hp_pagesize <= (UINT64_C(1) << 40) &&
        (par->hp_pagesize & (par->hp_pagesize - 1)) == 0)
        par->heap_max = par->hp_pagesize * 4;
}

static bool arena_read(struct as_target *t, const struct as_libc *libc, uint64_t address, struct as_arena *arena)
{
    const struct as_state_layout *at = &libc->layout.state;
    uint8_t bytes[MAX_STATE_SIZE];
    if (at->size <= 0 || (size_t)at->size > sizeof bytes || !as_target_read(t, address, bytes, (size_t)at->size))
        return false;
    *arena = (struct as_arena){
        .address = address,
        .libc = libc,
        .main = address == libc->main_arena,
        .mutex = (uint32_t)field(bytes, at->mutex, 4),
        .flags = (uint32_t)field(bytes, at->flags, 4),
        .top = field(bytes, at->top, 8),
        .next = field(bytes, at->next, 8),
        .system_mem = field(bytes, at->system_mem, 8),
        .max_system_mem = field(bytes, at->max_system_mem, 8),
        .attached_threads = field(bytes, at->attached_threads, 8),
    };
    for (int i = 0; at->fastbins != AS_NONE && i < at->fastbin_count && i < FASTBINS; i++)
        arena->fastbins[i] = field(bytes, at->fastbins + 8 * i, 8);
    uint64_t head;
    if (!as_is_initial_top(libc, address, arena->top) && as_target_read_u64(t, arena->top + 8, &head))
        arena->top_size = as_chunksize(head);
    else
        arena->top = 0;
    return true;
}

// A ring that runs into a cycle without main_arena has been read more than once: keeps the arenas of the first round.
static void drop_repeated(struct as_heaps *h, size_t first)
{
    size_t length = 1; // of the cycle, which ends with the last arena read
    size_t last = h->arenas.count - 1;
    while (length <= last - first && h->arenas.items[last - length].address != h->arenas.items[last].address)
        length++;
    size_t kept = first;
    while (kept + length <= last && h->arenas.items[kept].address != h->arenas.items[kept + length].address)
        kept++;
    if (kept + length <= last)
        h->arenas.count = kept + length;
}

bool as_arenas_read(struct as_heaps *h, uint32_t libc_index, struct as_error *err)
{
    const struct as_libc *libc = &h->malloc->libcs.items[libc_index];
    struct as_par *par = as_vec_add(&h->pars, err);
    if (!par)
        return false;
    par_read(h->target, libc, par);

    uint64_t address = libc->main_arena;
    uint64_t remembered = 0;
    size_t first = h->arenas.count;
    for (size_t i = 1; i <= MAX_ARENAS; i++) {
        struct as_arena arena;
        if (!arena_read(h->target, libc, address, &arena)) {
            h->incomplete = true;
            as_fault_note(h, UINT32_MAX, UINT32_MAX, address, "an arena of the list cannot be read");
            return true;
        }
        arena.libc_index = libc_index;
        if (!as_vec_push(&h->arenas, err, arena))
            return false;
        if (arena.top == 0 && arena.system_mem != 0) {
            h->incomplete = true;
            as_fault_note(h, (uint32_t)(h->arenas.count - 1), UINT32_MAX, arena.address,
                          "the top of an arena that has memory cannot be read: none of its chunks is known");
        }
        address = arena.next;
        if (address == libc->main_arena)
            return true;
        if (address % AS_ALIGNMENT != 0 || as_is_cycle(&remembered, address, i))
            break;
    }
    drop_repeated(h, first);
    h->incomplete = true;
    as_fault_note(h, UINT32_MAX, UINT32_MAX, address, "the list of arenas is not circular");
    return true;
}

bool as_arenas_locked(struct as_target *t, const struct as_malloc *m)
{
    AS_FOR_EACH(const struct as_libc, libc, &m->libcs) {
        uint64_t address = libc->main_arena;
        uint64_t remembered = 0;
        const struct as_state_layout *at = &libc->layout.state;
        for (size_t n = 1; n <= MAX_ARENAS; n++) {
            uint8_t bytes[MAX_STATE_SIZE]; // read whole: one call for each arena, and threads stand still meanwhile
            // What cannot be read is as_arenas_read's to report.
            if (at->size <= 0 || (size_t)at->size > sizeof bytes ||
                !as_target_read(t, address, bytes, (size_t)at->size))
                break;
            if (field(bytes, at->mutex, 4) != 0)
                return true;
            address = field(bytes, at->next, 8);
            if (address == libc->main_arena || as_is_cycle(&remembered, address, n))
                break;
        }
    }
    return false;
}
