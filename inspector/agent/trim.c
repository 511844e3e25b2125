// SPDX-License-Identifier: MIT
#include "agent/own_process.h"
#include "agent/policy.h"

#include <string.h>

static bool read_options(const struct arenascope_trim_options *given, struct as_trim_request *request,
                         struct as_error *err)
{
    struct arenascope_trim_options o = {0};
    if (given && given->size < sizeof given->size)
        return as_fail(err, AS_USAGE, "the options' size is not set (ARENASCOPE_INIT)");
    if (given)
        memcpy(&o, given, given->size < sizeof o ? given->size : sizeof o);
    if (o.flags & ~(uint64_t)ARENASCOPE_DEEP)
        return as_fail(err, AS_USAGE, "unknown trim flags: %#llx (the caller may be newer than this library)",
                       (unsigned long long)o.flags);
    *request = (struct as_trim_request){.deep = o.flags & ARENASCOPE_DEEP,
                                        .max_hold_ns = o.max_hold,
                                        .only = o.arena == ARENASCOPE_ALL_ARENAS ? 0 : o.arena};
    return true;
}

// A sum with an unknown part is unknown.
static void add_known(uint64_t *sum, uint64_t value)
{
    if (*sum != ARENASCOPE_UNKNOWN)
        *sum = value == ARENASCOPE_UNKNOWN ? value : *sum + value;
}

static void sum_up(const struct as_trim_outcome *out, bool deep, struct arenascope_trim_result *given)
{
    struct arenascope_trim_result r = {.elapsed = out->elapsed_ns, .cpu = out->cpu_ns};
    AS_FOR_EACH(const struct as_trim_arena, a, &out->arenas) {
        add_known(&r.forecast, a->releasable);
        if (deep)
            add_known(&r.forecast, a->withheld);
        add_known(&r.returned, a->returned);
        add_known(&r.returned_swap, a->returned_swap);
        add_known(&r.released, a->released);
        r.longest_hold =
            a->longest_hold_ns > r.longest_hold ? a->longest_hold_ns : r.longest_hold; // UNKNOWN is the largest value
        r.skipped += a->skipped;
        r.arenas += !a->skipped;
    }
    size_t size = given->size < sizeof r ? given->size : sizeof r;
    r.size = given->size;
    memcpy(given, &r, size);
}

bool as_agent_trim(const struct arenascope_trim_options *options, struct arenascope_trim_result *result,
                   struct as_trim_outcome *arenas, struct as_error *err)
{
    struct as_trim_request request = {0};
    struct as_trim_outcome mine = {0};
    struct as_trim_outcome *out = arenas ? arenas : &mine;
    struct as_self own = {0};
    *out = (struct as_trim_outcome){0};
    if (result && result->size < sizeof result->size)
        return as_fail(err, AS_USAGE, "the result's size is not set (ARENASCOPE_INIT)");
    bool ok = read_options(options, &request, err);
    ok = ok && as_self_open(&own, false, err) && as_trim_run(own.target, &own.malloc, &request, out, err);
    if (ok && result)
        sum_up(out, request.deep, result);
    if (own.target)
        as_self_close(&own);
    as_trim_free(&mine);
    return ok;
}

bool as_agent_forecast(const struct arenascope_trim_options *options, struct as_trim_outcome *arenas,
                       struct as_error *err)
{
    struct as_trim_request request = {0};
    struct as_self own = {0};
    *arenas = (struct as_trim_outcome){0};
    bool ok = read_options(options, &request, err);
    ok = ok && as_self_open(&own, false, err) && as_trim_forecast(own.target, &own.malloc, &request, arenas, err);
    if (own.target)
        as_self_close(&own);
    return ok;
}
