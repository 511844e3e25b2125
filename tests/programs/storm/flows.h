// SPDX-License-Identifier: MIT
// Threads that leave functions in other ways than by returning. See storm.cc.
#pragma once

#include "blocks.h"

namespace
{

// --- Jumps, exceptions and stacks ------------------------------------------------------------------------------------

char *guard; // a page that nobody may touch
thread_local sigjmp_buf back;
thread_local volatile sig_atomic_t may_fault;

void on_fault(int number, siginfo_t *info, void *)
{
    char *at = static_cast<char *>(info->si_addr);
    if (may_fault && at >= guard && at < guard + 4096)
        siglongjmp(back, 1);
    dprintf(STDERR_FILENO, "wrong: signal %d at %p\n", number, info->si_addr);
    signal(number, SIG_DFL);
    raise(number);
}

__attribute__((noinline)) void nest(int depth, jmp_buf &out, std::vector<void *> &kept)
{
    if (kept.size() > 100) // so that it may return, for the compiler
        return;
    kept.push_back(malloc(static_cast<size_t>(depth) * 3 + 1));
    if (depth > 0)
        nest(depth - 1, out, kept);
    else
        longjmp(out, 1);
}

void jumps()
{
    jmp_buf out;
    static thread_local std::vector<void *> kept;
    if (setjmp(out) == 0)
        nest(20, out, kept);
    for (void *each : kept)
        free(each);
    kept.clear();
    may_fault = 1;
    if (sigsetjmp(back, 1) == 0) {
        free(malloc(30));
        *const_cast<volatile char *>(guard) = 1;
        wrong("no fault");
    }
    may_fault = 0;
}

struct Thrown : std::runtime_error {
    std::vector<std::string> texts{5, std::string(100, 'e')};
    Thrown() : std::runtime_error("a text that is long enough for the heap to have it")
    {
    }
};

__attribute__((noinline)) size_t throws(int depth)
{
    std::string text(50 + static_cast<size_t>(depth), 'q');
    const std::map<int, std::string> texts{{depth, text}};
    if (depth == 0)
        throw Thrown();
    try {
        return throws(depth - 1) + texts.size();
    } catch (const Thrown &thrown) {
        check(thrown.texts.size() == 5, "an exception");
        throw;
    }
}

void exceptions()
{
    try {
        throws(9);
        wrong("nothing was thrown");
    } catch (const Thrown &thrown) {
        check(thrown.texts[4].size() == 100, "an exception");
    }
}

thread_local ucontext_t outside, inside;

void coroutine()
{
    for (;;) {
        check(deep(4) == 5, "a coroutine");
        exceptions();
        swapcontext(&inside, &outside);
    }
}

void switches()
{
    constexpr size_t SIZE = 65536;
    static thread_local char *stack = static_cast<char *>(map(SIZE, PROT_READ | PROT_WRITE));
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = SIZE;
    inside.uc_link = nullptr;
    makecontext(&inside, coroutine, 0);
    for (size_t i = 0; i < 50; i++) {
        swapcontext(&outside, &inside);
        free(malloc(i + 1));
    }
}

// --- Signals ---------------------------------------------------------------------------------------------------------

std::atomic<pthread_t> interrupted;

void on_user(int number)
{
    void *memory = malloc(333); // the thread is outside of libc
    memset(memory, number, 333);
    free(memory);
}

void computes()
{
    interrupted = pthread_self();
    volatile uint64_t sum = 0;
    for (uint64_t i = 0; i < 1000000; i++)
        sum = sum + i;
}

void interrupts()
{
    if (interrupted != 0)
        pthread_kill(interrupted, SIGUSR1);
    kill(getpid(), SIGRTMIN + 3); // to whichever thread, which may be allocating
    nap(400);
}

} // namespace
