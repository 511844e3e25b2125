// SPDX-License-Identifier: MIT
// leaves HOW: one thread whose SIGSEGV handler does with a load from FAULT_AT what HOW says, wherever it runs. The auditing library
// faulty_audit makes the loader fault there, in the middle of dlopen. Says "ready", then what it did; ends when stdin does.
//
//   mends      the handler runs on an alternate stack, maps what is missing, and returns
//   jumps      it leaves by siglongjmp, which restores the signal mask
//   alternate  likewise, from an alternate stack
//   masked     it leaves by siglongjmp, and no mask is restored
//   spins      likewise, and the thread enters the kernel no more until SIGUSR1 comes
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FAULT_AT ((char *)0x100000000000) // as faulty_audit.c has it

static const char *how;
static sigjmp_buf place;
static volatile sig_atomic_t let_go;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_addr != FAULT_AT)
        _exit(signal);
    if (strcmp(how, "mends") != 0)
        siglongjmp(place, 1);
    if (mmap(FAULT_AT, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != FAULT_AT)
        _exit(signal);
}

static void on_usr1(int signal)
{
    (void)signal;
    let_go = 1;
}

// Which signals are blocked, of those that nobody of ours has blocked.
static int count_blocked(void)
{
    sigset_t set;
    int count = 0;
    sigprocmask(SIG_BLOCK, NULL, &set);
    for (int i = 1; i < NSIG; i++)
        count += sigismember(&set, i) == 1 && i != SIGSEGV; // which a handler blocks for itself
    return count;
}

int main(int argc, char **argv)
{
    static char alternate[64 * 1024];
    char byte;
    how = argc > 1 ? argv[1] : "mends";
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    int on_alternate = strcmp(how, "mends") == 0 || strcmp(how, "alternate") == 0;
    const struct sigaction action = {.sa_sigaction = on_fault,
                                     .sa_flags = SA_SIGINFO | (on_alternate ? SA_ONSTACK : 0)};
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
    signal(SIGUSR1, on_usr1);
    if (sigsetjmp(place, strcmp(how, "masked") != 0 && strcmp(how, "spins") != 0) != 0) {
        while (strcmp(how, "spins") == 0 && !let_go)
            ;
        printf("left, %d blocked\n", count_blocked());
    } else {
        puts("ready");
    }
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    puts("ended");
    return 0;
}
