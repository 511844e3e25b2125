// SPDX-License-Identifier: MIT
// One forward pass over a target's memory.
#pragma once

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct as_target;

// A window onto a target's memory for one forward pass: reads up to AS_WINDOW_BYTES at a time into one buffer that is
// reused (so it stays in cache), or none at all where the memory can be read in place.
enum { AS_WINDOW_BYTES = 1 << 20 };
struct as_read_ahead;
struct as_window {
    struct as_target *target;
    struct as_read_ahead *ahead; // reads on while the walk is busy; NULL until the way is seen to be straight
    // How many threads walk at this time: with a processor to spare, a window reads ahead. NULL: this is the only one.
    const atomic_uint *busy;
    long processors;
    uint8_t *buffer;
    const uint8_t *bytes; // the current window: in the buffer, or in place
    uint64_t address;     // of bytes[0] in the target
    size_t length;
    size_t step;         // how much was to be read last
    uint64_t limit;      // never read at or beyond this address
    uint64_t bytes_read; // statistics
};
// Makes an empty window without a limit (set w->limit afterwards). AS_NO_MEMORY.
bool as_window_open(struct as_window *w, struct as_target *t, struct as_error *err);
void as_window_close(struct as_window *w);
// From now on one buffer is kept for the next window, for a program that takes many snapshots: the kernel clears each page of a new one.
// Not in the agent.
void as_windows_keep(void);
// Moves the window to begin at `address`; false when not even `need` bytes can be read there.
bool as_window_move(struct as_window *w, uint64_t address, size_t need);

// The bytes at `address`, at least `need` of them, valid until the next call; NULL when they cannot be read.
static inline const void *as_window_at(struct as_window *w, uint64_t address, size_t need)
{
    if (address - w->address > w->length || w->length - (address - w->address) < need) {
        if (!as_window_move(w, address, need))
            return NULL;
    }
    return w->bytes + (address - w->address);
}
