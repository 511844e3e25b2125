// SPDX-License-Identifier: MIT
// The fastbins (to 2.42): what malloc_trim merges into the other bins before it searches for whole
// pages. A chunk at a time, so that the lock can be released after any of them: it is popped as malloc pops it, and merged as
// malloc_consolidate does.
//
// free() pushes onto these lists without the lock; popping takes the lock. So while we have it a list's members stay, but for
// new ones before the first: comparing and exchanging the list's head is enough, and no head can come back meanwhile.
#include "base/cycle.h"
#include "base/sort.h"
#include "trim/chunk.h"
#include "trim/pages.h"

// The list's head within malloc_state.
static uint64_t *list_of(const struct as_trim_pass *p, int bin)
{
    return (uint64_t *)(uintptr_t)(p->arena + (uint64_t)p->libc->layout.state.fastbins + 8 * (uint64_t)bin);
}

// True when `chunk` can be a member of this list: in use by its flags, with the one size that the list has.
static bool is_member(struct as_trim_pass *p, uint64_t chunk, int bin)
{
    uint64_t size = AS_MIN_CHUNK + AS_ALIGNMENT * (uint64_t)bin;
    return chunk % AS_ALIGNMENT == 0 && as_trim_owns(p, chunk, size + AS_HEADER) &&
           (as_word(chunk + AS_OFFSET_SIZE) & ~(uint64_t)AS_PREV_INUSE) == (size | (p->main ? 0 : AS_NON_MAIN_ARENA));
}

static uint64_t next_of(const struct as_trim_pass *p, uint64_t chunk)
{
    return as_reveal_ptr(p->libc->layout.heap.safe_linking, chunk + AS_OFFSET_FD, as_word(chunk + AS_OFFSET_FD));
}

