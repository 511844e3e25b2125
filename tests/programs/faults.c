// SPDX-License-Identifier: MIT
// faults HOW: a program that uses faults, as language runtimes do (null checks, bounds of WebAssembly's memory): its SIGSEGV handler
// knows its own load by the program counter, and takes every other one for a crash. One thread, which faults all the time. Says
// "ready"; ends when stdin does, and says that it ended well.
//
//   mends   the handler goes on behind the load
//   jumps   it leaves by siglongjmp
#define _GNU_SOURCE
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { BETWEEN = 1000 }; // faults between two snapshots of stdin

extern const char load_begins[], load_ends[];
static char *guard; // a page that may not be read
static int jumps;
static sigjmp_buf place;

#if defined(__x86_64__)
#define PC(context) ((context)->uc_mcontext.gregs[REG_RIP])
#define LOAD "mov (%1), %0"
#else
#define PC(context) ((context)->uc_mcontext.pc)
#define LOAD "ldr %0, [%1]"
#endif

static void on_fault(int signal, siginfo_t *info, void *context)
{
    static const char CRASH[] = "a fault elsewhere\n";
    ucontext_t *at = context;
    (void)signal;
    if ((uintptr_t)PC(at) != (uintptr_t)load_begins || info->si_addr != guard + 8) {
        if (write(STDOUT_FILENO, CRASH, sizeof CRASH - 1) < 0)
            _exit(2);
        _exit(1);
    }
    if (jumps)
        siglongjmp(place, 1);
    PC(at) = (uintptr_t)load_ends;
}

// One fault: 7, which the load would have overwritten.
static uint64_t load(void)
{
    uint64_t value = 7;
    if (sigsetjmp(place, jumps) != 0)
        return 7;
    __asm__ volatile(".globl load_begins\nload_begins: " LOAD "\n.globl load_ends\nload_ends:"
                     : "+r"(value)
                     : "r"(guard + 8)
                     : "memory");
    return value;
}

static int has_ended(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char bytes[16];
    return poll(&input, 1, 0) > 0 && read(STDIN_FILENO, bytes, sizeof bytes) <= 0;
}

int main(int argc, char **argv)
{
    const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    jumps = argc > 1 && strcmp(argv[1], "jumps") == 0;
    guard = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, NULL);
    puts("ready");
    fflush(stdout);
    do {
        for (int i = 0; i < BETWEEN; i++) {
            if (load() != 7)
                return 3;
            free(malloc(20));
        }
    } while (!has_ended());
    puts("ended well");
    return 0;
}
