// SPDX-License-Identifier: MIT
// Who allocated what is in use, and who allocates most: what a recorder in the process has written down.
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/open_target.h"
#include "cli/stacks.h"
#include "findings/humanize.h"
#include "trace/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SITES = 20 };

static void put_pins(struct as_json *j, const struct as_view *v, uint64_t site)
{
    static const struct as_profile_pin_record unknown = {
        .pinned = AS_UNKNOWN,
        .stranded = AS_UNKNOWN,
        .pages = AS_UNKNOWN,
        .pages_stranded = AS_UNKNOWN,
        .returned = AS_UNKNOWN,
    };
    AS_JSON_OBJECT(j, "pinned", site < v->profile_pin_count ? &v->profile_pins[site] : &unknown, pinned, stranded,
                   pages, pages_stranded, returned);
}

// NULL: there is none any more, or the id has no meaning here.
static const struct as_thread_record *living(const struct as_view *v, const struct as_profile_thread_record *one)
{
    for (uint64_t i = 0; one->flags & AS_PROFILE_THREAD_HERE && i < v->thread_count; i++)
        if (v->threads[i].tid == one->tid)
            return &v->threads[i];
    return NULL;
}

static void put_threads(struct as_json *j, const struct as_view *v)
{
    as_json_array(j, "threads");
    for (uint64_t i = 0; i < v->profile_thread_count; i++) {
        const struct as_thread_record *thread = living(v, &v->profile_threads[i]);
        as_json_object(j, NULL);
        as_json_number(j, "tid", v->profile_threads[i].tid ? v->profile_threads[i].tid : AS_UNKNOWN);
        if (thread && thread->name[0] != '\0')
            as_json_text(j, "name", thread->name, sizeof thread->name);
        else
            as_json_string(j, "name", NULL);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

// The shares of a site, of which the first is *share; then it is that of the next site.
static void put_shares(struct as_json *j, const struct as_view *v, uint64_t site, uint64_t *share)
{
    as_json_array(j, "threads");
    for (; *share < v->profile_share_count && v->profile_shares[*share].site == site; ++*share) {
        const struct as_profile_share_record *s = &v->profile_shares[*share];
        as_json_object(j, NULL);
        as_json_number(j, "thread", s->thread < v->profile_thread_count ? s->thread : AS_UNKNOWN);
        as_json_counts(j, "in_use", s->count, s->bytes);
        as_json_counts(j, "allocated", s->alloc_count, s->alloc_bytes);
        as_json_object_end(j);
    }
    as_json_array_end(j);
}

static void put_site(struct as_json *j, const struct as_view *v, uint64_t site, uint64_t *share)
{
    const struct as_profile_site_record *s = &v->profile_sites[site];
    as_json_object(j, NULL);
    as_json_counts(j, "in_use", s->count, s->bytes);
    as_json_counts(j, "seen", s->seen_count, s->seen_bytes);
    as_json_counts(j, "allocated", s->alloc_count, s->alloc_bytes);
    as_json_counts(j, "grown", s->grown_count, s->grown_bytes);
    put_pins(j, v, site);
    put_shares(j, v, site, share);
    as_json_number(j, "samples", s->samples);
    as_json_bool(j, "complete", !(s->flags & AS_PROFILE_CUT));
    as_json_number(j, "stack", s->stack);
    as_json_object_end(j);
}

static void put_type(struct as_json *j, const struct as_view *v, const struct as_profile_type_record *type)
{
    const char *name = as_view_string(v, type->name);
    as_json_object(j, NULL);
    as_json_string(j, "type", *name ? name : NULL);
    as_json_bool(j, "others", type->flags & AS_GRAPH_OTHERS);
    as_json_counts(j, "before", type->before_count, type->before_bytes);
    as_json_counts(j, "after", type->after_count, type->after_bytes);
    as_json_number(j, "recorded", type->recorded);
    as_json_object_end(j);
}

// null: not known.
static void put_types(struct as_json *j, const struct as_view *v)
{
    if (v->profile->types_exact == AS_UNKNOWN) {
        as_json_null(j, "types");
        return;
    }
    as_json_array(j, "types");
    for (uint64_t i = 0; i < v->profile_type_count; i++)
        put_type(j, v, &v->profile_types[i]);
    as_json_array_end(j);
}

// What grew since a walk when the profile began; null: there was none.
static void put_growth(struct as_json *j, const struct as_view *v)
{
    if (v->profile->baseline_ns == AS_UNKNOWN) {
        as_json_null(j, "growth");
        return;
    }
    as_json_object(j, "growth");
    as_json_time(j, "since", v->profile->baseline_ns);
    as_json_bool(j, "exact", v->profile->baseline_exact == 1 && v->meta->flags & AS_META_EXACT);
    as_json_array(j, "sizes");
    for (uint64_t i = 0; i < v->profile_size_count; i++)
        AS_JSON_OBJECT(j, NULL, &v->profile_sizes[i], size, before, after, recorded);
    as_json_array_end(j);
    as_json_bool(j, "types_exact", v->profile->types_exact == 1);
    put_types(j, v);
    as_json_object_end(j);
}

static void put_json(struct as_stack_printing *printing)
{
    const struct as_view *v = printing->view;
    const struct as_profile_record *p = v->profile;
    struct as_json j = as_json_begin("arenascope.profile/1");
    as_json_snapshot(&j, v);
    as_json_time(&j, "started", p->started_ns);
    as_json_bool(&j, "on", p->flags & AS_PROFILE_ON);
    as_json_bool(&j, "every_page", p->flags & AS_PROFILE_EXACT);
    as_json_string(&j, "hooks", p->hooks == AS_HOOKS_AT_ENTRIES ? "entries" : "slots");
    as_json_number(&j, "page_rate", p->page_rate);
    AS_JSON_NUMBERS(&j, p, large, mean, memory, misses, checked, wrong, lost, cut, samples, unsampled);
    as_json_counts(&j, "known", p->known_count, p->known_bytes);
    as_json_counts(&j, "unseen", p->unseen_count, p->unseen_bytes);
    as_json_counts(&j, "without_stack", p->lost_count, p->lost_bytes);
    as_json_counts(&j, "allocated_without_stack", p->lost_alloc_count, p->lost_alloc_bytes);
    as_json_array(&j, "unknown_interpreters");
    as_stacks_put_unknown(&j, AS_TRACE_PYTHON, p->unknown_python);
    as_stacks_put_unknown(&j, AS_TRACE_RUBY, p->unknown_ruby);
    as_json_array_end(&j);
    put_growth(&j, v);
    put_threads(&j, v);
    as_stacks_put_modules(&j, v);
    as_stacks_put_tree(&j, printing);
    as_json_array(&j, "sites");
    uint64_t share = 0;
    for (uint64_t i = 0; i < v->profile_site_count; i++)
        put_site(&j, v, i, &share);
    as_json_array_end(&j);
    as_json_object_end(&j);
}

static void print_head(const struct as_profile_record *p)
{
    char since[AS_TIME_SIZE];
    printf("Profile since %s, %s\n", as_format_time(p->started_ns, since) ? since : "an unknown time",
           p->flags & AS_PROFILE_ON ? "going on" : "ended");
    if (p->flags & AS_PROFILE_EXACT)
        printf("every chunk in use was looked up; ");
    else
        printf("one page in %" PRIu32 " is watched, its chunks stand for all; ", p->page_rate);
    printf("the tables take %s\n", as_size_text(p->memory).text);
    if (p->hooks == AS_HOOKS_AT_ENTRIES)
        printf("hooks at the entries of malloc and its kin: calls through pointers are seen, too\n");
    else if (p->hooks == AS_HOOKS_IN_SLOTS)
        printf("hooks in slots: calls through pointers that were copied before are not seen\n");
    printf("in use: %s by the stacks below; %s allocated before, or unseen; %s without a stack\n",
           as_size_text(p->known_bytes).text, as_size_text(p->unseen_bytes).text, as_size_text(p->lost_bytes).text);
    if (p->lost)
        printf("recorded without a stack: %" PRIu64 " allocations, freed or not (no room in the tables, as a rule)\n",
               p->lost);
    if (p->lost_alloc_bytes)
        printf("allocated without a stack: %s (estimate)\n", as_size_text(p->lost_alloc_bytes).text);
    printf("stacks: %" PRIu64 " of %" PRIu64 " that were checked were wrong; %" PRIu64 " lack outer frames\n", p->wrong,
           p->checked, p->cut);
    as_stacks_print_unknown(AS_TRACE_PYTHON, p->unknown_python);
    as_stacks_print_unknown(AS_TRACE_RUBY, p->unknown_ruby);
}

static void print_site(struct as_stack_printing *p, const struct as_profile_site_record *s)
{
    printf("%11s %12" PRIu64 "  %11s allocated (estimate)\n", as_size_text(s->bytes).text, s->count,
           as_size_text(s->alloc_bytes).text);
    as_stacks_print(p, s->stack);
}

static void print_text(struct as_stack_printing *p)
{
    const struct as_view *v = p->view;
    print_head(v->profile);
    printf("\n%11s %12s\n", "in use", "chunks");
    for (uint64_t i = 0; i < v->profile_site_count && i < SITES; i++)
        print_site(p, &v->profile_sites[i]);
    if (v->profile_site_count > SITES)
        printf("... and %" PRIu64 " more sites (--json lists all)\n", v->profile_site_count - SITES);
}

static bool fail_without_profile(const struct as_view *v, const char *target, struct as_error *err)
{
    for (uint64_t i = 0; i < v->runtime_count; i++)
        if (v->runtimes[i].kind == AS_RUNTIME_RECORDER && v->runtimes[i].state == AS_REGIONS_UNPROVEN)
            return as_fail(err, AS_UNSUPPORTED,
                           "'%s' has no profile that this arenadump can read: what begins as the tables of a recorder "
                           "is not as it knows them. Use the arenadump of the version that the agent in the "
                           "process has",
                           target);
    return as_fail(err, AS_UNSUPPORTED,
                   "'%s' has no profile: run the program by `arenascope run --profile -- COMMAND`, or record the "
                   "running process (`arenadump profile PID -o FILE`)",
                   target);
}

bool as_cmd_sites(const struct as_options *o, struct as_error *err)
{
    struct as_snapshot snapshot;
    bool ok = as_snapshot_open(&snapshot, o->target, err) && as_snapshot_take(&snapshot, o, NULL, false, err);
    if (ok && snapshot.view.profile_count == 0)
        ok = fail_without_profile(&snapshot.view, o->target, err);
    struct as_stack_printing printing = {.view = &snapshot.view, .err = err, .ok = true};
    ok = ok && as_frame_names_open(&printing.names, &snapshot, err);
    if (ok && o->json)
        put_json(&printing);
    else if (ok)
        print_text(&printing);
    as_frame_names_close(&printing.names);
    as_snapshot_close(&snapshot);
    return ok && printing.ok;
}
