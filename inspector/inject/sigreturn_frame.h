// SPDX-License-Identifier: MIT
// What a called function finds above it on the stack: the way back. Internal to inject/.
#pragma once

#include "base/error.h"

#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

// Code of the target that the way back leads through. 0: not found.
struct as_way_back {
    uint64_t pop_argument;   // `pop %rdi; ret`
    uint64_t syscall_return; // `syscall; ret`: here the thread is stopped, if there is somebody to do so
    uint64_t restorer;       // `mov $15, %rax; syscall`: what a signal handler returns to
};

// The restorer's bytes, by which the kernel, gdb and others know it.
#if defined(__x86_64__)
#define AS_RESTORER                                                                                                    \
    {                                                                                                                  \
        0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05                                                           \
    }
#elif defined(__aarch64__)
#define AS_RESTORER /* mov x8, #139; svc #0 */                                                                         \
    {                                                                                                                  \
        0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4                                                                 \
    }
#endif

enum {
    AS_STATE_MOST = 32 * 1024, // bytes of all registers that XSAVE knows: 832 with AVX, 11,008 with AMX
    AS_STATE_FX = 512,         // bytes of a state without XSAVE: x87 and SSE
    AS_SVE_MOST_VECTOR = 256,
    // On aarch64 for the frames of a thread with vectors of 256 bytes and an errno of 32 bits that are all set.
    AS_FRAME_MOST = AS_STATE_MOST + 16 * 1024,
};

#if defined(__x86_64__)
// Where each feature of XSAVE (bit i of XCR0) has its registers in the standard format. From CPUID leaf 0xD.
struct as_xsave_layout {
    uint32_t offset[64], size[64];
    uint64_t on_demand; // features for which the kernel makes room only when a thread first uses them (XFD)
};
// This processor's.
void as_xsave_layout_read(struct as_xsave_layout *out);
#endif

struct as_sigreturn_frame_wanted {
    uint64_t top; // address just above the frames; on aarch64 aligned to 16
    const struct as_way_back *way;
    const struct user_regs_struct *regs;
#if defined(__x86_64__)
    const uint8_t *state; // vector and floating-point registers, as NT_X86_XSTATE has them, or NT_PRFPREG (AS_STATE_FX)
    size_t state_size;
    const struct as_xsave_layout *layout;
#elif defined(__aarch64__)
    const struct user_fpsimd_struct *vectors;
    const uint8_t *wide; // NT_ARM_SVE of a thread that has more than that in its registers; else NULL
    size_t wide_size;
#endif
    uint64_t mask;     // blocked signals
    uint64_t errno_at; // address of the thread's errno; 0: not known, and not put back
    int32_t errno_value;
};

struct as_sigreturn_frame {
    uint8_t bytes[AS_FRAME_MOST];
    size_t size;         // of them: to be written just below `top`; the first is where the function's stack begins
    uint64_t stop_stack; // x86-64: the stack pointer when the thread is at way->syscall_return
};

// Builds what takes a thread back to those registers, vector state, errno and signal mask without our help. On x86-64 the function
// returns to `syscall; ret` with an argument with which that call fails; from there on come frames of signal handlers that return. On
// aarch64 it returns to the restorer, and with the stack pointer as it was at the function's beginning that finds such a frame there.
// False (AS_UNSUPPORTED): it cannot be built, and why.
bool as_sigreturn_frame_build(struct as_sigreturn_frame *out, const struct as_sigreturn_frame_wanted *wanted,
                              struct as_error *err);

// Memory of its own is what a thread can change in one system call by futex's FUTEX_WAKE_OP, which sets a word whether or not
// anybody waits for it. A number takes 12 bits with a sign: the bits above are set one by one.
enum {
    AS_ERRNO_SET_BITS = 11,
    AS_ERRNO_BITS = 32,
    AS_ERRNO_MOST = 1 + AS_ERRNO_BITS - AS_ERRNO_SET_BITS, // operations that it takes at most
};
static inline size_t as_errno_operations(int32_t value, uint32_t operations[AS_ERRNO_MOST])
{
    enum { ARGUMENT_SHIFT = 12 };
    uint32_t low = (uint32_t)value & ((1u << AS_ERRNO_SET_BITS) - 1);
    size_t count = 0;
    operations[count++] = (uint32_t)FUTEX_OP_SET << 28 | low << ARGUMENT_SHIFT;
    for (uint32_t i = AS_ERRNO_SET_BITS; i < AS_ERRNO_BITS; ++i) {
        if ((uint32_t)value >> i & 1)
            operations[count++] = (uint32_t)(FUTEX_OP_OR | FUTEX_OP_OPARG_SHIFT) << 28 | i << ARGUMENT_SHIFT;
    }
    return count;
}
