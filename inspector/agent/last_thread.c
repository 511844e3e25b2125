// SPDX-License-Identifier: MIT
// A process whose first thread has called pthread_exit() ends with its last thread: there libc calls exit(), by a count of its own that
// has the agent's threads in it. So the last one would be one of these, and exit() would find neither the program's descriptors nor
// its working directory.
//
// Therefore, once the first thread has left, one more thread of the agent's sleeps in the process, which shares all of this with the
// program. It ends after the agent's other threads, and these when they are alone. Whether exit() runs then remains libc's decision.
//
// The first thread itself starts it at its end, by the destructor of a value that it has. Where it cannot tell us of its end, as when
// the library was injected through another thread, the last thread is there as soon as one of the others is.
#include "agent/agent.h"
#include "agent/log.h"
#include "agent/thread.h"
#include "target/procfs.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum {
    NAP_NS = 1000000,
    NAPS = 10000,
    STACK_IN_USE = 32 * 1024, // far more than a thread that sleeps ever used
};
enum { UNKNOWN, STAYS, LEFT };

static struct {
    _Atomic uint32_t first;      // what we know of the program's first thread
    _Atomic uint32_t others;     // of the agent's threads, without the last one: those that run, or were asked for
    _Atomic uint32_t running;    // of the agent's threads, all
    _Atomic pid_t ended;         // which of the others has ended last
    _Atomic bool there;          // the last one
    _Atomic uint64_t descriptor; // libc's, of the last one
    uint64_t mask;               // of signals, with which it ends: as of the first thread, or of that which started it
} last;

// A thread that the kernel does not know any more is not in libc's count, either. (The bound is for a thread that has the number of an
// old one.)
static void wait_until_gone(pid_t tid)
{
    for (int i = 0; i < NAPS && tid != 0 && syscall(SYS_tgkill, as_agent.pid, tid, 0) == 0; i++)
        as_sleep_ns(NAP_NS);
}

static void *wait_for_others(void *unused)
{
    (void)unused;
    as_agent_thread_begin();
    atomic_store(&last.descriptor, (uint64_t)pthread_self());
    atomic_fetch_add(&last.running, 1);
    as_agent_thread_name("arenascope-exit");
    do {
        uint32_t others;
        while ((others = atomic_load(&last.others)) != 0)
            syscall(SYS_futex, &last.others, FUTEX_WAIT_PRIVATE, others, NULL, NULL, 0);
        wait_until_gone(atomic_load(&last.ended));
        atomic_store(&last.there, false);
    } while (atomic_load(&last.others) != 0 && !atomic_exchange(&last.there, true));
    atomic_fetch_sub(&last.running, 1);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &last.mask, NULL, sizeof last.mask);
    return NULL;
}

static void keep_mask(void)
{
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &last.mask, sizeof last.mask);
}

static void start_last(void)
{
    if (atomic_load(&last.others) == 0 || atomic_exchange(&last.there, true))
        return;
    if (atomic_load(&last.first) != LEFT)
        keep_mask();
    int failed = as_agent_thread_create(wait_for_others, NULL, 0);
    if (failed == 0)
        return;
    atomic_store(&last.there, false);
    as_log("no thread can be started for exit(), which may run in one of the agent's if the first thread has ended: %s",
           strerror(failed));
}

// In the first thread. No order of memory but the strongest would do: either this sees the thread that is asked for meanwhile, or
// as_agent_thread_start() sees that the first thread has left.
static void first_leaves(void *unused)
{
    (void)unused;
    keep_mask();
    atomic_store(&last.first, LEFT);
    start_last();
}

static void watch_first(void)
{
    if (atomic_load(&last.first) == UNKNOWN && syscall(SYS_gettid) == as_agent.pid &&
        as_agent_thread_at_end(first_leaves))
        atomic_store(&last.first, STAYS);
}

void as_agent_last_thread_prepare(void)
{
    if (pthread_key_create) // else the program has no libpthread yet, which is not loaded for this
        watch_first();
}

void as_agent_last_thread_in_child(void)
{
    memset(&last, 0, sizeof last);
    as_agent_last_thread_prepare();
}

static void one_has_ended(void)
{
    if (atomic_fetch_sub(&last.others, 1) == 1)
        syscall(SYS_futex, &last.others, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *run_other(void *run)
{
    as_agent_thread_begin();
    atomic_fetch_add(&last.running, 1);
    ((void *(*)(void))(uintptr_t)run)();
    atomic_fetch_sub(&last.running, 1);
    // One after the other, so that all are gone when the one that ended last is.
    wait_until_gone(atomic_exchange(&last.ended, (pid_t)syscall(SYS_gettid)));
    one_has_ended();
    return NULL;
}

int as_agent_thread_start(void *(*run)(void))
{
    atomic_fetch_add(&last.others, 1);
    int failed = as_agent_thread_create(run_other, (void *)(uintptr_t)run, AS_AGENT_STACK_BYTES);
    if (failed) {
        one_has_ended();
        return failed;
    }
    watch_first();
    if (atomic_load(&last.first) != STAYS)
        start_last();
    return 0;
}

bool as_agent_is_alone(int proc)
{
    struct as_proc_stat stat;
    uint32_t ours = atomic_load(&last.running);
    return as_proc_stat(proc, "stat", &stat) && as_proc_is_dead(stat.state) && stat.threads <= 1 + ours &&
           atomic_load(&last.running) == ours;
}

struct as_range as_agent_last_thread_stack(void)
{
    uint64_t end = atomic_load(&last.there) ? atomic_load(&last.descriptor) : 0;
    return (struct as_range){.start = end ? end - STACK_IN_USE : 0, .end = end};
}
