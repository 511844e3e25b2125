// SPDX-License-Identifier: MIT
// What a called function finds above it on the stack: the way back. Internal to inject/.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

// Code of the target that the way back leads through.
struct as_way_back {
    uint64_t syscall_return; // `syscall; ret`: here the thread is stopped, if there is somebody to do so
    uint64_t restorer;       // `mov $15, %rax; syscall`: what a signal handler returns to
};

// The restorer's bytes, by which the kernel, gdb and others know it.
#define AS_RESTORER                                                                                                    \
    {                                                                                                                  \
        0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05                                                           \
    }

enum { AS_FRAME_MOST = 8192 };

#if defined(__x86_64__)
// Builds, for the memory that ends at `top`, what takes a thread back to those registers, vector state (as NT_X86_XSTATE has it) and
// signal mask without our help: a return to `syscall; ret`, of which the system call fails as there is none of that number, then
// the frame of a signal handler that returns. Returns how many bytes of `out` have to be written just below `top`; the first
// of them is where the stack pointer has to be when the function begins. 0: the state is too large.
size_t as_frame_build(uint8_t out[AS_FRAME_MOST], uint64_t top, const struct as_way_back *way,
                      const struct user_regs_struct *regs, const uint8_t *state, size_t state_size, uint64_t mask);
#endif
