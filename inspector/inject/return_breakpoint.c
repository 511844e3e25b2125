// SPDX-License-Identifier: MIT
// A thread that is inside libc nearly always is hardly ever met outside. So it is waited for at the place in the program's
// own code to which it is going to return.
//
// Neither an instruction is patched for that, nor a debug register set by ptrace, nor the thread stepped: whoever does one of
// these and is killed leaves it behind, and the thread dies of the SIGTRAP (measured; the kernel does not undo them). A
// breakpoint that is a perf event goes with the last who has it open, as we do when we are killed.
#include "inject/plan.h"
#include "target/process/stop/freeze.h"
#include "target/process/stop/pending.h"
#include "target/process/stop/quiesce.h"
#include "target/process/stop/registers.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    WORDS = 256,      // of the stack, in which the return address is searched for
    AMBUSH_MS = 50,   // for which the thread may run into it
    TRAP_BY_PERF = 6, // si_code TRAP_PERF, which older headers lack
};
#define STOP_NS UINT64_C(2000000000)

// Bits behind perf_event_attr.read_format, of which older headers lack the last two. Only with all of them set does the kernel
// send a SIGTRAP (5.13).
static const uint64_t FLAGS = 1 << 5 /* exclude_kernel */ | 1 << 6 /* exclude_hv */ |
                              UINT64_C(1) << 36 /* remove_on_exec */ | UINT64_C(1) << 37 /* sigtrap */;

// The nearest word of the stack that is a return address into the program's own code. It may be an old one; then the thread
// hardly comes by. 0: there is none.
static uint64_t find_return(struct as_target *t, const struct as_plan *plan, const struct as_registers *r)
{
    uint64_t words[WORDS];
    size_t count = t->ops->memory.read(t, r->sp, words, sizeof words) / sizeof *words;
    for (size_t i = 0; i < count; ++i) {
        uint64_t address = as_registers_unsigned(r, words[i]);
        const struct as_mapping *m = as_target_mapping_at(t, address);
        if (m && (m->prot & AS_PROT_EXEC) && !as_in_ranges(plan->system.items, plan->system.count, address) &&
            as_follows_call(t, address))
            return address;
    }
    return 0;
}

// A breakpoint of that one thread. -1: the kernel does not let us (perf_event_paranoid, a container), or is too old.
static int set_breakpoint(pid_t tid, uint64_t address)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_BREAKPOINT,
        .size = sizeof attr,
        .bp_type = HW_BREAKPOINT_X,
        .bp_addr = address,
        .bp_len = sizeof(long),
        .sample_period = 1,
    };
    memcpy((char *)&attr + offsetof(struct perf_event_attr, read_format) + sizeof attr.read_format, &FLAGS,
           sizeof FLAGS);
    return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

// Waits for the thread to stop; false: it has ended, or did not stop by then.
static bool await_stop(struct as_tracee *tracee, uint64_t deadline)
{
    while (as_tracee_read_registers(tracee)) {
        if (tracee->stopped)
            return true;
        if (as_now_ns() > deadline)
            return false;
        as_sleep_ns(100000);
    }
    return false;
}

// Is it our breakpoint that it has stopped at? Then the thread is not to get the signal, even if we are killed now.
static bool take_trap(struct as_tracee *tracee)
{
    siginfo_t info;
    if (tracee->signal != SIGTRAP || ptrace(PTRACE_GETSIGINFO, tracee->tid, 0, &info) != 0 ||
        info.si_code != TRAP_BY_PERF)
        return false;
    while (waitpid(tracee->tid, NULL, __WALL | WNOHANG) < 0 && errno == EINTR)
        ;
    tracee->signal = 0;
    return true;
}

// Our interrupt can come before a trap that the breakpoint has raised already. The thread must not be let go with it.
static void take_queued_trap(const struct as_process *p, struct as_tracee *tracee)
{
    if (tracee->signal != 0 || tracee->group_stopped || !as_has_fault_pending(p, tracee->tid))
        return;
    as_process_let_run(tracee); // to where the signal is about to be delivered
    await_stop(tracee, as_now_ns() + STOP_NS);
}

bool as_return_breakpoint(struct as_process *p, const struct as_plan *plan, struct as_tracee *tracee)
{
    uint64_t address = find_return(&p->base, plan, &tracee->registers);
    AS_CLEANUP_FD int fd = address != 0 ? set_breakpoint(tracee->tid, address) : -1;
    if (fd < 0)
        return false;
    as_process_let_run(tracee);
    bool met = await_stop(tracee, as_now_ns() + AMBUSH_MS * UINT64_C(1000000));
    if (!met) {
        ptrace(PTRACE_INTERRUPT, tracee->tid, 0, 0);
        met = await_stop(tracee, as_now_ns() + STOP_NS);
    }
    // A trap has come, or is to be searched for no more: nothing may be left that could raise another.
    as_close_fd(&fd);
    if (met)
        take_queued_trap(p, tracee);
    return met && (take_trap(tracee) || tracee->signal == 0) && !tracee->group_stopped &&
           as_registers_read(tracee->tid, &tracee->registers);
}
