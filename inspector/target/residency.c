// SPDX-License-Identifier: MIT
// Residency as the kernel told it when the target was stopped. A read changes memory: an absent page that is read gets the
// zero page mapped (and page tables for it), a swapped one comes back. So residency is recorded before anything is read.
#include "target/residency.h"
#include "base/align.h"
#include "target/target.h"

#include <string.h>

enum {
    STEP = 16384, // pages
    LEAST_STEP = 512,
};
static const uint64_t MOST_BYTES = UINT64_C(1) << 38; // of a mapping: an address sanitizer's shadow reserves terabytes

// Memory that a program has protected from itself may still be malloc's. A reservation that nothing ever came of (a thread
// arena's next 60 MiB, say) is not worth a snapshot.
static bool worth_it(const struct as_target *t, const struct as_mapping *m)
{
    return m->kind == AS_MAP_ANON && !(m->prot & AS_PROT_SHARED) && !m->out_of_reach &&
           m->end - m->start <= MOST_BYTES &&
           ((m->prot & (AS_PROT_READ | AS_PROT_WRITE)) ||
            (!t->counts.pending && (m->rss != 0 || m->swap != 0 || m->hugetlb != 0)));
}

// Pages of a file that a program has written to can be swapped out too; the rest of them are the file's.
static bool may_swap(const struct as_mapping *m)
{
    return m->kind == AS_MAP_FILE && !(m->prot & AS_PROT_SHARED) && m->swap != 0 && m->swap != AS_UNKNOWN;
}

static bool add_run(struct as_target *t, uint64_t start, uint64_t end, uint8_t residency, struct as_error *err)
{
    struct as_page_run *last =
        t->residency.runs.count > 0 ? &t->residency.runs.items[t->residency.runs.count - 1] : NULL;
    if (last && last->end == start && last->residency == residency) {
        last->end = end;
        return true;
    }
    return as_vec_push(&t->residency.runs, err,
                       (struct as_page_run){.start = start, .end = end, .residency = residency});
}

static bool add_pages(struct as_target *t, uint64_t start, const uint8_t *pages, size_t count, struct as_error *err)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t at = start + i * t->page_size;
        if (pages[i] != 0 && !add_run(t, at, at + t->page_size, pages[i], err))
            return false;
    }
    return true;
}

// As as_target_skip_absent, where holes tell what is absent.
static uint64_t skip(struct as_target *t, uint64_t start, uint64_t end)
{
    return t->residency.known && t->ops->residency.absent_until ? t->ops->residency.absent_until(t, start, end) : start;
}

// Reads the residency of a mapping's pages. *settled becomes false if there are some that only its counts tell apart from others.
static bool read_mapping(struct as_target *t, struct as_mapping *m, bool whole, bool *settled, struct as_error *err)
{
    uint8_t pages[STEP];
    size_t step = LEAST_STEP;
    for (uint64_t at = skip(t, m->start, m->end); at < m->end;) {
        // A core may claim any amount of memory that it has not got: all of that is one run.
        uint64_t missing = as_align_down(as_target_skip_missing(t, at), t->page_size);
        if (missing > at) {
            missing = missing < m->end ? missing : m->end;
            *settled = false;
            if (whole && !add_run(t, at, missing, AS_RES_UNKNOWN, err))
                return false;
            at = skip(t, missing, m->end);
            continue;
        }
        size_t count = (m->end - at) / t->page_size < step ? (size_t)((m->end - at) / t->page_size) : step;
        uint8_t all = 0;
        if (!t->ops->residency.pages(t, at, at + count * t->page_size, pages, err))
            return false;
        for (size_t k = 0; k < count; k++) {
            all |= pages[k];
            pages[k] &= whole ? 0xff : AS_RES_SWAPPED;
        }
        *settled &= !(all & (AS_RES_SWAPPED | AS_RES_HUGE | AS_RES_UNKNOWN));
        if (!add_pages(t, at, pages, count, err))
            return false;
        // Where memory ends, the next may be far away, and little.
        bool dense = pages[count - 1] != 0;
        at += count * t->page_size;
        at = dense ? at : skip(t, at, m->end);
        step = !dense ? LEAST_STEP : step < STEP ? step * 2 : STEP;
    }
    m->recorded = whole;
    return true;
}

