// SPDX-License-Identifier: MIT
// The way back of a thread on aarch64. Internal to inject/.
#pragma once

#include "base/error.h"
#include "inject/sigreturn_frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#if defined(__aarch64__)

enum {
    AS_FRAME_ROOM =
        48 * 1024, // for the frames of a thread with vectors of 256 bytes and an errno of 32 bits that are all set
    AS_SVE_MOST_VECTOR = 256,
};

struct as_sigreturn_frame_wanted {
    uint64_t top; // address just above the frames, aligned to 16
    const struct as_way_back *way;
    const struct user_regs_struct *regs;
    const struct user_fpsimd_struct *vectors;
    const uint8_t *wide; // NT_ARM_SVE of a thread that has more than that in its registers; else NULL
    size_t wide_size;
    uint64_t mask;     // blocked signals
    uint64_t errno_at; // address of the thread's errno; 0: not known, and not put back
    int32_t errno_value;
};

struct as_sigreturn_frame {
    uint8_t bytes[AS_FRAME_ROOM];
    size_t size; // of them: to be written just below `top`; the first is where the function's stack begins
};

// Builds what takes a thread back to those registers, errno and signal mask without our help: the function returns to the
// restorer, and with the stack pointer as it was at the function's beginning that finds the frame of a signal handler there.
// False (AS_UNSUPPORTED): it cannot be built, and why.
bool as_sigreturn_frame_build(struct as_sigreturn_frame *out, const struct as_sigreturn_frame_wanted *wanted,
                              struct as_error *err);

#endif
