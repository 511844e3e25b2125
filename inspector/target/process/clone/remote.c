// SPDX-License-Identifier: MIT
// What is the same on every architecture; machine.h is what is not.
#include "target/process/clone/remote.h"
#include "target/process/clone/machine.h"
#include "target/process/read/filters.h"
#include "target/process/stop/pending.h"
#include "target/process/stop/registers.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

// The kernel's interface, which older headers lack (linux/ptrace.h).
static const int GET_RSEQ_CONFIGURATION = 0x420f;
static const int GET_SYSCALL_USER_DISPATCH = 0x4211;
struct rseq_configuration {
    uint64_t address;
    uint32_t size, signature, flags, pad;
};
struct user_dispatch {
    uint64_t mode, selector, offset, length;
};
enum { RSEQ_CS_OFFSET = 8 }; // struct rseq: cpu_id_start, cpu_id, rseq_cs

static const uint8_t SYSCALL[AS_SYSCALL_BYTES] = AS_SYSCALL_CODE;

static bool fail_as_gone(pid_t tid, struct as_error *err)
{
    return as_fail(err, AS_TARGET_GONE, "thread %d was killed while it stood still", tid);
}

bool as_remote_in_sequence(const struct as_tracee *tracee)
{
    struct rseq_configuration configuration = {0};
    uint64_t at = 0;
    struct {
        uint32_t version, flags;
        uint64_t start, length, abort;
    } section;
    if (ptrace(GET_RSEQ_CONFIGURATION, tracee->tid, sizeof configuration, &configuration) <= 0 ||
        configuration.address == 0)
        return false;
    // The thread itself is read, not a clone through which we may be inspecting.
    struct iovec local[2] = {{&at, sizeof at}, {&section, sizeof section}};
    struct iovec remote = {(void *)(uintptr_t)(configuration.address + RSEQ_CS_OFFSET), sizeof at};
    if (process_vm_readv(tracee->tid, &local[0], 1, &remote, 1, 0) != sizeof at || at == 0)
        return false;
    // The kernel takes back the announcement of one that has ended when it next has the processor for another thread.
    remote = (struct iovec){(void *)(uintptr_t)at, sizeof section};
    return process_vm_readv(tracee->tid, &local[1], 1, &remote, 1, 0) != sizeof section ||
           tracee->registers.pc - section.start < section.length;
}

static bool set_options(const struct as_process *p, pid_t tid, long *set, struct as_error *err)
{
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
    if (as_thread_filter(p, tid) == AS_THREAD_FILTERED)
        options |= AS_SUSPEND_SECCOMP;
    *set = options;
    if (ptrace(PTRACE_SETOPTIONS, tid, 0, options) == 0)
        return true;
    return options & AS_SUSPEND_SECCOMP ? as_fail(err, AS_UNSUPPORTED,
                                                  "process %d is under a seccomp filter that may kill it for the call, "
                                                  "and suspending the filter takes CAP_SYS_ADMIN, and an arenadump "
                                                  "under no filter: run it as root, outside of the container",
                                                  p->base.pid)
                                        : fail_as_gone(tid, err);
}