static enum as_trim_progress merge_one(struct as_trim_pass *p, int bin, uint64_t chunk)
{
    struct as_trim_merge merge;
    uint64_t size = AS_MIN_CHUNK + AS_ALIGNMENT * (uint64_t)bin;
    if (!is_member(p, chunk, bin))
        return as_trim_corrupt(p, "a fastbin's list leads to something other than its chunks");
    uint64_t next = next_of(p, chunk);
    if (next == chunk || (next != 0 && !is_member(p, next, bin)))
        return as_trim_corrupt(p, "a fastbin's list leads to something other than its chunks");
    if (as_trim_merge_prepare(p, chunk, size, &merge) != AS_TRIM_DONE)
        return AS_TRIM_CORRUPT;
    // Another thread may have pushed one before it: then that is the first now, and has to be inspected.
    if (__atomic_compare_exchange_n(list_of(p, bin), &chunk, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        as_trim_merge_do(p, &merge);
        p->cursor.seen += size;
    }
    return AS_TRIM_DONE;
}

enum as_trim_progress as_trim_fastbins_trim(struct as_trim_pass *p)
{
    struct as_trim_cursor *cursor = &p->cursor;
    for (; cursor->bin < p->libc->layout.state.fastbin_count && p->top_size != 0; cursor->bin++, cursor->seen = 0) {
        // No more than the arena can have had in the beginning, however fast others free.
        while (cursor->seen <= p->system_mem) {
            uint64_t chunk = __atomic_load_n(list_of(p, cursor->bin), __ATOMIC_ACQUIRE);
            if (chunk == 0)
                break;
            if (merge_one(p, cursor->bin, chunk) != AS_TRIM_DONE)
                return AS_TRIM_CORRUPT;
            if (as_trim_time_up(p, false))
                return AS_TRIM_TIME_UP;
        }
    }
    return AS_TRIM_DONE;
}

// For a forecast: lists the members, changing nothing. Where the lock was released in the middle of a list, malloc may have taken
// the chunk of the cursor meanwhile: if that shows, the rest of the list is not counted. A list that was followed from its head
// under one hold has to be flawless: malloc_trim, which may come next, ends the process where it is not.
enum as_trim_progress as_trim_fastbins_list(struct as_trim_pass *p)
{
    struct as_trim_cursor *cursor = &p->cursor;
    struct as_trim_merge merge;
    for (; cursor->bin < p->libc->layout.state.fastbin_count && p->top_size != 0; cursor->bin++) {
        bool certain = cursor->marker == 0;
        uint64_t remembered = 0;
        uint64_t chunk = certain ? __atomic_load_n(list_of(p, cursor->bin), __ATOMIC_ACQUIRE) : cursor->marker;
        cursor->marker = 0;
        for (size_t steps = 1; chunk != 0; steps++) {
            if (p->fast.count == p->fast.capacity || as_trim_time_up(p, false)) {
                cursor->marker = chunk;
                return AS_TRIM_TIME_UP;
            }
            bool member = is_member(p, chunk, cursor->bin);
            if (!member && !certain)
                break;
            if (!member || as_is_cycle(&remembered, chunk, steps) || p->fast.count > p->system_mem / AS_MIN_CHUNK)
                return as_trim_corrupt(p, "a fastbin's list leads to something other than its chunks");
            if (certain && as_trim_merge_prepare(p, chunk, as_chunksize_at(chunk), &merge) != AS_TRIM_DONE)
                return AS_TRIM_CORRUPT;
            p->fast.items[p->fast.count++] = chunk;
            chunk = next_of(p, chunk);
        }
    }
    return AS_TRIM_DONE;
}

// The end of what would be one free chunk, once p->fast.items[*i], which begins or lies in it, is merged with all that follows.
// *i: the last member of a fastbin in it.
static uint64_t run_end(struct as_trim_pass *p, size_t *i)
{
    uint64_t end = p->fast.items[*i] + as_chunksize_at(p->fast.items[*i]);
    while (end != p->top && as_trim_owns(p, end, AS_HEADER)) {
        uint64_t size = as_chunksize_at(end);
        bool fast = *i + 1 < p->fast.count && p->fast.items[*i + 1] == end;
        if (size < AS_MIN_CHUNK || !as_trim_owns(p, end, size) || !as_trim_owns(p, end, size + AS_HEADER))
            break;
        if (!fast && (as_word(end + size + AS_OFFSET_SIZE) & AS_PREV_INUSE))
            break;
        *i += fast;
        end += size;
    }
    return end;
}

enum as_trim_progress as_trim_fastbins_forecast(struct as_trim_pass *p)
{
    for (size_t i = (size_t)p->cursor.seen; i < p->fast.count; p->cursor.seen = ++i) {
        uint64_t start = p->fast.items[i];
        uint64_t size = as_trim_owns(p, start, AS_HEADER) ? as_chunksize_at(start) : 0;
        if (size < AS_MIN_CHUNK || !as_trim_owns(p, start, size + AS_HEADER))
            continue; // gone since it was listed
        size_t last = i;
        uint64_t end = run_end(p, &last);
        uint64_t before = as_word(start + AS_OFFSET_SIZE) & AS_PREV_INUSE ? 0 : as_word(start);
        if (before != 0 && as_is_free_chunk(p, start - before) && as_chunksize_at(start - before) == before)
            start -= before;
        if (end == p->top)
            p->merged_top = start;
        else if (as_trim_pages_release(p, as_mtrim_start(start), end, AS_TRIM_RELEASABLE) != AS_TRIM_DONE)
            return AS_TRIM_TIME_UP;
        i = last;
        if (as_trim_time_up(p, false)) {
            p->cursor.seen = last + 1;
            return AS_TRIM_TIME_UP;
        }
    }
    return AS_TRIM_DONE;
}

bool as_trim_fastbins_sort(struct as_trim_pass *p, struct as_error *err)
{
    return as_sort_u64(p->fast.items, p->fast.count, err);
}
