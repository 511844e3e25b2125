// SPDX-License-Identifier: MIT
// What the kernel said of the target's pages at the moment it was stopped. To read memory is to change it: an absent page
// that is read gets the zero page mapped (and page tables for it), a swapped one comes back. So residency is taken before
// anything is read; what is absent is not read at all: it is zeros; and what came back from swap is sent there again, as the
// reading goes on: a target that lacks memory must not get all of its heap at once.
#include "target/target.h"

#include <string.h>

enum {
    STEP = 16384, // pages
    LEAST_STEP = 512,
    RANGES = 256,
    LITTLE = 16, // pages that may come back from swap before they are sent there again
};
static const uint64_t MOST_BYTES = UINT64_C(1) << 38; // of a mapping: an address sanitizer's shadow reserves terabytes

// Memory that a program has protected from itself may still be malloc's. A reservation that nothing ever came of (a thread
// arena's next 60 MiB, say) is not worth a look.
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

static bool add_pages(struct as_target *t, uint64_t start, const uint8_t *pages, size_t count, struct as_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (pages[i] == 0)
            continue;
        uint64_t at = start + i * t->page_size;
        struct as_page_run *last =
            t->residency.runs.count > 0 ? &t->residency.runs.items[t->residency.runs.count - 1] : NULL;
        if (last && last->end == at && last->residency == pages[i]) {
            last->end += t->page_size;
            continue;
        }
        struct as_page_run *run = as_vec_add(&t->residency.runs, err);
        if (!run)
            return false;
        *run = (struct as_page_run){.start = at, .end = at + t->page_size, .residency = pages[i]};
    }
    return true;
}

// As as_target_skip_absent, where holes tell what is absent.
static uint64_t skip(struct as_target *t, uint64_t start, uint64_t end)
{
    return t->residency.known && t->ops->absent_until ? t->ops->absent_until(t, start, end) : start;
}

