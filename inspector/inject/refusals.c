// SPDX-License-Identifier: MIT
// Which processes are left alone, and why. What can be seen only of a stopped thread is refused later, by thread_safety.c and by
// as_remote_begin (a restartable sequence, user dispatch of system calls).
#include "inject/plan.h"

#include <elf.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_AUXV = 64, STATUS_BYTES = 8192 };

// Was the program started with rights that its user does not have?
static bool is_privileged(const struct as_process *p)
{
    Elf64_auxv_t entries[MAX_AUXV + 1];
    ssize_t length = as_proc_read(p->view_fd, "auxv", (char *)entries, sizeof entries);
    for (size_t i = 0; length > 0 && i < (size_t)length / sizeof entries[0]; ++i) {
        if (entries[i].a_type == AT_SECURE)
            return entries[i].a_un.a_val != 0;
    }
    return false;
}

static bool has_shadow_stack(const struct as_process *p)
{
    char text[STATUS_BYTES];
    if (as_proc_read(p->view_fd, "status", text, sizeof text) <= 0)
        return false;
    const char *line = strstr(text, "\nx86_Thread_features:");
    const char *end = line ? strchr(line + 1, '\n') : NULL;
    return end && memmem(line, (size_t)(end - line), "shstk", strlen("shstk"));
}

// Another inspector lets go of its target soon: a thread will be found then.
static bool is_inspector(pid_t tracer)
{
    char comm[32];
    return as_proc_read(-1, as_proc_name("/proc/%d/comm", tracer).text, comm, sizeof comm) > 0 &&
           strcmp(comm, AS_SUPERVISOR_NAME "\n") == 0;
}

// A child of vfork() runs in its parent's memory, with the thread-local variables of the parent's thread, which waits for it:
// a library that is loaded there, and a thread that is started, would be the parent's.
static bool shares_memory(const struct as_process *p, pid_t *parent)
{
    uint64_t of = as_proc_status(p->view_fd, "status", "PPid:");
    *parent = of == AS_PROC_NONE ? 0 : (pid_t)of;
    return *parent > 0 && syscall(SYS_kcmp, *parent, p->base.pid, KCMP_VM, 0, 0) == 0;
}

// The next decimal number of a line; AS_PROC_NONE: there is none.
static uint64_t next_number(const char **at)
{
    *at += strspn(*at, " \t");
    const char *digits = *at;
    uint64_t number = as_parse_decimal(at, digits + strlen(digits));
    return *at == digits ? AS_PROC_NONE : number;
}

// The effective user of a process, as we see it; AS_PROC_NONE: not known.
static uint64_t effective_user(const struct as_process *p)
{
    static const char name[] = "\nUid:";
    char text[STATUS_BYTES];
    const char *line = as_proc_read(p->view_fd, "status", text, sizeof text) > 0 ? strstr(text, name) : NULL;
    if (!line)
        return AS_PROC_NONE;
    line += strlen(name);
    next_number(&line); // the real one
    return next_number(&line);
}

// Whether the process sees this user of ours as root: root is that in its own user namespace.
static bool is_root_there(const struct as_process *p, uid_t user)
{
    char text[STATUS_BYTES];
    if (as_proc_read(p->view_fd, "uid_map", text, sizeof text) <= 0)
        return user == 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line ? 1 : 0) {
        uint64_t inside = next_number(&line), outside = next_number(&line), count = next_number(&line);
        if (inside == 0 && outside == user && count > 0 && count != AS_PROC_NONE)
            return true;
    }
    return false;
}

// The agent serves its own user and root (agent/control.c): for another one, it would be loaded and of no use.
static bool refuse_stranger(const struct as_process *p, struct as_error *err)
{
    uint64_t user = effective_user(p);
    if (user == AS_PROC_NONE || user == geteuid() || is_root_there(p, geteuid()))
        return true;
    return as_fail(err, AS_DENIED,
                   "process %d runs as user %u and arenadump as user %u: the agent serves its own user and root alone; "
                   "nothing was loaded: run as one of them",
                   p->base.pid, (unsigned)user, (unsigned)geteuid());
}

static bool refuse_now(const struct as_process *p, struct as_error *err)
{
    int pid = p->base.pid;
    // In this order: who is stopped for a tracer ('t'), and has none a little later, has been let go of.
    struct as_proc_stat stat;
    bool stopped = as_proc_stat(p->view_fd, "stat", &stat) && stat.state == 'T';
    uint64_t tracer = as_proc_status(p->view_fd, "status", "TracerPid:");
    if (tracer != 0 && tracer != AS_PROC_NONE && is_inspector((pid_t)tracer))
        return true;
    if (tracer != 0 && tracer != AS_PROC_NONE)
        return as_fail(
            err, AS_DENIED,
            "process %d is being traced by process %d: nothing is loaded into a traced process; end that tracer first",
            pid, (int)tracer);
    pid_t parent;
    if (shares_memory(p, &parent))
        return as_fail(err, AS_DENIED,
                       "process %d still runs in the memory of its parent, process %d (vfork): nothing is loaded "
                       "before it has executed its own program; try process %d",
                       pid, parent, parent);
    if (stopped)
        return as_fail(err, AS_DENIED,
                       "process %d is stopped (SIGSTOP or the like): nothing can be loaded into it before "
                       "it goes on (kill -CONT %d)",
                       pid, pid);
    return true;
}

bool as_inject_refused(const struct as_process *p, const struct as_malloc *m, struct as_error *err)
{
    int pid = p->base.pid;
    if (pid == getpid())
        return as_fail(err, AS_USAGE, "process %d is arenadump itself", pid);
    if (m->kind != AS_MALLOC_GLIBC || m->libcs.count == 0)
        return as_fail(err, AS_NO_MALLOC,
                       "process %d does not use glibc's malloc, which the agent needs (%s: %s): nothing was loaded",
                       pid, as_malloc_kind_name(m->kind), m->detail);
    if (!refuse_stranger(p, err) || !refuse_now(p, err))
        return false;
    if (is_privileged(p))
        return as_fail(err, AS_UNSUPPORTED,
                       "process %d runs with other rights than its caller (setuid, setgid or file capabilities): "
                       "nothing is loaded into such a process",
                       pid);
    if (has_shadow_stack(p))
        return as_fail(err, AS_UNSUPPORTED,
                       "process %d has a shadow stack, which forbids a call from outside: preload the agent instead "
                       "(arenascope run)",
                       pid);
    return true;
}
