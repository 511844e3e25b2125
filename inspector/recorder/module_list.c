// SPDX-License-Identifier: MIT
// A list of modules is never changed: there is a new one. A thread that unwinds names the list that it reads, and who frees a list
// checks whether anybody does.
#include "base/clock.h"
#include "base/vec.h"
#include "recorder/interpreters.h"
#include "recorder/recorder.h"

#include "unwind/table.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NO_MODULE = AS_PROFILE_NO_MODULE, REFRESH_NS = 10000000, WAIT_NS = 1000000, MANY = 1000, SOME = 100, FEW = 10 };
enum { UNKNOWN_PAGES = 1024 };
#define OFFSET_MASK ((UINT64_C(1) << 48) - 1)
// 2^64 by the golden ratio: of its first 2^32 multiples no two are nearer to each other than 2^30.
#define EPOCH UINT64_C(0x9e3779b97f4a7c15)

static struct {
    _Atomic(const struct as_unwind_modules *) current;
    _Atomic uint32_t loading; // by one thread
    _Atomic uint32_t closing; // threads in dlclose, until the list is as dlclose has left it
    _Atomic uint32_t owed;   // times that the loader's lock was held when the list was to be compared with the loader's
    _Atomic bool unasked;    // code of no module was on a stack, and the loader could not be asked
    _Atomic bool unfinished; // interpreters are searched for again from time to time
    _Atomic bool child;      // of a fork: the loader's lock may be held by a thread that is not there
    _Atomic uint64_t checked_ns;
    _Atomic uintptr_t unknown[UNKNOWN_PAGES]; // pages of code that was in no module, + 1
    char directory[PATH_MAX];
    bool has_directory;
    uint64_t filters;                          // as_unwind_cache_filters(), of the thread that began
    struct as_unwind_modules *oldest, *newest; // that may still be read; by the thread that loads
} list;

// --- The modules in the tables ----------------------------------------------------------------------------------------

// A frame is an offset in its module: wherever the same object is, its record is the same. One without a build-id is known by its place.
static bool is_same(const struct as_profile_module *record, const struct as_unwind_module *module)
{
    const struct as_unwind_head *head = module->table.head;
    uint32_t size = head ? head->id_size < AS_PROFILE_BUILD_ID ? head->id_size : AS_PROFILE_BUILD_ID : 0;
    return record->end - record->start == module->end - module->start && record->build_id_size == size &&
           strncmp(record->name, module->name, sizeof record->name - 1) == 0 &&
           (size > 0 ? memcmp(record->build_id, head->id, size) == 0
                     : record->start == module->start && record->bias == module->bias);
}

// The newest record is inspected first: an older one may be of a module that is gone.
static uint32_t record_of(const struct as_unwind_module *module)
{
    const struct as_profile_table *table = &as_recorder.head->modules;
    for (uint64_t i = table->used; i > 0; i--)
        if (is_same(&as_recorder.modules[i - 1], module))
            return (uint32_t)(i - 1);
    return NO_MODULE;
}

// By the thread that loads.
static uint32_t add_record(const struct as_unwind_module *module)
{
    struct as_profile_table *table = &as_recorder.head->modules;
    const struct as_unwind_head *head = module->table.head;
    uint64_t index = table->used;
    if (index == table->size)
        return NO_MODULE;
    struct as_profile_module *record = &as_recorder.modules[index];
    *record = (struct as_profile_module){.start = module->start, .end = module->end, .bias = module->bias};
    if (head) {
        record->build_id_size = head->id_size < AS_PROFILE_BUILD_ID ? head->id_size : AS_PROFILE_BUILD_ID;
        memcpy(record->build_id, head->id, record->build_id_size);
    }
    strncpy(record->name, module->name, sizeof record->name - 1);
    __atomic_store_n(&table->used, index + 1, __ATOMIC_RELEASE);
    return (uint32_t)index;
}

// Before the list is anybody else's: a frame finds its record without a search.
static void add_records(struct as_unwind_modules *modules)
{
    AS_FOR_EACH(struct as_unwind_module, module, modules) {
        module->tag = record_of(module);
        if (module->tag == NO_MODULE)
            module->tag = add_record(module);
    }
}

uint64_t as_recorder_frame(const struct as_unwind_modules *modules, const struct as_unwind_module **last, uintptr_t pc)
{
    const struct as_unwind_module *module = *last;
    if (!module || pc < module->start || pc >= module->end)
        module = *last = as_unwind_module_at(modules, pc);
    uint32_t record = module ? module->tag : NO_MODULE;
    uint64_t offset = record == NO_MODULE ? pc : pc - module->bias;
    return (uint64_t)record << 48 | (offset & OFFSET_MASK);
}

