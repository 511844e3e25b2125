// SPDX-License-Identifier: MIT
// The public functions that give memory back.
#include "agent/agent.h"
#include "agent/errors.h"
#include "agent/policy.h"
#include "agent/trim.h"

#include <string.h>

int arenascope_trim(const struct arenascope_trim_options *options, struct arenascope_trim_result *result)
{
    struct as_api_call call = as_api_begin();
    return as_api_end(&call, as_agent_trim(options, result, NULL, call.err));
}

int arenascope_forecast(struct arenascope_arena_forecast *arenas, size_t room, size_t *count)
{
    struct as_api_call call = as_api_begin();
    struct as_trim_outcome out = {0};
    // Of both kinds: each has a field of its own.
    const struct arenascope_trim_options deep = {.size = sizeof deep, .flags = ARENASCOPE_DEEP};
    bool ok = false;
    if (!count || (!arenas && room > 0))
        as_fail(call.err, AS_USAGE, "a forecast needs a place for the count, and one for the arenas");
    else if (as_agent_forecast(&deep, &out, call.err)) {
        ok = true;
        *count = out.arenas.count;
        for (size_t i = 0; i < out.arenas.count && i < room; i++) {
            const struct as_trim_arena *a = &out.arenas.items[i];
            arenas[i] = (struct arenascope_arena_forecast){
                .arena = a->address, .resident = a->resident, .releasable = a->releasable, .withheld = a->withheld};
        }
    }
    as_trim_free(&out);
    return as_api_end(&call, ok);
}

int arenascope_set_policy(const struct arenascope_policy *policy)
{
    struct as_api_call call = as_api_begin();
    bool ok = as_policy_set(policy, call.err);
    int failed = ok && policy ? as_agent_worker_start() : 0;
    if (failed)
        ok = as_fail(call.err, AS_NO_MEMORY, "no thread can be started to keep to the policy: %s", strerror(failed));
    return as_api_end(&call, ok);
}

int arenascope_policy_statistics(struct arenascope_policy_stats *out)
{
    struct as_api_call call = as_api_begin();
    bool ok = (out && out->size >= sizeof out->size) ||
              as_fail(call.err, AS_USAGE, "the statistics' size is not set (ARENASCOPE_INIT)");
    if (ok)
        as_policy_statistics(out);
    return as_api_end(&call, ok);
}
