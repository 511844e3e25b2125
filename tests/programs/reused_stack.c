// SPDX-License-Identifier: MIT
// A thread that uses a large stack ends, and most of this stack is given back. Then a thread with a small stack has the end of it, and with it
// the same thread pointer. It runs coroutines where the large stack was, by functions that have been recorded there. Prints whether both
// threads had one pointer, and "ended".
#include <alloca.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum {
    DEPTH = 20000,
    LARGE = 8 << 20,
    SMALL = 128 << 10,
    COROUTINE = 128 << 10,
    GUARD = 64 << 10,
    MOST_PAD = 1024,
    PAD = 16
};

static ucontext_t outside, inside;
static char *stack; // the large one
static size_t pad;  // so that a coroutine's frames stand where those of a thread have been

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
    char *below = stack + LARGE - SMALL - GUARD - COROUTINE;
    for (pad = 0; pad < MOST_PAD; pad += PAD) {
        if (getcontext(&inside) != 0)
            abort();
        inside.uc_stack.ss_sp = below;
        inside.uc_stack.ss_size = COROUTINE;
        inside.uc_link = NULL;
        makecontext(&inside, coroutine, 0);
        swapcontext(&outside, &inside);
    }
    return unused;
}

static pthread_t run(void *(*function)(void *), char *start, size_t size)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstack(&attributes, start, size) != 0 ||
        pthread_create(&thread, &attributes, function, NULL) != 0)
        abort();
    pthread_join(thread, NULL);
    return thread;
}

int main(void)
{
    stack = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        return 2;
    pthread_t first = run(large, stack, LARGE);
    // What the coroutines have stays, and so does the small stack: between them is nothing.
    if (mprotect(stack + LARGE - SMALL - GUARD, GUARD, PROT_NONE) != 0)
        return 2;
    pthread_t last = run(small, stack + LARGE - SMALL, SMALL);
    printf("%d\nended\n", pthread_equal(first, last) != 0);
    return 0;
}
