// SPDX-License-Identifier: MIT
// Which pages of a core were resident. The kernel leaves a hole in the file where a private anonymous page was absent
// or the zero page, and writes every other one: so the holes tell, as long as this is the kernel's own file with the
// holes that it made.
//
// They can be lost (a copy, a pipe, an archive): every absent page is stored as zeros then. And they can be too many:
// tools that put zeros into holes (plain cp does) do it with resident pages full of zeros as well. So we search for a
// page of zeros that is stored: where there is one among holes, nobody made holes of zeros; where there is one and no
// hole at all, holes were probably lost, and nothing is known.
#include "target/core/core.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// How much data is searched for a stored page of zeros: a second's worth, at most.
#define MAX_SEARCHED (UINT64_C(1) << 30)
enum { BLOCK = 1 << 20 };

static bool holes_are_known(const struct as_target *t, const struct as_mapping *m)
{
    // The kernel writes pages of files and shared memory that the process itself did not have; nothing of MAP_HUGETLB memory (anonymous,
    // but with a name) is in Rss.
    return m->kind == AS_MAP_ANON && as_mapping_path(t, m)[0] == '\0';
}

// The next stretch of data in [at, end) of the file: *data to *hole. False: there is none, only hole.
static bool next_data(const struct as_core *c, uint64_t at, uint64_t end, uint64_t *data, uint64_t *hole)
{
    off_t found = lseek(c->fd, (off_t)at, SEEK_DATA);
    if (found < 0 || (uint64_t)found >= end)
        return false;
    *data = (uint64_t)found;
    found = lseek(c->fd, found, SEEK_HOLE);
    *hole = found < 0 || (uint64_t)found > end ? end : (uint64_t)found;
    return *hole > *data;
}

struct evidence {
    bool holes; // is there a hole?
    bool zeros; // is there a page of zeros that is stored?
    uint64_t searched;
};

static bool search_zeros(struct as_core *c, uint64_t at, uint64_t end, struct evidence *found, struct as_error *err)
{
    uint32_t page = c->base.page_size;
    c->scratch.count = 0;
    if (!as_vec_reserve(&c->scratch, BLOCK, err))
        return false;
    while (at < end && !found->zeros && found->searched < MAX_SEARCHED) {
        size_t want = end - at < BLOCK ? (size_t)(end - at) : BLOCK;
        size_t got = as_core_pread(c, at, c->scratch.items, want);
        const char *bytes = c->scratch.items;
        for (size_t i = 0; i + page <= got && !found->zeros; i += page)
            found->zeros = bytes[i] == 0 && memcmp(bytes + i, bytes + i + 1, page - 1) == 0;
        if (got < want)
            break;
        at += want;
        found->searched += want;
    }
    return true;
}

static bool gather_evidence(struct as_core *c, struct evidence *found, struct as_error *err)
{
    const struct as_target *t = &c->base;
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings) {
        const struct as_segment *s = holes_are_known(t, m) ? as_core_segment_at(c, m->start) : NULL;
        if (!s)
            continue;
        uint64_t from = m->start - s->start;
        uint64_t to = m->end - s->start < as_core_stored(c, s) ? m->end - s->start : as_core_stored(c, s);
        uint64_t at = s->offset + from;
        uint64_t end = s->offset + to;
        for (uint64_t data, hole; from < to && at < end; at = hole) {
            if (!next_data(c, at, end, &data, &hole)) {
                found->holes = true;
                break;
            }
            found->holes |= data > at;
            // Data begins and ends at a block of the file system: search whole pages of memory within.
            uint64_t page = t->page_size;
            uint64_t first = s->offset + (data - s->offset + page - 1) / page * page;
            if (!search_zeros(c, first, hole, found, err))
                return false;
            if (found->holes && found->zeros)
                return true;
        }
    }
    return true;
}

static void remark(struct as_core *c, const char *text)
{
    size_t used = strlen(c->note);
    snprintf(c->note + used, sizeof c->note - used, "%s%s", used ? "; " : "", text);
    c->base.residency.note = c->note;
}

