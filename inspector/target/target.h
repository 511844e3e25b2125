// SPDX-License-Identifier: MIT
// Whose memory we look at: a live process, a core file, or ourselves. One small interface, three backends.
// Knows mappings, threads, bytes and residency; knows nothing of malloc. Nothing here ever writes to a target.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "model/enums.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// One line of /proc/PID/smaps, or one PT_LOAD (with NT_FILE) of a core. Sorted by start, never overlapping.
struct as_mapping {
    uint64_t start, end;
    uint64_t offset; // in the file, bytes
    uint64_t inode;
    uint32_t dev_major, dev_minor;
    uint32_t prot; // AS_PROT_*
    enum as_mapping_kind kind;
    uint32_t path;      // in as_target.strings, as the kernel prints it ("" when it has no name), newlines unescaped
    uint64_t rss;       // bytes, smaps Rss; AS_UNKNOWN in a core, and until it is counted
    uint64_t shared;    // bytes of a private mapping that others map too, since a fork or by KSM; likewise
    uint64_t anonymous; // bytes, smaps Anonymous; likewise
    uint64_t swap;      // bytes, smaps Swap; likewise
    uint64_t hugetlb;   // bytes, smaps Private_Hugetlb + Shared_Hugetlb (never part of Rss); likewise
    uint64_t kernel_page_size; // bytes, smaps KernelPageSize: 2 MiB for hugetlb mappings
    bool recorded;             // its residency is in target.residency.runs
    bool not_inherited;        // a child gets it empty or not at all (MADV_DONTFORK, MADV_WIPEONFORK)
    bool out_of_reach;         // likewise, and a clone is what we look at: counted in the target, and never read
    bool droppable;            // the kernel may take it at any time (MAP_DROPPABLE)
    bool noreserve;            // mapped with MAP_NORESERVE. False where its counts are not known
    bool locked; // in memory (mlock): madvise gives nothing of it back. False where its counts are not known
};

// Pages of which the kernel said the same (AS_RES_* bits, not 0).
struct as_page_run {
    uint64_t start, end;
    uint8_t residency;
};

struct as_thread {
    pid_t tid;
    char name[16]; // "" when not known (cores)
    uint64_t tp;   // thread pointer (fs_base, TPIDR_EL0); AS_UNKNOWN when the thread could not be stopped
    uint64_t sp, pc;
};

struct as_target;

// Addresses [start, end).
struct as_range {
    uint64_t start, end;
};

// Code that changes what we are going to read: no thread may be caught in the middle of it.
struct as_critical {
    const struct as_range *code;   // that code
    const struct as_range *around; // and what it may call: a thread in there is in it if its stack says so
    size_t count;                  // of both
    bool complete;                 // false: there is more such code, and where it lies is not known
    bool (*held)(struct as_target *t, const void *context); // is a lock of that code taken?
    const void *context;
};

// How a target was stopped.
enum as_stop_outcome {
    AS_STOP_CLEAN = 0,  // no thread is in the middle of critical code
    AS_STOP_BUSY = 1,   // one is, at every attempt
    AS_STOP_UNKNOWN = 2 // one may be: where its code lies is not known
};

