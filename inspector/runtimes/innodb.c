// SPDX-License-Identifier: MIT
// InnoDB's memory by structure, as MariaDB 10.11.19 and 11.8.6 have it (seen in their memory; tested on them).
//
// The buffer pool consists of extents of 8 MiB. An extent begins with an array of descriptors, one for each page of the database
// that the rest of the extent has room for, and each descriptor has the address of its page. An extent is believed if all of its
// descriptors, hundreds of them at equal distances, name the extent's pages one after the other.
//
// The log has two buffers of one size. The program's variable for the log (log_sys) has this size, both addresses, and behind them the
// mark of the log's format.
#include "runtimes/finder.h"

#include "base/align.h"
#include "runtimes/elf_object.h"
#include "runtimes/regions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    EXTENT = 8 << 20,
    MOST_DESCRIPTORS = 1 << 20, // bytes of an extent's descriptors
    HEAD_WORDS = 64,            // of the first descriptors that are inspected
    LEAST_PAGE = 4096,
    LARGEST_PAGE = 65536,
    LEAST_PAGES = 16, // of an extent
    WORD = sizeof(uint64_t),
    STEP = 1 << 16,            // words of the program's variables that are read in one go
    SIZE_BEFORE = 5,           // words before the first buffer's address: the size, in the lower half
    SECOND_AT = 4,             // words from the first buffer's address: the second one's
    FORMAT_AT = 14,            // likewise: the mark of the log's format, in the upper half
    LATER_FORMAT_AT = 16,      // likewise, in 11.8
    FORMAT = 0x50687973,       // "Phys": from 10.8 on
    LEAST_BUFFER = 256 << 10,  // bytes of a buffer of the log
    MOST_VARIABLES = 64 << 20, // bytes of variables that are inspected
    EVIDENCE = 256,
};

struct innodb_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    AS_VEC(uint8_t) buffer;
    AS_VEC(struct as_range) pool; // by address
    uint64_t pages;               // of the buffer pool
    uint64_t page_size;
};

static uint64_t word_at(const struct innodb_search *s, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, s->buffer.items + offset, sizeof word);
    return word;
}

static bool read_bytes(struct innodb_search *s, uint64_t address, size_t length)
{
    return as_vec_reserve(&s->buffer, length, s->err) && as_target_read(s->target, address, s->buffer.items, length);
}

// Do the descriptors, `stride` bytes each, have the addresses of all pages from `first` to the extent's end at `offset`?
static uint64_t all_named(const struct innodb_search *s, uint64_t extent, uint64_t first, uint64_t page,
                          uint64_t offset, uint64_t stride)
{
    uint64_t count = (extent + EXTENT - first) / page;
    if (count < LEAST_PAGES || offset + count * stride > first - extent)
        return 0;
    for (uint64_t i = 0; i < count; i++)
        if (word_at(s, offset + i * stride) != first + i * page)
            return 0;
    return count;
}

// As all_named, with the stride that leads to the second page.
static uint64_t pages_from(struct innodb_search *s, uint64_t extent, uint64_t offset)
{
    uint64_t first = word_at(s, offset);
    if (first - extent > MOST_DESCRIPTORS || !read_bytes(s, extent, first - extent))
        return 0;
    for (uint64_t next = offset + WORD; next < HEAD_WORDS * WORD; next += WORD) {
        uint64_t page = word_at(s, next) - first;
        bool possible = page >= LEAST_PAGE && page <= LARGEST_PAGE && (page & (page - 1)) == 0;
        uint64_t count = possible ? all_named(s, extent, first, page, offset, next - offset) : 0;
        if (count > 0) {
            s->page_size = page;
            return count;
        }
    }
    return 0;
}

// The pages of the extent at `at`; 0: there is none.
static uint64_t pages_of_extent(struct innodb_search *s, uint64_t at)
{
    if (!read_bytes(s, at, HEAD_WORDS * WORD))
        return 0;
    for (uint64_t offset = 0; offset < HEAD_WORDS * WORD / 2; offset += WORD) {
        uint64_t word = word_at(s, offset);
        if (word <= at + HEAD_WORDS * WORD || word - at >= EXTENT || word % LEAST_PAGE != 0)
            continue;
        uint64_t count = pages_from(s, at, offset);
        if (count > 0)
            return count;
    }
    return 0;
}

static bool add_extent(struct innodb_search *s, uint64_t at)
{
    if (s->pool.count > 0 && s->pool.items[s->pool.count - 1].end == at) {
        s->pool.items[s->pool.count - 1].end = at + EXTENT;
        return true;
    }
    return as_vec_push(&s->pool, s->err, (struct as_range){at, at + EXTENT});
}

static bool find_pool(struct innodb_search *s)
{
    struct as_target *t = s->target;
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings) {
        if (!as_is_runtime_memory(m))
            continue;
        uint64_t at = as_align_up(m->start, EXTENT);
        while (at >= m->start && at < m->end && m->end - at >= EXTENT) {
            uint64_t count = pages_of_extent(s, at);
            s->pages += count;
            if (count > 0 && !add_extent(s, at))
                return false;
            at += EXTENT;
            if (at < m->end)
                at = as_align_up(as_target_skip_absent(t, at, m->end), EXTENT);
        }
    }
    return true;
}

// From an address of private anonymous memory to the end of the mapping, or to the buffer pool.
static uint64_t room_at(const struct innodb_search *s, uint64_t address)
{
    const struct as_mapping *m = as_target_mapping_at(s->target, address);
    if (address == 0 || address % LEAST_PAGE != 0 || !as_is_runtime_memory(m))
        return 0;
    uint64_t end = m->end;
    for (size_t i = 0; i < s->pool.count; i++) {
        if (address >= s->pool.items[i].start && address < s->pool.items[i].end)
            return 0;
        if (s->pool.items[i].start > address && s->pool.items[i].start < end)
            end = s->pool.items[i].start;
    }
    return end - address;
}

