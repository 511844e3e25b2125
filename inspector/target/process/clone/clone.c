// SPDX-License-Identifier: MIT
// The clone of a target: made by one of its threads, and reaped by one.
//
// Three things stand between the clone and a single instruction of the application: it is born stopped under our hand; with
// no stack and all signals blocked, so that it could only die of a fault if we were killed, too, at that very instant; and
// from its first stop on the kernel kills it when we end.
//
// It is made with no exit signal. To the target's own wait calls and to its SIGCHLD handler it does not exist (only those
// with __WALL or __WCLONE see it), and so it has to be reaped from within as well: a thread makes a wait4 call for us,
// which is the second time that it is stopped, for some microseconds.
#include "target/process/clone/clone.h"
#include "target/process/clone/remote.h"
#include "target/process/stop/await.h"
#include "target/process/stop/freeze.h"
#include "target/process/stop/one_thread.h"
#include "target/process/stop/pending.h"
#include "target/process/stop/registers.h"
#include "target/process/stop/restart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    CANDIDATES = 8,    // threads that are asked to make a call for us before we give up
    REAP_WAIT_MS = 20, // between two attempts to reap, growing
    REAP_MOST_WAIT_MS = 1000,
    REAP_HOURS = 1,
    NO_STACK = 16, // an address that nothing is mapped at
};

// Waits, and lets go of escorted threads that wake up meanwhile. SIGCHLD is blocked.
static void wait_ms(struct as_process *p, long ms)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    for (uint64_t end = as_now_ns() + (uint64_t)ms * 1000000, now; (now = as_now_ns()) < end; as_restart_serve(p)) {
        const struct timespec left = as_time_of(end - now);
        sigtimedwait(&child, NULL, &left);
    }
}

// How well a thread suits; 0: not at all.
static int suits(const struct as_tracee *tracee)
{
    const struct as_registers *r = &tracee->registers;
    if (!tracee->stopped || tracee->signal != 0 || tracee->group_stopped || !r->known)
        return 0;
    if (!as_registers_waiting(r))
        return 1;
    return r->result == -EINTR && !r->endless ? 2 : 3;
}

static bool is_any_signalled(const struct as_process *p)
{
    for (size_t i = 0; i < p->tracees.count; ++i) {
        if (p->tracees.items[i].stopped && p->tracees.items[i].signal != 0)
            return true;
    }
    return false;
}

static struct as_error refuse_clone(const struct as_process *p)
{
    struct as_error err = {0};
    bool stopped = p->tracees.count > 0;
    for (size_t i = 0; i < p->tracees.count; ++i)
        stopped &= p->tracees.items[i].group_stopped;
    if (stopped)
        as_fail(&err, AS_UNSUPPORTED, "process %d is stopped already (SIGSTOP or the like)", p->base.pid);
    else
        as_fail(&err, AS_UNSUPPORTED, "no thread of process %d was in a usable state", p->base.pid);
    return err;
}

// Has one of the stopped threads make a call. made->signalled: none would do, and some only because a signal was on its way into them.
static bool call_in_target(struct as_process *p, const struct as_critical *critical, long number,
                           const uint64_t arguments[6], int64_t *result, struct as_made *made, struct as_error *err)
{
    uint64_t instruction = as_remote_instruction(p, critical->around, critical->count);
    if (instruction == 0)
        return as_fail(err, AS_UNSUPPORTED, "no system call instruction was found in process %d", p->base.pid);
    int asked = 0;
    *err = refuse_clone(p);
    made->signalled = is_any_signalled(p);
    for (int wanted = 3; wanted > 0; --wanted) {
        for (size_t i = 0; i < p->tracees.count && asked < CANDIDATES; ++i) {
            struct as_tracee *tracee = &p->tracees.items[i];
            struct as_remote r;
            if (suits(tracee) != wanted)
                continue;
            if (!as_remote_begin(&r, p, tracee, instruction, err)) {
                made->signalled |= err->code == AS_DENIED;
                asked += err->code != AS_DENIED;
                continue;
            }
            r.late = made->late;
            r.context = made->context;
            bool ok = as_remote_call(&r, number, arguments, result, err);
            ok = as_remote_end(&r, err) && ok;
            as_give_back_stop(p, r.tid, r.signal);
            made->pid = r.born;
            made->signalled = false;
            return ok;
        }
    }
    return false;
}

bool as_clone_make(struct as_process *p, const struct as_critical *critical, struct as_made *made, struct as_error *err)
{
    // No flags: everything is copied, and no signal is sent at its end. The second argument is the child's stack.
    const uint64_t arguments[6] = {0, NO_STACK};
    int64_t result = 0;
    if (!call_in_target(p, critical, SYS_clone, arguments, &result, made, err))
        return made->signalled ? as_fail(err, AS_UNSUPPORTED,
                                         "no thread of process %d could be used: each time that it stood still, a "
                                         "signal was on its way into it (a fault of its own, such as SIGSEGV)",
                                         p->base.pid)
                               : false;
    if (result < 0 || made->pid == 0) {
        const char *hint = result == -EAGAIN ? " (a limit on processes: ulimit -u, or the cgroup's pids.max)"
                           : result == -ENOMEM
                               ? " (no memory for page tables, or a limit on overcommit: vm.overcommit_memory)"
                               : "";
        return as_fail(err, AS_UNSUPPORTED, "clone in process %d failed: %s%s", p->base.pid,
                       result < 0 ? strerror((int)-result) : "no process was made", hint);
    }
    made->inner_pid = (pid_t)result;
    return true;
}

