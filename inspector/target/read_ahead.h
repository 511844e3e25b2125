// SPDX-License-Identifier: MIT
// Reads the next part of a window's way on a thread of its own while the walk is busy with this one, slice by slice: a walk that
// has to wait reads slices too, as to copy memory takes longer than to walk it. Internal to target/.
#pragma once

#include "target/target.h"

#include <pthread.h>

struct as_read_ahead {
    struct as_target *target;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint8_t *buffer; // AS_WINDOW_BYTES
    uint64_t address;
    size_t wanted;    // bytes
    size_t taken;     // of them, bytes in slices that have found their reader
    size_t length;    // of them, bytes before the first that could not be read
    unsigned readers; // who are at a slice
    bool ending;
};

// NULL when no thread or memory could be had: then there is no reading ahead.
struct as_read_ahead *as_read_ahead_start(struct as_target *t);
void as_read_ahead_end(struct as_read_ahead *a);

// Asks for `length` bytes at `address`, at most AS_WINDOW_BYTES; what was asked for before is dropped.
void as_read_ahead_ask(struct as_read_ahead *a, uint64_t address, size_t length);

// If what was asked for holds at least `need` bytes at `address`: waits for it, exchanges *buffer for the one that
// holds it, tells where and how long that is, and returns true.
bool as_read_ahead_take(struct as_read_ahead *a, uint64_t address, size_t need, uint8_t **buffer, uint64_t *start,
                        size_t *length);
