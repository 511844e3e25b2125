// SPDX-License-Identifier: MIT
// Which pages of a live process are resident, swapped or absent: PAGEMAP_SCAN where the kernel has it (6.7), else
// /proc/PID/pagemap. Never mincore, which tells of the page cache and not of swap.
//
// The trap is the zero page: memory that was only ever read maps one page that all processes share. It is present
// but not in Rss. PAGEMAP_SCAN tells it (PAGE_IS_PFNZERO), except the huge zero page before 6.17; pagemap does not. But
// pagemap tells which pages are mapped here only, as nearly all of a private mapping's are and the zero page never is.
// What remains doubtful are pages shared after a fork, and smaps decides between the two when only one of them occurs
// in a mapping. Where both do, page frame numbers tell, if we may see them; if not, these pages are said to be unknown.
#include "target/process/read/live_process.h"
#include "target/process/read/pagemap.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define KPF_ZERO_PAGE (UINT64_C(1) << 24)

// In a page's byte while we work: present, and it may be the zero page.
enum { DOUBTFUL = 0x40 };
enum { REGIONS = 512, MAX_WEIGHED = 1 << 28 };

static const char INDISTINGUISHABLE[] =
    "with this kernel and these privileges shared pages cannot be distinguished from the zero page: "
    "pages that could be either are unknown (root can distinguish them)";

static uint8_t flags_of_scan(uint64_t categories)
{
    uint8_t huge = categories & AS_SCAN_HUGE ? AS_RES_HUGE : 0;
    if (categories & AS_SCAN_GUARD) // a marker in the page table (MADV_GUARD_INSTALL): no memory
        return 0;
    if (categories & AS_SCAN_ZERO)
        return (uint8_t)(AS_RES_ZERO | huge);
    if (categories & AS_SCAN_PRESENT)
        return (uint8_t)(AS_RES_PRESENT | huge);
    // An entry that is not present and yet of a file is a page on its way elsewhere (migration); smaps counts it.
    return (uint8_t)((categories & AS_SCAN_FILE ? AS_RES_PRESENT : AS_RES_SWAPPED) | huge);
}

// False with errno; ENOTTY when the kernel does not know PAGEMAP_SCAN.
static bool fill_by_scan(struct as_process *p, uint64_t start, uint64_t end, uint8_t *pages)
{
    uint64_t size = p->base.page_size;
    struct as_scan_region regions[REGIONS];
    memset(pages, 0, (end - start) / size);
    for (uint64_t at = start; at < end;) {
        uint64_t tell = AS_SCAN_FILE | AS_SCAN_PRESENT | AS_SCAN_SWAPPED | AS_SCAN_ZERO | AS_SCAN_HUGE |
                        (p->no_guard ? 0 : AS_SCAN_GUARD);
        struct as_scan_arg arg = {.size = sizeof arg,
                                  .start = at,
                                  .end = end,
                                  .vec = (uintptr_t)regions,
                                  .vec_len = REGIONS,
                                  .category_anyof_mask = AS_SCAN_PRESENT | AS_SCAN_SWAPPED,
                                  .return_mask = tell};
        int count = as_process_scan_pagemap(p, &arg);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EINVAL && !p->no_guard) {
            p->no_guard = true;
            continue;
        }
        if (count < 0)
            return false;
        for (int i = 0; i < count; ++i) {
            if (regions[i].start < at || regions[i].end > end || regions[i].start > regions[i].end)
                return errno = EPROTO, false;
            memset(pages + (regions[i].start - start) / size, flags_of_scan(regions[i].categories),
                   (regions[i].end - regions[i].start) / size);
        }
        if (arg.walk_end <= at)
            return errno = EPROTO, false;
        at = arg.walk_end;
    }
    return true;
}

static bool is_doubtful(uint64_t entry)
{
    return (entry & (AS_PAGEMAP_PRESENT | AS_PAGEMAP_EXCLUSIVE)) == AS_PAGEMAP_PRESENT;
}

static bool fill_by_pagemap(struct as_process *p, uint64_t start, uint64_t end, uint8_t *pages)
{
    uint64_t entries[AS_ENTRIES];
    for (uint64_t at = start; at < end;) {
        size_t count = as_process_read_entries(p, at, end, entries);
        if (count == 0)
            return false;
        for (size_t i = 0; i < count; ++i) {
            uint64_t entry = entries[i];
            *pages++ = entry & AS_PAGEMAP_PRESENT   ? (uint8_t)(AS_RES_PRESENT | (is_doubtful(entry) ? DOUBTFUL : 0))
                       : entry & AS_PAGEMAP_GUARD   ? 0
                       : entry & AS_PAGEMAP_SWAPPED ? AS_RES_SWAPPED
                                                    : 0;
        }
        at += count * p->base.page_size;
    }
    return true;
}

