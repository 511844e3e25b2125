// SPDX-License-Identifier: MIT
// Work that several threads share.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { AS_MOST_WORKERS = 16 };

// Starts work(worker) on a thread to which no signal comes: signals are for the thread that talks to the user. False: no thread can be
// started.
bool as_worker_start(pthread_t *id, void *(*work)(void *worker), void *worker);

// Calls work() with each of `count` workers (at most AS_MOST_WORKERS), which stand `stride` bytes apart: with the first one on this
// thread, with the others on threads of their own, or after the first one if no thread can be started. Returns when all are done.
void as_workers_run(void *(*work)(void *worker), void *workers, size_t stride, size_t count);
