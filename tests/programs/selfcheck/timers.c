// SPDX-License-Identifier: MIT
// Timers: every period that passes is to be counted once, however late.
#define _GNU_SOURCE
#include "selfcheck.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { PERIOD_MS = 3, PERIODS = 200 };

static const struct itimerspec period = {{.tv_nsec = PERIOD_MS * 1000000}, {.tv_nsec = PERIOD_MS * 1000000}};

// `counted` periods of a timer that was set at `began`: no more than have passed before now, and no fewer than had before
// `asked`, when the last count was asked for.
static void judge_count(const char *timer, uint64_t counted, uint64_t began, uint64_t asked)
{
    uint64_t least = (asked - began) / (PERIOD_MS * UINT64_C(1000000));
    uint64_t most = (now_ns() - began) / (PERIOD_MS * UINT64_C(1000000)) + 1;
    if (counted + 1 < least || counted > most)
        harmed("%s counted %llu periods of %llu to %llu", timer, (unsigned long long)counted, (unsigned long long)least,
               (unsigned long long)most);
    else
        checked();
}

static void *reads_timer(void *unused)
{
    (void)unused;
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    while (!stopping) {
        uint64_t counted = 0;
        uint64_t began = now_ns();
        uint64_t asked = began; // told to end before the first count, it asks for none
        timerfd_settime(fd, 0, &period, NULL);
        for (int i = 0; i < PERIODS && !stopping; i++) {
            uint64_t passed = 0;
            asked = now_ns();
            if (read(fd, &passed, sizeof passed) != sizeof passed) {
                if (errno == EINTR)
                    interrupted("read of a timerfd");
                else
                    harmed("read of a timerfd failed: %s", strerror(errno));
            }
            counted += passed;
        }
        judge_count("a timerfd", counted, began, asked);
    }
    return NULL;
}

static void *waits_for_timer(void *unused)
{
    (void)unused;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 3};
    event._sigev_un._tid = (int)syscall(SYS_gettid);
    timer_t timer;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 3);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
        harmed("timer_create failed: %s", strerror(errno));
    uint64_t counted = 0;
    uint64_t asked = 0;
    uint64_t began = now_ns();
    timer_settime(timer, 0, &period, NULL);
    while (!stopping) {
        siginfo_t info;
        asked = now_ns();
        if (sigwaitinfo(&set, &info) == SIGRTMIN + 3)
            counted += 1 + (uint64_t)info.si_overrun;
        else if (errno == EINTR)
            interrupted("sigwaitinfo");
        else
            harmed("sigwaitinfo failed: %s", strerror(errno));
        judge_count("a timer", counted, began, asked);
    }
    timer_delete(timer);
    return NULL;
}

void timers_start(void)
{
    start(reads_timer, NULL, 0);
    start(waits_for_timer, NULL, 0);
}
