// SPDX-License-Identifier: MIT
// filtered_threads ROLES: one thread for each letter, the first letter's is the first thread. Says "ready"; ends well when stdin does.
//
//   .   waits
//   f   the same under a seccomp filter that ends the process for all but waits
//   F   the same under one that allows everything
//   v   waits for a child of vfork(), for ever: a thread that cannot be stopped
//   x   ends
#define _GNU_SOURCE
#include <err.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { KILL_PROCESS = (int)0x80000000U };

static const unsigned allowed[] = {SYS_read,         SYS_write,      SYS_futex,          SYS_exit,
                                   SYS_rt_sigreturn, SYS_exit_group, SYS_restart_syscall};
enum { ALLOWED = sizeof allowed / sizeof *allowed };
static pthread_barrier_t set; // each thread has its filter

static void set_filter(char role)
{
    struct sock_filter code[2 * ALLOWED + 2];
    size_t n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < ALLOWED; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, role == 'f' ? (unsigned)KILL_PROCESS : SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)n, code};
    if ((role == 'f' || role == 'F') && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
                                         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0))
        err(1, "seccomp");
}

static void wait_in_vfork(void)
{
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
}

// A pipe to which nobody writes; stdin in the first thread.
static void play(char role, int from)
{
    char byte;
    if (role == 'v')
        wait_in_vfork();
    else if (role != 'x')
        while (read(from, &byte, 1) > 0)
            ;
}

static void *run(void *role)
{
    int from[2];
    if (pipe(from) != 0)
        err(1, "pipe");
    set_filter(*(const char *)role);
    pthread_barrier_wait(&set);
    play(*(const char *)role, from[0]);
    return NULL;
}

int main(int count, char **words)
{
    static const char READY[] = "ready\n";
    pthread_t thread;
    if (count != 2)
        errx(2, "filtered_threads ROLES");
    pthread_barrier_init(&set, NULL, (unsigned)strlen(words[1]));
    for (char *role = words[1] + 1; *role; role++)
        if (pthread_create(&thread, NULL, run, role) != 0)
            errx(1, "pthread_create");
    set_filter(words[1][0]);
    pthread_barrier_wait(&set);
    if (write(STDOUT_FILENO, READY, sizeof READY - 1) < 0)
        _exit(1);
    play(words[1][0], STDIN_FILENO);
    if (words[1][0] == 'x')
        pthread_exit(NULL);
    _exit(0);
}
