// SPDX-License-Identifier: MIT
#include "support/counted.h"

#include "ledger/builder.h"

// The records that the ledger writes into (snapshot/finders_to_records.c).
static void make_records(struct counted *c, const struct as_target *t)
{
    for (size_t i = 0; i < t->mappings.count; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        struct as_mapping_record *record = as_vec_add(&c->store.mappings, NULL);
        CHECK(record);
        *record = (struct as_mapping_record){.start = m->start,
                                             .end = m->end,
                                             .prot = m->prot,
                                             .kind = m->kind,
                                             .rss = m->rss,
                                             .anonymous = m->kind == AS_MAP_ANON ? m->rss : m->anonymous};
    }
    for (size_t i = 0; i < c->f->heaps.arenas.count; i++)
        CHECK(as_vec_add(&c->store.arenas, NULL));
    for (size_t i = 0; i < t->threads.count; i++)
        CHECK(as_vec_add(&c->store.threads, NULL));
}

// The walk's chunks of one heap, which follow each other in c->f->chunks from *next on.
static void count_heap(struct as_ledger_builder *b, struct counted *c, size_t i, uint64_t brk_end, size_t *next)
{
    const struct as_heaps *h = &c->f->heaps;
    const struct as_heap *heap = &h->heaps.items[i];
    const struct as_arena *arena = &h->arenas.items[heap->arena];
    CHECK(as_ledger_begin(b, heap, arena, &h->pars.items[arena->libc_index], brk_end), "%s", b->err->text);
    size_t first = *next;
    while (*next < c->f->count && c->f->chunks[*next].address >= heap->start && c->f->chunks[*next].address < heap->end)
        ++*next;
    CHECK(as_ledger_chunks(&b->sink, c->f->chunks + first, *next - first), "%s", b->err->text);
    CHECK(as_ledger_end(b, heap->end), "%s", b->err->text);
}

struct counted *counted_all(struct mock *m, uint64_t brk_end, bool all_found)
{
    struct counted *c = calloc(1, sizeof *c);
    struct as_ledger_builder b;
    struct as_ledger_partial part = {0};
    struct as_error err = {0};
    CHECK(c);
    c->f = found_all(m);
    make_records(c, &m->target);
    CHECK(as_ledger_open(&b, &c->store, &m->target, NULL, (struct as_collecting){0}, &err), "%s", err.text);
    as_ledger_partial_open(&b, &part, true);
    size_t next = 0;
    for (size_t i = 0; i < c->f->heaps.heaps.count; i++)
        count_heap(&b, c, i, brk_end, &next);
    CHECK_EQUAL(next, c->f->count);
    for (size_t i = 0; i < c->f->heaps.mmapped.count; i++)
        CHECK(as_ledger_mmapped(&b, &c->f->heaps.mmapped.items[i]), "%s", err.text);
    CHECK(as_ledger_partial_close(&c->store, &part, &err) && as_ledger_finish(&b, all_found), "%s", err.text);
    as_ledger_close(&b);
    return c;
}

void counted_free(struct counted *c)
{
    found_free(c->f);
    as_store_free(&c->store);
    free(c);
}

const struct as_ledger *counted_arena(const struct counted *c, size_t arena)
{
    CHECK(arena < c->store.arenas.count);
    return &c->store.arenas.items[arena].ledger;
}

const struct as_ledger *counted_process(const struct counted *c)
{
    return &c->store.totals.ledger;
}

const struct as_page_record *counted_page(const struct counted *c, uint64_t address)
{
    uint32_t page_size = c->f->heaps.target->page_size;
    for (size_t i = 0; i < c->store.heaps.count; i++) {
        const struct as_heap_record *heap = &c->store.heaps.items[i];
        if (address >= heap->start && address < heap->end)
            return &c->store.pages.items[heap->first_page + (address / page_size - heap->start / page_size)];
    }
    CHECK(false, "no heap has a page at %#llx", (unsigned long long)address);
    return NULL;
}

struct as_size_record counted_size(const struct counted *c, uint64_t size)
{
    for (size_t i = 0; i < c->store.sizes.count; i++)
        if (c->store.sizes.items[i].chunk_size == size)
            return c->store.sizes.items[i];
    return (struct as_size_record){0};
}

size_t counted_warnings(const struct counted *c, enum as_warning_code code)
{
    size_t count = 0;
    for (size_t i = 0; i < c->store.warnings.count; i++)
        count += c->store.warnings.items[i].code == code;
    return count;
}