// After a scan only huge pages can be doubtful: asks pagemap once for each. A page-table page maps page_size / 8
// pages, and a huge page takes its place.
static void doubt_huge_pages(const struct as_process *p, uint64_t start, uint64_t end, uint8_t *pages)
{
    uint64_t size = p->base.page_size;
    uint64_t huge = size * (size / 8);
    for (uint64_t at = start; at < end;) {
        uint64_t next = at / huge * huge + huge < end ? at / huge * huge + huge : end;
        uint64_t entry;
        if ((*pages & (AS_RES_HUGE | AS_RES_PRESENT)) == (AS_RES_HUGE | AS_RES_PRESENT) &&
            as_process_read_entries(p, at, at + size, &entry) == 1 && is_doubtful(entry)) {
            for (size_t i = 0; i < (next - at) / size; ++i)
                pages[i] |= pages[i] & AS_RES_PRESENT ? DOUBTFUL : 0;
        }
        pages += (next - at) / size;
        at = next;
    }
}

// Are the doubtful pages of a mapping none, all, or some of them the zero page? By what smaps counts of it.
static enum as_zero_verdict weigh(struct as_process *p, const struct as_mapping *m)
{
    if (p->verdict_start == m->start)
        return p->verdict;
    uint64_t certain = 0;
    uint64_t doubtful = 0;
    uint64_t entries[AS_ENTRIES];
    p->verdict_start = m->start;
    p->verdict = AS_ZERO_MIXED;
    uint64_t read = 0;
    for (uint64_t at = m->start; (at = as_process_first_occupied(p, at, m->end)) < m->end; read += AS_ENTRIES) {
        // More would take minutes to count: of a reservation of terabytes (sanitizers, some language runtimes) of which only
        // pagemap tells what is absent.
        if (read > MAX_WEIGHED)
            return AS_ZERO_MIXED;
        size_t count = as_process_read_entries(p, at, m->end, entries);
        if (count == 0)
            return AS_ZERO_MIXED;
        for (size_t i = 0; i < count; ++i) {
            certain += (entries[i] & AS_PAGEMAP_PRESENT) && !is_doubtful(entries[i]);
            doubtful += is_doubtful(entries[i]);
        }
        at += count * p->base.page_size;
    }
    p->verdict = m->rss == certain * p->base.page_size                ? AS_ZERO_ALL
                 : m->rss == (certain + doubtful) * p->base.page_size ? AS_ZERO_NONE
                                                                      : AS_ZERO_MIXED;
    return p->verdict;
}

// The kernel's own word for one page frame: is it the zero page? -1: it does not let us ask.
static int is_zero_frame(const struct as_process *p, uint64_t address, uint64_t *zero_frame)
{
    uint64_t entry;
    if (p->kpageflags_fd < 0 || as_process_read_entries(p, address, address + p->base.page_size, &entry) != 1)
        return -1;
    uint64_t frame = entry & AS_PAGEMAP_FRAME;
    if (!(entry & AS_PAGEMAP_PRESENT) || frame == 0)
        return -1;
    uint64_t flags;
    if (frame == *zero_frame)
        return 1;
    if (pread(p->kpageflags_fd, &flags, sizeof flags, (off_t)(frame * sizeof flags)) != sizeof flags)
        return -1;
    if (flags & KPF_ZERO_PAGE)
        *zero_frame = frame;
    return (flags & KPF_ZERO_PAGE) != 0;
}

static void settle_doubts(struct as_process *p, const struct as_mapping *m, uint64_t start, uint64_t end,
                          uint8_t *pages)
{
    size_t count = (end - start) / p->base.page_size;
    enum as_zero_verdict verdict = AS_ZERO_NONE;
    uint64_t zero_frame = 0;
    for (size_t i = 0; i < count; ++i) {
        if (!(pages[i] & DOUBTFUL))
            continue;
        verdict = weigh(p, m);
        pages[i] &= (uint8_t)~DOUBTFUL;
        int zero = verdict == AS_ZERO_NONE  ? 0
                   : verdict == AS_ZERO_ALL ? 1
                                            : is_zero_frame(p, start + i * p->base.page_size, &zero_frame);
        if (zero == 0)
            continue;
        pages[i] = (uint8_t)((pages[i] & AS_RES_HUGE) | (zero > 0 ? AS_RES_ZERO : AS_RES_UNKNOWN));
        if (zero < 0)
            p->base.residency.note = INDISTINGUISHABLE;
    }
}

