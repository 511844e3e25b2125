// SPDX-License-Identifier: MIT
// The structural proof: nothing that a source says is used before the target's own memory has borne it out. A wrong
// address or layout breaks nearly everything that is checked here; a corrupt heap breaks a little. So lists are proven
// by a majority, and what an application's overflow can reach (sizes, links of free chunks) is never decisive alone.
#include "libc/memory_evidence.h"

#include <stdarg.h>
#include <stdio.h>

#define HEAP_MAX_SIZE ((uint64_t)64 << 20) // of arena.c, 64-bit

enum { ATTEMPTS = 4, MAX_ATTACHED = 1 << 22, FLAGS_KNOWN = 0xf };

static bool __attribute__((format(printf, 3, 4))) say(char *why, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (size)
        vsnprintf(why, size, format, args);
    va_end(args);
    return false;
}

bool as_is_heap_memory(struct as_target *t, uint64_t address)
{
    const struct as_mapping *m = as_target_mapping_at(t, address);
    if (m)
        return (m->prot & AS_PROT_WRITE) && m->kind != AS_MAP_SPECIAL;
    // A running process may have mapped it since its mappings were read.
    uint64_t word;
    return t->kind != AS_TARGET_CORE && !t->stop.active && as_target_read_u64(t, address, &word);
}

bool as_state_read(struct as_target *t, uint64_t address, const struct as_state_layout *layout,
                   struct as_state_copy *copy)
{
    copy->address = address;
    return layout->size > 0 && layout->size <= AS_STATE_BYTES &&
           as_target_read(t, address, copy->bytes, (size_t)layout->size);
}

// The address of bin number i (from 1), as a chunk: its fd and bk are the two words of bins[].
static uint64_t bin_address(const struct as_state_copy *copy, const struct as_state_layout *layout, unsigned i)
{
    return copy->address + (uint64_t)layout->bins + (i - 1) * 16 - 16;
}

bool as_state_is_initial(const struct as_state_copy *copy, const struct as_state_layout *layout)
{
    uint64_t top = as_state_u64(copy, layout->top);
    return top == 0 || top == bin_address(copy, layout, 1);
}

unsigned as_state_linked_bins(struct as_target *t, const struct as_state_copy *copy,
                              const struct as_state_layout *layout)
{
    // Each bin that is not empty has two places: the first chunk's bk, and the last one's fd, 24 and 16 bytes into a chunk.
    uint64_t places[2 * AS_BIN_COUNT];
    uint64_t wanted[AS_BIN_COUNT];
    size_t count = 0;
    unsigned linked = 0;
    for (unsigned i = 1; i <= AS_BIN_COUNT; i++) {
        uint64_t bin = bin_address(copy, layout, i);
        uint64_t first = as_state_u64(copy, layout->bins + (int32_t)(i - 1) * 16);
        uint64_t last = as_state_u64(copy, layout->bins + (int32_t)(i - 1) * 16 + 8);
        if (first == bin && last == bin) {
            linked++;
        } else if (first % 16 == 0 && last % 16 == 0 && first != bin && last != bin) {
            wanted[count] = bin;
            places[2 * count] = first + 24;
            places[2 * count++ + 1] = last + 16;
        }
    }
    uint64_t links[2 * AS_BIN_COUNT];
    bool ok[2 * AS_BIN_COUNT];
    as_target_gather(t, places, 2 * count, sizeof *links, links, sizeof *links, ok);
    for (size_t i = 0; i < count; i++)
        linked += ok[2 * i] && ok[2 * i + 1] && links[2 * i] == wanted[i] && links[2 * i + 1] == wanted[i];
    return linked;
}

uint64_t as_ring_length(struct as_target *t, uint64_t main_arena, int32_t next)
{
    uint64_t arena = main_arena;
    for (uint64_t count = 1; count <= AS_MAX_ARENAS; count++) {
        if (!as_target_read_u64(t, arena + (uint64_t)next, &arena) || arena % 8 || arena == 0)
            return 0;
        if (arena == main_arena)
            return count;
    }
    return 0;
}

