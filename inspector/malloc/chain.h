// SPDX-License-Identifier: MIT
// A chain of chunks: from header to header by their sizes, as far as each can be a chunk's. The walk and the searches for heaps
// go by these rules. Inline, as the walk asks for every chunk.
#pragma once

#include "malloc/chunk.h"
#include "target/target.h"

#include <string.h>

struct as_chunk_header {
    uint64_t prev_size, size;
};

static inline bool as_header_at(struct as_window *w, uint64_t address, struct as_chunk_header *out)
{
    const void *bytes = as_window_at(w, address, sizeof *out);
    if (!bytes)
        return false;
    memcpy(out, bytes, sizeof *out);
    return true;
}

// As as_header_at, but leaves the window where it is: for a snapshot ahead that will most likely come to nothing.
static inline bool as_header_far(struct as_window *w, uint64_t address, struct as_chunk_header *out)
{
    if (address >= w->limit || w->limit - address < sizeof *out)
        return false;
    bool near = address >= w->address && w->length >= sizeof *out && address - w->address <= w->length - sizeof *out;
    return near ? as_header_at(w, address, out) : as_target_read(w->target, address, out, sizeof *out);
}

typedef bool as_header_reader(struct as_window *w, uint64_t address, struct as_chunk_header *out);

// Whether a size field can be that of a chunk at `address` that ends at or before `limit`. In a thread arena the chunks in
// use carry NON_MAIN_ARENA; binned ones and fenceposts do not, so its absence proves nothing there.
static inline bool as_is_chunk_size(uint64_t size_field, uint64_t address, uint64_t limit, bool main_arena)
{
    uint64_t size = as_chunksize(size_field);
    if (size < AS_MIN_CHUNK || size % AS_ALIGNMENT != 0 || size > limit - address)
        return false;
    return !(size_field & AS_IS_MMAPPED) && !(main_arena && (size_field & AS_NON_MAIN_ARENA));
}

// Fenceposts, as sysmalloc sets them when an arena continues in another heap. Main arena: two headers of 0x10 (CHUNK_HDR_SZ),
// in use, or three. Thread arena: a header of 0x10, or an in-use header of up to 0x20 without NON_MAIN_ARENA, then a size of
// 0. Returns the address just behind, or 0.
static inline uint64_t as_fencepost_end(struct as_window *w, uint64_t address, uint64_t size_field, uint64_t limit,
                                        bool main_arena, as_header_reader *read)
{
    uint64_t size = as_chunksize(size_field);
    struct as_chunk_header next;
    if (size == 0 || size > 2 * AS_HEADER || (size_field & (AS_IS_MMAPPED | AS_NON_MAIN_ARENA)) ||
        limit - address < size + AS_HEADER || !read(w, address + size, &next))
        return 0;
    if (main_arena) {
        if (size != AS_HEADER || next.size != (AS_HEADER | AS_PREV_INUSE))
            return 0;
        // A top of which only 16 bytes were left before the fenceposts is a header like theirs. Where malloc's memory ended a
        // page did, which tells that from what somebody else has put behind it.
        uint64_t behind = address + 2 * AS_HEADER;
        uint64_t page = w->target->page_size;
        bool third = behind % page == page - AS_HEADER && limit - behind >= AS_HEADER && read(w, behind, &next) &&
                     next.size == (AS_HEADER | AS_PREV_INUSE);
        return third ? behind + AS_HEADER : behind;
    }
    return (as_chunksize(next.size)) == 0 ? address + size + AS_HEADER : 0;
}

// How a chain of chunks ends that begins at `address`.
enum as_chain_end { AS_CHAIN_BROKEN, AS_CHAIN_LIMIT, AS_CHAIN_FENCEPOST };
// Follows the sizes from `address` up to `limit`, at most `max_chunks` of them (then AS_CHAIN_LIMIT). *end: where it ended;
// for a fencepost: just behind both of them. A probe of up to AS_CHAIN_PROBE chunks leaves the window where it is.
enum { AS_CHAIN_PROBE = 32 };
enum as_chain_end as_chain_follow(struct as_window *w, uint64_t address, uint64_t limit, bool main_arena,
                                  uint64_t max_chunks, uint64_t *end);
