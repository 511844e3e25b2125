// SPDX-License-Identifier: MIT
// Two things are done here that x86-64 has no need of.
//
// An interrupted call that the kernel restarts by restart_syscall (a nanosleep, a futex with a time limit) cannot be told from
// one that is restarted from its beginning, nor from one that was not made yet: the thread stands at its `svc` with all
// arguments in place, and only as it goes on does the kernel put the other number in. So the thread is let go on, up to the
// entry of the kernel, where the number can be read, and the call is taken back there.
//
// A system call destroys what SVE registers have beyond the 128 bits of the V registers. A thread that was stopped in its own
// code may hold something there. It is kept and put back.
#include "target/process/clone/machine.h"
#include "target/process/stop/aarch64.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

static bool fail_as_gone(pid_t tid, struct as_error *err)
{
    return as_fail(err, AS_TARGET_GONE, "thread %d was killed while it stood still", tid);
}

static bool get_registers(pid_t tid, struct user_regs_struct *regs)
{
    struct iovec all = {regs, sizeof *regs};
    return ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &all) == 0 && all.iov_len == sizeof *regs;
}

static bool set_registers(pid_t tid, const struct user_regs_struct *regs)
{
    struct iovec all = {(void *)(uintptr_t)regs, sizeof *regs};
    return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &all) == 0;
}

static bool has_active(pid_t tid, int set)
{
    struct as_sve_head head = {0};
    struct iovec all = {&head, sizeof head};
    return ptrace(PTRACE_GETREGSET, tid, set, &all) == 0 && (head.flags & AS_SVE_ACTIVE);
}

static bool keep_wide(struct as_remote *r, struct as_error *err)
{
    r->wide_size = 0;
    if (has_active(r->tid, AS_NT_STREAMING_SVE))
        return as_fail(err, AS_UNSUPPORTED, "thread %d is in streaming mode (SME), which a system call would end",
                       r->tid);
    if (!has_active(r->tid, AS_NT_SVE))
        return true;
    struct iovec all = {r->wide, sizeof r->wide};
    if (ptrace(PTRACE_GETREGSET, r->tid, AS_NT_SVE, &all) != 0)
        return fail_as_gone(r->tid, err);
    struct as_sve_head head;
    memcpy(&head, r->wide, sizeof head);
    if (head.size > all.iov_len)
        return as_fail(err, AS_UNSUPPORTED, "the SVE registers of thread %d have %u bytes: not supported", r->tid,
                       head.size);
    r->wide_size = all.iov_len;
    return true;
}

// Does the thread stand at a system call instruction, about to make or to restart a call?
static bool is_at_call(pid_t tid, uint64_t pc)
{
    errno = 0;
    uint64_t code = (uint64_t)ptrace(PTRACE_PEEKTEXT, tid, pc, 0);
    return errno == 0 && (uint32_t)code == AS_SVC;
}

bool as_machine_undo_call(pid_t tid, uint64_t pc)
{
    struct user_regs_struct regs;
    int none = -1;
    struct iovec one = {&none, sizeof none};
    if (!get_registers(tid, &regs))
        return false;
    regs.pc = pc;
    return ptrace(PTRACE_SETREGSET, tid, AS_NT_SYSTEM_CALL, &one) == 0 && set_registers(tid, &regs);
}

// From a stop at a call's instruction, through its entry, to a stop where no call is to be restarted. If we are killed meanwhile,
// the thread is at the instruction and makes the call.
static bool take_back_call(struct as_remote *r, struct user_regs_struct *saved)
{
    struct user_regs_struct regs;
    if (!as_remote_run_until(r, PTRACE_SYSCALL, AS_SYSCALL_STOP) || !get_registers(r->tid, &regs) ||
        !as_machine_undo_call(r->tid, saved->pc) || !as_remote_run_until(r, PTRACE_SYSCALL, AS_SYSCALL_STOP))
        return false;
    if (regs.regs[AS_CALL] == SYS_restart_syscall)
        saved->regs[AS_CALL] = SYS_restart_syscall;
    ptrace(PTRACE_INTERRUPT, r->tid, 0, 0);
    return as_remote_run_until(r, PTRACE_CONT, SIGTRAP | PTRACE_EVENT_STOP << 8);
}

bool as_machine_take(struct as_remote *r, struct as_error *err)
{
    struct user_regs_struct saved;
    if (!get_registers(r->tid, &saved))
        return fail_as_gone(r->tid, err);
    if (!keep_wide(r, err))
        return false;
    // Signals wait for as long as it moves.
    if (is_at_call(r->tid, saved.pc) && (!as_remote_block(r) || !take_back_call(r, &saved) ||
                                         ptrace(PTRACE_SETSIGMASK, r->tid, sizeof r->mask, &r->mask) != 0))
        return fail_as_gone(r->tid, err);
    memcpy(r->saved, &saved, sizeof saved);
    r->saved_size = sizeof saved;
    return true;
}

bool as_machine_put_back(const struct as_remote *r)
{
    struct user_regs_struct saved;
    memcpy(&saved, r->saved, sizeof saved);
    struct iovec wide = {(void *)(uintptr_t)r->wide, r->wide_size};
    return set_registers(r->tid, &saved) &&
           (r->wide_size == 0 || ptrace(PTRACE_SETREGSET, r->tid, AS_NT_SVE, &wide) == 0);
}

bool as_machine_set_call(const struct as_remote *r, long number, const uint64_t arguments[6])
{
    struct user_regs_struct regs;
    memcpy(&regs, r->saved, sizeof regs);
    regs.pc = as_machine_instruction(r);
    if (r->shelter.instruction != 0) {
        regs.sp = r->shelter.stack;
        regs.regs[AS_LR] = r->shelter.link;
    }
    regs.pstate &= ~(AS_PSTATE_BTYPE | AS_PSTATE_STEP);
    regs.regs[AS_CALL] = (uint64_t)number;
    for (int i = 0; i < 6; ++i)
        regs.regs[i] = arguments[i];
    return set_registers(r->tid, &regs);
}

bool as_machine_enters(const struct as_remote *r, long number, const uint64_t arguments[6])
{
    struct user_regs_struct regs;
    return get_registers(r->tid, &regs) && regs.pc == as_machine_instruction(r) + AS_SYSCALL_BYTES &&
           regs.regs[AS_CALL] == (uint64_t)number && memcmp(regs.regs, arguments, 6 * sizeof arguments[0]) == 0;
}

void as_machine_turn_away(const struct as_remote *r)
{
    int none = -1;
    struct iovec one = {&none, sizeof none};
    ptrace(PTRACE_SETREGSET, r->tid, AS_NT_SYSTEM_CALL, &one);
}

bool as_machine_result(const struct as_remote *r, int64_t *result)
{
    struct user_regs_struct regs;
    if (!get_registers(r->tid, &regs))
        return false;
    *result = (int64_t)regs.regs[0];
    return true;
}
