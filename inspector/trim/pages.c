// SPDX-License-Identifier: MIT
// Which of an arena's pages are in memory, which of them turned out to be free, and releasing them to the kernel.
//
// The kernel is asked once, before the pass and without the lock: a page that comes into memory later stays for the next
// trim. So each page is released once at most, and a pass that reads a chunk again finds nothing left to do there.
#include "trim/pages.h"
#include "base/align.h"
#include "target/procfs.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_process_madvise // headers before Linux 5.10
#define SYS_process_madvise 440
#endif

enum {
    FIRST_PAGE_NS = 1000, // what a page is taken to cost until it has been measured: on the careful side
    PIECES = 8,           // of a slice, at least
    MOST = 1024,          // pages in a call
    STEP = 16384,         // pages to ask the kernel about at a time
};
static const uint64_t MOST_BYTES = UINT64_C(1) << 40; // of address space in the regions: 256 MiB of our own memory

// The region that holds an address, or the next one.
static size_t region_from(const struct as_trim_pass *p, uint64_t address)
{
    return AS_PARTITION_POINT(0, p->regions.count, i, p->regions.items[i].end <= address);
}

// Asks the kernel in steps: while it answers, mmap and brk wait, and malloc calls them under its locks.
static bool ask_kernel(struct as_trim_pass *p, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err)
{
    for (uint64_t at = start; at < end; at += STEP * p->page_size) {
        uint64_t stop = end - at < STEP * p->page_size ? end : at + STEP * p->page_size;
        if (!as_target_residency(p->self, at, stop, pages + (at - start) / p->page_size, err))
            return false;
    }
    return true;
}

bool as_trim_pages_read(struct as_trim_pass *p, struct as_error *err)
{
    uint64_t size = p->page_size;
    uint64_t total = 0;
    p->regions.count = 0;
    p->pages.count = 0;
    for (size_t i = 0; i < p->memory.count; i++) {
        uint64_t start = as_align_down(p->memory.items[i].start, size);
        uint64_t end = as_align_up(p->memory.items[i].end, size);
        struct as_trim_region *last = p->regions.count > 0 ? &p->regions.items[p->regions.count - 1] : NULL;
        if (last && start < last->end)
            start = last->end;
        if (start >= end)
            continue;
        total += end - start;
        if (total > MOST_BYTES)
            return as_fail(err, AS_UNSUPPORTED, "its memory may lie in more than 1 TiB of mappings");
        size_t count = (size_t)((end - start) / size);
        struct as_trim_region *r = as_vec_add(&p->regions, err);
        if (!r || !as_vec_reserve(&p->pages, count, err))
            return false;
        *r = (struct as_trim_region){.start = start, .end = end, .first = p->pages.count};
        p->pages.count += count;
        uint8_t *pages = p->pages.items + r->first;
        if (!ask_kernel(p, start, end, pages, err))
            return false;
        for (size_t n = 0; n < count; n++)
            pages[n] = pages[n] & AS_RES_SWAPPED   ? AS_TRIM_SWAPPED
                       : pages[n] & AS_RES_PRESENT ? AS_TRIM_RESIDENT
                       : pages[n] & AS_RES_UNKNOWN ? AS_TRIM_RESIDENT | AS_TRIM_UNCERTAIN
                                                   : 0;
    }
    as_trim_pages_reset(p);
    return true;
}

void as_trim_pages_reset(struct as_trim_pass *p)
{
    for (size_t i = 0; i < p->pages.count; i++)
        if (p->pages.items[i] & (AS_TRIM_RESIDENT | AS_TRIM_SWAPPED))
            p->pages.items[i] |= AS_TRIM_PENDING;
}

uint64_t as_trim_pages_at_most(const struct as_trim_pass *p, uint8_t set)
{
    uint64_t count = 0;
    for (size_t i = 0; i < p->pages.count; i++)
        count += (p->pages.items[i] & set) == set;
    return count * p->page_size;
}

uint64_t as_trim_pages_count(const struct as_trim_pass *p, uint8_t set)
{
    return as_trim_pages_at_most(p, set | AS_TRIM_UNCERTAIN) > 0 ? AS_UNKNOWN : as_trim_pages_at_most(p, set);
}

