// SPDX-License-Identifier: MIT
// A recursion of two functions that differ in nothing but their addresses, deeper than what a layout has: stacks that
// differ only further out are taken for each other until the checks have found some of them wrong. From then on all
// return addresses decide, and where an interpreter hides its frames.
#include "recorder/context_memo.h"
#include "recorder/hot_path.h"
#include "support/check.h"

#include <stdlib.h>
#include <sys/auxv.h>

enum { SIZE = 100, ID_MASK = (1 << AS_PROFILE_ID_BITS) - 1 };
enum { OUTER = 3, PATHS = 1 << OUTER, INNER = AS_RECORDER_SIGNATURE + 8, ALL_LEFT = 2 * INNER, AGAIN = 50 };

static struct as_recorder_thread *thread;
static void *block;
static uintptr_t leaf_sp;
static uintptr_t behind; // bytes behind the call, where it seems to be: it has not been seen there

static __attribute__((noinline)) uint32_t allocate(void)
{
    struct as_unwind_registers caller = AS_UNWIND_CALLER();
    leaf_sp = caller.sp;
    as_recorder_write(thread, block, SIZE, caller.pc + behind, caller.sp, caller.fp);
    const _Atomic uint32_t *slot = as_recorder_slot((uintptr_t)block - 16, false);
    CHECK(slot);
    return *slot & ID_MASK;
}

static uint32_t right(unsigned path, unsigned depth);

// Behind the call there is something to do, so that it is one. The bits of the path decide about the outermost functions; the others are
// left.
// NOLINTNEXTLINE(misc-no-recursion): that is what is tested
static __attribute__((noinline)) uint32_t left(unsigned path, unsigned depth)
{
    uint32_t id = depth == 0 ? allocate() : path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
    CHECK(id != 0);
    return id;
}

// NOLINTNEXTLINE(misc-no-recursion): the same
static __attribute__((noinline)) uint32_t right(unsigned path, unsigned depth)
{
    uint32_t id = depth == 0 ? allocate() : path & 1 ? right(path >> 1, depth - 1) : left(path >> 1, depth - 1);
    CHECK(id != AS_PROFILE_LOST);
    return id;
}

static unsigned next_path(void)
{
    static uint32_t state = 7;
    state = state * 1103515245 + 12345;
    return state >> 16 & (PATHS - 1);
}

static __attribute__((noinline)) uint32_t allocate_by(unsigned path, unsigned depth)
{
    uint32_t id = left(path, depth);
    CHECK(id != 0);
    return id;
}

static void begin(void)
{
    const struct as_recorder_rates rates = {.memory = UINT64_C(256) << 20};
    struct as_recorder *r = &as_recorder;
    block = malloc(SIZE);
    CHECK(as_recorder_map(&rates, false) && as_recorder_modules_load());
    as_recorder_threads_begin();
    r->main_high = getauxval(AT_RANDOM);
    r->on = true;
    thread = as_recorder_thread_make(as_recorder_pointer());
    CHECK(thread && thread->before);
}

static void test_all_decide_once_some_were_wrong(void)
{
    const struct as_profile_counts *counts = &as_recorder.head->counts;
    uint64_t allocations = 0;
    for (; !as_recorder.signs_all && allocations < UINT64_C(1000) * AS_RECORDER_CHECK; allocations++)
        allocate_by(next_path(), INNER);
    CHECK(as_recorder.signs_all, "%llu wrong of %llu", (unsigned long long)counts->wrong,
          (unsigned long long)counts->checked);
    CHECK(counts->wrong * 1000 > counts->checked);
}

static void test_each_path_has_a_context_of_its_own(unsigned depth)
{
    const struct as_profile_counts *counts = &as_recorder.head->counts;
    uint32_t contexts[PATHS] = {0}, first = 0;
    uintptr_t sp = 0;
    uint64_t wrong = counts->wrong, checked = counts->checked;
    for (int i = 0; i < 4 * AS_RECORDER_CHECK; i++) {
        unsigned path = next_path();
        uint32_t id = allocate_by(path, depth);
        CHECK(contexts[path] == 0 || contexts[path] == id);
        CHECK(sp == 0 || sp == leaf_sp); // nothing but the return addresses differs
        contexts[path] = id;
        first = first ? first : id;
        sp = leaf_sp;
        for (unsigned other = 0; other < PATHS; other++)
            CHECK(other == path || contexts[other] != id);
        CHECK_EQUAL(as_recorder.contexts[id].count, as_recorder.contexts[first].count);
    }
    CHECK_EQUAL(counts->wrong, wrong);
    // One that comes again is recognised, as it is what was unwound last.
    for (unsigned path = 0; path < PATHS; path++) {
        uint64_t misses = counts->misses;
        for (int i = 0; i < AGAIN; i++)
            contexts[path] = allocate_by(path, depth);
        CHECK(counts->misses - misses <= 1);
    }
    for (int i = 0; i < AS_RECORDER_CHECK; i++)
        allocate_by(1, depth);
    for (unsigned path = 1; path < PATHS; path++)
        CHECK(contexts[path] != contexts[path - 1]);
    CHECK(counts->checked > checked);
    CHECK_EQUAL(counts->wrong, wrong);
}

// What differs in a word on the way is not the stack that was unwound last, though its innermost frames are the same.
static void test_stacks_of_other_depths(void)
{
    uint32_t contexts[ALL_LEFT] = {0};
    for (int round = 0; round < 2; round++)
        for (unsigned depth = 1; depth < ALL_LEFT; depth++) {
            uint32_t id = allocate_by(0, depth);
            CHECK(contexts[depth] == 0 || contexts[depth] == id);
            contexts[depth] = id;
            CHECK_EQUAL(as_recorder.contexts[id].count, as_recorder.contexts[contexts[1]].count + depth - 1);
        }
}

// Stacks that are a frame deeper each time, until they have more than a context has: all code is of modules, and is known to be.
static void test_stacks_up_to_the_deepest(void)
{
    const struct as_recorder_last *last = thread->before;
    size_t deepest = 0;
    as_recorder.scratch[thread->index].pcs[AS_RECORDER_DEPTH - 1] = 1; // behind all frames: nobody inspects there
    for (unsigned depth = ALL_LEFT; depth < AS_RECORDER_DEPTH + 2; depth++)
        for (behind = 0; behind < 3; behind++) {
            allocate_by(0, depth);
            CHECK(!last->unwound.is_whole || last->is_of_modules, "%zu frames", last->unwound.count);
            deepest = last->unwound.count > deepest ? last->unwound.count : deepest;
        }
    behind = 0;
    CHECK_EQUAL(deepest, AS_UNWIND_MOST);
}

static void test_an_interpreter_that_begins(void)
{
    static uint32_t runtime[1] = {0}; // where it says whether it is initialised
    as_python.runtime = (uintptr_t)runtime - as_python.layout.initialized;
    as_python.stays = true;
    as_python.found = true;
    test_each_path_has_a_context_of_its_own(INNER + 1);
    CHECK(!as_recorder.signs_all);
    as_python.found = false;
}

int main(void)
{
    begin();
    test_an_interpreter_that_begins();
    test_all_decide_once_some_were_wrong();
    test_each_path_has_a_context_of_its_own(INNER);
    test_stacks_of_other_depths();
    test_stacks_up_to_the_deepest();
    as_recorder.on = false;
    free(block);
    return 0;
}
