// SPDX-License-Identifier: MIT
#include "recorder/enable.h"
#include "recorder/recorder.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NAPS = 1000 };

static bool ends_with_fork;

// Waits until no thread is in the tables, for a second at most. A thread names itself busy before it checks whether the recorder is on;
// after the barrier either it sees that the recorder is off, or we see that it is busy. (A kernel without barriers: the first nap has
// to do.)
static bool wait_until_quiet(void)
{
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    return as_recorder_hooks_left(NAPS);
}

void as_recorder_in_child_of_start(void)
{
    as_recorder_loader_in_child();
}

// The threads but this one are gone.
void as_recorder_in_child(void)
{
    struct as_recorder *r = &as_recorder;
    if (!r->head)
        return;
    r->allocated = 0;
    uintptr_t own = as_recorder_pointer();
    uint64_t walks = 0;
    for (size_t i = as_recorder_next_thread(0); i < AS_RECORDER_THREADS; i = as_recorder_next_thread(i + 1)) {
        struct as_recorder_thread *t = &r->threads[i];
        uintptr_t pointer = atomic_load_explicit(&t->pointer, memory_order_relaxed);
        if (pointer == own && t->walk != 0)
            walks = UINT64_C(1) << (t->walk - 1);
        if (pointer == 0 || pointer == own)
            continue;
        t->walk = 0;
        atomic_store(&t->busy, 0);
        atomic_store(&t->reading, 0);
        t->low = t->foreign = 0;
    }
    atomic_store(&as_recorder_taken.walks, walks);
    atomic_store(&r->profiling, false); // nobody is there who would write the buffers
    as_recorder_modules_in_child();
    if (!atomic_load(&r->on))
        return;
    r->head->pid = (uint64_t)getpid();
    if (!ends_with_fork)
        return;
    // The hooks stay and pass on: the loader's lock may be held by a thread that is not there.
    atomic_store(&r->on, false);
    as_recorder_unmap(); // of places that are used again nobody would know
}

#define CLOCK_SOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

// Whether the processor's counter is the same on all processors: the kernel itself tells the time by it, and watches it.
static bool has_ticks(void)
{
#if defined(__x86_64__)
    char name[8] = "";
    int file = open(CLOCK_SOURCE, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, name, sizeof name);
    if (file >= 0)
        close(file);
    return got == 4 && memcmp(name, "tsc\n", 4) == 0;
#else
    return true; // the architecture says so
#endif
}

static bool begin_trace(const struct as_recorder_rates *rates, as_recorder_begin *begin, struct as_error *err)
{
    struct as_recorder *r = &as_recorder;
    r->ticks = has_ticks();
    if (!as_recorder_buffers_map(rates->buffers))
        return as_fail(err, AS_NO_MEMORY, "no memory for its buffers (%llu bytes of address space)",
                       (unsigned long long)rates->buffers);
    if (!begin(err))
        return false;
    r->hooks = AS_RECORDER_HOOKS;
    return true;
}

// `entries`: the hooks are to be at the entries, of which it gets the page; NULL: in slots.
static bool start(const char *text, bool running, as_recorder_begin *record, uint64_t *entries, struct as_error *err)
{
    struct as_recorder *r = &as_recorder;
    struct as_recorder_rates rates;
    if (!as_recorder_parse(text, &rates, err) || !as_recorder_find_libc(err))
        return false;
    if (atomic_load(&r->on))
        return as_fail(err, AS_DENIED, "one is being made already: arenascope profile PID --stop ends it");
    if (r->head && !wait_until_quiet())
        return as_fail(err, AS_DENIED, "a thread is still in the last one");
    if (entries && !as_recorder_map_entries(entries, err))
        return false;
    if (!as_recorder_map(&rates, record != NULL))
        return as_fail(err, AS_NO_MEMORY, "no memory for its tables (%llu bytes of address space)",
                       (unsigned long long)rates.memory);
    if (syscall(SYS_gettid) == getpid())
        r->main_pointer = as_recorder_pointer();
    r->main_high = getauxval(AT_RANDOM);
    if (!as_recorder_modules_load()) {
        as_recorder_unmap();
        return as_fail(err, AS_NO_MEMORY, "no memory for the list of modules");
    }
    as_recorder_threads_begin();
    r->head->at_entries = entries != NULL;
    r->hooks = AS_RECORDER_HOOKS - 1;
    if (record && !begin_trace(&rates, record, err)) {
        as_recorder_unmap();
        return false;
    }
    ends_with_fork = running;
    if (!entries && !as_recorder_write_slots(true, running)) {
        as_recorder_unmap();
        return as_fail(err, AS_UNSUPPORTED, "no slot of malloc's was found");
    }
    if (r->main_pointer == as_recorder_pointer())
        as_recorder_thread_introduce();
    // Not before: a place that a hook has written down might be used again through a slot without one.
    r->head->on = 1;
    atomic_store(&r->on, true);
    as_recorder_modules_watch(true);
    atomic_store(&r->profiling, record != NULL);
    return true;
}

bool as_recorder_start(const char *text, bool running, as_recorder_begin *record, struct as_error *err)
{
    return start(text, running, record, NULL, err);
}

bool as_recorder_start_at_entries(const char *text, uint64_t *page, struct as_error *err)
{
    return start(text, true, NULL, page, err);
}

bool as_recorder_writes_trace(void)
{
    return atomic_load(&as_recorder.profiling);
}

bool as_recorder_allocated(uint64_t *bytes)
{
    *bytes = __atomic_load_n(&as_recorder.allocated, __ATOMIC_RELAXED);
    return atomic_load(&as_recorder.on) && as_recorder.mean != 0;
}

bool as_recorder_stop(void)
{
    struct as_recorder *r = &as_recorder;
    if (!atomic_load(&r->on))
        return true;
    if (!r->head->at_entries)
        as_recorder_write_slots(false, true);
    atomic_store(&r->profiling, false);
    atomic_store(&r->on, false);
    as_recorder_modules_watch(false); // nobody puts it in any more
    r->head->on = 0;
    if (!wait_until_quiet())
        return false;
    as_recorder_unmap();
    return true;
}
