// SPDX-License-Identifier: MIT
// What the parts of the truth harness share: work.c, which churns, pressure.c, and main.c, which drives it and reports.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_THREADS = 256, MAX_FREED = 65536, BIGGEST_LOG2 = 22 };

// A place for one block. Any thread may fill it and any other may empty it: that is how frees cross threads.
struct slot {
    atomic_flag busy;
    unsigned char *block;
    size_t size;
};

struct freed {
    void *block;
    size_t size;
    unsigned ordinal;
};

struct worker {
    pthread_t thread;
    uint64_t random;
    bool ends; // after the first half
    bool late; // begins with the second half
};

struct options {
    const char *scenario;
    uint64_t seed;
    unsigned threads, operations, slots, biggest_log2;
};

extern struct options option;

// All in memory of our own (mmap), main.c's to make.
extern struct slot *slots;
extern struct freed *freed;
extern atomic_uint freed_count;

// One half of a worker's part of the scenario.
void work(struct worker *w, unsigned operations, bool second_half);
// Steps of the default scenario.
void churn(struct worker *w, unsigned operations);
// Leaves brk no room to grow: from then on the main arena takes its memory from mmap.
void block_brk(void);

// What the program does to its own blocks, or to all of its memory (pressure.c). advise_blocks: how many took the advice.
void lock_memory(void);
unsigned advise_blocks(int advice);
void protect_blocks(void);
int fork_and_wait(void); // the child's pid; the child does nothing more

void die(const char *what) __attribute__((noreturn));
