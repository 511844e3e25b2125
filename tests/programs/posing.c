// SPDX-License-Identifier: MIT
// posing HOW: a process in a state that an injector has to be careful with. Says "ready"; ends when stdin does.
//
//   idle      one thread that waits
//   spins     one thread that never enters the kernel, and checks errno and how its vector unit rounds
//   libc      one thread that is inside libc all the time
//   loader    holds the loader's lock, and waits
//   handler   waits in a signal handler
//   setuid    one thread that waits in setresuid() for another, which waits for a child of vfork() until SIGUSR1 comes
//   cancel, exec, exit, leave, fork, rob
//             one thread waits in read(), holding a robust mutex that a child shares; upon SIGUSR1 the first thread cancels it,
//             becomes cat, calls exit(7), calls _exit(7), forks and waits for the child, kills the process
//   filter    under a seccomp filter that allows everything
//   sandbox   under one that allows everything but getpgid, which fails
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;

static void wait_for_end(void)
{
    char byte;
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    exit(0);
}

static int in_loader(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)info;
    (void)size;
    (void)data;
    wait_for_end();
    return 0;
}

static void on_signal(int signal)
{
    (void)signal;
    wait_for_end();
}

static void on_term(int signal)
{
    (void)signal;
    stopping = 1;
}

static volatile sig_atomic_t let_go, vforked;

static void on_usr1(int signal)
{
    (void)signal;
    let_go = 1;
}

// The child has our memory, and the kernel holds this thread until the child ends.
static void *wait_for_child(void *unused)
{
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        vforked = 1;
        while (!let_go)
            usleep(1000);
        _exit(0);
    }
    pause();
    return unused;
}

static void wait_in_setuid(void)
{
    pthread_t thread;
    signal(SIGUSR1, on_usr1);
    if (pthread_create(&thread, NULL, wait_for_child, NULL) != 0)
        exit(2);
    while (!vforked)
        usleep(1000);
    puts("ready");
    fflush(stdout);
    if (setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1) != 0)
        exit(2);
}

// --- What another thread does meanwhile ---

static struct shared {
    pthread_mutex_t mutex;
} * shared;
static volatile int cleaned;

static void clean_up(void *unused)
{
    (void)unused;
    cleaned++;
}

static void *wait_in_read(void *end)
{
    char byte;
    pthread_cleanup_push(clean_up, NULL);
    pthread_mutex_lock(&shared->mutex);
    if (read(*(int *)end, &byte, 1) != -2)
        abort();
    pthread_cleanup_pop(0);
    return NULL;
}

static void say(const char *what)
{
    puts(what);
    fflush(stdout);
}

// A child that waits for the mutex, and is told by the kernel when its owner has gone.
static void start_heir(void)
{
    pthread_mutexattr_t attributes;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->mutex, &attributes);
    if (fork() == 0) {
        while (pthread_mutex_trylock(&shared->mutex) != EBUSY) {
            pthread_mutex_unlock(&shared->mutex);
            usleep(1000);
        }
        say(pthread_mutex_lock(&shared->mutex) == EOWNERDEAD ? "inherited" : "not inherited");
        _exit(0);
    }
}

static void do_meanwhile(const char *what, pthread_t thread)
{
    void *result = NULL;
    int status = 1;
    if (strcmp(what, "cancel") == 0) {
        say(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED &&
                    cleaned == 1 && dlopen("libc.so.6", RTLD_NOW)
                ? "cancelled"
                : "not cancelled");
        exit(0);
    }
    if (strcmp(what, "exec") == 0)
        execl("/bin/cat", "cat", (char *)NULL);
    if (strcmp(what, "exit") == 0)
        exit(7);
    if (strcmp(what, "leave") == 0)
        _exit(7);
    if (strcmp(what, "rob") == 0)
        raise(SIGKILL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60); // it would wait for ever
        for (int i = 0; i < 1000; i++)
            free(malloc((size_t)i * 100));
        _exit(dlopen("libm.so.6", RTLD_NOW) ? 0 : 1);
    }
    say(waitpid(child, &status, 0) == child && status == 0 ? "forked" : "not forked");
}

// The first thread waits in a call for which injectors take another thread first.
static void live_with_others(const char *what)
{
    static int ends[2];
    pthread_t thread;
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    struct sigaction action = {.sa_handler = on_usr1};
    sigaction(SIGUSR1, &action, NULL);
    if (strcmp(what, "rob") == 0)
        start_heir();
    else {
        static struct shared own = {PTHREAD_MUTEX_INITIALIZER};
        shared = &own;
    }
    epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event);
    sigset_t usr1;
    sigset_t before;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, &before); // for the first thread alone
    if (pipe(ends) != 0 || pthread_create(&thread, NULL, wait_in_read, ends) != 0)
        exit(2);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    say("ready");
    while (epoll_wait(epoll, &event, 1, -1) != 1) {
        if (let_go) {
            let_go = 0;
            do_meanwhile(what, thread);
        }
    }
    exit(0);
}

static int stay_in_libc(void)
{
    enum { SIZE = 64 << 20 };
    volatile char *bytes = malloc(SIZE);
    signal(SIGTERM, on_term);
    puts("ready");
    fflush(stdout);
    for (int n = 0; !stopping; n++)
        memset((char *)(uintptr_t)bytes, n, SIZE);
    return 0;
}

// The control register of the vector unit, with another way of rounding than the usual.
#if defined(__x86_64__)
enum { UPWARD = 0x5f80 };
#define set_rounding __builtin_ia32_ldmxcsr
#define rounding __builtin_ia32_stmxcsr
#elif defined(__aarch64__)
enum { UPWARD = 1 << 22 };
#define set_rounding __builtin_aarch64_set_fpcr
#define rounding __builtin_aarch64_get_fpcr
#endif

static int spin(void)
{
    enum { MINE = 4711 };
    signal(SIGTERM, on_term);
    puts("ready");
    fflush(stdout);
    set_rounding(UPWARD);
    errno = MINE;
    while (!stopping)
        if (errno != MINE || (rounding() & UPWARD) != UPWARD) {
            printf("errno is %d, the vector unit's state %#x\n", errno, (unsigned)rounding());
            return 1;
        }
    return 0;
}

// Under a seccomp filter from now on, by which that call fails.
static int filter(int call)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "idle";
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    free(malloc(100));
    if (strcmp(how, "spins") == 0)
        return spin();
    if (strcmp(how, "libc") == 0)
        return stay_in_libc();
    if (strcmp(how, "setuid") == 0)
        wait_in_setuid();
    static const char *const others[] = {"cancel", "exec", "exit", "leave", "fork", "rob"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(how, others[i]) == 0)
            live_with_others(how);
    if (strcmp(how, "loader") == 0)
        dl_iterate_phdr(in_loader, NULL);
    if (strcmp(how, "handler") == 0) {
        signal(SIGALRM, on_signal);
        alarm(1);
        pause();
    }
    if ((strcmp(how, "filter") == 0 || strcmp(how, "sandbox") == 0) && !filter(how[0] == 's' ? SYS_getpgid : -1))
        return 2;
    wait_for_end();
    return 0;
}
