// SPDX-License-Identifier: MIT
// Where nothing is resident of a live process, at a cost that does not grow with what is merely reserved: programs reserve
// terabytes (sanitizers, databases, language runtimes) and use some megabytes of them.
//
// PAGEMAP_SCAN (Linux 6.7) walks page tables, of which a reservation has none. pagemap has 8 bytes for each page, and they
// take a second for half a terabyte. So before 6.7 smaps helps: a mapping of which it counts nothing is passed over, and one
// that is much larger than what it counts of it is gone through once, up to the last page that is counted.
#include "target/process/read/live_process.h"
#include "target/process/read/pagemap.h"

// Below this a mapping is not worth a second reading of its pagemap entries (128 KiB of them).
static const uint64_t LARGE = UINT64_C(1) << 26;
// As much of a mapping is gone through; its entries take some seconds.
static const uint64_t MOST_BYTES = UINT64_C(1) << 40;
enum { SPARSE = 4 }; // times what is counted of a mapping it must be large

static bool is_counted(const struct as_mapping *m)
{
    return m->rss != AS_UNKNOWN && m->swap != AS_UNKNOWN && m->hugetlb != AS_UNKNOWN;
}

// Is so little of it resident that it pays to find out where?
static bool is_sparse(const struct as_mapping *m)
{
    uint64_t size = m->end - m->start;
    return size >= LARGE && is_counted(m) && m->hugetlb == 0 && (m->rss + m->swap) <= size / SPARSE;
}

static bool add_occupied(struct as_process *p, uint64_t start, uint64_t end)
{
    struct as_range *last = p->occupied.count > 0 ? &p->occupied.items[p->occupied.count - 1] : NULL;
    if (last && last->end == start) {
        last->end = end;
        return true;
    }
    return as_vec_push(&p->occupied, NULL, (struct as_range){start, end});
}

// May all of a mapping be passed over, because smaps counts nothing of it? smaps does not count the zero page. A mapping that can be
// accessed may have it, so its entries are read if they are few.
static bool is_empty(const struct as_mapping *m)
{
    bool accessible = (m->prot & (AS_PROT_READ | AS_PROT_WRITE)) != 0;
    return is_counted(m) && m->rss + m->swap + m->hugetlb == 0 && (!accessible || m->end - m->start >= LARGE);
}

// Finds the occupied stretches of a sparse mapping. Pages that are mapped here alone are counted for certain: when these make
// up what smaps counts, the rest is absent, or the zero page. False: it could not be found out.
static bool find_occupied(struct as_process *p, const struct as_mapping *m)
{
    if (p->occupied_start == m->start)
        return true;
    uint64_t entries[AS_ENTRIES];
    uint64_t left = (m->rss + m->swap) / p->base.page_size;
    p->occupied.count = 0;
    p->occupied_start = AS_UNKNOWN;
    for (uint64_t at = m->start; left > 0 && at < m->end;) {
        if (at - m->start >= MOST_BYTES) { // the rest may be occupied
            if (!add_occupied(p, at, m->end))
                return false;
            break;
        }
        size_t count = as_process_read_entries(p, at, m->end, entries);
        if (count == 0)
            return false;
        bool any = false;
        for (size_t i = 0; i < count; ++i) {
            bool certain = entries[i] & AS_PAGEMAP_SWAPPED ||
                           (entries[i] & AS_PAGEMAP_PRESENT && entries[i] & AS_PAGEMAP_EXCLUSIVE);
            any |= (entries[i] & (AS_PAGEMAP_PRESENT | AS_PAGEMAP_SWAPPED)) != 0;
            left -= certain && left > 0;
        }
        uint64_t end = at + count * p->base.page_size;
        if (any && !add_occupied(p, at, end))
            return false;
        at = end;
    }
    p->occupied_start = m->start;
    return true;
}

static uint64_t next_occupied(const struct as_process *p, uint64_t start, uint64_t end)
{
    AS_FOR_EACH(const struct as_range, range, &p->occupied)
        if (range->end > start)
            return range->start > start ? (range->start < end ? range->start : end) : start;
    return end;
}

// By what smaps counts, and pagemap.
static uint64_t by_counts(struct as_process *p, uint64_t start, uint64_t end)
{
    const struct as_target *t = &p->base;
    for (size_t i = as_target_mapping_from(t, start); start < end; ++i) {
        const struct as_mapping *m = &t->mappings.items[i];
        if (i == t->mappings.count || m->start >= end)
            return end;
        start = m->start > start ? m->start : start;
        uint64_t stop = m->end < end ? m->end : end;
        uint64_t next = m->kind == AS_MAP_ANON && is_empty(m)                           ? stop
                        : m->kind == AS_MAP_ANON && is_sparse(m) && find_occupied(p, m) ? next_occupied(p, start, stop)
                                                                                        : start;
        if (next < stop)
            return next;
        start = stop;
    }
    return end;
}

uint64_t as_process_first_occupied(struct as_process *p, uint64_t start, uint64_t end)
{
    uint64_t top = INT64_MAX / p->base.page_size * p->base.page_size; // of the upper half pagemap knows nothing
    if (p->pagemap_fd < 0 || end > top || start >= end)
        return start;
    uint64_t first = as_process_scan_first(p, start, end);
    return first != AS_UNKNOWN ? first : by_counts(p, start, end);
}

uint64_t as_process_absent_until(struct as_target *t, uint64_t start, uint64_t end)
{
    struct as_process *p = as_process_of(t);
    pthread_mutex_lock(&p->lock);
    uint64_t first = as_process_first_occupied(p, start, end);
    pthread_mutex_unlock(&p->lock);
    return first;
}
