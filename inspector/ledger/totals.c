// SPDX-License-Identifier: MIT
// The whole process: the arenas' rows summed, the memory that is not malloc's, and whether the rows add up to Rss.
#include "base/sort.h"
#include "ledger/ledger.h"

#include <inttypes.h>
#include <string.h>

static void add_to_total(uint64_t *to, uint64_t value)
{
    *to = as_add(*to, value);
}

void as_ledger_add(struct as_ledger *to, const struct as_ledger *from)
{
    for (int row = 0; row < AS_ROW_COUNT; row++)
        add_to_total(as_row_of(to, row), ((const uint64_t *)from)[row]);
}

uint64_t as_ledger_resident(const struct as_ledger *rows)
{
    uint64_t sum = 0;
    for (int row = 0; row < AS_ROW_COUNT; row++) {
        uint64_t value = as_row_value(rows, row);
        // Where a runtime's memory is not known, the rows that hold it count it.
        bool elsewhere = as_rows[row].owner == AS_ROW_OF_RUNTIME && value == AS_UNKNOWN;
        if (as_rows[row].kind == AS_ROW_RESIDENT && !elsewhere)
            add_to_total(&sum, value);
    }
    return sum;
}

// Where residency is not known of all pages, no row of malloc's is.
static void forget_rows(struct as_ledger *l)
{
    for (int row = 0; row < AS_ROW_COUNT; row++)
        if (as_rows[row].owner != AS_ROW_OF_PROCESS)
            *as_row_of(l, row) = AS_UNKNOWN;
}

// Adds the records of one size. There is room for the first. False: our memory ran out.
static bool add_size(struct as_ledger_builder *b, const struct as_size_count *size)
{
    const struct as_size_record *r = &size->record;
    if (r->in_use || r->tcache || r->fastbin || r->binned)
        b->store->sizes.items[b->store->sizes.count++] = *r;
    if (size->places == 0 || !b->target->residency.known)
        return true;
    return as_vec_push(&b->store->sharers, b->err,
                       (struct as_sharer_record){r->chunk_size, size->places, size->shared_stranded});
}

// Adds the classes of pages with stranded bytes, where it is known which pages are resident.
static bool finish_fill(struct as_ledger_builder *b)
{
    for (int i = 0; i < AS_FILL_CHUNKS && b->target->residency.known; i++)
        for (int k = 0; k < AS_FILL_EIGHTHS; k++) {
            if (b->fill[i][k].pages == 0)
                continue;
            if (!as_vec_push(&b->store->page_fill, b->err, b->fill[i][k]))
                return false;
        }
    return true;
}

static bool finish_sizes(struct as_ledger_builder *b)
{
    struct as_store *s = b->store;
    AS_VEC(uint64_t) large = {0};
    if (!as_vec_reserve(&large, b->sizes.large.count, b->err) ||
        !as_vec_reserve(&s->sizes, AS_SIZES_DIRECT + b->sizes.large.count, b->err)) {
        as_vec_free(&large);
        return false;
    }
    bool ok = true;
    for (size_t i = 0; i < AS_SIZES_DIRECT; i++) {
        struct as_size_count size = b->sizes.direct[i];
        size.record.chunk_size = i * AS_UNIT;
        ok = ok && add_size(b, &size);
    }
    for (size_t i = 0; i < b->sizes.slots; i++)
        if (b->sizes.large.items[i].record.chunk_size != 0)
            large.items[large.count++] = b->sizes.large.items[i].record.chunk_size;
    ok = ok && as_sort_u64(large.items, large.count, b->err);
    for (size_t i = 0; ok && i < large.count; i++) {
        const struct as_size_count *size = as_sizes_large(&b->sizes, large.items[i]);
        ok = !size || add_size(b, size);
    }
    as_vec_free(&large);
    for (size_t i = 0; !b->target->residency.known && i < s->sizes.count; i++)
        if (s->sizes.items[i].pin_count != 0)
            s->sizes.items[i].pin_pages = s->sizes.items[i].pin_stranded = AS_UNKNOWN;
    return ok;
}

// Why more of a mapping is resident than the kernel counts.
static const char *why_more(const struct as_mapping *m)
{
    if (m->kind == AS_MAP_ANON && (m->prot & (AS_PROT_READ | AS_PROT_WRITE | AS_PROT_EXEC)) == 0)
        return "some kernels (seen: Linux 6.1) leave huge pages of memory that may not be accessed out of their counts";
    return "the mapping changed during the snapshot, or its zero pages cannot be told apart";
}

