// SPDX-License-Identifier: MIT
// Inspecting a clone of the target, made by itself, copy-on-write: the inspector's side. supervisor.c makes it.
//
// The clone has the target's anonymous memory as it was at that time, page for page, swapped ones included: its smaps and
// pagemap are the target's of then. What a child does not inherit are the page tables of files and of shared memory that
// have no private copies (the kernel fills them in on demand), and what the program keeps from its children (MADV_DONTFORK,
// MADV_WIPEONFORK); these are counted in the target, which runs meanwhile.
#include "target/process/clone/clone_target.h"
#include "base/blocks.h"
#include "target/process/clone/clone_room.h"
#include "target/process/clone/supervisor.h"
#include "target/process/read/live_process.h"
#include "target/process/read/room.h"
#include "target/process/stop/freeze.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

// For how long we wait for the supervisor to have the clone reaped; it goes on without us.
enum { GOODBYE_MS = 3000 };

#define CLONE_BASE_NS UINT64_C(2000000)
#define CLONE_NS_PER_KB UINT64_C(20000) // of page tables
#define CLONE_NS_PER_MAPPING UINT64_C(11000)

// A clone cannot be given up once it is begun. It takes as long as its page tables and mappings take to be copied: measured,
// 16 to 40 ms for the 2 MB of tables that map a GB, and 7 to 11 ms for a thousand mappings.
static bool is_quick(struct as_process *p, struct as_error *err)
{
    uint64_t kilobytes = as_proc_status(p->view_fd, "status", "VmPTE:");
    if (p->base.stop.limit_ns == 0 || kilobytes == AS_PROC_NONE)
        return true;
    uint64_t estimate = CLONE_BASE_NS + kilobytes * CLONE_NS_PER_KB + p->base.mappings.count * CLONE_NS_PER_MAPPING;
    if (estimate <= p->base.stop.limit_ns)
        return true;
    p->base.stop.deadline_exceeded = true;
    p->base.stop.duration_ns = 0;
    return as_fail(err, AS_DENIED, "cloning process %d is estimated to take %.1f ms, and --max-pause leaves %.1f ms",
                   p->base.pid, (double)estimate / 1e6, (double)p->base.stop.limit_ns / 1e6);
}

// Nothing of the heap may be missing in the clone. Nor may the target write to a hugetlb page that it shares: where the pool
// has no page for its copy, the kernel takes the clone's away, or kills the target (SIGBUS).
static bool is_whole(const struct as_process *p, struct as_error *err)
{
    AS_FOR_EACH(const struct as_mapping, m, &p->base.mappings) {
        if (!(m->prot & AS_PROT_SHARED) && m->hugetlb != 0 && m->hugetlb != AS_UNKNOWN)
            return as_fail(err, AS_UNSUPPORTED,
                           "process %d has private memory on hugetlb pages (at 0x%llx), and the pool may have no pages "
                           "left for copies",
                           p->base.pid, (unsigned long long)m->start);
        // Where malloc's memory may be elsewhere is found out in the clone (snapshot.c).
        if (m->not_inherited && m->rss != 0 && strcmp(as_mapping_path(&p->base, m), "[heap]") == 0)
            return as_fail(err, AS_UNSUPPORTED,
                           "process %d has part of its heap in memory that a clone does not inherit (MADV_DONTFORK or "
                           "MADV_WIPEONFORK, at 0x%llx)",
                           p->base.pid, (unsigned long long)m->start);
    }
    return true;
}

static bool is_roomy(struct as_process *p, struct as_error *err)
{
    struct as_room room;
    as_room_open(&room, p->view_fd, "");
    bool ok = as_process_has_room(p, &room, err);
    as_room_close(&room);
    return ok;
}

static bool receive_all(int socket, void *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = recv(socket, (char *)data + done, length - done, 0);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

// Starts the supervisor; it has our memory as it is now.
static bool start_supervisor(struct as_process *p, const struct as_critical *critical, bool clone, struct as_error *err)
{
    int ends[2];
    p->reads->over = false;
    p->base.stop.let_go = NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return as_fail_errno(err, as_process_unopened(AS_UNSUPPORTED),
                             "cannot make a socket for the ptrace supervisor");
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    as_blocks_before_fork();
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        as_supervisor_run(p, critical, clone, ends[1]);
    }
    int saved = errno;
    as_blocks_open();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        errno = saved;
        return as_fail_errno(err, AS_UNSUPPORTED, "cannot start the ptrace supervisor");
    }
    p->clone = (struct as_clone){.supervisor = pid, .socket = ends[0], .view_fd = -1, .mem_fd = -1, .pagemap_fd = -1};
    return true;
}