bool as_core_find_residency(struct as_core *c, struct as_error *err)
{
    c->base.residency.known = false;
    if (c->expected > c->file_size) {
        char text[128];
        snprintf(text, sizeof text, "the core file is truncated: %llu bytes of %llu are missing",
                 (unsigned long long)(c->expected - c->file_size), (unsigned long long)c->expected);
        remark(c, text);
    }
    // The kernel begins its notes with the thread that died (3.7 and later with these three), gdb with the process.
    bool by_kernel = c->notes >= 3 && c->first_notes[0] == NT_PRSTATUS && c->first_notes[1] == NT_PRPSINFO &&
                     c->first_notes[2] == NT_SIGINFO && c->page_aligned && !c->by_gdb;
    if (!by_kernel) {
        remark(c, c->notes == 0
                      ? "residency is unknown: the core's notes are missing"
                      : "residency is unknown: the core was not written by the kernel (but by gcore, for example)");
        return true;
    }
    struct evidence found = {0};
    if (!gather_evidence(c, &found, err))
        return false;
    bool searched_all = found.searched < MAX_SEARCHED;
    if (!found.holes && (found.zeros || !searched_all)) {
        remark(c, "residency is unknown: the core file has no holes (any more); tar -S copies a core with the holes "
                  "that the kernel made");
        return true;
    }
    c->base.residency.known = true;
    remark(c, "pages that were swapped out count as resident: the kernel reads them back as it writes a core");
    if (found.holes && !found.zeros)
        remark(c, "the core stores no page of zeros: if a tool that puts zeros into holes has copied it (cp does, tar "
                  "-S does not), resident pages of zeros count as absent");
    if (found.holes && c->block_size > c->base.page_size)
        remark(c, "the file system's blocks are larger than a page: absent pages beside resident ones may count as "
                  "resident");
    return true;
}

static void mark(const struct as_core *c, const struct as_segment *s, uint64_t start, uint64_t end, uint8_t *pages)
{
    uint64_t size = c->base.page_size;
    uint64_t stored_end = s->start + as_core_stored(c, s) / size * size;
    if (stored_end < end) {
        uint64_t from = stored_end > start ? stored_end : start;
        memset(pages + (from - start) / size, AS_RES_UNKNOWN, (end - from) / size);
        end = from;
    }
    memset(pages, 0, (end - start) / size);
    uint64_t at = s->offset + (start - s->start);
    uint64_t stop = s->offset + (end - s->start);
    for (uint64_t first = at, data, hole; at < stop && next_data(c, at, stop, &data, &hole); at = hole) {
        size_t page = (data - first) / size;
        memset(pages + page, AS_RES_PRESENT, (hole - first + size - 1) / size - page);
    }
}

bool as_core_residency(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err)
{
    struct as_core *c = as_core_of(t);
    uint64_t size = t->page_size;
    if (start % size || end % size || end < start)
        return as_fail(err, AS_INTERNAL, "an invalid range of pages: %#llx-%#llx", (unsigned long long)start,
                       (unsigned long long)end);
    memset(pages, 0, (end - start) / size);
    for (size_t i = as_target_mapping_from(t, start); i < t->mappings.count && t->mappings.items[i].start < end; ++i) {
        const struct as_mapping *m = &t->mappings.items[i];
        uint64_t from = m->start > start ? m->start : start;
        uint64_t to = m->end < end ? m->end : end;
        if (m->kind == AS_MAP_SPECIAL)
            continue;
        const struct as_segment *s = as_core_segment_at(c, from);
        uint8_t *out = pages + (from - start) / size;
        if (!t->residency.known || !s || !holes_are_known(t, m))
            memset(out, AS_RES_UNKNOWN, (to - from) / size);
        else
            mark(c, s, from, to, out);
    }
    return true;
}

// Where the next data of a segment lies, from `start` to `end`, all of which is stored.
static uint64_t next_stored(const struct as_core *c, const struct as_segment *s, uint64_t start, uint64_t end)
{
    uint64_t data;
    uint64_t hole;
    if (!next_data(c, s->offset + (start - s->start), s->offset + (end - s->start), &data, &hole))
        return end;
    uint64_t at = s->start + (data - s->offset) / c->base.page_size * c->base.page_size;
    return at > start ? at : start;
}

uint64_t as_core_absent_until(struct as_target *t, uint64_t start, uint64_t end)
{
    struct as_core *c = as_core_of(t);
    for (size_t i = as_target_mapping_from(t, start); start < end; ++i) {
        const struct as_mapping *m = &t->mappings.items[i];
        if (i == t->mappings.count || m->start >= end)
            return end;
        start = m->start > start ? m->start : start;
        uint64_t stop = m->end < end ? m->end : end;
        const struct as_segment *s = holes_are_known(t, m) ? as_core_segment_at(c, start) : NULL;
        uint64_t stored = s ? s->start + as_core_stored(c, s) / t->page_size * t->page_size : 0;
        if (start >= stored) // beyond what the file has of a segment nothing is known (as_target_ops.missing_until)
            return start;
        start = next_stored(c, s, start, stop < stored ? stop : stored);
        if (start < stop)
            return start;
    }
    return end;
}
