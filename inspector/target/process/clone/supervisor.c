// SPDX-License-Identifier: MIT
// The supervisor: a process of ours that stops a target, or makes it clone itself, and undoes it, whatever becomes of the
// inspector. (The kernel would let the threads of a stopped target go, too, but not mend their interrupted calls.)
//
// All that must not be left half done is done here, in a process that blocks every signal, belongs to no terminal, and waits
// on a socket that is closed when the inspector is: by itself, or by kill -9. What it does to the target's threads is in
// freeze.c, what it does with the clone in clone.c.
#include "target/process/clone/supervisor.h"
#include "target/process/clone/clone.h"
#include "target/process/clone/clone_room.h"
#include "target/process/clone/clone_watch.h"
#include "target/process/clone/remote.h"
#include "target/process/read/room.h"
#include "target/process/stop/freeze.h"
#include "target/process/stop/quiesce.h"
#include "target/process/stop/registers.h"
#include "target/process/stop/restart.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_close_range // headers before Linux 5.9
#define SYS_close_range 436
#endif

enum {
    MOST_ATTEMPTS = 100, // at which a clone is tried to be made
    BETWEEN_NS = 1000000,
};

static bool send_all(int socket, const void *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t sent = send(socket, (const char *)data + done, length - done, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return false;
        done += sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

static void send_birth(struct as_process *p, const struct as_birth *birth, int socket)
{
    bool ok = send_all(socket, birth, sizeof *birth);
    for (size_t i = 0; ok && i < birth->thread_count; ++i)
        ok = send_all(socket, &p->base.threads.items[i], sizeof p->base.threads.items[i]);
}

// The threads as they were at the time of the clone.
static bool list_threads(struct as_process *p, struct as_error *err)
{
    p->base.threads.count = 0;
    if (!as_vec_reserve(&p->base.threads, p->tracees.count, err))
        return false;
    for (size_t i = 0; i < p->tracees.count; ++i) {
        struct as_registers *r = &p->tracees.items[i].registers;
        if (!r->known)
            as_registers_read(p->tracees.items[i].tid, r);
        p->base.threads.items[i] = (struct as_thread){
            .tid = p->tracees.items[i].tid,
            .tp = r->known ? r->tp : AS_UNKNOWN,
            .sp = r->known ? r->sp : AS_UNKNOWN,
            .pc = r->known ? r->pc : AS_UNKNOWN,
        };
        memcpy(p->base.threads.items[i].general, r->general, sizeof r->general);
    }
    p->base.threads.count = p->tracees.count;
    return true;
}

// Lets go of all files but those that we reads through: nobody must wait for us because we hold a pipe's end.
static void close_others(const struct as_process *p, int socket)
{
    int kept[] = {p->proc_fd, p->view_fd, p->mem_fd, p->pagemap_fd, socket};
    enum { KEPT = sizeof kept / sizeof kept[0] };
    for (size_t i = 1; i < KEPT; ++i) { // in order
        for (size_t k = i; k > 0 && kept[k] < kept[k - 1]; --k) {
            int other = kept[k];
            kept[k] = kept[k - 1];
            kept[k - 1] = other;
        }
    }
    unsigned from = 0;
    for (size_t i = 0; i < KEPT; ++i) {
        if (kept[i] < 0)
            continue;
        if ((unsigned)kept[i] > from)
            syscall(SYS_close_range, from, (unsigned)kept[i] - 1, 0);
        from = (unsigned)kept[i] + 1;
    }
    syscall(SYS_close_range, from, ~0u, 0);
}

void as_supervisor_stand_apart(const struct as_process *p, int socket)
{
    setsid();
    prctl(PR_SET_NAME, AS_SUPERVISOR_NAME);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "-1000", 5) < 0) { // for root alone; others are killed as others are
    }
    as_close_fd(&fd);
    close_others(p, socket);
}

