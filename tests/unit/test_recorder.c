// SPDX-License-Identifier: MIT
// The recorder's lists of modules, which are freed when nobody reads them any more and not before, and its tables' places, which threads
// take at the same time until none are left; the loader's lock in a child of fork(); and what is counted without a stack.
#include "profile/head.h"
#include "recorder/hot_path.h"
#include "recorder/interp_frames.h"
#include "recorder/stack_memo.h"
#include "support/check.h"
#include "support/together.h"
#include "trace/trace.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LISTS = 40, READERS = 3, THREADS = 4, PLACES = 1000000, MOST = 7, ROUNDS = 30 };

// --- Lists ------------------------------------------------------------------------------------------------------------

static bool is_mapped(const void *address)
{
    unsigned char resident;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return mincore((void *)((uintptr_t)address & ~(page - 1)), 1, &resident) == 0;
}

static const struct as_unwind_modules *current(void)
{
    struct as_recorder_thread *thread = &as_recorder.threads[READERS];
    const struct as_unwind_modules *modules = as_recorder_modules_take(thread);
    as_recorder_modules_leave(thread);
    return modules;
}

// The tables of all its modules are there.
static bool is_whole(const struct as_unwind_modules *modules)
{
    if (!is_mapped(modules) || modules->count < 2)
        return false;
    for (size_t i = 0; i < modules->count; i++)
        if (modules->items[i].table.head && !is_mapped(modules->items[i].table.head))
            return false;
    return true;
}

// Threads stall in the first list, in one of the middle, and in the last but one. (All lists stay at different addresses only while they
// are there: a list that is freed makes room for the next.)
static void test_lists(void)
{
    const struct as_recorder_rates rates = {.memory = UINT64_C(64) << 20};
    const struct as_unwind_modules *lists[LISTS];
    const size_t read[READERS] = {0, LISTS / 2, LISTS - 2};
    CHECK(as_recorder_map(&rates, false));
    as_recorder_taken.threads[0] = (UINT64_C(1) << (READERS + 1)) - 1;
    for (size_t i = 0; i < LISTS; i++) {
        CHECK(as_recorder_modules_load());
        lists[i] = current();
        for (size_t k = 0; k < READERS; k++)
            if (read[k] == i)
                CHECK(as_recorder_modules_take(&as_recorder.threads[k]) == lists[i]);
    }
    for (size_t k = 0; k < READERS; k++) {
        for (size_t i = 0; i < LISTS; i++) // oldest first: what is behind one that is read waits for it
            CHECK(is_mapped(lists[i]) == (k == 0 || i >= read[k] || lists[i] == current()));
        CHECK(is_whole(lists[read[k]]) && is_whole(current()));
        as_recorder_modules_leave(&as_recorder.threads[k]);
        CHECK(as_recorder_modules_load());
        CHECK(is_whole(current()));
        lists[LISTS - 1] = current();
    }
    for (size_t i = 0; i + 1 < LISTS; i++)
        CHECK(!is_mapped(lists[i]) || lists[i] == current());
}

// --- Places -----------------------------------------------------------------------------------------------------------

static struct as_profile_table table;
static _Atomic unsigned char taken[PLACES];

static void *take(void *seed)
{
    unsigned state = (unsigned)(uintptr_t)seed;
    uint64_t sum = 0;
    for (uint64_t count = MOST; count > 0;) {
        uint64_t first = as_recorder_take_places(&table, count);
        for (uint64_t i = 0; first != UINT64_MAX && i < count; i++) {
            CHECK(first + i < table.size);
            CHECK(atomic_fetch_add(&taken[first + i], 1) == 0);
        }
        sum += first != UINT64_MAX ? count : 0;
        if (first == UINT64_MAX)
            count--; // perhaps fewer are left
        else if (count == MOST || sum % 2)
            count = 1 + (state = state * 1664525 + 1013904223) % MOST;
    }
    return (void *)(uintptr_t)sum;
}

