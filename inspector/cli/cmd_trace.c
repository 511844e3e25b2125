// SPDX-License-Identifier: MIT
// A trace: what a process had at most, when, and who allocated it; or its events, one line each.
#include "cli/cli.h"
#include "cli/stacks.h"
#include "config.h"
#include "findings/humanize.h"
#include "profile/stacks.h"
#include "profile/tables.h"
#include "trace/account.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SITES = 20, PATH_COLUMNS = 80, TEXT_SIZE = 4 * PATH_COLUMNS + 1 };

struct trace_reading {
    struct as_trace trace;
    struct as_trace_account account;
    struct as_store store;       // the stacks
    struct as_snapshot snapshot; // whose view they are; no target
    struct as_stack_printing printing;
    AS_VEC(uint32_t) modules; // the record of each module
    AS_VEC(uint32_t)
    known; // of each of the record's stacks the record that was made of it, and 1; 0: none was made yet
    AS_VEC(uint32_t) stacks; // of each site; UINT32_MAX: not known
    AS_VEC(uint32_t) order;  // of the sites: most bytes at the peak first
};

// --- Stacks -----------------------------------------------------------------------------------------------------------

static bool add_modules(struct trace_reading *r, struct as_error *err)
{
    struct as_strings *strings = &r->store.strings;
    for (uint32_t i = 0; i < r->trace.modules.count; i++) {
        const struct as_trace_module *m = &r->trace.modules.items[i];
        struct as_profile_module_record *trace = as_vec_add(&r->store.profile_modules, err);
        uint32_t *module = as_vec_add(&r->modules, err);
        char id[2 * AS_PROFILE_BUILD_ID + 1];
        if (!trace || !module)
            return false;
        *module = i;
        as_profile_build_id_text(m->build_id, m->build_id_size, id);
        *trace = (struct as_profile_module_record){.start = m->start, .end = m->end, .bias = m->bias};
        trace->path = m->name[0] ? as_strings_add(strings, m->name, sizeof m->name)
                                 : as_strings_add(strings, r->trace.head.program, sizeof r->trace.head.program);
        trace->build_id = as_strings_add(strings, id, sizeof id);
    }
    return true;
}

// Most bytes at the peak first, then most that was allocated.
static int by_peak(const void *a, const void *b, void *reading)
{
    const struct as_trace_site *sites = ((const struct trace_reading *)reading)->account.sites.items;
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    const struct as_trace_site *x = &sites[left], *y = &sites[right];
    if (x->peak.bytes != y->peak.bytes)
        return x->peak.bytes > y->peak.bytes ? -1 : 1;
    if (x->allocated.bytes != y->allocated.bytes)
        return x->allocated.bytes > y->allocated.bytes ? -1 : 1;
    return left < right ? -1 : left > right;
}

// The line of interpreted code that a frame is.
static uint32_t read_line(void *reading, uint64_t frame, struct as_error *err)
{
    struct trace_reading *r = reading;
    const char *name = "", *file = "";
    struct as_profile_line_record *line = as_vec_add(&r->store.profile_lines, err);
    if (!line)
        return 0;
    as_trace_line(&r->trace, frame, &name, &file, &line->line);
    line->function = *name ? as_strings_add(&r->store.strings, name, AS_PROFILE_FUNCTION_NAME) : 0;
    line->file = *file ? as_strings_add(&r->store.strings, file, AS_PROFILE_FUNCTION_FILE) : 0;
    line->language = as_strings_add(&r->store.strings, frame >> 48 == AS_TRACE_RUBY ? "ruby" : "python", SIZE_MAX);
    return (uint32_t)r->store.profile_lines.count;
}

// The record of a stack: each is made once, whatever number of stacks are on it. UINT32_MAX: AS_NO_MEMORY.
static uint32_t stack_record(struct trace_reading *r, struct as_profile_stacks *stacks, uint32_t stack,
                             struct as_error *err)
{
    uint32_t fresh[AS_PROFILE_DEPTH], count = 0, *known = r->known.items;
    for (; stack && known[stack - 1] == 0; stack = as_trace_stack(&r->trace, stack)->caller)
        fresh[count++] = stack;
    uint32_t trace = stack ? known[stack - 1] - 1 : UINT32_MAX;
    while (count-- > 0) {
        uint64_t frame = as_trace_stack(&r->trace, fresh[count])->frame;
        if ((trace = as_profile_stacks_add(stacks, trace, frame, err)) == UINT32_MAX)
            return UINT32_MAX;
        known[fresh[count] - 1] = trace + 1;
    }
    return trace;
}

