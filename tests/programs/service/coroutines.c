// SPDX-License-Identifier: MIT
// Coroutines, which go from thread to thread.
#define _GNU_SOURCE
#include "service.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

struct coroutine {
    ucontext_t own;
    ucontext_t *back; // the context of the thread that runs the coroutine now
    char *stack;
    bool mapped, over;
    unsigned state;
    pthread_t began;
};

static _Atomic(struct coroutine *) waiting; // for any thread

static __attribute__((noinline)) void yield(struct coroutine *c)
{
    swapcontext(&c->own, c->back);
}

static void run(unsigned high, unsigned low)
{
    struct coroutine *c = (struct coroutine *)((uintptr_t)high << 32 | low); // NOLINT(performance-no-int-to-ptr)
    struct block blocks[KEPT] = {0};
    for (unsigned turn = 0; turn < 3; turn++) {
        for (unsigned i = 0; i < KEPT; i++)
            deeper(&blocks[i], &c->state, i % 8);
        yield(c);
    }
    release(blocks, KEPT);
    count(ALLOCATIONS, (uint64_t)3 * KEPT);
    c->over = true;
    yield(c);
}

static struct coroutine *begin(unsigned *state)
{
    struct coroutine *c = calloc(1, sizeof *c);
    c->mapped = draw(state) % 2;
    c->stack =
        c->mapped ? mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : malloc(STACK);
    c->state = draw(state);
    c->began = pthread_self();
    getcontext(&c->own);
    c->own.uc_stack = (stack_t){.ss_sp = c->stack, .ss_size = STACK};
    makecontext(&c->own, (void (*)(void))run, 2, (unsigned)((uintptr_t)c >> 32), (unsigned)(uintptr_t)c);
    return c;
}

static void end(struct coroutine *c)
{
    if (c->mapped)
        munmap(c->stack, STACK);
    else
        free(c->stack);
    free(c);
    count(COROUTINES, 1);
}

void *coroutines(void *seed)
{
    unsigned state = (unsigned)(uintptr_t)seed;
    while (!stopping) {
        ucontext_t here;
        struct coroutine *c = begin(&state);
        while (c && !c->over) {
            count(MOVED, c->began != pthread_self());
            c->back = &here;
            swapcontext(&here, &c->own);
            if (!c->over)
                c = atomic_exchange(&waiting, c);
        }
        if (c)
            end(c);
        usleep(200);
    }
    return NULL;
}
