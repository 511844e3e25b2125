// SPDX-License-Identifier: MIT
// Threads that make use of each other by libc's and the kernel's own means: each of these waits for other threads, sends them
// signals, or keeps something for them. An injected call must not come in between.
#define _GNU_SOURCE
#include "selfcheck.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Says what this machine did not give us, and ends.
static void give_up(const char *what)
{
    perror(what);
    abort();
}

// setuid and its like: every other thread has to handle a signal. In bursts, with nothing in between.
static void *changes_user(void *unused)
{
    enum { BURST = 20 };
    (void)unused;
    while (!stopping) {
        for (int i = 0; i < BURST && !stopping; i++) {
            if (setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1) != 0 || setresgid((gid_t)-1, (gid_t)-1, (gid_t)-1) != 0)
                harmed("setresuid failed: %s", strerror(errno));
            checked();
        }
        usleep(1000);
    }
    return NULL;
}

void setxid_start(void)
{
    start(changes_user, NULL, 0);
}

// --- Cancellation ---

struct victim {
    int ends[2];
    int way;
    atomic_int started, cleaned;
    char *own; // a place on its stack
};

static void clean(void *argument)
{
    struct victim *v = argument;
    char here;
    // On its own stack, near where it was cancelled.
    if (labs((long)(v->own - &here)) > 1 << 20)
        harmed("the clean-up handler of a cancelled thread ran on another stack");
    v->cleaned++;
}

// Waits in read (deferred), spins without a place where it could be cancelled but for one, or spins and may be anywhere.
static void *is_cancelled(void *argument)
{
    struct victim *v = argument;
    char byte;
    v->own = &byte;
    pthread_cleanup_push(clean, v);
    if (v->way == 2)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    v->started = 1;
    if (v->way == 0 && read(v->ends[0], &byte, 1) != -2)
        harmed("a read was not cancelled: %s", strerror(errno));
    while (v->way == 1) {
        for (volatile int i = 0; i < 100000; i++)
            ;
        pthread_testcancel();
    }
    while (v->way == 2)
        ;
    pthread_cleanup_pop(0);
    return NULL;
}

static void *cancels(void *unused)
{
    uint64_t state = 7;
    (void)unused;
    for (int n = 0; !stopping; n++) {
        struct victim v = {.way = n % 3};
        pthread_t thread;
        void *result = NULL;
        if (pipe(v.ends) != 0 || create_thread(&thread, is_cancelled, &v) != 0) {
            harmed("a thread to be cancelled could not be started");
            break;
        }
        while (!v.started)
            sched_yield();
        usleep((unsigned)(draw(&state) % 20000)); // it may be injected meanwhile
        if (pthread_cancel(thread) != 0 || pthread_join(thread, &result) != 0 || result != PTHREAD_CANCELED ||
            v.cleaned != 1)
            harmed("a thread ended with %p and cleaned up %d times when it was cancelled", result, v.cleaned);
        close(v.ends[0]);
        close(v.ends[1]);
        checked();
    }
    return NULL;
}

void cancels_start(void)
{
    start(cancels, NULL, 0);
}

// --- Libraries ---

// Waits until somebody has stopped the thread, or for some time; inside libc, where no injector takes the one that waits.
static void await_tracer(int thread)
{
    char path[64];
    char text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 300 && fd >= 0; i++) {
        ssize_t length = pread(fd, text, sizeof text - 1, 0);
        text[length > 0 ? length : 0] = '\0';
        const char *tracer = strstr(text, "TracerPid:\t");
        if (tracer && tracer[11] != '0')
            break;
    }
    close(fd);
}

static void stay_in_libc(uint64_t ns)
{
    static volatile char bytes[1 << 14];
    for (uint64_t began = now_ns(); now_ns() - began < ns;)
        memset((char *)(uintptr_t)bytes, 1, sizeof bytes);
}

// $SELFCHECK_PLUGIN is loaded and unloaded. Its constructor starts a thread and waits until that runs; its destructor joins it:
// when it is in the hands of an injector.
static void *loads(void *argument)
{
    const char *path = argument;
    uint64_t state = now_ns() | 1;
    while (!stopping) {
        void *library = dlopen(path, RTLD_NOW);
        int (*answer)(void) = library ? (int (*)(void))(uintptr_t)dlsym(library, "plugin_answer") : NULL;
        bool ok = answer && answer() == 42;
        int (*worker)(void) = ok ? (int (*)(void))(uintptr_t)dlsym(library, "plugin_worker") : NULL;
        if (worker)
            await_tracer(worker());
        stay_in_libc(draw(&state) % 2000000); // until that has seen that nobody holds the loader's lock
        if (!ok || dlclose(library) != 0) {
            harmed("the plugin: %s", dlerror());
            break;
        }
        checked();
    }
    return NULL;
}

void plugins_start(void)
{
    char *path = getenv("SELFCHECK_PLUGIN");
    if (!path)
        give_up("SELFCHECK_PLUGIN");
    start(loads, path, 0);
}

// --- The kernel's ---

// Barriers for all threads of the process, expedited: by interrupts to the processors that run one.
static void *fences(void *unused)
{
    enum { PRIVATE = 1 << 3, REGISTER = 1 << 4, SYNC = 1 << 5, REGISTER_SYNC = 1 << 6 };
    (void)unused;
    if (syscall(SYS_membarrier, REGISTER, 0, 0) != 0)
        return NULL; // the kernel has none
    bool sync = syscall(SYS_membarrier, REGISTER_SYNC, 0, 0) == 0;
    while (!stopping) {
        if (syscall(SYS_membarrier, PRIVATE, 0, 0) != 0 || (sync && syscall(SYS_membarrier, SYNC, 0, 0) != 0))
            harmed("membarrier failed: %s", strerror(errno));
        checked();
        usleep(200);
    }
    return NULL;
}

