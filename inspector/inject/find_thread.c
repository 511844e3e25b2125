// SPDX-License-Identifier: MIT
#include "inject/injector.h"
#include "target/process/read/filters.h"
#include "target/process/stop/freeze.h"
#include "target/process/stop/one_thread.h"
#include "target/process/stop/registers.h"

#include <stdio.h>
#include <time.h>

enum {
    FIRST_NAP_US = 200, // between two rounds through the threads
    LONGEST_NAP_US = 10000,
    PATIENT = 16, // part of the time after which inspecting alone is seen not to do
};

// What stands in the way of every thread: said when none was found.
struct obstacles {
    char loader[128];
    char thread[192];
    pid_t tid;
    bool filtered; // all threads have come under a seccomp filter meanwhile
};

// How one goes through the threads.
struct round {
    bool touchy_too; // also those that would notice
    bool patient;    // inspecting alone is seen not to do
    uint64_t deadline;
};

// Is the tracee where it may do it? If not, and if it has been in libc for long, it is waited for outside.
static bool is_ready(const struct as_thread_search *s, struct as_tracee *tracee, bool patient, struct obstacles *o)
{
    struct as_target *t = &s->p->base;
    const struct as_plan *plan = s->plan;
    if (as_thread_is_safe(t, plan, tracee, patient, o->thread, sizeof o->thread))
        return true;
    return patient && tracee->registers.known && !as_registers_waiting(&tracee->registers) &&
           as_in_ranges(plan->system.items, plan->system.count, tracee->registers.pc) &&
           as_return_breakpoint(s->p, plan, tracee) &&
           as_thread_is_safe(t, plan, tracee, patient, o->thread, sizeof o->thread);
}

static bool try_thread(const struct as_thread_search *s, pid_t tid, enum as_thread_filter filter, bool patient,
                       struct obstacles *o)
{
    struct as_process *p = s->p;
    if (!as_process_stop_one(p, tid))
        return false;
    struct as_tracee *tracee = &p->tracees.items[p->tracees.count - 1];
    struct as_inject_result *result = s->result;
    result->attempts++;
    o->tid = tid;
    if (tracee->group_stopped || tracee->signal != 0) {
        snprintf(o->thread, sizeof o->thread,
                 tracee->group_stopped ? "it is stopped (SIGSTOP or the like)" : "a signal was about to be delivered");
        return false;
    }
    // Now it cannot set one for itself any more.
    if (as_thread_filter(p, tid) != filter) {
        snprintf(o->thread, sizeof o->thread, "it has come under a seccomp filter");
        return false;
    }
    // The loader's lock once more: now this thread cannot take it any more.
    if (!is_ready(s, tracee, patient, o) || as_plan_loader_is_busy(s->plan, &p->base, o->loader, sizeof o->loader))
        return false;
    result->tid = tid;
    snprintf(result->where, sizeof result->where, "%s", o->thread);
    return true;
}

// Goes through the threads of one kind. True: the last tracee is the one, stopped.
static bool try_threads(const struct as_thread_search *s, enum as_thread_filter filter, const struct round *round,
                        size_t *met, struct obstacles *o)
{
    struct as_process *p = s->p;
    *met = 0;
    for (size_t i = 0; i < p->tids.count && as_now_ns() < round->deadline; ++i) {
        pid_t tid = p->tids.items[i];
        if (as_thread_filter(p, tid) != filter)
            continue;
        ++*met;
        if (as_process_is_touchy(p, tid) && !round->touchy_too)
            continue;
        if (try_thread(s, tid, filter, round->patient, o))
            return true;
        as_process_resume(&p->base);
    }
    return false;
}

// The library's calls, and those of the thread that it starts, are made under the filters of the thread that is used.
static bool try_all_threads(const struct as_thread_search *s, const struct round *round, struct obstacles *o,
                            struct as_error *err)
{
    size_t unfiltered;
    size_t filtered;
    if (!as_process_list_threads(s->p, err))
        return false;
    if (try_threads(s, AS_THREAD_UNFILTERED, round, &unfiltered, o))
        return true;
    o->filtered = unfiltered == 0;
    return s->force && (o->filtered || round->patient) && try_threads(s, AS_THREAD_FILTERED, round, &filtered, o);
}

bool as_find_thread(const struct as_thread_search *s, uint64_t began, struct as_error *err)
{
    struct as_process *p = s->p;
    struct obstacles o = {0};
    uint64_t deadline = began + s->patience_ns;
    uint64_t wait = FIRST_NAP_US;
    if (err->code != AS_OK && as_now_ns() >= deadline)
        return false; // it says why the last candidate would not do
    *err = (struct as_error){0};
    for (unsigned round = 0; as_now_ns() < deadline; ++round) {
        if (!as_process_alive(p))
            return as_fail(err, AS_TARGET_GONE, "process %d ended, or started another program", p->base.pid);
        // What is not mapped as far as we know is not read: stacks and code may be new since.
        if (round > 0 && !as_process_refresh_maps(p, false, err))
            return false;
        bool busy = as_plan_loader_is_busy(s->plan, &p->base, o.loader, sizeof o.loader);
        const struct round how = {round > 0, as_now_ns() - began > s->patience_ns / PATIENT, deadline};
        if (!busy && try_all_threads(s, &how, &o, err)) {
            s->result->search_ns = as_now_ns() - began;
            return true;
        }
        if (err->code != AS_OK)
            return false;
        as_sleep_ns(wait * 1000);
        wait = wait * 2 < LONGEST_NAP_US ? wait * 2 : LONGEST_NAP_US;
    }
    uint64_t attempts = s->result->attempts;
    uint64_t tracer = attempts == 0 ? as_proc_status(p->view_fd, "status", "TracerPid:") : 0;
    if (tracer != 0 && tracer != AS_PROC_NONE) // by one that goes by our name, or it would have been refused before
        return as_fail(err, AS_DENIED, "process %d was traced by process %d all the time: end that tracer first",
                       p->base.pid, (int)tracer);
    if (attempts == 0)
        return as_fail(err, AS_DENIED, "process %d: no thread could be examined: %s", p->base.pid,
                       o.loader[0]  ? o.loader
                       : o.filtered ? "all have come under a seccomp filter"
                                    : "no thread stopped");
    return as_fail(
        err, AS_DENIED,
        "process %d: no thread was ever at a place where a library can be loaded without the risk of a deadlock; in "
        "the last of %llu attempts thread %d could not be used: %s. Try again when the process is less busy",
        p->base.pid, (unsigned long long)attempts, o.tid, o.thread[0] ? o.thread : o.loader);
}
