// SPDX-License-Identifier: MIT
#include "malloc/find.h"
#include "snapshot/steps.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LIBCS = 64 };

#define DEFAULT_MAX_PAUSE_NS UINT64_C(50000000)
// A freeze without a limit of the user's is given up after this many times its estimate, plus a fixed time.
#define PATIENCE 4
#define PATIENCE_NS UINT64_C(2000000000)
#define SWAP_NS_PER_BYTE UINT64_C(10) // to read it back
// The estimate of a freeze: a fixed time, and the heap at a rate that any machine reaches.
#define FREEZE_BASE_NS UINT64_C(3000000)
#define FREEZE_BYTES_PER_US UINT64_C(1500)
// With the objects of runtimes, or for a graph, all memory is read and examined.
#define OBJECTS_TIMES 3

static bool is_held(struct as_target *t, const void *context)
{
    return as_arenas_locked(t, context);
}

// The pause that a freeze would mean, by how much is resident of the memory that a heap can be in.
static uint64_t estimate_freeze(const struct as_target *t, const struct as_snapshot_options *options)
{
    if (t->hint.anonymous == AS_UNKNOWN)
        return UINT64_MAX;
    uint64_t read_ns = t->hint.anonymous / FREEZE_BYTES_PER_US * 1000;
    return FREEZE_BASE_NS + read_ns * (options->objects || options->reader ? OBJECTS_TIMES : 1);
}

// For how long the target may stand still where the choice is ours, when it has stood still for `stood_ns` already; never 0.
static uint64_t most_pause(const struct as_snapshot_options *options, uint64_t stood_ns)
{
    uint64_t most = options->max_pause_ns != 0 ? options->max_pause_ns : DEFAULT_MAX_PAUSE_NS;
    return most > stood_ns ? most - stood_ns : 1;
}

// A freeze, unless it would last too long, or pages are swapped out: those have to be read. Their time is the disk's, and
// they count against the target's memory cgroup, which a clone can be killed for in the target's stead.
static enum as_mode choose(const struct as_target *t, const struct as_snapshot_options *options)
{
    uint64_t most = most_pause(options, 0);
    bool swapped = t->hint.swap != 0 && t->hint.swap != AS_UNKNOWN;
    return t->ops->stop.fork && (swapped || estimate_freeze(t, options) > most) ? AS_MODE_CLONE : AS_MODE_FREEZE;
}

struct as_stop_plan as_stop_plan_make(const struct as_target *t, const struct as_snapshot_options *options)
{
    struct as_stop_plan plan = {0};
    if (as_target_is_self(t))
        plan.mode = AS_MODE_IN_PROCESS;
    else if (t->kind == AS_TARGET_CORE)
        plan.mode = AS_MODE_CORE;
    else
        plan.mode = options->mode != 0 ? options->mode : choose(t, options);
    return plan;
}

// What is left for a target that cannot be cloned. Who chose a snapshot wants one instant, and gets it from a freeze; a choice of
// ours holds nobody for longer than was promised. One that stands still anyhow is not held.
static enum as_mode without_clone(const struct as_target *t, const struct as_snapshot_options *options,
                                  const struct as_stop_plan *plan)
{
    if (options->mode != 0 || t->stop.job_control)
        return AS_MODE_FREEZE;
    bool quick = !plan->exceeded[0] && estimate_freeze(t, options) <= most_pause(options, plan->stood_ns);
    return quick ? AS_MODE_FREEZE : AS_MODE_LIVE;
}

// For how long the target may stand still now. Who has set a limit is never made to wait longer: a freeze that was our choice
// leaves half of it to a clone, which is exact, too. Without a limit, such a freeze ends early; every other one ends when it
// has taken many times what the memory to be read accounts for: then it is a wrecked heap that we search.
static uint64_t limit(const struct as_target *t, const struct as_snapshot_options *options,
                      const struct as_stop_plan *plan)
{
    bool ours = options->mode == 0 && t->ops->stop.fork && !t->stop.job_control && plan->mode == AS_MODE_FREEZE;
    bool leave_half = ours && options->max_pause_ns != 0 && !plan->fallback[0];
    if (options->max_pause_ns != 0 || ours)
        return most_pause(options, leave_half ? options->max_pause_ns / 2 : plan->stood_ns);
    if (plan->mode == AS_MODE_CLONE)
        return 0;
    uint64_t estimate = estimate_freeze(t, options);
    if (estimate != UINT64_MAX && t->hint.swap != AS_UNKNOWN)
        estimate += t->hint.swap * SWAP_NS_PER_BYTE;
    return estimate < UINT64_MAX / PATIENCE - PATIENCE_NS ? PATIENCE_NS + PATIENCE * estimate : 0;
}

