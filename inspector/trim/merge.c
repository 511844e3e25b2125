// SPDX-License-Identifier: MIT
// The order is: look at everything, then write. Once the first word is written nothing can fail any more, so that no arena is
// ever left half merged; and a heap in which anything is not as it must be is not written to at all.
#include "trim/merge.h"

// True when a link of a free chunk leads to another one, or to the head of a bin.
static bool is_link(struct as_pass *p, uint64_t address)
{
    return as_is_head(p, address) || as_is_free_chunk(p, address);
}

// Can this free chunk be taken out of its list? (unlink_chunk)
static bool is_linked(struct as_pass *p, uint64_t chunk)
{
    uint64_t size = as_size_of(chunk);
    uint64_t forward = as_word(chunk + AS_FD);
    uint64_t back = as_word(chunk + AS_BK);
    if (as_word(chunk + size) != size || (as_word(chunk + size + AS_SIZE) & AS_PREV_INUSE) || !is_link(p, forward) ||
        !is_link(p, back) || as_word(forward + AS_BK) != chunk || as_word(back + AS_FD) != chunk)
        return false;
    uint64_t smaller = size < AS_LEAST_LARGE ? 0 : as_word(chunk + AS_FD_NEXTSIZE);
    if (smaller == 0)
        return true;
    uint64_t larger = as_word(chunk + AS_BK_NEXTSIZE);
    if (!as_is_free_chunk(p, smaller) || !as_is_free_chunk(p, larger) || as_word(smaller + AS_BK_NEXTSIZE) != chunk ||
        as_word(larger + AS_FD_NEXTSIZE) != chunk)
        return false;
    // The next of the same size becomes the first; or there is none, and then it is the first of a smaller size, or the head.
    return as_is_head(p, forward) || as_word(forward + AS_FD_NEXTSIZE) != 0 || as_size_of(forward) == size;
}

static void link_sizes(uint64_t larger, uint64_t smaller)
{
    as_set_word(larger + AS_FD_NEXTSIZE, smaller);
    as_set_word(smaller + AS_BK_NEXTSIZE, larger);
}

static void take_out(struct as_pass *p, uint64_t chunk)
{
    uint64_t forward = as_word(chunk + AS_FD);
    uint64_t back = as_word(chunk + AS_BK);
    as_set_word(forward + AS_BK, back);
    as_set_word(back + AS_FD, forward);
    uint64_t smaller = as_size_of(chunk) < AS_LEAST_LARGE ? 0 : as_word(chunk + AS_FD_NEXTSIZE);
    if (smaller == 0)
        return; // in no ring of sizes: not the first of its size, or not sorted yet
    uint64_t larger = as_word(chunk + AS_BK_NEXTSIZE);
    bool heir = !as_is_head(p, forward) && as_word(forward + AS_FD_NEXTSIZE) == 0;
    if (!heir) {
        link_sizes(larger, smaller);
    } else if (smaller == chunk) { // the only size in the bin
        link_sizes(forward, forward);
    } else {
        link_sizes(larger, forward);
        link_sizes(forward, smaller);
    }
}

enum as_progress as_merge_prepare(struct as_pass *p, uint64_t chunk, uint64_t size, struct as_merge *out)
{
    *out = (struct as_merge){.chunk = chunk, .size = size, .into_top = chunk + size == p->top};
    uint64_t next = chunk + size;
    if (!(as_word(next + AS_SIZE) & AS_PREV_INUSE))
        return as_nonsense(p, "a chunk of a fastbin is free by what the one behind it says");
    if (!(as_word(chunk + AS_SIZE) & AS_PREV_INUSE)) {
        uint64_t before = chunk - as_word(chunk);
        if (!as_is_free_chunk(p, before) || as_size_of(before) != as_word(chunk) || !is_linked(p, before))
            return as_nonsense(p, "what is free before a chunk of a fastbin is in no list");
        out->before = before;
    }
    if (!out->into_top) {
        // In use, free, or a fencepost, which is shorter than a chunk.
        uint64_t length = as_size_of(next);
        if (length < AS_HEADER || length % AS_ALIGNMENT != 0 || length >= p->system_mem ||
            !as_pass_owns(p, next, length) || !as_pass_owns(p, next, length + AS_HEADER))
            return as_nonsense(p, "what is behind a chunk of a fastbin is no chunk");
        if (!(as_word(next + length + AS_SIZE) & AS_PREV_INUSE)) {
            if (!as_is_free_chunk(p, next) || !is_linked(p, next))
                return as_nonsense(p, "what is free behind a chunk of a fastbin is in no list");
            out->behind = next;
        }
    }
    uint64_t head = as_head_of(p, AS_UNSORTED);
    uint64_t first = as_word(head + AS_FD);
    if ((first != head && !as_is_free_chunk(p, first)) || as_word(first + AS_BK) != head)
        return as_nonsense(p, "the unsorted bin is not linked both ways");
    return AS_ALL_DONE;
}

void as_merge_do(struct as_pass *p, const struct as_merge *m)
{
    uint64_t start = m->chunk;
    uint64_t end = m->chunk + m->size;
    if (m->before) {
        take_out(p, m->before);
        start = m->before;
    }
    if (m->into_top) {
        p->top_size += end - start;
        p->top = start;
        as_set_word(start + AS_SIZE, p->top_size | AS_PREV_INUSE);
        as_set_word(p->arena + (uint64_t)p->libc->layout.state.top, start);
        return;
    }
    if (m->behind) {
        take_out(p, m->behind);
        end += as_size_of(m->behind);
    } else {
        as_set_word(end + AS_SIZE, as_word(end + AS_SIZE) & ~(uint64_t)AS_PREV_INUSE);
    }
    // Where free() puts it; before 2.41 small ones, too.
    uint64_t head = as_head_of(p, AS_UNSORTED);
    uint64_t first = as_word(head + AS_FD);
    as_set_word(start + AS_SIZE, (end - start) | AS_PREV_INUSE);
    as_set_word(end, end - start);
    as_set_word(start + AS_FD, first);
    as_set_word(start + AS_BK, head);
    if (end - start >= AS_LEAST_LARGE) {
        as_set_word(start + AS_FD_NEXTSIZE, 0);
        as_set_word(start + AS_BK_NEXTSIZE, 0);
    }
    as_set_word(head + AS_FD, start);
    as_set_word(first + AS_BK, start);
}
