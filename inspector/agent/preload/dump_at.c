// SPDX-License-Identifier: MIT
// When the agent writes a dump by itself. Rss, and how much was allocated, are asked once a second. What is in use
// takes a snapshot, in which each arena is locked as long as the walk takes: one in `every`, and never more than 0.5 %
// of a processor. The snapshot that meets a condition is the dump.
#include "agent/preload/dump_at.h"
#include "agent/agent.h"
#include "agent/log.h"
#include "agent/own_snapshot.h"
#include "agent/policy.h"
#include "agent/worker.h"
#include "dump/dump.h"
#include "ledger/ledger.h"
#include "recorder/enable.h"
#include "target/procfs.h"

#include <stdio.h>

#define DEFAULT_DUMPS "arenascope.dumps"
#define SECOND UINT64_C(1000000000)
#define LEAST_PEAK (UINT64_C(1) << 20) // a peak is higher than the one before by so many bytes, and by 1/32
enum { SHARE = 200, PEAK_STEP = 32, AGAIN = 16 };

// Written under the agent's lock.
static struct as_dump_wish wished;
static uint32_t wishes; // how often it has been set

// The worker thread's.
static struct {
    struct as_dump_wish wish;
    uint32_t of; // `wishes`
    pid_t pid;   // a child of fork() begins anew
    uint64_t next_check, next_poll;
    bool begun;
    bool unknown; // the profile of a condition has ended, and this was said
} own;

static bool needs_profile(const struct as_dump_wish *wish)
{
    for (uint32_t i = 0; i < wish->count; i++)
        if (wish->conditions[i].when == AS_DUMP_ALLOCATED)
            return true;
    return false;
}

static void count_from(struct as_dump_wish *wish, uint64_t allocated)
{
    for (uint32_t i = 0; i < wish->count; i++)
        wish->conditions[i].allocated = allocated;
}

bool as_dump_at_start(const char *when, const char *directory, unsigned flags, struct as_error *err)
{
    struct as_dump_wish wish = {.flags = flags};
    if (flags & ~(unsigned)ARENASCOPE_CHUNKS)
        return as_fail(err, AS_USAGE, "dumps at a condition have no other flag than ARENASCOPE_CHUNKS");
    if (!directory || !*directory)
        directory = DEFAULT_DUMPS;
    if (when && !as_dump_words_read(when, &wish, err))
        return false;
    if (when && !as_pattern_resolve(directory, wish.directory, sizeof wish.directory))
        return as_fail(err, AS_USAGE,
                       "the directory '%s' for dumps is empty or too long, or the current directory has no name",
                       directory);
    uint64_t allocated;
    if (!as_recorder_allocated(&allocated) && needs_profile(&wish))
        return as_fail(err, AS_UNSUPPORTED,
                       "ARENASCOPE_DUMP_AT: allocated= needs a profile with samples, which alone knows what is "
                       "allocated: set ARENASCOPE_PROFILE (arenascope run --profile)");
    count_from(&wish, allocated);
    as_agent_lock();
    wished = wish;
    wishes++;
    as_agent.dump_at = as_dump_at_run;
    as_agent_unlock();
    int failed = when ? as_agent_worker_start() : 0;
    as_agent_worker_wake();
    return failed == 0 || as_fail(err, AS_NO_MEMORY, "no thread can be started for dumps: %s", strerror(failed));
}

