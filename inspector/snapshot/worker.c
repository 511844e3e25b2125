// SPDX-License-Identifier: MIT
#include "base/sort.h"
#include "malloc/heaps.h"
#include "malloc/segments.h"
#include "malloc/walk.h"
#include "snapshot/steps.h"

#include <string.h>

// The end of what brk gave: as the kernel names it, or in a core (which has no such names) of the memory that holds the
// main arena's top.
static uint64_t brk_end(const struct as_target *t, const struct as_arena *arena)
{
    if (!arena->main)
        return AS_UNKNOWN;
    if (t->kind == AS_TARGET_CORE) {
        const struct as_mapping *m = as_target_mapping_at(t, arena->top + arena->top_size - 1);
        return m ? m->end : AS_UNKNOWN;
    }
    uint64_t end = AS_UNKNOWN;
    for (size_t i = 0; i < t->mappings.count; i++)
        if (strcmp(as_mapping_path(t, &t->mappings.items[i]), "[heap]") == 0)
            end = t->mappings.items[i].end;
    return end;
}

static void free_blocks(struct as_walk_log_block **blocks)
{
    while (*blocks) {
        struct as_walk_log_block *next = (*blocks)->next;
        as_walk_log_block_free(*blocks);
        *blocks = next;
    }
}

void as_arena_job_free(struct as_arena_job *s)
{
    AS_FREE_VECS(&s->heaps, heaps, spans, faults, tcache_candidates);
    AS_FREE_VECS(&s->part, heaps, own, doubts);
}

bool as_worker_open(struct as_worker *w, struct as_target *t, const struct as_ledger_builder *like,
                    const atomic_uint *busy, struct as_error *err)
{
    *w = (struct as_worker){.target = t};
    if (!as_ledger_open(&w->ledger, like->store, t, like->chunks, like->collecting, err) ||
        !as_window_open(&w->window, t, err))
        return false;
    w->window.busy = busy;
    return true;
}

bool as_worker_close(struct as_worker *w, struct as_ledger_builder *total, bool ok, struct as_error *err)
{
    total->err = err;
    ok = ok && as_ledger_join(total, &w->ledger);
    as_window_close(&w->window);
    as_ledger_close(&w->ledger);
    as_fastbin_candidates_free(&w->candidates);
    as_vec_free(&w->members);
    free_blocks(&w->held);
    free_blocks(&w->spare);
    return ok;
}

static bool hold_block(void *context, struct as_walk_log_block *block)
{
    struct as_worker *w = context;
    *w->held_end = block;
    w->held_end = &block->next;
    return true;
}

static bool begin_job(struct as_worker *w, const struct as_arena_job *s, const struct as_heap *heap)
{
    const struct as_arena *arena = &s->heaps.arenas.items[s->arena];
    return as_ledger_begin(&w->ledger, heap, arena, &s->heaps.pars.items[arena->libc_index], brk_end(w->target, arena));
}

// Walks a heap that has no fastbins, and counts it as it goes by.
static bool walk_and_count(struct as_worker *w, struct as_arena_job *s, uint32_t heap)
{
    return begin_job(w, s, &s->heaps.heaps.items[heap]) &&
           as_walk_heap(&s->heaps, heap, &w->window, &w->ledger.sink, NULL, &s->torn) &&
           as_ledger_end(&w->ledger, s->heaps.heaps.items[heap].end);
}

// Walks a heap and writes its chunks down: which of them sit in a fastbin is known only when the whole arena has been read.
static bool walk_and_hold(struct as_worker *w, struct as_arena_job *s, uint32_t heap, struct as_walk_log_writer *log)
{
    return as_walk_log_begin(log, &s->heaps.heaps.items[heap]) &&
           as_walk_heap(&s->heaps, heap, &w->window, &log->sink, &w->candidates, &s->torn) &&
           as_walk_log_end(log, s->heaps.heaps.items[heap].end);
}

static void note_fault(void *context, uint64_t address, const char *what)
{
    struct as_arena_job *s = context;
    as_fault_note(&s->heaps, s->arena, UINT32_MAX, address, what);
}

// Finds the fastbins' members.
static bool resolve(struct as_worker *w, struct as_arena_job *s, struct as_error *err)
{
    w->members.count = 0;
    return w->candidates.overflow ? as_fastbin_members_read(&s->heaps, s->arena, &w->members, err)
                                  : as_fastbin_members_resolve(&s->heaps.arenas.items[s->arena], &w->candidates,
                                                               &w->members, note_fault, s, err);
}

// Counts what was held. The blocks are to be used again.
static bool count_held(struct as_worker *w, const struct as_arena_job *s)
{
    const uint64_t *members = w->members.items;
    const uint64_t *end = members ? members + w->members.count : NULL;
    const uint64_t *member = members;
    bool ok = true;
    while (w->held) {
        struct as_walk_log_block *block = w->held;
        ok = ok && (!block->first || begin_job(w, s, &block->heap));
        if (block->first && members) // heaps come in any order of addresses
            member = members + as_lower_bound(members, w->members.count, block->start);
        ok = ok && as_walk_log_replay(block, &w->ledger.sink, &member, end) &&
             (!block->last || as_ledger_end(&w->ledger, block->end));
        w->held = block->next;
        block->next = w->spare;
        w->spare = block;
    }
    return ok;
}

bool as_worker_walk(struct as_worker *w, struct as_arena_job *s, struct as_error *err)
{
    struct as_heaps *h = &s->heaps;
    struct as_walk_log_writer log = {.full = hold_block, .context = w, .spare = &w->spare, .err = err};
    as_fastbin_candidates_begin(&w->candidates, h, s->arena);
    w->held_end = &w->held;
    w->ledger.err = err;
    err->code = AS_OK;
    as_ledger_partial_open(&w->ledger, &s->part, s->in_place);
    bool hold = w->candidates.bins != 0;
    bool ok = true;
    for (uint32_t i = 0; ok && i < h->heaps.count; i++) {
        bool had_top = h->heaps.items[i].has_top;
        ok = hold ? walk_and_hold(w, s, i, &log) : walk_and_count(w, s, i);
        if (ok && had_top && !h->heaps.items[i].has_top)
            ok = as_main_segments_find_after(h, i, &w->window, err);
    }
    as_walk_log_block_free(log.block);
    ok = ok && (!hold || (resolve(w, s, err) && count_held(w, s)));
    if (ok && s->torn == 0)
        as_bins_check(h, s->arena);
    free_blocks(&w->held); // of a walk that failed
    return ok;
}