// A process that no thread has told of: our tracee from its first instant, and a child of the target's. 0: there is none.
static pid_t find_unreported(struct as_process *p)
{
    if (!as_proc_threads(p->proc_fd, &p->tids))
        return 0;
    for (size_t i = 0; i < p->tids.count; ++i) {
        char text[16384];
        ssize_t length =
            as_proc_read(p->proc_fd, as_proc_name("task/%d/children", p->tids.items[i]).text, text, sizeof text - 1);
        text[length > 0 ? length : 0] = '\0';
        char *behind;
        for (char *at = text; *at; at = behind) {
            pid_t child = (pid_t)strtol(at, &behind, 10);
            if (behind == at)
                break;
            if (child > 0 && as_proc_status(AT_FDCWD, as_proc_name("/proc/%d/status", child).text, "TracerPid:") ==
                                 (uint64_t)getpid())
                return child;
        }
    }
    return 0;
}

void as_clone_find(struct as_process *p, struct as_made *made)
{
    if (made->pid == 0)
        made->pid = find_unreported(p);
    if (made->pid != 0 && made->inner_pid == 0)
        made->inner_pid = as_proc_inner_pid(made->pid);
}

bool as_clone_hold(pid_t pid)
{
    int stop;
    if (!as_tracee_await(pid, UINT64_MAX, &stop) || ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL) != 0)
        return false;
    // When memory runs out, the clone is to be killed, not the target, which inspects as large.
    AS_CLEANUP_FD int fd = open(as_proc_name("/proc/%d/oom_score_adj", pid).text, O_WRONLY | O_CLOEXEC);
    return fd < 0 || write(fd, "1000", 4) != 0;
}

// Is the clone still to be reaped by the target?
static bool is_left(const struct as_process *p, pid_t pid)
{
    struct as_proc_stat stat;
    return as_proc_status(AT_FDCWD, as_proc_name("/proc/%d/status", pid).text, "PPid:") == (uint64_t)p->base.pid &&
           as_proc_stat(p->proc_fd, "stat", &stat) &&
           !(as_proc_is_dead(stat.state) && stat.threads == 1); // 0: a thread that executes a program
}

// The target may have become another program: its own memory, where a system call instruction is to be found, is that one's
// then. In the middle of an exec it has but two of its mappings, so they are read anew at each attempt.
static void follow_exec(struct as_process *p)
{
    if (!as_process_alive(p) && as_process_view(p, NULL)) {
        int mem = openat(p->view_fd, "mem", O_RDONLY | O_CLOEXEC);
        int pagemap = openat(p->view_fd, "pagemap", O_RDONLY | O_CLOEXEC);
        if (mem >= 0 && pagemap >= 0) {
            int other = p->mem_fd;
            p->mem_fd = mem;
            mem = other;
            other = p->pagemap_fd;
            p->pagemap_fd = pagemap;
            pagemap = other;
            p->lost = false;
        }
        as_close_fd(&mem);
        as_close_fd(&pagemap);
    }
    as_process_refresh_maps(p, false, NULL);
}

// Has the target reap the clone, through whichever thread will do it. True: nothing of it is left.
static bool reap_once(struct as_process *p, const struct as_critical *critical, const struct as_made *made)
{
    const uint64_t arguments[6] = {(uint64_t)made->inner_pid, 0, __WALL | WNOHANG};
    if (made->inner_pid <= 0) // it would wait for any child, of which some are the target's
        return true;
    follow_exec(p);
    for (int pass = 0; pass < 2; ++pass) {
        if (!as_proc_threads(p->proc_fd, &p->tids))
            return false;
        for (size_t i = 0; i < p->tids.count; ++i) {
            if (!is_left(p, made->pid))
                return true;
            if (as_process_is_touchy(p, p->tids.items[i]) != (pass == 1))
                continue;
            int64_t result = 0;
            struct as_made none = {0};
            struct as_error err;
            bool done = as_process_stop_one(p, p->tids.items[i]) &&
                        call_in_target(p, critical, SYS_wait4, arguments, &result, &none, &err) &&
                        (result == made->inner_pid || result == -ECHILD);
            as_process_resume(&p->base);
            if (done)
                return true;
        }
    }
    return false;
}

void as_clone_reap(struct as_process *p, const struct as_critical *critical, const struct as_made *made)
{
    kill(made->pid, SIGKILL);
    while (waitpid(made->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    // A target that stands still by SIGSTOP can do nothing before it goes on: then the zombie waits, and so do we.
    uint64_t deadline = as_now_ns() + REAP_HOURS * UINT64_C(3600000000000);
    for (long wait = REAP_WAIT_MS; is_left(p, made->pid) && !reap_once(p, critical, made) && as_now_ns() < deadline;) {
        wait_ms(p, wait);
        wait = wait * 2 < REAP_MOST_WAIT_MS ? wait * 2 : REAP_MOST_WAIT_MS;
    }
}
