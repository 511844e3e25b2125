// SPDX-License-Identifier: MIT
// posing HOW: a process in a state that an injector has to be careful with. Says "ready"; ends when stdin does.
//
//   idle      one thread that waits
//   spins     one thread that never enters the kernel, and checks errno and how its vector unit rounds
//   libc      one thread that is inside libc all the time
//   loader    holds the loader's lock, and waits
//   handler   waits in a signal handler
//   setuid    one thread that waits in setresuid() for another, which waits for a child of vfork() until SIGUSR1 comes
//   filter    under a seccomp filter that allows everything
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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

static volatile sig_atomic_t let_go;

static void on_usr1(int signal)
{
    (void)signal;
    let_go = 1;
}

// The child has our memory, and the kernel holds this thread until the child ends.
static void *wait_for_child(void *unused)
{
    if (vfork() == 0) {
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
    usleep(100000); // it has called vfork by then
    puts("ready");
    fflush(stdout);
    if (setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1) != 0)
        exit(2);
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

static int spin(void)
{
    enum { MINE = 4711, UPWARD = 0x5f80 };
    signal(SIGTERM, on_term);
    puts("ready");
    fflush(stdout);
    __builtin_ia32_ldmxcsr(UPWARD);
    errno = MINE;
    while (!stopping)
        if (errno != MINE || (__builtin_ia32_stmxcsr() & UPWARD) != UPWARD) {
            printf("errno is %d, the vector unit's state %#x\n", errno, __builtin_ia32_stmxcsr());
            return 1;
        }
    return 0;
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
    if (strcmp(how, "loader") == 0)
        dl_iterate_phdr(in_loader, NULL);
    if (strcmp(how, "handler") == 0) {
        signal(SIGALRM, on_signal);
        alarm(1);
        pause();
    }
    if (strcmp(how, "filter") == 0) {
        struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = {1, &allow};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
            return 2;
    }
    wait_for_end();
    return 0;
}
