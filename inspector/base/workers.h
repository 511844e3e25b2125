// SPDX-License-Identifier: MIT
// Work that several threads share.
#pragma once

#include <stddef.h>

enum { AS_MOST_WORKERS = 16 };

// Calls work() with each of `count` workers (at most AS_MOST_WORKERS), which stand `stride` bytes apart: with the first one on this
// thread, with the others on threads of their own, or after the first one if no thread can be started. Returns when all are done.
void as_workers_run(void *(*work)(void *worker), void *workers, size_t stride, size_t count);
