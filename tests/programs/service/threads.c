// SPDX-License-Identifier: MIT
// Threads that allocate all day long, and threads that do not live for long.
#define _GNU_SOURCE
#include "service.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { SLOTS = 64, TURNS = 1024, MOST_TRIES = 10000 };

void *storm(void *seed)
{
    unsigned state = (unsigned)(uintptr_t)seed;
    struct block blocks[SLOTS] = {0};
    char *own = NULL;
    if (state % 2) {
        stack_t other = {.ss_sp = own = malloc(STACK), .ss_size = STACK};
        sigaltstack(&other, NULL);
    }
    while (!stopping) {
        for (unsigned i = 0; i < TURNS; i++)
            deeper(&blocks[draw(&state) % SLOTS], &state, draw(&state) % 24);
        count(ALLOCATIONS, TURNS);
        jump(state % 8);
    }
    release(blocks, SLOTS);
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    free(own);
    return NULL;
}

static void *lives_shortly(void *argument)
{
    struct short_life *life = argument;
    struct block own[KEPT] = {0};
    for (unsigned i = 0; i < KEPT; i++) {
        deeper(&own[i], &life->state, i % 8);
        deeper(&life->kept[i], &life->state, i % 8);
    }
    release(own, KEPT);
    count(ALLOCATIONS, (uint64_t)2 * KEPT);
    count(THREADS, 1);
    return NULL;
}

void live_shortly(struct short_life *lives, unsigned n)
{
    pthread_t thread[BATCH];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    for (unsigned i = 0; i < n; i++) {
        const pthread_attr_t *attributes = i % 2 ? &small : NULL;
        // While one thread is in execve, the kernel makes no other one.
        for (unsigned tries = 0; pthread_create(&thread[i], attributes, lives_shortly, &lives[i]) != 0; tries++) {
            if (tries > MOST_TRIES)
                harmed("no thread can be started");
            usleep(1000);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        pthread_join(thread[i], NULL);
        release(lives[i].kept, KEPT);
    }
    pthread_attr_destroy(&small);
}

void *starts(void *seed)
{
    struct short_life *lives = calloc(BATCH, sizeof *lives);
    for (unsigned i = 0; i < BATCH; i++)
        lives[i].state = (unsigned)(uintptr_t)seed + i;
    while (!stopping) {
        live_shortly(lives, BATCH);
        usleep(5000);
    }
    free(lives);
    return NULL;
}
