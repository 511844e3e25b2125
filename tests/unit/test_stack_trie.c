// SPDX-License-Identifier: MIT
// The tree of stacks: equal stacks are one, outer frames are shared, and each stack's frames are read back from its branches; also where
// threads add the same stacks at the same time, and where the table is full.
#include "recorder/hot_path.h"
#include "support/check.h"
#include "support/together.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACKS = 1 << 14, DEPTH = 24, KINDS = 3, THREADS = 4 };

static uint64_t frames[STACKS][DEPTH]; // outermost first
static size_t depths[STACKS];
static uint32_t ids[THREADS][STACKS];

// Mostly the outer frames of the one before.
static void make_stacks(void)
{
    uint64_t random = 1;
    for (size_t i = 0; i < STACKS; i++) {
        random = as_recorder_mix_in(random, i);
        size_t same = i > 0 ? random % (depths[i - 1] + 1) : 0;
        depths[i] = 1 + (random >> 8) % DEPTH;
        for (size_t j = 0; j < depths[i]; j++) {
            random = as_recorder_mix_in(random, j);
            frames[i][j] = j < same ? frames[i - 1][j] : UINT64_C(0xffff) << 48 | (1 + random % KINDS);
        }
    }
}

static void begin(bool every)
{
    const struct as_recorder_rates rates = {.page_shift = every ? 0 : 6, .memory = UINT64_C(64) << 20};
    CHECK(as_recorder_map(&rates, false));
}

// 0: there is no room.
static uint32_t find_or_add(size_t i)
{
    uint32_t stack = 0;
    bool fresh = false;
    for (size_t count, j = 0; j < depths[i]; j += count) {
        CHECK(!fresh); // what is inside of a new stack was added with it
        count = depths[i] - j;
        if ((stack = as_recorder_find_or_add_stacks(stack, frames[i] + j, &count, &fresh)) == 0)
            return 0;
        CHECK(count >= 1 && count <= depths[i] - j);
    }
    return stack;
}

static bool is_at(size_t i, uint32_t stack)
{
    for (size_t j = depths[i]; j-- > 0; stack = as_profile_caller(as_recorder.stacks, stack))
        if (stack == 0 || as_recorder.frames[as_recorder.stacks[stack]] != frames[i][j])
            return false;
    return stack == 0;
}

static bool is_same(size_t i, size_t k)
{
    return depths[i] == depths[k] && memcmp(frames[i], frames[k], depths[i] * sizeof frames[i][0]) == 0;
}

static void test_they_are_read_back(bool every)
{
    begin(every);
    for (size_t i = 0; i < STACKS; i++)
        CHECK((ids[0][i] = find_or_add(i)) != 0);
    uint64_t used = as_recorder.head->stacks.used, words = 0, branches = 0;
    for (size_t i = 0; i < STACKS; i++) {
        CHECK(is_at(i, ids[0][i]));
        CHECK_EQUAL(find_or_add(i), ids[0][i]);
        CHECK(as_recorder_has_frames(ids[0][i], frames[i], depths[i]));
        CHECK(!as_recorder_has_frames(ids[0][i], frames[i], depths[i] - 1));
        CHECK(!as_recorder_has_frames(ids[0][i], frames[i] + 1, depths[i] - 1));
        if (i > 0) {
            CHECK((ids[0][i] == ids[0][i - 1]) == is_same(i, i - 1));
            CHECK(as_recorder_has_frames(ids[0][i - 1], frames[i], depths[i]) == is_same(i, i - 1));
        }
    }
    CHECK_EQUAL(as_recorder.head->stacks.used, used); // all of them were known
    for (uint64_t i = 3; i < used; i++) {
        words += as_recorder.stacks[i] != 0 && !(as_recorder.stacks[i] & AS_PROFILE_BRANCH_BIT);
        branches +=
            as_recorder.stacks[i - 1] & AS_PROFILE_BRANCH_BIT && !(as_recorder.stacks[i] & AS_PROFILE_BRANCH_BIT);
    }
    CHECK(branches <= STACKS && words > branches);
    CHECK_EQUAL(1 + words + 2 * branches, used);
    CHECK_EQUAL(as_recorder.head->frames.used, 1 + KINDS);
}

// Nothing is a frame of a branch but what was added to it: not what stands behind it.
static void test_what_is_behind(void)
{
    const uint64_t one[] = {1, 2, 3}, other[] = {4, 5};
    size_t count = 3;
    bool fresh;
    begin(true);
    uint32_t inner = as_recorder_find_or_add_stacks(0, one, &count, &fresh);
    CHECK(fresh && count == 3);
    count = 2;
    uint32_t second = as_recorder_find_or_add_stacks(0, other, &count, &fresh);
    CHECK(fresh && second > inner);
    CHECK(as_recorder.stacks[inner + 2] & AS_PROFILE_BRANCH_BIT);
    count = 1;
    fresh = false;
    uint32_t last = as_recorder_find_or_add_stacks(second, one, &count, &fresh); // behind it, nothing is written yet
    CHECK(fresh && as_profile_caller(as_recorder.stacks, last) == second);
    count = 2;
    CHECK_EQUAL(as_recorder_find_or_add_stacks(0, one, &count, &fresh), inner - 2);
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(as_recorder_find_or_add_stacks(inner - 2, one + 1, &count, &fresh), inner - 1);
    fresh = false;
    uint32_t middle = as_recorder_find_or_add_stacks(inner - 2, one + 2, &count, &fresh);
    CHECK(fresh && middle != inner && as_profile_caller(as_recorder.stacks, middle) == inner - 2);
}

