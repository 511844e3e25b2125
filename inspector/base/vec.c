// SPDX-License-Identifier: MIT
#include "base/vec.h"

#include <string.h>
#include <sys/mman.h>

enum { FIRST_BYTES = 64 * 1024 };

#ifdef AS_AGENT // it leaves no memory behind in a process that is not its own
static size_t as_block_size(size_t bytes)
{
    (void)bytes;
    return 0;
}

static void *as_block_take(size_t size)
{
    (void)size;
    return NULL;
}

static bool as_is_block(const void *memory)
{
    (void)memory;
    return false;
}

static void as_block_return(void *block)
{
    (void)block;
}
#else
#include "base/blocks.h"
#endif

// Anonymous memory made longer, wherever that is then. MAP_FAILED when there is none.
static void *map_longer(void *items, size_t old_bytes, size_t new_bytes)
{
#ifndef __SANITIZE_THREAD__
    // mremap moves page tables, not bytes: growing a large vector copies nothing.
    if (items)
        return mremap(items, old_bytes, new_bytes, MREMAP_MAYMOVE);
#endif
    void *grown = mmap(NULL, new_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // Under ThreadSanitizer, which does not see an mremap: it would hold what it remembers of the old place against the thread
    // that is given that memory next.
    if (items && grown != MAP_FAILED) {
        memcpy(grown, items, old_bytes);
        munmap(items, old_bytes);
    }
    return grown;
}

static void *lengthen(void *items, size_t old_bytes, size_t new_bytes)
{
    if (items && !as_is_block(items))
        return map_longer(items, old_bytes, new_bytes);
    size_t size = as_block_size(new_bytes);
    void *grown = size ? as_block_take(size) : NULL;
    if (!grown)
        grown = map_longer(NULL, 0, new_bytes);
    if (items && grown != MAP_FAILED) {
        memcpy(grown, items, old_bytes);
        as_block_return(items);
    }
    return grown;
}

bool as_vec_grow(void **items, size_t *capacity, size_t count, size_t more, size_t item_size, struct as_error *err)
{
    size_t needed;
    size_t bytes;
    if (__builtin_add_overflow(count, more, &needed) || __builtin_mul_overflow(needed, item_size, &bytes))
        return as_fail(err, AS_NO_MEMORY, "an array of %zu + %zu items of %zu bytes is too large", count, more,
                       item_size);
    if (needed <= *capacity)
        return true;
    size_t old_bytes = *capacity * item_size;
    size_t first = as_block_size(bytes) ? as_block_size(bytes) : FIRST_BYTES;
    size_t new_bytes = old_bytes ? old_bytes : first;
    while (new_bytes < bytes) {
        if (__builtin_mul_overflow(new_bytes, 2, &new_bytes))
            return as_fail(err, AS_NO_MEMORY, "an array of %zu bytes is too large", bytes);
    }
    void *grown = lengthen(*items, old_bytes, new_bytes);
    if (grown == MAP_FAILED)
        return as_fail(err, AS_NO_MEMORY, "no memory for an array of %zu bytes", new_bytes);
    *items = grown;
    *capacity = new_bytes / item_size;
    return true;
}

void as_vec_release(void **items, size_t *capacity, size_t item_size)
{
    if (*items && as_is_block(*items))
        as_block_return(*items);
    else if (*items)
        munmap(*items, *capacity * item_size);
    *items = NULL;
    *capacity = 0;
}

uint32_t as_strings_add(struct as_strings *strings, const char *text, size_t max)
{
    size_t length = strnlen(text, max);
    if (length == 0)
        return 0;
    if (!as_vec_reserve(strings, length + 2, NULL) || strings->count + length + 2 > UINT32_MAX)
        return 0;
    if (strings->count == 0)
        strings->count = 1; // offset 0: the empty string
    uint32_t offset = (uint32_t)strings->count;
    memcpy(strings->items + offset, text, length);
    strings->items[offset + length] = '\0';
    strings->count += length + 1;
    return offset;
}

const char *as_strings_at(const struct as_strings *strings, uint32_t offset)
{
    return offset < strings->count ? strings->items + offset : "";
}
