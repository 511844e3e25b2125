// SPDX-License-Identifier: MIT
#include "base/workers.h"

#include <pthread.h>
#include <signal.h>

void as_workers_run(void *(*work)(void *worker), void *workers, size_t stride, size_t count)
{
    pthread_t ids[AS_MOST_WORKERS];
    size_t started = 1;
    // Signals are for the thread that talks to the user.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < count && pthread_create(&ids[started], NULL, work, (char *)workers + started * stride) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    work(workers);
    for (size_t i = started; i < count; i++)
        work((char *)workers + i * stride);
    for (size_t i = 1; i < started; i++)
        pthread_join(ids[i], NULL);
}
