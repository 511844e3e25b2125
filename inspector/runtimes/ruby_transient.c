// SPDX-License-Identifier: MIT
// The arena is divided into blocks of 32 KiB, each of which begins with a head: three numbers, and the next block of a list
// (transient_heap.c). In a block stand pieces, each behind a header of 16 bytes: 0xfeab, its size with the header,
// and the address of the object that has it. What is in a
// piece that no object leads to any more is left over.
#include "runtimes/ruby_transient.h"

#include "base/align.h"

#include <stdlib.h>

enum {
    BLOCKS = 1024,
    LEAST_LISTED = BLOCKS - 16, // blocks that have a next one: all but the last of each list
    MAGIC = 0xfeab,
    HEAD = 16,
    HEADER = 16,
    LEAST = 24, // bytes of a piece: one item more than fits into a slot has 32
    BATCH = 256,
    PROGRAM = 32 << 20, // bytes of address space in which the interpreter's variables lie
    DATA = 4096,        // bytes that are read at a time
};
static const uint64_t BLOCK = UINT64_C(32) << 10, ARENA = BLOCKS * (UINT64_C(32) << 10);

struct block_head {
    int16_t index, last_marked, objects, padding;
    uint64_t next;
};

struct piece_header {
    uint16_t magic, size;
    int16_t next_marked, padding;
    uint64_t object;
};

// Which block each of `count` places from `first` on says to be the next; 1: no block begins there.
static void read_heads(struct as_target *t, uint64_t first, size_t count, uint64_t *nexts)
{
    uint64_t addresses[BATCH] = {0};
    struct block_head heads[BATCH];
    bool ok[BATCH];
    for (size_t i = 0; i < count; i++)
        addresses[i] = first + i * BLOCK;
    as_target_gather(t, addresses, count, sizeof *heads, heads, sizeof *heads, ok);
    for (size_t i = 0; i < count; i++) {
        bool fits = ok[i] && heads[i].next % BLOCK == 0 && heads[i].index >= 0 && heads[i].last_marked >= -1 &&
                    heads[i].objects >= 0 && heads[i].padding == 0;
        nexts[i] = fits ? heads[i].next : 1;
    }
}

// Are the heads from here on those of an arena?
static bool is_arena(const uint64_t *nexts, uint64_t start)
{
    size_t listed = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        if (nexts[i] != 0 && nexts[i] - start >= ARENA)
            return false;
        listed += nexts[i] != 0;
    }
    return listed >= LEAST_LISTED;
}

// Searches for it in a mapping. All heads have been written, so absent pages end whatever was before.
static bool search_mapping(struct as_target *t, const struct as_mapping *m, struct as_range *arena,
                           struct as_error *err)
{
    AS_VEC(uint64_t) nexts = {0}; // of the places up to `at`, from the first that may begin an arena on
    bool ok = true;
    for (uint64_t at = as_align_up(m->start, BLOCK); ok && arena->end == 0 && at < m->end;) {
        uint64_t present = as_target_skip_absent(t, at, m->end);
        if (present - at >= t->page_size) {
            nexts.count = 0;
            at = as_align_up(present, BLOCK);
            continue;
        }
        uint64_t left = (m->end - at + BLOCK - 1) / BLOCK;
        size_t count = left < BATCH ? (size_t)left : BATCH;
        ok = as_vec_reserve(&nexts, count, err);
        if (!ok)
            break;
        read_heads(t, at, count, nexts.items + nexts.count);
        size_t before = nexts.count > BLOCKS - 1 ? nexts.count - (BLOCKS - 1) : 0;
        nexts.count += count;
        at += count * BLOCK;
        for (size_t k = before; k + BLOCKS <= nexts.count && arena->end == 0; k++) {
            uint64_t start = at - (nexts.count - k) * BLOCK;
            if (nexts.items[k] != 1 && start + ARENA <= m->end && is_arena(nexts.items + k, start))
                *arena = (struct as_range){start, start + ARENA};
        }
    }
    as_vec_free(&nexts);
    return ok;
}

