// SPDX-License-Identifier: MIT
// What a stopped thread's registers tell: where it is, and whether it waits in a system call. On aarch64.
//
// The kernel prepares the restart of an interrupted call before it tells the tracer: the thread stands at its `svc` again, all
// arguments in place, or behind the `svc` with EINTR, and the first argument is lost.
#include "target/process/read/live_process.h"
#include "target/process/stop/aarch64.h"
#include "target/process/stop/registers.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

enum { ERESTARTNOHAND = 514 };

// The calls in which a thread may wait, and which the kernel restarts. A thread that stands at the `svc` of any other may be in
// the middle of malloc, and about to make it (mmap, mprotect, madvise, brk).
static bool is_wait(uint64_t call)
{
    static const uint16_t waits[] = {
        SYS_restart_syscall,
        SYS_read,
        SYS_write,
        SYS_readv,
        SYS_writev,
        SYS_pread64,
        SYS_pwrite64,
        SYS_preadv,
        SYS_pwritev,
        SYS_openat,
        SYS_ppoll,
        SYS_pselect6,
        SYS_epoll_pwait,
        SYS_nanosleep,
        SYS_clock_nanosleep,
        SYS_futex,
        SYS_accept,
        SYS_accept4,
        SYS_connect,
        SYS_recvfrom,
        SYS_recvmsg,
        SYS_recvmmsg,
        SYS_sendto,
        SYS_sendmsg,
        SYS_sendmmsg,
        SYS_wait4,
        SYS_waitid,
        SYS_flock,
        SYS_fcntl,
        SYS_msgrcv,
        SYS_msgsnd,
        SYS_semop,
        SYS_semtimedop,
        SYS_rt_sigsuspend,
        SYS_rt_sigtimedwait,
        SYS_io_getevents,
        SYS_io_pgetevents,
        SYS_ioctl,
        SYS_mq_timedsend,
        SYS_mq_timedreceive,
        SYS_sendfile,
        SYS_splice,
        SYS_vmsplice,
        SYS_tee,
        426, // io_uring_enter, which older headers lack, as they do epoll_pwait2, futex_waitv and futex_wait
        441,
        449,
        455,
    };
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; ++i) {
        if (waits[i] == call)
            return true;
    }
    return false;
}

// The bits of an address in a register or on the stack that may be its signature (pointer authentication).
static uint64_t signature_bits(pid_t tid)
{
    struct {
        uint64_t data, code;
    } masks;
    struct iovec all = {&masks, sizeof masks};
    return ptrace(PTRACE_GETREGSET, tid, NT_ARM_PAC_MASK, &all) == 0 && all.iov_len == sizeof masks ? masks.code : 0;
}

bool as_registers_read(pid_t tid, struct as_registers *out)
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    *out = (struct as_registers){0};
    if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &all) != 0 || all.iov_len != sizeof regs)
        return false;
    uint64_t signature = signature_bits(tid);
    *out = (struct as_registers){
        .known = true,
        .pc = regs.pc,
        .sp = regs.sp,
        .lr = regs.regs[AS_LR] & ~signature,
        .signature = signature,
        .tp = AS_UNKNOWN,
        .call = -1,
        .result = (int64_t)regs.regs[0],
        .argument = AS_UNKNOWN,
    };
    _Static_assert(sizeof out->general == sizeof regs.regs, "x0 to x30");
    memcpy(out->general, regs.regs, sizeof out->general);
    uint64_t tls[2]; // the second is there with SME
    struct iovec one = {tls, sizeof tls};
    if (ptrace(PTRACE_GETREGSET, tid, NT_ARM_TLS, &one) == 0 && one.iov_len >= sizeof tls[0])
        out->tp = tls[0];
    errno = 0;
    uint64_t code = (uint64_t)ptrace(PTRACE_PEEKTEXT, tid, regs.pc - AS_SVC_BYTES, 0);
    if (errno != 0)
        return true;
    if ((uint32_t)(code >> 32) == AS_SVC) {
        out->call = (int64_t)regs.regs[AS_CALL];
        out->argument = regs.regs[0];
        out->result = is_wait(regs.regs[AS_CALL]) ? -ERESTARTNOHAND : 0;
    } else if ((uint32_t)code == AS_SVC) {
        out->call = (int64_t)regs.regs[AS_CALL];
    }
    return true;
}

bool as_registers_waiting(const struct as_registers *r)
{
    // (At the exit of a call the restart is not prepared yet.)
    return r->call >= 0 && (as_is_restart(r->result) || r->result == -EINTR);
}

void as_registers_mend(pid_t tid, const struct as_registers *r)
{
    // The call's first argument is gone by then: EINTR it is.
    (void)tid;
    (void)r;
}

bool as_registers_restarts_elsewhere(pid_t tid, struct as_sleep *out)
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    *out = (struct as_sleep){.call = -1};
    if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &all) != 0 || all.iov_len != sizeof regs)
        return false;
    errno = 0;
    if ((uint32_t)ptrace(PTRACE_PEEKTEXT, tid, regs.pc, 0) != AS_SVC || errno != 0)
        return false;
    out->call = (int64_t)regs.regs[AS_CALL];
    memcpy(out->arguments, regs.regs, sizeof out->arguments);
    return true;
}

void as_registers_replace_result(pid_t tid, enum as_replacement result)
{
    // The kernel has prepared the restart before it stopped the thread.
    (void)tid;
    (void)result;
}
