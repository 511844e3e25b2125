// SPDX-License-Identifier: MIT
// What the fuzzers share. Each is a libFuzzer target: LLVMFuzzerTestOneInput is called with one input after the other.
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

// libFuzzer's own names.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); // NOLINT(readability-identifier-naming)
int LLVMFuzzerInitialize(int *argc, char ***argv);            // NOLINT(readability-identifier-naming)

// A file in memory with these contents, the same one at every call, and its name below /proc.
int fuzz_file(const uint8_t *data, size_t size);
const char *fuzz_file_name(void);

// Ends the fuzzer, which keeps the input, when something is not as it must be.
void fuzz_check(bool holds, const char *what);

// Checks and renders what a snapshot or a dump says, as arenadump does.
struct as_view;
void fuzz_render(const struct as_view *view);

struct as_target;
struct as_malloc;
struct fuzz_wish {
    uint32_t sources;               // of malloc's layout
    const struct as_malloc *malloc; // found before; NULL: it is to be found
    bool objects;                   // the runtimes' objects by type are counted; else the graph is read
    bool types;                     // debug information gives types
};
// Takes a snapshot of a target, chunks and all, writes a dump of it and reads that back; checks that every heap is covered, and that
// the sums over runtimes are right.
void fuzz_take_snapshot(struct as_target *target, struct fuzz_wish wish);
