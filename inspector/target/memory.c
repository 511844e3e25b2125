// SPDX-License-Identifier: MIT
// Reads. Of a stopped target an absent page is not read at all: it is zeros. A page that came back from swap is sent there
// again as the reading goes on: a target that lacks memory must not get all of its heap at once.
#include "target/memory.h"
#include "target/target.h"

#include <string.h>

enum {
    STEP = 16384, // pages
    RANGES = 256,
    LITTLE = 16, // pages that may come back from swap before they are sent there again
};

uint64_t as_target_skip_missing(struct as_target *t, uint64_t address)
{
    return t->ops->memory.missing_until ? t->ops->memory.missing_until(t, address) : address;
}

bool as_target_read(struct as_target *t, uint64_t address, void *buffer, size_t length)
{
    size_t direct = length;
    const void *bytes = t->ops->memory.in_place ? t->ops->memory.in_place(t, address, &direct) : NULL;
    if (bytes && direct == length) {
        memcpy(buffer, bytes, length);
        return true;
    }
    return as_target_read_resident(t, address, buffer, length) == length;
}

// One little-endian word (both architectures are).
bool as_target_read_u64(struct as_target *t, uint64_t address, uint64_t *value)
{
    return as_target_read(t, address, value, sizeof *value);
}

bool as_target_read_kept(struct as_target *t, uint64_t address, void *buffer, size_t length)
{
    return t->ops->memory.read_kept && t->ops->memory.read_kept(t, address, buffer, length) == length;
}

// Whether the page at `address` was absent when the target was stopped. Lowers *end to where the answer may change.
static bool is_absent(const struct as_target *t, uint64_t address, uint64_t *end)
{
    size_t i = as_residency_run_from(t, address);
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
    return t->ops->residency.page_out && t->counts.swap != 0 && t->counts.swap != AS_UNKNOWN;
}

static bool is_swapped(const struct as_target *t, uint64_t address)
{
    if (!has_swap(t))
        return false;
    size_t i = as_residency_run_from(t, address);
    return i < t->residency.runs.count && t->residency.runs.items[i].start <= address &&
           (t->residency.runs.items[i].residency & AS_RES_SWAPPED);
}

// Sends back to swap what of [start, end) was swapped out when it was recorded.
static void send_back(struct as_target *t, uint64_t start, uint64_t end)
{
    struct as_range ranges[RANGES];
    size_t count = 0;
    for (size_t i = as_residency_run_from(t, start);
         i < t->residency.runs.count && t->residency.runs.items[i].start < end; i++) {
        const struct as_page_run *run = &t->residency.runs.items[i];
        if (!(run->residency & AS_RES_SWAPPED))
            continue;
        ranges[count].start = run->start > start ? run->start : start;
        ranges[count++].end = run->end < end ? run->end : end;
        if (count == RANGES) {
            t->ops->residency.page_out(t, ranges, count);
            count = 0;
        }
    }
    if (count > 0)
        t->ops->residency.page_out(t, ranges, count);
}

void as_target_send_back(struct as_target *t)
{
    if (has_swap(t) && t->residency.preparing)
        t->ops->residency.page_out(t, t->residency.fetched.items, t->residency.fetched.count);
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
            if (!t->ops->residency.pages(t, at, at + count * t->page_size, pages, NULL))
                return bytes;
            for (size_t k = 0; k < count; k++)
                bytes += pages[k] & AS_RES_PRESENT ? t->page_size : 0;
            at += count * t->page_size;
        }
    }
    return bytes;
}

void as_target_ask_anew(struct as_target *t)
{
    t->residency.fetch = AS_FETCH_UNASKED;
    t->residency.no_room[0] = '\0';
}

// How much is swapped out, as far as that is known by now.
static uint64_t swapped(const struct as_target *t)
{
    uint64_t bytes = t->counts.swap != AS_UNKNOWN ? t->counts.swap : t->hint.swap;
    return bytes == AS_UNKNOWN ? 0 : bytes;
}

bool as_target_may_fetch(struct as_target *t)
{
    uint64_t bytes = swapped(t);
    if (bytes == 0 || !t->ops->residency.has_room || t->residency.fetch != AS_FETCH_UNASKED)
        return t->residency.fetch != AS_FETCH_REFUSED;
    bool ok = t->ops->residency.has_room(t, bytes, t->residency.no_room, sizeof t->residency.no_room);
    t->residency.fetch = ok ? AS_FETCH_ALLOWED : AS_FETCH_REFUSED;
    return ok;
}

// Likewise, of the next few. Others may have taken the room by now.
static bool may_fetch_more(struct as_target *t)
{
    if (!as_target_may_fetch(t))
        return false;
    if (!t->ops->residency.has_room ||
        t->ops->residency.has_room(t, 0, t->residency.no_room, sizeof t->residency.no_room))
        return true;
    t->residency.fetch = AS_FETCH_REFUSED;
    return false;
}

// Reads what is not absent, and sends back what came from swap for it, a little at a time: what is read counts against the
// target's memory cgroup, and may be too much for it.
static size_t read_present(struct as_target *t, uint64_t start, uint64_t end, uint8_t *buffer)
{
    uint64_t at = start;
    for (size_t i = has_swap(t) ? as_residency_run_from(t, start) : t->residency.runs.count; at < end;) {
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
            if (!may_fetch_more(t))
                break;
        }
        size_t got = t->ops->memory.read(t, at, buffer + (at - start), (size_t)(to - at));
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
        return t->ops->memory.read(t, address, buffer, length);
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
        for (; i + n < count && t->ops->memory.gather; n++) {
            uint64_t end = addresses[i + n] + length;
            if ((t->stop.active && is_absent(t, addresses[i + n], &end)) || is_swapped(t, addresses[i + n]))
                break;
        }
        if (n > 0)
            t->ops->memory.gather(t, addresses + i, n, length, (uint8_t *)out + i * stride, stride, ok + i);
        i += n;
        if (i < count) {
            ok[i] = as_target_read(t, addresses[i], (uint8_t *)out + i * stride, length);
            i++;
        }
    }
}
