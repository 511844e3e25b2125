// SPDX-License-Identifier: MIT
#include "agent/thread.h"
#include "agent/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

enum {
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
typedef int create_key_fn(pthread_key_t *, void (*)(void *));
typedef int set_value_fn(pthread_key_t, const void *);

static uintptr_t find_symbol(void *here, const char *name)
{
    if (here || !__libc_dlopen_mode || !__libc_dlsym)
        return (uintptr_t)here;
    void *library = __libc_dlopen_mode("libpthread.so.0", LOADER_NOW | LOADER_DLOPEN);
    return library ? (uintptr_t)__libc_dlsym(library, name) : 0;
}
#define FIND(name) find_symbol((void *)(uintptr_t)(name), #name)

int as_agent_thread_create(void *(*run)(void *), void *argument, size_t stack)
{
    create_fn *create = (create_fn *)FIND(pthread_create);
    stack_fn *set_stack = (stack_fn *)FIND(pthread_attr_setstacksize);
    if (!create || !set_stack)
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
    if (stack != 0)
        set_stack(&attributes, stack);
    int failed = create(&thread, &attributes, run, argument);
    if (failed == EINVAL) { // a program with much static TLS, which lies on every thread's stack
        set_stack(&attributes, (size_t)AS_AGENT_STACK_BYTES * 16);
        failed = create(&thread, &attributes, run, argument);
    }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    return failed;
}

void as_agent_thread_begin(void)
{
    const uint64_t open = LIBC_SIGNALS;
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &open, NULL, sizeof open);
}

// A sandbox may forbid prctl, and have /proc.
void as_agent_thread_name(const char *name)
{
    if (prctl(PR_SET_NAME, name) == 0)
        return;
    int file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return;
    if (write(file, name, strlen(name)) < 0)
        as_log("the thread %s cannot have its name: %s", name, strerror(errno));
    close(file);
}

bool as_agent_thread_at_end(void (*ending)(void *))
{
    static pthread_key_t key;
    static set_value_fn *set_value; // NULL: there is no key
    if (!set_value) {
        create_key_fn *create_key = (create_key_fn *)FIND(pthread_key_create);
        set_value_fn *found = (set_value_fn *)FIND(pthread_setspecific);
        if (!create_key || !found || create_key(&key, ending) != 0)
            return false;
        set_value = found;
    }
    return set_value(key, &key) == 0; // any value but NULL
}

// libc keeps a thread's descriptor at the upper end of the thread's stack, which has at least the AS_AGENT_STACK_BYTES asked for.
struct as_range as_agent_thread_stack(void)
{
    uint64_t descriptor = (uint64_t)pthread_self();
    return (struct as_range){.start = descriptor - AS_AGENT_STACK_BYTES + STACK_SPARED, .end = descriptor};
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