bool as_stop_plan_yield(const struct as_target *t, const struct as_snapshot_options *options, struct as_stop_plan *plan,
                        const struct as_error *err)
{
    if (as_target_is_self(t))
        return false;
    if (plan->incomplete || (plan->mode == AS_MODE_CLONE && t->stop.let_go)) {
        plan->stood_ns += t->stop.duration_ns;
        snprintf(plan->fallback, sizeof plan->fallback, "%s", plan->incomplete ? err->text : t->stop.let_go);
        plan->incomplete = false;
        plan->mode = without_clone(t, options, plan);
        return true;
    }
    bool unstoppable = t->stop.unstoppable;
    if (!(t->stop.deadline_exceeded || unstoppable) || options->mode != 0 || plan->mode == AS_MODE_LIVE)
        return false;
    bool clone = plan->mode == AS_MODE_FREEZE && !plan->fallback[0] && t->ops->stop.fork && !unstoppable;
    if (unstoppable) // whether it can be cloned does not matter then
        plan->fallback[0] = '\0';
    plan->mode = clone ? AS_MODE_CLONE : AS_MODE_LIVE;
    plan->stood_ns += t->stop.duration_ns;
    snprintf(plan->exceeded, sizeof plan->exceeded, "%s", err->text);
    return true;
}

// The mappings were read anew, and with them the names in t->strings: a libc's own is that of the file its data is of.
static void refresh_paths(const struct as_target *t, struct as_malloc *m)
{
    AS_FOR_EACH(struct as_libc, libc, &m->libcs) {
        const struct as_mapping *data = libc->base == AS_UNKNOWN ? NULL : as_target_mapping_at(t, libc->main_arena);
        libc->path = data ? data->path : 0;
    }
}

// A process with one thread takes no lock. Where a thread died is known to the instruction.
static bool is_in_malloc(const struct as_target *t, const struct as_malloc *m)
{
    for (size_t i = 0; i < m->libcs.count; i++)
        for (size_t k = 0; k < t->threads.count; k++)
            if (t->threads.items[k].pc >= m->libcs.items[i].malloc_start &&
                t->threads.items[k].pc < m->libcs.items[i].malloc_end)
                return true;
    return false;
}

// A thread that is stopped touches memory when it runs on (its restartable sequences, at least), and its stack is read: what of that is
// swapped out comes back. Where there is no room, the choice is to stop nothing. False: a stop was asked for.
static bool may_stop(struct as_target *t, const struct as_snapshot_options *options, struct as_stop_plan *plan,
                     struct as_error *err)
{
    if (plan->mode == AS_MODE_LIVE)
        return true;
    if (t->residency.fetch == AS_FETCH_ALLOWED) // there was room a while ago
        as_target_ask_anew(t);
    if (as_target_may_fetch(t))
        return true;
    if (options->mode != 0)
        return as_fail(err, AS_DENIED, "process %d is not stopped: what it has in swap would come back in part, and %s",
                       t->pid, t->residency.no_room);
    plan->mode = AS_MODE_LIVE;
    return true;
}

bool as_stop_plan_catch(struct as_target *t, struct as_malloc *m, const struct as_snapshot_options *options,
                        struct as_stop_plan *plan, struct as_error *err)
{
    if (as_target_is_self(t))
        return true;
    if (t->kind == AS_TARGET_CORE) {
        plan->locked = as_arenas_locked(t, m) || is_in_malloc(t, m);
        return true;
    }
    struct as_range code[MAX_LIBCS];
    struct as_range around[MAX_LIBCS];
    struct as_critical critical = {.code = code, .around = around, .complete = true, .held = is_held, .context = m};
    AS_FOR_EACH(const struct as_libc, libc, &m->libcs) {
        if (libc->malloc_end == 0 || critical.count == MAX_LIBCS) {
            critical.complete = false;
            continue;
        }
        code[critical.count] = (struct as_range){libc->malloc_start, libc->malloc_end};
        around[critical.count++] = (struct as_range){libc->code_start, libc->code_end};
    }
    bool caught = false;
    t->stop.force = options->force;
    if (!may_stop(t, options, plan, err))
        return false;
    if (plan->mode == AS_MODE_CLONE) {
        struct as_error why = {0};
        t->stop.limit_ns = limit(t, options, plan);
        caught = t->ops->stop.fork ? t->ops->stop.fork(t, &critical, &why)
                                   : as_fail(&why, AS_UNSUPPORTED, "targets of this kind cannot");
        if (!caught && why.code != AS_UNSUPPORTED && why.code != AS_NO_MEMORY)
            return as_fail(err, why.code, "%s", why.text);
        if (!caught) {
            snprintf(plan->fallback, sizeof plan->fallback, "%s", why.text);
            plan->stood_ns += t->stop.duration_ns;
            plan->mode = without_clone(t, options, plan);
        }
    }
    t->stop.limit_ns = limit(t, options, plan);
    if (plan->mode == AS_MODE_LIVE ? !t->ops->residency.count(t, err)
                                   : !caught && !t->ops->stop.stop_clean(t, &critical, err))
        return false;
    refresh_paths(t, m);
    return true;
}

