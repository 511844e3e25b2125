// SPDX-License-Identifier: MIT
#include "malloc/find.h"
#include "malloc/heaps.h"

#include <string.h>

enum {
    MOST_CHOSEN = 4,
    MOST_STEPS = 1 << 20, // of one search
};

// A true map begins and ends where a mapping or another map does, unless the program's own memory lies on both sides.
static bool is_isolated(const struct as_heaps *h, size_t index)
{
    const struct as_mmapped *m = &h->mmapped.items[index];
    const struct as_mapping *around = as_target_mapping_at(h->target, m->map_start);
    bool before = index > 0 && h->mmapped.items[index - 1].map_end == m->map_start;
    bool after = index + 1 < h->mmapped.count && h->mmapped.items[index + 1].map_start == m->map_end;
    return around && !before && !after && around->start < m->map_start && m->map_end < around->end;
}

bool as_mmapped_munmap_can_fail(const struct as_heaps *h, const struct as_mmapped *m)
{
    const struct as_heap_layout *layout = &h->malloc->libcs.items[m->libc_index].layout.heap;
    uint64_t huge = h->pars.items[m->libc_index].hp_pagesize;
    // From 2.43 on (mmap_extra) sizes are rounded to huge pages.
    if (layout->mmap_extra != 0 || huge == AS_UNKNOWN || huge == 0 || m->counted % huge == 0)
        return false;
    const struct as_mapping *around = as_target_mapping_at(h->target, m->map_start);
    // A core does not say how large a mapping's pages are.
    return h->target->kind == AS_TARGET_CORE || (around && around->kernel_page_size > h->target->page_size);
}

// The maps among which the surplus is searched for, by index, ascending.
typedef AS_VEC(size_t) index_vec;

enum among { MUNMAP_CAN_FAIL = 1, ISOLATED = 2, ALL = 4 };

static bool gather(const struct as_heaps *h, unsigned among, index_vec *out)
{
    out->count = 0;
    for (size_t i = 0; i < h->mmapped.count; i++) {
        bool wanted = among & ALL || (among & MUNMAP_CAN_FAIL && as_mmapped_munmap_can_fail(h, &h->mmapped.items[i])) ||
                      (among & ISOLATED && is_isolated(h, i));
        if (!wanted)
            continue;
        if (!as_vec_push(out, NULL, i))
            return false;
    }
    return true;
}

// Chooses `count` of the candidates whose lengths sum up to `bytes`; choice: as indices into `from`, ascending. Returns how
// many choices there are: 2 stands for more than one, and for too many to reads through.
static unsigned choose(const struct as_heaps *h, const index_vec *from, size_t count, uint64_t bytes,
                       size_t choice[MOST_CHOSEN])
{
    size_t place[MOST_CHOSEN] = {0}; // the combination that is inspected; place[depth] is the next to try
    uint64_t left[MOST_CHOSEN + 1] = {bytes};
    unsigned choices = 0;
    uint64_t steps = 0;
    if (count == 0)
        return bytes == 0;
    if (count > MOST_CHOSEN)
        return 2;
    for (size_t depth = 0; choices < 2;) {
        if (++steps > MOST_STEPS)
            return 2;
        if (place[depth] == from->count) {
            if (depth-- == 0)
                break;
            place[depth]++;
            continue;
        }
        uint64_t size = h->mmapped.items[from->items[place[depth]]].counted;
        bool fits = size <= left[depth];
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

// Makes `from` the surplus: `count` of them, `bytes` long together. Where most are, those that stay are chosen. Returns as
// choose does; the surplus is in `from` when that is 1.
static unsigned find_surplus(const struct as_heaps *h, index_vec *from, uint64_t count, uint64_t bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < from->count; i++)
        sum += h->mmapped.items[from->items[i]].counted;
    if (count > from->count || bytes > sum)
        return 0;
    size_t choice[MOST_CHOSEN];
    bool stays = from->count - count < count;
    size_t chosen = stays ? from->count - (size_t)count : (size_t)count;
    unsigned choices = choose(h, from, chosen, stays ? sum - bytes : bytes, choice);
    if (choices != 1)
        return choices;
    size_t kept = 0;
    size_t next = 0;
    for (size_t i = 0; i < from->count; i++) {
        bool is_chosen = next < chosen && choice[next] == i;
        next += is_chosen;
        if (is_chosen != stays)
            from->items[kept++] = from->items[i];
    }
    from->count = kept;
    return 1;
}

static void drop(struct as_heaps *h, const index_vec *surplus)
{
    size_t kept = 0;
    size_t next = 0;
    for (size_t i = 0; i < h->mmapped.count; i++) {
        const struct as_mmapped *m = &h->mmapped.items[i];
        if (next == surplus->count || surplus->items[next] != i) {
            h->mmapped.items[kept++] = *m;
            continue;
        }
        next++;
        if (as_mmapped_munmap_can_fail(h, m)) {
            h->munmap_failed++;
            h->munmap_failed_bytes += m->counted;
        }
    }
    h->mmapped.count = kept;
}

bool as_mmapped_drop_surplus(struct as_heaps *h, uint64_t count, uint64_t bytes)
{
    // The likely ones first; and are they the only ones that it can be?
    static const unsigned tries[][2] = {{MUNMAP_CAN_FAIL, MUNMAP_CAN_FAIL | ISOLATED}, {ISOLATED, ALL}, {ALL, ALL}};
    index_vec surplus = {0};
    index_vec doubt = {0};
    bool found = false;
    for (size_t i = 0; i < sizeof tries / sizeof *tries && !found && !h->munmap_failed_ambiguous; i++) {
        unsigned choices = gather(h, tries[i][0], &surplus) ? find_surplus(h, &surplus, count, bytes) : 0;
        found = choices == 1;
        if (choices > 1 && tries[i][0] == MUNMAP_CAN_FAIL) {
            h->munmap_failed_ambiguous = true;
            h->munmap_failed = count;
            h->munmap_failed_bytes = bytes;
        }
        if (found && (!gather(h, tries[i][1], &doubt) || find_surplus(h, &doubt, count, bytes) != 1))
            as_fault_note(h, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                          "more mappings resemble mmapped chunks than mp_ counts: the least likely were left out, and "
                          "the choice could be wrong");
    }
    if (found)
        drop(h, &surplus);
    as_vec_free(&surplus);
    as_vec_free(&doubt);
    return found;
}
