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
    unsigned storm;   // threads that allocate, fill, check and free
    unsigned blocks;  // that each of them holds, give or take one
    unsigned waits;   // sets of threads that wait in system calls that a stop must not make fail
    unsigned limits;  // sets of threads that wait in those that it may, for a time
    unsigned timers;  // pairs of threads that count periods
    unsigned lives;   // sets of threads that fork, create threads and send signals
    unsigned reaps;   // threads that are a subreaper: one at most, and not with `lives`
    unsigned forks;   // threads that fork and wait, on and on: not with `lives` or `reaps`
    unsigned threads; // threads that create threads, on and on
    unsigned spins;   // pairs of threads that keep values in registers and below the stack pointer
    unsigned setxid;  // threads that call setresuid and setresgid, to no effect
    unsigned cancels; // threads that start a thread and cancel it, on and on
    unsigned plugins; // threads that load and unload $SELFCHECK_PLUGIN (plugin.c): one at most
    unsigned kernels; // pairs of threads that use membarrier and robust mutexes
    unsigned clocks;  // threads with a timer that starts threads
    unsigned spawns;  // threads that start programs: not with `lives`, `forks` or `reaps`
    unsigned rseqs;   // threads in a restartable sequence
    unsigned shy;     // 1: the first thread waits for its commands in a call for which injectors take others first
};

extern atomic_bool stopping;

// Notes that something is not as it must be; counted, and the first is printed in the report.
__attribute__((format(printf, 1, 2))) void harmed(const char *format, ...);

// Notes that a system call failed with EINTR though no signal was sent: allowed to some by signal(7), hence apart.
void interrupted(const char *call);

// One more check that went well.
void checked(void);

// waits.c: judges a call that began then and was to end after WAIT_MS: it must have lasted as long. (It may last longer: the
// machine is busy, the target stood still.)
enum { WAIT_MS = 60 };
void judge(const char *call, bool ok, uint64_t began);
// As judge, for calls whose time the kernel counts in ticks (of 4 ms, mostly), not by a clock: where a virtual machine gets
// its processors late the count lags, measured by up to 6.5 ms, and a wait that begins then ends that much early.
void judge_by_ticks(const char *call, bool ok, uint64_t began);

// Starts a thread with all signals blocked but `open` (0: none).
void start(void *(*run)(void *), void *argument, int open);

// As pthread_create, with plain attributes. While another thread is in execve the kernel makes none (EAGAIN, as the two share what
// umask and chdir change): it is tried again, and the exec ends the thread that tries.
int create_thread(pthread_t *thread, void *(*run)(void *), void *argument);

void storm_start(const struct options *o);
void waits_start(void);
void limits_start(void);
void timers_start(void);
void lives_start(void);
void reaps_start(void);
void forks_start(void);
void threads_start(void);
void spins_start(void);
void setxid_start(void);
void cancels_start(void);
void plugins_start(void);
void kernels_start(void);
void clocks_start(void);
void spawns_start(void);
void rseqs_start(void);

static inline uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

uint64_t now_ns(void);
