// SPDX-License-Identifier: MIT
#include "graph/tls.h"
#include "libc/sources.h"

#include <stdlib.h>

enum {
    WORD = sizeof(uint64_t),
    LINK_MAP_WORDS = 160,   // of glibc's struct link_map: 1.1 to 1.2 KiB
    ENTRY = 2 * WORD,       // of a dtv: where the block is, and what is to be freed
    DTV_OF_TCB = 1,         // x86-64: word of the thread's descriptor that leads to its dtv; aarch64: the first
    MOST_MODULES = 1 << 16, // in a dtv
    MOST_BLOCKS = 1 << 22,
    BATCH = 512,
};
#define MOST_BYTES (UINT64_C(1) << 32)

// Where the blocks of a module are.
struct tls_module {
    uint32_t module;
    uint64_t size;
    uint64_t offset; // from each thread pointer; AS_UNKNOWN: the dtv says
    uint64_t number; // in each dtv; 0: not known
};

struct tls_search {
    struct as_tls *tls;
    const struct as_modules *modules;
    struct as_target *target;
    struct as_error *err;
    AS_VEC(struct tls_module) list;
};

static bool has_variables(const struct as_module *m)
{
    return m->elf.tls_size != 0 && m->elf.tls_size < MOST_BYTES;
}

// The words of link_map: image, its bytes, the block's bytes, alignment, offset of the first byte, offset from the thread pointer,
// number. *found: the last two.
static bool find_in_link_map(struct as_target *t, const struct as_module *m, uint64_t found[2])
{
    uint64_t w[LINK_MAP_WORDS];
    size_t count = m->link_map != 0 ? as_target_read_resident(t, m->link_map, w, sizeof w) / WORD : 0;
    for (size_t i = 0; i + 6 < count; i++) {
        if (w[i] != m->base + m->elf.tls_start || w[i + 1] > m->elf.tls_size || w[i + 2] != m->elf.tls_size ||
            w[i + 3] != m->elf.tls_align)
            continue;
        found[0] = w[i + 5];
        found[1] = w[i + 6];
        return found[1] > 0 && found[1] < MOST_MODULES;
    }
    return false;
}

// An offset from the thread pointer that ld.so has given a module: 0 and some that are below 0 say that it has none.
static bool is_offset(const struct as_target *t, const struct as_module *m, uint64_t offset)
{
    return offset < MOST_BYTES && (t->arch == AS_ARCH_X86_64 ? offset >= m->elf.tls_size : offset >= 2 * WORD);
}

static bool note_module(struct tls_search *s, uint32_t i)
{
    const struct as_module *m = &s->modules->list.items[i];
    struct tls_module found = {.module = i, .size = m->elf.tls_size, .offset = AS_UNKNOWN};
    uint64_t words[2];
    if (!has_variables(m))
        return true;
    if (find_in_link_map(s->target, m, words)) {
        found.number = words[1];
        if (is_offset(s->target, m, words[0]))
            found.offset = s->target->arch == AS_ARCH_X86_64 ? -words[0] : words[0];
    } else if (m->is_program && !m->elf.has_interp) {
        found.offset = as_tls_block_offset(&m->elf, s->target, m->base);
    }
    if (found.number == 0 && found.offset == AS_UNKNOWN)
        return true;
    return as_vec_push(&s->list, s->err, found);
}

static bool add_block(struct tls_search *s, const struct tls_module *m, uint64_t start, bool on_demand)
{
    if (s->tls->blocks.count >= MOST_BLOCKS || start + m->size < start)
        return true;
    return as_vec_push(&s->tls->blocks, s->err, (struct as_tls_block){start, m->size, m->module, on_demand});
}

// Blocks that lie where the thread pointer says.
static bool add_static(struct tls_search *s)
{
    const struct as_target *t = s->target;
    for (size_t i = 0; i < t->threads.count; i++)
        for (size_t k = 0; k < s->list.count; k++)
            if (t->threads.items[i].tp != AS_UNKNOWN && s->list.items[k].offset != AS_UNKNOWN &&
                !add_block(s, &s->list.items[k], t->threads.items[i].tp + s->list.items[k].offset, false))
                return false;
    return true;
}

// The entries of a module in the dtvs of some threads. The word before a dtv's first entry says how many it has room for.
static bool add_from(struct tls_search *s, const struct tls_module *m, const uint64_t *dtvs, size_t count)
{
    uint64_t lengths[BATCH] = {0}, entries[BATCH][2] = {0}, places[BATCH] = {0};
    bool has_length[BATCH], has_entry[BATCH];
    for (size_t i = 0; i < count; i++)
        places[i] = dtvs[i] - ENTRY;
    as_target_gather(s->target, places, count, WORD, lengths, WORD, has_length);
    for (size_t i = 0; i < count; i++)
        places[i] = dtvs[i] + m->number * ENTRY;
    as_target_gather(s->target, places, count, ENTRY, entries, ENTRY, has_entry);
    for (size_t i = 0; i < count; i++) {
        uint64_t start = entries[i][0];
        if (has_length[i] && has_entry[i] && lengths[i] >= m->number && lengths[i] < MOST_MODULES && start != 0 &&
            start % WORD == 0 && as_target_mapping_at(s->target, start) && !add_block(s, m, start, true))
            return false;
    }
    return true;
}