// --- The list ---------------------------------------------------------------------------------------------------------

static bool is_read(const struct as_unwind_modules *modules)
{
    for (size_t i = as_recorder_next_thread(0); i < AS_RECORDER_THREADS; i = as_recorder_next_thread(i + 1))
        if (atomic_load(&as_recorder.threads[i].reading) == (uintptr_t)modules)
            return true;
    return false;
}

// Old lists are freed oldest first, as tables that they share with newer ones stay.
static void retire(const struct as_unwind_modules *given_up)
{
    struct as_unwind_modules *modules = (struct as_unwind_modules *)(uintptr_t)given_up;
    if (list.newest)
        list.newest->newer = modules;
    else
        list.oldest = modules;
    list.newest = modules;
    while (list.oldest && !is_read(list.oldest)) {
        struct as_unwind_modules *oldest = list.oldest;
        list.oldest = oldest->newer;
        as_unwind_modules_free(oldest, list.oldest ? list.oldest : atomic_load(&list.current));
    }
    if (!list.oldest)
        list.newest = NULL;
}

// While the loader's lock is held.
static void find_interpreters(void)
{
    atomic_store(&list.unfinished, !as_interpreters_find());
}

void as_recorder_modules_watch(bool in)
{
    struct as_recorder_signals signals;
    bool entered = as_recorder_loader_enter(&signals); // noted, as a thread may fork meanwhile
    as_python_watch(in);
    if (entered)
        as_recorder_loader_leave(&signals);
}

// NULL: there is none. A filter that came since the profile began may end the process for calls that only a cache
// needs. A filter that was there (a container's, a service's) has let these calls pass.
static const char *cache_directory_now(void)
{
    return list.has_directory && as_unwind_cache_filters() == list.filters ? list.directory : NULL;
}

static bool load_first(void)
{
    struct as_recorder_signals signals;
    as_recorder_loader_find();
    list.filters = as_unwind_cache_filters();
    list.has_directory = as_unwind_cache_directory(list.directory, sizeof list.directory);
    const struct as_unwind_modules *before = atomic_load(&list.current);
    bool entered = as_recorder_loader_enter(&signals); // noted, as a thread may fork meanwhile
    struct as_unwind_modules *modules = as_unwind_modules_load(before, list.has_directory ? list.directory : NULL);
    if (modules) {
        add_records(modules);
        find_interpreters();
    }
    if (entered)
        as_recorder_loader_leave(&signals);
    if (!modules)
        return false;
    atomic_store(&list.current, modules);
    if (before)
        retire(before);
    return true;
}

// Whoever waits for the thread that loads does not wait for ever: a handler may have interrupted this thread, or it may wait for what we
// hold. (No nanosleep: it is a cancellation point, and a sandbox may forbid it.)
static bool begin_loading(int attempts)
{
    while (atomic_exchange(&list.loading, 1)) {
        if (attempts-- == 0)
            return false;
        syscall(SYS_futex, &list.loading, FUTEX_WAIT_PRIVATE, 1, &(struct timespec){.tv_nsec = WAIT_NS}, NULL, 0);
    }
    return true;
}