bool as_remote_begin(struct as_remote *r, const struct as_process *p, const struct as_tracee *tracee,
                     uint64_t instruction, struct as_error *err)
{
    *r = (struct as_remote){
        .tid = tracee->tid, .instruction = instruction, .limit_ns = AS_REMOTE_LIMIT_NS, .deadline_ns = UINT64_MAX};
    struct user_dispatch dispatch = {0};
    if (ptrace(GET_SYSCALL_USER_DISPATCH, r->tid, sizeof dispatch, &dispatch) == 0 && dispatch.mode != 0)
        return as_fail(err, AS_UNSUPPORTED, "process %d catches its own system calls (user dispatch)", p->base.pid);
    if (as_has_fault_pending(p, r->tid))
        return as_fail(err, AS_DENIED,
                       "thread %d of process %d has a fault pending (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP or "
                       "SIGSYS), whose handler is to find the registers as they are: try again",
                       r->tid, p->base.pid);
    if (as_remote_in_sequence(tracee))
        return as_fail(err, AS_UNSUPPORTED, "thread %d of process %d is in a restartable sequence", r->tid,
                       p->base.pid);
    if (!set_options(p, r->tid, &r->options, err))
        return false;
    // (One that is in sigsuspend or ppoll gets the mask that it had before; the call sets its own again when it is restarted.)
    bool ok = ptrace(PTRACE_GETSIGMASK, r->tid, sizeof r->mask, &r->mask) == 0 || fail_as_gone(r->tid, err);
    if (ok && as_machine_take(r, err))
        return true;
    ptrace(PTRACE_SETOPTIONS, r->tid, 0, 0);
    return false;
}

// The mask first: with the registers of ours and a shelter the thread gets both back by itself, with its own and our mask it does not.
bool as_remote_put_back(const struct as_remote *r)
{
    return ptrace(PTRACE_SETSIGMASK, r->tid, sizeof r->mask, &r->mask) == 0 && as_machine_put_back(r);
}

// Is the thread, which enters the kernel, about to make the call that we have prepared? A thread under a seccomp filter does
// so without the filter, and another thread of a hostile target may have changed the instruction after we had inspected it.
// (32-bit calls have other numbers; before Linux 5.3 they are not told apart.)
static bool enters_as_planned(const struct as_remote *r, long number, const uint64_t arguments[6])
{
    struct as_syscall_information info = {0};
    return as_machine_enters(r, number, arguments) &&
           (ptrace(AS_GET_SYSCALL_INFO, r->tid, sizeof info, &info) <= 0 || info.arch == AS_AUDIT_ARCH);
}

// To the entry of the call, to its exit, and from there into the kernel's handling of signals, where alone it inspects whether a
// call is to be restarted. Signals wait meanwhile. False: it has been killed.
static bool make_call(struct as_remote *r, long number, const uint64_t arguments[6], int64_t *result, bool *as_reply)
{
    if (!as_machine_set_call(r, number, arguments) || !as_remote_block(r) ||
        !as_remote_run_until(r, PTRACE_SYSCALL, AS_SYSCALL_STOP))
        return false;
    *as_reply = enters_as_planned(r, number, arguments);
    if (!*as_reply)
        as_machine_turn_away(r);
    if (!as_remote_run_until(r, PTRACE_SYSCALL, AS_SYSCALL_STOP) || !as_machine_result(r, result))
        return false;
    ptrace(PTRACE_INTERRUPT, r->tid, 0, 0);
    return as_remote_run_until(r, PTRACE_CONT, SIGTRAP | PTRACE_EVENT_STOP << 8);
}

// What a call returns that was interrupted: EINTR, or how the kernel restarts it (linux/errno.h), which only a tracer sees.
static bool is_cut_short(int64_t result)
{
    return result == -EINTR || as_is_restart(result);
}

bool as_remote_call(struct as_remote *r, long number, const uint64_t arguments[6], int64_t *result,
                    struct as_error *err)
{
    bool as_reply = true;
    r->born = 0;
    if (r->left)
        return as_fail(err, AS_DENIED, "thread %d is at work of its own again", r->tid);
    r->interrupted = false;
    r->deadline_ns = as_now_ns() + r->limit_ns;
    bool ok = make_call(r, number, arguments, result, &as_reply) && as_remote_put_back(r);
    r->deadline_ns = UINT64_MAX;
    if (!ok)
        return fail_as_gone(r->tid, err);
    if (!as_reply)
        return as_fail(err, AS_DENIED,
                       "thread %d was prepared for system call %ld and began another one: the code of its process is "
                       "being changed, so no call was made",
                       r->tid, number);
    return !r->interrupted || !is_cut_short(*result) ||
           as_fail(
               err, AS_DENIED,
               "system call %ld in thread %d had not returned after %llu ms and was interrupted; the thread goes on "
               "with its own work: try again",
               number, r->tid, (unsigned long long)(r->limit_ns / 1000000));
}