static void test_places(void)
{
    void *each[THREADS]; // its seed, and then how many places it took
    uint64_t sum = 0;
    table = (struct as_profile_table){.size = PLACES};
    memset((void *)taken, 0, sizeof taken);
    for (size_t i = 0; i < THREADS; i++)
        each[i] = (void *)(uintptr_t)(i + 1);
    in_threads(THREADS, take, each);
    for (size_t i = 0; i < THREADS; i++)
        sum += (uintptr_t)each[i];
    CHECK(sum == PLACES && table.used == PLACES);
    CHECK(as_recorder_take_places(&table, 0) == PLACES);
    CHECK(as_recorder_take_places(&table, UINT64_MAX) == UINT64_MAX);
    table.used = PLACES + 1; // which no recorder writes
    CHECK(as_recorder_take_places(&table, 1) == UINT64_MAX);
}

// --- The contexts of a trace ------------------------------------------------------------------------------------

// How many contexts the file has; *known: how many of them have stacks.
static size_t contexts_in(const char *path, size_t *known)
{
    static struct as_trace record;
    struct as_error err = {0};
    CHECK(as_trace_open(&record, path, &err), "%s", err.text);
    size_t count = record.contexts.count;
    *known = 0;
    for (size_t i = 0; i < count; i++)
        *known += record.contexts.items[i].stack != 0;
    as_trace_close(&record);
    return count;
}

// A signal handler may leave the recorder by longjmp, and what it has interrupted is never written down. What is behind it gets into the
// file nevertheless: soon, and at once when the record ends.
static void test_contexts_that_nobody_writes(void)
{
    enum { TURNS = 60 };
    const struct as_recorder_rates rates = {.memory = UINT64_C(64) << 20};
    char path[64];
    size_t known;
    int file = memfd_create("record", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    CHECK(file >= 0 && as_recorder_map(&rates, false) && as_recorder_buffers_map(UINT64_C(1) << 20));
    CHECK(as_recorder_drain_begin(file));
    uint64_t stack = as_recorder_take_places(&as_recorder.head->stacks, 3) + 2;
    uint64_t first = as_recorder_take_places(&as_recorder.head->contexts, 4);
    as_recorder.stacks[stack - 1] = AS_PROFILE_BRANCH_BIT;
    as_recorder.stacks[stack] = (uint32_t)as_recorder_take_places(&as_recorder.head->frames, 1);
    as_recorder.frames[as_recorder.stacks[stack]] = 1;
    as_recorder.contexts[first + 1] = (struct as_profile_context){.stack = (uint32_t)stack, .count = 1};
    as_recorder.contexts[first + 3] = as_recorder.contexts[first + 1];
    CHECK(as_recorder_drain(true));
    CHECK_EQUAL(contexts_in(path, &known), 0);
    for (int i = 0; i < TURNS; i++)
        CHECK(as_recorder_drain(true));
    CHECK_EQUAL(contexts_in(path, &known), 2);
    CHECK_EQUAL(known, 1);
    as_recorder_drain_end();
    CHECK_EQUAL(contexts_in(path, &known), 4);
    CHECK_EQUAL(known, 2);
    close(file);
}

// --- The loader's lock ------------------------------------------------------------------------------------------------

static atomic_int stage;

static void *has_lock(void *unused)
{
    struct as_recorder_signals signals;
    CHECK(as_recorder_loader_enter(&signals));
    stage = 1;
    while (stage == 1)
        usleep(1000);
    as_recorder_loader_leave(&signals);
    return unused;
}

static int end_it(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)info;
    (void)size;
    (void)context;
    return 1;
}

