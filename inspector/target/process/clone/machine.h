// SPDX-License-Identifier: MIT
// What of a call into a stopped thread differs from one architecture to the next: one file each, machine_x86_64.c and
// machine_aarch64.c. Internal to target/ and inject/.
#pragma once

#include "target/process/clone/remote_thread.h"
#include "target/process/stop/syscall_stop.h"

// A system call instruction, and on what multiple of bytes instructions begin.
#if defined(__x86_64__)
#define AS_SYSCALL_CODE                                                                                                \
    {                                                                                                                  \
        0x0f, 0x05                                                                                                     \
    }
enum { AS_SYSCALL_BYTES = 2, AS_CODE_ALIGNMENT = 1 };
#elif defined(__aarch64__)
#define AS_SYSCALL_CODE                                                                                                \
    {                                                                                                                  \
        0x01, 0x00, 0x00, 0xd4                                                                                         \
    }
enum { AS_SYSCALL_BYTES = 4, AS_CODE_ALIGNMENT = 4 };
#endif

// Reads r->saved, and brings the thread to where it can make system calls for us and be put back. False: AS_TARGET_GONE, or AS_UNSUPPORTED,
// as it was.
bool as_machine_take(struct as_remote *r, struct as_error *err);
// Puts the registers back. False: it has been killed.
bool as_machine_put_back(const struct as_remote *r);

// Has the thread make that call when it goes on: at r->instruction, or in r->shelter. False: it has been killed.
bool as_machine_set_call(const struct as_remote *r, long number, const uint64_t arguments[6]);
// Returns whether a thread that is at the entry of a call is making that call, where as_machine_set_call has it made.
bool as_machine_enters(const struct as_remote *r, long number, const uint64_t arguments[6]);
// Has the kernel make no call for a thread that is at the entry of one.
void as_machine_turn_away(const struct as_remote *r);
// Gets what the call returns at whose exit the thread is. False: it has been killed.
bool as_machine_result(const struct as_remote *r, int64_t *result);

// Where it makes calls for us.
static inline uint64_t as_machine_instruction(const struct as_remote *r)
{
    return r->shelter.instruction != 0 ? r->shelter.instruction : r->instruction;
}

#if defined(__aarch64__)
// Has a thread that is at the entry of a call make none, and go on at `pc` with its other registers as they are. (The kernel does not let
// x7 be changed there.) False: it has been killed.
bool as_machine_undo_call(pid_t tid, uint64_t pc);
#endif
