// SPDX-License-Identifier: MIT
/* arenascope, in the process itself: where did its memory go, and what will bring it back?
 *
 * Every function may be called from any thread at any time, also in a child of fork(), but not from a signal handler: there
 * only arenascope_request_dump() may. None holds a lock of ours while it waits for one of malloc's, and none allocates from malloc
 * but arenascope_set_policy(), which starts a thread where none of ours runs yet.
 * Sizes are in bytes, times in nanoseconds. A number that is not known is ARENASCOPE_UNKNOWN, never 0.
 *
 * Structs that the library fills or reads begin with their own size, which the caller sets (ARENASCOPE_INIT): so a program
 * built against an older header works with a newer library, and the other way round.
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

/* What functions return: 0, or one of these, which are arenadump's exit codes as well. */
enum arenascope_code {
    ARENASCOPE_OK = 0,
    ARENASCOPE_INTERNAL = 1,    /* a bug of ours: an invariant did not hold */
    ARENASCOPE_USAGE = 2,       /* an argument makes no sense */
    ARENASCOPE_NO_TARGET = 3,   /* no such process, no such file */
    ARENASCOPE_DENIED = 4,      /* the kernel or a sandbox forbids it, or the application has taken the signal */
    ARENASCOPE_UNSUPPORTED = 5, /* not here: another architecture, malloc's layout not proven */
    ARENASCOPE_BAD_INPUT = 6,   /* malloc's own data make no sense: the heap is corrupt */
    ARENASCOPE_TARGET_GONE = 7, /* the process ended meanwhile */
    ARENASCOPE_IO = 8,          /* the file could not be written */
    ARENASCOPE_NO_MEMORY = 9,
    ARENASCOPE_NO_MALLOC = 10 /* malloc is not glibc's here */
};

/* Why the last call in this thread failed: what was tried, what was found, what to do. "" when it did not. Valid until the
 * thread's next call of ours. */
const char *arenascope_error(void);

/* "0.1.0" */
const char *arenascope_version(void);

/* --- Looking ------------------------------------------------------------------------------------------------------------ */

enum { ARENASCOPE_CHUNKS = 1 }; /* flags: also a record of every chunk */

/* Writes a dump file, of the same format as `arenadump dump`: arena after arena under its own lock, walked in place. The path
 * is one that arenadump would take: never a symlink, mode 0600, complete or not there at all. */
int arenascope_dump(const char *path, unsigned flags);
/* The same into an open file, from its beginning; must be a regular file (or a memfd) open for reading and writing, not for
 * appending. */
int arenascope_dump_fd(int fd, unsigned flags);

/* The ledger of this process (docs/ledger.md defines each row). */
struct arenascope_summary {
    size_t size;
    uint64_t rss, swap; /* of the process, as its page tables have it */
    /* Rows. Then the forecast, what a trim would give back now: malloc_trim, and deep_trim, which includes it. */
#define ARENASCOPE_ROWS_A(name) uint64_t name;
#define ARENASCOPE_ROWS_B(name)
#define ARENASCOPE_ROWS_C(name)
#include "../model/rows_public.h"
    uint64_t arenas, heaps, threads;
    uint64_t torn_chunks;  /* places where a walk lost its way */
    uint64_t longest_hold; /* for which one arena was locked */
    uint64_t exact;        /* 0: threads ran meanwhile, so rows need not add up to the byte; 1 otherwise */
    /* The row of a Ruby's own heap; not known: its bytes stand in the rows above. */
#define ARENASCOPE_ROWS_A(name)
#define ARENASCOPE_ROWS_B(name) uint64_t name;
#define ARENASCOPE_ROWS_C(name)
#include "../model/rows_public.h"
    uint64_t ruby_page_count, ruby_slots, ruby_free_slots; /* how many; without a Ruby 0, likewise */
    /* Rows that came later. */
#define ARENASCOPE_ROWS_A(name)
#define ARENASCOPE_ROWS_B(name)
#define ARENASCOPE_ROWS_C(name) uint64_t name;
#include "../model/rows_public.h"
};
int arenascope_summarize(struct arenascope_summary *out);

