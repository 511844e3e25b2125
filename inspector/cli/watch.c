// SPDX-License-Identifier: MIT
// Memory of a process may be of a kind that answers when the process likes: userfaultfd, or a file of a file system that the
// process serves itself. Who reads it waits in the kernel, where only the end of all threads interrupts it.
#define _GNU_SOURCE
#include "cli/watch.h"
#include "cli/cli.h"
#include "target/process/process.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_S = 60 }; // for one read, of a MiB at most

static void *watch(void *target)
{
    const struct as_process *p = as_process_of(target);
    uint64_t last = 0;
    for (int seconds = 0; seconds < LIMIT_S; ++seconds) {
        bool pending;
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        uint64_t ended = as_process_reads(p, &pending);
        if (!pending || ended != last)
            seconds = -1;
        last = ended;
    }
    fprintf(stderr,
            "arenadump: process %d: a read of its memory has not returned for %d s: is that memory served by "
            "userfaultfd, or by a file system that hangs? Try --mode freeze, which reads only resident pages\n",
            p->base.pid, LIMIT_S);
    as_signals_abandon();
    _exit(AS_DENIED);
}

void as_watch_start(struct as_watch *w, struct as_target *t)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); // signals are for the main thread
    w->runs = pthread_create(&w->thread, NULL, watch, t) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void as_watch_stop(struct as_watch *w)
{
    if (!w->runs)
        return;
    pthread_cancel(w->thread);
    pthread_join(w->thread, NULL);
    w->runs = false;
}
