// SPDX-License-Identifier: MIT
// The walk reads, the ledger counts: two halves of the work, on two processors where there are two. The walk's chunks
// reach the ledger in traces; those of an arena with fastbins wait until the arena has been read, when its lists can be
// followed.
#pragma once

#include "heap/fastbins.h"
#include "heap/trace.h"
#include "ledger/ledger.h"

#include <pthread.h>

enum {
    AS_PIPELINE_SLOTS = 64,
    AS_PIPELINE_NOTED = 2, // of them with notes, which may take 32 MiB each
};

// Blocks on their way, oldest first, and what is needed to tell their fastbin chunks.
struct as_delivery {
    struct as_trace_block *blocks;
    uint32_t arena;
    bool resolve; // follow the arena's lists through `notes` first
    struct as_fast_notes notes;
    as_address_vec members;
};

struct as_pipeline {
    struct as_heaps *heaps;
    struct as_ledger_builder *ledger;
    as_address_vec members; // the fastbins' members of the arena at hand
    const uint64_t *next_member;

    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct as_delivery slots[AS_PIPELINE_SLOTS];
    size_t first, count, noted;
    bool closed, failed;
    struct as_error err;            // why it failed
    AS_VEC(struct as_fault) faults; // found while counting; for the arena in each

    // The arena being walked.
    uint32_t arena;
    struct as_trace_block *held, **held_end; // until its fastbins are known
    bool hold;
};

// `threaded`: count on a thread of our own (never inside a target). The ledger must be open.
bool as_pipeline_open(struct as_pipeline *p, struct as_heaps *h, struct as_ledger_builder *ledger, bool threaded,
                      struct as_error *err);

// Walks all heaps of one arena. Returns false and `err` when either half failed.
bool as_pipeline_arena(struct as_pipeline *p, uint32_t arena, uint32_t *next_heap, struct as_window *w, uint64_t *torn,
                       struct as_error *err);

// Waits until all is counted, ends the thread and frees everything. False and `err` when the counting failed.
bool as_pipeline_close(struct as_pipeline *p, struct as_error *err);