// Closes our end, upon which the supervisor cleans up, and waits for it.
static void end_supervisor(struct as_process *p)
{
    if (p->clone.supervisor == 0)
        return;
    shutdown(p->clone.socket, SHUT_WR);
    // It closes its end when it has finished.
    struct pollfd other = {.fd = p->clone.socket, .events = POLLIN};
    uint64_t deadline = as_now_ns() + (uint64_t)GOODBYE_MS * 1000000;
    bool over = false;
    while (!over && as_now_ns() < deadline) {
        char rest[256];
        int ready = poll(&other, 1, GOODBYE_MS);
        ssize_t got = ready > 0 ? recv(p->clone.socket, rest, sizeof rest, 0) : 0;
        if (got == sizeof p->base.stop.duration_ns) // nothing else is sent at the end
            memcpy(&p->base.stop.duration_ns, rest, sizeof p->base.stop.duration_ns);
        over = got <= 0;
        if (over && ready > 0)
            while (waitpid(p->clone.supervisor, NULL, 0) < 0 && errno == EINTR)
                ;
    }
    as_close_fd(&p->clone.socket);
    p->clone.supervisor = 0;
    p->due_ns = 0;
}

// Receives what the supervisor has to tell; the threads go into base.threads, without their names.
static bool await_birth(struct as_process *p, struct as_birth *birth, struct as_error *err)
{
    struct as_target *t = &p->base;
    if (!receive_all(p->clone.socket, birth, sizeof *birth))
        return as_fail(err, AS_INTERNAL, "the ptrace supervisor of process %d ended without a result: was it killed?",
                       t->pid);
    t->stop.deadline_exceeded = birth->deadline_exceeded;
    t->stop.unstoppable = birth->unstoppable;
    t->stop.duration_ns = birth->pause_ns;
    if (birth->err.code != AS_OK)
        return as_fail(err, birth->err.code, "%s", birth->err.text);
    p->due_ns = birth->due_ns;
    t->threads.count = 0;
    if (!as_vec_reserve(&t->threads, birth->thread_count, err))
        return false;
    if (!receive_all(p->clone.socket, t->threads.items, birth->thread_count * sizeof t->threads.items[0]))
        return as_fail(err, AS_INTERNAL, "the ptrace supervisor of process %d was killed", t->pid);
    t->threads.count = birth->thread_count;
    for (size_t i = 0; i < t->threads.count; ++i)
        as_process_read_thread_name(p, &t->threads.items[i]);
    return true;
}

static void swap(int *a, int *b)
{
    int other = *a;
    *a = *b;
    *b = other;
}

// Makes p's files those of the clone, and keeps the target's; or back.
static void change_view(struct as_process *p)
{
    swap(&p->view_fd, &p->clone.view_fd);
    swap(&p->mem_fd, &p->clone.mem_fd);
    swap(&p->pagemap_fd, &p->clone.pagemap_fd);
    pid_t tid = p->view_tid;
    p->view_tid = p->clone.view_tid;
    p->clone.view_tid = tid;
    p->verdict_start = AS_UNKNOWN;
    p->occupied_start = AS_UNKNOWN;
}

// Has the supervisor let go of the target, or do away with its clone: what is read from now on is the target's own again.
// Waits until it has finished, or for some seconds.
static void dismiss(struct as_process *p)
{
    if (p->clone.pid != 0) {
        change_view(p);
        p->clone.pid = 0;
    }
    as_close_fd(&p->clone.view_fd);
    as_close_fd(&p->clone.mem_fd);
    as_close_fd(&p->clone.pagemap_fd);
    end_supervisor(p);
    if (p->reads->over)
        p->base.stop.let_go = p->reads->why;
    p->reads->over = false;
}

void as_process_let_go(struct as_target *t)
{
    struct as_process *p = as_process_of(t);
    if (p->clone.supervisor == 0) {
        as_process_resume(t);
        return;
    }
    dismiss(p);
    t->stop.active = false;
}

static bool open_clone(struct as_process *p, pid_t pid, struct as_error *err)
{
    p->clone.view_tid = pid;
    p->clone.view_fd = open(as_proc_name("/proc/%d", pid).text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->clone.view_fd >= 0) {
        p->clone.mem_fd = openat(p->clone.view_fd, "mem", O_RDONLY | O_CLOEXEC);
        p->clone.pagemap_fd = openat(p->clone.view_fd, "pagemap", O_RDONLY | O_CLOEXEC);
    }
    if (p->clone.mem_fd < 0 || p->clone.pagemap_fd < 0)
        // Not by errno: it is the clone that has ended, perhaps, and not the process.
        return as_fail(err, AS_UNSUPPORTED, "the clone of process %d cannot be read: %s", p->base.pid, strerror(errno));
    p->clone.pid = pid;
    change_view(p);
    return true;
}

typedef AS_VEC(struct as_mapping) as_mapping_vec;