// In a child of fork(), the thread is not there that has the lock.
static void test_fork(void)
{
    pthread_t thread;
    int status;
    CHECK(as_recorder_modules_load());
    CHECK(as_recorder_loader_is_found());
    pthread_create(&thread, NULL, has_lock, NULL);
    while (stage == 0)
        usleep(1000);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        as_recorder_modules_in_child();
        _exit(dl_iterate_phdr(end_it, NULL) == 1 && dlopen("libm.so.6", RTLD_NOW) ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    stage = 2;
    pthread_join(thread, NULL);
    CHECK(dl_iterate_phdr(end_it, NULL) == 1);
}

// --- What has no stack ------------------------------------------------------------------------------------------------

enum { SIZE = 1000, BLOCKS = 200000, MEAN = 16384 };

static uint64_t lost_bytes(void)
{
    return as_recorder.sampled[as_recorder.contexts[AS_PROFILE_LOST].sampled].bytes;
}

static void write_blocks(struct as_recorder_thread *thread, void *block)
{
    struct as_unwind_registers here = AS_UNWIND_CALLER();
    for (int i = 0; i < BLOCKS; i++)
        if (as_recorder_wants(thread, block, SIZE, 0))
            as_recorder_write(thread, block, SIZE, here.pc, here.sp, here.fp);
}

static bool is_near(uint64_t bytes, uint64_t whole)
{
    return bytes > whole - whole / 20 && bytes < whole + whole / 20; // a sample in 16 KiB: five standard deviations
}

// A handler's allocations, as long as the thread is in the recorder; and those of a thread for which there is no room.
static void test_without_stack(void)
{
    const struct as_recorder_rates rates = {.page_shift = 16, .mean = MEAN, .memory = UINT64_C(64) << 20};
    const uint64_t whole = (uint64_t)BLOCKS * SIZE;
    struct as_recorder *r = &as_recorder;
    void *block = malloc(SIZE);
    CHECK(as_recorder_map(&rates, false) && as_recorder_modules_load());
    as_recorder_threads_begin();
    r->on = true;
    r->allocated = 0;
    struct as_recorder_thread *thread = as_recorder_thread_make(as_recorder_pointer());
    CHECK(thread);
    thread->busy = UINTPTR_MAX;
    write_blocks(thread, block);
    CHECK(is_near(lost_bytes(), whole), "%llu", (unsigned long long)lost_bytes());
    CHECK(r->head->counts.samples > whole / MEAN / 2, "by chance");
    CHECK_EQUAL(r->sampled[AS_PROFILE_LOST].samples, r->head->counts.samples);
    CHECK_EQUAL(r->allocated, lost_bytes());

    uint64_t before = lost_bytes();
    thread->until = 0; // the interrupted allocation has a sample to take
    write_blocks(thread, block);
    CHECK_EQUAL(lost_bytes() - before, whole);

    before = lost_bytes();
    for (int i = 0; i < AS_RECORDER_THREADS; i++)
        r->threads[i].pointer = 1;
    write_blocks(NULL, block);
    CHECK_EQUAL(lost_bytes() - before, whole);
    CHECK_EQUAL(r->head->counts.unsampled, BLOCKS);
    CHECK_EQUAL(r->allocated, lost_bytes());
    as_recorder_note(AS_TRACE_MALLOC, block, SIZE, 0, 0, 0, 0);
    CHECK_EQUAL(lost_bytes() - before, whole + SIZE);
    uint64_t of_objects = r->sampled[AS_PROFILE_LOST].objects * SIZE / 1024;
    CHECK(of_objects >= lost_bytes() &&
          of_objects <= lost_bytes() + r->head->counts.samples); // each one's bytes are whole

    // A context has room for what is sampled of it, and counts with those without a stack where there is none.
    before = lost_bytes();
    thread->until = 0;
    as_recorder_write_known(thread, block, SIZE, AS_PROFILE_FIRST);
    const uint32_t place = r->contexts[AS_PROFILE_FIRST].sampled;
    CHECK(place > AS_PROFILE_LOST && r->sampled[place].samples == 1);
    CHECK_EQUAL(lost_bytes(), before);
    r->head->sampled.used = r->head->sampled.size;
    thread->until = 0;
    as_recorder_write_known(thread, block, SIZE, AS_PROFILE_FIRST);
    CHECK(r->sampled[place].samples == 2);
    thread->until = 0;
    as_recorder_write_known(thread, block, SIZE, AS_PROFILE_FIRST + 1);
    CHECK(r->contexts[AS_PROFILE_FIRST + 1].sampled == 0 && lost_bytes() > before);

    before = lost_bytes() - whole - SIZE;
    r->on = false;
    as_recorder_note(AS_TRACE_MALLOC, block, SIZE, 0, 0, 0, 0);
    CHECK_EQUAL(lost_bytes() - before, whole + SIZE);
    free(block);
}

// Tables overlap nowhere, and end within the mapping.
static void test_room(void)
{
    static const uint64_t sizes[] = {UINT64_C(64) << 20, UINT64_C(256) << 20, UINT64_C(4) << 30};
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        const struct as_recorder_rates rates = {.page_shift = i % 2 ? 6 : 0, .mean = MEAN, .memory = sizes[i / 2]};
        CHECK(as_recorder_map(&rates, false));
        const struct as_profile_head *head = as_recorder.head;
        CHECK_EQUAL(head->size, sizes[i / 2]);
        CHECK(as_profile_head_holds(head, head->self, head->size));
        CHECK(head->blocks.offset > head->pages.offset && head->pages.offset > head->stacks.offset);
        CHECK(head->blocks.offset + head->blocks.size * head->block_size <= head->size);
        CHECK(head->blocks.size * head->block_size > head->size / 10, "%llu", (unsigned long long)head->blocks.size);
        const struct as_recorder_chains *branches = &as_recorder.branch_chains;
        const uint64_t heads = UINT64_C(1) << (branches->bits + AS_RECORDER_LEVEL_BITS * (branches->levels - 1));
        CHECK(head->stacks.size / 3 / heads < 128, "branches of a frame each, and chains are followed for 256 steps");
        CHECK(as_recorder.most_signatures * sizeof(uint64_t) <= head->size / 16);
        CHECK(as_recorder.last_count == AS_RECORDER_LASTS || sizes[i / 2] < sizes[1], "docs/profile.md says so");
    }
}