// Never used: the arena is as the linker and ptmalloc_init leave it. That malloc handed out nothing does not follow: with a low
// mmap_threshold all of it was mmapped, and so many threads may have been told to use this arena.
static bool prove_initial(struct as_target *t, const struct as_libc *libc, const struct as_state_copy *copy, char *why,
                          size_t why_size)
{
    const struct as_state_layout *state = &libc->layout.state;
    uint64_t first = as_state_u64(copy, state->bins);
    if (as_state_u64(copy, state->next) != copy->address)
        return say(why, why_size, "malloc has not started, but main_arena.next is not main_arena");
    if (as_state_u64(copy, state->system_mem) != 0 || as_state_u64(copy, state->max_system_mem) != 0)
        return say(why, why_size, "malloc has not started, but main_arena has system memory");
    if (state->attached_threads != AS_NONE && as_state_u64(copy, state->attached_threads) > MAX_ATTACHED)
        return say(why, why_size, "main_arena has an impossible number of attached threads, and no memory");
    if (first != 0 && as_state_linked_bins(t, copy, state) != AS_BIN_COUNT)
        return say(why, why_size, "malloc has not started, but main_arena's bins are not empty");
    return true;
}

// Whether the heap in which `top` lies says that it is this arena's. With huge pages 2.35 to 2.41 make heaps larger.
static bool heap_is_of(struct as_target *t, const struct as_libc *libc, uint64_t top, uint64_t arena)
{
    uint64_t owner;
    uint64_t huge;
    if (as_target_read_u64(t, top & ~(HEAP_MAX_SIZE - 1), &owner) && owner == arena)
        return true;
    if (libc->mp == AS_UNKNOWN || libc->layout.par.hp_pagesize == AS_NONE ||
        !as_target_read_u64(t, libc->mp + (uint64_t)libc->layout.par.hp_pagesize, &huge) || huge == 0 ||
        (huge & (huge - 1)) || huge > (uint64_t)1 << 40)
        return false;
    return as_target_read_u64(t, top & ~(huge * 4 - 1), &owner) && owner == arena;
}

static bool prove_arena(struct as_target *t, const struct as_libc *libc, const struct as_state_copy *copy, char *why,
                        size_t why_size)
{
    const struct as_state_layout *state = &libc->layout.state;
    unsigned long long address = copy->address;
    uint64_t top = as_state_u64(copy, state->top);
    uint64_t system_mem = as_state_u64(copy, state->system_mem);
    if (as_load_u32(copy->bytes + state->mutex) > 2)
        return say(why, why_size, "the mutex of the arena at 0x%llx has an impossible value", address);
    if (as_load_u32(copy->bytes + state->flags) & ~(uint32_t)FLAGS_KNOWN)
        return say(why, why_size, "the arena at 0x%llx has flags that malloc does not use", address);
    if (state->attached_threads != AS_NONE && as_state_u64(copy, state->attached_threads) > MAX_ATTACHED)
        return say(why, why_size, "the arena at 0x%llx has an impossible number of attached threads", address);
    if (system_mem > as_state_u64(copy, state->max_system_mem))
        return say(why, why_size, "the arena at 0x%llx has more system_mem than its maximum", address);
    if (top % 16 || !as_is_heap_memory(t, top))
        return say(why, why_size, "the top of the arena at 0x%llx, 0x%llx, is not in writable memory", address,
                   (unsigned long long)top);
    unsigned linked = as_state_linked_bins(t, copy, state);
    if (linked * 2 <= AS_BIN_COUNT)
        return say(why, why_size, "only %u of the %d bins of the arena at 0x%llx are doubly linked", linked,
                   AS_BIN_COUNT, address);
    return true;
}

