// SPDX-License-Identifier: MIT
// Threads with large stacks, which they use, end; libc gives most of these stacks back. Then a thread with a small stack runs coroutines where
// the large stacks were, by functions that have been recorded there. Prints whether it is at a large one's descriptor, and "ended".
#include <alloca.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { THREADS = 12, DEPTH = 6000, SMALL = 64 << 10, COROUTINE = 64 << 10, GUARD = 4096, MOST_PAD = 1024, PAD = 16 };

static ucontext_t outside, inside;
static size_t pad; // so that a coroutine's frames stand where those of a thread have been

__attribute__((noinline)) static void descend(int depth)
{
    void *volatile block = malloc(64);
    if (depth > 0)
        descend(depth - 1);
    free(block);
}

static void *large(void *unused)
{
    descend(DEPTH);
    return unused;
}

static void coroutine(void)
{
    char *volatile room = alloca(pad + PAD);
    room[0] = 1;
    descend(3);
    swapcontext(&inside, &outside);
}

static void *small(void *unused)
{
    for (pad = 0; pad < MOST_PAD; pad += PAD) {
        char *stack = mmap(NULL, COROUTINE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stack == MAP_FAILED || mprotect(stack, GUARD, PROT_NONE) != 0 || getcontext(&inside) != 0)
            abort();
        inside.uc_stack.ss_sp = stack;
        inside.uc_stack.ss_size = COROUTINE;
        inside.uc_link = NULL;
        makecontext(&inside, coroutine, 0);
        swapcontext(&outside, &inside);
        munmap(stack, COROUTINE);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS], last;
    pthread_attr_t attributes;
    int same = 0;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, large, NULL) != 0)
            return 2;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, SMALL);
    if (pthread_create(&last, &attributes, small, NULL) != 0)
        return 2;
    for (int i = 0; i < THREADS; i++)
        same |= pthread_equal(threads[i], last);
    pthread_join(last, NULL);
    printf("%d\nended\n", same);
    return 0;
}
