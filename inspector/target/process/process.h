// SPDX-License-Identifier: MIT
// The live-process backend, as far as self.c shares it. Internal to target/, and to its tests.
#pragma once

#include "target/process/read/live_process.h"

// A process target without its files opened; NULL and `err` when memory runs out. Freed by as_process_close.
struct as_process *as_process_new(const struct as_target_ops *ops, enum as_target_kind kind, struct as_error *err);
// Opens /proc/PID/mem and pagemap through view_fd, reads comm, exe, cmdline, architecture, mappings (not counted) and threads.
bool as_process_attach_files(struct as_process *p, struct as_error *err);
void as_process_close(struct as_target *t);
bool as_process_count(struct as_target *t, struct as_error *err);
size_t as_process_read(struct as_target *t, uint64_t address, void *buffer, size_t length);
void as_process_gather(struct as_target *t, const uint64_t *addresses, size_t count, size_t length, void *out,
                       size_t stride, bool *ok);

// How many reads of its memory have come to an end, and whether one is under way: memory may be of a kind that answers when the
// target likes (a file of a file system of its own), and the kernel waits for it.
uint64_t as_process_reads(const struct as_process *p, bool *pending);
