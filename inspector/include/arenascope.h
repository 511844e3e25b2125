// SPDX-License-Identifier: MIT
/* arenascope, in the process itself: where did its memory go, and what will bring it back?
 *
 * Every function may be called from any thread at any time, also in a child of fork(). Only arenascope_request_dump() may be
 * called from a signal handler. No function holds a lock of the library while it waits for a lock of malloc. No function
 * allocates from malloc, except arenascope_set_policy() and arenascope_dump_at(), which may have to start the library's thread.
 * Sizes are in bytes, times in nanoseconds. An unknown number is ARENASCOPE_UNKNOWN, never 0.
 *
 * Structs that the library fills or reads begin with their own size, which the caller sets (ARENASCOPE_INIT). So a program
 * that was built with an older header works with a newer library, and vice versa.
 */
#ifndef ARENASCOPE_H
#define ARENASCOPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define ARENASCOPE_UNKNOWN UINT64_MAX
#define ARENASCOPE_ALL_ARENAS UINT64_MAX

/* For each struct below: struct arenascope_summary s = ARENASCOPE_INIT(s); */
#ifdef __cplusplus
#define ARENASCOPE_INIT(variable)                                                                                      \
    {                                                                                                                  \
        sizeof(variable)                                                                                               \
    }
#else
#define ARENASCOPE_INIT(variable)                                                                                      \
    {                                                                                                                  \
        .size = sizeof(variable)                                                                                       \
    }
#endif

/* Functions return one of these codes. They are also arenadump's exit codes. */
enum arenascope_code {
    ARENASCOPE_OK = 0,
    ARENASCOPE_INTERNAL = 1,    /* a bug in arenascope: an invariant did not hold */
    ARENASCOPE_USAGE = 2,       /* an argument makes no sense */
    ARENASCOPE_NO_TARGET = 3,   /* no such process, no such file */
    ARENASCOPE_DENIED = 4,      /* the kernel or a sandbox forbids it, or the application uses the signal */
    ARENASCOPE_UNSUPPORTED = 5, /* another architecture, or malloc's layout could not be proven */
    ARENASCOPE_BAD_INPUT = 6,   /* malloc's own data are inconsistent: the heap is corrupt */
    ARENASCOPE_TARGET_GONE = 7, /* the process ended meanwhile */
    ARENASCOPE_IO = 8,          /* the file could not be written */
    ARENASCOPE_NO_MEMORY = 9,
    ARENASCOPE_NO_MALLOC = 10 /* malloc is not glibc's in this process */
};

/* Why the last call in this thread failed: what was tried, what was found, what to do. "" if it did not fail. Valid until the
 * thread's next call of this library. */
const char *arenascope_error(void);

/* "0.1.0" */
const char *arenascope_version(void);

/* --- Snapshots ------------------------------------------------------------------------------------------------------------- */

enum { ARENASCOPE_CHUNKS = 1 }; /* flag: also record every chunk */

/* Writes a dump file in the format of `arenadump dump`. Each arena is walked in place under its own lock, one after the other.
 * The file has mode 0600, and appears under its name only when it is complete. A symlink at `path` is not followed. */
int arenascope_dump(const char *path, unsigned flags);
/* The same into an open file, from its beginning. The file must be a regular file or a memfd, open for reading and writing,
 * not for appending. */
int arenascope_dump_fd(int fd, unsigned flags);

/* The ledger of this process (docs/ledger.md defines each row). */
struct arenascope_summary {
    size_t size;
    uint64_t rss, swap; /* of the process, by its page tables */
    uint64_t arenas, heaps, threads;
    uint64_t torn_chunks;  /* torn chunks: places at which a walk could not continue */
    uint64_t longest_hold; /* the longest time for which an arena was locked */
    uint64_t exact;        /* 0: threads ran meanwhile, so the rows need not add up to the byte; otherwise 1 */
    uint64_t ruby_page_count, ruby_slots,
        ruby_free_slots; /* numbers of them; 0 in a process without Ruby; unknown if the row is */
    /* The ledger's rows, and the forecast: what a trim would return now. */
#include "../model/rows_public.h"
};
int arenascope_summarize(struct arenascope_summary *out);

/* --- Trims -------------------------------------------------------------------------------------------------------------- */

enum {
    ARENASCOPE_DEEP =
        1, /* also return whole free pages that malloc_trim never returns, above all the tops of thread arenas */
};

