// SPDX-License-Identifier: MIT
// arenadump trim: has the agent in a process give memory back, and says what came of it; or only what would.
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/open_target.h"
#include "cli/summary/summary.h"
#include "findings/humanize.h"
#include "inject/client.h"
#include "ledger/ledger.h"
#include "target/procfs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// All that is printed in the end.
struct trimming {
    const struct as_options *options;
    struct as_snapshot snapshot;
    pid_t pid;
    struct as_client agent;
    struct as_inject_result injected;
    bool trimmed; // else only a forecast was asked for
    struct as_control_reply reply;
    as_control_arena_vec arenas;
    // --watch: how much is back, and what it cost; AS_UNKNOWN where it was not watched.
    uint64_t faulted_back, faults;
    uint64_t resident; // of the agent itself, afterwards
};

static struct arenascope_trim_options trim_options(const struct as_options *o)
{
    return (struct arenascope_trim_options){
        .size = sizeof(struct arenascope_trim_options),
        .flags = o->deep ? ARENASCOPE_DEEP : 0,
        .max_hold = o->max_hold_ns,
        .arena = o->arena ? o->arena : ARENASCOPE_ALL_ARENAS,
    };
}

static bool ask_agent(struct trimming *t, uint32_t operation, struct as_control_reply *reply,
                      as_control_arena_vec *arenas, struct as_error *err)
{
    const struct as_control_request request = {
        .protocol = AS_CONTROL_PROTOCOL, .operation = operation, .trim = trim_options(t->options)};
    return as_client_ask(&t->agent, &request, reply, arenas, err);
}

// Page faults of the process that needed no disk, so far (proc_pid_stat(5), field 10); AS_UNKNOWN when it has ended.
static uint64_t minor_faults(pid_t pid)
{
    char name[32];
    char text[1024];
    snprintf(name, sizeof name, "/proc/%d/stat", pid);
    ssize_t length = as_proc_read(-1, name, text, sizeof text);
    // Behind the name, which may hold anything: the state is field 3.
    const char *at = length > 0 ? strrchr(text, ')') : NULL;
    for (int field = 2; at && field < 10; ++field) {
        at = strchr(at + 1, ' ');
    }
    if (!at)
        return AS_UNKNOWN;
    ++at;
    return as_parse_decimal(&at, text + length);
}

static uint64_t difference(uint64_t a, uint64_t b)
{
    return a == AS_UNKNOWN || b == AS_UNKNOWN ? AS_UNKNOWN : a > b ? a - b : 0;
}

static const struct as_control_arena *find_arena(const as_control_arena_vec *arenas, uint64_t address)
{
    for (size_t i = 0; i < arenas->count; ++i) {
        if (arenas->items[i].before.arena == address)
            return &arenas->items[i];
    }
    return NULL;
}

// Returns how much the arenas have grown since, each by no more than it gave back; an arena may have reused other pages
// instead, so this is at most what was needed again.
static uint64_t count_faulted_back(const as_control_arena_vec *then, const as_control_arena_vec *now)
{
    uint64_t sum = 0;
    AS_FOR_EACH(const struct as_control_arena, before, then) {
        const struct as_control_arena *after = find_arena(now, before->before.arena);
        if (!after || before->returned == AS_UNKNOWN || before->before.resident == AS_UNKNOWN)
            return AS_UNKNOWN;
        uint64_t grown = difference(after->before.resident, difference(before->before.resident, before->returned));
        if (grown == AS_UNKNOWN)
            return AS_UNKNOWN;
        sum += grown < before->returned ? grown : before->returned;
    }
    return sum;
}

static bool watch(struct trimming *t, struct as_error *err)
{
    uint64_t ns = t->options->watch_ns;
    uint64_t faults = minor_faults(t->agent.pid);
    struct timespec rest = as_time_of(ns);
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
    struct as_control_reply reply;
    as_control_arena_vec now = {0};
    bool ok = ask_agent(t, AS_CONTROL_FORECAST, &reply, &now, err);
    if (ok) {
        t->faults = difference(minor_faults(t->agent.pid), faults);
        t->faulted_back = count_faulted_back(&t->arenas, &now);
    }
    as_vec_free(&now);
    return ok;
}

