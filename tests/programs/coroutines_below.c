// SPDX-License-Identifier: MIT
// A thread on memory of the program's own, and therefore without a guard, runs a coroutine right below it. Then most of that one's memory is
// given back, and other coroutines run in what is left, by the same functions, where the frames of the first one have been. Prints "ended".
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { OWN = 64 << 10, LEFT = 64 << 10, GIVEN_BACK = 64 << 10, MOST_PAD = 4096, PAD = 16 };

static ucontext_t outside, inside;
static char *stacks; // what is left, what is given back, and the thread's own
static void *volatile kept;

__attribute__((noinline)) static void allocate(void)
{
    for (int i = 0; i < 20; i++)
        kept = malloc(100);
}

__attribute__((noinline)) static void reach_down(void)
{
    volatile char room[GIVEN_BACK];
    room[0] = 1;
    allocate();
    room[1] = room[0];
}

static void run(void (*function)(void), size_t size)
{
    if (getcontext(&inside) != 0)
        abort();
    inside.uc_stack.ss_sp = stacks;
    inside.uc_stack.ss_size = size;
    inside.uc_link = &outside;
    makecontext(&inside, function, 0);
    swapcontext(&outside, &inside);
}

static void *thread(void *unused)
{
    allocate();
    run(reach_down, LEFT + GIVEN_BACK);
    if (munmap(stacks + LEFT, GIVEN_BACK) != 0)
        abort();
    for (size_t pad = 0; pad < MOST_PAD; pad += PAD)
        run(allocate, LEFT - pad);
    return unused;
}

int main(void)
{
    pthread_t made;
    pthread_attr_t attributes;
    stacks = mmap(NULL, LEFT + GIVEN_BACK + OWN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_init(&attributes);
    if (stacks == MAP_FAILED || pthread_attr_setstack(&attributes, stacks + LEFT + GIVEN_BACK, OWN) != 0 ||
        pthread_create(&made, &attributes, thread, NULL) != 0)
        return 2;
    pthread_join(made, NULL);
    puts("ended");
    return 0;
}
