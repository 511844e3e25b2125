// SPDX-License-Identifier: MIT
// Watches how much memory is left while a clone is read, and gives the clone up before a limit is met. The target cannot meet one by
// writing (clone_room.c), but it may allocate, other processes may, and limits may change.
//
// The order of steps matters. A read that is under way holds the clone's memory. If the clone is killed then, it leaves the kernel's list
// of victims before its memory is free; the next charge at the limit finds nobody else to kill but the target. So the target is
// stopped, all reads end, the clone is killed, its end awaited, and then the target runs on. (With 12 to 60 MiB left and a
// target that writes all the time, 0 of 24 were killed that way; without the stop 7 of 8.)
#include "target/process/clone/clone_watch.h"
#include "target/process/clone/clone.h"
#include "target/process/read/room.h"
#include "target/process/stop/freeze.h"
#include "target/process/stop/restart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_open // headers before Linux 5.3
#define SYS_pidfd_send_signal 424
#define SYS_pidfd_open 434
#endif

// So many times what was taken between the last two polls must be left beside AS_ROOM_LEAST.
#define TIMES_TAKEN 4
// Below so many bytes the page cache is inspected, too.
#define SCARCE_BYTES UINT64_C(134217728)
// Memory is taken by no more than so many bytes in a nanosecond, as far as the time to the next poll is concerned.
#define FASTEST 32
#define SOON_NS UINT64_C(1000000)
#define LATE_NS UINT64_C(4000000)
#define NAP_NS 200000

enum {
    THREADS_MS = 50, // for the target's threads to stop
    READS_MS = 100,  // for the reads under way, each of a MiB or of one mapping's page tables
    HELD_MS = 1000,  // the same, once the clone is dead
};

struct watched {
    struct as_process *p;
    struct as_reads *reads; // the inspector's
    pid_t clone;
    pid_t inspector;
    int inspector_fd; // a pidfd; -1: there are none
    int pagemap_fd;   // the clone's
    int socket;
};

static bool is_closed(const struct watched *w)
{
    struct pollfd other = {.fd = w->socket, .events = POLLIN};
    return poll(&other, 1, 0) > 0;
}

// A stopped inspector (Ctrl-Z) reads nothing, whatever it has begun: it stopped outside of the kernel's calls.
static bool is_stopped(pid_t pid)
{
    char state = as_proc_state(pid);
    return state == 'T' || state == 't';
}

// Has every read come to an end? Closed, the socket says that the inspector's last thread has.
static bool await_reads(const struct watched *w, uint64_t for_ms)
{
    uint64_t deadline = as_now_ns() + for_ms * 1000000;
    for (;; as_sleep_ns(NAP_NS)) {
        if (!as_reads_pending(w->reads) || is_closed(w) || is_stopped(w->inspector))
            return true;
        if (as_now_ns() > deadline)
            return false;
    }
}

// Does anybody hold the clone's memory? Its pagemap reads nothing once it has no user.
static bool is_held(const struct watched *w)
{
    uint64_t entry;
    return pread(w->pagemap_fd, &entry, sizeof entry, 0) == sizeof entry;
}

// It stands still for us, its tracer, which waitid tells of, asked or not.
static bool is_dead(pid_t clone)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)clone, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 ||
           (info.si_pid == clone && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED);
}

// What holds the clone's memory after its end is a read that does not come back: of memory that a file system or the target
// itself serves, or by a thread that gets no processor. As long as it is held, each page that the target writes is still copied, and it has
// little room left. The inspector can be started again, the target cannot: so the inspector is killed, which ends its reads. Where even
// that does not, the target runs on: to stand still for good would be no better.
static void free_memory(const struct watched *w)
{
    if (!is_held(w) || (await_reads(w, HELD_MS) && !is_held(w)))
        return;
    if (w->inspector_fd >= 0)
        syscall(SYS_pidfd_send_signal, w->inspector_fd, SIGKILL, NULL, 0);
    uint64_t deadline = as_now_ns() + HELD_MS * UINT64_C(1000000);
    while (is_held(w) && as_now_ns() < deadline)
        as_sleep_ns(NAP_NS);
}

static void give_up(const struct watched *w)
{
    struct as_process *p = w->p;
    struct as_error err;
    uint64_t began = as_now_ns();
    w->reads->over = true;
    p->base.stop.limit_ns = 0;
    p->stood_ns = 0;
    p->patience_ns = THREADS_MS * UINT64_C(1000000);
    as_process_halt(p, &err); // a thread that cannot be stopped runs on: the rest is done all the same
    await_reads(w, READS_MS);
    kill(w->clone, SIGKILL);
    while (waitpid(w->clone, NULL, __WALL) < 0 && errno == EINTR)
        ;
    free_memory(w);
    as_process_resume(&p->base);
    p->base.stop.duration_ns += as_now_ns() - began;
}

static uint64_t fall(uint64_t before, uint64_t now)
{
    return before > now ? before - now : 0;
}

// How much was taken since. What is left with the page cache can only be compared where that counted both times.
static uint64_t taken(const struct as_room_left *before, const struct as_room_left *now)
{
    uint64_t plain = fall(before->plain, now->plain);
    uint64_t all = fall(before->bytes, now->bytes);
    bool cached = before->bytes > before->plain && now->bytes > now->plain;
    return cached && all > plain ? all : plain;
}

// Why the clone is to be given up now; NULL: it is not. Notes what is left.
static const char *why_not(const struct watched *w, struct as_room *room, struct as_room_left *left)
{
    struct as_room_left before = *left;
    if (!as_room_read(room, SCARCE_BYTES, left))
        return room->why;
    uint64_t scarce = AS_ROOM_LEAST + TIMES_TAKEN * taken(&before, left);
    if (left->bytes < scarce)
        return left->where;
    if (left->promised < AS_ROOM_LEAST)
        return "little is left of what the kernel may promise (vm.overcommit_memory=2, CommitLimit)";
    return is_dead(w->clone) ? "it was killed, as happens when memory is short" : NULL;
}

bool as_clone_watch(struct as_process *p, struct as_reads *reads, struct as_room *room, const struct as_made *made,
                    int socket)
{
    struct watched w = {.p = p, .reads = reads, .clone = made->pid, .inspector = getppid(), .socket = socket};
    w.inspector_fd = (int)syscall(SYS_pidfd_open, w.inspector, 0);
    w.pagemap_fd = open(as_proc_name("/proc/%d/pagemap", made->pid).text, O_RDONLY | O_CLOEXEC);
    if (getppid() != w.inspector) // it has ended meanwhile, and its number may be another's
        as_close_fd(&w.inspector_fd);
    setpriority(PRIO_PROCESS, 0, -20); // it is late that kills; where we may not, nothing is lost
    struct as_room_left left = {0};
    const char *why = NULL;
    for (bool closed = false; !closed && !why;) {
        why = why_not(&w, room, &left);
        uint64_t pace = left.bytes / FASTEST;
        pace = pace < SOON_NS ? SOON_NS : pace > LATE_NS ? LATE_NS : pace;
        closed = !why && as_restart_serve_until(p, socket, as_now_ns() + pace);
    }
    if (why) {
        snprintf(reads->why, sizeof reads->why, "the clone of process %d was given up before all was read: %s",
                 p->base.pid, why);
        give_up(&w);
    }
    as_close_fd(&w.inspector_fd);
    as_close_fd(&w.pagemap_fd);
    return why;
}