struct as_target_ops {
    // Copies up to `length` bytes at `address` into `buffer`; returns how many, counted from the start, could be
    // read: short when a page in between cannot be. Holes of a core read as zeros.
    size_t (*read)(struct as_target *t, uint64_t address, void *buffer, size_t length);
    // From where on something may be readable again: `address` itself, unless it is known that a stretch of memory begins
    // there of which nothing can be read (a core's that is not in its file). NULL: that is never known.
    uint64_t (*missing_until)(struct as_target *t, uint64_t address);
    // The bytes themselves when they lie in our own address space (self, a mapped core), else NULL. *length is
    // lowered to what is contiguous. NULL as an operation: never.
    const void *(*in_place)(struct as_target *t, uint64_t address, size_t *length);
    // One byte of AS_RES_* per page of [start, end), both page-aligned. False: the kernel would not say (and `err`
    // why); pages of a target whose residency cannot be known at all are AS_RES_UNKNOWN, and that is success.
    bool (*residency)(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err);
    // From where on in [start, end), which is page-aligned, a page may be other than absent: that page, or one before it; `end`
    // where there is none. Costs what is resident there rather than what is reserved, as far as the kernel lets us: pagemap
    // (before Linux 6.7) has 8 bytes for each page, resident or not. NULL: that is never known.
    uint64_t (*absent_until)(struct as_target *t, uint64_t start, uint64_t end);
    // Reads the mappings anew, and what is resident of each of them now. NULL: it is never known.
    bool (*count)(struct as_target *t, struct as_error *err);
    // As count, of mappings that were read since the target was stopped, on a thread of its own: between the two nothing but
    // `residency` may be called. count_begin false: there is no thread to be had. NULL: it makes no sense.
    bool (*count_begin)(struct as_target *t);
    bool (*count_end)(struct as_target *t, struct as_error *err);
    // Opens the file behind a mapping, for reading: never another file that took its name since. -1 and `err` if
    // it cannot be had (deleted and map_files denied, or not on this machine).
    int (*open_file)(struct as_target *t, const struct as_mapping *mapping, struct as_error *err);
    // A handle (O_PATH) of the target's own root directory, for target/paths.h; -1. NULL: it has none but ours.
    int (*open_root)(struct as_target *t);
    // Stops every thread (freeze) and reads mappings and threads anew; resume undoes it. Both no-ops for cores, and
    // for ourselves. After stop: t->threads have tp, sp, pc.
    bool (*stop)(struct as_target *t, struct as_error *err);
    void (*resume)(struct as_target *t);
    // As stop, but at a moment when no thread is in the middle of critical code, if there is one to be had soon: see
    // t->stop.outcome. NULL: nothing of the target runs.
    bool (*stop_clean)(struct as_target *t, const struct as_critical *critical, struct as_error *err);
    // As stop_clean, but has the target clone itself then, copy-on-write, and run on: until resume all that is read is
    // the clone's, but for what children do not get: see as_mapping.out_of_reach. AS_UNSUPPORTED or AS_NO_MEMORY, with the
    // reason: this target cannot be cloned, or not now; it runs then. NULL: no target of this kind can.
    bool (*fork)(struct as_target *t, const struct as_critical *critical, struct as_error *err);
    // Whether all that was read since the last stop (or since it was opened) was the target's own memory. False and
    // AS_TARGET_GONE: it exited or exec'd meanwhile, and the rest read as nothing; t->stop.deadline_exceeded: it was let go. NULL: it cannot
    // go away.
    bool (*intact)(struct as_target *t, struct as_error *err);
    void (*close)(struct as_target *t);
    // Has the kernel move pages to swap, as far as it will. NULL: reading brings nothing back from there.
    void (*page_out)(struct as_target *t, const struct as_range *ranges, size_t count);
    // What as_target_gather does, where the backend has something better than one read after the other; may be NULL.
    void (*gather)(struct as_target *t, const uint64_t *addresses, size_t count, size_t length, void *out,
                   size_t stride, bool *ok);
};

// Sums over the mappings, bytes. AS_UNKNOWN in a core, and until the target is counted.
struct as_target_counts {
    uint64_t rss, swap, shared;
    bool pending; // the target stands still, and is counted by as_target_record_residency
};

// A running process's status as it was opened, bytes: it lags. AS_UNKNOWN: not known.
struct as_target_hint {
    uint64_t anonymous; // resident anonymous memory
    uint64_t swap;
};

struct as_target_residency {
    bool known;                      // false: a gcore, or a core file that lost its holes
    bool swap_unknown;               // residency does not tell whether a page is swapped (mincore)
    const char *note;                // why residency is not, or not wholly, known; NULL when it is exact
    AS_VEC(struct as_page_run) runs; // of the recorded mappings: what is not absent, by address
    bool preparing;                  // it was recorded, and the target is still to be stopped
    AS_VEC(struct as_range) fetched; // what was read from swap while preparing
};

// Of ourselves: memory that is read in place, because nobody unmaps or protects it now. The kernel copies all other memory:
// it faults for nobody.
struct as_target_in_place {
    AS_VEC(struct as_range) ranges;
    bool only; // false: what was mapped when the target was opened is read in place too
};

struct as_target_stop {
    bool active;                  // the target stands still, or its clone is read
    enum as_stop_outcome outcome; // of the last stop_clean or fork
    bool job_control;             // at the last fork the target had been stopped by a signal (SIGSTOP, Ctrl-Z)
    const char *note;             // what else the user must know of the outcome; NULL: nothing
    uint64_t duration_ns;         // of the last stop, stop to resume; 0 before the first
    // How long the target may stand still in the next stop_clean or fork, all attempts together; 0: no limit. Past the limit
    // the target is resumed at once, and stop_clean, fork or intact fails (AS_DENIED) and sets `deadline_exceeded`. A clone
    // that has begun has no limit, but a clone that is expected to take longer is not begun.
    uint64_t limit_ns;
    bool deadline_exceeded;
};

struct as_target {
    const struct as_target_ops *ops;
    enum as_target_kind kind;
    enum as_arch arch;
    uint32_t page_size;
    pid_t pid;        // in our PID namespace; for a core the pid it had
    char comm[16];    // as the kernel keeps it; may hold any bytes
    uint32_t exe;     // path, in strings
    uint32_t cmdline; // arguments joined by spaces, in strings
    AS_VEC(struct as_mapping) mappings;
    AS_VEC(struct as_thread) threads;
    struct as_strings strings;
    struct as_target_counts counts;
    struct as_target_hint hint;
    struct as_target_residency residency;
    struct as_target_in_place in_place;
    struct as_target_stop stop;
};

