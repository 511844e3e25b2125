// SPDX-License-Identifier: MIT
// arenadump policy: asks the agent in a process what its policy has done. No agent is loaded or woken for the question.
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/open_target.h"
#include "findings/humanize.h"
#include "inject/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE_NS UINT64_C(10000000000)

enum policy_state {
    NO_AGENT,  // no agent's thread answers
    NO_POLICY, // an agent, which has never had a policy that checked anything
    OFF,       // it had one, and has none now
    ON,
};
static const char *const policy_state_names[] = {
    [NO_AGENT] = "no_agent", [NO_POLICY] = "no_policy", [OFF] = "off", [ON] = "on"};

struct asked {
    pid_t pid;
    enum policy_state state;
    struct as_client agent;
    struct arenascope_policy_stats stats; // of OFF and ON; else all is unknown
};

static bool has_numbers(const struct asked *a)
{
    return a->state == OFF || a->state == ON;
}

static bool ask_policy(struct asked *a, struct as_error *err)
{
    const struct as_control_request request = {.protocol = AS_CONTROL_PROTOCOL, .operation = AS_CONTROL_POLICY};
    struct as_control_reply reply;
    if (!as_client_ask(&a->agent, &request, &reply, NULL, err))
        // It has answered the greeting: so it speaks this protocol, but lacks this operation.
        return err->code != AS_UNSUPPORTED ? false
                                           : as_fail(err, AS_UNSUPPORTED,
                                                     "the agent in process %d (version %s) is older than this "
                                                     "arenadump, and cannot tell what its policy does: its log does",
                                                     a->pid, a->agent.version);
    a->state = reply.policy.on ? ON : reply.policy.stats.checks != 0 ? OFF : NO_POLICY;
    if (has_numbers(a))
        a->stats = reply.policy.stats;
    return true;
}

static bool reach_and_ask(struct asked *a, uint64_t patience_ns, struct as_error *err)
{
    bool absent;
    if (!as_client_connect(&a->agent, a->pid, 0, patience_ns, &absent, err))
        return absent; // which is an answer, too
    a->agent.answer_ns = patience_ns;
    return ask_policy(a, err);
}

static void print_json(const struct asked *a)
{
    const struct arenascope_policy_stats *s = &a->stats;
    struct as_json j = as_json_begin("arenascope.policy/1");
    as_json_number(&j, "pid", (uint64_t)a->pid);
    as_json_text(&j, "agent_version", a->state == NO_AGENT ? NULL : a->agent.version, sizeof a->agent.version);
    as_json_string(&j, "policy", policy_state_names[a->state]);
    AS_JSON_NUMBERS(&j, s, checks, trims, returned, faulted_back);
    as_json_milliseconds(&j, "elapsed_ms", s->elapsed);
    as_json_milliseconds(&j, "longest_hold_ms", s->longest_hold);
    as_json_object_end(&j);
}

static void print_text(const struct asked *a)
{
    const struct arenascope_policy_stats *s = &a->stats;
    char version[4 * sizeof a->agent.version + 8]; // the process says it
    if (a->state == NO_AGENT) {
        printf("process %d has no agent that answers, and so no policy that trims\n", a->pid);
        return;
    }
    printf("process %d has agent %s, ", a->pid,
           as_safe_text(a->agent.version, sizeof a->agent.version, SIZE_MAX, false, version, sizeof version));
    puts(a->state == ON    ? "whose policy is on"
         : a->state == OFF ? "whose policy was switched off"
                           : "which has no policy");
    if (!has_numbers(a))
        return;
    printf("%" PRIu64 " checks, %" PRIu64 " trims, which took %s and returned %s; %s were resident again at the next "
           "check\n",
           s->checks, s->trims, as_duration_text(s->elapsed).text, as_size_text(s->returned).text,
           as_size_text(s->faulted_back).text);
    if (s->trims != 0)
        printf("longest lock of an arena: %s\n", as_duration_text(s->longest_hold).text);
}

bool as_cmd_policy(const struct as_options *o, struct as_error *err)
{
    struct as_snapshot snapshot;
    struct asked a = {.agent.socket = -1};
    memset(&a.stats, 0xff, sizeof a.stats);
    bool ok = as_snapshot_open_process(&snapshot, "policy", o->target, err);
    a.pid = ok ? snapshot.target->pid : 0;
    ok = ok && reach_and_ask(&a, o->timeout_ns ? o->timeout_ns : PATIENCE_NS, err);
    // Its number may have become another process's meanwhile. And while it ends, its files cannot be read, which inspects as if they were
    // forbidden.
    struct as_error gone;
    if (snapshot.target && !snapshot.target->ops->stop.intact(snapshot.target, &gone)) {
        *err = gone;
        ok = false;
    }
    if (ok && o->json)
        print_json(&a);
    else if (ok)
        print_text(&a);
    as_client_close(&a.agent);
    as_snapshot_close(&snapshot);
    return ok;
}
