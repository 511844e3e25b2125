// SPDX-License-Identifier: MIT
// A subreaper: grandchildren whose parents are gone become its own, and it waits for them and for nobody else. And fork
// storms: threads that each fork and wait for that child alone. (lives.c waits for any child; the two do not go together.)
#define _GNU_SOURCE
#include "selfcheck.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t wait_for(pid_t pid, int *status)
{
    pid_t got;
    do
        got = waitpid(pid, status, 0);
    while (got < 0 && errno == EINTR);
    return got;
}

// One child that leaves a grandchild behind. Returns the child; *grandchild is the other.
static pid_t fork_twice(pid_t *grandchild)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        pid_t born = fork();
        if (born == 0) {
            usleep(1000); // it outlives its parent, mostly
            _exit(8);
        }
        _exit(write(ends[1], &born, sizeof born) == sizeof born ? 7 : 9);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], grandchild, sizeof *grandchild) != sizeof *grandchild)
        harmed("fork failed: %s", strerror(errno));
    close(ends[0]);
    return child;
}

static void *reaps(void *unused)
{
    (void)unused;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    while (!stopping) {
        pid_t grandchild = 0;
        pid_t child = fork_twice(&grandchild);
        for (int n = 0; n < 2; n++) {
            int status;
            pid_t got = wait_for(-1, &status);
            int expected = got == child ? 7 : got == grandchild ? 8 : -1;
            if (!WIFEXITED(status) || WEXITSTATUS(status) != expected)
                harmed("waitpid gave %d with status %#x: %s", got, (unsigned)status, strerror(errno));
        }
        if (waitpid(-1, NULL, 0) != -1 || errno != ECHILD)
            harmed("waitpid without children: %s", strerror(errno));
        checked();
    }
    return NULL;
}

static void *forks(void *unused)
{
    (void)unused;
    while (!stopping) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(11);
        if (child < 0 || wait_for(child, &status) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 11)
            harmed("fork or waitpid failed with status %#x: %s", (unsigned)status, strerror(errno));
        checked();
    }
    return NULL;
}

void reaps_start(void)
{
    start(reaps, NULL, 0);
}

void forks_start(void)
{
    start(forks, NULL, 0);
}
