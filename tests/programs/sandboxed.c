// SPDX-License-Identifier: MIT
// sandboxed WHO LIBRARY: puts itself under a seccomp filter that ends the process for all but what malloc, libc's threads and the loader need, and
// allocates then: below many call stacks, in a signal's handler on a stack of its own, below code of no module, and in the library, which it
// loads. A thread that has allocated before does so, too. WHO is under the filter: "thread", the main thread; "process", all threads.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <err.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEPTH = 10, STACKS = 1 << DEPTH, KEPT = 1000, TIMES = 100, ROOM = 1 << 16, CODE = 4096, LARGE = 10 << 20 };
enum { KILL_PROCESS = (int)0x80000000U };

static const unsigned allowed[] = {
    SYS_brk,   SYS_mmap,       SYS_munmap,         SYS_mremap, SYS_mprotect,   SYS_madvise, SYS_getrandom,
    SYS_futex, SYS_exit,       SYS_rt_sigprocmask, SYS_openat, SYS_read,       SYS_pread64, SYS_fstat,
    SYS_close, SYS_newfstatat, SYS_rt_sigreturn,   SYS_write,  SYS_exit_group,
};
enum { ALLOWED = sizeof allowed / sizeof *allowed };

static void *_Atomic kept[KEPT];
static _Atomic unsigned next;
static atomic_bool there, begun;

static void keep(void *memory)
{
    free(atomic_exchange(&kept[next++ % KEPT], memory));
}

// Each of the bits makes another stack.
__attribute__((noinline)) static void allocate_below(int depth, unsigned bits)
{
    if (depth == 0)
        keep(malloc(40));
    else if (bits & 1)
        allocate_below(depth - 1, bits >> 1);
    else
        allocate_below(depth - 1, bits >> 1);
    __asm__ volatile(""); // so that no call is a jump, nor both are one
}

static void allocate(void)
{
    for (unsigned i = 0; i < TIMES; i++)
        allocate_below(DEPTH / 2, i);
}

static void on_signal(int signal)
{
    (void)signal;
    allocate();
}

static void *run(void *unused)
{
    keep(malloc(LARGE)); // is recorded at any rate: who a thread is, is asked once
    there = true;
    while (!begun)
        continue;
    for (unsigned i = 0; i < STACKS; i++)
        allocate_below(DEPTH, i);
    return unused;
}

// A function that calls another one.
static void (*make_code(void))(void (*)(void))
{
#if defined(__x86_64__)
    static const unsigned char code[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3};
#else
    static const unsigned code[] = {0xa9bf7bfd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
#endif
    void *memory = mmap(NULL, CODE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        err(1, "mmap");
    memcpy(memory, code, sizeof code);
    __builtin___clear_cache(memory, (char *)memory + sizeof code);
    void (*function)(void (*)(void));
    memcpy(&function, &memory, sizeof function);
    return function;
}

static void enter_sandbox(unsigned flags)
{
    struct sock_filter code[2 * ALLOWED + 2];
    size_t n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < ALLOWED; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, (unsigned)KILL_PROCESS);
    struct sock_fprog program = {(unsigned short)n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0)
        err(1, "seccomp");
}

int main(int count, char **words)
{
    static char room[ROOM];
    int ends[2];
    pthread_t thread;
    if (count != 3)
        errx(2, "sandboxed WHO LIBRARY");
    sigaltstack(&(stack_t){.ss_sp = room, .ss_size = sizeof room}, NULL);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_ONSTACK}, NULL);
    if (pipe(ends) != 0 || close(ends[0]) != 0 || pthread_create(&thread, NULL, run, NULL) != 0)
        err(1, "the beginning");
    while (!there)
        continue; // its start needs other calls
    enter_sandbox(strcmp(words[1], "process") == 0 ? SECCOMP_FILTER_FLAG_TSYNC : 0);
    begun = true;
    run(NULL);
    keep(malloc(LARGE));
    (void)!write(ends[1], "", 1); // nobody reads: a signal
    make_code()(allocate);
    void *library = dlopen(words[2], RTLD_NOW);
    void *(*allocates)(void) = library ? (void *(*)(void))dlsym(library, "allocates") : NULL;
    if (!allocates)
        errx(1, "dlopen");
    for (int i = 0; i < TIMES; i++)
        keep(allocates());
    pthread_join(thread, NULL);
    return 0;
}
