// SPDX-License-Identifier: MIT
// A thread on memory of the program's own, and therefore without a guard, runs a coroutine right below it. Then most of that one's memory is
// given back, and other coroutines run in what is left, by the same functions, where the frames of the first one have been. Prints "ended".
//
//   coroutines_below [main | forked]
//
// main: the main thread does so, right below its thread-local variables, once it is sent SIGUSR1. Then it allocates on its own stack, says
// "ended", and stays.
// forked: likewise, a child of fork() that was called by a thread, whose stack it has; without coroutines.
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { OWN = 64 << 10, LEFT = 64 << 10, GIVEN_BACK = 64 << 10, MOST_PAD = 4096, PAD = 16, BLOCKS = 20, ON_MAIN = 500 };

static ucontext_t outside, inside;
static char *stacks; // what is left, what is given back, and the thread's own
static void *volatile kept;

__attribute__((noinline)) static void allocate(void)
{
    for (int i = 0; i < BLOCKS; i++)
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

static void run_all(void)
{
    run(reach_down, LEFT + GIVEN_BACK);
    if (munmap(stacks + LEFT, GIVEN_BACK) != 0)
        abort();
    for (size_t pad = 0; pad < MOST_PAD; pad += PAD)
        run(allocate, LEFT - pad);
}

static void *thread(void *unused)
{
    allocate();
    run_all();
    return unused;
}

// Where the mapping begins that has the thread's descriptor.
static uintptr_t own_mapping(void)
{
    uintptr_t wanted = (uintptr_t)pthread_self(), start = 0, end = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    while (maps && fgets(line, sizeof line, maps) && !(start <= wanted && wanted < end))
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &start, &end) != 2)
            abort();
    if (maps)
        fclose(maps);
    return start;
}

static void block_signal(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
}

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

static void wait_for_signal(void)
{
    int got;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    say("ready");
    sigwait(&signals, &got);
}

static void allocate_and_stay(void)
{
    for (int i = 0; i < ON_MAIN; i++)
        allocate();
    say("ended");
    for (;;)
        pause();
}

static int run_in_main(void)
{
    stacks = mmap((void *)(own_mapping() - LEFT - GIVEN_BACK), LEFT + GIVEN_BACK, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (stacks == MAP_FAILED)
        return 2;
    wait_for_signal();
    run_all();
    allocate_and_stay();
    return 0;
}

static void *forks(void *unused)
{
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        printf("%d\n", (int)getpid());
        wait_for_signal();
        allocate_and_stay();
    }
    waitpid(child, NULL, 0);
    return unused;
}

static int run_in_child(void)
{
    pthread_t made;
    if (pthread_create(&made, NULL, forks, NULL) != 0)
        return 2;
    pthread_join(made, NULL);
    return 0;
}

int main(int count, char **words)
{
    pthread_t made;
    pthread_attr_t attributes;
    block_signal();
    if (count > 1)
        return strcmp(words[1], "main") == 0 ? run_in_main() : run_in_child();
    stacks = mmap(NULL, LEFT + GIVEN_BACK + OWN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_init(&attributes);
    if (stacks == MAP_FAILED || pthread_attr_setstack(&attributes, stacks + LEFT + GIVEN_BACK, OWN) != 0 ||
        pthread_create(&made, &attributes, thread, NULL) != 0)
        return 2;
    pthread_join(made, NULL);
    puts("ended");
    return 0;
}