// What a trim would return is computed from outside, as the summary's forecast: nothing is loaded, and nothing changes.
static bool forecast(struct trimming *t, struct as_snapshot *snapshot, struct as_error *err)
{
    if (!as_snapshot_take(snapshot, t->options, NULL, false, err) ||
        !as_snapshot_needs_glibc(snapshot, t->options, err))
        return false;
    const struct as_view *v = &snapshot->view;
    struct as_arena_place place = as_arena_place_begin(v);
    t->pid = (pid_t)v->meta->pid;
    if (!(v->meta->flags & AS_META_EXACT))
        snprintf(t->reply.error, sizeof t->reply.error, "not exact: arenadump summary says why");
    for (uint64_t i = 0; i < v->arena_count; ++i) {
        const struct as_ledger *l = &v->arenas[i].ledger;
        const struct as_ledger_sums sums = as_ledger_sum_up(&v->arenas[i].ledger);
        as_arena_place_step(&place, (uint32_t)i, v->arenas[i].flags & AS_ARENA_MAIN);
        if (t->options->arena != 0 && t->options->arena != v->arenas[i].address)
            continue;
        struct as_control_arena *arena = as_vec_add(&t->arenas, err);
        if (!arena)
            return false;
        *arena = (struct as_control_arena){
            .place = place,
            .before = {.arena = v->arenas[i].address,
                       .resident = sums.resident,
                       .releasable = l->malloc_trim,
                       .withheld = sums.deep_trim_adds},
            .returned = AS_UNKNOWN,
            .longest_hold = AS_UNKNOWN,
        };
    }
    if (t->options->arena == 0)
        return t->arenas.count > 0 ||
               as_fail(err, AS_DENIED, "trim: no arena of process %d could be read: arenadump summary says why",
                       (int)t->pid);
    return t->arenas.count > 0 ||
           as_fail(err, AS_USAGE, "trim: there is no arena at 0x%" PRIx64 " (arenadump summary lists them)",
                   t->options->arena);
}

// The bytes that a trim with these options gives back.
static uint64_t promised(const struct trimming *t, const struct as_control_arena *a)
{
    uint64_t deep = t->options->deep ? a->before.withheld : 0;
    return a->before.releasable == AS_UNKNOWN || deep == AS_UNKNOWN ? AS_UNKNOWN : a->before.releasable + deep;
}

static uint64_t sum_promised(const struct trimming *t)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < t->arenas.count; ++i) {
        uint64_t bytes = promised(t, &t->arenas.items[i]);
        if (bytes == AS_UNKNOWN)
            return AS_UNKNOWN;
        sum += bytes;
    }
    return sum;
}

// Is the library there, asleep? As it was preloaded or linked, or injected under the name of its memfd.
static bool has_library(const struct as_target *t)
{
    for (size_t i = 0; i < t->mappings.count; ++i) {
        const char *path = as_mapping_path(t, &t->mappings.items[i]);
        if (strstr(path, "/libarenascope.so") || strstr(path, "/memfd:" AS_AGENT_MEMFD))
            return true;
    }
    return false;
}

// Is it certain that the agent would cost more than a trim returns? Swap comes back as well, and is not forecast.
static bool is_in_vain(const struct trimming *t, const struct as_snapshot *snapshot)
{
    const struct as_view *v = &snapshot->view;
    return (v->meta->flags & AS_META_EXACT) && !has_library(snapshot->target) && v->totals->ledger.swapped_free == 0 &&
           sum_promised(t) < as_agent_most_resident(v->meta->page_size);
}

// Snapshots from outside whether it is worth it to load the agent. A snapshot that fails says nothing of that: an injection fails with
// better words, or does not. False: what was asked for cannot be.
static bool forecast_first(struct trimming *t, bool *vain, struct as_error *err)
{
    struct as_snapshot snapshot;
    struct as_error why = {0};
    *vain = as_snapshot_open(&snapshot, t->options->target, &why) && forecast(t, &snapshot, &why) &&
            is_in_vain(t, &snapshot);
    if (*vain)
        snprintf(
            t->reply.error, sizeof t->reply.error,
            "the agent was not loaded: it would take up to %s, and a trim would return %s (arenascope inject loads it "
            "all the same)",
            as_size_text(as_agent_most_resident(snapshot.view.meta->page_size)).text,
            as_size_text(sum_promised(t)).text);
    else
        as_vec_free(&t->arenas);
    as_snapshot_close(&snapshot);
    if (why.code == AS_USAGE)
        *err = why;
    return why.code != AS_USAGE;
}

