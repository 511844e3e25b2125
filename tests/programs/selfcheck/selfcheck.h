// SPDX-License-Identifier: MIT
// A program that notices when it is harmed: every thread of it checks what it gets against what it must get.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options {
    unsigned storm;  // threads that allocate, fill, check and free
    unsigned blocks; // that each of them holds, give or take one
    unsigned waits;  // sets of threads that wait in system calls
    unsigned lives;  // sets of threads that fork, create threads and send signals
    unsigned spins;  // pairs of threads that keep values in registers and below the stack pointer
};

extern atomic_bool stopping;

// Notes that something is not as it must be; counted, and the first is printed in the report.
__attribute__((format(printf, 1, 2))) void harmed(const char *format, ...);

// Notes that a system call failed with EINTR though no signal was sent: allowed to some by signal(7), hence apart.
void interrupted(const char *call);

// One more check that went well.
void checked(void);

// Starts a thread with all signals blocked but `open` (0: none).
void start(void *(*run)(void *), void *argument, int open);

void storm_start(const struct options *o);
void waits_start(void);
void lives_start(void);
void spins_start(void);

static inline uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

uint64_t now_ns(void);
