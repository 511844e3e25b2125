// SPDX-License-Identifier: MIT
// The function returns to the restorer, which enters the kernel: there the thread is stopped, if there is somebody to do so. If
// not, the frame that the restorer finds is the way back.
#include "inject/call.h"

#include "inject/call_write.h"
#include "inject/sigreturn_frame.h"
#include "target/process/clone/machine.h"
#include "target/process/stop/aarch64.h"

#include <elf.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

enum { RESTORER_BYTES = 8 };

bool as_call_prepare(struct as_call_setup *launch, const struct as_function_call *call, struct as_error *err)
{
    const struct as_remote *r = call->remote;
    struct user_fpsimd_struct vectors;
    struct iovec all = {&vectors, sizeof vectors};
    struct user_regs_struct regs;
    struct as_sigreturn_frame frame;
    if (ptrace(PTRACE_GETREGSET, r->tid, NT_PRFPREG, &all) != 0)
        return as_fail(err, AS_TARGET_GONE, "thread %d was killed before a call", r->tid);
    memcpy(&regs, r->saved, sizeof regs);
    const struct as_sigreturn_frame_wanted wanted = {
        .top = call->stack_top,
        .way = call->way,
        .regs = &regs,
        .vectors = &vectors,
        .wide = r->wide_size > 0 ? r->wide : NULL,
        .wide_size = r->wide_size,
        .mask = r->mask,
        .errno_at = call->errno_at,
        .errno_value = call->errno_value,
    };
    struct as_error why;
    if (!as_sigreturn_frame_build(&frame, &wanted, &why))
        return as_fail(err, why.code, "process %d: %s", call->process->base.pid, why.text);
    memcpy(launch->state, &vectors, all.iov_len);
    launch->state_kind = NT_PRFPREG;
    launch->state_size = all.iov_len;
    launch->begin = launch->stop_stack = call->stack_top - frame.size;
    launch->stop = call->way->restorer + RESTORER_BYTES;
    return as_call_write(call->process, r->tid, launch->begin, frame.bytes, frame.size, err);
}

bool as_launch_set(const struct as_call_setup *launch, const struct as_remote *r, uint64_t function,
                   const uint64_t arguments[3])
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    memcpy(&regs, r->saved, sizeof regs);
    regs.pc = function;
    regs.sp = launch->begin;
    regs.pstate &= ~(AS_PSTATE_BTYPE | AS_PSTATE_STEP | AS_PSTATE_FLAGS);
    regs.regs[AS_LR] = launch->stop - RESTORER_BYTES;
    regs.regs[AS_FRAME_POINTER] = 0; // nobody has called it
    for (int i = 0; i < 3; ++i)
        regs.regs[i] = arguments[i];
    return ptrace(PTRACE_SETREGSET, r->tid, NT_PRSTATUS, &all) == 0;
}

bool as_call_poll(const struct as_call_setup *launch, const struct as_remote *r, bool *back, uint64_t *result)
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    if (ptrace(PTRACE_GETREGSET, r->tid, NT_PRSTATUS, &all) != 0)
        return false;
    *back = regs.pc == launch->stop && regs.sp == launch->stop_stack;
    *result = regs.regs[0];
    // Back to the restorer: were we killed now, the thread would still find its way.
    return !*back || as_machine_undo_call(r->tid, launch->stop - RESTORER_BYTES);
}

bool as_call_restore(const struct as_call_setup *launch, const struct as_remote *r)
{
    struct iovec all = {(void *)(uintptr_t)launch->state, launch->state_size};
    return ptrace(PTRACE_SETREGSET, r->tid, launch->state_kind, &all) == 0;
}