// A robust mutex whose owner ends: the kernel gives it to the next, by a list that each thread keeps.
struct heirloom {
    pthread_mutex_t mutex;
    atomic_bool taken;
};

static void *leaves(void *argument)
{
    struct heirloom *h = argument;
    pthread_mutex_lock(&h->mutex);
    h->taken = true;
    usleep(3000);
    return NULL;
}

static void *inherits(void *unused)
{
    pthread_mutexattr_t attributes;
    (void)unused;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    while (!stopping) {
        struct heirloom h = {.taken = false};
        pthread_t thread;
        pthread_mutex_init(&h.mutex, &attributes);
        if ((errno = create_thread(&thread, leaves, &h)) != 0)
            give_up("pthread_create");
        while (!h.taken)
            usleep(100);
        int got = pthread_mutex_lock(&h.mutex);
        pthread_join(thread, NULL);
        if (got != EOWNERDEAD || pthread_mutex_consistent(&h.mutex) != 0)
            harmed("a robust mutex whose owner has ended: %s", strerror(got));
        pthread_mutex_unlock(&h.mutex);
        pthread_mutex_destroy(&h.mutex);
        checked();
    }
    return NULL;
}

void kernels_start(void)
{
    start(fences, NULL, 0);
    start(inherits, NULL, 0);
}

// --- Timers that start a thread each time ---

// libc's own thread waits for them by sigwait(), for the signal that cancellation has, too.
static atomic_int ticks;

static void on_tick(union sigval value)
{
    (void)value;
    ticks++;
}

static void *clocks(void *unused)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_tick};
    struct itimerspec every = {.it_interval.tv_nsec = 2000000, .it_value.tv_nsec = 2000000};
    (void)unused;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &every, NULL) != 0)
        give_up("timer_create");
    while (!stopping) {
        int before = ticks;
        uint64_t began = now_ns();
        while (ticks == before && !stopping) {
            usleep(1000);
            if (now_ns() - began > UINT64_C(60000000000)) {
                harmed("a timer came no more");
                return NULL;
            }
        }
        checked();
    }
    timer_delete(timer);
    return NULL;
}

void clocks_start(void)
{
    start(clocks, NULL, 0);
}

// --- Programs ---

extern char **environ;

static void *spawns(void *unused)
{
    (void)unused;
    while (!stopping) {
        pid_t pid;
        int status;
        char *const words[] = {"true", NULL};
        if (posix_spawn(&pid, "/bin/true", NULL, NULL, words, environ) != 0 || waitpid(pid, &status, 0) != pid ||
            status != 0)
            harmed("a program could not be started: %s", strerror(errno));
        checked();
        usleep(2000);
    }
    return NULL;
}

void spawns_start(void)
{
    start(spawns, NULL, 0);
}

// --- Restartable sequences ---

#if defined(__x86_64__)
struct sequence {
    uint32_t version, flags;
    uint64_t start, length, abort;
} __attribute__((aligned(32)));
struct area {
    uint32_t cpu_start, cpu;
    uint64_t sequence;
    uint32_t flags, pad[11];
} __attribute__((aligned(64)));
enum { RSEQ = 334, SIGNATURE = 0x53053053 };

// The one that libc has registered (from 2.35 on), or one of ours.
static volatile struct area *find_area(void)
{
    static __thread struct area own;
    const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
    const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");
    if (offset && size && *size != 0) {
        char *thread; // __builtin_thread_pointer() on x86-64 is gcc 11's and later
        __asm__("movq %%fs:0, %[thread]" : [thread] "=r"(thread));
        return (struct area *)(thread + *offset);
    }
    return syscall(RSEQ, &own, 32, 0, SIGNATURE) == 0 ? &own : NULL;
}

// Hardly ever out of a sequence. Whenever the kernel takes the processor from a thread in there, it must be sent to the
// sequence's way out, not back into it: there, the sequence is always the one that is announced.
static void *restarts(void *unused)
{
    volatile struct area *area = find_area();
    (void)unused;
    while (area && !stopping) {
        uint64_t announced = 1;
        __asm__ volatile(".pushsection .data.rel, \"aw\"\n\t"
                         ".balign 32\n"
                         "3:\t.long 0, 0\n\t"
                         ".quad 1f, 2f - 1f, 4f\n\t"
                         ".popsection\n\t"
                         "leaq 3b(%%rip), %%rax\n\t"
                         "movq %%rax, 8(%[area])\n"
                         "1:\tmovl $2000000, %%ecx\n"
                         "6:\tdecl %%ecx\n\t"
                         "jnz 6b\n\t"
                         "movq 8(%[area]), %[announced]\n"
                         "2:\tjmp 5f\n\t"
                         ".byte 0x0f, 0xb9, 0x3d\n\t"
                         ".long 0x53053053\n"
                         "4:\n"
                         "5:\n\t"
                         : [announced] "+r"(announced)
                         : [area] "r"(area)
                         : "rax", "rcx", "memory", "cc");
        if (announced == 0)
            harmed("a restartable sequence went on after an interruption");
        checked();
    }
    return NULL;
}

void rseqs_start(void)
{
    start(restarts, NULL, 0);
}
#else
void rseqs_start(void)
{
}
#endif