static bool add_sites(struct trace_reading *r, struct as_error *err)
{
    struct as_profile_stacks stacks = {.store = &r->store,
                                       .module_of = r->modules.items,
                                       .module_count = r->modules.count,
                                       .line = read_line,
                                       .reader = r};
    bool ok = as_vec_reserve(&r->known, r->trace.stacks.count, err);
    for (uint32_t id = 0; ok && id < r->account.sites.count; id++) {
        uint32_t *stack = as_vec_add(&r->stacks, err);
        const struct as_trace_context *context = as_trace_context(&r->trace, id);
        if ((ok = stack != NULL))
            *stack = UINT32_MAX;
        if (!ok || r->account.sites.items[id].allocated.count == 0)
            continue;
        ok = as_vec_push(&r->order, err, id);
        if (ok && context && context->stack) {
            *stack = stack_record(r, &stacks, context->stack, err);
            ok = *stack != UINT32_MAX;
        }
    }
    as_profile_stacks_free(&stacks);
    return ok;
}

static bool prepare(struct trace_reading *r, struct as_error *err)
{
    if (!as_trace_account(&r->account, &r->trace, err) || !add_modules(r, err) || !add_sites(r, err))
        return false;
    if (r->order.count > 0)
        qsort_r(r->order.items, r->order.count, sizeof *r->order.items, by_peak, r);
    r->snapshot.from_dump = true;
    r->snapshot.view = as_store_view(&r->store);
    r->printing = (struct as_stack_printing){.view = &r->snapshot.view, .err = err, .ok = true};
    return as_frame_names_open(&r->printing.names, &r->snapshot, err);
}

// --- JSON -------------------------------------------------------------------------------------------------------------

static const char *reason(const struct as_trace_ending *end)
{
    return end->reason == AS_TRACE_EXIT       ? "exit"
           : end->reason == AS_TRACE_NO_SPACE ? "no_space"
           : end->reason                      ? "error"
                                              : NULL;
}

static uint64_t started(const struct as_trace *r)
{
    return r->first.realtime ? r->first.realtime : AS_UNKNOWN;
}

