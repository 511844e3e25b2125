// SPDX-License-Identifier: MIT
// From the outermost frame inwards: the outer ones are mostly those of the stack before, and are neither named nor searched for again.
#include "recorder/merge_frames.h"
#include "recorder/interpreters.h"

#include <string.h>

struct merging {
    const struct as_recorder_unwound *u;
    const struct as_unwind_module *module; // of the frame before
    uint64_t *frames;
    size_t count;
    size_t taken;  // interpreted frames
    uint64_t hash; // of these
    bool runs;     // the C function before runs interpreted ones
};

// C functions are counted from the outermost one.
static size_t index_of(const struct merging *m, size_t function)
{
    return m->u->count - function;
}

static uintptr_t pc_of(const struct merging *m, size_t function)
{
    size_t i = index_of(m, function);
    return i > 0 ? m->u->pcs[i - 1] : m->u->pc;
}

// The next interpreted frame, inwards; NULL: all are taken.
static inline const struct as_inner_frame *next_frame_of(const struct merging *m)
{
    const struct as_inner_walk *walk = m->u->walk;
    return walk && m->taken < walk->count ? &walk->frames[walk->count - 1 - m->taken] : NULL;
}

// Whether the C function runs the frame: it has its place above all that this function calls.
static inline bool is_run_by(const struct merging *m, size_t function, const struct as_inner_frame *frame)
{
    size_t i = index_of(m, function);
    return i == 0 || frame->place >= m->u->ends[i - 1];
}

static const struct as_inner_frame *next_frame(const struct merging *m, size_t function)
{
    const struct as_inner_frame *frame = next_frame_of(m);
    return frame && is_run_by(m, function, frame) ? frame : NULL;
}

static void take_frame(struct merging *m, const struct as_inner_frame *frame)
{
    m->hash = as_recorder_mix_in(m->hash, frame->key ^ frame->place);
    m->taken++;
}

// Passes over the functions that are what they were, with all that they run. Of a deep stack these are nearly all, and so little is done
// for each: but for one that runs interpreted frames, a snapshot of where the next of these is.
static size_t pass_over(struct merging *m, const struct as_recorder_last_stack *last)
{
    size_t known = last->common < last->functions ? last->common : last->functions, function = 0;
    if (known > m->u->count)
        known = m->u->count;
    struct merging next = *m;
    const struct as_inner_frame *frame = next_frame_of(&next);
    for (; function < known; function++) {
        const struct as_recorder_last_end *end = &last->ends[function];
        for (; frame && is_run_by(m, function, frame); frame = next_frame_of(&next))
            take_frame(&next, frame);
        if (next.hash != end->hash || end->count > last->count)
            break;
        m->hash = next.hash;
        m->taken = next.taken;
    }
    if (function > 0) {
        m->count = last->ends[function - 1].count;
        m->runs = last->ends[function - 1].runs;
    }
    return function;
}

// The bytecode loop, where another function has the places of its frames, and calls it.
static bool is_loop(const struct merging *m, size_t function)
{
    const struct as_inner_walk *walk = m->u->walk;
    uintptr_t pc = pc_of(m, function);
    return m->runs && walk && pc >= walk->loop && pc < walk->loop_end;
}

static void add_function(struct merging *m, size_t function)
{
    size_t before = m->taken;
    const struct as_inner_frame *frame;
    for (; (frame = next_frame(m, function)); take_frame(m, frame))
        m->frames[m->count++] = as_interpreters_name(m->u->walk, frame);
    bool runs = m->taken > before;
    if (!runs && !is_loop(m, function))
        m->frames[m->count++] = as_recorder_frame(m->u->modules, &m->module, pc_of(m, function));
    m->runs = runs;
}

// Without the outermost frames, which the next stack does not have in common with this one then.
static struct as_recorder_merged cut(struct as_recorder_merged m, const struct as_recorder_last_stack *last)
{
    if (m.same > 0)
        memcpy(m.frames, last->frames, m.same * sizeof *m.frames);
    return (struct as_recorder_merged){
        .frames = m.frames + (m.count - AS_RECORDER_DEPTH), .count = AS_RECORDER_DEPTH, .cut = true};
}

struct as_recorder_merged as_recorder_merge(const struct as_recorder_unwound *u, uint64_t *room,
                                            struct as_recorder_last_stack *last)
{
    struct merging m = {.u = u, .hash = 1};
    m.frames = room;
    if (u->walk && u->walk->count > 0)
        m.frames = u->walk->merged;
    size_t function = last ? pass_over(&m, last) : 0, same = m.count;
    if (last)
        last->functions = function;
    atomic_signal_fence(memory_order_seq_cst);
    for (; function <= u->count; function++) {
        add_function(&m, function);
        if (last)
            last->ends[function] =
                (struct as_recorder_last_end){.hash = m.hash, .count = (uint32_t)m.count, .runs = m.runs};
    }
    atomic_signal_fence(memory_order_seq_cst);
    struct as_recorder_merged merged = {
        .frames = m.frames, .count = m.count, .same = same, .functions = u->count + 1, .cut = u->walk && u->walk->cut};
    return m.count > AS_RECORDER_DEPTH ? cut(merged, last) : merged;
}
