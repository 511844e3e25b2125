// SPDX-License-Identifier: MIT
#include "base/workers.h"

#include <signal.h>

bool as_worker_start(pthread_t *id, void *(*work)(void *worker), void *worker)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(id, NULL, work, worker) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void as_workers_run(void *(*work)(void *worker), void *workers, size_t stride, size_t count)
{
    pthread_t ids[AS_MOST_WORKERS];
    size_t started = 1;
    while (started < count && as_worker_start(&ids[started], work, (char *)workers + started * stride))
        started++;
    work(workers);
    for (size_t i = started; i < count; i++)
        work((char *)workers + i * stride);
    for (size_t i = 1; i < started; i++)
        pthread_join(ids[i], NULL);
}