// The same mapping in the other list, or NULL. Both are sorted; *at goes along.
static const struct as_mapping *find_same(const as_mapping_vec *list, size_t *at, const struct as_mapping *m)
{
    while (*at < list->count && list->items[*at].end <= m->start)
        ++*at;
    const struct as_mapping *other = *at < list->count ? &list->items[*at] : NULL;
    return other && other->start == m->start && other->end == m->end && other->kind == m->kind &&
                   other->inode == m->inode && other->dev_major == m->dev_major && other->dev_minor == m->dev_minor
               ? other
               : NULL;
}

// Is any of the memory where `m` lies locked? A child's is not, whatever its parent's is.
static bool is_locked(const as_mapping_vec *list, size_t *at, const struct as_mapping *m)
{
    while (*at < list->count && list->items[*at].end <= m->start)
        ++*at;
    for (size_t i = *at; i < list->count && list->items[i].start < m->end; ++i) {
        if (list->items[i].locked)
            return true;
    }
    return false;
}

// Completes the clone's mappings by what only the target's own page tables have: as counted since, or, of a mapping that is
// gone by then, before. *changed: how many of files or shared memory these are.
static void merge(struct as_target *t, const as_mapping_vec *before, const as_mapping_vec *since, size_t *changed)
{
    size_t at[3] = {0};
    AS_FOR_EACH(struct as_mapping, m, &t->mappings) {
        m->locked = is_locked(since->count > 0 ? since : before, &at[0], m);
        m->out_of_reach = m->not_inherited;
        if (m->kind == AS_MAP_ANON && !m->not_inherited)
            continue;
        const struct as_mapping *other = find_same(since, &at[1], m);
        if (!other) {
            *changed += m->kind != AS_MAP_SPECIAL;
            other = find_same(before, &at[2], m);
        }
        if (!other) {
            m->rss = AS_UNKNOWN;
            m->swap = m->kind == AS_MAP_FILE ? m->swap : AS_UNKNOWN;
        } else if (m->kind == AS_MAP_ANON) { // it is empty in the clone (MADV_WIPEONFORK)
            m->rss = other->rss;
            m->anonymous = other->anonymous;
            m->swap = other->swap;
        } else if (other->rss != AS_UNKNOWN && m->rss != AS_UNKNOWN && other->rss >= other->anonymous) {
            m->rss = m->anonymous + (other->rss - other->anonymous);
            m->swap = m->kind == AS_MAP_SHMEM ? other->swap : m->swap;
        }
    }
}

// Adds to the clone's mappings those that it has not got at all (MADV_DONTFORK), as they were counted in the target.
static bool add_kept(struct as_target *t, const as_mapping_vec *list, const struct as_strings *paths,
                     struct as_error *err)
{
    for (size_t i = 0; i < list->count; ++i) {
        struct as_mapping m = list->items[i];
        size_t at = as_target_mapping_from(t, m.start);
        if (!m.not_inherited || (at < t->mappings.count && t->mappings.items[at].start < m.end))
            continue;
        if (!as_vec_reserve(&t->mappings, 1, err))
            return false;
        m.path = as_strings_add(&t->strings, as_strings_at(paths, m.path), SIZE_MAX);
        m.out_of_reach = true;
        memmove(t->mappings.items + at + 1, t->mappings.items + at, (t->mappings.count - at) * sizeof m);
        t->mappings.items[at] = m;
        ++t->mappings.count;
    }
    return true;
}

static void sum_up(struct as_target *t)
{
    t->counts.rss = t->counts.swap = 0;
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings) {
        t->counts.rss = t->counts.rss == AS_UNKNOWN || m->rss == AS_UNKNOWN ? AS_UNKNOWN : t->counts.rss + m->rss;
        t->counts.swap = t->counts.swap == AS_UNKNOWN || m->swap == AS_UNKNOWN ? AS_UNKNOWN : t->counts.swap + m->swap;
    }
}

// The mappings as they are listed now, which are to be freed; the target has none then. The names of those that a child does
// not get, which the next reading overwrites, go into `paths`.
static as_mapping_vec take_mappings(struct as_target *t, struct as_strings *paths)
{
    as_mapping_vec list = {t->mappings.items, t->mappings.count, t->mappings.capacity};
    for (size_t i = 0; i < list.count; ++i) {
        if (list.items[i].not_inherited)
            list.items[i].path = as_strings_add(paths, as_mapping_path(t, &list.items[i]), SIZE_MAX);
    }
    t->mappings.items = NULL;
    t->mappings.count = t->mappings.capacity = 0;
    return list;
}

