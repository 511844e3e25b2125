// SPDX-License-Identifier: MIT
#include "malloc/chain.h"

enum as_chain_end as_chain_follow(struct as_window *w, uint64_t address, uint64_t limit, bool main_arena,
                                  uint64_t max_chunks, uint64_t *end)
{
    bool previous_free = false;
    uint64_t previous_size = 0;
    as_header_reader *read = max_chunks <= AS_CHAIN_PROBE ? as_header_far : as_header_at;
    *end = address;
    for (uint64_t n = 0; n < max_chunks; n++) {
        *end = address;
        if (address == limit)
            return AS_CHAIN_LIMIT;
        struct as_chunk_header header;
        if (address > limit || limit - address < AS_HEADER || !read(w, address, &header))
            return AS_CHAIN_BROKEN;
        previous_free = n > 0 && !(header.size & AS_PREV_INUSE);
        if (previous_free && header.prev_size != previous_size)
            return AS_CHAIN_BROKEN;
        uint64_t behind = as_fencepost_end(w, address, header.size, limit, main_arena, read);
        if (behind != 0) {
            *end = behind;
            return AS_CHAIN_FENCEPOST;
        }
        if (!as_is_chunk_size(header.size, address, limit, main_arena))
            return AS_CHAIN_BROKEN;
        previous_size = as_chunksize(header.size);
        address += previous_size;
    }
    return AS_CHAIN_LIMIT;
}