bool as_ruby_find_arena(struct as_target *t, struct as_range *arena, struct as_error *err)
{
    bool ok = true;
    *arena = (struct as_range){0};
    AS_FOR_EACH_WHILE(ok && arena->end == 0, const struct as_mapping, m, &t->mappings) {
        if (m->kind == AS_MAP_ANON && m->end - m->start >= ARENA && m->rss != 0 &&
            (m->prot & (AS_PROT_READ | AS_PROT_WRITE | AS_PROT_SHARED)) == (AS_PROT_READ | AS_PROT_WRITE))
            ok = search_mapping(t, m, arena, err);
    }
    return ok;
}

static int by_address(const void *a, const void *b)
{
    const struct as_ruby_transient *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

// Keeps those that have a header.
static void read_headers(struct as_target *t, as_ruby_transient_vec *found)
{
    size_t kept = 0;
    for (size_t at = 0; at < found->count; at += BATCH) {
        uint64_t addresses[BATCH];
        struct piece_header headers[BATCH];
        bool ok[BATCH];
        size_t count = found->count - at < BATCH ? found->count - at : BATCH;
        for (size_t i = 0; i < count; i++)
            addresses[i] = found->items[at + i].address - HEADER;
        as_target_gather(t, addresses, count, sizeof *headers, headers, sizeof *headers, ok);
        for (size_t i = 0; i < count; i++) {
            struct as_ruby_transient piece = found->items[at + i];
            if (!ok[i] || headers[i].magic != MAGIC || headers[i].object != piece.object ||
                headers[i].size < HEADER + LEAST || headers[i].size % sizeof headers->object != 0 ||
                addresses[i] % BLOCK < HEAD || addresses[i] % BLOCK + headers[i].size > BLOCK)
                continue;
            piece.size = headers[i].size - HEADER;
            found->items[kept++] = piece;
        }
    }
    found->count = kept;
}

bool as_ruby_visit_transient(struct as_target *t, const struct as_range *arena, as_ruby_transient_vec *found,
                             const struct as_object_visitor *visitor)
{
    if (arena->end == 0)
        return true;
    read_headers(t, found);
    if (!visitor->region(visitor->context, arena->start, arena->end))
        return false;
    if (found->count > 0)
        qsort(found->items, found->count, sizeof *found->items, by_address);
    uint64_t end = arena->start;
    AS_FOR_EACH(const struct as_ruby_transient, piece, found) {
        if (piece->address < end + HEADER) // two objects have it
            continue;
        end = piece->address + piece->size;
        if (!visitor->block(visitor->context, &(struct as_visited_block){.address = piece->address,
                                                                         .size = piece->size,
                                                                         .region_end = arena->end,
                                                                         .type = piece->type,
                                                                         .memory = true}))
            return false;
    }
    return true;
}

// struct transient_heap, a variable of the interpreter's, has the address of the list, its size and where it ends (32 bits each), and the
// address of the arena.
uint64_t as_ruby_find_promoted(struct as_target *t, uint64_t interpreter, const struct as_range *arena)
{
    uint64_t list = 0;
    for (size_t i = as_target_mapping_from(t, interpreter); list == 0 && i < t->mappings.count; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        uint64_t words[DATA / sizeof(uint64_t)];
        if (m->start - interpreter >= PROGRAM)
            break;
        if (!(m->prot & AS_PROT_WRITE) || (m->prot & AS_PROT_SHARED))
            continue;
        for (uint64_t at = m->start; list == 0 && at < m->end;
             at += DATA - 2 * sizeof *words) { // the last two words, once more
            uint64_t size = m->end - at < DATA ? m->end - at : DATA;
            size_t count = as_target_read_resident(t, at, words, (size_t)size) / sizeof *words;
            for (size_t k = 2; list == 0 && k < count; k++)
                if (words[k] == arena->start && words[k - 1] >> 32 <= (uint32_t)words[k - 1])
                    list = words[k - 2];
        }
    }
    return list;
}
