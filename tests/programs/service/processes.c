// SPDX-License-Identifier: MIT
// Children, which go on with their parent's blocks, and programs.
#define _GNU_SOURCE
#include "service.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            harmed("waitpid");
    if (status != 0) {
        errno = status;
        harmed("a child has not ended well: its status is errno");
    }
}

static void be_a_program(void)
{
    words[word_count] = "child";
    execv("/proc/self/exe", words);
    _exit(127);
}

static void be_a_child(struct block *blocks, unsigned *state, unsigned how)
{
    struct short_life life = {.state = *state};
    for (unsigned i = 0; i < KEPT; i++)
        deeper(&blocks[i], state, i % 8);
    if (how % 3 == 0)
        live_shortly(&life, 1);
    release(blocks, KEPT);
    count(ALLOCATIONS, KEPT);
    if (how % 4 == 1) {
        pid_t child = fork();
        if (child == 0) {
            allocate(&blocks[0], state);
            release(blocks, 1);
            _exit(0);
        }
        count(FORKS, 1);
        wait_for(child);
    }
    if (how % 4 == 2)
        be_a_program();
    _exit(0);
}

void *forks(void *seed)
{
    unsigned state = (unsigned)(uintptr_t)seed;
    struct block blocks[KEPT] = {0};
    char *child_words[WORDS + 2];
    memcpy(child_words, words, sizeof words);
    child_words[word_count] = "child";
    for (unsigned how = 0; !stopping; how++) {
        pid_t child;
        for (unsigned i = 0; i < KEPT; i++)
            deeper(&blocks[i], &state, i % 8);
        if (how % 8 == 7) {
            if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, child_words, environ) != 0)
                continue;
        } else {
            child = fork();
            if (child == 0)
                be_a_child(blocks, &state, how);
            if (child < 0)
                continue;
        }
        count(FORKS, 1);
        wait_for(child);
        usleep(10000);
    }
    release(blocks, KEPT);
    return NULL;
}
