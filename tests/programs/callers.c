// SPDX-License-Identifier: MIT
// Threads that call everything the agent has, all at once, while others allocate and the signal arrives: `callers SECONDS`. Built
// with a sanitizer, and the agent too, it is how races and overruns of the agent's own show. Ends with 0 when every call did what
// it should; prints how many there were.
#define _GNU_SOURCE
#include "arenascope.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static atomic_bool stopping;
static atomic_ulong calls, failures;
static bool foreign; // a sanitizer's malloc answers here: what inspects glibc's has to say so

static void expect(int code, int wanted, const char *what)
{
    atomic_fetch_add(&calls, 1);
    if (code == wanted || (foreign && code == ARENASCOPE_NO_MALLOC))
        return;
    fprintf(stderr, "callers: %s gave %d: %s\n", what, code, arenascope_error());
    atomic_fetch_add(&failures, 1);
}

static void *allocates(void *seed)
{
    enum { BLOCKS = 256 };
    char *blocks[BLOCKS] = {0};
    uint64_t state = (uintptr_t)seed;
    while (!stopping) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        unsigned i = state % BLOCKS;
        free(blocks[i]);
        blocks[i] = malloc(1 + (state >> 20) % 20000);
        if (blocks[i])
            blocks[i][0] = 1;
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return NULL;
}

static void *inspects(void *unused)
{
    int fd = memfd_create("dump", MFD_CLOEXEC);
    while (!stopping) {
        struct arenascope_summary s = ARENASCOPE_INIT(s);
        expect(arenascope_summarize(&s), ARENASCOPE_OK, "summarize");
        expect(arenascope_dump_fd(fd, ARENASCOPE_CHUNKS), ARENASCOPE_OK, "dump_fd");
        expect(arenascope_dump_fd(-1, 0), ARENASCOPE_USAGE, "dump_fd(-1)");
        if (strlen(arenascope_error()) == 0)
            expect(1, 0, "arenascope_error");
    }
    return unused; // the file is closed with the process
}

static void *trims(void *unused)
{
    while (!stopping) {
        const struct arenascope_trim_options deep = {
            .size = sizeof deep, .flags = ARENASCOPE_DEEP, .max_hold = 2000000};
        struct arenascope_trim_result result = ARENASCOPE_INIT(result);
        struct arenascope_arena_forecast arenas[16];
        size_t count;
        expect(arenascope_forecast(arenas, 16, &count), ARENASCOPE_OK, "forecast");
        expect(arenascope_trim(&deep, &result), ARENASCOPE_OK, "trim");
        expect(arenascope_trim(NULL, NULL), ARENASCOPE_OK, "trim(NULL)");
    }
    return unused;
}

static void *rules(void *unused)
{
    for (unsigned n = 0; !stopping; n++) {
        struct arenascope_policy policy = ARENASCOPE_INIT(policy);
        struct arenascope_policy_stats stats = ARENASCOPE_INIT(stats);
        policy.every = 20000000;
        policy.min_percent = n % 3;
        expect(arenascope_set_policy(n % 4 == 3 ? NULL : &policy), ARENASCOPE_OK, "set_policy");
        expect(arenascope_policy_statistics(&stats), ARENASCOPE_OK, "policy_statistics");
        expect(arenascope_dump_on_signal(SIGRTMIN + 1, "/dev/null/%p", 0), ARENASCOPE_OK, "dump_on_signal");
        expect(arenascope_request_dump(), ARENASCOPE_OK, "request_dump");
        policy.min_percent = 101;
        expect(arenascope_set_policy(&policy), ARENASCOPE_USAGE, "set_policy(101 %)");
        kill(getpid(), SIGRTMIN + 1);
        usleep(1000);
    }
    return unused;
}

int main(int argc, char **argv)
{
    const char *malloc_is = getenv("CALLERS_MALLOC");
    foreign = malloc_is && strcmp(malloc_is, "foreign") == 0;
    void *(*const runs[])(void *) = {allocates, allocates, inspects, inspects, trims, rules};
    enum { COUNT = sizeof runs / sizeof *runs };
    pthread_t threads[COUNT];
    for (uintptr_t i = 0; i < COUNT; i++)
        if (pthread_create(&threads[i], NULL, runs[i], (void *)(i + 1)) != 0) // NOLINT(performance-no-int-to-ptr)
            abort();
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += argc > 1 ? atoi(argv[1]) : 3;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0)
        continue;
    stopping = true;
    for (unsigned i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    printf("%lu calls\n", calls);
    return failures == 0 ? 0 : 1;
}
