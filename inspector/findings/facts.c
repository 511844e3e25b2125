// SPDX-License-Identifier: MIT
#include "findings/facts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SHARE 0.03  // of Rss: waste that is less is not worth a sentence
enum { EMPTY = 8 }; // one part in so many of an arena's memory: where less is in use, it is nearly empty

enum as_idle as_arena_idle(const struct as_arena_record *a)
{
    uint64_t used = a->ledger.in_use, free = as_ledger_sum_up(&a->ledger).free, all = as_add(used, free);
    if (a->flags & AS_ARENA_MAIN)
        return AS_NOT_IDLE;
    if (a->attached_threads == 0)
        return AS_NO_THREAD;
    return all != AS_UNKNOWN && free >= AS_MIB && used <= all / EMPTY ? AS_NEARLY_EMPTY : AS_NOT_IDLE;
}

static void count_idle(struct as_facts *f)
{
    AS_FOR_ITEMS(const struct as_arena_record, a, f->view->arenas, f->view->arena_count) {
        enum as_idle idle = as_arena_idle(a);
        if (idle == AS_NOT_IDLE)
            continue;
        f->idle++;
        f->no_thread += idle == AS_NO_THREAD;
        f->idle_free = as_add(f->idle_free, as_ledger_sum_up(&a->ledger).free);
    }
}

static int largest_row(const struct as_ledger *rows)
{
    int largest = -1;
    for (int row = 0; row < AS_ROW_COUNT; row++)
        if (as_rows[row].kind == AS_ROW_RESIDENT && as_any(as_row_value(rows, row)) &&
            (largest < 0 || as_row_value(rows, row) > as_row_value(rows, largest)))
            largest = row;
    return largest;
}

static uint64_t least_of(uint64_t whole)
{
    uint64_t least = (uint64_t)(SHARE * (double)whole);
    least += (double)least < SHARE * (double)whole;
    return least > AS_MIB ? least : AS_MIB;
}

struct as_facts as_facts_of(const struct as_view *v)
{
    const struct as_meta_record *m = v->meta;
    struct as_facts f = {
        .view = v,
        .rows = &v->totals->ledger,
        .chunks = &v->totals->chunks,
        .sums = as_ledger_sum_up(&v->totals->ledger),
        .largest_row = largest_row(&v->totals->ledger),
        .is_glibc = m->malloc_kind == AS_MALLOC_GLIBC,
        .has_ruby = m->ruby == AS_RUBY_FOUND ||
                    (v->totals->ledger.ruby_pages == AS_UNKNOWN && m->flags & AS_META_RESIDENCY_KNOWN),
    };
    f.whole = m->rss != AS_UNKNOWN ? m->rss : as_known(f.sums.known);
    f.least = least_of(f.whole);
    f.allocated = as_add(f.chunks->in_use.bytes, f.chunks->mmapped.bytes);
    if (as_any(m->torn_chunks))
        f.doubt = "part of the heap could not be read and is not counted";
    else if (m->mode == AS_MODE_LIVE)
        f.doubt = "the process ran on while it was read";
    count_idle(&f);
    return f;
}

void as_say(struct as_finding *f, const char *format, ...)
{
    size_t used = strlen(f->sentence);
    va_list args;
    va_start(args, format);
    vsnprintf(f->sentence + used, sizeof f->sentence - used, format, args);
    va_end(args);
}