// --- Places of chunks ---------------------------------------------------------------------------------------------------

static uintptr_t find_chunk(bool watched)
{
    uintptr_t chunk = UINT64_C(0x5000) << as_recorder.page_shift;
    while (as_recorder_is_watched(chunk) != watched)
        chunk += (uintptr_t)1 << as_recorder.page_shift;
    return chunk;
}

// A page that is not watched has one slot, and takes no room from those that are.
static void test_slots(void)
{
    enum { BETWEEN = 64, RATE_SHIFT = 6 };
    const struct as_recorder_rates rates = {.page_shift = RATE_SHIFT, .memory = UINT64_C(64) << 20};
    CHECK(as_recorder_map(&rates, false));
    const struct as_profile_head *head = as_recorder.head;
    CHECK(head->large >= UINT64_C(1) << head->page_shift); // or two of them might begin on one page
    uintptr_t large = find_chunk(false), watched = find_chunk(true);
    CHECK(!as_recorder_slot(large, false));
    _Atomic uint32_t *slot = as_recorder_slot(large, true);
    CHECK(slot && slot == as_recorder_slot(large + BETWEEN, true) && slot == as_recorder_slot(large, false));
    CHECK_EQUAL(head->large_slots.used, 1);
    CHECK_EQUAL(head->blocks.used, 0);
    struct as_recorder_thread thread = {0};
    CHECK(!as_recorder_slot_at(&thread, watched));
    slot = as_recorder_slot(watched, true);
    CHECK(slot && slot == as_recorder_slot_at(&thread, watched));
    _Atomic uint32_t *beside = as_recorder_slot(watched + BETWEEN, true);
    CHECK(beside && beside != slot && beside == as_recorder_slot_at(&thread, watched + BETWEEN)); // the page is known
    CHECK_EQUAL(head->large_slots.used, 1);
    CHECK_EQUAL(head->blocks.used, 1);
    uintptr_t other = watched + (UINT64_C(1) << 30);
    while (!as_recorder_is_watched(other))
        other += UINT64_C(1) << head->page_shift;
    CHECK(!as_recorder_slot_at(&thread, other));
    slot = as_recorder_slot(other, true);
    CHECK(slot && slot == as_recorder_slot_at(&thread, other) &&
          beside == as_recorder_slot_at(&thread, watched + BETWEEN));
    as_recorder.head->large_slots.used = head->large_slots.size;
    CHECK(as_recorder_slot(large, true));
    CHECK(!as_recorder_slot(large + (UINT64_C(1) << 40), true)); // there is no room
}

static bool is_refused(uintptr_t chunk)
{
    const struct as_profile_table *table = &as_recorder.head->refused;
    const uint64_t *words = (void *)((char *)as_recorder.head + table->offset);
    uint64_t bit = as_profile_refused_bit(chunk, table->size);
    return words[bit / 64] >> bit % 64 & 1;
}