// Does [start, end) overlap memory that the clone has not got? Returns that memory.
static const struct as_mapping *kept_at(const struct as_target *t, uint64_t start, uint64_t end)
{
    for (size_t i = as_target_mapping_from(t, start); i < t->mappings.count && t->mappings.items[i].start < end; i++)
        if (t->mappings.items[i].out_of_reach && !t->mappings.items[i].droppable)
            return &t->mappings.items[i];
    return NULL;
}

// What of malloc's, as far as it was found, the clone has not got; NULL: nothing.
static const struct as_mapping *kept_of_malloc(const struct as_target *t, const struct as_malloc *m,
                                               const struct as_heaps *h)
{
    const struct as_mapping *kept = NULL;
    AS_FOR_EACH_WHILE(!kept, const struct as_libc, libc, &m->libcs) {
        kept = kept_at(t, libc->main_arena, libc->main_arena + 1);
        kept = !kept && libc->mp != AS_UNKNOWN ? kept_at(t, libc->mp, libc->mp + 1) : kept;
    }
    for (size_t i = 0; !kept && i < h->heaps.count; i++)
        kept = kept_at(t, h->heaps.items[i].start, h->heaps.items[i].end);
    for (size_t i = 0; !kept && i < h->mmapped.count; i++)
        kept = kept_at(t, h->mmapped.items[i].map_start, h->mmapped.items[i].map_end);
    // On both sides of a thread pointer is libc's own data. Any mapping may lie next to that.
    for (size_t i = 0; !kept && i < t->threads.count; i++)
        if (t->threads.items[i].tp != AS_UNKNOWN)
            kept = kept_at(t, t->threads.items[i].tp - 1, t->threads.items[i].tp + 1);
    return kept;
}

bool as_stop_plan_is_whole(const struct as_target *t, const struct as_malloc *m, const struct as_heaps *h, bool torn,
                           struct as_stop_plan *plan, struct as_error *err)
{
    const struct as_mapping *first = as_target_is_self(t) ? NULL : kept_at(t, 0, UINT64_MAX);
    if (plan->mode != AS_MODE_CLONE || !first)
        return true;
    const struct as_mapping *kept = kept_of_malloc(t, m, h);
    // What does not agree may be so in the target, or be missing in the clone.
    bool doubtful = torn || h->incomplete || h->faults.count > 0;
    if (!kept && !doubtful)
        return true;
    plan->incomplete = true;
    return as_fail(
        err, AS_UNSUPPORTED,
        "process %d has memory that a clone does not inherit (MADV_DONTFORK or MADV_WIPEONFORK, at 0x%llx), and %s",
        t->pid, (unsigned long long)(kept ? kept : first)->start,
        kept ? "part of it is malloc's" : "part of it may be malloc's: in the clone malloc's structures do not agree");
}

void as_stop_plan_report(const struct as_stop_plan *plan, const struct as_target *t, struct as_store *s)
{
    if (as_target_is_self(t))
        return;
    if (plan->fallback[0] && plan->mode == AS_MODE_LIVE)
        as_store_warn(s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "the target was read while it ran: it could not be cloned, and a freeze %s (allow more, or use "
                      "--mode freeze): %s",
                      plan->exceeded[0] ? "was broken off after half of --max-pause"
                                        : "would take longer than --max-pause",
                      plan->fallback);
    else if (plan->fallback[0])
        as_store_warn(s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "the target was frozen while it was read, because it could not be cloned: %s", plan->fallback);
    if (plan->exceeded[0])
        as_store_warn(s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN, "another mode was used: %s", plan->exceeded);
    if (plan->locked)
        as_store_warn(s, AS_WARN_LOCKED, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "when the core was written, a thread was inside malloc or an arena was locked: the numbers may "
                      "be those of an unfinished change");
    if (plan->mode != AS_MODE_FREEZE && plan->mode != AS_MODE_CLONE)
        return;
    if (t->stop.outcome == AS_STOP_BUSY)
        as_store_warn(s, AS_WARN_LOCKED, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "in every attempt a thread was inside malloc or an arena was locked: the numbers may be those of "
                      "an unfinished change");
    else if (t->stop.outcome == AS_STOP_UNKNOWN)
        as_store_warn(s, AS_WARN_LOCKED, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "the place of malloc's code in this program is unknown: no arena was locked, but a thread may "
                      "have been inside malloc, and the numbers may be those of an unfinished change");
    if (t->stop.note)
        as_store_warn(s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN, "%s", t->stop.note);
}
