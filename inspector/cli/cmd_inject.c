// SPDX-License-Identifier: MIT
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/open_target.h"
#include "findings/humanize.h"
#include "inject/client.h"

#include <stdio.h>

static const char *how_name(uint32_t how)
{
    return how == AS_INJECT_LOADED ? "loaded" : how == AS_INJECT_WOKEN ? "woken" : "present";
}

static void print_json(const struct as_client *agent, const struct as_inject_result *r, uint64_t resident)
{
    struct as_json j = as_json_begin("arenascope.inject/1");
    as_json_number(&j, "pid", (uint64_t)agent->pid);
    as_json_text(&j, "agent_version", agent->version, sizeof agent->version);
    as_json_string(&j, "how", how_name(r->how));
    as_json_number(&j, "thread", r->how ? (uint64_t)r->tid : AS_UNKNOWN);
    as_json_text(&j, "where", r->how ? r->where : NULL, sizeof r->where);
    as_json_number(&j, "attempts", r->attempts);
    as_json_milliseconds(&j, "search_ms", r->search_ns);
    as_json_milliseconds(&j, "away_ms", r->away_ns);
    as_json_number(&j, "agent_resident", resident);
    as_json_object_end(&j);
}

static void print_text(const struct as_client *agent, const struct as_inject_result *r, uint64_t resident)
{
    char where[200];
    char version[4 * sizeof agent->version + 8]; // the process says it
    printf("agent %s answers in process %d: ",
           as_safe_text(agent->version, sizeof agent->version, SIZE_MAX, false, version, sizeof version), agent->pid);
    if (r->how == 0)
        puts("it was there already");
    else
        printf("%s by thread %d (%s), which was interrupted for %s\n", how_name(r->how), r->tid,
               as_safe_text(r->where, sizeof r->where, SIZE_MAX, false, where, sizeof where),
               as_duration_text(r->away_ns).text);
    printf("the agent itself takes %s of the process's memory\n", as_size_text(resident).text);
}

struct as_inject_options as_options_injection(const struct as_options *o)
{
    return (struct as_inject_options){.force = o->force, .patience_ns = o->timeout_ns, .watchdog_ns = o->timeout_ns};
}

bool as_cmd_inject(const struct as_options *o, struct as_error *err)
{
    struct as_snapshot snapshot;
    struct as_client agent = {.socket = -1};
    struct as_inject_result result;
    const struct as_inject_options how = as_options_injection(o);
    bool ok = as_snapshot_open_process(&snapshot, "inject", o->target, err);
    ok = ok && as_client_reach(&agent, snapshot.target, &how, &result, err);
    if (ok && o->json)
        print_json(&agent, &result, as_client_resident(&agent));
    else if (ok)
        print_text(&agent, &result, as_client_resident(&agent));
    as_client_close(&agent);
    as_snapshot_close(&snapshot);
    return ok;
}
