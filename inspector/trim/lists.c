// SPDX-License-Identifier: MIT
// Through an arena's bins, from free chunk to free chunk, as malloc_trim itself goes: what is in a bin is free as long as the
// lock is held, and nothing else needs to be looked at.
//
// The difficulty is to find one's place again after the lock was open, for chunks are taken, merged and added meanwhile and
// no address is still a chunk's for certain. What is certain is the bin's head. So a slice begins at the head's far end, and
// when its time is up in the middle of a list it turns that list round: what it has looked at goes to the near end, where
// malloc adds too, and what is still to do is found at the far end next time. Six links are written, all between chunks that
// were looked at under this very lock; no chunk changes its state, size or bin, so there is nothing to be undone, by us or by
// a child of fork(). malloc does not care for the order: the unsorted bin is in no order, and of chunks of one size in a large
// bin only the first matters (it has the links to the other sizes), which stays where it is.
//
// With the lists of a large bin: chunks are sorted by size, largest first; the first of each size is linked in a ring of its
// own (fd_nextsize towards smaller sizes). Small bins hold no chunk with a whole page in it, on any page size.
#include "trim/chunk.h"

enum { FIRST_LARGE = 64 }; // NSMALLBINS

// True when `chunk`, which looks like one (as_is_free_chunk), is free by what its successor says, too.
static bool is_free(uint64_t chunk)
{
    uint64_t next = chunk + as_size_of(chunk);
    return as_word(next) == as_size_of(chunk) && !(as_word(next + AS_SIZE) & AS_PREV_INUSE);
}

// Gives back what is whole of a free chunk.
static enum as_progress release_chunk(struct as_pass *p, uint64_t chunk)
{
    uint64_t end = chunk + as_size_of(chunk);
    if (end - chunk < AS_SPARED + p->page_size)
        return AS_ALL_DONE;
    if (!is_free(chunk))
        return as_nonsense(p, "a chunk in a bin is not free according to the next chunk");
    return as_pages_release(p, chunk + AS_SPARED, end, AS_PAGE_FREE);
}

// One run of chunks to go through, from its far end to its near end; the bounds do not belong to it.
struct run {
    uint64_t near; // the bin's head, or the first chunk of a size: stays where it is
    uint64_t far;  // the bin's head, or the first chunk of the next smaller size
    uint64_t size; // of every chunk in it; 0: any
};

// Moves what lies between `from` and the far end (it, too) to the near end. `before` is the chunk on the near side of `from`.
static enum as_progress turn_round(struct as_pass *p, const struct run *run, uint64_t before, uint64_t from)
{
    uint64_t near = run->near;
    uint64_t far = run->far;
    uint64_t first = as_word(near + AS_FD);
    uint64_t last = as_word(far + AS_BK);
    // All six links as they must be, both ways, before one is written. `first` alone has not been looked at in this slice.
    if (!as_is_free_chunk(p, first) || !as_is_free_chunk(p, before) || before == near ||
        as_word(first + AS_BK) != near || as_word(before + AS_FD) != from || as_word(from + AS_BK) != before ||
        as_word(last + AS_FD) != far)
        return as_nonsense(p, "a bin's list is not linked both ways");
    if (run->size != 0 && (as_size_of(first) != run->size || as_size_of(before) != run->size))
        return as_nonsense(p, "a large bin is not sorted");
    as_set_word(near + AS_FD, from);
    as_set_word(from + AS_BK, near);
    as_set_word(last + AS_FD, first);
    as_set_word(first + AS_BK, last);
    as_set_word(before + AS_FD, far);
    as_set_word(far + AS_BK, before);
    return AS_TIME_UP;
}

