// SPDX-License-Identifier: MIT
// What a stopped thread's registers tell: where it is, and whether it waits in a system call. On x86-64.
#include "target/process/read/live_process.h"
#include "target/process/stop/registers.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

// Results of an interrupted system call that only the kernel and a tracer see (linux/errno.h): how it is restarted.
enum { ERESTARTNOHAND = 514 };

// The calls that fail with EINTR when their thread is stopped, where others are restarted by the kernel (signal(7)); here
// with no limit of time, so that they can be restarted without harm. The kernel itself restarts those that sleep.
static bool is_endless(const struct user_regs_struct *regs)
{
    switch ((int64_t)regs->orig_rax) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
        return (int32_t)regs->r10 < 0;
    case 441: // epoll_pwait2, which older headers lack
    case SYS_semtimedop:
        return regs->r10 == 0;
    case SYS_semop:
        return true;
    case SYS_rt_sigtimedwait:
        return regs->rdx == 0;
    case SYS_io_getevents:
        return regs->r8 == 0;
    default:
        return false;
    }
}

bool as_registers_read(pid_t tid, struct as_registers *out)
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    *out = (struct as_registers){0};
    if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &all) != 0 || all.iov_len != sizeof regs)
        return false;
    *out = (struct as_registers){
        .known = true,
        .pc = regs.rip,
        .sp = regs.rsp,
        .tp = regs.fs_base,
        .call = (int64_t)regs.orig_rax,
        .result = (int64_t)regs.rax,
        .endless = is_endless(&regs),
        .argument = regs.rdi,
        .general = {regs.rax, regs.rbx, regs.rcx, regs.rdx, regs.rsi, regs.rdi, regs.rbp, regs.r8, regs.r9, regs.r10,
                    regs.r11, regs.r12, regs.r13, regs.r14, regs.r15},
    };
    return true;
}

bool as_registers_waiting(const struct as_registers *r)
{
    return r->call >= 0 && (as_is_restart(r->result) || r->result == -EINTR);
}

void as_registers_mend(pid_t tid, const struct as_registers *r)
{
    if (r->known && r->endless && r->result == -EINTR)
        ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, regs.rax), (long)-ERESTARTNOHAND);
}

bool as_registers_restarts_elsewhere(pid_t tid, struct as_sleep *out)
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    errno = 0;
    if (ptrace(PTRACE_PEEKUSER, tid, offsetof(struct user, regs.rax), 0) != AS_RESTART_ELSEWHERE || errno != 0 ||
        ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &all) != 0 || all.iov_len != sizeof regs)
        return false;
    *out = (struct as_sleep){(int64_t)regs.orig_rax, {regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9}};
    return out->call >= 0; // else the register has that value by chance
}

void as_registers_replace_result(pid_t tid, enum as_replacement result)
{
    ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, regs.rax), (long)result);
}