struct arenascope_trim_options {
    size_t size;
    uint64_t flags;    /* ARENASCOPE_DEEP */
    uint64_t max_hold; /* no arena is locked for longer at a time; 0: not bounded, like malloc_trim itself */
    uint64_t arena;    /* address of the only arena to trim; ARENASCOPE_ALL_ARENAS or 0: all arenas */
};

struct arenascope_trim_result {
    size_t size;
    uint64_t forecast; /* what should come back, computed before the trim (with max_hold: during the trim) */
    uint64_t returned; /* what came back: the kernel's count of resident memory in malloc's heaps, before minus after */
    uint64_t returned_swap; /* swap that was freed with it */
    uint64_t released;      /* bytes passed to madvise(), resident or not; unknown if malloc_trim did the work */
    uint64_t longest_hold;  /* the longest time for which an arena was locked; unknown if malloc_trim did the work */
    uint64_t elapsed, cpu;  /* of the whole trim */
    uint64_t arenas;        /* number of arenas that were trimmed */
    uint64_t skipped;       /* number of arenas that were skipped, because their data were inconsistent, or their lock
                               could not be taken; the forecast is unknown then */
};
/* Returns free memory to the kernel. With `options` NULL it does what malloc_trim(0) does. `result` may be NULL. In a process
 * that has changed its user, the kernel may refuse to say what is resident: forecast and returned are ARENASCOPE_UNKNOWN then. */
int arenascope_trim(const struct arenascope_trim_options *options, struct arenascope_trim_result *result);

/* What a trim would return, for each arena; nothing is changed. Sets *count to the number of arenas, and fills at most `room`
 * elements. The numbers are unknown for an arena whose data are inconsistent, or whose lock stays taken for two seconds. */
struct arenascope_arena_forecast {
    uint64_t arena; /* address */
    uint64_t resident, releasable, withheld;
};
int arenascope_forecast(struct arenascope_arena_forecast *arenas, size_t room, size_t *count);

/* --- The policy --------------------------------------------------------------------------------------------------------- */

/* When the library trims by itself. Off by default. A condition that is 0 is ignored. */
struct arenascope_policy {
    size_t size;
    uint64_t every;        /* nanoseconds between checks of the conditions; without any condition, trim at each check */
    uint64_t min_bytes;    /* trim when releasable (deep: and withheld) memory reaches this */
    uint64_t min_percent;  /* ... or this share of Rss */
    uint64_t pressure;     /* trim when tasks stalled on memory for this many microseconds within a second (PSI) */
    uint64_t idle;         /* trim when the process has used less than a hundredth of a processor for this long */
    uint64_t min_distance; /* minimum time between two trims */
    uint64_t
        back_off; /* if this percentage of the returned memory is resident again at the next check, wait twice as long */
    struct arenascope_trim_options trim;
};
/* Replaces the policy; NULL: off. */
int arenascope_set_policy(const struct arenascope_policy *policy);

/* What the policy did so far. returned, faulted_back and longest_hold are ARENASCOPE_UNKNOWN after a trim for which they were unknown.
 * faulted_back is the growth of Rss until the next check, at most what was returned. */
struct arenascope_policy_stats {
    size_t size;
    uint64_t checks, trims, returned, faulted_back, elapsed, longest_hold;
};
int arenascope_policy_statistics(struct arenascope_policy_stats *out);

/* --- On a signal -------------------------------------------------------------------------------------------------------- */

/* From now on, each `signal` makes the library write a dump. Its name is `pattern`, in which %p is the pid, %t the seconds since
 * the epoch, %n the number of the dump, %e the program's name, and %% a percent sign; a relative name refers to the directory
 * that is current now. ARENASCOPE_DENIED if the application has a handler for the signal, or ignores it. signal 0: stop. */
int arenascope_dump_on_signal(int signal, const char *pattern, unsigned flags);

/* Makes the library's thread write such a dump soon, and returns at once. This is the only function here that is
 * async-signal-safe. Returns 0, or ARENASCOPE_USAGE if arenascope_dump_on_signal was not called before, or if the application
 * has taken its signal since. */
int arenascope_request_dump(void);

/* --- At a condition ------------------------------------------------------------------------------------------------------ */

/* From now on, the library's thread writes a dump when a condition of `when` is met, and keeps the newest in `directory`, whose name
 * may have the words of a pattern. `when` is as $ARENASCOPE_DUMP_AT has it (arenascope(7)): "peak,+64M,rss=1G". NULL: no more.
 * In a child of fork() this goes on as a policy does. ARENASCOPE_UNSUPPORTED in a library that was injected, and of "allocated=1G"
 * while no profile is made. */
int arenascope_dump_at(const char *when, const char *directory, unsigned flags);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
