// SPDX-License-Identifier: MIT
// The checks of the policy and their cost. With time, size or share as the only conditions: nothing between two checks, and one walk
// over the heaps at each, unless the whole process is smaller than the size asked for. With pressure or idleness: two small
// files of /proc, or two clocks, each second.
#include "agent/policy.h"
#include "agent/agent.h"
#include "agent/log.h"
#include "target/procfs.h"

#include <stdio.h>

#define SECOND UINT64_C(1000000000)
#define DEFAULT_EVERY (10 * SECOND) // of a policy that has a size or a share but no time
enum { MOST_PATIENCE = 64 };

// The number after `key` in a file of at most some KiB; ARENASCOPE_UNKNOWN when there is none.
static uint64_t number_in(const char *path, const char *key)
{
    char text[2048];
    if (as_proc_read(AT_FDCWD, path, text, sizeof text) <= 0)
        return ARENASCOPE_UNKNOWN;
    const char *at = strstr(text, key);
    if (!at)
        return ARENASCOPE_UNKNOWN;
    at += strlen(key);
    return as_parse_decimal(&at, text + strlen(text));
}

// The path of a file of this process's cgroup (version 2). False: there is none.
static bool cgroup_file(const char *name, char *path, size_t size)
{
    char text[2048];
    if (as_proc_read(AT_FDCWD, "/proc/thread-self/cgroup", text, sizeof text) <= 0)
        return false;
    const char *at = strstr(text, "0::");
    if (!at || (at != text && at[-1] != '\n'))
        return false;
    at += 3;
    int length = (int)strcspn(at, "\n");
    if ((size_t)snprintf(path, size, "/sys/fs/cgroup%.*s/%s", length, at, name) >= size)
        return false;
    return access(path, R_OK) == 0;
}

// For how long tasks of this cgroup, or else of the machine, have waited for memory so far, in microseconds.
static uint64_t stalled_us(void)
{
    char path[PATH_MAX];
    return number_in(cgroup_file("memory.pressure", path, sizeof path) ? path : "/proc/pressure/memory", "total=");
}

// How often this cgroup has met memory.high.
static uint64_t high_events(void)
{
    char path[PATH_MAX];
    return cgroup_file("memory.events", path, sizeof path) ? number_in(path, "high ") : ARENASCOPE_UNKNOWN;
}

