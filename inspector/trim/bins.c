// SPDX-License-Identifier: MIT
// Through an arena's bins, from free chunk to free chunk, as malloc_trim itself goes: what is in a bin is free as long as the
// lock is held, and nothing else needs to be inspected.
//
// The difficulty is to continue where the slice before ended: while the lock was released, other threads took, merged and
// added chunks, so that no address is certain to be a chunk's. The head of the bin is certain. So a slice begins at the head's
// far end, and when its time is up in the middle of a list it rotates the list: the chunks that it has inspected move to the
// near end, where malloc adds too, and the next slice finds the others at the far end. Six links are written, all between
// chunks that were inspected under this very lock; no chunk changes its state, size or bin, so there is nothing to be undone,
// by us or by a child of fork(). The order does not matter to malloc: the unsorted bin is in no order, and of chunks of one
// size in a large bin only the first matters (it has the links to the other sizes), which stays where it is.
//
// The lists of a large bin: chunks are sorted by size, largest first; the first of each size is also in a circular list of
// sizes (fd_nextsize towards smaller sizes). Small bins hold no chunk with a whole page in it, on any page size.
#include "malloc/trim_rules.h"
#include "trim/chunk.h"
#include "trim/pages.h"
#include "trim/pass.h"

enum { FIRST_LARGE = 64 }; // NSMALLBINS

// True when `chunk`, which resembles a free chunk (as_is_free_chunk), is free by its successor's PREV_INUSE, too.
static bool is_free(uint64_t chunk)
{
    uint64_t next = chunk + as_chunksize_at(chunk);
    return as_word(next) == as_chunksize_at(chunk) && !(as_word(next + AS_OFFSET_SIZE) & AS_PREV_INUSE);
}

// Releases the whole pages of a free chunk.
static enum as_trim_progress release_chunk(struct as_trim_pass *p, uint64_t chunk)
{
    uint64_t end = chunk + as_chunksize_at(chunk);
    if (end - chunk < AS_MALLOC_CHUNK_BYTES + p->page_size)
        return AS_TRIM_DONE;
    if (!is_free(chunk))
        return as_trim_corrupt(p, "a chunk in a bin is not free according to the next chunk");
    return as_trim_pages_release(p, as_mtrim_start(chunk), end, AS_TRIM_RELEASABLE);
}

// A run of chunks, gone through from its far end to its near end; the bounds do not belong to it.
struct run {
    uint64_t near; // the bin's head, or the first chunk of a size: stays where it is
    uint64_t far;  // the bin's head, or the first chunk of the next smaller size
    uint64_t size; // of every chunk in it; 0: any
};

// Moves what lies between `from` and the far end (it, too) to the near end. `before` is the chunk on the near side of `from`.
static enum as_trim_progress rotate_run(struct as_trim_pass *p, const struct run *run, uint64_t before, uint64_t from)
{
    uint64_t near = run->near;
    uint64_t far = run->far;
    uint64_t first = as_word(near + AS_OFFSET_FD);
    uint64_t last = as_word(far + AS_OFFSET_BK);
    // All six links as they must be, both ways, before one is written. `first` alone has not been inspected in this slice.
    if (!as_is_free_chunk(p, first) || !as_is_free_chunk(p, before) || before == near ||
        as_word(first + AS_OFFSET_BK) != near || as_word(before + AS_OFFSET_FD) != from ||
        as_word(from + AS_OFFSET_BK) != before || as_word(last + AS_OFFSET_FD) != far)
        return as_trim_corrupt(p, "a bin's list is not linked both ways");
    if (run->size != 0 && (as_chunksize_at(first) != run->size || as_chunksize_at(before) != run->size))
        return as_trim_corrupt(p, "a large bin is not sorted");
    as_set_word(near + AS_OFFSET_FD, from);
    as_set_word(from + AS_OFFSET_BK, near);
    as_set_word(last + AS_OFFSET_FD, first);
    as_set_word(first + AS_OFFSET_BK, last);
    as_set_word(before + AS_OFFSET_FD, far);
    as_set_word(far + AS_OFFSET_BK, before);
    return AS_TRIM_TIME_UP;
}