static void freeze(struct as_process *p, const struct as_critical *critical, int socket)
{
    struct as_birth birth = {0};
    bool ok = as_process_catch(p, critical, &birth.err) && list_threads(p, &birth.err);
    if (ok) {
        birth.err.code = AS_OK;
        birth.outcome = p->base.stop.outcome;
        birth.due_ns = p->base.stop.limit_ns == 0 ? 0 : as_process_due(p);
        birth.thread_count = (uint32_t)p->base.threads.count;
    }
    birth.deadline_exceeded = p->base.stop.deadline_exceeded;
    birth.unstoppable = p->base.stop.unstoppable;
    birth.pause_ns = p->base.stop.duration_ns;
    send_birth(p, &birth, socket);
    if (ok)
        as_restart_serve_until(p, socket, birth.due_ns);
    as_process_resume(&p->base);
    send_all(socket, &p->base.stop.duration_ns, sizeof p->base.stop.duration_ns);
}

struct listener {
    struct as_process *p;
    int socket;
};

// The target stands still meanwhile: who waits for the clone is told why.
static void say_late(void *context)
{
    const struct listener *l = context;
    struct as_birth birth = {0};
    as_fail(
        &birth.err, AS_DENIED,
        "process %d has been making its clone for %llu s, and this cannot be interrupted: the process is stopped until "
        "the kernel has finished. The ptrace supervisor, process %d, resumes it then",
        l->p->base.pid, (unsigned long long)(2 * AS_REMOTE_LIMIT_NS / 1000000000), getpid());
    send_birth(l->p, &birth, l->socket);
}

// Catches the target, and has it make the clone. A thread with a signal on its way goes on first, and another time is searched
// for: each time the target stands still for a millisecond or less.
static bool catch_and_clone(struct as_process *p, const struct as_critical *critical, struct as_room *room,
                            struct as_made *made, struct as_error *err)
{
    bool ok = as_process_catch(p, critical, err);
    for (int attempts = 1; ok; attempts++) {
        made->signalled = false;
        // Room once more, as to catch it may have taken long. The clone's page tables alone may meet a limit.
        ok = as_process_has_room(p, room, err) && list_threads(p, err) && as_clone_make(p, critical, made, err);
        as_process_resume(&p->base);
        if (ok || !made->signalled || attempts == MOST_ATTEMPTS)
            return ok;
        as_sleep_ns(BETWEEN_NS);
        as_restart_serve(p);
        ok = as_process_catch_again(p, critical, err);
    }
    return ok;
}

static void cloning(struct as_process *p, const struct as_critical *critical, struct as_reads *reads, int socket)
{
    struct as_birth birth = {0};
    struct listener listener = {p, socket};
    struct as_made made = {.late = say_late, .context = &listener};
    struct as_room room;
    as_room_open(&room, p->view_fd, "");
    bool ok = catch_and_clone(p, critical, &room, &made, &birth.err);
    birth.outcome = p->base.stop.outcome;
    as_clone_find(p, &made);
    birth.pause_ns = p->base.stop.duration_ns;
    birth.deadline_exceeded = p->base.stop.deadline_exceeded;
    birth.unstoppable = p->base.stop.unstoppable;
    if (ok && !as_clone_hold(made.pid))
        ok = as_fail(&birth.err, AS_UNSUPPORTED, "the clone of process %d was killed just after it was made",
                     p->base.pid);
    if (ok) {
        birth.err.code = AS_OK;
        birth.pid = made.pid;
        birth.thread_count = (uint32_t)p->base.threads.count;
    }
    send_birth(p, &birth, socket);
    if (made.pid != 0 && ok && as_clone_watch(p, reads, &room, &made, socket))
        send_all(socket, &p->base.stop.duration_ns, sizeof p->base.stop.duration_ns);
    as_room_close(&room);
    if (made.pid != 0)
        as_clone_reap(p, critical, &made);
}

_Noreturn void as_supervisor_run(struct as_process *p, const struct as_critical *critical, bool clone, int socket)
{
    struct as_reads *reads = p->reads;
    p->reads = &p->own_reads; // ours are not the inspector's
    as_supervisor_stand_apart(p, socket);
    p->escort = AS_ESCORT_UNTRIED;
    if (clone)
        cloning(p, critical, reads, socket);
    else
        freeze(p, critical, socket);
    close(socket);
    // A thread that would not stop, and has not been let go yet: the kernel does it as we end.
    _exit(0);
}
