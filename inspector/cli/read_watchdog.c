// SPDX-License-Identifier: MIT
// Memory of a process may be of a kind that answers when the process likes: a file of a file system that the process serves itself.
// Who reads it waits in the kernel, where at most the end of all threads interrupts it. (Through /proc/PID/mem not even that does,
// on Linux 6.18: then the thread that waits stays, and with it arenadump, which has told why.)
#include "cli/cli.h"
#include "cli/open_target.h"
#include "target/process/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_S = 60 }; // for one read, of a MiB at most

// False: it is over.
static bool wait_a_second(struct as_read_watchdog *w)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_mutex_lock(&w->lock);
    while (!w->ending && pthread_cond_timedwait(&w->changed, &w->lock, &until) != ETIMEDOUT)
        ;
    bool ending = w->ending;
    pthread_mutex_unlock(&w->lock);
    return !ending;
}

static void *watch(void *argument)
{
    struct as_read_watchdog *w = argument;
    const struct as_process *p = as_process_of(w->target);
    uint64_t last = 0;
    for (int seconds = 0; seconds < LIMIT_S; ++seconds) {
        bool pending;
        if (!wait_a_second(w))
            return NULL;
        uint64_t ended = as_process_reads(p, &pending);
        if (!pending || ended != last)
            seconds = -1;
        last = ended;
    }
    fprintf(stderr,
            "arenadump: process %d: a read of its memory has not returned for %d s: is a file that it has mapped on a "
            "file system that does not answer? If the kernel lets nothing end the read, arenadump ends with that file "
            "system\n",
            p->base.pid, LIMIT_S);
    as_signals_abandon();
    _exit(AS_DENIED);
}

void as_watch_start(struct as_read_watchdog *w, struct as_target *t)
{
    sigset_t all;
    sigset_t before;
    pthread_condattr_t monotonic;
    w->target = t;
    w->ending = false;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); // signals are for the main thread
    w->runs = pthread_create(&w->thread, NULL, watch, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void as_watch_stop(struct as_read_watchdog *w)
{
    if (!w->runs)
        return;
    // Not by pthread_cancel: where the signal comes as nanosleep begins or ends, glibc before 2.41 may take it for none, and the
    // thread waits for it for ever (seen on 2.36, a few times in some thousand snapshots).
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    w->runs = false;
}
