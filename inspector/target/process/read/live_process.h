// SPDX-License-Identifier: MIT
// A live process, as all of process/ and self.c share it, and what is read of it. Internal to target/ and inject/, and to their tests.
#pragma once

#include "target/procfs.h"
#include "target/target.h"

#include <pthread.h>

// What is known of a stopped thread.
struct as_registers {
    bool known;
    bool endless; // it waits in a system call that has no limit of time and would fail with EINTR because of us
    uint64_t pc, sp;
    uint64_t lr;        // the return address of a function that calls no other (aarch64); 0 on x86-64
    uint64_t signature; // bits of a return address that may be its signature (aarch64 with PAC), not part of it
    uint64_t tp;
    int64_t call; // number of the system call that it is in or comes from, -1: none
    int64_t result;
    uint64_t argument; // the call's first; AS_UNKNOWN: it is lost
    uint64_t general[AS_GENERAL_REGISTERS];
};

// A word of the thread's stack or registers without the signature that it has if it is a return address.
static inline uint64_t as_registers_unsigned(const struct as_registers *r, uint64_t word)
{
    return word & ~r->signature;
}

// A system call that a thread sleeps in, by its number (-1: none).
struct as_sleep {
    int64_t call;
    uint64_t arguments[6];
};

// A thread that we have attached to.
struct as_tracee {
    pid_t tid;
    int signal;                    // that it was about to receive when it stopped: given to it as we detach
    bool stopped;                  // else it is attached and still runs
    bool group_stopped;            // by SIGSTOP and the like: it would not run if we were not here
    bool inside;                   // of the code that it must not be in the middle of
    bool guarded;                  // its sleep would be restarted under a seccomp filter; see restart.h
    bool escorted;                 // it runs, and until its sleep has ended a filter may be suspended for it
    bool suspended;                // while it is escorted: the filter is, it is in restart_syscall or about to be
    bool entered;                  // while it is escorted: it has begun a system call
    uint64_t ticks;                // of processor time that it had when it was escorted
    struct as_sleep sleep;         // of one that is guarded
    struct as_registers registers; // while it is stopped, and once they have been asked for
};

// May threads be escorted (see restart.h)? Only a process that serves them asks.
enum as_escort { AS_ESCORT_DENIED, AS_ESCORT_UNTRIED, AS_ESCORT_ALLOWED };

#define AS_SUPERVISOR_NAME "arenadump-guard" // as the kernel shows it; 15 characters at most

// How the target is held by another process of ours, and the clone of it, if there is one, through which we inspect the
// time at which it was made; see clone_target.c.
struct as_clone {
    pid_t pid;                       // 0: there is none
    pid_t supervisor;                // 0: there is none
    int socket;                      // to the supervisor: once it is closed, all is undone
    int view_fd, mem_fd, pagemap_fd; // the target's own, while p's are the clone's
    pid_t view_tid;
    char note[512]; // behind base.mode_note
};

// How the pages were classified whose pagemap entry alone does not tell the zero page; see process_residency.c.
enum as_zero_verdict { AS_ZERO_NONE = 1, AS_ZERO_ALL = 2, AS_ZERO_MIXED = 3 };

// What is being read of the target's memory, or of its clone's; the supervisor sees it, too. Of all that has the kernel hold that memory
// (mem, process_vm_readv, pagemap, smaps) the begin and the end are counted.
struct as_reads {
    _Atomic uint64_t begun, ended;
    atomic_bool over; // nothing is read any more, and what is being read ends soon: the supervisor gives the clone up
    char why[640];    // it does; written before `over`
};

// Its memory may be read, and its pages be asked for, by several threads at once.
struct as_process {
    struct as_target base; // first: a pointer to one is a pointer to the other
    pthread_mutex_t lock;  // of what asking for pages, and searching for another thread to reads through, write down
    int proc_fd;           // /proc/PID
    // /proc/TID of a thread that still has the memory: /proc/PID itself until the group's leader exits before the
    // others; from then on the leader's files are empty and any living thread's serve.
    int view_fd;
    _Atomic pid_t view_tid;
    int mem_fd, pagemap_fd;  // both stay with the memory they were opened on: after an exec they read nothing
    int kpageflags_fd;       // -1: not allowed
    atomic_bool no_vm_readv; // process_vm_readv is forbidden here (an old container's seccomp filter): use mem_fd
    struct as_reads *reads;  // shared with the supervisor, or own_reads
    struct as_reads own_reads;
    atomic_bool lost; // a read found that the thread through which we read has no memory any more
    bool no_scan;     // PAGEMAP_SCAN is not known to this kernel, or not wanted (tests)
    bool no_guard;    // PAGE_IS_GUARD is not known to this kernel
    bool no_smaps;    // the kernel was built without smaps
    bool counting;    // the mappings come from smaps
    enum as_escort escort;
    bool was_held; // another inspector had it when we tried to stop it, and may have let it go since
    AS_VEC(struct as_tracee) tracees;
    as_pid_vec tids;                // scratch of the freeze
    uint64_t dev_shmem;             // the kernel's own tmpfs, as AS_DEV: memfd, SysV, shared anonymous
    AS_VEC(uint64_t) dev_tmpfs;     // mounted tmpfs, as AS_DEV
    size_t strings_kept;            // of base.strings, what outlives a refresh: exe, cmdline
    uint64_t patience_ns;           // for which we wait until all threads have stopped; 0: two seconds
    uint64_t stop_began;            // as_now_ns
    uint64_t stood_ns;              // how long it stood still in attempts before that
    uint64_t due_ns;                // as_now_ns when the supervisor lets it go; 0: when we say so
    _Atomic uint64_t verdict_start; // the mapping that `verdict` is about
    enum as_zero_verdict verdict;
    uint64_t occupied_start;          // the mapping that `occupied` is about; AS_UNKNOWN: none
    AS_VEC(struct as_range) occupied; // stretches of it outside of which all pages are absent; see absent_ranges.c
    struct as_clone clone;
    struct as_counting *counter;    // see rss_counter.c; NULL: nobody counts
    struct as_swap_room *swap_room; // see swap_room.c; NULL: nobody has asked
};