// A heap of which each page is watched: as long as there are blocks, each of its pages gets one. What gets none is noted.
static void test_slots_of_a_heap(void)
{
    const struct as_recorder_rates rates = {.page_shift = 0, .memory = UINT64_C(256) << 20};
    CHECK(as_recorder_map(&rates, false));
    const struct as_profile_table *blocks = &as_recorder.head->blocks;
    uintptr_t chunk = UINT64_C(0x55d000000) << 12, page = (uintptr_t)1 << as_recorder.page_shift;
    uint64_t refused = 0;
    for (uint64_t i = 0; i < blocks->size; i++, chunk += page)
        refused += !as_recorder_slot(chunk, true);
    CHECK_EQUAL(refused, 0);
    CHECK_EQUAL(blocks->used, blocks->size);
    CHECK(!is_refused(chunk - page) && !is_refused(chunk));
    CHECK(!as_recorder_slot(chunk, false) && !is_refused(chunk));
    CHECK(!as_recorder_slot(chunk, true) && is_refused(chunk));
    CHECK(!is_refused(chunk + (1 << AS_PROFILE_SLOT_SHIFT)));
    CHECK(as_recorder_slot(chunk - page, true));
}

// --- Functions that are interpreted -------------------------------------------------------------------------------------

static uint32_t function_named(unsigned name, unsigned file, uint32_t first_line)
{
    static struct as_inner_walk walk = {.language = AS_PROFILE_PYTHON};
    snprintf(walk.name, sizeof walk.name, "function%u", name);
    snprintf(walk.file, sizeof walk.file, "/a/directory/file%u.py", file);
    return (uint32_t)(as_inner_line(&walk, first_line, first_line + 1) >> AS_PROFILE_LINE_BITS & 0xffffff);
}

// Each has one entry, by its name, its file and its first line; the file's name is there once.
static void test_functions(bool every)
{
    enum { MANY = 5000, FILES = 50 };
    const struct as_recorder_rates rates = {.page_shift = every ? 0 : 6, .memory = UINT64_C(64) << 20};
    static uint32_t ids[MANY];
    CHECK(as_recorder_map(&rates, false));
    for (uint32_t i = 0; i < MANY; i++) {
        ids[i] = function_named(i / 4, i / FILES + (i & 1), i / 8);
        CHECK(ids[i] != 0);
        for (uint32_t k = i < 16 ? 0 : i - 16; k < i; k++) {
            const bool same = k / 4 == i / 4 && k / FILES + (k & 1) == i / FILES + (i & 1) && k / 8 == i / 8;
            CHECK((ids[k] == ids[i]) == same);
        }
        const struct as_profile_function *f = &as_recorder.functions[ids[i]];
        CHECK_EQUAL(f->first_line, i / 8);
    }
    for (uint32_t i = 0; i < MANY; i++)
        CHECK_EQUAL(function_named(i / 4, i / FILES + (i & 1), i / 8), ids[i]);
    CHECK(as_recorder.head->functions.used <= MANY / 2 + MANY / FILES + 1);
    CHECK(as_recorder.head->texts.used < MANY / 2 * sizeof "function1234" + (MANY / FILES + 2) * 64);
}

// A chain is followed for 256 steps. Branches may all have the same length, such as a power of two.
static void test_heads_of_contexts(void)
{
    enum { HEADS = 1 << 10, STACKS = 8 * HEADS, MOST = 64 };
    for (uint32_t distance = 1; distance <= 4096; distance *= 2) {
        uint32_t lengths[HEADS] = {0}, longest = 0;
        for (uint32_t i = 0; i < STACKS; i++) {
            uint32_t length = ++lengths[as_recorder_context_hash(i * distance, 3) % HEADS];
            longest = length > longest ? length : longest;
        }
        CHECK(longest <= MOST, "%u at a distance of %u", longest, distance);
    }
}

int main(void)
{
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    test_lists();
    for (int i = 0; i < ROUNDS; i++)
        test_places();
    test_contexts_that_nobody_writes();
    test_fork();
    test_without_stack();
    test_room();
    test_heads_of_contexts();
    test_slots();
    test_slots_of_a_heap();
    test_functions(true);
    test_functions(false);
    return 0;
}