// Puts what a mapping holds besides malloc's memory into its rows.
static void count_mapping(struct as_ledger_builder *b, const struct as_mapping *m, struct as_mapping_record *record,
                          bool all_found)
{
    struct as_ledger *l = &b->store->totals.ledger;
    uint64_t anonymous = record->anonymous;
    if (anonymous == AS_UNKNOWN) {
        add_to_total(&l->other_file, AS_UNKNOWN);
        add_to_total(&l->other_anon, AS_UNKNOWN);
        add_to_total(&l->file_copies, AS_UNKNOWN);
        add_to_total(&l->other_shmem, AS_UNKNOWN);
        add_to_total(&l->stacks, AS_UNKNOWN);
        return;
    }
    if (record->malloc_rss > anonymous) {
        as_store_warn(b->store, AS_WARN_SUM, UINT32_MAX, UINT32_MAX, m->start,
                      "in the mapping at 0x%" PRIx64 ", %" PRIu64
                      " bytes were found resident and the kernel counts %" PRIu64 ": %s",
                      m->start, record->malloc_rss, anonymous, why_more(m));
        return;
    }
    uint64_t rest = anonymous - record->malloc_rss;
    // A clone has no pages of files: where they could not be counted in the target either, only the private ones are known.
    uint64_t others = m->rss == AS_UNKNOWN ? AS_UNKNOWN : m->rss - anonymous;
    add_to_total(m->kind == AS_MAP_SHMEM ? &l->other_shmem : &l->other_file, others);
    if (record->role == AS_ROLE_STACK) {
        add_to_total(&l->stacks, rest);
    } else if (m->kind != AS_MAP_ANON) {
        add_to_total(&l->file_copies, rest);
    } else if (!all_found) {
        record->role = AS_ROLE_UNKNOWN;
        add_to_total(&l->unknown, rest);
    } else {
        add_to_total(&l->other_anon, rest);
    }
}

// True if some thread's stack pointer is not known, so that stacks cannot be told from other anonymous memory.
static bool stacks_unknown(const struct as_target *t)
{
    for (size_t i = 0; i < t->threads.count; i++)
        if (t->threads.items[i].sp == AS_UNKNOWN)
            return t->threads.count > 1;
    return false;
}

bool as_ledger_finish(struct as_ledger_builder *b, bool all_found)
{
    struct as_store *s = b->store;
    struct as_target *t = b->target;
    struct as_totals_record *totals = &s->totals;
    if (!finish_sizes(b) || !finish_fill(b))
        return false;
    if (totals->ledger.unknown == AS_UNKNOWN)
        forget_rows(&s->totals.ledger);
    AS_FOR_EACH(struct as_arena_record, arena, &s->arenas) {
        if (arena->ledger.unknown == AS_UNKNOWN || !t->residency.known)
            forget_rows(&arena->ledger);
        as_ledger_add(&totals->ledger, &arena->ledger);
        struct as_tally *to = (struct as_tally *)&totals->chunks;
        const struct as_tally *from = (const struct as_tally *)&arena->chunks;
        for (size_t k = 0; k < sizeof totals->chunks / sizeof *to; k++) {
            to[k].count += from[k].count;
            to[k].bytes += from[k].bytes;
        }
    }
    if (!t->residency.known)
        forget_rows(&s->totals.ledger);
    if (!as_ledger_find_stacks(b))
        return false;
    for (size_t i = 0; i < t->mappings.count; i++)
        count_mapping(b, &t->mappings.items[i], &s->mappings.items[i], all_found);
    if (!all_found && t->counts.rss == AS_UNKNOWN) { // nothing to take the rest from
        totals->ledger.unknown = AS_UNKNOWN;
        if (s->arenas.count == 0)
            forget_rows(&s->totals.ledger);
    }
    if (!all_found && s->arenas.count == 0)
        memset(&totals->chunks, 0xff, sizeof totals->chunks); // AS_UNKNOWN
    if (stacks_unknown(t) && totals->ledger.stacks != AS_UNKNOWN) {
        // Which anonymous mappings are stacks cannot be told: neither row is known, only their sum.
        add_to_total(&totals->ledger.unknown, totals->ledger.stacks);
        add_to_total(&totals->ledger.unknown, totals->ledger.other_anon);
        totals->ledger.stacks = totals->ledger.other_anon = AS_UNKNOWN;
    }
    as_ledger_runtimes_close(b);
    uint64_t sum = as_ledger_resident(&s->totals.ledger);
    if (sum != AS_UNKNOWN && t->counts.rss != AS_UNKNOWN && sum != t->counts.rss)
        as_store_warn(s, AS_WARN_SUM, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "the ledger's rows add up to %" PRIu64 " bytes, the kernel's Rss to %" PRIu64, sum,
                      t->counts.rss);
    return true;
}
