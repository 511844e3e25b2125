// SPDX-License-Identifier: MIT
// What the parts of the service have in common. Each function that is given to pthread_create is declared with its part.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// As tests/soaks/soak_recorder.py names them.
enum {
    LIVES,
    ALLOCATIONS,
    THREADS,
    FORKS,
    PROGRAMS,
    SIGNALS,
    HANDLERS, // that allocated
    INSIDE,   // of these: they had interrupted the agent's code
    JUMPS,
    COROUTINES,
    MOVED, // of these: to another thread
    LIBRARIES,
    COUNTERS
};
enum { STORMS = 4, INTERRUPTED = STORMS + 2, BATCH = 8, KEPT = 20, STACK = 64 << 10, WORDS = 32 };

struct block {
    unsigned char *at;
    size_t size;
    unsigned char fill;
};

struct short_life {
    unsigned state;
    struct block kept[KEPT]; // the starter frees these
};

extern _Atomic uint64_t *counts;
extern atomic_bool stopping;
extern char *words[WORDS + 2]; // this program's command
extern size_t word_count;

// blocks.c
void harmed(const char *what);
void count(int what, uint64_t more);
unsigned draw(unsigned *state);
void allocate(struct block *b, unsigned *state);
void deeper(struct block *b, unsigned *state, unsigned depth); // allocates by a call stack of this depth
void release(struct block *b, size_t n);

// signals.c
extern pthread_t interrupted[INTERRUPTED]; // who gets signals
void handle_signals(void);
void jump(unsigned depth); // waits to be left by a handler
void *signals(void *unused);

// threads.c
void *storm(void *seed);
void live_shortly(struct short_life *lives, unsigned n);
void *starts(void *seed);

// processes.c
void *forks(void *seed);

// coroutines.c
void *coroutines(void *seed);
