// SPDX-License-Identifier: MIT
// Return addresses further out than a layout has offsets. A recursion of the same functions in another order leaves a
// stack of the same depth: there they decide. Where they stand, the thread's last unwinding says, if its frames are
// there still.
#include "base/vec.h"
#include "recorder/hot_path.h"
#include "recorder/stack_memo.h"

const struct as_unwind_seen *as_recorder_outer_frame(const struct as_recorder_thread *thread, uintptr_t sp)
{
    if (!thread->before || thread->before->unwound.end != thread->high)
        return NULL;
    const struct as_unwind_last *last = &thread->before->unwound;
    size_t at = AS_PARTITION_POINT(AS_UNWIND_MOST - last->count, AS_UNWIND_MOST, i, last->frames[i].sp < sp);
    return at < AS_UNWIND_MOST && last->frames[at].sp == sp ? &last->frames[at] : NULL;
}

// All by which a frame is found.
static uint64_t add_frame(uint64_t hash, const struct as_unwind_seen *seen)
{
    hash = as_recorder_mix_in(hash, seen->word);
    if (seen->sp_place != 0)
        hash = as_recorder_mix_in(hash, seen->sp);
    return seen->needs_fp ? as_recorder_mix_in(hash, seen->fp) : hash;
}

uint64_t as_recorder_outer_signature(const struct as_recorder_thread *thread, uint64_t shape,
                                     const struct as_unwind_registers *caller, uint64_t signature)
{
    uintptr_t sp = caller->sp + (shape >> AS_SHAPE_BOUNDARY_SHIFT) * sizeof(uintptr_t);
    size_t count = shape >> AS_SHAPE_OUTER_SHIFT & ((1U << AS_SHAPE_OUTER_BITS) - 1);
    const struct as_unwind_seen *first = as_recorder_outer_frame(thread, sp);
    if (!first || first->slot < caller->sp || *(const uintptr_t *)first->slot != first->word)
        return 0;
    const struct as_unwind_last *last = &thread->before->unwound;
    if (count >= (size_t)(&last->frames[AS_UNWIND_MOST] - first))
        return 0;
    // The layout's words have led to the first frame. With the same registers there, by the same tables, the next words lead to the same
    // frames.
    uint64_t hash = as_recorder_mix_in(signature, last->generation ^ (first->slot - caller->sp));
    hash = add_frame(hash, first);
    for (size_t i = 1; i <= count; i++) {
        if (!as_unwind_is_same(&first[i], caller->sp))
            return 0;
        hash = add_frame(hash, &first[i]);
    }
    return hash;
}
