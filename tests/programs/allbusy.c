// SPDX-License-Identifier: MIT
// allbusy THREADS: every thread, the first one included, allocates, checks and frees as fast as it can, in sizes that no thread
// cache takes; none ever waits. The worst that an injection can meet. Says "ready"; upon SIGTERM it ends: 0 unharmed.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum { BLOCKS = 300, MOST_THREADS = 64, SMALLEST = 1040, SPAN = 6000 };

static atomic_bool stopping;
static atomic_ulong rounds, changed;

static void on_term(int signal)
{
    (void)signal;
    stopping = true;
}

static void *storm(void *argument)
{
    uint64_t state = (uintptr_t)argument * 0x9e3779b97f4a7c15 + 1;
    unsigned char *blocks[BLOCKS] = {0};
    size_t sizes[BLOCKS] = {0};
    for (unsigned long n = 1; !stopping; n++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        unsigned i = (unsigned)(state % BLOCKS);
        if (blocks[i] && (blocks[i][0] != (unsigned char)i || blocks[i][sizes[i] - 1] != (unsigned char)i))
            changed++;
        free(blocks[i]);
        sizes[i] = SMALLEST + (state >> 20) % SPAN;
        blocks[i] = malloc(sizes[i]);
        if (!blocks[i])
            abort();
        blocks[i][0] = blocks[i][sizes[i] - 1] = (unsigned char)i;
        rounds += n % 1024 == 0;
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST_THREADS];
    int count = argc > 1 ? atoi(argv[1]) : 4;
    count = count > MOST_THREADS ? MOST_THREADS : count;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, on_term);
    for (intptr_t i = 1; i < count; i++)
        if (pthread_create(&threads[i], NULL, storm, (void *)i) != 0)
            return 2;
    puts("ready");
    fflush(stdout);
    storm((void *)(intptr_t)MOST_THREADS);
    for (int i = 1; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("%lu %lu\n", rounds, changed);
    return changed != 0;
}