struct log_buffers {
    uint64_t first, second, size;
};

// Do the words at `words` resemble the log's variable? Then its buffers.
static bool is_log(const struct innodb_search *s, const uint64_t *words, struct log_buffers *log)
{
    *log = (struct log_buffers){words[0], words[SECOND_AT], (uint32_t)words[-SIZE_BEFORE]};
    uint64_t distance = log->first < log->second ? log->second - log->first : log->first - log->second;
    return log->size >= LEAST_BUFFER && log->size % LEAST_PAGE == 0 && distance >= log->size &&
           room_at(s, log->first) >= log->size && room_at(s, log->second) >= log->size;
}

static bool is_program(const struct as_target *t, const struct as_mapping *m)
{
    const char *slash = strrchr(as_mapping_path(t, m), '/');
    return as_mapping_of_file(m) && slash && strcmp(slash, "/mariadbd") == 0;
}

// Searches words of the program's variables. True: one of them is the log's.
static bool has_log(const struct innodb_search *s, const uint64_t *words, size_t count, struct log_buffers *log)
{
    for (size_t mark = LATER_FORMAT_AT + SIZE_BEFORE; mark < count; mark++)
        if (words[mark] >> 32 == FORMAT &&
            (is_log(s, words + mark - FORMAT_AT, log) || is_log(s, words + mark - LATER_FORMAT_AT, log)))
            return true;
    return false;
}

// Searches [start, end), in parts that overlap by the length of what is searched for.
static bool search_range(struct innodb_search *s, uint64_t start, uint64_t end, struct log_buffers *log)
{
    for (uint64_t at = start; at < end; at += (STEP - LATER_FORMAT_AT - SIZE_BEFORE) * WORD) {
        size_t length = end - at < STEP * WORD ? end - at : STEP * WORD;
        if (!as_vec_reserve(&s->buffer, STEP * WORD, s->err))
            return false;
        length = as_target_read_resident(s->target, at, s->buffer.items, length);
        if (has_log(s, (const uint64_t *)(const void *)s->buffer.items, length / WORD, log))
            return true;
    }
    return false;
}

// Searches the program's variables: its writable mappings, and what follows them without a gap (.bss).
static bool search_variables(struct innodb_search *s, struct log_buffers *log)
{
    const struct as_target *t = s->target;
    uint64_t end = 0, left = MOST_VARIABLES;
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings) {
        bool follows = m->start == end && as_is_runtime_memory(m);
        if (!is_program(t, m) && !follows)
            continue;
        end = m->end;
        if (!(m->prot & AS_PROT_WRITE) || m->end - m->start > left)
            continue;
        left -= m->end - m->start;
        if (search_range(s, m->start, m->end, log))
            return true;
    }
    return false;
}

// Adds a record, located. Its index, or UINT32_MAX: our memory ran out.
static uint32_t add_record(struct innodb_search *s, uint32_t kind, const char *evidence)
{
    uint32_t runtime = as_runtime_add(s->store, kind, AS_ROW_other_malloc, s->err);
    if (runtime == UINT32_MAX)
        return runtime;
    struct as_runtime_record *record = &s->store->runtimes.items[runtime];
    record->state = AS_REGIONS_FOUND;
    record->evidence = as_strings_add(&s->store->strings, evidence, EVIDENCE);
    record->releases = as_strings_add(&s->store->strings, "10.11, 11.8", EVIDENCE);
    record->committed = 0;
    return runtime;
}

static bool add_region(struct innodb_search *s, uint32_t runtime, uint64_t start, uint64_t end)
{
    uint64_t bytes = 0;
    bool ok = as_regions_add(s->target, s->store, runtime, start, end, &bytes, s->err);
    s->store->runtimes.items[runtime].committed += bytes;
    return ok;
}

static bool add_pool(struct innodb_search *s)
{
    char text[EVIDENCE];
    snprintf(text, sizeof text,
             "all descriptors in its extents of 8 MiB name their pages: %" PRIu64 " pages of %" PRIu64 " bytes",
             s->pages, s->page_size);
    uint32_t runtime = add_record(s, AS_RUNTIME_INNODB_POOL, text);
    for (size_t i = 0; i < s->pool.count && runtime != UINT32_MAX; i++)
        if (!add_region(s, runtime, s->pool.items[i].start, s->pool.items[i].end))
            return false;
    return runtime != UINT32_MAX;
}

static bool add_log(struct innodb_search *s, const struct log_buffers *log)
{
    char text[EVIDENCE];
    snprintf(text, sizeof text,
             "mariadbd's variable for the log has both addresses and the size, %" PRIu64 " bytes each", log->size);
    size_t first = s->store->regions.count;
    uint32_t runtime = add_record(s, AS_RUNTIME_INNODB_LOG, text);
    return runtime != UINT32_MAX && add_region(s, runtime, log->first, log->first + log->size) &&
           add_region(s, runtime, log->second, log->second + log->size) && as_regions_sort(s->store, first, s->err);
}

bool as_innodb_find(const struct as_finder_input *in)
{
    if (!as_runtime_object_mapped(in->target, "mariadbd"))
        return true;
    struct innodb_search s = {.target = in->target, .store = in->store, .err = in->err};
    struct log_buffers log;
    bool ok = find_pool(&s);
    if (ok && s.pool.count > 0)
        ok = add_pool(&s) && (!search_variables(&s, &log) || add_log(&s, &log));
    AS_FREE_VECS(&s, buffer, pool);
    return ok;
}