static bool read_residency(struct as_target *t, bool *settled, struct as_error *err)
{
    t->residency.runs.count = 0;
    AS_FOR_EACH(struct as_mapping, m, &t->mappings) {
        m->recorded = false;
        bool whole = worth_it(t, m);
        if ((whole || may_swap(m)) && !read_mapping(t, m, whole, settled, err))
            return false;
    }
    return true;
}

// Reads the residency while another thread counts. *settled: that was enough, for the counts have nothing to add.
static bool read_and_count(struct as_target *t, bool *settled, struct as_error *err)
{
    struct as_error why;
    *settled = true;
    if (!read_residency(t, settled, &why))
        *settled = false;
    t->counts.pending = false;
    if (!t->ops->residency.count_end(t, err))
        return false;
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings)
        *settled &= m->recorded == worth_it(t, m) && !may_swap(m);
    return true;
}

bool as_target_read_residency_map(struct as_target *t, struct as_error *err)
{
    bool settled = false;
    if (t->counts.pending && t->ops->residency.count_begin && t->ops->residency.count_begin(t)) {
        if (!read_and_count(t, &settled, err))
            return false;
        if (!settled)
            t->residency.note = NULL; // said without the counts
    } else if (t->counts.pending) {
        t->counts.pending = false;
        if (!t->ops->residency.count(t, err))
            return false;
    }
    return settled || read_residency(t, &settled, err);
}

static void fill_residency(const struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages)
{
    memset(pages, 0, (end - start) / t->page_size);
    for (size_t i = as_residency_run_from(t, start);
         i < t->residency.runs.count && t->residency.runs.items[i].start < end; i++) {
        const struct as_page_run *run = &t->residency.runs.items[i];
        uint64_t from = run->start > start ? run->start : start;
        uint64_t to = run->end < end ? run->end : end;
        memset(pages + (from - start) / t->page_size, run->residency, (to - from) / t->page_size);
    }
}

uint64_t as_target_skip_absent(struct as_target *t, uint64_t start, uint64_t end)
{
    while (start < end) {
        const struct as_mapping *m = as_target_mapping_at(t, start);
        bool recorded = m && m->recorded;
        // Up to where a recorded mapping begins or ends.
        uint64_t stop = recorded ? m->end : end;
        for (size_t k = as_target_mapping_from(t, start);
             !recorded && k < t->mappings.count && t->mappings.items[k].start < stop; k++)
            if (t->mappings.items[k].recorded)
                stop = t->mappings.items[k].start;
        stop = stop < end ? stop : end;
        uint64_t next = start;
        if (recorded) {
            size_t i = as_residency_run_from(t, start);
            uint64_t first = i < t->residency.runs.count ? t->residency.runs.items[i].start : stop;
            next = first > start ? first : start;
        } else if (t->ops->residency.absent_until) {
            next = t->ops->residency.absent_until(t, start, stop);
        }
        if (next < stop)
            return next;
        start = stop;
    }
    return end;
}

bool as_target_residency(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err)
{
    while (start < end) {
        const struct as_mapping *m = as_target_mapping_at(t, start);
        uint64_t to = m && m->end < end ? m->end : end;
        if (m && m->recorded)
            fill_residency(t, start, to, pages);
        else if (!t->ops->residency.pages(t, start, to, pages, err))
            return false;
        pages += (to - start) / t->page_size;
        start = to;
    }
    return true;
}

bool as_target_kept_pages(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages)
{
    return t->ops->residency.kept && t->ops->residency.kept(t, start, end, pages);
}

uint64_t as_target_resident_bytes(struct as_target *t, uint64_t start, uint64_t end)
{
    uint8_t pages[LEAST_STEP] = {0};
    uint64_t mask = (uint64_t)t->page_size - 1;
    uint64_t bytes = 0;
    for (uint64_t at = start & ~mask; t->residency.known && at < end;) {
        uint64_t left = (((end - at) + mask) & ~mask) / t->page_size;
        uint64_t count = left < LEAST_STEP ? left : LEAST_STEP;
        if (!as_target_residency(t, at, at + count * t->page_size, pages, NULL))
            return AS_UNKNOWN;
        for (uint64_t i = 0; i < count; i++, at += t->page_size) {
            uint64_t from = at > start ? at : start;
            uint64_t to = end - at < t->page_size ? end : at + t->page_size;
            if (pages[i] & AS_RES_UNKNOWN)
                return AS_UNKNOWN;
            bytes += pages[i] & AS_RES_PRESENT ? to - from : 0;
        }
    }
    return t->residency.known ? bytes : AS_UNKNOWN;
}