static void put_lifetimes(struct as_json *j, const struct as_trace_account *a, bool timed)
{
    as_json_array(j, "lifetimes");
    for (size_t i = 0; timed && i < AS_TRACE_LIFETIMES; i++) {
        as_json_object(j, NULL);
        as_json_number(j, "below_ns", as_trace_lifetime(i));
        AS_JSON_NUMBERS(j, &a->lifetimes[i], count, bytes);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

static void put_timeline(struct as_json *j, const struct trace_reading *r, bool timed)
{
    uint64_t all = r->trace.last.ticks - r->trace.first.ticks;
    as_json_array(j, "timeline");
    for (size_t i = 0; timed && i < AS_TRACE_POINTS; i++) {
        const struct as_trace_point *m = &r->account.points[i];
        as_json_object(j, NULL);
        as_json_number(j, "from_ns", as_trace_time(&r->trace, r->trace.first.ticks + all / AS_TRACE_POINTS * i));
        as_json_number(j, "allocations", m->allocations);
        AS_JSON_NUMBERS(j, &m->most, count, bytes);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

static void put_sites(struct as_json *j, const struct trace_reading *r)
{
    as_json_array(j, "sites");
    for (size_t i = 0; i < r->order.count; i++) {
        uint32_t id = r->order.items[i];
        const struct as_trace_context *context = as_trace_context(&r->trace, id);
        const struct as_trace_site *s = &r->account.sites.items[id];
        as_json_object(j, NULL);
        as_json_number(j, "context", id);
        AS_JSON_OBJECT(j, "allocated", &s->allocated, count, bytes);
        AS_JSON_OBJECT(j, "temporary", &s->temporary, count, bytes);
        AS_JSON_OBJECT(j, "peak", &s->peak, count, bytes);
        AS_JSON_OBJECT(j, "in_use", &s->in_use, count, bytes);
        as_json_bool(j, "complete", context && context->complete);
        as_json_number(j, "stack", r->stacks.items[id] != UINT32_MAX ? r->stacks.items[id] : AS_UNKNOWN);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

static void put_counted(struct as_json *j, const struct trace_reading *r)
{
    const struct as_trace_account *a = &r->account;
    as_json_number(j, "threads", a->threads);
    AS_JSON_NUMBERS(j, a, events, frees, moved, resized, unknown_frees, replaced, backwards, lost_allocations,
                    lost_frees);
    AS_JSON_NUMBERS(j, &r->trace.last, missed, misses, checked, wrong, cut);
    as_json_number(j, "malformed", r->trace.malformed);
    AS_JSON_OBJECT(j, "allocated", &a->allocated, count, bytes);
    AS_JSON_OBJECT(j, "temporary", &a->temporary, count, bytes);
    AS_JSON_OBJECT(j, "in_use", &a->in_use, count, bytes);
    AS_JSON_OBJECT(j, "without_stack", &a->without_stack, count, bytes);
}

static void put_interpreters(struct as_json *j, const struct as_trace *r)
{
    as_json_array(j, "unknown_interpreters");
    for (size_t i = 0; i < r->interpreters.count; i++)
        as_stacks_put_unknown(j, r->interpreters.items[i].language, r->interpreters.items[i].release);
    as_json_array_end(j);
}

static void put_json(struct trace_reading *r)
{
    struct as_json j = as_json_begin("arenascope.trace/1");
    const struct as_trace *f = &r->trace;
    uint64_t duration = as_trace_time(f, f->last.ticks);
    as_json_string(&j, "version", AS_VERSION);
    as_json_text(&j, "program", f->head.program, sizeof f->head.program);
    as_json_number(&j, "pid", f->head.pid);
    as_json_string(&j, "clock", f->head.clock == AS_TRACE_TSC ? "counter" : "monotonic");
    as_json_time(&j, "started", started(f));
    as_json_number(&j, "duration_ns", duration);
    as_json_string(&j, "ended", reason(&f->end));
    as_json_number(&j, "torn_bytes", f->size - f->whole);
    put_counted(&j, r);
    put_interpreters(&j, f);
    as_json_object(&j, "peak");
    as_json_number(&j, "time_ns", as_trace_time(f, r->account.peak_ticks));
    AS_JSON_NUMBERS(&j, &r->account.peak, count, bytes);
    as_json_object_end(&j);
    put_lifetimes(&j, &r->account, duration != AS_UNKNOWN);
    put_timeline(&j, r, duration != AS_UNKNOWN);
    as_stacks_put_modules(&j, &r->snapshot.view);
    as_stacks_put_tree(&j, &r->printing);
    put_sites(&j, r);
    as_json_object_end(&j);
}

// --- Text -------------------------------------------------------------------------------------------------------------

static void print_sum(const char *what, const struct as_trace_sum *sum)
{
    printf("%-22s%11s in %" PRIu64 " blocks\n", what, as_size_text(sum->bytes).text, sum->count);
}

static void print_limits(const struct trace_reading *r)
{
    const struct as_trace_account *a = &r->account;
    const struct as_trace *f = &r->trace;
    if (f->end.reason != AS_TRACE_EXIT)
        printf("%s\n",
               f->end.reason == AS_TRACE_NO_SPACE ? "The trace ends before the process: there was no room for more."
               : f->end.reason                    ? "The trace ends before the process: its file could not be written."
                               : "The record has no end: the process still runs, was killed, or ended without exit(). "
                                 "The last events are missing: 100 ms, or more if the disk was slower.");
    if (f->size > f->whole)
        printf("Its last %" PRIu64 " bytes are no whole block: nothing of them is counted.\n", f->size - f->whole);
    if (a->lost_allocations + a->lost_frees + f->last.missed > 0)
        printf("Lost: %" PRIu64 " allocations and %" PRIu64 " frees for want of a buffer, %" PRIu64
               " events otherwise. All sums lack them.\n",
               a->lost_allocations, a->lost_frees, f->last.missed);
    if (a->lost_allocations + a->lost_frees > 0)
        printf("A thread that allocates has a buffer of 64 KiB to itself: there were more threads than buffers, or the "
               "disk was slower than the program. buffers= in ARENASCOPE_PROFILE sets their memory.\n");
    if (a->unknown_frees + a->replaced > 0)
        printf("%" PRIu64 " frees were of blocks that are not in the record; of %" PRIu64
               " blocks the free is not in it.\n",
               a->unknown_frees, a->replaced);
    for (size_t i = 0; i < f->interpreters.count; i++)
        as_stacks_print_unknown(f->interpreters.items[i].language, f->interpreters.items[i].release);
}

static void print_text(struct trace_reading *r)
{
    const struct as_trace *f = &r->trace;
    const struct as_trace_account *a = &r->account;
    char text[TEXT_SIZE], time[AS_TIME_SIZE];
    printf("%s (pid %" PRIu64 "), from %s for %s\n",
           as_safe_text(f->head.program, sizeof f->head.program, PATH_COLUMNS, true, text, sizeof text), f->head.pid,
           as_format_time(started(f), time) ? time : "an unknown time",
           as_duration_text(as_trace_time(f, f->last.ticks)).text);
    print_limits(r);
    print_sum("allocated", &a->allocated);
    print_sum("freed at once", &a->temporary);
    print_sum("at most in use", &a->peak);
    printf("  after %s\n", as_duration_text(as_trace_time(f, a->peak_ticks)).text);
    print_sum("in use at the end", &a->in_use);
    printf("\n%11s %12s  %11s\n", "at the peak", "blocks", "at the end");
    for (size_t i = 0; i < r->order.count && i < SITES; i++) {
        const struct as_trace_site *s = &a->sites.items[r->order.items[i]];
        printf("%11s %12" PRIu64 "  %11s\n", as_size_text(s->peak.bytes).text, s->peak.count,
               as_size_text(s->in_use.bytes).text);
        as_stacks_print(&r->printing, r->stacks.items[r->order.items[i]]);
    }
    if (r->order.count > SITES)
        printf("... and %zu more stacks (--json lists all)\n", r->order.count - SITES);
}

static bool print_events(struct as_trace *r, struct as_error *err)
{
    static const char *const names[] = {"free", "malloc", "calloc", "aligned", "resized", "moved_from", "moved_to"};
    struct as_trace_event e;
    while (as_trace_next(r, &e, err)) {
        uint64_t time = as_trace_time(r, e.time);
        if (time == AS_UNKNOWN)
            printf("-");
        else
            printf("%" PRIu64, time);
        printf(" %" PRIu32 " %s 0x%" PRIx64, e.thread, names[e.kind], e.address);
        if (e.kind != AS_TRACE_FREE && e.kind != AS_TRACE_MOVED_FROM)
            printf(" %" PRIu64 " %" PRIu32, e.size, e.context);
        if (e.alignment)
            printf(" %" PRIu64, e.alignment);
        putchar('\n');
    }
    return err->code == AS_OK;
}

static void finish_trace(struct trace_reading *r)
{
    as_frame_names_close(&r->printing.names);
    as_store_free(&r->store);
    as_trace_account_free(&r->account);
    as_trace_close(&r->trace);
    AS_FREE_VECS(r, modules, known, stacks, order);
}

bool as_cmd_trace(const struct as_options *o, struct as_error *err)
{
    static struct trace_reading r; // too large for a stack
    if (o->json && o->events)
        return as_fail(err, AS_USAGE, "--json or --events: give one of them");
    r.printing.ok = true;
    bool ok = as_trace_open(&r.trace, o->target, err) && as_trace_begin(&r.trace, err);
    if (ok && o->events) {
        ok = print_events(&r.trace, err);
    } else if (ok && (ok = prepare(&r, err))) {
        if (o->json)
            put_json(&r);
        else
            print_text(&r);
    }
    ok = ok && r.printing.ok;
    finish_trace(&r);
    return ok;
}