// Each returns a target to be closed with as_target_close, or NULL and `err`.
// A process: AS_NO_TARGET (no such pid), AS_DENIED, AS_UNSUPPORTED (kernel thread, zombie, 32-bit). Does not stop it. What is
// resident of its mappings is not known before ops->stop, stop_clean, fork or count.
struct as_target *as_target_open_process(pid_t pid, struct as_error *err);
// A core file of x86-64 or aarch64: AS_NO_TARGET, AS_BAD_INPUT (not a core, truncated), AS_UNSUPPORTED (32-bit, ...).
// What of a truncated core's memory is missing reads as unreadable; no header at all of it is AS_BAD_INPUT.
struct as_target *as_target_open_core(const char *path, struct as_error *err);
// By what a file that begins with these bytes is compressed ("zstd"), as cores often are; NULL: not by anything known.
const char *as_core_compression(const void *head, size_t length);
// Ourselves, read in place. Stops nothing. `counted`: what is resident of each mapping is known (ops->count does it later): for
// that the kernel goes through the page tables, 14 ms for each GB, and nobody gets memory from it (brk, mmap) until it is through
// with a mapping. Without it which pages are resident can still be asked.
struct as_target *as_target_open_self(bool counted, struct as_error *err);

// Resumes first if need be. NULL is allowed.
void as_target_close(struct as_target *t);

// --- shared by all backends (target.c) ---

// Reads exactly `length` bytes or returns false. No error text: the caller knows what it was after. Of a stopped target this
// and all that follow leave absent pages alone (as_target_read_resident).
bool as_target_read(struct as_target *t, uint64_t address, void *buffer, size_t length);
bool as_target_read_u64(struct as_target *t, uint64_t address, uint64_t *value);

// Reads `length` bytes at each of `count` addresses into `out`, `stride` bytes apart, in few system
// calls; ok[i] says whether address i could be read.
void as_target_gather(struct as_target *t, const uint64_t *addresses, size_t count, size_t length, void *out,
                      size_t stride, bool *ok);

// The index of the first mapping that ends behind `address`; mappings.count when there is none.
size_t as_target_mapping_from(const struct as_target *t, uint64_t address);
// Takes the residency of all private anonymous memory that anything has come of, to be called right after stop and before
// anything is read: reading changes it.
bool as_target_record_residency(struct as_target *t, struct as_error *err);

// Where to go on from `address` for one who looks through memory: behind what is known to be missing there
// (as_target_ops.missing_until).
uint64_t as_target_skip_missing(struct as_target *t, uint64_t address);
// The first page of [start, end) that may be other than absent, as recorded, else as the kernel says now; or one before it;
// `end`: there is none. Who looks through memory goes on from there.
uint64_t as_target_skip_absent(struct as_target *t, uint64_t start, uint64_t end);
// One byte of AS_RES_* per page of [start, end): as recorded, else as the kernel says now (as_target_ops.residency).
bool as_target_residency(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err);

// As as_target_ops.read, but of a stopped target absent pages are not touched: they are zeros; and what comes back from swap
// is sent there again at once, as far as we may.
size_t as_target_read_resident(struct as_target *t, uint64_t address, void *buffer, size_t length);
// Sends what was swapped out at the last capture, and came back by being read, to swap again, as far as we may: reading does
// so already, but the kernel moves no page that another processor has at hand. While `preparing` it takes little time.
void as_target_send_back(struct as_target *t);
// How many bytes of that are in memory now.
uint64_t as_target_brought_back(struct as_target *t);

// The mapping that holds `address`, or NULL.
const struct as_mapping *as_target_mapping_at(const struct as_target *t, uint64_t address);
static inline const char *as_mapping_path(const struct as_target *t, const struct as_mapping *m)
{
    return as_strings_at(&t->strings, m->path);
}

// A window onto a target's memory for one forward pass: reads up to AS_WINDOW_BYTES at a time into one buffer that is
// reused (so it stays in cache), or none at all where the memory can be read in place.
enum { AS_WINDOW_BYTES = 1 << 20 };
struct as_read_ahead;
struct as_window {
    struct as_target *target;
    struct as_read_ahead *ahead; // reads on while the walk is busy; NULL until the way is seen to be straight
    // How many threads do as we do: who has a processor to spare reads ahead. NULL: we are alone.
    const atomic_uint *busy;
    long processors;
    uint8_t *buffer;
    const uint8_t *bytes; // the current window: in the buffer, or in place
    uint64_t address;     // of bytes[0] in the target
    size_t length;
    size_t step;         // how much was to be read last
    uint64_t limit;      // never read at or beyond this address
    uint64_t bytes_read; // statistics
};
bool as_window_open(struct as_window *w, struct as_target *t, struct as_error *err);
void as_window_close(struct as_window *w);
// Moves the window to begin at `address`; false when not even `need` bytes can be read there.
bool as_window_move(struct as_window *w, uint64_t address, size_t need);

// The bytes at `address`, at least `need` of them, valid until the next call; NULL when they cannot be read.
static inline const void *as_window_at(struct as_window *w, uint64_t address, size_t need)
{
    if (address - w->address > w->length || w->length - (address - w->address) < need) {
        if (!as_window_move(w, address, need))
            return NULL;
    }
    return w->bytes + (address - w->address);
}
