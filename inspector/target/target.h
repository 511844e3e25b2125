// SPDX-License-Identifier: MIT
// Whose memory we inspect: a live process, a core file, or ourselves. One small interface, three backends.
// Knows mappings, threads, bytes and residency; knows nothing of malloc. Nothing here ever writes to a target.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "model/enums.h"
#include "target/mapping.h"
#include "target/memory.h"
#include "target/open_files.h"
#include "target/residency.h"
#include "target/stop.h"
#include "target/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Our own memory that is read in place, because nobody unmaps or protects it now. The kernel copies all other memory: it faults for nobody.
struct as_target_in_place {
    AS_VEC(struct as_range) ranges;
    bool only; // false: what was mapped when the target was opened is read in place too
};

struct as_target_ops {
    struct as_memory_ops memory;
    struct as_residency_ops residency;
    struct as_stop_ops stop;
    // Opens the file behind a mapping, for reading: never another file that took its name since. -1 and `err` if
    // it cannot be had (deleted and map_files denied, or not on this machine).
    int (*open_file)(struct as_target *t, const struct as_mapping *mapping, struct as_error *err);
    // A handle (O_PATH) of the target's own root directory, for target/paths.h; -1. NULL: it has none but ours.
    int (*open_root)(struct as_target *t);
    // Files in memory that it has open now, and that none of the mappings shows as they were last read; the caller frees out->files.
    // AS_NO_MEMORY. NULL: that is never known.
    bool (*open_files)(struct as_target *t, struct as_open_files *out, struct as_error *err);
    void (*close)(struct as_target *t);
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
// resident of its mappings is not known before ops->stop.stop, stop_clean, fork or count.
struct as_target *as_target_open_process(pid_t pid, struct as_error *err);
// A core file of x86-64 or aarch64: AS_NO_TARGET, AS_BAD_INPUT (not a core, truncated), AS_UNSUPPORTED (32-bit, ...).
// What of a truncated core's memory is missing reads as unreadable; no header at all of it is AS_BAD_INPUT.
struct as_target *as_target_open_core(const char *path, struct as_error *err);
// By what a file that begins with these bytes is compressed ("zstd"), as cores often are; NULL: not by anything known.
const char *as_core_compression(const void *head, size_t length);
// Ourselves, read in place. Stops nothing. `counted`: what is resident of each mapping is known (ops->residency.count does it later): for
// that the kernel goes through the page tables, 14 ms for each GB, and nobody gets memory from it (brk, mmap) until it is through
// with a mapping. Without it which pages are resident can still be asked.
struct as_target *as_target_open_self(bool counted, struct as_error *err);

// Is it ourselves? The agent inspects nothing else: the compiler leaves out of the agent what only other targets need.
static inline bool as_target_is_self(const struct as_target *t)
{
#ifdef AS_AGENT
    (void)t;
    return true;
#else
    return t->kind == AS_TARGET_SELF;
#endif
}

// Resumes first if need be. NULL is allowed.
void as_target_close(struct as_target *t);

static inline void as_target_resume(struct as_target *t)
{
    if (t->ops->stop.resume)
        t->ops->stop.resume(t);
}

static inline const char *as_mapping_path(const struct as_target *t, const struct as_mapping *m)
{
    return as_strings_at(&t->strings, m->path);
}
