// SPDX-License-Identifier: MIT
// Through which of the target's threads we inspect, whether it is still there, and why we may not inspect.
#include "target/process/read/capabilities.h"
#include "target/process/read/live_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool as_process_gone(const struct as_process *p, struct as_error *err)
{
    return as_fail(err, AS_TARGET_GONE, "process %d ended, or started another program (exec), %s", p->base.pid,
                   p->mem_fd < 0 ? "just before the snapshot" : "during the snapshot");
}

bool as_process_unread(const struct as_process *p, const char *what, struct as_error *err)
{
    if (errno == ESRCH)
        return as_process_gone(p, err);
    return as_fail_errno(err, as_process_unopened(AS_TARGET_GONE), "process %d: %s", p->base.pid, what);
}

bool as_process_list_threads(struct as_process *p, struct as_error *err)
{
    return as_proc_threads(p->proc_fd, &p->tids) || as_process_unread(p, "its threads cannot be listed", err);
}

// Searches for a thread that lives, through its own directory in /proc (a thread's directory in task/ has no map_files).
static bool view_other_thread(struct as_process *p, struct as_error *err)
{
    if (!as_process_list_threads(p, err))
        return false;
    for (size_t i = 0; i < p->tids.count; ++i) {
        AS_CLEANUP_FD int fd =
            open(as_proc_name("/proc/%d", p->tids.items[i]).text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct as_proc_stat stat;
        if (fd < 0 || as_proc_status(fd, "status", "Tgid:") != (uint64_t)p->base.pid ||
            !as_proc_stat(fd, "stat", &stat) || as_proc_is_dead(stat.state))
            continue;
        as_close_fd(&p->view_fd);
        p->view_fd = fd;
        p->view_tid = p->tids.items[i];
        fd = -1;
        return true;
    }
    return as_process_gone(p, err);
}

bool as_process_given_up(struct as_process *p, struct as_error *err)
{
    if (!p->reads->over)
        snprintf(p->clone.note, sizeof p->clone.note,
                 "the clone of process %d was killed while it was read, as happens when memory is short", p->base.pid);
    p->base.stop.let_go = p->reads->over ? p->reads->why : p->clone.note;
    return as_fail(err, AS_NO_MEMORY, "%s", p->base.stop.let_go);
}

static bool view_clone(struct as_process *p, struct as_error *err)
{
    struct as_proc_stat stat;
    errno = 0;
    if (!as_process_read_begin(p))
        return as_process_given_up(p, err);
    bool known = as_proc_stat(p->view_fd, "stat", &stat);
    as_process_read_end(p);
    if (!known && as_process_unopened(AS_OK) != AS_OK)
        return as_fail_errno(err, AS_NO_MEMORY, "whether the clone of process %d is there cannot be read", p->base.pid);
    return (known && !as_proc_is_dead(stat.state)) || as_process_given_up(p, err);
}

bool as_process_view(struct as_process *p, struct as_error *err)
{
    struct as_proc_stat stat;
    bool own = as_target_is_self(&p->base);
    if (!own && p->clone.pid != 0) // nobody else will do
        return view_clone(p, err);
    if (p->view_fd >= 0 && as_proc_stat(p->view_fd, "stat", &stat) && !as_proc_is_dead(stat.state))
        return true;
    errno = 0;
    bool known = as_proc_stat(p->proc_fd, "stat", &stat);
    // Without threads: its parent has waited for it meanwhile, or a thread that executes a program has its id now.
    for (int tries = 0; known && as_proc_is_dead(stat.state) && stat.threads == 0 && tries < 100; tries++)
        known = as_proc_stat(p->proc_fd, "stat", &stat);
    if (!known && as_process_unopened(AS_OK) != AS_OK)
        return as_fail_errno(err, AS_NO_MEMORY, "cannot read whether process %d is alive", p->base.pid);
    if (!known)
        return as_fail(err, p->view_fd < 0 ? AS_NO_TARGET : AS_TARGET_GONE, "process %d has ended", p->base.pid);
    if (!own && (stat.flags & AS_PF_KTHREAD))
        return as_fail(err, AS_UNSUPPORTED, "process %d is a kernel thread: it has no memory of its own", p->base.pid);
    if (as_proc_is_dead(stat.state) && (own || stat.threads > 1))
        return view_other_thread(p, err);
    if (as_proc_is_dead(stat.state) && stat.threads == 0)
        return as_process_gone(p, err);
    if (as_proc_is_dead(stat.state))
        return as_fail(err, p->view_fd < 0 ? AS_UNSUPPORTED : AS_TARGET_GONE,
                       "process %d is a zombie: it has ended and given its memory back; only its parent can clear it",
                       p->base.pid);
    int fd = fcntl(p->proc_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return as_fail_errno(err, AS_INTERNAL, "the directory of process %d in /proc cannot be kept open", p->base.pid);
    as_close_fd(&p->view_fd);
    p->view_fd = fd;
    p->view_tid = p->base.pid;
    return true;
}

// Not one that is ending.
static bool thread_runs(int process, const char *name)
{
    struct as_proc_stat stat;
    return as_proc_stat(process, name, &stat) && !as_proc_is_dead(stat.state) && !(stat.flags & AS_PF_EXITING);
}

static bool runs_now(pid_t pid)
{
    as_pid_vec tids = {0};
    struct as_proc_stat stat;
    AS_CLEANUP_FD int process = open(as_proc_name("/proc/%d", pid).text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool there = process >= 0 && as_proc_stat(process, "stat", &stat);
    bool runs = there && (stat.threads == 0 || thread_runs(process, "stat")); // 0: the id goes to another thread
    bool listed = there && !runs && stat.threads > 1 && as_proc_threads(process, &tids);
    for (size_t i = 0; listed && !runs && i < tids.count; i++) {
        runs = thread_runs(process, as_proc_name("task/%d/stat", tids.items[i]).text);
    }
    as_vec_free(&tids);
    return runs;
}

// Asked twice, as the id of the thread that lives may be another one by the time that its state is read.
bool as_process_runs(pid_t pid)
{
    bool runs = runs_now(pid);
    return runs || runs_now(pid);
}

enum as_code as_process_unopened(enum as_code otherwise)
{
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? AS_NO_MEMORY : otherwise;
}

bool as_process_alive(const struct as_process *p)
{
    if (as_target_is_self(&p->base))
        return true;
    // Reads nothing (0 bytes) once the memory it was opened on has lost its last user, and touches no page.
    uint64_t entry;
    if (!as_process_read_begin(p))
        return false;
    bool alive = pread(p->pagemap_fd, &entry, sizeof entry, 0) == sizeof entry;
    as_process_read_end(p);
    return alive;
}

// Is the supervisor still there? Without it the target runs.
static bool is_guarded(const struct as_process *p)
{
    char byte;
    return recv(p->clone.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
}

bool as_process_intact(struct as_target *t, struct as_error *err)
{
    struct as_process *p = as_process_of(t);
    bool own = as_target_is_self(t);
    if (p->reads->over)
        return as_process_given_up(p, err);
    if (!own && p->clone.supervisor != 0) {
        // Before the clock is read: a supervisor ends by itself when it is due, not before.
        bool guarded = is_guarded(p);
        if (p->due_ns != 0 && as_now_ns() >= p->due_ns)
            return as_process_deadline_exceeded(p, err);
        if (!guarded)
            return as_fail(err, AS_INTERNAL,
                           "the ptrace supervisor of process %d was killed, and the target ran on during the snapshot",
                           t->pid);
    }
    if (!p->lost && as_process_alive(p))
        return true;
    if (!own && p->clone.pid != 0)
        return as_process_given_up(p, err);
    return as_process_gone(p, err);
}

// What to do about a process that belongs to somebody else, or that its own user may not inspect either.
static bool denied_to_others(int pid, const char *what, const char *why, struct as_error *err)
{
    const char *missing = as_capabilities_missing();
    if (*missing == '\0')
        return as_fail(err, AS_DENIED,
                       "process %d: no permission to see %s: %s; arenadump has the capabilities that it takes: the "
                       "process is in another user namespace, or a security module forbids it",
                       pid, what, why);
    return as_fail(err, AS_DENIED, "process %d: no permission to see %s: %s; run as root, or with %s, which %s missing",
                   pid, what, why, missing, strstr(missing, " and ") ? "are" : "is");
}

static bool denied_to_root(int pid, const char *what, struct as_error *err)
{
    const char *missing = as_capabilities_missing();
    if (*missing == '\0')
        return as_fail(err, AS_DENIED,
                       "process %d: root has no permission to see %s: the process is in another user namespace, or a "
                       "security module forbids it",
                       pid, what);
    return as_fail(err, AS_DENIED,
                   "process %d: root has no permission to see %s: %s %s missing (in a container: --cap-add, with the "
                   "name without CAP_)",
                   pid, what, missing, strstr(missing, " and ") ? "are" : "is");
}

bool as_process_denied(const struct as_process *p, const char *what, struct as_error *err)
{
    int pid = p->base.pid;
    if (as_target_is_self(&p->base))
        return as_fail(err, AS_DENIED, "process %d: no permission to see %s: it is marked as not dumpable", pid, what);
    uint64_t uid = as_proc_status(p->proc_fd, "status", "Uid:");
    uint64_t tracer = as_proc_status(p->proc_fd, "status", "TracerPid:");
    char scope[16];
    int yama =
        as_proc_read(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", scope, sizeof scope) > 0 ? scope[0] - '0' : 0;
    if (tracer != 0 && tracer != AS_PROC_NONE)
        return as_fail(err, AS_DENIED,
                       "process %d: no permission to see %s: it is being traced by process %d; end that tracer first",
                       pid, what, (int)tracer);
    char why[160];
    if (yama == 3)
        return as_fail(err, AS_DENIED,
                       "process %d: no permission to see %s: kernel.yama.ptrace_scope is 3, which forbids it to "
                       "everyone until the next boot",
                       pid, what);
    if (geteuid() == 0)
        return denied_to_root(pid, what, err);
    if (uid != AS_PROC_NONE && uid != (uint64_t)geteuid())
        snprintf(why, sizeof why, "it belongs to user %u and arenadump runs as user %u", (unsigned)uid,
                 (unsigned)geteuid());
    else if (yama > 0)
        snprintf(why, sizeof why, "kernel.yama.ptrace_scope is %d%s", yama,
                 yama == 1 ? " (sysctl kernel.yama.ptrace_scope=0 permits it)" : "");
    else
        snprintf(why, sizeof why,
                 "it is marked as not dumpable, has capabilities that arenadump lacks, or is in another user "
                 "namespace");
    return denied_to_others(pid, what, why, err);
}
