// SPDX-License-Identifier: MIT
// The function returns to a system call instruction that is there already, and there the thread is stopped, if there is somebody to do
// so. If not, the frame that it finds next is the way back.
#include "inject/call.h"

#include "inject/call_write.h"
#include "target/process/clone/machine.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

enum { PLAIN_FLAGS = 0x202 }; // no direction flag, no trap flag: as functions expect them

static bool fail_as_gone(const struct as_remote *r, struct as_error *err)
{
    return as_fail(err, AS_TARGET_GONE, "thread %d was killed before a call", r->tid);
}

static bool vectors_read(const struct as_remote *r, struct as_call_setup *launch, struct as_error *err)
{
    struct iovec all = {launch->state, sizeof launch->state};
    launch->state_kind = NT_X86_XSTATE;
    if (ptrace(PTRACE_GETREGSET, r->tid, launch->state_kind, &all) != 0) {
        if (errno != ENODEV)
            return fail_as_gone(r, err);
        launch->state_kind = NT_PRFPREG; // a processor without XSAVE
        if (ptrace(PTRACE_GETREGSET, r->tid, launch->state_kind, &all) != 0)
            return fail_as_gone(r, err);
    }
    launch->state_size = all.iov_len;
    // Cut off, it could not be written back.
    return launch->state_size < sizeof launch->state ||
           as_fail(err, AS_UNSUPPORTED, "the vector registers of thread %d have %zu bytes or more: not supported",
                   r->tid, launch->state_size);
}

bool as_call_prepare(struct as_call_setup *launch, const struct as_function_call *call, struct as_error *err)
{
    const struct as_remote *r = call->remote;
    struct user_regs_struct regs;
    struct as_xsave_layout layout;
    struct as_sigreturn_frame frame;
    struct as_error why;
    if (!vectors_read(r, launch, err))
        return false;
    memcpy(&regs, r->saved, sizeof regs);
    as_xsave_layout_read(&layout);
    const struct as_sigreturn_frame_wanted wanted = {
        .top = call->stack_top,
        .way = call->way,
        .regs = &regs,
        .state = launch->state,
        .state_size = launch->state_size,
        .layout = &layout,
        .mask = r->mask,
        .errno_at = call->errno_at,
        .errno_value = call->errno_value,
    };
    if (!as_sigreturn_frame_build(&frame, &wanted, &why))
        return as_fail(err, why.code, "process %d: %s", call->process->base.pid, why.text);
    launch->begin = call->stack_top - frame.size;
    launch->stop = call->way->syscall_return + AS_SYSCALL_BYTES;
    launch->stop_stack = frame.stop_stack;
    return as_call_write(call->process, r->tid, launch->begin, frame.bytes, frame.size, err);
}

bool as_launch_set(const struct as_call_setup *launch, const struct as_remote *r, uint64_t function,
                   const uint64_t arguments[3])
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    memcpy(&regs, r->saved, sizeof regs);
    regs.rip = function;
    regs.rsp = launch->begin; // where a call instruction would have left it
    regs.rdi = arguments[0];
    regs.rsi = arguments[1];
    regs.rdx = arguments[2];
    regs.rax = 0;
    regs.eflags = PLAIN_FLAGS;
    regs.orig_rax = (uint64_t)-1; // or the kernel would restart the call that was interrupted
    return ptrace(PTRACE_SETREGSET, r->tid, NT_PRSTATUS, &all) == 0;
}

bool as_call_poll(const struct as_call_setup *launch, const struct as_remote *r, bool *back, uint64_t *result)
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    if (ptrace(PTRACE_GETREGSET, r->tid, NT_PRSTATUS, &all) != 0)
        return false;
    *back = regs.rip == launch->stop && regs.rsp == launch->stop_stack;
    if (!*back)
        return true;
    *result = regs.orig_rax;      // what the function has returned, which is not the number of a call
    regs.orig_rax = (uint64_t)-1; // so let none be made
    return ptrace(PTRACE_SETREGSET, r->tid, NT_PRSTATUS, &all) == 0;
}

bool as_call_restore(const struct as_call_setup *launch, const struct as_remote *r)
{
    struct iovec all = {(void *)(uintptr_t)launch->state, launch->state_size};
    return ptrace(PTRACE_SETREGSET, r->tid, launch->state_kind, &all) == 0;
}