static void update_readings(uint64_t now)
{
    as_agent_lock();
    bool anew = own.of != wishes || own.pid != as_agent.pid;
    bool forked = own.pid != 0 && own.pid != as_agent.pid;
    if (anew)
        own.wish = wished;
    own.of = wishes;
    own.pid = as_agent.pid;
    as_agent_unlock();
    if (!anew)
        return;
    // What a child of fork() has been given has not reached a limit: else each child of a large process would write a dump.
    uint64_t rss = forked ? as_policy_resident() : 0;
    for (uint32_t i = 0; i < own.wish.count; i++)
        own.wish.conditions[i].met =
            own.wish.conditions[i].when == AS_DUMP_RSS && forked && rss >= own.wish.conditions[i].amount;
    uint64_t allocated;
    as_recorder_allocated(&allocated);
    if (forked || allocated < own.wish.conditions[0].allocated) // the child of a process that has not come here
        count_from(&own.wish, 0);
    own.begun = own.unknown = false;
    own.next_poll = now + SECOND; // not while the program is being loaded: some rows are unknown then
    own.next_check = now + (own.wish.every < SECOND ? own.wish.every : SECOND);
    char pattern[PATH_MAX];
    memcpy(pattern, own.wish.directory, sizeof pattern);
    if (own.wish.count > 0 && !as_pattern_expand(pattern, 0, own.wish.directory, sizeof own.wish.directory)) {
        as_log("no dumps at a condition: the directory's name would be longer than %d bytes", PATH_MAX);
        own.wish.count = 0;
    }
}

// Whether a condition needs no snapshot: it is asked once a second.
static bool is_polled(enum as_dump_when when)
{
    return when == AS_DUMP_RSS || when == AS_DUMP_ALLOCATED;
}

static bool has(bool polled)
{
    for (uint32_t i = 0; i < own.wish.count; i++)
        if (is_polled(own.wish.conditions[i].when) == polled)
            return true;
    return false;
}

static bool has_allocated(const struct as_dump_condition *c, uint64_t *allocated)
{
    return as_recorder_allocated(allocated) && *allocated - c->allocated >= c->amount;
}

static void say_if_unknown(void)
{
    uint64_t allocated;
    bool unknown = needs_profile(&own.wish) && !as_recorder_allocated(&allocated);
    if (unknown && !own.unknown)
        as_log("no dump for allocated= as long as no profile is made: the last one has ended");
    own.unknown = unknown;
}

// Whether Rss has reached a limit, below which it was before, or enough was allocated.
static bool reaches_limit(void)
{
    uint64_t rss = as_policy_resident(), allocated; // 0: unknown
    bool reaches = false;
    say_if_unknown();
    AS_FOR_ITEMS(struct as_dump_condition, c, own.wish.conditions, own.wish.count) {
        if (c->when == AS_DUMP_ALLOCATED)
            reaches = reaches || has_allocated(c, &allocated);
        if (c->when != AS_DUMP_RSS || rss == 0)
            continue;
        if (rss >= c->amount)
            reaches = reaches || !c->met;
        else if (rss < c->amount - c->amount / AGAIN)
            c->met = false;
    }
    return reaches;
}

static uint64_t in_use(const struct as_ledger *l)
{
    uint64_t sum = 0;
    for (int row = 0; row < AS_ROW_COUNT; row++)
        if (as_rows[row].held)
            sum = as_add(sum, as_row_value(l, row));
    return sum;
}

// Whether a process holds so much more than at the last dump for this condition, or at the first snapshot. A number is compared with its
// like: where it is unknown now and then what is in use, Rss is compared with Rss.
static bool has_grown(struct as_dump_condition *c, const uint64_t held[AS_HELD_MEASURES])
{
    int measure = held[AS_HELD_IN_USE] != AS_UNKNOWN ? AS_HELD_IN_USE : AS_HELD_RESIDENT;
    if (held[measure] == AS_UNKNOWN)
        return false;
    uint64_t mark = c->marks[measure];
    uint64_t step = c->amount;
    if (c->when == AS_DUMP_PEAK && mark != AS_UNKNOWN)
        step = mark / PEAK_STEP > LEAST_PEAK ? mark / PEAK_STEP : LEAST_PEAK;
    bool grown = mark != AS_UNKNOWN && held[measure] >= mark && held[measure] - mark >= step;
    for (int i = 0; i < AS_HELD_MEASURES; i++)
        if (grown || c->marks[i] == AS_UNKNOWN)
            c->marks[i] = held[i];
    return grown;
}

