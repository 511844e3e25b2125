// SPDX-License-Identifier: MIT
// The keeper is a thread of libc's: only so does malloc take its locks, and setuid() reach it. It is started when there is
// something to do, and not before.
#include "agent/agent.h"
#include "control/protocol.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

enum {
    STACK_BYTES = 512 * 1024,         // the core keeps buffers of tens of KiB on it
    STACK_SPARED = 128 * 1024,        // at its lower end, where libc puts a guard, and nothing of ours comes
    LOADER_DLOPEN = (int)0x80000000u, // __RTLD_DLOPEN, which __libc_dlopen_mode wants
    LOADER_NOW = 2,
};

// Before 2.34 a program without threads has no pthread_create: it is in libpthread, which these two can load, from within
// libc itself. From 2.34 on there are none of these.
extern void *__libc_dlopen_mode(const char *name, int mode) __attribute__((weak));
extern void *__libc_dlsym(void *library, const char *name) __attribute__((weak));

// SIGCANCEL and SIGSETXID.
#define LIBC_SIGNALS (UINT64_C(3) << 31)

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int stack_fn(pthread_attr_t *, size_t);

static bool find_threads(create_fn **create, stack_fn **set_stack)
{
    *create = pthread_create;
    *set_stack = pthread_attr_setstacksize;
    if (*create && *set_stack)
        return true;
    if (!__libc_dlopen_mode || !__libc_dlsym)
        return false;
    void *library = __libc_dlopen_mode("libpthread.so.0", LOADER_NOW | LOADER_DLOPEN);
    if (!library)
        return false;
    *create = (create_fn *)(uintptr_t)__libc_dlsym(library, "pthread_create");
    *set_stack = (stack_fn *)(uintptr_t)__libc_dlsym(library, "pthread_attr_setstacksize");
    return *create && *set_stack;
}

int as_agent_thread_create(void *(*run)(void *))
{
    create_fn *create;
    stack_fn *set_stack;
    if (!find_threads(&create, &set_stack))
        return ENOSYS;
    // Blocked, besides what is: all signals but those that libc sends itself. The thread inherits it. None is opened here:
    // a thread that blocks SIGCANCEL must not be cancelled in the middle of this.
    const uint64_t blocked = ~LIBC_SIGNALS;
    uint64_t before;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &before, sizeof blocked);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    set_stack(&attributes, STACK_BYTES);
    int failed = create(&thread, &attributes, run, NULL);
    if (failed == EINVAL) { // a program with much static TLS, which lies on every thread's stack
        set_stack(&attributes, (size_t)STACK_BYTES * 16);
        failed = create(&thread, &attributes, run, NULL);
    }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    return failed;
}

// The thread that started us may have blocked what libc sends to every thread: setuid() would wait for us for ever.
static void *run_worker(void *argument)
{
    const uint64_t open = LIBC_SIGNALS;
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &open, NULL, sizeof open);
    return as_agent_worker_run(argument);
}

// libc keeps a thread's descriptor at the upper end of its stack, and that it is STACK_BYTES long at least we asked for.
struct as_range as_agent_thread_stack(void)
{
    uint64_t descriptor = (uint64_t)pthread_self();
    return (struct as_range){.start = descriptor - STACK_BYTES + STACK_SPARED, .end = descriptor};
}

void as_agent_thread_release_stack(void)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = (as_agent_thread_stack().start + page - 1) / page * page;
    // Not the page below this frame: the call of the kernel has one, too.
    uint64_t end = (uint64_t)(uintptr_t)__builtin_frame_address(0) / page * page - page;
    if (start < end)
        madvise((void *)(uintptr_t)start, end - start, MADV_DONTNEED);
}

int as_agent_worker_start(void)
{
    uint32_t none = AS_AGENT_WORKER_NONE;
    if (!__atomic_compare_exchange_n(&as_agent.worker, &none, AS_AGENT_WORKER_STARTING, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return 0;
    int failed = as_agent_thread_create(run_worker); // which says itself that it runs, and when it does no more
    if (failed)
        __atomic_store_n(&as_agent.worker, AS_AGENT_WORKER_NONE, __ATOMIC_RELEASE);
    return failed;
}

void as_agent_worker_wake(void)
{
    pid_t tid = __atomic_load_n(&as_agent.worker_tid, __ATOMIC_SEQ_CST);
    if (tid != 0)
        syscall(SYS_tgkill, as_agent.pid, tid, AS_AGENT_WORKER_SIGNAL);
}

void as_agent_worker_forget(void)
{
    as_agent.worker = AS_AGENT_WORKER_NONE;
    as_agent.worker_tid = 0;
    as_agent.lock = 0;
}

int arenascope_wake(void)
{
    int saved = errno;
    int failed = as_agent_is_privileged() ? EPERM : as_agent_worker_start();
    errno = saved;
    return failed;
}

// As glibc's own low-level lock: 0 free, 1 taken, 2 taken and somebody waits.
void as_agent_lock(void)
{
    uint32_t expected = 0;
    if (__atomic_compare_exchange_n(&as_agent.lock, &expected, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    while (__atomic_exchange_n(&as_agent.lock, 2, __ATOMIC_ACQUIRE) != 0)
        syscall(SYS_futex, &as_agent.lock, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, NULL, NULL, 0);
}

void as_agent_unlock(void)
{
    if (__atomic_exchange_n(&as_agent.lock, 0, __ATOMIC_RELEASE) > 1)
        syscall(SYS_futex, &as_agent.lock, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}
