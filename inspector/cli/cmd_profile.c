// SPDX-License-Identifier: MIT
// arenadump profile: has a running process record who allocates, for a while, and writes a dump with the profile. The agent ends the
// profile when our connection is closed, so that nothing has to be undone when we are killed.
#include "cli/baseline.h"
#include "cli/cli.h"
#include "cli/open_target.h"
#include "inject/client.h"
#include "inject/entry/entry_guard.h"
#include "inject/inject.h"
#include "profile/head.h"
#include "target/process/read/live_process.h"
#include "target/procfs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The three signals that end a profile, and what they did before.
static const int enders[] = {SIGINT, SIGTERM, SIGHUP};
enum { ENDERS = sizeof enders / sizeof enders[0] };

static volatile sig_atomic_t asked_to_end;

static void on_signal(int signal)
{
    (void)signal;
    asked_to_end = 1;
}

struct listening {
    struct sigaction before[ENDERS];
    sigset_t mask;
};

// From now on these signals wait for the ppoll() below.
static void listen_for_signals(struct listening *l)
{
    struct sigaction action = {0};
    action.sa_handler = on_signal;
    sigset_t blocked;
    sigemptyset(&blocked);
    for (size_t i = 0; i < ENDERS; i++) {
        sigaddset(&blocked, enders[i]);
        // nohup and background shells ignore some of them on purpose.
        if (sigaction(enders[i], NULL, &l->before[i]) == 0 && l->before[i].sa_handler != SIG_IGN)
            sigaction(enders[i], &action, NULL);
    }
    sigprocmask(SIG_BLOCK, &blocked, &l->mask);
}

// A second signal ends us as ever.
static void stop_listening(const struct listening *l)
{
    for (size_t i = 0; i < ENDERS; i++)
        sigaction(enders[i], &l->before[i], NULL);
    sigprocmask(SIG_SETMASK, &l->mask, NULL);
}

// Whether nobody can write to standard input any more. What was written is passed over.
static bool input_has_ended(void)
{
    char passed_over[256];
    ssize_t got = read(STDIN_FILENO, passed_over, sizeof passed_over);
    return got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
}

static bool was_ended(const struct as_client *agent, struct as_error *err)
{
    return as_fail(err, AS_TARGET_GONE,
                   "the profile in process %d was ended before its time, by another arenadump, or with the process: no "
                   "dump was written",
                   agent->pid);
}

// Until the time is over or a signal has come; *abandoned: until standard input has ended. False: the agent has closed the connection.
static bool wait_for_end(const struct as_client *agent, const struct as_options *o, const struct listening *l,
                         bool *abandoned, struct as_error *err)
{
    uint64_t deadline = o->for_ns ? as_now_ns() + o->for_ns : UINT64_MAX;
    struct pollfd files[] = {{.fd = agent->socket, .events = POLLIN},
                             {.fd = o->until_eof ? STDIN_FILENO : -1, .events = POLLIN}};
    for (uint64_t now = as_now_ns(); !asked_to_end && !*abandoned && now < deadline; now = as_now_ns()) {
        uint64_t left = deadline - now;
        const struct timespec limit = as_time_of(left);
        if (ppoll(files, 2, o->for_ns ? &limit : NULL, &l->mask) <= 0)
            continue;
        if (files[0].revents)
            return was_ended(agent, err);
        *abandoned = files[1].revents && input_has_ended();
    }
    return true;
}

// An agent that has been in the process for long may be of an earlier build, with its own recorder. What it does is known at the end of
// the profile, or now. Where another arenadump has ended the profile since, the agent has closed the connection before it
// gave the tables back.
static bool is_readable(const struct as_client *agent, struct as_target *t, struct as_error *err)
{
    if (!as_process_refresh_maps(as_process_of(t), false, err))
        return false;
    if (as_profile_find(t) != 0)
        return true;
    struct pollfd connection = {.fd = agent->socket, .events = POLLIN};
    return poll(&connection, 1, 0) > 0
               ? was_ended(agent, err)
               : as_fail(err, AS_UNSUPPORTED,
                         "the agent in process %d is of another build, whose profiles this arenadump cannot read: "
                         "nothing is recorded; use the arenadump that loaded it, or start the process again",
                         agent->pid);
}

// With an agent that is there already nobody has inspected its mappings and filters.
static bool has_room(const struct as_options *o, struct as_target *t, struct as_error *err)
{
    struct as_process *p = as_process_of(t);
    return o->force || (as_process_refresh_maps(p, false, err) &&
                        as_inject_has_mappings(p, AS_RECORDER_MAPPINGS, err) && as_inject_passes_filters(p, true, err));
}

