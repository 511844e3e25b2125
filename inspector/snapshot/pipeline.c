// SPDX-License-Identifier: MIT
#include "snapshot/pipeline.h"
#include "base/sort.h"

#include <string.h>

// The end of what brk gave: as the kernel names it, or in a core (which has no such names) of the memory that holds the
// main arena's top.
static uint64_t brk_end(const struct as_target *t, const struct as_arena *arena)
{
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

static void note_fault(void *context, uint64_t address, const char *what)
{
    struct as_pipeline *p = context;
    struct as_fault *fault = as_vec_add(&p->faults, NULL);
    if (fault)
        *fault = (struct as_fault){.address = address, .arena = UINT32_MAX, .heap = UINT32_MAX, .what = what};
}

static bool count_block(struct as_pipeline *p, const struct as_trace_block *block)
{
    const struct as_arena *arena = &p->heaps->arenas.items[block->heap.arena];
    if (block->first && !as_ledger_begin(p->ledger, &block->heap, arena, &p->heaps->pars.items[arena->libc_index],
                                         arena->main ? brk_end(p->heaps->target, arena) : AS_UNKNOWN))
        return false;
    bool any = p->members.count > 0;
    if (block->first) // heaps come in any order of addresses
        p->next_member =
            any ? p->members.items + as_lower_bound(p->members.items, p->members.count, block->start) : NULL;
    const uint64_t *end = any ? p->members.items + p->members.count : NULL;
    return as_trace_replay(block, &p->ledger->sink, &p->next_member, end) &&
           (!block->last || as_ledger_end(p->ledger, block->end));
}

static void free_blocks(struct as_trace_block *blocks)
{
    while (blocks) {
        struct as_trace_block *next = blocks->next;
        as_trace_block_free(blocks);
        blocks = next;
    }
}

// Counts one delivery and frees it, whatever comes of it.
static bool take(struct as_pipeline *p, struct as_delivery *d)
{
    as_vec_free(&p->members);
    p->members = d->members;
    size_t faults = p->faults.count;
    bool ok = !p->failed;
    if (ok && d->resolve)
        ok = as_fast_resolve(&p->heaps->arenas.items[d->arena], &d->notes, &p->members, note_fault, p, p->ledger->err);
    for (size_t i = faults; i < p->faults.count; i++)
        p->faults.items[i].arena = d->arena;
    for (const struct as_trace_block *block = d->blocks; ok && block; block = block->next)
        ok = count_block(p, block);
    as_vec_free(&d->notes.links);
    free_blocks(d->blocks);
    return ok;
}

static void *work(void *argument)
{
    struct as_pipeline *p = argument;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->count == 0 && !p->closed)
            pthread_cond_wait(&p->changed, &p->lock);
        if (p->count == 0)
            break;
        struct as_delivery d = p->slots[p->first];
        pthread_mutex_unlock(&p->lock);
        bool ok = take(p, &d);
        pthread_mutex_lock(&p->lock);
        p->failed |= !ok;
        p->first = (p->first + 1) % AS_PIPELINE_SLOTS;
        p->count--;
        p->noted -= d.resolve;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

// Hands a delivery over; false when the counting has failed (as_pipeline_close says why).
static bool deliver(struct as_pipeline *p, struct as_delivery d)
{
    if (!p->threaded) {
        p->failed |= !take(p, &d);
        return !p->failed;
    }
    pthread_mutex_lock(&p->lock);
    while (p->count == AS_PIPELINE_SLOTS || (d.resolve && p->noted == AS_PIPELINE_NOTED))
        pthread_cond_wait(&p->changed, &p->lock);
    p->slots[(p->first + p->count) % AS_PIPELINE_SLOTS] = d;
    p->count++;
    p->noted += d.resolve;
    bool ok = !p->failed;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return ok;
}

static bool on_block(void *context, struct as_trace_block *block)
{
    struct as_pipeline *p = context;
    if (p->hold) {
        *p->held_end = block;
        p->held_end = &block->next;
        return true;
    }
    return deliver(p, (struct as_delivery){.blocks = block, .arena = p->arena});
}

bool as_pipeline_open(struct as_pipeline *p, struct as_heaps *h, struct as_ledger_builder *ledger, bool threaded,
                      struct as_error *err)
{
    *p = (struct as_pipeline){.heaps = h, .ledger = ledger, .threaded = threaded};
    ledger->err = &p->err;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    if (threaded && pthread_create(&p->thread, NULL, work, p) != 0) {
        p->threaded = false;
        return as_fail(err, AS_NO_MEMORY, "no thread could be started to count on");
    }
    return true;
}

bool as_pipeline_arena(struct as_pipeline *p, uint32_t arena, uint32_t *next_heap, struct as_window *w, uint64_t *torn,
                       struct as_error *err)
{
    struct as_heaps *h = p->heaps;
    struct as_trace_writer trace = {.full = on_block, .context = p, .err = err};
    struct as_fast_notes notes = as_fast_notes_for(h, arena);
    err->code = AS_OK;
    p->arena = arena;
    p->hold = notes.bins != 0;
    p->held = NULL;
    p->held_end = &p->held;
    bool ok = true;
    for (; ok && *next_heap < h->heaps.count && h->heaps.items[*next_heap].arena == arena; ++*next_heap) {
        bool had_top = h->heaps.items[*next_heap].has_top;
        ok = as_trace_begin(&trace, &h->heaps.items[*next_heap]) &&
             as_walk_heap(h, *next_heap, w, &trace.sink, &notes, torn) &&
             as_trace_end(&trace, h->heaps.items[*next_heap].end);
        if (ok && had_top && !h->heaps.items[*next_heap].has_top)
            ok = as_segments_after(h, *next_heap, w, err);
    }
    as_trace_block_free(trace.block);
    struct as_delivery d = {.blocks = p->held, .arena = arena, .notes = notes, .resolve = !notes.overflow};
    if (ok && notes.overflow)
        ok = as_fast_follow(h, arena, &d.members, err);
    if (ok && p->hold) {
        ok = deliver(p, d);
    } else {
        as_vec_free(&d.notes.links);
        as_vec_free(&d.members);
        free_blocks(p->held);
    }
    return ok;
}

bool as_pipeline_close(struct as_pipeline *p, struct as_error *err)
{
    if (p->threaded) {
        pthread_mutex_lock(&p->lock);
        p->closed = true;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
    }
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
    as_vec_free(&p->members);
    for (size_t i = 0; i < p->faults.count; i++) {
        const struct as_fault *f = &p->faults.items[i];
        as_heaps_fault(p->heaps, f->arena, f->heap, f->address, f->what);
    }
    as_vec_free(&p->faults);
    p->ledger->err = err;
    if (p->failed)
        *err = p->err;
    return !p->failed;
}
