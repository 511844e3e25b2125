// SPDX-License-Identifier: MIT
#include "target/read_ahead.h"
#include "base/workers.h"

#include <sys/mman.h>

enum { SLICE = 128 << 10 };

// Reads the next slice, if there is one. The lock is held, but not while it reads.
static bool read_slice(struct as_read_ahead *a)
{
    if (a->taken == a->wanted)
        return false;
    size_t at = a->taken, wanted = a->wanted - at < SLICE ? a->wanted - at : SLICE;
    a->taken += wanted;
    a->readers++;
    pthread_mutex_unlock(&a->lock);
    size_t got = as_target_read_resident(a->target, a->address + at, a->buffer + at, wanted);
    pthread_mutex_lock(&a->lock);
    if (got < wanted) {
        a->length = at + got < a->length ? at + got : a->length;
        a->taken = a->wanted; // what lies behind is of no use
    }
    if (--a->readers == 0)
        pthread_cond_broadcast(&a->changed);
    return true;
}

static void *read_on(void *argument)
{
    struct as_read_ahead *a = argument;
    pthread_mutex_lock(&a->lock);
    while (!a->ending) {
        if (!read_slice(a))
            pthread_cond_wait(&a->changed, &a->lock);
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
    bool started = a->buffer != MAP_FAILED && as_worker_start(&a->thread, read_on, a);
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

static void wait_for_readers(struct as_read_ahead *a)
{
    while (a->readers > 0)
        pthread_cond_wait(&a->changed, &a->lock);
}

void as_read_ahead_ask(struct as_read_ahead *a, uint64_t address, size_t length)
{
    pthread_mutex_lock(&a->lock);
    a->taken = a->wanted;
    wait_for_readers(a);
    a->address = address;
    a->wanted = a->length = length;
    a->taken = 0;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

bool as_read_ahead_take(struct as_read_ahead *a, uint64_t address, size_t need, uint8_t **buffer, uint64_t *start,
                        size_t *length)
{
    pthread_mutex_lock(&a->lock);
    bool asked = a->wanted > 0 && address >= a->address && address - a->address < a->wanted &&
                 a->wanted - (address - a->address) >= need;
    if (asked) {
        while (read_slice(a))
            ;
        wait_for_readers(a);
    }
    bool there = asked && address - a->address < a->length && a->length - (address - a->address) >= need;
    if (there) {
        uint8_t *full = a->buffer;
        a->buffer = *buffer;
        *buffer = full;
        *start = a->address;
        *length = a->length;
        a->wanted = a->taken = a->length = 0;
    }
    pthread_mutex_unlock(&a->lock);
    return there;
}
