// SPDX-License-Identifier: MIT
// The order is: inspect everything, then write. Once the first word is written nothing can fail any more, so that no arena is
// ever left half merged; and a heap in which anything is not as it must be is not written to at all.
#include "trim/chunk.h"

// True when a link of a free chunk leads to another one, or to the head of a bin.
static bool is_link(struct as_trim_pass *p, uint64_t address)
{
    return as_is_bin(p, address) || as_is_free_chunk(p, address);
}

// Can this free chunk be taken out of its list? (unlink_chunk)
static bool is_linked(struct as_trim_pass *p, uint64_t chunk)
{
    uint64_t size = as_chunksize_at(chunk);
    uint64_t forward = as_word(chunk + AS_OFFSET_FD);
    uint64_t back = as_word(chunk + AS_OFFSET_BK);
    if (as_word(chunk + size) != size || (as_word(chunk + size + AS_OFFSET_SIZE) & AS_PREV_INUSE) ||
        !is_link(p, forward) || !is_link(p, back) || as_word(forward + AS_OFFSET_BK) != chunk ||
        as_word(back + AS_OFFSET_FD) != chunk)
        return false;
    uint64_t smaller = size < AS_LEAST_LARGE ? 0 : as_word(chunk + AS_OFFSET_FD_NEXTSIZE);
    if (smaller == 0)
        return true;
    uint64_t larger = as_word(chunk + AS_OFFSET_BK_NEXTSIZE);
    if (!as_is_free_chunk(p, smaller) || !as_is_free_chunk(p, larger) ||
        as_word(smaller + AS_OFFSET_BK_NEXTSIZE) != chunk || as_word(larger + AS_OFFSET_FD_NEXTSIZE) != chunk)
        return false;
    // The next of the same size becomes the first; or there is none, and then it is the first of a smaller size, or the head.
    return as_is_bin(p, forward) || as_word(forward + AS_OFFSET_FD_NEXTSIZE) != 0 || as_chunksize_at(forward) == size;
}

static void link_sizes(uint64_t larger, uint64_t smaller)
{
    as_set_word(larger + AS_OFFSET_FD_NEXTSIZE, smaller);
    as_set_word(smaller + AS_OFFSET_BK_NEXTSIZE, larger);
}

static void unlink_chunk(struct as_trim_pass *p, uint64_t chunk)
{
    uint64_t forward = as_word(chunk + AS_OFFSET_FD);
    uint64_t back = as_word(chunk + AS_OFFSET_BK);
    as_set_word(forward + AS_OFFSET_BK, back);
    as_set_word(back + AS_OFFSET_FD, forward);
    uint64_t smaller = as_chunksize_at(chunk) < AS_LEAST_LARGE ? 0 : as_word(chunk + AS_OFFSET_FD_NEXTSIZE);
    if (smaller == 0)
        return; // in no ring of sizes: not the first of its size, or not sorted yet
    uint64_t larger = as_word(chunk + AS_OFFSET_BK_NEXTSIZE);
    bool heir = !as_is_bin(p, forward) && as_word(forward + AS_OFFSET_FD_NEXTSIZE) == 0;
    if (!heir) {
        link_sizes(larger, smaller);
    } else if (smaller == chunk) { // the only size in the bin
        link_sizes(forward, forward);
    } else {
        link_sizes(larger, forward);
        link_sizes(forward, smaller);
    }
}

enum as_trim_progress as_trim_merge_prepare(struct as_trim_pass *p, uint64_t chunk, uint64_t size,
                                            struct as_trim_merge *out)
{
    *out = (struct as_trim_merge){.chunk = chunk, .size = size, .into_top = chunk + size == p->top};
    uint64_t next = chunk + size;
    if (!(as_word(next + AS_OFFSET_SIZE) & AS_PREV_INUSE))
        return as_trim_corrupt(p, "a chunk of a fastbin is free according to the next chunk");
    if (!(as_word(chunk + AS_OFFSET_SIZE) & AS_PREV_INUSE)) {
        uint64_t before = chunk - as_word(chunk);
        if (!as_is_free_chunk(p, before) || as_chunksize_at(before) != as_word(chunk) || !is_linked(p, before))
            return as_trim_corrupt(p, "the free chunk before a fastbin chunk is in no list");
        out->before = before;
    }
    if (!out->into_top) {
        // In use, free, or a fencepost, which is shorter than a chunk.
        uint64_t length = as_chunksize_at(next);
        if (length < AS_HEADER || length % AS_ALIGNMENT != 0 || length >= p->system_mem ||
            !as_trim_owns(p, next, length) || !as_trim_owns(p, next, length + AS_HEADER))
            return as_trim_corrupt(p, "a fastbin chunk is followed by something other than a chunk");
        if (!(as_word(next + length + AS_OFFSET_SIZE) & AS_PREV_INUSE)) {
            if (!as_is_free_chunk(p, next) || !is_linked(p, next))
                return as_trim_corrupt(p, "the free chunk after a fastbin chunk is in no list");
            out->behind = next;
        }
    }
    uint64_t head = as_bin_at(p, AS_UNSORTED_BIN);
    uint64_t first = as_word(head + AS_OFFSET_FD);
    if ((first != head && !as_is_free_chunk(p, first)) || as_word(first + AS_OFFSET_BK) != head)
        return as_trim_corrupt(p, "the unsorted bin is not linked both ways");
    return AS_TRIM_DONE;
}

void as_trim_merge_do(struct as_trim_pass *p, const struct as_trim_merge *m)
{
    uint64_t start = m->chunk;
    uint64_t end = m->chunk + m->size;
    if (m->before) {
        unlink_chunk(p, m->before);
        start = m->before;
    }
    if (m->into_top) {
        p->top_size += end - start;
        p->top = start;
        as_set_word(start + AS_OFFSET_SIZE, p->top_size | AS_PREV_INUSE);
        as_set_word(p->arena + (uint64_t)p->libc->layout.state.top, start);
        return;
    }
    if (m->behind) {
        unlink_chunk(p, m->behind);
        end += as_chunksize_at(m->behind);
    } else {
        as_set_word(end + AS_OFFSET_SIZE, as_word(end + AS_OFFSET_SIZE) & ~(uint64_t)AS_PREV_INUSE);
    }
    // Where free() puts it; before 2.41 small ones, too.
    uint64_t head = as_bin_at(p, AS_UNSORTED_BIN);
    uint64_t first = as_word(head + AS_OFFSET_FD);
    as_set_word(start + AS_OFFSET_SIZE, (end - start) | AS_PREV_INUSE);
    as_set_word(end, end - start);
    as_set_word(start + AS_OFFSET_FD, first);
    as_set_word(start + AS_OFFSET_BK, head);
    if (end - start >= AS_LEAST_LARGE) {
        as_set_word(start + AS_OFFSET_FD_NEXTSIZE, 0);
        as_set_word(start + AS_OFFSET_BK_NEXTSIZE, 0);
    }
    as_set_word(head + AS_OFFSET_FD, start);
    as_set_word(first + AS_OFFSET_BK, start);
}