// A guard marker seems swapped on kernels 6.13 and 6.14, and so does, until it has arrived, a page that the kernel moves
// (compaction), or one that it has swapped out since smaps was read. Where smaps counts nothing swapped in a mapping that stands
// still, it is one of these.
static bool has_false_swap(const struct as_process *p, const struct as_mapping *m, const uint8_t *pages, size_t count)
{
    return p->base.stop.active && m->kind == AS_MAP_ANON && m->swap == 0 &&
           (memchr(pages, AS_RES_SWAPPED, count) || memchr(pages, AS_RES_SWAPPED | AS_RES_HUGE, count));
}

// Is a page that seems swapped, and that smaps counts as not, in memory? A move shows in pagemap, which knows the page of it; how
// long one takes nobody knows. What cannot be read is a marker.
static bool is_in_memory(const struct as_process *p, uint64_t address)
{
    uint64_t entry;
    uint8_t byte;
    if (as_process_read_entries(p, address, address + p->base.page_size, &entry) == 1 &&
        (entry & (AS_PAGEMAP_PRESENT | AS_PAGEMAP_EXCLUSIVE)))
        return true;
    if (!as_process_read_begin(p))
        return false;
    bool read = pread(p->mem_fd, &byte, 1, (off_t)address) == 1;
    as_process_read_end(p);
    return read;
}

// A page that is taken for absent is taken for zeros.
static void settle_false_swap(const struct as_process *p, uint64_t start, uint8_t *pages, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        if (pages[i] & AS_RES_SWAPPED)
            pages[i] = is_in_memory(p, start + i * p->base.page_size)
                           ? (uint8_t)(AS_RES_PRESENT | (pages[i] & AS_RES_HUGE))
                           : 0;
}

static bool fill_from_pagemap(struct as_process *p, uint64_t start, uint64_t end, uint8_t *pages)
{
    if (!p->no_scan) {
        if (fill_by_scan(p, start, end, pages))
            return true;
        if (errno != ENOTTY)
            return false;
        p->no_scan = true;
    }
    return fill_by_pagemap(p, start, end, pages);
}

static bool settle_mapping(struct as_process *p, const struct as_mapping *m, uint64_t start, uint64_t end,
                           uint8_t *pages)
{
    size_t count = (end - start) / p->base.page_size;
    if (m->kind == AS_MAP_SPECIAL && m->rss == 0)
        memset(pages, 0, count);
    if (has_false_swap(p, m, pages, count))
        settle_false_swap(p, start, pages, count);
    // Only private anonymous memory, and not of hugetlbfs, maps the zero page.
    if (m->kind == AS_MAP_ANON && m->kernel_page_size == p->base.page_size) {
        if (!p->no_scan)
            doubt_huge_pages(p, start, end, pages);
        settle_doubts(p, m, start, end, pages);
    } else {
        for (size_t i = 0; i < count; ++i)
            pages[i] &= (uint8_t)~DOUBTFUL;
    }
    return true;
}

static bool residency(struct as_process *p, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err)
{
    struct as_target *t = &p->base;
    uint64_t size = t->page_size;
    if (start % size || end % size || end < start)
        return as_fail(err, AS_INTERNAL, "an invalid range of pages: %#llx-%#llx", (unsigned long long)start,
                       (unsigned long long)end);
    // The upper half is the kernel's; of it a process sees at most vsyscall, never in Rss.
    uint64_t top = INT64_MAX / size * size;
    if (end > top) {
        uint64_t cut = start > top ? start : top;
        memset(pages + (cut - start) / size, 0, (end - cut) / size);
        end = cut;
    }
    if (start == end)
        return true;
    if (!fill_from_pagemap(p, start, end, pages))
        return as_process_unread(p, "the kernel does not say which of its pages are resident", err);
    uint64_t at = start;
    for (size_t i = as_target_mapping_from(t, start); at < end; ++i) {
        const struct as_mapping *m =
            i < t->mappings.count && t->mappings.items[i].start < end ? &t->mappings.items[i] : NULL;
        uint64_t from = !m ? end : m->start > at ? m->start : at;
        for (; at < from; at += size) // nothing is mapped here as far as we know
            pages[(at - start) / size] &= (uint8_t)~DOUBTFUL;
        if (!m)
            break;
        uint64_t stop = m->end < end ? m->end : end;
        if (!settle_mapping(p, m, at, stop, pages + (at - start) / size))
            return as_process_unread(p, "the kernel does not say which of its pages are resident", err);
        at = stop;
    }
    // PAGEMAP_SCAN may say, without an error, that nothing is resident of memory that has lost its last user.
    return as_process_alive(p) || as_process_gone(p, err);
}

bool as_process_residency(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err)
{
    struct as_process *p = as_process_of(t);
    pthread_mutex_lock(&p->lock);
    bool ok = residency(p, start, end, pages, err);
    pthread_mutex_unlock(&p->lock);
    return ok;
}
