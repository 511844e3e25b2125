// SPDX-License-Identifier: MIT
// A thread sleeps under a seccomp filter that kills for restart_syscall. Then another thread writes an endless loop over the
// instruction that made its system call, and says "ready": a sleep that is interrupted is never made again.
#define _GNU_SOURCE
#include <err.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
static const unsigned char code[] = {0xb8, SYS_nanosleep, 0, 0, 0, 0x0f, 0x05, 0xc3}; // mov $35,%eax; syscall; ret
static const unsigned char loop[] = {0xeb, 0xfe};                                     // jmp .
enum { CALL = 5 };
#elif defined(__aarch64__)
static const unsigned code[] = {0xd2800000 | SYS_nanosleep << 5 | 8, 0xd4000001,
                                0xd65f03c0}; // mov x8, #101; svc #0; ret
static const unsigned loop[] = {0x14000000}; // b .
enum { CALL = 4 };
#endif

static char *page;
static _Atomic pid_t sleeper;

static void *sleep_on(void *unused)
{
    struct timespec long_time = {.tv_sec = 1000000};
    sleeper = (pid_t)syscall(SYS_gettid);
    ((long (*)(struct timespec *, struct timespec *))(void *)page)(&long_time, NULL);
    return unused;
}

static void filter(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_restart_syscall, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {sizeof program / sizeof program[0], program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) != 0)
        err(1, "seccomp");
}

static void await_sleep(void)
{
    char name[64], state = 'R';
    while (sleeper == 0)
        usleep(1000);
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", sleeper);
    while (state != 'S') { // what it sleeps in is its call, as nothing else there waits
        FILE *file = fopen(name, "r");
        if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
            err(1, "%s", name);
        fclose(file);
    }
}

int main(void)
{
    pthread_t thread;
    filter();
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        err(1, "mmap");
    memcpy(page, code, sizeof code);
    __builtin___clear_cache(page, page + 4096);
    if (pthread_create(&thread, NULL, sleep_on, NULL) != 0)
        errx(1, "no thread");
    await_sleep();
    memcpy(page + CALL, loop, sizeof loop);
    __builtin___clear_cache(page, page + 4096);
    puts("ready");
    fflush(stdout);
    pause();
}
