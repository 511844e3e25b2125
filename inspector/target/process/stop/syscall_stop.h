// SPDX-License-Identifier: MIT
// A thread that stands at a system call, as its tracer sees it. Internal to target/ and inject/.
#pragma once

#include <signal.h>
#include <stdint.h>

#if defined(__x86_64__)
static const uint32_t AS_AUDIT_ARCH = 0xc000003e; // AUDIT_ARCH_X86_64 (linux/audit.h)
#elif defined(__aarch64__)
static const uint32_t AS_AUDIT_ARCH = 0xc00000b7; // AUDIT_ARCH_AARCH64
#endif

// What a tracer is told of a thread that stands at a system call (linux/ptrace.h: struct ptrace_syscall_info), which older headers lack.
static const int AS_GET_SYSCALL_INFO = 0x420e;
enum { AS_AT_ENTRY = 1, AS_AT_EXIT = 2 };
struct as_syscall_information {
    uint8_t kind, pad[3];
    uint32_t arch; // as AS_AUDIT_ARCH
    uint64_t instruction, stack;
    int64_t value; // the call's number, or its result
    uint64_t rest[8];
};

// PTRACE_O_SUSPEND_SECCOMP, which older headers lack.
enum { AS_SUSPEND_SECCOMP = 1 << 21 };

// A stop at the entry or the exit of a system call, by PTRACE_O_TRACESYSGOOD.
enum { AS_SYSCALL_STOP = SIGTRAP | 0x80 };