static void end_loading(void)
{
    atomic_store(&list.loading, 0);
    syscall(SYS_futex, &list.loading, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

// A thread that still believes in an earlier profile may be loading the list.
bool as_recorder_modules_load(void)
{
    struct as_recorder_signals signals;
    as_recorder_block_signals(&signals);
    bool ok = begin_loading(MANY);
    if (ok) {
        ok = load_first();
        atomic_store(&list.child, false); // the loader's lock is free where a profile begins
        end_loading();
    }
    as_recorder_restore_signals(&signals);
    return ok;
}

void as_recorder_modules_unlearn(void)
{
    atomic_fetch_add(&as_recorder.epoch, EPOCH);
}

// Signatures of before are forgotten at once, and again those which were learned by the old list meanwhile.
static bool refresh(void)
{
    const struct as_unwind_modules *before = atomic_load(&list.current);
    if (!as_unwind_modules_stale(before))
        return true;
    as_recorder_modules_unlearn();
    struct as_unwind_modules *modules = as_unwind_modules_load(before, cache_directory_now());
    if (!modules)
        return false;
    add_records(modules);
    find_interpreters();
    as_python_watch(true);
    atomic_store(&list.current, modules);
    as_recorder_modules_unlearn();
    for (size_t i = 0; i < UNKNOWN_PAGES; i++)
        atomic_store_explicit(&list.unknown[i], 0, memory_order_relaxed);
    AS_RECORDER_COUNT(reloads);
    retire(before);
    return true;
}

// Files are opened: neither malloc nor dlclose may be where the thread is cancelled. False: another thread loads, or holds the loader's
// lock, or the process is a child. (The lock comes first: a thread that waits for it lets signals in, and a handler that jumps out of this
// wait leaves nothing behind.)
static bool refresh_uncancelled(int attempts)
{
    int state;
    struct as_recorder_signals signals;
    if (atomic_load(&list.child))
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    bool ok = as_recorder_loader_enter(&signals);
    if (ok) {
        ok = begin_loading(attempts);
        if (ok) {
            ok = refresh();
            end_loading();
        }
        as_recorder_loader_leave(&signals);
    }
    pthread_setcancelstate(state, NULL);
    return ok;
}

void as_recorder_modules_closing(void)
{
    atomic_fetch_add(&list.closing, 1);
}

// Until somebody has compared the list with the loader's, no stack is believed, and none that was is recognised.
static void require_comparison(void)
{
    atomic_fetch_add(&list.owed, 1);
    as_recorder_modules_unlearn();
}

// Waits for a thread that has been loading since before: it may have seen the list as it was.
void as_recorder_modules_closed(bool changed)
{
    if (changed && !atomic_load(&list.child) && !refresh_uncancelled(MANY))
        require_comparison();
    uint32_t closing = atomic_load(&list.closing);
    while (closing > 0 && !atomic_compare_exchange_weak(&list.closing, &closing, closing - 1))
        continue; // 0: a child that was forked in dlclose counts from 0
}

static bool is_asked_for(uintptr_t page)
{
    return atomic_load(&list.unknown[page % UNKNOWN_PAGES]) == page + 1 &&
           as_clock_ns(CLOCK_MONOTONIC_COARSE) - atomic_load(&list.checked_ns) < REFRESH_NS;
}

// Whoever finds that nothing has changed waits for nobody who loads.
bool as_recorder_modules_doubt(const struct as_unwind_modules *modules, uintptr_t unknown)
{
    uintptr_t page = unknown >> as_recorder.page_shift;
    bool asks = unknown && !is_asked_for(page);
    uint32_t owed = atomic_load(&list.owed);
    bool changing = owed > 0 || atomic_load(&list.closing) > 0;
    bool unfinished = atomic_load(&list.unfinished);
    bool waits = !unfinished || as_clock_ns(CLOCK_MONOTONIC_COARSE) - atomic_load(&list.checked_ns) < REFRESH_NS;
    if ((!asks && !changing && waits) || atomic_load(&list.child))
        return true;
    atomic_store(&list.checked_ns, as_clock_ns(CLOCK_MONOTONIC_COARSE));
    struct as_recorder_signals signals;
    if (!as_recorder_loader_enter(&signals)) {
        if (asks)
            atomic_store(&list.unasked, true);
        return !changing;
    }
    bool stale = as_unwind_modules_stale(modules);
    if (unfinished) {
        find_interpreters();
        as_python_watch(true);
    }
    as_recorder_loader_leave(&signals);
    if (atomic_exchange(&list.unasked, false))
        as_recorder_modules_unlearn(); // what was learned without an answer is unwound again
    if (stale && !refresh_uncancelled(changing ? SOME : FEW))
        return !changing;
    if (asks)
        atomic_store(&list.unknown[page % UNKNOWN_PAGES], page + 1);
    if (owed > 0)
        atomic_compare_exchange_strong(&list.owed, &owed, 0);
    return true;
}

const struct as_unwind_modules *as_recorder_modules_take(struct as_recorder_thread *thread)
{
    for (;;) {
        const struct as_unwind_modules *modules = atomic_load(&list.current);
        atomic_store(&thread->reading, (uintptr_t)modules);
        if (atomic_load(&list.current) == modules)
            return modules;
    }
}

void as_recorder_modules_leave(struct as_recorder_thread *thread)
{
    atomic_store_explicit(&thread->reading, 0, memory_order_release);
}

void as_recorder_modules_in_child(void)
{
    as_recorder_loader_in_child();
    atomic_store(&list.child, true);
    atomic_store(&list.owed, 0);
    atomic_store(&list.unasked, false);
    atomic_store(&list.closing, 0); // threads that are not there
    atomic_store(&list.loading, 0);
}
