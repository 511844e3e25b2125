// SPDX-License-Identifier: MIT
// Memory of the program's own may look like an mmapped chunk: a page that begins with zero and a round number with bit 1
// set (Java's tables do). Then more are found than mp_.n_mmaps says, and mp_.mmapped_mem says which are too many: those
// that together are as large as the excess, if only one choice of them is.
#include "heap/heap.h"

#include <string.h>

enum {
    MOST_DECOYS = 4,
    MOST_STEPS = 1 << 20, // of one search
};

static uint64_t size_of(const struct as_mmapped *m)
{
    return m->map_end - m->map_start;
}

// A true map begins and ends where a mapping or another map does, unless the program's own memory lies on both sides.
static bool is_lonely(const struct as_heaps *h, size_t index)
{
    const struct as_mmapped *m = &h->mmapped.items[index];
    const struct as_mapping *around = as_target_mapping_at(h->target, m->map_start);
    bool before = index > 0 && h->mmapped.items[index - 1].map_end == m->map_start;
    bool after = index + 1 < h->mmapped.count && h->mmapped.items[index + 1].map_start == m->map_end;
    return around && !before && !after && around->start < m->map_start && m->map_end < around->end;
}

// Chooses `count` maps whose sizes sum up to `bytes`, by index, ascending. Returns how many choices there are: 2 stands for
// more than one, and for too many to look through. `lonely`: only among those.
static unsigned choose(const struct as_heaps *h, size_t count, uint64_t bytes, bool lonely, size_t choice[MOST_DECOYS])
{
    size_t place[MOST_DECOYS] = {0}; // the combination that is looked at; place[depth] is the next to try
    uint64_t left[MOST_DECOYS + 1] = {bytes};
    unsigned choices = 0;
    uint64_t steps = 0;
    for (size_t depth = 0; choices < 2;) {
        if (++steps > MOST_STEPS)
            return 2;
        if (place[depth] == h->mmapped.count) {
            if (depth-- == 0)
                break;
            place[depth]++;
            continue;
        }
        uint64_t size = size_of(&h->mmapped.items[place[depth]]);
        bool fits = size <= left[depth] && !(lonely && !is_lonely(h, place[depth]));
        left[depth + 1] = left[depth] - size;
        if (fits && depth + 1 == count && left[count] == 0 && choices++ == 0)
            memcpy(choice, place, sizeof place);
        if (fits && depth + 1 < count) {
            place[depth + 1] = place[depth] + 1;
            depth++;
        } else {
            place[depth]++;
        }
    }
    return choices;
}

// With hugetlb pages glibc 2.35 to 2.42 forgets blocks that realloc shrank, and counts bytes that it could not unmap as gone:
// then mp_ is no judge of what is a decoy.
static bool counts_are_off(const struct as_heaps *h)
{
    for (size_t i = 0; i < h->mmapped.count; i++) {
        const struct as_mapping *m = as_target_mapping_at(h->target, h->mmapped.items[i].map_start);
        if (m && m->kernel_page_size > h->target->page_size)
            return true;
    }
    return false;
}

bool as_mmapped_drop_decoys(struct as_heaps *h, uint64_t count, uint64_t bytes)
{
    if (count == 0 || count > MOST_DECOYS || counts_are_off(h))
        return false;
    size_t choice[MOST_DECOYS];
    unsigned choices = choose(h, count, bytes, true, choice);
    if (choices == 0)
        choices = choose(h, count, bytes, false, choice);
    if (choices != 1)
        return false;
    size_t kept = 0;
    size_t next = 0;
    for (size_t i = 0; i < h->mmapped.count; i++) {
        if (next < count && choice[next] == i)
            next++;
        else
            h->mmapped.items[kept++] = h->mmapped.items[i];
    }
    h->mmapped.count = kept;
    return true;
}