// What became of the pages of a region. False: of one of them it is not known.
static bool count_gone(const uint8_t *before, const uint8_t *now, size_t count, uint8_t set, uint64_t gone[2])
{
    bool known = true;
    for (size_t n = 0; n < count; n++) {
        bool absent = !(now[n] & (AS_RES_PRESENT | AS_RES_UNKNOWN | AS_RES_SWAPPED));
        if ((before[n] & set) != set)
            continue;
        gone[0] += absent && (before[n] & AS_TRIM_RESIDENT);
        gone[1] += absent && (before[n] & AS_TRIM_SWAPPED);
        known &= !(absent && (before[n] & AS_TRIM_UNCERTAIN));
        known &= !((now[n] & AS_RES_UNKNOWN) && (before[n] & (AS_TRIM_RESIDENT | AS_TRIM_SWAPPED)));
    }
    return known;
}

bool as_trim_pages_returned(struct as_trim_pass *p, uint8_t set, uint64_t *memory, uint64_t *swap, struct as_error *err)
{
    AS_VEC(uint8_t) now = {0};
    uint64_t gone[2] = {0};
    bool ok = true;
    bool known = true;
    AS_FOR_EACH_WHILE(ok, const struct as_trim_region, r, &p->regions) {
        size_t count = (size_t)((r->end - r->start) / p->page_size);
        now.count = 0;
        ok = as_vec_reserve(&now, count, err) && ask_kernel(p, r->start, r->end, now.items, err);
        known &= ok && count_gone(p->pages.items + r->first, now.items, count, set, gone);
    }
    as_vec_free(&now);
    // A page that is not in memory any more, and that we did not release, may have gone to swap.
    if (p->self->residency.swap_unknown && !(set & AS_TRIM_RELEASED))
        known = false;
    *memory = known ? gone[0] * p->page_size : AS_UNKNOWN;
    *swap = known && !p->self->residency.swap_unknown ? gone[1] * p->page_size : AS_UNKNOWN;
    return ok;
}

// How many pages to hand over at a time, so that the clock is inspected often enough.
static size_t pages_per_call(const struct as_trim_pass *p)
{
    if (p->slice == UINT64_MAX)
        return MOST * 16;
    uint64_t pages = p->slice / PIECES / (p->page_ns ? p->page_ns : FIRST_PAGE_NS);
    return pages < 1 ? 1 : pages > MOST ? MOST : (size_t)pages;
}

// Many ranges in one call cost one round of telling the other processors, where one call for each costs as many: that is most
// of the time while other threads run. Linux 6.15; false: not here, or not all of it was taken.
static bool madvise_batch(const struct as_trim_pass *p)
{
    enum { PIDFD_SELF = -10000 }; // the calling thread, and its memory: no descriptor
    const struct as_trim_batch *b = &p->batch;
    long done = syscall(SYS_process_madvise, PIDFD_SELF, b->ranges, b->count, MADV_DONTNEED, 0);
    return done >= 0 && (uint64_t)done == b->pages * p->page_size;
}

// Releases a range. hugetlb pages go only whole, and locked ones not at all: EINVAL for both.
static bool madvise_range(struct as_trim_pass *p, const struct iovec *range)
{
    int done;
    do
        done = madvise(range->iov_base, range->iov_len, MADV_DONTNEED);
    while (done != 0 && errno == EAGAIN);
    if (done != 0)
        p->refusal = errno;
    return done == 0;
}

void as_trim_pages_flush(struct as_trim_pass *p)
{
    struct as_trim_batch *b = &p->batch;
    if (b->count == 0)
        return;
    uint64_t before = p->slice == UINT64_MAX ? 0 : as_now_ns();
    bool together = b->count > 1 && !b->unable && madvise_batch(p);
    b->unable |= b->count > 1 && !together;
    for (size_t i = 0; i < b->count; i++) {
        bool given = together || madvise_range(p, &b->ranges[i]);
        size_t pages = b->ranges[i].iov_len / p->page_size;
        p->released += given ? b->ranges[i].iov_len : 0;
        for (size_t n = 0; n < pages; n++)
            b->marks[i][n] |= given ? AS_TRIM_RELEASED : AS_TRIM_REFUSED;
    }
    if (p->slice != UINT64_MAX && b->pages > 0) {
        uint64_t cost = (as_now_ns() - before) / b->pages;
        p->page_ns = p->page_ns ? (7 * p->page_ns + cost) / 8 : cost + 1;
    }
    b->count = 0;
    b->pages = 0;
}

