// SPDX-License-Identifier: MIT
#include "unwind/step.h"

uint64_t as_unwind_rule_behind(const struct as_unwind_modules *modules, struct as_unwind_cache *cache, uintptr_t pc)
{
    return cached_rule(modules, cache, &(struct as_unwind_registers){.pc = pc});
}

size_t as_unwind_frames(const struct as_unwind_modules *modules, const struct as_unwind_registers *start,
                        const struct as_unwind_stacks *stacks, struct as_unwind_cache *cache,
                        struct as_unwind_last *last, uintptr_t *pcs, const struct as_unwind_places *places, size_t max,
                        bool *complete)
{
    if (last)
        return as_unwind_again(modules, start, stacks, cache, last, pcs, places, max, complete);
    struct stack_walk walk = {.at = *start, .low = start->sp, .end = stacks->end, .stacks = stacks};
    size_t count = 0;
    enum step result;
    while ((result = step(&walk, cached_rule(modules, cache, &walk.at))) == STEPPED && count < max) {
        put_frame(pcs, places, count, walk.at.pc, walk.slot, walk.at.sp);
        count++;
    }
    *complete = result == ENDED;
    return count;
}

size_t as_unwind_stack(const struct as_unwind_modules *modules, const struct as_unwind_registers *start,
                       const struct as_unwind_stacks *stacks, struct as_unwind_cache *cache, uintptr_t *pcs,
                       uintptr_t *slots, size_t max, bool *complete)
{
    struct as_unwind_places places = {.slot_count = slots ? max : 0};
    places.slots = slots;
    return as_unwind_frames(modules, start, stacks, cache, NULL, pcs, &places, max, complete);
}
