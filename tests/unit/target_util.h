// SPDX-License-Identifier: MIT
// What the tests of inspector/target share: checks that end the test, children with known memory.
#pragma once

#include "support/check.h"
#include "target/process/read/live_process.h"
#include "target/target.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Memory that a child and its inspector share, for what the child has to tell.
static inline void *share(size_t size)
{
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    return shared;
}

static inline void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

// Waits until *flag is not 0; ends the test after ten seconds.
static inline void await(const volatile int *flag)
{
    for (int i = 0; !*flag; ++i) {
        CHECK(i < 10000, "a child did not get ready");
        sleep_ms(1);
    }
}

static inline char state_of(pid_t pid)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/stat", pid);
    struct as_proc_stat stat;
    return as_proc_stat(-1, name, &stat) ? stat.state : 'X';
}

static inline void await_state(pid_t pid, char state)
{
    for (int i = 0; state_of(pid) != state; ++i) {
        CHECK(i < 10000, "process %d is in state %c, not %c", pid, state_of(pid), state);
        sleep_ms(1);
    }
}

static inline void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

// Does what it is told in a child, and fails if that fails.
static inline void in_child(void (*work)(void *), void *argument)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        work(argument);
        exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a part of the test failed in process %d", pid);
}

static inline struct as_target *open_process(pid_t pid)
{
    struct as_error err = {0};
    struct as_target *t = as_target_open_process(pid, &err);
    CHECK(t && t->counts.rss == AS_UNKNOWN && t->ops->residency.count(t, &err), "%s", err.text);
    as_process_of(t)->patience_ns = UINT64_C(60000000000); // however busy the machine is
    return t;
}

static inline void stop(struct as_target *t)
{
    struct as_error err = {0};
    CHECK(t->ops->stop.stop(t, &err), "%s", err.text);
}

static inline uint8_t *residency_of(struct as_target *t, uint64_t start, uint64_t end)
{
    uint8_t *pages = calloc((end - start) / t->page_size + 1, 1);
    struct as_error err = {0};
    CHECK(pages && t->ops->residency.pages(t, start, end, pages, &err), "%s", err.text);
    return pages;
}

// From each page of [start, end) on: nothing is passed over but absent pages; and, where that is `known`, all of these are.
static inline void check_skips(struct as_target *t, uint64_t start, uint64_t end, bool known)
{
    uint8_t *pages = residency_of(t, start, end);
    for (uint64_t at = start; at < end; at += t->page_size) {
        uint64_t next = t->ops->residency.absent_until(t, at, end);
        CHECK(next >= at && next <= end && next % t->page_size == 0, "%#" PRIx64 " from %#" PRIx64, next, at);
        for (uint64_t page = at; page < next; page += t->page_size)
            CHECK(pages[(page - start) / t->page_size] == 0, "%#" PRIx64 " is passed over", page);
        CHECK(!known || next == end || pages[(next - start) / t->page_size] != 0, "%#" PRIx64 " is absent", next);
    }
    free(pages);
}
