// SPDX-License-Identifier: MIT
// Signals whose handlers allocate, or leave by a jump.
#define _GNU_SOURCE
#include "service.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { CODES = 64 };

struct range {
    uintptr_t start, end;
};

pthread_t interrupted[INTERRUPTED];
static struct range libc_code[CODES], agent_code[CODES];
static size_t libc_codes, agent_codes;
static _Thread_local sigjmp_buf way_out;
static _Thread_local volatile sig_atomic_t may_jump;

static void find_code(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && fgets(line, sizeof line, maps)) {
        struct range r;
        char access[5];
        if (sscanf(line, "%lx-%lx %4s", &r.start, &r.end, access) != 3 || access[2] != 'x')
            continue;
        if ((strstr(line, "/libc.so") || strstr(line, "/libc-2") || strstr(line, "/ld-")) && libc_codes < CODES)
            libc_code[libc_codes++] = r;
        if (strstr(line, "libarenascope") && agent_codes < CODES)
            agent_code[agent_codes++] = r;
    }
    if (maps)
        fclose(maps);
    if (libc_codes < 2)
        harmed("libc's and the loader's code were not found");
}

static bool is_in(const struct range *r, size_t n, uintptr_t pc)
{
    for (size_t i = 0; i < n; i++)
        if (pc >= r[i].start && pc < r[i].end)
            return true;
    return false;
}

// A handler may call malloc where it has not interrupted malloc, and may leave by a jump where the program's own code allows it.
static void handle(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
#if defined(__x86_64__)
    uintptr_t pc = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#else
    uintptr_t pc = (uintptr_t)((ucontext_t *)context)->uc_mcontext.pc;
#endif
    int saved = errno;
    unsigned state = (unsigned)pc;
    count(SIGNALS, 1);
    if (is_in(libc_code, libc_codes, pc))
        return;
    struct block b = {0};
    deeper(&b, &state, pc % 4);
    allocate(&b, &state);
    release(&b, 1);
    count(HANDLERS, 1);
    count(INSIDE, is_in(agent_code, agent_codes, pc));
    errno = saved;
    if (may_jump) {
        may_jump = 0;
        count(JUMPS, 1);
        siglongjmp(way_out, 1);
    }
}

static __attribute__((noinline)) void wait_to_be_interrupted(unsigned depth)
{
    volatile unsigned turns = 0;
    if (depth > 0)
        wait_to_be_interrupted(depth - 1);
    else
        while (turns < 20000 && may_jump)
            turns++;
    turns++;
}

void jump(unsigned depth)
{
    if (sigsetjmp(way_out, 1) != 0)
        return;
    may_jump = 1;
    wait_to_be_interrupted(depth);
    may_jump = 0;
}

void *signals(void *unused)
{
    for (unsigned i = 0; !stopping; i++) {
        usleep(200);
        pthread_kill(interrupted[i % (INTERRUPTED)], SIGUSR1);
    }
    return unused;
}

void handle_signals(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    find_code();
    sigaction(SIGUSR1, &action, NULL);
}