/* --- Giving back -------------------------------------------------------------------------------------------------------- */

enum {
    ARENASCOPE_DEEP =
        1, /* also what malloc_trim never returns: the tops of thread arenas, and whatever else is whole and free */
};

struct arenascope_trim_options {
    size_t size;
    uint64_t flags;    /* ARENASCOPE_DEEP */
    uint64_t max_hold; /* no arena is locked for longer at a time; 0: not bounded, as malloc_trim itself */
    uint64_t arena;    /* address of the only arena to trim, or ARENASCOPE_ALL_ARENAS; 0 means all as well */
};

struct arenascope_trim_result {
    size_t size;
    uint64_t forecast;      /* what was to come back, computed before (with max_hold: meanwhile) */
    uint64_t returned;      /* what did, as the kernel counts resident memory in malloc's heaps before and after */
    uint64_t returned_swap; /* swap that was freed with it */
    uint64_t released;      /* bytes handed to madvise(), resident or not; not known where malloc_trim did it */
    uint64_t longest_hold;  /* of one arena's lock; likewise */
    uint64_t elapsed, cpu;  /* of the whole trim */
    uint64_t arenas;        /* trimmed */
    uint64_t skipped;       /* left alone, and not in the forecast, which is unknown then: their data made no sense, or
                               their lock could not be taken */
};
/* Gives free memory back to the kernel. `options` NULL: what malloc_trim(0) does. `result` may be NULL. In a process that has
 * changed its user the kernel may not tell what is in memory: forecast and returned are ARENASCOPE_UNKNOWN then. */
int arenascope_trim(const struct arenascope_trim_options *options, struct arenascope_trim_result *result);

/* What a trim would give back, arena by arena; nothing is changed. Returns how many arenas there are in *count and fills at most
 * `room` of them. Unknown for an arena whose data make no sense, or whose lock stays taken for two seconds. */
struct arenascope_arena_forecast {
    uint64_t arena; /* address */
    uint64_t resident, releasable, withheld;
};
int arenascope_forecast(struct arenascope_arena_forecast *arenas, size_t room, size_t *count);

/* --- Keeping it given back ---------------------------------------------------------------------------------------------- */

/* When to trim by itself. Off unless asked for; a condition that is 0 is not looked at. */
struct arenascope_policy {
    size_t size;
    uint64_t
        every; /* nanoseconds between looks; conditions are judged at these times, or without any: trim each time */
    uint64_t min_bytes;    /* when releasable (deep: and withheld) memory reaches this */
    uint64_t min_percent;  /* ... or this share of Rss */
    uint64_t pressure;     /* when tasks stalled on memory for this many microseconds within a second (PSI) */
    uint64_t idle;         /* when the process has used less than a hundredth of a processor for this long */
    uint64_t min_distance; /* between two trims */
    uint64_t
        back_off; /* if this percentage of what was given back is there again by the next look, wait twice as long */
    struct arenascope_trim_options trim;
};
/* Replaces the policy; NULL: off. */
int arenascope_set_policy(const struct arenascope_policy *policy);

/* What the policy did so far. returned, longest_hold: ARENASCOPE_UNKNOWN once a trim could not tell. */
struct arenascope_policy_stats {
    size_t size;
    uint64_t looks, trims, returned, faulted_back, elapsed, longest_hold;
};
int arenascope_policy_statistics(struct arenascope_policy_stats *out);

/* --- On a signal -------------------------------------------------------------------------------------------------------- */

/* Has a dump written to `pattern` whenever `signal` arrives. The pattern may hold %p (pid), %t (seconds since the epoch), %n
 * (count), %e (the program's name), %% ; it is resolved against the directory that is current now. ARENASCOPE_DENIED when the
 * application has a handler for the signal, or ignores it. signal 0: no more. */
int arenascope_dump_on_signal(int signal, const char *pattern, unsigned flags);

/* Has such a dump written soon, by our own thread. Async-signal-safe: the only one here that is. Returns at once; 0, or
 * ARENASCOPE_USAGE when arenascope_dump_on_signal was not called before, or its signal has been taken away since. */
int arenascope_request_dump(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
