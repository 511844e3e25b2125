// SPDX-License-Identifier: MIT
// Targets that are awkward to clone. postures NAME: takes the posture, says "ready", answers each byte on stdin with a line.
//     seccomp    a filter kills the process for clone and for wait4
//     dontfork   part of its heap is not for children (MADV_DONTFORK)
//     wipe       likewise (MADV_WIPEONFORK)
//     large      as dontfork, with 120 MB in its heap
//     arena, block, inner    part of a thread's heap, a whole mmapped block, pages within one are not for children (MADV_DONTFORK)
//     own, ownwipe, ownfile  memory of its own is not: anonymous, likewise by MADV_WIPEONFORK, and a private file's
//     ownnear    likewise, right below the mapping of the main thread's data
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

static void advise(void *start, size_t length, int advice)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)start + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)start + length) / page * page;
    if (madvise((void *)from, to - from, advice) != 0)
        abort();
}

static char *block_of(size_t size)
{
    char *block = malloc(size);
    if (!block)
        abort();
    return memset(block, 1, size);
}

enum { BLOCK = 100 << 10, MAPPED = 4 << 20 };

static void *keep_arena(void *ready)
{
    char *block = block_of(BLOCK);
    advise(block + BLOCK / 4, BLOCK / 2, MADV_DONTFORK);
    *(volatile int *)ready = 1;
    pause();
    return NULL;
}

// `at`: NULL, or where it has to be.
static void keep_own(char *at, int fd, int advice)
{
    char *map = mmap(at, MAPPED, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0) | (at ? MAP_FIXED_NOREPLACE : 0), fd, 0);
    if (map == MAP_FAILED)
        abort();
    memset(map, 1, MAPPED / 2);
    advise(map, MAPPED, advice);
}

// MAPPED bytes that end where the mapping begins in which the thread's own data are.
static char *below_own_data(void)
{
    uintptr_t at = (uintptr_t)__builtin_thread_pointer(), start = 0, end = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && (at < start || at >= end) && fgets(line, sizeof line, maps))
        if (sscanf(line, "%zx-%zx", &start, &end) != 2)
            abort();
    if (!maps || at < start || at >= end)
        abort();
    fclose(maps);
    return (char *)start - MAPPED;
}

// Keeps memory from children, as the posture says.
static void keep(const char *posture)
{
    pthread_t thread;
    static volatile int ready;
    char *block = block_of(BLOCK);
    if (strcmp(posture, "large") == 0)
        for (int i = 0; i < 1200; i++)
            block = block_of(BLOCK);
    if (strcmp(posture, "dontfork") == 0 || strcmp(posture, "large") == 0)
        advise(block + BLOCK / 4, BLOCK / 2, MADV_DONTFORK);
    else if (strcmp(posture, "wipe") == 0)
        advise(block + BLOCK / 4, BLOCK / 2, MADV_WIPEONFORK);
    else if (strcmp(posture, "arena") == 0 && pthread_create(&thread, NULL, keep_arena, (void *)&ready) == 0)
        while (!ready)
            usleep(1000);
    else if (strcmp(posture, "block") == 0)
        advise(block_of(MAPPED) - sysconf(_SC_PAGESIZE), MAPPED + (size_t)sysconf(_SC_PAGESIZE), MADV_DONTFORK);
    else if (strcmp(posture, "inner") == 0)
        advise(block_of(MAPPED) + MAPPED / 4, MAPPED / 2, MADV_DONTFORK);
    else if (strcmp(posture, "own") == 0)
        keep_own(NULL, -1, MADV_DONTFORK);
    else if (strcmp(posture, "ownnear") == 0)
        keep_own(below_own_data(), -1, MADV_DONTFORK);
    else if (strcmp(posture, "ownwipe") == 0)
        keep_own(NULL, -1, MADV_WIPEONFORK);
    else if (strcmp(posture, "ownfile") == 0) {
        FILE *file = tmpfile();
        if (!file || ftruncate(fileno(file), MAPPED) != 0)
            abort();
        keep_own(NULL, fileno(file), MADV_DONTFORK);
    }
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
    void *blocks[1000];
    for (int i = 0; i < 1000; i++)
        blocks[i] = malloc((size_t)(16 + i));
    for (int i = 0; i < 1000; i += 2)
        free(blocks[i]);
    if (strcmp(posture, "seccomp") == 0)
        filter();
    else if (strcmp(posture, "nproc") == 0)
        setrlimit(RLIMIT_NPROC, &(struct rlimit){1, 1});
    keep(posture);
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