// Captures a mapping's pages. *settled turns false if there are some that only its counts tell apart from others.
static bool capture_mapping(struct as_target *t, struct as_mapping *m, bool whole, bool *settled, struct as_error *err)
{
    uint8_t pages[STEP];
    size_t step = LEAST_STEP;
    for (uint64_t at = skip(t, m->start, m->end); at < m->end;) {
        size_t count = (m->end - at) / t->page_size < step ? (size_t)((m->end - at) / t->page_size) : step;
        uint8_t all = 0;
        if (!t->ops->residency(t, at, at + count * t->page_size, pages, err))
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

static bool capture(struct as_target *t, bool *settled, struct as_error *err)
{
    t->residency.runs.count = 0;
    for (size_t i = 0; i < t->mappings.count; i++) {
        struct as_mapping *m = &t->mappings.items[i];
        m->recorded = false;
        bool whole = worth_it(t, m);
        if ((whole || may_swap(m)) && !capture_mapping(t, m, whole, settled, err))
            return false;
    }
    return true;
}

// Captures while another thread counts. *settled: that was enough, for the counts have nothing to add.
static bool capture_and_count(struct as_target *t, bool *settled, struct as_error *err)
{
    struct as_error why;
    *settled = true;
    if (!capture(t, settled, &why))
        *settled = false;
    t->counts.pending = false;
    if (!t->ops->count_end(t, err))
        return false;
    for (size_t i = 0; i < t->mappings.count; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        *settled &= m->recorded == worth_it(t, m) && !may_swap(m);
    }
    return true;
}

bool as_target_record_residency(struct as_target *t, struct as_error *err)
{
    bool settled = false;
    if (t->counts.pending && t->ops->count_begin && t->ops->count_begin(t)) {
        if (!capture_and_count(t, &settled, err))
            return false;
        if (!settled)
            t->residency.note = NULL; // said without the counts
    } else if (t->counts.pending) {
        t->counts.pending = false;
        if (!t->ops->count(t, err))
            return false;
    }
    return settled || capture(t, &settled, err);
}

// The first run that ends behind `address`.
static size_t run_from(const struct as_target *t, uint64_t address)
{
    size_t low = 0;
    size_t count = t->residency.runs.count;
    while (count > 0) {
        size_t half = count / 2;
        if (t->residency.runs.items[low + half].end <= address) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

static void fill(const struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages)
{
    memset(pages, 0, (end - start) / t->page_size);
    for (size_t i = run_from(t, start); i < t->residency.runs.count && t->residency.runs.items[i].start < end; i++) {
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
        // Up to where the one who knows changes.
        uint64_t stop = recorded ? m->end : end;
        for (size_t k = as_target_mapping_from(t, start);
             !recorded && k < t->mappings.count && t->mappings.items[k].start < stop; k++)
            if (t->mappings.items[k].recorded)
                stop = t->mappings.items[k].start;
        stop = stop < end ? stop : end;
        uint64_t next = start;
        if (recorded) {
            size_t i = run_from(t, start);
            uint64_t first = i < t->residency.runs.count ? t->residency.runs.items[i].start : stop;
            next = first > start ? first : start;
        } else if (t->ops->absent_until) {
            next = t->ops->absent_until(t, start, stop);
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
            fill(t, start, to, pages);
        else if (!t->ops->residency(t, start, to, pages, err))
            return false;
        pages += (to - start) / t->page_size;
        start = to;
    }
    return true;
}

// Whether the page at `address` was absent when the target was stopped. Lowers *end to where the answer may change.
static bool is_absent(const struct as_target *t, uint64_t address, uint64_t *end)
{
    size_t i = run_from(t, address);
    if (i < t->residency.runs.count && t->residency.runs.items[i].start <= address) {
        uint64_t until = t->residency.runs.items[i].end;
        for (i++; until < *end && i < t->residency.runs.count && t->residency.runs.items[i].start == until; i++)
            until = t->residency.runs.items[i].end;
        *end = until < *end ? until : *end;
        return false;
    }
    if (i < t->residency.runs.count && t->residency.runs.items[i].start < *end)
        *end = t->residency.runs.items[i].start;
    size_t k = as_target_mapping_from(t, address);
    const struct as_mapping *m = t->mappings.items + k;
    bool recorded = k < t->mappings.count && m->recorded && m->start <= address;
    if (recorded) {
        *end = m->end < *end ? m->end : *end;
        return true;
    }
    for (; k < t->mappings.count && m->start < *end; k++, m++)
        if (m->recorded)
            *end = m->start;
    return false;
}

static bool has_swap(const struct as_target *t)
{
    return t->ops->page_out && t->counts.swap != 0 && t->counts.swap != AS_UNKNOWN;
}

static bool is_swapped(const struct as_target *t, uint64_t address)
{
    if (!has_swap(t))
        return false;
    size_t i = run_from(t, address);
    return i < t->residency.runs.count && t->residency.runs.items[i].start <= address &&
           (t->residency.runs.items[i].residency & AS_RES_SWAPPED);
}

// Sends back to swap what of [start, end) was swapped out when it was recorded.
static void send_back(struct as_target *t, uint64_t start, uint64_t end)
{
    struct as_range ranges[RANGES];
    size_t count = 0;
    for (size_t i = run_from(t, start); i < t->residency.runs.count && t->residency.runs.items[i].start < end; i++) {
        const struct as_page_run *run = &t->residency.runs.items[i];
        if (!(run->residency & AS_RES_SWAPPED))
            continue;
        ranges[count].start = run->start > start ? run->start : start;
        ranges[count++].end = run->end < end ? run->end : end;
        if (count == RANGES) {
            t->ops->page_out(t, ranges, count);
            count = 0;
        }
    }
    if (count > 0)
        t->ops->page_out(t, ranges, count);
}

void as_target_send_back(struct as_target *t)
{
    if (has_swap(t) && t->residency.preparing)
        t->ops->page_out(t, t->residency.fetched.items, t->residency.fetched.count);
    else if (has_swap(t))
        send_back(t, 0, UINT64_MAX);
}

uint64_t as_target_brought_back(struct as_target *t)
{
    uint8_t pages[STEP];
    uint64_t bytes = 0;
    for (size_t i = 0; i < t->residency.runs.count && has_swap(t); i++) {
        const struct as_page_run *run = &t->residency.runs.items[i];
        for (uint64_t at = run->start; (run->residency & AS_RES_SWAPPED) && at < run->end;) {
            uint64_t left = (run->end - at) / t->page_size;
            size_t count = left < STEP ? (size_t)left : STEP;
            if (!t->ops->residency(t, at, at + count * t->page_size, pages, NULL))
                return bytes;
            for (size_t k = 0; k < count; k++)
                bytes += pages[k] & AS_RES_PRESENT ? t->page_size : 0;
            at += count * t->page_size;
        }
    }
    return bytes;
}

// Reads what is not absent, and sends back what came from swap for it, a little at a time: what is read counts against the
// target's memory cgroup, and may be too much for it.
static size_t read_present(struct as_target *t, uint64_t start, uint64_t end, uint8_t *buffer)
{
    uint64_t at = start;
    for (size_t i = has_swap(t) ? run_from(t, start) : t->residency.runs.count; at < end;) {
        while (i < t->residency.runs.count &&
               (t->residency.runs.items[i].end <= at || !(t->residency.runs.items[i].residency & AS_RES_SWAPPED)))
            i++;
        uint64_t swapped = i < t->residency.runs.count && t->residency.runs.items[i].start < end
                               ? t->residency.runs.items[i].start
                               : end;
        bool from_swap = swapped <= at;
        uint64_t to = swapped;
        if (from_swap) {
            to = t->residency.runs.items[i].end < end ? t->residency.runs.items[i].end : end;
            to = to - at < LITTLE * (uint64_t)t->page_size ? to : at + LITTLE * (uint64_t)t->page_size;
        }
        size_t got = t->ops->read(t, at, buffer + (at - start), (size_t)(to - at));
        if (from_swap) {
            uint64_t page = at & ~(uint64_t)(t->page_size - 1);
            uint64_t behind = (to + t->page_size - 1) & ~(uint64_t)(t->page_size - 1);
            struct as_range *fetched = t->residency.preparing ? as_vec_add(&t->residency.fetched, NULL) : NULL;
            if (fetched)
                *fetched = (struct as_range){page, behind};
            send_back(t, page, behind);
        }
        at += got;
        if (at < to)
            break;
    }
    return (size_t)(at - start);
}

size_t as_target_read_resident(struct as_target *t, uint64_t address, void *buffer, size_t length)
{
    if (length > UINT64_MAX - address)
        return t->ops->read(t, address, buffer, length);
    if (!t->stop.active) // what was absent may not be so any more
        return read_present(t, address, address + length, buffer);
    size_t done = 0;
    while (done < length) {
        uint64_t at = address + done;
        uint64_t end = address + length;
        uint8_t *to = (uint8_t *)buffer + done;
        bool absent = is_absent(t, at, &end);
        size_t got = (size_t)(end - at);
        if (absent)
            memset(to, 0, got);
        else
            got = read_present(t, at, end, to);
        done += got;
        if (got < end - at)
            break;
    }
    return done;
}

void as_target_gather(struct as_target *t, const uint64_t *addresses, size_t count, size_t length, void *out,
                      size_t stride, bool *ok)
{
    for (size_t i = 0; i < count;) {
        size_t n = 0; // addresses in a row that may be read as they are
        for (; i + n < count && t->ops->gather; n++) {
            uint64_t end = addresses[i + n] + length;
            if ((t->stop.active && is_absent(t, addresses[i + n], &end)) || is_swapped(t, addresses[i + n]))
                break;
        }
        if (n > 0)
            t->ops->gather(t, addresses + i, n, length, (uint8_t *)out + i * stride, stride, ok + i);
        i += n;
        if (i < count) {
            ok[i] = as_target_read(t, addresses[i], (uint8_t *)out + i * stride, length);
            i++;
        }
    }
}