static enum as_trim_progress trim_run(struct as_trim_pass *p, const struct run *run)
{
    struct as_trim_cursor *cursor = &p->cursor;
    uint64_t passed = run->far;
    for (uint64_t chunk = as_word(run->far + AS_OFFSET_BK); chunk != run->near;) {
        if (!as_is_free_chunk(p, chunk) || as_word(chunk + AS_OFFSET_FD) != passed)
            return as_trim_corrupt(p, "a bin's list leads to something other than a free chunk");
        uint64_t size = as_chunksize_at(chunk);
        if (run->size != 0 && size != run->size)
            return as_trim_corrupt(p, "a large bin is not sorted");
        // Once round, or as many bytes in chunks as the arena has: all chunks of the beginning have been inspected.
        if (chunk == cursor->marker || cursor->seen > p->system_mem)
            break;
        uint64_t next = as_word(chunk + AS_OFFSET_BK);
        __builtin_prefetch((const void *)(uintptr_t)next);
        enum as_trim_progress progress = release_chunk(p, chunk);
        if (progress == AS_TRIM_CORRUPT)
            return progress;
        if (progress == AS_TRIM_DONE) {
            cursor->marker = cursor->marker ? cursor->marker : chunk;
            cursor->seen += size;
            passed = chunk;
            chunk = next;
        }
        if ((progress == AS_TRIM_TIME_UP || as_trim_time_up(p, false)) && chunk != run->near)
            return passed == run->far ? AS_TRIM_TIME_UP : rotate_run(p, run, chunk, passed);
    }
    cursor->marker = 0;
    cursor->seen = 0;
    return AS_TRIM_DONE;
}

// The first chunk of the smallest size in a large bin whose first chunk of all is `largest`, or 0.
static uint64_t smallest_of(struct as_trim_pass *p, uint64_t largest)
{
    uint64_t smallest = as_word(largest + AS_OFFSET_BK_NEXTSIZE);
    return as_is_free_chunk(p, smallest) && as_word(smallest + AS_OFFSET_FD_NEXTSIZE) == largest ? smallest : 0;
}

// Starts with a size, unless the slice before ended in it.
static void start_size(struct as_trim_cursor *cursor, uint64_t size)
{
    if (size != cursor->size)
        *cursor = (struct as_trim_cursor){.bin = cursor->bin, .size = size};
}

static enum as_trim_progress trim_large(struct as_trim_pass *p, uint64_t head)
{
    uint64_t largest = as_word(head + AS_OFFSET_FD);
    if (largest == head)
        return AS_TRIM_DONE;
    if (!as_is_free_chunk(p, largest) || as_word(largest + AS_OFFSET_BK) != head)
        return as_trim_corrupt(p, "a large bin begins with something other than a free chunk");
    if (as_chunksize_at(largest) < AS_MALLOC_CHUNK_BYTES + p->page_size)
        return AS_TRIM_DONE;
    uint64_t far = head;
    uint64_t first = smallest_of(p, largest);
    if (first == 0)
        return as_trim_corrupt(p, "a large bin's sizes are not linked both ways");
    for (;;) {
        uint64_t size = as_chunksize_at(first);
        if (size >= p->cursor.size && size >= AS_MALLOC_CHUNK_BYTES + p->page_size) {
            start_size(&p->cursor, size);
            const struct run run = {.near = first, .far = far, .size = size};
            enum as_trim_progress progress = release_chunk(p, first);
            if (progress == AS_TRIM_DONE)
                progress = trim_run(p, &run);
            if (progress != AS_TRIM_DONE)
                return progress;
            start_size(&p->cursor, size + AS_ALIGNMENT);
            if (first != largest && as_trim_time_up(p, false))
                return AS_TRIM_TIME_UP;
        }
        if (first == largest)
            return AS_TRIM_DONE;
        uint64_t larger = as_word(first + AS_OFFSET_BK_NEXTSIZE);
        if (!as_is_free_chunk(p, larger) || as_word(larger + AS_OFFSET_FD_NEXTSIZE) != first ||
            as_chunksize_at(larger) <= size)
            return as_trim_corrupt(p, "a large bin's sizes are not linked both ways");
        far = first;
        first = larger;
    }
}

enum as_trim_progress as_trim_bins(struct as_trim_pass *p)
{
    struct as_trim_cursor *cursor = &p->cursor;
    if (cursor->bin < AS_UNSORTED_BIN)
        cursor->bin = AS_UNSORTED_BIN;
    while (cursor->bin <= AS_LAST_BIN && p->top_size != 0) {
        uint64_t head = as_bin_at(p, cursor->bin);
        const struct run unsorted = {.near = head, .far = head};
        enum as_trim_progress progress = cursor->bin == AS_UNSORTED_BIN ? trim_run(p, &unsorted) : trim_large(p, head);
        if (progress != AS_TRIM_DONE)
            return progress;
        *cursor = (struct as_trim_cursor){.bin = cursor->bin == AS_UNSORTED_BIN ? FIRST_LARGE : cursor->bin + 1};
        if (as_trim_time_up(p, false))
            return AS_TRIM_TIME_UP;
    }
    return AS_TRIM_DONE;
}
