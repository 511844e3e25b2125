// SPDX-License-Identifier: MIT
// Whether Ruby's collector is switched off (GC.disable). struct objspace begins with how much may be allocated until the next GC, and has
// bits that tell of the collector not far before the first of its heaps (size pools up to 3.3), that of the smallest slots.
#include "runtimes/ruby_classes.h"
#include "runtimes/ruby_layouts.h"

#include <string.h>

enum {
    SMALLEST = 40,         // bytes of a slot
    MOST_BEFORE = 40,      // bytes of what is read before the first heap
    SWITCHED_OFF = 1 << 3, // a bit: dont_gc
};
static const uint64_t LEAST_LIMIT = 1 << 20,
                      MOST_LIMIT = UINT64_C(1) << 32; // bytes until the next GC: 16 to 32 MiB, if nobody sets them

// The words before the first heap: are they as this layout has them, and is the bit set? What measures a GC's time is on, unless a program
// has switched it off, and nothing is known then.
static bool is_off(const struct as_ruby_layout *l, const uint8_t *heap)
{
    uint32_t flags;
    uint64_t limit;
    memcpy(&flags, heap - l->flags, sizeof flags);
    memcpy(&limit, heap - l->limit, sizeof limit);
    return limit >= LEAST_LIMIT && limit <= MOST_LIMIT && (flags & l->measures) != 0 && flags < 2 * l->measures &&
           (flags & SWITCHED_OFF) != 0;
}

bool as_ruby_collector_is_off(struct as_target *t, const struct as_store *store)
{
    const struct as_ruby_layout *l = as_ruby_layout_of(store);
    uint8_t words[MOST_BEFORE + sizeof(uint64_t)];
    uint64_t descriptor, heap;
    uint16_t slot_size;
    size_t i = 0;
    while (i < store->ruby.count && store->ruby.items[i].slot_size != SMALLEST)
        i++;
    if (!l || l->flags == 0 || i == store->ruby.count ||
        !as_target_read_u64(t, store->ruby.items[i].address, &descriptor) ||
        !as_target_read_u64(t, descriptor + (uint64_t)l->pool, &heap) || heap < MOST_BEFORE ||
        !as_target_read(t, heap - MOST_BEFORE, words, sizeof words))
        return false;
    memcpy(&slot_size, words + MOST_BEFORE, sizeof slot_size);
    return slot_size == SMALLEST && is_off(l, words + MOST_BEFORE);
}