// A module of which both is known: where its blocks are, and which entry of a dtv leads there. NULL: there is none.
static const struct tls_module *find_witness(const struct tls_search *s)
{
    for (size_t k = 0; k < s->list.count; k++)
        if (s->list.items[k].number != 0 && s->list.items[k].offset != AS_UNKNOWN)
            return &s->list.items[k];
    return NULL;
}

// Keeps those of some threads' dtvs that lead to the block of the witness.
static size_t keep_proven(struct tls_search *s, const struct tls_module *witness, const uint64_t *pointers,
                          uint64_t *dtvs, size_t count)
{
    uint64_t places[BATCH], blocks[BATCH];
    bool ok[BATCH];
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        places[i] = pointers[i] + (s->target->arch == AS_ARCH_X86_64 ? DTV_OF_TCB * WORD : 0);
    as_target_gather(s->target, places, count, WORD, dtvs, WORD, ok);
    for (size_t i = 0; i < count; i++)
        places[i] = ok[i] && dtvs[i] % WORD == 0 ? dtvs[i] + witness->number * ENTRY : 0;
    as_target_gather(s->target, places, count, WORD, blocks, WORD, ok);
    for (size_t i = 0; i < count; i++)
        if (ok[i] && blocks[i] == pointers[i] + witness->offset)
            dtvs[kept++] = dtvs[i];
    return kept;
}

// Blocks that were made when a thread first asked for one: of libraries that were loaded later.
static bool add_dynamic(struct tls_search *s)
{
    const struct as_target *t = s->target;
    const struct tls_module *witness = find_witness(s);
    uint64_t pointers[BATCH], dtvs[BATCH];
    for (size_t from = 0; witness && from < t->threads.count;) {
        size_t count = 0;
        for (; from < t->threads.count && count < BATCH; from++)
            if (t->threads.items[from].tp != AS_UNKNOWN)
                pointers[count++] = t->threads.items[from].tp;
        count = keep_proven(s, witness, pointers, dtvs, count);
        if (!as_vec_reserve(&s->tls->dtvs, count, s->err))
            return false;
        for (size_t i = 0; i < count; i++)
            s->tls->dtvs.items[s->tls->dtvs.count++] = dtvs[i];
        for (size_t k = 0; k < s->list.count; k++)
            if (s->list.items[k].offset == AS_UNKNOWN && !add_from(s, &s->list.items[k], dtvs, count))
                return false;
    }
    return true;
}

static int by_start(const void *a, const void *b)
{
    const struct as_tls_block *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

// No address lies in two: of a target that lies, all that overlap the one before go.
static void sort_blocks(struct as_tls *tls)
{
    size_t kept = 0;
    if (tls->blocks.count > 0)
        qsort(tls->blocks.items, tls->blocks.count, sizeof *tls->blocks.items, by_start);
    for (size_t i = 0; i < tls->blocks.count; i++) {
        const struct as_tls_block *last = kept > 0 ? &tls->blocks.items[kept - 1] : NULL;
        if (!last || tls->blocks.items[i].start >= last->start + last->size)
            tls->blocks.items[kept++] = tls->blocks.items[i];
    }
    tls->blocks.count = kept;
}

bool as_tls_find(struct as_tls *tls, const struct as_modules *modules, struct as_error *err)
{
    struct tls_search s = {.tls = tls, .modules = modules, .target = modules->target, .err = err};
    *tls = (struct as_tls){0};
    bool ok = true;
    for (uint32_t i = 0; ok && i < modules->list.count; i++)
        ok = note_module(&s, i);
    ok = ok && add_static(&s) && add_dynamic(&s);
    sort_blocks(tls);
    as_vec_free(&s.list);
    return ok;
}

void as_tls_free(struct as_tls *tls)
{
    AS_FREE_VECS(tls, blocks, dtvs);
}

const struct as_tls_block *as_tls_at(const struct as_tls *tls, uint64_t address)
{
    size_t behind = AS_PARTITION_POINT(0, tls->blocks.count, i, tls->blocks.items[i].start <= address);
    const struct as_tls_block *b = behind > 0 ? &tls->blocks.items[behind - 1] : NULL;
    return b && address - b->start < b->size ? b : NULL;
}