// Reaches the agent; loads it where it is not there, unless that is in vain.
static bool reach(struct trimming *t, bool *vain, struct as_error *err)
{
    const struct as_inject_options how = as_options_injection(t->options);
    bool absent;
    *vain = false;
    if (as_client_connect(&t->agent, t->snapshot.target->pid, 0, how.patience_ns, &absent, err))
        return true;
    if (absent && !forecast_first(t, vain, err))
        return false;
    return *vain || as_client_reach(&t->agent, t->snapshot.target, &how, &t->injected, err);
}

static bool perform(struct trimming *t, struct as_error *err)
{
    const struct as_options *o = t->options;
    bool vain;
    if (!as_snapshot_open(&t->snapshot, o->target, err))
        return false;
    if (o->forecast && o->watch_ns != 0)
        return as_fail(err, AS_USAGE, "trim: --forecast gives nothing back, so --watch would have nothing to measure");
    // --max-pause once bounded the locks: a user who means the locks must not get an unbounded trim.
    if (!o->forecast && o->max_pause_ns != 0 && o->max_hold_ns == 0)
        return as_fail(
            err, AS_USAGE,
            "trim: --max-pause limits for how long a snapshot may stop the process; the limit for the lock of "
            "an arena is --max-hold");
    if (o->forecast)
        return forecast(t, &t->snapshot, err);
    if (!as_snapshot_is_process(&t->snapshot, "trim", o->target, err) || !reach(t, &vain, err))
        return false;
    if (vain)
        return true;
    t->trimmed = true;
    t->reply = (struct as_control_reply){0};
    t->pid = t->agent.pid;
    if (!ask_agent(t, AS_CONTROL_TRIM, &t->reply, &t->arenas, err))
        return false;
    t->resident = as_client_resident(&t->agent);
    return o->watch_ns == 0 || watch(t, err);
}

// --- What is printed ---

static void print_json(const struct trimming *t)
{
    struct as_json j = as_json_begin("arenascope.trim/1");
    const struct arenascope_trim_result *r = &t->reply.trim;
    char name[AS_ARENA_NAME];
    as_json_number(&j, "pid", (uint64_t)t->pid);
    as_json_text(&j, "agent_version", t->trimmed ? t->agent.version : NULL, sizeof t->agent.version);
    as_json_bool(&j, "injected", t->injected.how == AS_INJECT_LOADED);
    as_json_number(&j, "agent_resident", t->resident);
    as_json_bool(&j, "trimmed", t->trimmed);
    as_json_bool(&j, "deep", t->options->deep);
    as_json_number(&j, "forecast", t->trimmed ? r->forecast : sum_promised(t));
    AS_JSON_NUMBERS(&j, r, returned, returned_swap, released);
    as_json_milliseconds(&j, "longest_hold_ms", r->longest_hold);
    as_json_milliseconds(&j, "max_hold_ms", t->options->max_hold_ns ? t->options->max_hold_ns : AS_UNKNOWN);
    as_json_milliseconds(&j, "elapsed_ms", r->elapsed);
    as_json_milliseconds(&j, "cpu_ms", r->cpu);
    as_json_number(&j, "skipped_arenas", r->skipped);
    as_json_milliseconds(&j, "watched_ms", t->trimmed && t->options->watch_ns ? t->options->watch_ns : AS_UNKNOWN);
    as_json_number(&j, "faulted_back", t->faulted_back);
    as_json_number(&j, "minor_faults", t->faults);
    as_json_text(&j, "note", t->reply.error[0] ? t->reply.error : NULL, sizeof t->reply.error);
    as_json_array(&j, "arenas");
    AS_FOR_EACH(const struct as_control_arena, a, &t->arenas) {
        as_json_object(&j, NULL);
        as_json_number(&j, "index", a->place.index);
        as_json_string(&j, "name", as_arena_place_name(&a->place, name));
        as_json_address(&j, "address", a->before.arena);
        AS_JSON_NUMBERS(&j, &a->before, resident, releasable, withheld);
        as_json_number(&j, "returned", a->returned);
        as_json_milliseconds(&j, "longest_hold_ms", a->longest_hold);
        as_json_object_end(&j);
    }
    as_json_array_end(&j);
    as_json_object_end(&j);
}

