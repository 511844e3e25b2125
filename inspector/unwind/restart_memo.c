// SPDX-License-Identifier: MIT
// A stack that is mostly the one that the thread was on before: what has led from frame to frame is read again, and compared.
#include "unwind/step.h"

struct again {
    struct as_unwind_last *last;
    uint64_t generation; // of the modules
    struct stack_walk walk;
    size_t count;  // frames that have been unwound
    size_t cursor; // no frame of the last stack before this one is searched for any more
    bool plain;    // what can be compared
};

static bool is_by_frame_pointer(uint64_t rule)
{
    int64_t special = as_unwind_cfa(rule);
    return as_unwind_kind(rule) == AS_UNWIND_SPECIAL && special < AS_UNWIND_PLT && special != AS_UNWIND_END;
}

static bool uses_frame_pointer(uint64_t rule)
{
    enum as_unwind_kind kind = as_unwind_kind(rule);
    return kind == AS_UNWIND_FP || kind == AS_UNWIND_AT_FP || is_by_frame_pointer(rule) ||
           (rule & (AS_UNWIND_FP_BY_FP | AS_UNWIND_THIRD_BY_FP));
}

// Signal frames lead to other stacks, and to code that was interrupted; the third register is not compared.
static bool is_comparable(uint64_t rule)
{
    bool signal = as_unwind_kind(rule) == AS_UNWIND_SPECIAL && as_unwind_cfa(rule) == AS_UNWIND_SIGNAL;
    return !signal && as_unwind_kind(rule) != AS_UNWIND_THIRD && !(rule & AS_UNWIND_EXACT);
}

// Where the step has read the frame pointer; 0: nowhere.
static uintptr_t frame_pointer_place(const struct as_unwind_registers *before, const struct as_unwind_registers *now,
                                     uint64_t rule)
{
    if (is_by_frame_pointer(rule))
        return before->fp;
    int64_t offset = as_unwind_fp(rule);
    bool by_fp = rule & AS_UNWIND_FP_BY_FP;
    if (as_unwind_kind(rule) == AS_UNWIND_SPECIAL || (!by_fp && offset == AS_UNWIND_KEPT))
        return 0;
    return offset == AS_UNWIND_LOST ? UINTPTR_MAX : at_offset(by_fp ? before->fp : now->sp, offset);
}

static uintptr_t stack_pointer_place(const struct as_unwind_registers *before, uint64_t rule)
{
    enum as_unwind_kind kind = as_unwind_kind(rule);
    uintptr_t base = kind == AS_UNWIND_AT_FP ? before->fp : before->sp;
    return kind == AS_UNWIND_AT_FP || kind == AS_UNWIND_AT_SP ? at_offset(base, as_unwind_cfa(rule)) : 0;
}

static enum step step_on(struct again *a, uint64_t rule)
{
    struct as_unwind_registers before = a->walk.at;
    if (a->count > 0)
        a->last->fresh[a->count - 1].uses_fp = uses_frame_pointer(rule);
    enum step result = step(&a->walk, rule);
    const struct as_unwind_registers *now = &a->walk.at;
    a->plain &= is_comparable(rule) && !now->exact && (result != STEPPED || a->walk.slot != 0);
    if (result != STEPPED || !a->plain || a->count == AS_UNWIND_MOST)
        return result;
    a->last->fresh[a->count] = (struct as_unwind_seen){.sp = now->sp,
                                                       .pc = now->pc,
                                                       .fp = now->fp,
                                                       .slot = a->walk.slot,
                                                       .word = *(const uintptr_t *)a->walk.slot,
                                                       .fp_place = frame_pointer_place(&before, now, rule),
                                                       .sp_place = stack_pointer_place(&before, rule),
                                                       .by = (uint8_t)as_unwind_kind(rule)};
    return result;
}

// Whether this frame and all outer ones are those of the last stack: from `cursor` on.
static inline bool is_known(struct again *a)
{
    const struct as_unwind_seen *frames = a->last->frames;
    const struct as_unwind_registers *at = &a->walk.at;
    while (a->cursor < AS_UNWIND_MOST && frames[a->cursor].sp < at->sp)
        a->cursor++;
    const struct as_unwind_seen *seen = &frames[a->cursor];
    if (!a->plain || a->cursor == AS_UNWIND_MOST || seen->sp != at->sp || seen->pc != at->pc ||
        (seen->needs_fp && seen->fp != at->fp))
        return false;
    for (size_t i = a->cursor + 1; i < AS_UNWIND_MOST; i++)
        if (!as_unwind_is_same(&frames[i], a->walk.low)) {
            a->cursor = i + 1;
            return false;
        }
    return true;
}

// In front of the frames of the last stack that are there still: `kept` of them.
static void keep_frames(struct again *a, size_t kept)
{
    struct as_unwind_last *last = a->last;
    last->count = 0;
    atomic_signal_fence(memory_order_seq_cst);
    struct as_unwind_seen *first = &last->frames[AS_UNWIND_MOST - kept];
    bool needs_fp = kept > 0 && first->needs_fp, whole = kept + a->count <= AS_UNWIND_MOST;
    for (size_t i = a->count; whole && i-- > 0;) {
        struct as_unwind_seen *seen = first - (a->count - i);
        *seen = last->fresh[i];
        bool next_keeps = i + 1 < a->count ? last->fresh[i + 1].fp_place == 0 : kept > 0 && first->fp_place == 0;
        needs_fp = seen->uses_fp || (next_keeps && needs_fp);
        seen->needs_fp = needs_fp;
        whole = !needs_fp || seen->fp_place != UINTPTR_MAX;
    }
    last->generation = a->generation;
    last->end = a->walk.end;
    atomic_signal_fence(memory_order_seq_cst);
    last->is_whole = whole;
    if (whole)
        last->count = kept + a->count;
}

size_t as_unwind_again(const struct as_unwind_modules *modules, const struct as_unwind_registers *start,
                       const struct as_unwind_stacks *stacks, struct as_unwind_cache *cache,
                       struct as_unwind_last *last, uintptr_t *pcs, const struct as_unwind_places *places, size_t max,
                       bool *complete)
{
    bool usable = last->generation == modules->generation && last->end == stacks->end;
    struct again a = {.last = last,
                      .generation = modules->generation,
                      .walk = {.at = *start, .low = start->sp, .end = stacks->end, .stacks = stacks},
                      .cursor = AS_UNWIND_MOST - (usable ? last->count : 0),
                      .plain = !start->exact};
    enum step result;
    bool known = false;
    while ((result = step_on(&a, cached_rule(modules, cache, &a.walk.at))) == STEPPED && a.count < max) {
        put_frame(pcs, places, a.count++, a.walk.at.pc, a.walk.slot, a.walk.at.sp);
        if ((known = is_known(&a)))
            break;
    }
    const struct as_unwind_seen *outer = &last->frames[known ? a.cursor + 1 : AS_UNWIND_MOST];
    size_t count = a.count, kept = (size_t)(&last->frames[AS_UNWIND_MOST] - outer);
    for (size_t i = 0; i < kept && count < max; i++, count++)
        put_frame(pcs, places, count, outer[i].pc, outer[i].slot, outer[i].sp);
    *complete = known ? count == a.count + kept : result == ENDED;
    last->kept = known ? kept + 1 : 0;
    last->is_whole = false;
    if (known)
        last->fresh[a.count - 1].uses_fp = outer[-1].uses_fp;
    if (a.plain && (known || result == ENDED))
        keep_frames(&a, kept);
    return count;
}
