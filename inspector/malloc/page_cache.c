// SPDX-License-Identifier: MIT
#include "base/memory.h"
#include "malloc/tcache.h"

#include <string.h>

enum { PAGE = 4096, SLOTS = 4096 }; // 16 MiB, of which only what is used becomes resident

static const size_t TAG_BYTES = SLOTS * sizeof(uint64_t);
static const size_t PAGE_BYTES = (size_t)SLOTS * PAGE;

bool as_page_cache_open(struct as_page_cache *p, struct as_target *t, struct as_error *err)
{
    *p = (struct as_page_cache){.target = t};
    void *map = as_memory_map(TAG_BYTES + PAGE_BYTES, "a cache of pages", err);
    if (!map)
        return false;
    p->tags = map;
    p->pages = (uint8_t *)map + TAG_BYTES;
    return true;
}

void as_page_cache_close(struct as_page_cache *p)
{
    as_memory_unmap(p->tags, TAG_BYTES + PAGE_BYTES);
    *p = (struct as_page_cache){0};
}

bool as_page_cache_read(struct as_page_cache *p, uint64_t address, void *out, size_t length)
{
    uint64_t page = address & ~(uint64_t)(PAGE - 1);
    if (address + length > page + PAGE || address + length < address)
        return as_target_read(p->target, address, out, length);
    size_t slot = (page / PAGE) % SLOTS;
    uint8_t *bytes = p->pages + slot * PAGE;
    if (p->tags[slot] != page + 1) {
        p->tags[slot] = 0;
        if (!as_target_read(p->target, page, bytes, PAGE))
            return as_target_read(p->target, address, out, length);
        p->tags[slot] = page + 1;
    }
    memcpy(out, bytes + (address - page), length);
    return true;
}
