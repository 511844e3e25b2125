// SPDX-License-Identifier: MIT
#include "target/read_ahead.h"

#include <signal.h>
#include <sys/mman.h>

static void *read_on(void *argument)
{
    struct as_read_ahead *a = argument;
    pthread_mutex_lock(&a->lock);
    for (;;) {
        while (!a->busy && !a->ending)
            pthread_cond_wait(&a->changed, &a->lock);
        if (!a->busy)
            break;
        pthread_mutex_unlock(&a->lock);
        size_t length = as_target_read_resident(a->target, a->address, a->buffer, a->wanted);
        pthread_mutex_lock(&a->lock);
        a->length = length;
        a->busy = false;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

struct as_read_ahead *as_read_ahead_start(struct as_target *t)
{
    struct as_read_ahead *a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a == MAP_FAILED)
        return NULL;
    a->target = t;
    a->buffer = mmap(NULL, AS_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    // Signals are for the thread that talks to the user.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = a->buffer != MAP_FAILED && pthread_create(&a->thread, NULL, read_on, a) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        return a;
    if (a->buffer != MAP_FAILED)
        munmap(a->buffer, AS_WINDOW_BYTES);
    munmap(a, sizeof *a);
    return NULL;
}

void as_read_ahead_end(struct as_read_ahead *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->ending = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->changed);
    munmap(a->buffer, AS_WINDOW_BYTES);
    munmap(a, sizeof *a);
}

static void wait_until_idle(struct as_read_ahead *a)
{
    while (a->busy)
        pthread_cond_wait(&a->changed, &a->lock);
}

void as_read_ahead_ask(struct as_read_ahead *a, uint64_t address, size_t length)
{
    pthread_mutex_lock(&a->lock);
    wait_until_idle(a);
    a->address = address;
    a->wanted = length;
    a->length = 0;
    a->busy = length > 0;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

bool as_read_ahead_take(struct as_read_ahead *a, uint64_t address, size_t need, uint8_t **buffer, uint64_t *start,
                        size_t *length)
{
    pthread_mutex_lock(&a->lock);
    bool asked = a->wanted > 0 && address >= a->address && address - a->address < a->wanted &&
                 a->wanted - (address - a->address) >= need;
    if (asked)
        wait_until_idle(a);
    bool there = asked && address - a->address < a->length && a->length - (address - a->address) >= need;
    if (there) {
        uint8_t *full = a->buffer;
        a->buffer = *buffer;
        *buffer = full;
        *start = a->address;
        *length = a->length;
        a->wanted = a->length = 0;
    }
    pthread_mutex_unlock(&a->lock);
    return there;
}