// What is there is found when there is no room for more; nothing is written behind the table.
static void test_it_is_full(void)
{
    begin(true);
    struct as_profile_table *table = &as_recorder.head->stacks;
    size_t i = 0;
    const uint64_t size = table->size;
    table->size = STACKS;
    while (i < STACKS && (ids[0][i] = find_or_add(i)) != 0)
        i++;
    CHECK(i > 0 && i < STACKS && table->used <= table->size);
    for (size_t k = 0; k < i; k++)
        CHECK_EQUAL(find_or_add(k), ids[0][k]);
    for (uint64_t k = table->size; k < size && k < table->size + DEPTH; k++)
        CHECK_EQUAL(as_recorder.stacks[k], 0);
}

// Where there is no room for a frame, the stacks keep theirs.
static void test_frames_are_full(void)
{
    const uint64_t known[] = {1, 2}, unknown[] = {1, 3, 4};
    size_t count = 2;
    bool fresh;
    begin(true);
    uint32_t there = as_recorder_find_or_add_stacks(0, known, &count, &fresh);
    CHECK(there != 0);
    as_recorder.head->frames.size = as_recorder.head->frames.used;
    const uint64_t used = as_recorder.head->stacks.used;
    for (int i = 0; i < STACKS; i++) {
        count = 3;
        CHECK_EQUAL(as_recorder_find_or_add_stacks(there, unknown, &count, &fresh), 0);
    }
    CHECK_EQUAL(as_recorder.head->stacks.used, used);
    count = 2;
    CHECK(as_recorder_find_or_add_stacks(there, known, &count, &fresh) != 0 && count == 2);
}

static const uint64_t raced[] = {6, 7};
static uint32_t first_of_other;

// At a thread's first write to the table of frames: meanwhile "another" thread adds the same branch.
static void add_meanwhile(int signal)
{
    size_t count = 2;
    bool fresh = false;
    (void)signal;
    CHECK(mprotect(as_recorder.frames, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE) == 0);
    first_of_other = as_recorder_find_or_add_stacks(0, raced, &count, &fresh) - 1;
    CHECK(fresh && count == 2);
}

// A branch that the filter has called new may be there by the time that it is added.
static void test_meanwhile(void)
{
    struct sigaction before;
    const struct sigaction action = {.sa_handler = add_meanwhile};
    size_t count = 2;
    bool fresh = false;
    begin(true);
    CHECK(sigaction(SIGSEGV, &action, &before) == 0);
    CHECK(mprotect(as_recorder.frames, (size_t)sysconf(_SC_PAGESIZE), PROT_READ) == 0);
    uint32_t added = as_recorder_find_or_add_stacks(0, raced, &count, &fresh);
    CHECK(sigaction(SIGSEGV, &before, NULL) == 0);
    CHECK(!fresh && count == 1 && added == first_of_other);
}

// What stands behind the table is no stack.
static void test_its_end(void)
{
    const uint64_t some[] = {1, 2, 3};
    size_t count = 3;
    bool fresh;
    begin(true);
    struct as_profile_table *table = &as_recorder.head->stacks;
    table->size = table->used + 2 + count;
    uint32_t last = as_recorder_find_or_add_stacks(0, some, &count, &fresh);
    CHECK_EQUAL(last + 1, table->size);
    as_recorder.stacks[table->size] = as_recorder.stacks[last];
    count = 1;
    CHECK_EQUAL(as_recorder_find_or_add_stacks(last, some + 2, &count, &fresh), 0);
}

// The same stacks in the same order, each thread a little later or earlier.
static void *add_all(void *own)
{
    for (size_t i = 0; i < STACKS; i++)
        ((uint32_t *)own)[i] = find_or_add(i);
    return NULL;
}

static void add_in_threads(void)
{
    void *own[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        own[i] = ids[i];
    in_threads(THREADS, add_all, own);
    for (size_t t = 0; t < THREADS; t++)
        for (size_t i = 0; i < STACKS; i++)
            CHECK(ids[t][i] != 0 && is_at(i, ids[t][i]));
}

static void test_threads(void)
{
    begin(false);
    add_in_threads();
    begin(true);
    as_recorder.branch_chains.levels = as_recorder.frame_chains.levels =
        1; // where there is one level, nothing is there twice
    add_in_threads();
    for (size_t t = 1; t < THREADS; t++)
        for (size_t i = 0; i < STACKS; i++)
            CHECK_EQUAL(ids[t][i], ids[0][i]);
}

int main(void)
{
    make_stacks();
    test_they_are_read_back(true);
    test_they_are_read_back(false);
    test_what_is_behind();
    test_it_is_full();
    test_its_end();
    test_frames_are_full();
    test_meanwhile();
    test_threads();
    return 0;
}