// Begins the profile. Hooks at entries that somebody left who was killed are taken out.
static bool begin_profile(const struct as_options *o, const struct as_client *agent, struct as_target *t,
                          struct as_entry_guard *guard, uint64_t *page, struct as_error *err)
{
    char rates[AS_CONTROL_RATES];
    snprintf(rates, sizeof rates, "%s%s%s", o->rates ? o->rates : "", o->rates && o->exact ? "," : "",
             o->exact    ? "exact"
             : !o->rates ? "1"
                         : "");
    if (!has_room(o, t, err) || !as_load_recorder_begin(agent, t, rates, o->entry, page, err))
        return false;
    bool ok = o->entry     ? as_entry_guard_begin(guard, t, *page, err)
              : *page != 0 ? as_entries_mend(t, *page, err)
                           : true;
    struct as_error late;
    if (!ok)
        as_load_recorder_end(agent, page, &late);
    return ok && is_readable(agent, t, err);
}

// A profile is worth having without it: it then says that nobody knows what grew. Where no malloc of glibc's is, there is nothing to walk.
static void report_baseline(const struct as_error *err)
{
    if (err->code != AS_NO_MALLOC)
        fprintf(stderr, "arenadump: what was in use at the beginning, and so what grows, is not known: %s\n",
                err->text);
}

// What was recorded is worth more than the graph.
static bool write_dump(const struct as_options *o, const struct as_profile_baseline *baseline, struct as_error *err)
{
    bool ok = as_dump_profile(o, baseline, err);
    if (ok || !o->graph || err->code != AS_NO_MEMORY)
        return ok;
    const struct as_error why = *err;
    struct as_options less = *o;
    less.graph = false;
    ok = as_dump_profile(&less, baseline, err);
    if (ok)
        fprintf(stderr, "arenadump: the dump has no types and no owners: %s\n", why.text);
    return ok;
}

static bool record(const struct as_options *o, const struct as_client *agent, struct as_target *t, struct as_error *err)
{
    struct listening l;
    struct as_entry_guard guard = {.socket = -1};
    uint64_t page = 0;
    bool abandoned = false;
    struct as_profile_baseline baseline;
    listen_for_signals(&l);
    bool ok = begin_profile(o, agent, t, &guard, &page, err);
    // Once each new chunk is recorded: what grows later has its sites. Not beside jumps at entries: arenadump and its guards may be killed
    // then at any time, and who kills the guard of a walk harms the target (docs/hazards.md#reading-a-process).
    struct as_error late;
    const bool based = ok && !o->entry && as_baseline_take(o, &baseline, &late);
    if (ok)
        fprintf(stderr, "arenadump: process %d records who allocates%s\n", agent->pid,
                o->for_ns ? "" : "; Ctrl-C ends the profile");
    if (ok && !based && !o->entry)
        report_baseline(&late);
    ok = ok && wait_for_end(agent, o, &l, &abandoned, err);
    stop_listening(&l);
    // While it goes on: of places that are used again afterwards nobody would know.
    ok = ok && (abandoned || write_dump(o, based ? &baseline : NULL, err));
    if (based)
        as_profile_baseline_free(&baseline);
    ok = as_entry_guard_end(&guard, t, page, ok ? err : &late) && ok;
    ok = ok && as_load_recorder_end(agent, &page, err);
    if (ok && abandoned) // last: perhaps nobody reads standard error any more either
        fprintf(stderr, "arenadump: standard input has ended, and with it the profile: no dump was written\n");
    return ok;
}

// Whoever recorded may have been killed, and left hooks at entries.
static bool stop(const struct as_client *agent, struct as_target *t, struct as_error *err)
{
    uint64_t page;
    return as_load_recorder_end(agent, &page, err) && (page == 0 || as_entries_mend(t, page, err));
}

static bool is_possible(const struct as_options *o, struct as_error *err)
{
#if defined(__x86_64__)
    (void)o;
    (void)err;
    return true;
#else
    return !o->entry || as_fail(err, AS_UNSUPPORTED,
                                "--entry: the entries of malloc and its kin can be patched on x86-64 alone; record "
                                "without it");
#endif
}

bool as_cmd_profile(const struct as_options *o, struct as_error *err)
{
    struct as_snapshot snapshot;
    struct as_client agent = {.socket = -1};
    struct as_inject_result result;
    struct as_inject_options how = as_options_injection(o);
    how.present_only = o->stop;
    how.mappings = o->stop ? 0 : AS_RECORDER_MAPPINGS;
    how.everywhere = !o->stop;
    if (o->rates && strlen(o->rates) + sizeof ",exact" > AS_CONTROL_RATES)
        return as_fail(err, AS_USAGE, "--rates '%.100s...' is too long", o->rates);
    bool ok = is_possible(o, err) && as_snapshot_open_process(&snapshot, "profile", o->target, err);
    ok = ok && as_client_reach(&agent, snapshot.target, &how, &result, err);
    ok = ok && (o->stop ? stop(&agent, snapshot.target, err) : record(o, &agent, snapshot.target, err));
    as_client_close(&agent);
    as_snapshot_close(&snapshot);
    return ok;
}