static bool is_met(struct as_dump_condition *c, const uint64_t held[AS_HELD_MEASURES], uint64_t rss)
{
    uint64_t allocated;
    if (!is_polled(c->when))
        return has_grown(c, held);
    if (c->when == AS_DUMP_ALLOCATED) {
        bool met = has_allocated(c, &allocated);
        if (met)
            c->allocated = allocated;
        return met;
    }
    bool met = rss >= c->amount && !c->met;
    c->met |= met;
    return met;
}

// Which conditions a snapshot meets: "peak+rss"; "": none.
static void meets(const struct as_store *s, char *reasons, size_t size)
{
    static const char words[][10] = {
        [AS_DUMP_PEAK] = "peak", [AS_DUMP_GROWTH] = "growth", [AS_DUMP_RSS] = "rss", [AS_DUMP_ALLOCATED] = "allocated"};
    const uint64_t held[AS_HELD_MEASURES] = {in_use(&s->totals.ledger), s->meta.rss};
    bool met[sizeof words / sizeof *words] = {false};
    uint64_t rss = as_policy_resident();
    for (uint32_t i = 0; i < own.wish.count; i++)
        met[own.wish.conditions[i].when] |= is_met(&own.wish.conditions[i], held, rss);
    reasons[0] = '\0';
    for (size_t i = 0; i < sizeof met / sizeof *met; i++)
        if (met[i]) {
            size_t used = strlen(reasons);
            snprintf(reasons + used, size - used, "%s%s", used ? "+" : "", words[i]);
        }
}

static void take_dump(void)
{
    struct as_error err = {0};
    struct as_dump_condition before[AS_DUMP_CONDITIONS];
    memcpy(before, own.wish.conditions, sizeof before);
    struct as_dump_writer w = {AS_OUTPUT_CLOSED};
    struct as_agent_snapshot snapshot = {0};
    char reasons[48] = "";
    char name[NAME_MAX + 1];
    bool chunks = own.wish.flags & ARENASCOPE_CHUNKS;
    // In memory, until it is known whether it is kept, and how large it is.
    bool ok = as_dump_begin(&w, NULL, &err) && as_agent_snapshot(&snapshot, chunks ? w.file.fd : -1, &err);
    if (ok)
        meets(&snapshot.store, reasons, sizeof reasons);
    if (ok && !own.begun)
        as_log("dumps at a condition from now on, in %s", own.wish.directory);
    own.begun |= ok;
    if (ok && reasons[0]) {
        ok =
            as_dump_finish(&w, &snapshot.store, &err) && as_dump_folder_keep(&own.wish, w.file.fd, reasons, name, &err);
        if (ok)
            as_log("wrote %s/%s", own.wish.directory, name);
        else
            memcpy(own.wish.conditions, before, sizeof before); // the next snapshot tries again
    }
    if (!ok)
        as_log("no dump%s%s%s: %s", reasons[0] ? " (" : "", reasons, reasons[0] ? ")" : "", err.text);
    if (!ok && err.code == AS_NO_MALLOC)
        own.wish.count = 0;
    as_agent_snapshot_free(&snapshot);
    as_dump_close(&w);
}

int as_dump_at_run(void)
{
    uint64_t now = as_now_ns();
    update_readings(now);
    bool polls = has(true);
    bool checks = has(false);
    bool due = checks && now >= own.next_check;
    if (polls && now >= own.next_poll) {
        due |= reaches_limit();
        own.next_poll = now + SECOND;
    }
    if (due) {
        uint64_t before = as_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        take_dump();
        uint64_t rest = (as_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) * SHARE;
        now = as_now_ns();
        own.next_check = now + (rest > own.wish.every ? rest : own.wish.every);
        own.next_poll = now + (rest > SECOND ? rest : SECOND);
    }
    if (own.wish.count == 0)
        return -1;
    uint64_t next = !checks ? own.next_poll : !polls || own.next_check < own.next_poll ? own.next_check : own.next_poll;
    uint64_t wait = next > now ? (next - now) / 1000000 + 1 : 0;
    return wait > INT_MAX ? INT_MAX : (int)wait;
}
