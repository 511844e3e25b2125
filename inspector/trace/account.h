// SPDX-License-Identifier: MIT
// What a record says of a process: how much it had when, at most and at its end, and which stacks that was.
#pragma once

#include "trace/trace.h"

enum { AS_TRACE_POINTS = 200, AS_TRACE_LIFETIMES = 10 };

struct as_trace_sum {
    uint64_t count, bytes;
};

struct as_trace_site {
    struct as_trace_sum allocated, temporary, in_use, peak;
    uint64_t epoch; // which peak `peak` is of
};

// By the record's time, in parts of equal length: the most bytes in use within the part, and the blocks at that poll.
struct as_trace_point {
    struct as_trace_sum most;
    uint64_t allocations;
};

struct as_trace_account {
    uint64_t events;
    struct as_trace_sum allocated;    // by all functions; realloc's whole new size
    uint64_t frees;                   // realloc's included
    uint64_t moved, resized;          // by realloc
    uint64_t unknown_frees;           // of blocks that the record does not know: from before it, or lost
    uint64_t replaced;                // allocations where the record still had a block: its free() is not in it
    uint64_t backwards;               // events that a thread has at an earlier time than the one before
    struct as_trace_sum temporary;    // freed by their own thread before it allocated again
    struct as_trace_sum in_use, peak; // at the end
    uint64_t peak_ticks;
    struct as_trace_sum without_stack;                 // of `allocated`
    struct as_trace_sum lifetimes[AS_TRACE_LIFETIMES]; // below 1 us, 10 us, ...; the last: all others
    struct as_trace_point points[AS_TRACE_POINTS];
    uint64_t lost_allocations, lost_frees;
    uint32_t threads;
    AS_VEC(struct as_trace_site) sites; // by context; those of unknown stacks at 1
    // While it is made.
    struct as_trace_block_in_use *table;
    size_t capacity, count;
    uint64_t multipliers[2]; // of the table's hash: random, as the addresses are the file's
    uint64_t epoch;
    size_t reached;                             // of the points
    uint64_t last[AS_TRACE_MOST_THREADS];       // the block that each thread allocated last; 0: freed
    uint64_t last_times[AS_TRACE_MOST_THREADS]; // of each thread's events
};

// Reads all events of a record that as_trace_begin has begun.
bool as_trace_account(struct as_trace_account *a, struct as_trace *r, struct as_error *err);
// The lifetime in nanoseconds below which lifetimes[i] are; UINT64_MAX for the last.
uint64_t as_trace_lifetime(size_t i);
void as_trace_account_free(struct as_trace_account *a);
