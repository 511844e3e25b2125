// SPDX-License-Identifier: MIT
#include "malloc/peek.h"

#include <string.h>
#include <sys/mman.h>

static const size_t TAG_BYTES = AS_PEEK_SLOTS * sizeof(uint64_t);
static const size_t PAGE_BYTES = (size_t)AS_PEEK_SLOTS * AS_PEEK_PAGE;

bool as_peek_open(struct as_peek *p, struct as_target *t, struct as_error *err)
{
    *p = (struct as_peek){.target = t};
    void *map =
        mmap(NULL, TAG_BYTES + PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return as_fail(err, AS_NO_MEMORY, "no memory for a cache of %zu bytes", TAG_BYTES + PAGE_BYTES);
    p->tags = map;
    p->pages = (uint8_t *)map + TAG_BYTES;
    return true;
}

void as_peek_close(struct as_peek *p)
{
    if (p->tags)
        munmap(p->tags, TAG_BYTES + PAGE_BYTES);
    *p = (struct as_peek){0};
}

bool as_peek(struct as_peek *p, uint64_t address, void *out, size_t length)
{
    uint64_t page = address & ~(uint64_t)(AS_PEEK_PAGE - 1);
    if (address + length > page + AS_PEEK_PAGE || address + length < address)
        return as_target_read(p->target, address, out, length);
    size_t slot = (page / AS_PEEK_PAGE) % AS_PEEK_SLOTS;
    uint8_t *bytes = p->pages + slot * AS_PEEK_PAGE;
    if (p->tags[slot] != page + 1) {
        p->tags[slot] = 0;
        if (!as_target_read(p->target, page, bytes, AS_PEEK_PAGE))
            return as_target_read(p->target, address, out, length);
        p->tags[slot] = page + 1;
    }
    memcpy(out, bytes + (address - page), length);
    return true;
}