uint64_t as_policy_resident(void)
{
    char text[128];
    if (as_proc_read(AT_FDCWD, "/proc/thread-self/statm", text, sizeof text) <= 0)
        return 0;
    const char *end = text + strlen(text);
    const char *at = strchr(text, ' ');
    if (!at)
        return 0;
    at++;
    return as_parse_decimal(&at, end) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void as_policy_init(struct as_policy *p)
{
    *p = (struct as_policy){0};
}

static bool ticks(const struct arenascope_policy *policy)
{
    return policy->pressure != 0 || policy->idle != 0;
}

// UINT64_MAX: never; pressure and idleness are checked each second instead.
static uint64_t interval(const struct arenascope_policy *policy)
{
    if (policy->every != 0)
        return policy->every;
    return policy->min_bytes != 0 || policy->min_percent != 0 || !ticks(policy) ? DEFAULT_EVERY : UINT64_MAX;
}

static uint64_t after(uint64_t now, uint64_t ns)
{
    return ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
}

// The earliest time of the next trim: after the distance asked for. Where the last trims were in vain, after a multiple of it, or
// else of the time between two checks.
static uint64_t next_trim(const struct as_policy *p)
{
    uint64_t distance = p->now.min_distance;
    if (distance == 0 && p->patience > 1)
        distance = interval(&p->now) == UINT64_MAX ? SECOND : interval(&p->now);
    if (p->last_trim == 0)
        return 0;
    return after(p->last_trim, distance > UINT64_MAX / p->patience ? UINT64_MAX : distance * p->patience);
}

static void apply(struct as_policy *p, const struct arenascope_policy *policy, uint64_t now)
{
    *p = (struct as_policy){.on = true, .now = *policy, .patience = 1, .last_tick = now};
    p->next_check = after(now, interval(policy));
    p->next_tick = ticks(policy) ? after(now, SECOND) : UINT64_MAX;
    p->stalled = policy->pressure != 0 ? stalled_us() : 0;
    p->high = policy->pressure != 0 ? high_events() : 0;
    p->all_cpu = as_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    p->own_cpu = as_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

// By how much a count has grown. A smaller count is that of another cgroup, to which the process has moved: 0 then.
static uint64_t growth(uint64_t before, uint64_t now)
{
    return before != ARENASCOPE_UNKNOWN && now != ARENASCOPE_UNKNOWN && now > before ? now - before : 0;
}

// Once a second: has the process been short of memory, or at rest?
static void tick(struct as_policy *p, uint64_t now)
{
    uint64_t passed = now - p->last_tick;
    p->last_tick = now;
    p->next_tick = after(now, SECOND);
    if (p->now.pressure != 0) {
        uint64_t stalled = stalled_us();
        uint64_t high = high_events();
        // As much in a second as was asked for, and memory.high in any case.
        p->pressed =
            growth(p->stalled, stalled) * SECOND / (passed + 1) >= p->now.pressure || growth(p->high, high) > 0;
        p->stalled = stalled;
        p->high = high;
    }
    if (p->now.idle != 0) {
        uint64_t all = as_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        uint64_t own = as_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        uint64_t used = all - p->all_cpu;
        uint64_t agents = own - p->own_cpu;
        used -= agents < used ? agents : used;
        p->all_cpu = all;
        p->own_cpu = own;
        bool idle = used < passed / 100;
        p->idle_for = idle ? p->idle_for + passed : 0;
        p->rested = p->rested && idle;
    }
}

// Counts how much of the last trim's memory is resident again, by the growth of Rss: memory that grew for another reason counts, too, and
// what was given back meanwhile hides some of it.
static void count_faulted_back(struct as_policy *p, struct arenascope_policy_stats *stats)
{
    if (p->last_returned == 0)
        return;
    uint64_t now = as_policy_resident();
    uint64_t back = now > p->after_trim ? now - p->after_trim : 0;
    back = back < p->last_returned ? back : p->last_returned;
    if (stats->faulted_back != ARENASCOPE_UNKNOWN)
        stats->faulted_back += back;
    bool in_vain = p->now.back_off != 0 && back >= p->last_returned / 100 * p->now.back_off;
    p->patience = !in_vain ? 1 : p->patience < MOST_PATIENCE ? p->patience * 2 : MOST_PATIENCE;
    p->last_returned = 0;
}

// Whether a trim would return enough.
static bool is_worth_it(const struct arenascope_policy *policy)
{
    uint64_t rss = as_policy_resident();
    if (policy->min_bytes == 0 && policy->min_percent == 0)
        return true;
    if (policy->min_percent == 0 && rss < policy->min_bytes)
        return false; // without a walk
    struct as_trim_outcome out;
    struct as_error err = {0};
    uint64_t free = 0;
    if (!as_agent_forecast(&policy->trim, &out, &err))
        as_log("policy: the forecast failed: %s", err.text);
    AS_FOR_EACH(const struct as_trim_arena, a, &out.arenas) {
        // The most that a trim may return: the kernel need not tell of every page.
        free += a->releasable_most + (policy->trim.flags & ARENASCOPE_DEEP ? a->withheld_most : 0);
    }
    as_trim_free(&out);
    return (policy->min_bytes != 0 && free >= policy->min_bytes) ||
           (policy->min_percent != 0 && rss != 0 && free / (rss / 100 + 1) >= policy->min_percent);
}

static void trim(struct as_policy *p, struct arenascope_policy_stats *stats, const char *why)
{
    struct arenascope_trim_result result = ARENASCOPE_INIT(result);
    struct as_error err = {0};
    uint64_t before = as_policy_resident();
    bool ok = as_agent_trim(&p->now.trim, &result, NULL, &err);
    p->last_trim = as_now_ns();
    p->rested = true;
    if (!ok) {
        as_log("policy: the trim failed: %s", err.text);
        return;
    }
    bool known = result.returned != ARENASCOPE_UNKNOWN;
    p->last_returned = known ? result.returned : 0; // nothing to count then
    // Not as it is now: some of it may have come back while we trimmed.
    p->after_trim = before > p->last_returned ? before - p->last_returned : 0;
    stats->trims++;
    stats->returned =
        known && stats->returned != ARENASCOPE_UNKNOWN ? stats->returned + result.returned : ARENASCOPE_UNKNOWN;
    if (!known)
        stats->faulted_back = ARENASCOPE_UNKNOWN;
    stats->elapsed += result.elapsed;
    stats->longest_hold = result.longest_hold > stats->longest_hold ? result.longest_hold : stats->longest_hold;
    unsigned long long elapsed = result.elapsed / 1000;
    if (known)
        as_log("policy (%s): %llu KiB returned in %llu us", why, (unsigned long long)(result.returned / 1024), elapsed);
    else
        as_log("policy (%s): trimmed in %llu us; how much was returned is unknown", why, elapsed);
    uint64_t most = p->now.trim.max_hold;
    if (most != 0 && result.longest_hold != ARENASCOPE_UNKNOWN && result.longest_hold > most)
        as_log("policy: an arena was locked for %llu us, longer than the %llu us of max-hold",
               (unsigned long long)(result.longest_hold / 1000), (unsigned long long)(most / 1000));
}

static const char *reason(const struct as_policy *p, bool due)
{
    if (p->pressed)
        return "pressure";
    if (p->now.idle != 0 && p->idle_for >= p->now.idle && !p->rested)
        return "idle";
    // With other conditions only, time alone is none.
    bool timed = p->now.every != 0 || p->now.min_bytes != 0 || p->now.min_percent != 0 || !ticks(&p->now);
    return due && timed ? "time" : NULL;
}

int as_policy_run(struct as_policy *p)
{
    uint64_t now = as_now_ns();
    as_agent_lock();
    bool set = as_agent.policy_set;
    struct arenascope_policy policy = as_agent.policy;
    struct arenascope_policy_stats stats = as_agent.stats;
    as_agent_unlock();
    if (!set) {
        p->on = false;
        return -1;
    }
    if (!p->on || memcmp(&policy, &p->now, sizeof policy) != 0)
        apply(p, &policy, now);
    bool due = now >= p->next_check;
    if (now >= p->next_tick)
        tick(p, now);
    const char *why = reason(p, due);
    if (due || why) {
        stats.checks++;
        count_faulted_back(p, &stats);
        if (why && now >= next_trim(p) && is_worth_it(&policy))
            trim(p, &stats, why);
        now = as_now_ns();
        p->next_check = due ? after(now, interval(&policy)) : p->next_check;
        p->pressed = false;
        as_agent_lock();
        as_agent.stats = stats;
        as_agent_unlock();
    }
    uint64_t next = p->next_check < p->next_tick ? p->next_check : p->next_tick;
    uint64_t wait = next > now ? (next - now) / 1000000 + 1 : 0;
    return wait > INT_MAX ? INT_MAX : (int)wait;
}

bool as_policy_set(const struct arenascope_policy *policy, struct as_error *err)
{
    struct arenascope_policy full = {0};
    if (policy && policy->size < sizeof policy->size)
        return as_fail(err, AS_USAGE, "the policy's size is not set (ARENASCOPE_INIT)");
    if (policy)
        memcpy(&full, policy, policy->size < sizeof full ? policy->size : sizeof full);
    if (full.min_percent > 100 || full.back_off > 100)
        return as_fail(err, AS_USAGE, "a percentage above 100");
    if (policy && full.trim.size == 0)
        full.trim.size = sizeof full.trim;
    full.size = sizeof full;
    as_agent_lock();
    as_agent.policy_set = policy != NULL;
    as_agent.policy = full;
    as_agent_unlock();
    return true;
}

bool as_policy_statistics(struct arenascope_policy_stats *out)
{
    as_agent_lock();
    bool on = as_agent.policy_set;
    struct arenascope_policy_stats all = as_agent.stats;
    as_agent_unlock();
    size_t size = out->size < sizeof all ? out->size : sizeof all;
    all.size = out->size;
    memcpy(out, &all, size);
    return on;
}