// mp_ as far as it can be checked against anything: the main arena's memory begins at sbrk_base.
static bool prove_par(struct as_target *t, const struct as_libc *libc, bool started, char *why, size_t why_size)
{
    uint8_t bytes[256];
    const struct as_par_layout *par = &libc->layout.par;
    if (par->size <= 0 || (size_t)par->size > sizeof bytes || !as_target_read(t, libc->mp, bytes, (size_t)par->size))
        return say(why, why_size, "mp_ cannot be read");
    uint32_t count = as_load_u32(bytes + par->n_mmaps);
    uint64_t mapped = as_load_u64(bytes + par->mmapped_mem);
    uint64_t base = as_load_u64(bytes + par->sbrk_base);
    // From 2.43 mmapped_mem grows by 16 bytes too much with every realloc of an mmapped chunk, so it need not return to 0.
    bool drifts = libc->layout.heap.mmap_extra != 0;
    if (count > INT32_MAX || (count == 0 && mapped != 0 && !drifts) || mapped / t->page_size < count)
        return say(why, why_size, "mp_ counts %u mmapped chunks with %llu bytes in total, which is impossible", count,
                   (unsigned long long)mapped);
    if (started && (base == 0 || !as_is_heap_memory(t, base)))
        return say(why, why_size, "mp_.sbrk_base, 0x%llx, is not in writable memory", (unsigned long long)base);
    if (!started && base != 0)
        return say(why, why_size, "malloc has not started, but mp_.sbrk_base is set");
    return true;
}

static bool prove_once(struct as_target *t, const struct as_libc *libc, char *why, size_t why_size)
{
    const struct as_state_layout *state = &libc->layout.state;
    struct as_state_copy copy;
    if (!as_is_heap_memory(t, libc->main_arena) || !as_state_read(t, libc->main_arena, state, &copy))
        return say(why, why_size, "main_arena is not in writable memory that can be read");
    uint64_t arenas = as_ring_length(t, libc->main_arena, state->next);
    if (arenas == 0)
        return say(why, why_size, "the ring of arenas does not return to main_arena");
    bool started = arenas > 1 || !as_state_is_initial(&copy, state);
    if (!started) {
        return prove_initial(t, libc, &copy, why, why_size) &&
               (libc->mp == AS_UNKNOWN || prove_par(t, libc, false, why, why_size));
    }
    // In a dlmopen'ed libc a thread may have an arena of its own before main_arena is ever used.
    bool main_started = !as_state_is_initial(&copy, state);
    if (main_started && !prove_arena(t, libc, &copy, why, why_size))
        return false;
    uint64_t owned = 0;
    for (uint64_t i = 1; i < arenas; i++) {
        uint64_t address = as_state_u64(&copy, state->next);
        if (address % 16 || !as_is_heap_memory(t, address) || !as_state_read(t, address, state, &copy))
            return say(why, why_size, "the arena at 0x%llx is not in writable memory that can be read",
                       (unsigned long long)address);
        if (!prove_arena(t, libc, &copy, why, why_size))
            return false;
        owned += heap_is_of(t, libc, as_state_u64(&copy, state->top), address);
    }
    if (owned * 2 < arenas - 1)
        return say(why, why_size, "only %llu of the %llu thread arenas own the heap of their top",
                   (unsigned long long)owned, (unsigned long long)(arenas - 1));
    return libc->mp == AS_UNKNOWN || prove_par(t, libc, main_started, why, why_size);
}

bool as_libc_prove(struct as_target *t, const struct as_libc *libc, char *why, size_t why_size)
{
    if (why_size)
        why[0] = '\0';
    // A process that runs while it is inspected may be caught between two writes.
    int attempts = t->kind == AS_TARGET_CORE || t->stop.active ? 1 : ATTEMPTS;
    for (int i = 0; i < attempts; i++) {
        if (prove_once(t, libc, why, why_size))
            return true;
    }
    return false;
}