bool as_remote_end(struct as_remote *r, struct as_error *err)
{
    if (r->left)
        return true;
    bool ok = as_remote_put_back(r);
    ok &= ptrace(PTRACE_SETOPTIONS, r->tid, 0, 0) == 0;
    return ok || fail_as_gone(r->tid, err);
}

// Has the page never been written since it was mapped? It is the file's then, or the kernel's own, and not a copy.
static bool is_untouched(const struct as_process *p, uint64_t address)
{
    const uint64_t OF_FILE = UINT64_C(1) << 61, SWAPPED = UINT64_C(1) << 62, PRESENT = UINT64_C(1) << 63;
    uint64_t entry;
    return pread(p->pagemap_fd, &entry, sizeof entry, (off_t)(address / p->base.page_size * sizeof entry)) ==
               sizeof entry &&
           ((entry & OF_FILE) || !(entry & (PRESENT | SWAPPED)));
}

// Through an instruction that the target can write, or has written, a call that we let past its seccomp filter could become
// another one. The vdso is no exception: mprotect makes it writable.
bool as_remote_is_sound(const struct as_process *p, uint64_t address)
{
    uint64_t last = address + sizeof SYSCALL - 1;
    AS_FOR_EACH(const struct as_mapping, m, &p->base.mappings) {
        if (address < m->start || last >= m->end)
            continue;
        return (m->prot & AS_PROT_EXEC) && !(m->prot & (AS_PROT_WRITE | AS_PROT_SHARED)) &&
               (m->inode != 0 || strcmp(as_mapping_path(&p->base, m), "[vdso]") == 0) && is_untouched(p, address) &&
               is_untouched(p, last);
    }
    return false;
}

static uint64_t search_code(struct as_process *p, uint64_t from, uint64_t to)
{
    uint8_t bytes[4096];
    for (uint64_t at = from; at < to; at += sizeof bytes - AS_SYSCALL_BYTES + AS_CODE_ALIGNMENT) {
        size_t length = to - at < sizeof bytes ? (size_t)(to - at) : sizeof bytes;
        length = p->base.ops->memory.read(&p->base, at, bytes, length);
        for (size_t i = 0; i + sizeof SYSCALL <= length; i += AS_CODE_ALIGNMENT) {
            if (memcmp(bytes + i, SYSCALL, sizeof SYSCALL) == 0 && as_remote_is_sound(p, at + i))
                return at + i;
        }
        if (length < sizeof bytes)
            break;
    }
    return 0;
}

uint64_t as_remote_instruction(struct as_process *p, const struct as_range *code, size_t count)
{
    for (size_t i = 0; i < p->tracees.count; ++i) {
        const struct as_registers *at = &p->tracees.items[i].registers;
        uint8_t bytes[AS_SYSCALL_BYTES];
        // x86-64 shows a thread behind the instruction of the call that it waits in, aarch64 at the instruction.
        for (int back = 1; back >= 0 && at->known && as_registers_waiting(at); --back) {
            uint64_t pc = at->pc - (uint64_t)back * sizeof bytes;
            if (as_target_read(&p->base, pc, bytes, sizeof bytes) && memcmp(bytes, SYSCALL, sizeof bytes) == 0 &&
                as_remote_is_sound(p, pc))
                return pc;
        }
    }
    AS_FOR_EACH(const struct as_mapping, m, &p->base.mappings) {
        if (strcmp(as_mapping_path(&p->base, m), "[vdso]") == 0) {
            uint64_t found = search_code(p, m->start, m->end);
            if (found != 0)
                return found;
        }
    }
    for (size_t i = 0; i < count; ++i) {
        uint64_t found = search_code(p, code[i].start, code[i].end);
        if (found != 0)
            return found;
    }
    return 0;
}
