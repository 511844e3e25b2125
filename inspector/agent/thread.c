// SPDX-License-Identifier: MIT
#include "agent/thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

enum {
    STACK_BYTES = 512 * 1024,         // the core keeps buffers of tens of KiB on it
    STACK_SPARED = 128 * 1024,        // at its lower end: libc's guard, and what the agent never reaches
    LOADER_DLOPEN = (int)0x80000000u, // __RTLD_DLOPEN, which __libc_dlopen_mode wants
    LOADER_NOW = 2,
};

// Before 2.34 a program without threads has no pthread_create: libpthread has it, which these two functions of libc can load.
// From 2.34 on libc has neither of the two, nor needs them.
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

// The creating thread may have blocked the signals that libc sends to every thread: setuid() would wait for this one for ever.
static void *start(void *run)
{
    const uint64_t open = LIBC_SIGNALS;
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &open, NULL, sizeof open);
    return ((void *(*)(void))(uintptr_t)run)();
}

int as_agent_thread_create(void *(*run)(void))
{
    create_fn *create;
    stack_fn *set_stack;
    if (!find_threads(&create, &set_stack))
        return ENOSYS;
    // The new thread inherits this mask. No signal is unblocked here: a thread that blocks SIGCANCEL must not be cancelled in the
    // middle of this.
    const uint64_t blocked = ~LIBC_SIGNALS;
    uint64_t before;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &before, sizeof blocked);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    set_stack(&attributes, STACK_BYTES);
    int failed = create(&thread, &attributes, start, (void *)(uintptr_t)run);
    if (failed == EINVAL) { // a program with much static TLS, which lies on every thread's stack
        set_stack(&attributes, (size_t)STACK_BYTES * 16);
        failed = create(&thread, &attributes, start, (void *)(uintptr_t)run);
    }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    return failed;
}

// libc keeps a thread's descriptor at the upper end of the thread's stack, which has at least the STACK_BYTES asked for.
struct as_range as_agent_thread_stack(void)
{
    uint64_t descriptor = (uint64_t)pthread_self();
    return (struct as_range){.start = descriptor - STACK_BYTES + STACK_SPARED, .end = descriptor};
}

void as_agent_thread_release_stack(void)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = (as_agent_thread_stack().start + page - 1) / page * page;
    // The page below this frame stays: syscall() has a frame there.
    uint64_t end = (uint64_t)(uintptr_t)__builtin_frame_address(0) / page * page - page;
    if (start < end)
        madvise((void *)(uintptr_t)start, end - start, MADV_DONTNEED);
}
