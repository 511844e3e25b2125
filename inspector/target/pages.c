// SPDX-License-Identifier: MIT
// What the kernel said of the target's pages at the moment it was stopped. To read memory is to change it: an absent page
// that is read gets the zero page mapped, a swapped one comes back. So residency is taken before anything is read, and what
// is absent is not read at all: it is zeros.
#include "target/target.h"

#include <string.h>

enum { STEP = 16384 };
static const uint64_t MOST_BYTES = UINT64_C(1) << 38; // of a mapping: an address sanitizer's shadow reserves terabytes

static bool worth_it(const struct as_mapping *m)
{
    return m->kind == AS_MAP_ANON && (m->prot & AS_PROT_WRITE) && !(m->prot & AS_PROT_SHARED) &&
           m->end - m->start <= MOST_BYTES;
}

static bool add_pages(struct as_target *t, uint64_t start, const uint8_t *pages, size_t count, struct as_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (pages[i] == 0)
            continue;
        uint64_t at = start + i * t->page_size;
        struct as_page_run *last = t->runs.count > 0 ? &t->runs.items[t->runs.count - 1] : NULL;
        if (last && last->end == at && last->residency == pages[i]) {
            last->end += t->page_size;
            continue;
        }
        struct as_page_run *run = as_vec_add(&t->runs, err);
        if (!run)
            return false;
        *run = (struct as_page_run){.start = at, .end = at + t->page_size, .residency = pages[i]};
    }
    return true;
}

bool as_target_capture(struct as_target *t, struct as_error *err)
{
    uint8_t pages[STEP];
    t->runs.count = 0;
    for (size_t i = 0; i < t->mappings.count; i++) {
        struct as_mapping *m = &t->mappings.items[i];
        m->captured = false;
        if (!worth_it(m))
            continue;
        for (uint64_t at = m->start; at < m->end;) {
            size_t count = (m->end - at) / t->page_size < STEP ? (size_t)((m->end - at) / t->page_size) : STEP;
            if (!t->ops->residency(t, at, at + count * t->page_size, pages, err) ||
                !add_pages(t, at, pages, count, err))
                return false;
            at += count * t->page_size;
        }
        m->captured = true;
    }
    return true;
}

// The first run that ends behind `address`.
static size_t run_from(const struct as_target *t, uint64_t address)
{
    size_t low = 0;
    size_t count = t->runs.count;
    while (count > 0) {
        size_t half = count / 2;
        if (t->runs.items[low + half].end <= address) {
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
    for (size_t i = run_from(t, start); i < t->runs.count && t->runs.items[i].start < end; i++) {
        const struct as_page_run *run = &t->runs.items[i];
        uint64_t from = run->start > start ? run->start : start;
        uint64_t to = run->end < end ? run->end : end;
        memset(pages + (from - start) / t->page_size, run->residency, (to - from) / t->page_size);
    }
}

bool as_target_residency(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err)
{
    while (start < end) {
        const struct as_mapping *m = as_target_mapping_at(t, start);
        uint64_t to = m && m->end < end ? m->end : end;
        if (m && m->captured)
            fill(t, start, to, pages);
        else if (!t->ops->residency(t, start, to, pages, err))
            return false;
        pages += (to - start) / t->page_size;
        start = to;
    }
    return true;
}

size_t as_target_read_resident(struct as_target *t, uint64_t address, void *buffer, size_t length)
{
    const struct as_mapping *m = t->stopped ? as_target_mapping_at(t, address) : NULL;
    if (!m || !m->captured || length > m->end - address)
        return t->ops->read(t, address, buffer, length);
    uint8_t *to = buffer;
    uint64_t end = address + length;
    size_t i = run_from(t, address);
    for (uint64_t at = address; at < end;) {
        uint64_t from = i < t->runs.count && t->runs.items[i].start < end ? t->runs.items[i].start : end;
        if (from > at) {
            memset(to, 0, from - at);
            to += from - at;
            at = from;
            continue;
        }
        uint64_t until = t->runs.items[i].end;
        for (i++; i < t->runs.count && t->runs.items[i].start == until; i++)
            until = t->runs.items[i].end;
        until = until < end ? until : end;
        size_t got = t->ops->read(t, at, to, until - at);
        to += got;
        if (got < until - at)
            break;
        at = until;
    }
    return (size_t)(to - (uint8_t *)buffer);
}
