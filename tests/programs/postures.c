// SPDX-License-Identifier: MIT
// Targets that are awkward to clone. postures NAME: takes the posture, says "ready", answers each byte on stdin with a line.
//     seccomp    a filter kills the process for clone and for wait4
//     dontfork   part of its heap is not for children (MADV_DONTFORK)
//     wipe       likewise (MADV_WIPEONFORK)
//     wall       a thread waits for any child at all, also for those that the usual calls do not see (__WALL)
//     nproc      no further process is allowed (RLIMIT_NPROC; not as root)
//     ends       has shared memory, and exits as soon as it sees that it has been cloned
//     plain      none of these
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void filter(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_wait4, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        abort();
}

static void advise(int advice)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *block = malloc(100 * page);
    if (!block)
        abort();
    memset(block, 1, 100 * page);
    uintptr_t start = ((uintptr_t)block + 10 * page) / page * page;
    if (madvise((void *)start, 20 * page, advice) != 0)
        abort();
}

static volatile int seen; // children that the thread below has been told of

static void *wait_for_all(void *argument)
{
    for (;;) {
        int status;
        if (waitpid(-1, &status, __WALL) > 0)
            seen++;
        else
            usleep(1000);
    }
    return argument;
}

static bool has_child(pid_t thread)
{
    char name[64];
    char byte;
    snprintf(name, sizeof name, "/proc/self/task/%d/children", (int)thread);
    int fd = open(name, O_RDONLY);
    bool has = read(fd, &byte, 1) == 1;
    close(fd);
    return has;
}

static void *exit_when_cloned(void *argument)
{
    while (!has_child(getpid()) && !has_child((pid_t)syscall(SYS_gettid)))
        ;
    _exit(0);
    return argument;
}

static void share(void)
{
    if (mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED)
        abort();
}

int main(int argc, char **argv)
{
    const char *posture = argc > 1 ? argv[1] : "plain";
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    void *keep[1000];
    for (int i = 0; i < 1000; i++)
        keep[i] = malloc((size_t)(16 + i));
    for (int i = 0; i < 1000; i += 2)
        free(keep[i]);
    if (strcmp(posture, "seccomp") == 0)
        filter();
    else if (strcmp(posture, "dontfork") == 0)
        advise(MADV_DONTFORK);
    else if (strcmp(posture, "wipe") == 0)
        advise(MADV_WIPEONFORK);
    else if (strcmp(posture, "nproc") == 0)
        setrlimit(RLIMIT_NPROC, &(struct rlimit){1, 1});
    pthread_t thread;
    if (strcmp(posture, "ends") == 0) {
        share();
        if (pthread_create(&thread, NULL, exit_when_cloned, NULL) != 0)
            abort();
    }
    if (strcmp(posture, "wall") == 0 && pthread_create(&thread, NULL, wait_for_all, NULL) != 0)
        abort();
    puts("ready");
    fflush(stdout);
    for (char byte; read(STDIN_FILENO, &byte, 1) == 1;) {
        printf("seen %d, children %s\n", seen, waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? "none" : "some");
        fflush(stdout);
    }
    return 0;
}
