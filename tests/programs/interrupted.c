// SPDX-License-Identifier: MIT
// A signal handler that has interrupted calloc behind its first instruction, and returns there on SIGUSR2; x86-64. The processor's trap
// flag, which the program sets itself, interrupts each instruction in turn.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

enum { TRAP = 0x100 };

static volatile sig_atomic_t signalled;
static volatile uintptr_t entry;
static void *(*volatile call)(size_t, size_t);

static void on_signal(int signal)
{
    (void)signal;
    signalled = 1;
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    uintptr_t pc = (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
    (void)signal;
    (void)info;
    // Behind an endbr64, too.
    if (pc <= entry || pc - entry > 12 || *(const uint32_t *)(pc - 4) == 0xfa1e0ff3)
        return;
    c->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP;
    char text[64];
    int length = snprintf(text, sizeof text, "interrupted %lx\n", (unsigned long)pc);
    if (write(STDOUT_FILENO, text, (size_t)length) != length)
        abort();
    while (!signalled)
        pause();
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    struct sigaction other = {.sa_handler = on_signal};
    call = calloc;
    entry = (uintptr_t)call;
    free(call(10, 10));
    sigaction(SIGUSR2, &other, NULL);
    sigaction(SIGTRAP, &action, NULL);
    __asm__ volatile("pushfq; orq $0x100,(%%rsp); popfq" ::: "memory", "cc");
    void *block = call(10, 10);
    __asm__ volatile("pushfq; andq $~0x100,(%%rsp); popfq" ::: "memory", "cc");
    if (!block || write(STDOUT_FILENO, "gone on\n", 8) != 8)
        abort();
    for (;;) {
        free(call(10, 10));
        usleep(1000);
    }
}
