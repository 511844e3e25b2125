// SPDX-License-Identifier: MIT
// A thread that ends arenadump, with AS_DENIED and a word, when a read of a live process's memory never returns.
#pragma once

#include "target/target.h"

#include <pthread.h>

struct as_read_watchdog {
    pthread_t thread;
    bool runs;
    struct as_target *target;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ending; // under the lock
};

// `t` is a live process, and stays open until as_watch_stop, as `w` stays where it is. Without a thread, nobody watches.
void as_watch_start(struct as_read_watchdog *w, struct as_target *t);
// NULL-safe on a watch that was never started (all zero).
void as_watch_stop(struct as_read_watchdog *w);