// Says what was counted in the target, and when.
static void remark(struct as_process *p, double later_ms, size_t changed)
{
    const struct as_target *t = &p->base;
    uint64_t kept = 0;
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings)
        kept += m->out_of_reach && m->rss != AS_UNKNOWN ? m->rss : 0;
    char bytes[96] = "";
    if (kept != 0)
        snprintf(bytes, sizeof bytes, ", and %llu bytes that a clone does not inherit (MADV_DONTFORK),",
                 (unsigned long long)kept);
    int length = snprintf(
        p->clone.note, sizeof p->clone.note,
        "pages of files and of shared memory%s were counted in the target, %.1f ms after the clone was made: a clone "
        "does not inherit their page tables",
        bytes, later_ms);
    if (changed > 0)
        snprintf(p->clone.note + length, sizeof p->clone.note - (size_t)length,
                 "; %zu mapping%s gone or changed by then: counted shortly before the clone", changed,
                 changed == 1 ? "" : "s");
    p->base.stop.note = p->clone.note;
}

// Reads the mappings of the clone and, for what it has not inherited, of the target, which were counted before it was cloned: both at once
// where that can be, as either makes the kernel go through all page tables.
static bool read_mappings(struct as_process *p, uint64_t born_ns, struct as_error *err)
{
    struct as_target *t = &p->base;
    struct as_strings paths = {0};
    as_mapping_vec before = take_mappings(t, &paths);
    as_mapping_vec since = {0};
    pid_t clone = p->clone.pid;
    bool beside = as_process_count_begin(t);
    change_view(p);
    p->clone.pid = 0;
    struct as_error gone;
    if (as_process_refresh_maps(p, true, &gone)) // it may have ended by now; its clone has not
        since = take_mappings(t, &paths);
    double later_ms = (double)(as_now_ns() - born_ns) / 1e6;
    p->clone.pid = clone;
    change_view(p);
    p->lost = false;
    size_t changed = 0;
    bool ok =
        beside ? as_process_count_take(t, err) && as_process_intact(t, err) : as_process_refresh_maps(p, true, err);
    if (!ok) { // it is to be caught in another way, perhaps
        as_vec_free(&t->mappings);
        t->mappings.items = before.items;
        t->mappings.count = before.count;
        t->mappings.capacity = before.capacity;
        before = (as_mapping_vec){0};
    } else {
        merge(t, &before, &since, &changed);
        ok = add_kept(t, since.count > 0 ? &since : &before, &paths, err);
        sum_up(t);
    }
    remark(p, later_ms, changed);
    as_vec_free(&before);
    as_vec_free(&since);
    as_vec_free(&paths);
    return ok;
}

static bool may_catch(struct as_process *p, struct as_error *err)
{
    if (p->base.pid == getpid())
        return as_fail(err, AS_USAGE, "process %d is arenadump itself: it cannot stop itself", p->base.pid);
    if (p->tracees.count > 0) // a thread that an earlier resume could not let go
        as_process_resume(&p->base);
    return true;
}

bool as_process_stop_clean(struct as_target *t, const struct as_critical *critical, struct as_error *err)
{
    struct as_process *p = as_process_of(t);
    struct as_birth birth;
    if (t->stop.active)
        return true;
    if (!may_catch(p, err) || !start_supervisor(p, critical, false, err))
        return false;
    bool ok = await_birth(p, &birth, err);
    if (ok) {
        t->stop.active = true;
        t->stop.outcome = birth.outcome;
        t->stop.note = NULL;
        // With pages in swap every read needs to know; else the count may wait for the snapshot, and be done beside it.
        t->counts.pending = t->hint.swap == 0;
        ok = as_process_refresh_maps(p, !t->counts.pending, err);
    }
    if (!ok)
        as_process_let_go(t);
    return ok;
}

bool as_process_fork(struct as_target *t, const struct as_critical *critical, struct as_error *err)
{
    struct as_process *p = as_process_of(t);
    struct as_birth birth;
    if (t->stop.active)
        return as_fail(err, AS_INTERNAL, "process %d is stopped already by this snapshot", t->pid);
    struct as_proc_stat stat;
    t->stop.job_control = as_proc_stat(p->view_fd, "stat", &stat) && stat.state == 'T';
    t->stop.duration_ns = 0;
    // A freeze that was given up may have left it to the snapshot to count: that would count the clone, which has no files.
    t->counts.pending = false;
    if (!may_catch(p, err) || !is_quick(p, err) || !as_process_refresh_maps(p, true, err) || !is_whole(p, err) ||
        !is_roomy(p, err) || !start_supervisor(p, critical, true, err))
        return false;
    bool ok = await_birth(p, &birth, err) && open_clone(p, birth.pid, err);
    if (ok) {
        t->stop.active = true;
        t->stop.outcome = birth.outcome;
        ok = read_mappings(p, as_now_ns(), err);
    }
    if (!ok) {
        dismiss(p);
        t->stop.active = false;
        if (t->stop.let_go) // then whatever failed did so for that
            return as_fail(err, AS_NO_MEMORY, "%s", t->stop.let_go);
    }
    return ok;
}