#define AS_DEV(major, minor) ((uint64_t)(major) << 32 | (uint32_t)(minor))

static inline struct as_process *as_process_of(struct as_target *t)
{
    return (struct as_process *)t;
}

// Is a read under way?
static inline bool as_reads_pending(const struct as_reads *reads)
{
    uint64_t ended = reads->ended; // before what has begun: more may begin and end meanwhile
    return reads->begun != ended;
}

// Before and after a read. begin false: nothing is to be read any more.
static inline bool as_process_read_begin(const struct as_process *p)
{
    p->reads->begun++;
    if (!p->reads->over)
        return true;
    p->reads->ended++;
    return false;
}
static inline void as_process_read_end(const struct as_process *p)
{
    p->reads->ended++;
}

// access.c
// Makes view_fd a thread that still has the memory. False: none is left (AS_TARGET_GONE), or a zombie.
bool as_process_view(struct as_process *p, struct as_error *err);
// Is the memory that we opened still there: neither exited nor replaced by an exec? One system call, touches nothing.
bool as_process_alive(const struct as_process *p);
// That its memory is gone, as an error (AS_TARGET_GONE). False.
bool as_process_gone(const struct as_process *p, struct as_error *err);
// That the clone is gone, as an error (AS_NO_MEMORY) and in stop.let_go: the supervisor has given it up, or somebody has killed it. False.
bool as_process_given_up(struct as_process *p, struct as_error *err);
// What a file of /proc did not tell, with errno; where that says that the memory is gone, so do we. False.
bool as_process_unread(const struct as_process *p, const char *what, struct as_error *err);
// Fills in p->tids. AS_TARGET_GONE, with the process's number; AS_NO_MEMORY, where there are no descriptors, too.
bool as_process_list_threads(struct as_process *p, struct as_error *err);
// Does a thread of it live, of whichever program? For a process that could not be opened: beside an exec it may be none of those.
bool as_process_runs(pid_t pid);
// As as_target_ops.intact.
bool as_process_intact(struct as_target *t, struct as_error *err);
// The code for a file that could not be opened, by errno: AS_NO_MEMORY where we may have no more files open, or have no
// memory, which says nothing of the process; else `otherwise`.
enum as_code as_process_unopened(enum as_code otherwise);
// Why we may not inspect, in words, with what to do about it; AS_DENIED. Always returns false.
bool as_process_denied(const struct as_process *p, const char *what, struct as_error *err);

// deadline.c
// When the target that is being stopped has to run on, as as_now_ns; UINT64_MAX: no limit.
uint64_t as_process_due(const struct as_process *p);
// Fails for that (AS_DENIED), and says so in t->stop.deadline_exceeded. Always returns false.
bool as_process_deadline_exceeded(struct as_process *p, struct as_error *err);

// maps.c
// Learns which devices are tmpfs, to tell shared memory from files. Never fails: names are the fallback.
void as_process_learn_tmpfs(struct as_process *p);
bool as_process_is_tmpfs(const struct as_process *p, uint64_t dev);
// As as_process_refresh_maps, but through view_fd as it is.
bool as_process_read_maps(struct as_process *p, bool count, struct as_error *err);
// Reads mappings anew; `count`: and what is resident of each, in all rss and swap. Without it these are AS_UNKNOWN.
bool as_process_refresh_maps(struct as_process *p, bool count, struct as_error *err);
// Lists the threads anew with their names; registers AS_UNKNOWN.
bool as_process_refresh_threads(struct as_process *p, struct as_error *err);
// The name of a thread, if it still lives.
void as_process_read_thread_name(const struct as_process *p, struct as_thread *thread);

// rss_counter.c
// As as_target_ops.residency.count_begin and count_end.
bool as_process_count_begin(struct as_target *t);
bool as_process_count_end(struct as_target *t, struct as_error *err);
// Ends what as_process_count_begin began through the view_fd of that time: its mappings become the target's. False:
// AS_NO_MEMORY, or as as_process_read_maps.
bool as_process_count_take(struct as_target *t, struct as_error *err);

// process_residency.c
bool as_process_residency(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err);

// absent_ranges.c
// As as_target_ops.absent_until, with the lock held.
uint64_t as_process_first_occupied(struct as_process *p, uint64_t start, uint64_t end);
uint64_t as_process_absent_until(struct as_target *t, uint64_t start, uint64_t end);

// mapped_files.c
int as_process_open_file(struct as_target *t, const struct as_mapping *mapping, struct as_error *err);
int as_process_open_root(struct as_target *t);

// open_files.c
// As as_target_ops.open_files.
bool as_process_open_files(struct as_target *t, struct as_open_files *out, struct as_error *err);

// swap.c
void as_process_page_out(struct as_target *t, const struct as_range *ranges, size_t count);

// swap_room.c
// As as_residency_ops.has_room.
bool as_process_has_swap_room(struct as_target *t, uint64_t bytes, char *why, size_t size);
void as_process_forget_swap_room(struct as_process *p);
// How many of `length` bytes at `address` lie before the first page that is swapped out now.
size_t as_process_unswapped(const struct as_process *p, uint64_t address, size_t length);
