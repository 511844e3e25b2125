// SPDX-License-Identifier: MIT
// What the extension's files share. They are Ruby's side of arenascope.h: they check arguments, let go of the GVL, and make
// values of what comes back. Everything else is the inspector's.
#pragma once

#include "arenascope.h"

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

extern VALUE as_native; // Arenascope::Native

void as_init_snapshot(void);
void as_init_give_back(void);
void as_init_after_gc(void);

// Raises Arenascope::Error: what was tried, what was found, what to do; and a code of arenascope.h.
NORETURN(void as_raise(int code, const char *why));
// With arenascope_error(), unless the code is ARENASCOPE_OK.
void as_check(int code);

uint64_t as_clock_ns(clockid_t clock);

// Anonymous resident memory of the process in bytes, as /proc/self/statm has it; ARENASCOPE_UNKNOWN if that cannot be read,
// as for want of a file descriptor. The kernel counts it in batches for each processor, so it may be some hundred KiB off.
uint64_t as_anonymous_bytes(void);

struct as_measured_trim {
    bool deep;
    uint64_t before, after; // as_anonymous_bytes()
    uint64_t started_ns, ended_ns, cpu_ns;
};
// malloc_trim(0), or a deep trim if that is asked for and can be made here. Needs no GVL, allocates nothing.
void as_measured_trim(struct as_measured_trim *trim);