// One past the last pending page before `end`; `from` when there is none.
static size_t last_pending(const uint8_t *pages, size_t from, size_t end)
{
    const uint64_t left = UINT64_C(0x0101010101010101) * AS_TRIM_PENDING;
    while (end > from) {
        uint64_t eight;
        if (end - from >= sizeof eight) {
            memcpy(&eight, pages + end - sizeof eight, sizeof eight);
            if (!(eight & left)) {
                end -= sizeof eight;
                continue;
            }
        }
        if (pages[end - 1] & AS_TRIM_PENDING)
            return end;
        end--;
    }
    return from;
}

// How many pages can be released at a time there: hugetlb pages go only whole.
static size_t unit_at(const struct as_trim_pass *p, uint64_t address)
{
    uint64_t huge = p->par->hp_pagesize;
    if (huge == 0 || huge == AS_UNKNOWN || (huge & (huge - 1)) != 0)
        return 1;
    const struct as_mapping *m = as_target_mapping_at(p->self, address);
    uint64_t unit = m && m->kernel_page_size != 0 && m->kernel_page_size != AS_UNKNOWN ? m->kernel_page_size : huge;
    size_t pages = (size_t)(unit / p->page_size);
    return pages > 1 ? pages : 1;
}

// Queues pages for the next batch, or only marks them: [start, end) of a region, at least one of them pending.
static void queue_pages(struct as_trim_pass *p, const struct as_trim_region *r, size_t start, size_t end, uint8_t mark)
{
    uint8_t *pages = p->pages.items + r->first;
    for (size_t n = start; n < end; n++)
        if (pages[n] & AS_TRIM_PENDING)
            pages[n] |= mark;
    for (size_t n = start; n < end; n++)
        pages[n] &= (uint8_t)~AS_TRIM_PENDING;
    if (p->forecast)
        return;
    struct as_trim_batch *b = &p->batch;
    b->ranges[b->count].iov_base = (void *)(uintptr_t)(r->start + start * p->page_size);
    b->ranges[b->count].iov_len = (end - start) * p->page_size;
    b->marks[b->count++] = pages + start;
    b->pages += end - start;
}

enum as_trim_progress as_trim_pages_release(struct as_trim_pass *p, uint64_t from, uint64_t to, uint8_t mark)
{
    size_t unit_pages = unit_at(p, from);
    uint64_t unit = unit_pages * p->page_size;
    size_t step = pages_per_call(p) > unit_pages ? pages_per_call(p) / unit_pages * unit_pages : unit_pages;
    for (size_t i = region_from(p, from); i < p->regions.count && p->regions.items[i].start < to; i++) {
        const struct as_trim_region *r = &p->regions.items[i];
        uint64_t low = as_align_up(from > r->start ? from : r->start, unit);
        uint64_t high = as_align_down(to < r->end ? to : r->end, unit);
        if (low >= high)
            continue;
        size_t first = (size_t)((low - r->start) / p->page_size);
        size_t end = (size_t)((high - r->start) / p->page_size); // whole units from `first`, now and below
        while ((end = last_pending(p->pages.items + r->first, first, end)) > first) {
            end = first + (end - first + unit_pages - 1) / unit_pages * unit_pages;
            size_t start = end - first > step ? end - step : first;
            queue_pages(p, r, start, end, mark);
            end = start;
            bool full = p->batch.count == AS_TRIM_BATCH || p->batch.pages >= step;
            if (full)
                as_trim_pages_flush(p);
            if (as_trim_time_up(p, full))
                return AS_TRIM_TIME_UP;
        }
    }
    return AS_TRIM_DONE;
}
