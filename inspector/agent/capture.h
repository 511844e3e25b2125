// SPDX-License-Identifier: MIT
// The look from inside: a snapshot of the process that we are part of, arena after arena under its own lock.
#pragma once

#include "agent/arena_lock.h"
#include "base/error.h"
#include "capture/capture.h"

struct as_agent_capture {
    struct as_store store;
    struct as_arena_locks hold;
};

// Looks; `chunk_fd` as in as_capture_options. AS_NO_MALLOC where malloc is not glibc's. Free it in either case.
bool as_agent_capture(struct as_agent_capture *look, int chunk_fd, struct as_error *err);
void as_agent_capture_free(struct as_agent_capture *look);

// Looks and writes a dump: into `fd` (which stays the caller's) or, where that is -1, to `path`.
bool as_agent_dump(const char *path, int fd, bool chunks, struct as_error *err);

struct arenascope_summary;
// What the look found, as the public struct.
void as_agent_summary(const struct as_agent_capture *look, struct arenascope_summary *out);