static void print_arenas(const struct trimming *t)
{
    char name[AS_ARENA_NAME];
    printf("%-16s %-16s %12s %12s %12s", "arena", "address", "resident", "releasable", "withheld");
    puts(t->trimmed ? "     returned  locked for" : "");
    AS_FOR_EACH(const struct as_control_arena, a, &t->arenas) {
        printf("%-16s 0x%-14" PRIx64 " %12s %12s %12s", as_arena_place_name(&a->place, name), a->before.arena,
               as_size_text(a->before.resident).text, as_size_text(a->before.releasable).text,
               as_size_text(a->before.withheld).text);
        if (t->trimmed)
            printf(" %12s %11s", as_size_text(a->returned).text, as_duration_text(a->longest_hold).text);
        putchar('\n');
    }
}

static void print_trim(const struct trimming *t)
{
    const struct arenascope_trim_result *r = &t->reply.trim;
    printf("returned %s by the kernel's count (the forecast was %s)", as_size_text(r->returned).text,
           as_size_text(r->forecast).text);
    if (r->returned_swap != 0 && r->returned_swap != AS_UNKNOWN)
        printf(", and %s of swap", as_size_text(r->returned_swap).text);
    if (r->longest_hold == AS_UNKNOWN)
        printf("\nit is unknown for how long an arena was locked (libc's own malloc_trim did the work; --max-hold "
               "bounds and measures it); ");
    else if (t->options->max_hold_ns != 0 && r->longest_hold > t->options->max_hold_ns)
        printf("\nan arena was locked for %s, longer than the %s of --max-hold; ",
               as_duration_text(r->longest_hold).text, as_duration_text(t->options->max_hold_ns).text);
    else
        printf("\nno arena was locked for longer than %s; ", as_duration_text(r->longest_hold).text);
    printf("it took %s, %s of processor time\n", as_duration_text(r->elapsed).text, as_duration_text(r->cpu).text);
    if (r->skipped != 0 && r->skipped != AS_UNKNOWN)
        printf("%" PRIu64 " arena%s skipped; the note says why\n", r->skipped, r->skipped == 1 ? " was" : "s were");
    printf("the agent itself takes %s of the process's memory\n", as_size_text(t->resident).text);
    if (t->options->watch_ns == 0)
        return;
    printf("after %s, %s of it is resident again", as_duration_text(t->options->watch_ns).text,
           as_size_text(t->faulted_back).text);
    if (r->returned != 0 && t->faulted_back != AS_UNKNOWN && r->returned != AS_UNKNOWN)
        printf(" (%.0f %%)", 100.0 * (double)t->faulted_back / (double)r->returned);
    if (t->faults != AS_UNKNOWN)
        printf("; the process has had %" PRIu64 " page faults meanwhile", t->faults);
    putchar('\n');
}

bool as_cmd_trim(const struct as_options *o, struct as_error *err)
{
    struct trimming t = {
        .options = o, .agent.socket = -1, .faulted_back = AS_UNKNOWN, .faults = AS_UNKNOWN, .resident = AS_UNKNOWN};
    memset(&t.reply.trim, 0xff, sizeof t.reply.trim); // until the agent trims, all is unknown
    bool ok = perform(&t, err);
    char note[sizeof t.reply.error];
    if (ok && o->json) {
        print_json(&t);
    } else if (ok) {
        print_arenas(&t);
        if (t.trimmed)
            print_trim(&t);
        else
            printf("a %strim would return %s\n", o->deep ? "deep " : "", as_size_text(sum_promised(&t)).text);
        if (t.reply.error[0])
            printf("note: %s\n", as_safe_text(t.reply.error, sizeof t.reply.error, SIZE_MAX, false, note, sizeof note));
    }
    as_vec_free(&t.arenas);
    as_client_close(&t.agent);
    as_snapshot_close(&t.snapshot);
    return ok;
}
