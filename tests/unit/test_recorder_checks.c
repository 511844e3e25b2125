// SPDX-License-Identifier: MIT
// One in so many recognised stacks is unwound nevertheless: a context that another one's stack is taken for is noticed, counted, and known
// from then on. What is recognised rightly is not counted.
#include "recorder/context_memo.h"
#include "recorder/hot_path.h"
#include "support/check.h"

#include <stdlib.h>
#include <sys/auxv.h>

enum { SIZE = 100, STEPS = 6, SWAPPED = 2, ROUNDS = 4, ID_MASK = (1 << AS_PROFILE_ID_BITS) - 1 };

static struct as_recorder_thread *thread;

static uint32_t context_of(const void *block)
{
    const _Atomic uint32_t *slot = as_recorder_slot((uintptr_t)block - 16, false);
    CHECK(slot);
    return *slot & ID_MASK;
}

static __attribute__((noinline)) uint32_t allocate(void *block)
{
    struct as_unwind_registers caller = AS_UNWIND_CALLER();
    as_recorder_write(thread, block, SIZE, caller.pc, caller.sp, caller.fp);
    return context_of(block);
}

// Two callers at the same depth, with the same number of frames: behind the call there is something to do, so that it is one.
static __attribute__((noinline)) uint32_t first(void *block)
{
    uint32_t id = allocate(block);
    CHECK(id != 0);
    return id;
}

static __attribute__((noinline)) uint32_t second(void *block)
{
    uint32_t id = allocate(block);
    CHECK(id != AS_PROFILE_LOST);
    return id;
}

static uint64_t replace(_Atomic uint64_t *entry, uint32_t from, uint32_t to)
{
    if ((*entry & ID_MASK) != from)
        return 0;
    *entry = (*entry & ~(uint64_t)ID_MASK) | to;
    return 1;
}

// The stack of one context is taken for that of another one.
static void take_for(uint32_t from, uint32_t to)
{
    struct as_recorder *r = &as_recorder;
    uint64_t replaced = 0;
    for (uint64_t i = 0; i < r->layouts_taken; i++)
        for (size_t k = 0; k < AS_LAYOUT_NEAR; k++)
            replaced += replace(&r->layouts[i].near[k], from, to);
    for (uint64_t i = 0; i <= r->signature_mask; i++)
        replaced += replace(&r->signatures[i], from, to);
    CHECK(replaced > 0);
}

// How many of its allocations have another context than *wanted. 0 there: this becomes the context of the first.
// `other`: right after a check, the stack is taken for this one's.
static __attribute__((noinline)) uint64_t count_wrong(uint32_t (*caller)(void *), void *block, uint32_t *wanted,
                                                      uint32_t other)
{
    uint64_t wrong = 0, checked = as_recorder.head->counts.checked;
    for (int i = 0; i < ROUNDS * AS_RECORDER_CHECK; i++) {
        uint32_t id = caller(block);
        *wanted = *wanted ? *wanted : id;
        wrong += id != *wanted;
        if (other && as_recorder.head->counts.checked != checked) {
            take_for(*wanted, other);
            other = 0;
        }
    }
    return wrong;
}

int main(void)
{
    const struct as_recorder_rates rates = {.memory = UINT64_C(64) << 20};
    struct as_recorder *r = &as_recorder;
    void *block = malloc(SIZE);
    CHECK(as_recorder_map(&rates, false) && as_recorder_modules_load());
    as_recorder_threads_begin();
    r->main_high = getauxval(AT_RANDOM);
    r->on = true;
    thread = as_recorder_thread_make(as_recorder_pointer());
    CHECK(thread);
    struct as_profile_counts *counts = &r->head->counts;
    uint32_t contexts[2] = {0};
    uint64_t wrong[STEPS], counted[STEPS];
    volatile int steps = STEPS; // one place from which all is called: the loop is not unrolled
    for (int i = 0; i < steps; i++) {
        uint32_t other = i == SWAPPED ? contexts[1] : 0;
        wrong[i] = count_wrong(i % 2 ? second : first, block, &contexts[i % 2], other);
        counted[i] = counts->wrong;
    }
    CHECK(contexts[0] >= AS_PROFILE_FIRST && contexts[1] >= AS_PROFILE_FIRST && contexts[0] != contexts[1]);
    CHECK_EQUAL(r->contexts[contexts[0]].count, r->contexts[contexts[1]].count);
    CHECK(counts->checked >= STEPS * (ROUNDS - 1));
    for (int i = 0; i < STEPS; i++) {
        CHECK_EQUAL(counted[i], i < SWAPPED ? 0 : 1);
        CHECK_EQUAL(wrong[i], i == SWAPPED ? AS_RECORDER_CHECK - 1 : 0);
    }
    r->on = false;
    free(block);
    return 0;
}
