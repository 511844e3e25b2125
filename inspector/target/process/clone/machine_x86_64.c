// SPDX-License-Identifier: MIT
#include "target/process/clone/machine.h"

#include <elf.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

bool as_machine_take(struct as_remote *r, struct as_error *err)
{
    struct iovec all = {r->saved, sizeof r->saved};
    if (ptrace(PTRACE_GETREGSET, r->tid, NT_PRSTATUS, &all) != 0)
        return as_fail(err, AS_TARGET_GONE, "thread %d was killed while it stood still", r->tid);
    r->saved_size = all.iov_len;
    return true;
}

bool as_machine_put_back(const struct as_remote *r)
{
    struct iovec all = {(void *)(uintptr_t)r->saved, r->saved_size};
    return ptrace(PTRACE_SETREGSET, r->tid, NT_PRSTATUS, &all) == 0;
}

bool as_machine_set_call(const struct as_remote *r, long number, const uint64_t arguments[6])
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    memcpy(&regs, r->saved, sizeof regs);
    regs.rip = as_machine_instruction(r);
    if (r->shelter.instruction != 0)
        regs.rsp = r->shelter.stack;
    regs.orig_rax = (uint64_t)-1; // or the kernel would restart the call that was interrupted
    regs.rax = (uint64_t)number;
    regs.rdi = arguments[0];
    regs.rsi = arguments[1];
    regs.rdx = arguments[2];
    regs.r10 = arguments[3];
    regs.r8 = arguments[4];
    regs.r9 = arguments[5];
    return ptrace(PTRACE_SETREGSET, r->tid, NT_PRSTATUS, &all) == 0;
}

bool as_machine_enters(const struct as_remote *r, long number, const uint64_t arguments[6])
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    return ptrace(PTRACE_GETREGSET, r->tid, NT_PRSTATUS, &all) == 0 &&
           regs.rip == as_machine_instruction(r) + AS_SYSCALL_BYTES && regs.orig_rax == (uint64_t)number &&
           regs.rdi == arguments[0] && regs.rsi == arguments[1] && regs.rdx == arguments[2] &&
           regs.r10 == arguments[3] && regs.r8 == arguments[4] && regs.r9 == arguments[5];
}

void as_machine_turn_away(const struct as_remote *r)
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    if (ptrace(PTRACE_GETREGSET, r->tid, NT_PRSTATUS, &all) != 0)
        return;
    regs.orig_rax = (uint64_t)-1;
    ptrace(PTRACE_SETREGSET, r->tid, NT_PRSTATUS, &all);
}

bool as_machine_result(const struct as_remote *r, int64_t *result)
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    if (ptrace(PTRACE_GETREGSET, r->tid, NT_PRSTATUS, &all) != 0)
        return false;
    *result = (int64_t)regs.rax;
    return true;
}