static enum as_progress trim_run(struct as_pass *p, const struct run *run)
{
    struct as_place *place = &p->place;
    uint64_t passed = run->far;
    for (uint64_t chunk = as_word(run->far + AS_BK); chunk != run->near;) {
        if (!as_is_free_chunk(p, chunk) || as_word(chunk + AS_FD) != passed)
            return as_nonsense(p, "a bin's list leads to something other than a free chunk");
        uint64_t size = as_size_of(chunk);
        if (run->size != 0 && size != run->size)
            return as_nonsense(p, "a large bin is not sorted");
        // Once round, or as many bytes in chunks as the arena has: all that was there at the beginning has been looked at.
        if (chunk == place->marker || place->seen > p->system_mem)
            break;
        uint64_t next = as_word(chunk + AS_BK);
        __builtin_prefetch((const void *)(uintptr_t)next);
        enum as_progress progress = release_chunk(p, chunk);
        if (progress == AS_NONSENSE)
            return progress;
        if (progress == AS_ALL_DONE) {
            place->marker = place->marker ? place->marker : chunk;
            place->seen += size;
            passed = chunk;
            chunk = next;
        }
        if ((progress == AS_TIME_UP || as_slice_over(p, false)) && chunk != run->near)
            return passed == run->far ? AS_TIME_UP : turn_round(p, run, chunk, passed);
    }
    place->marker = 0;
    place->seen = 0;
    return AS_ALL_DONE;
}

// The first chunk of the smallest size in a large bin whose first chunk of all is `largest`, or 0.
static uint64_t smallest_of(struct as_pass *p, uint64_t largest)
{
    uint64_t smallest = as_word(largest + AS_BK_NEXTSIZE);
    return as_is_free_chunk(p, smallest) && as_word(smallest + AS_FD_NEXTSIZE) == largest ? smallest : 0;
}

// Starts with a size, unless it is the one that the slice before was at.
static void come_to(struct as_place *place, uint64_t size)
{
    if (size != place->size)
        *place = (struct as_place){.bin = place->bin, .size = size};
}

static enum as_progress trim_large(struct as_pass *p, uint64_t head)
{
    uint64_t largest = as_word(head + AS_FD);
    if (largest == head)
        return AS_ALL_DONE;
    if (!as_is_free_chunk(p, largest) || as_word(largest + AS_BK) != head)
        return as_nonsense(p, "a large bin begins with something other than a free chunk");
    if (as_size_of(largest) < AS_SPARED + p->page_size)
        return AS_ALL_DONE;
    uint64_t far = head;
    uint64_t first = smallest_of(p, largest);
    if (first == 0)
        return as_nonsense(p, "a large bin's sizes are not linked both ways");
    for (;;) {
        uint64_t size = as_size_of(first);
        if (size >= p->place.size && size >= AS_SPARED + p->page_size) {
            come_to(&p->place, size);
            const struct run run = {.near = first, .far = far, .size = size};
            enum as_progress progress = release_chunk(p, first);
            if (progress == AS_ALL_DONE)
                progress = trim_run(p, &run);
            if (progress != AS_ALL_DONE)
                return progress;
            come_to(&p->place, size + AS_ALIGNMENT);
            if (first != largest && as_slice_over(p, false))
                return AS_TIME_UP;
        }
        if (first == largest)
            return AS_ALL_DONE;
        uint64_t larger = as_word(first + AS_BK_NEXTSIZE);
        if (!as_is_free_chunk(p, larger) || as_word(larger + AS_FD_NEXTSIZE) != first || as_size_of(larger) <= size)
            return as_nonsense(p, "a large bin's sizes are not linked both ways");
        far = first;
        first = larger;
    }
}

enum as_progress as_lists_trim(struct as_pass *p)
{
    struct as_place *place = &p->place;
    if (place->bin < AS_UNSORTED)
        place->bin = AS_UNSORTED;
    while (place->bin <= AS_LAST_BIN && p->top_size != 0) {
        uint64_t head = as_head_of(p, place->bin);
        const struct run unsorted = {.near = head, .far = head};
        enum as_progress progress = place->bin == AS_UNSORTED ? trim_run(p, &unsorted) : trim_large(p, head);
        if (progress != AS_ALL_DONE)
            return progress;
        *place = (struct as_place){.bin = place->bin == AS_UNSORTED ? FIRST_LARGE : place->bin + 1};
        if (as_slice_over(p, false))
            return AS_TIME_UP;
    }
    return AS_ALL_DONE;
}
