// SPDX-License-Identifier: MIT
// The functions of arenascope.h. Each does its work in the calling thread, where it blocks signals and cancellation, and keeps
// errno. What it leaves behind is the reason of a failure, for arenascope_error().
#include "agent/agent.h"
#include "agent/errors.h"
#include "agent/own_snapshot.h"
#include "agent/policy.h"
#include "agent/preload/dump_at.h"
#include "agent/profile_session.h"
#include "agent/signal_mask.h"
#include "agent/signals.h"
#include "agent/worker.h"
#include "control/protocol.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

// What a function does first and last.
struct as_api_call {
    struct as_error *err; // the calling thread's: write the reason of a failure here
    struct as_signal_mask mask;
    int cancel, saved_errno;
};

static struct as_api_call begin_call(void)
{
    struct as_api_call call = {.saved_errno = errno};
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call.cancel);
    as_signal_mask_block(&call.mask);
    call.err = as_last_error();
    *call.err = (struct as_error){0};
    return call;
}

// Returns the call's code: 0 where it succeeded.
static int end_call(struct as_api_call *call, bool ok)
{
    if (ok)
        *call->err = (struct as_error){0};
    int code = ok ? AS_OK : call->err->code != AS_OK ? (int)call->err->code : AS_INTERNAL;
    as_signal_mask_restore(&call->mask);
    pthread_setcancelstate(call->cancel, NULL);
    errno = call->saved_errno;
    return code;
}

const char *arenascope_error(void)
{
    return as_last_error_text();
}

const char *arenascope_version(void)
{
    return AS_VERSION;
}

int arenascope_dump(const char *path, unsigned flags)
{
    struct as_api_call call = begin_call();
    bool ok = path && !(flags & ~(unsigned)ARENASCOPE_CHUNKS)
                  ? as_agent_dump(path, -1, flags & ARENASCOPE_CHUNKS, call.err)
                  : as_fail(call.err, AS_USAGE, "a dump needs a path, and no other flag than ARENASCOPE_CHUNKS");
    return end_call(&call, ok);
}

int arenascope_dump_fd(int fd, unsigned flags)
{
    struct as_api_call call = begin_call();
    bool ok = fd >= 0 && !(flags & ~(unsigned)ARENASCOPE_CHUNKS)
                  ? as_agent_dump(NULL, fd, flags & ARENASCOPE_CHUNKS, call.err)
                  : as_fail(call.err, AS_USAGE, "a dump needs an open file, and no other flag than ARENASCOPE_CHUNKS");
    return end_call(&call, ok);
}

int arenascope_summarize(struct arenascope_summary *out)
{
    struct as_api_call call = begin_call();
    struct as_agent_snapshot snapshot = {0};
    bool ok = (out && out->size >= sizeof out->size) ||
              as_fail(call.err, AS_USAGE, "the summary's size is not set (ARENASCOPE_INIT)");
    ok = ok && as_agent_snapshot(&snapshot, -1, call.err);
    if (ok)
        as_agent_summary(&snapshot, out);
    as_agent_snapshot_free(&snapshot);
    return end_call(&call, ok);
}

int arenascope_trim(const struct arenascope_trim_options *options, struct arenascope_trim_result *result)
{
    struct as_api_call call = begin_call();
    return end_call(&call, as_agent_trim(options, result, NULL, call.err));
}

int arenascope_forecast(struct arenascope_arena_forecast *arenas, size_t room, size_t *count)
{
    struct as_api_call call = begin_call();
    struct as_trim_outcome out = {0};
    // The forecast is of both kinds: each has a field of its own.
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
    return end_call(&call, ok);
}

int arenascope_set_policy(const struct arenascope_policy *policy)
{
    struct as_api_call call = begin_call();
    bool ok = as_policy_set(policy, call.err);
    int failed = ok && policy ? as_agent_worker_start() : 0;
    if (ok)
        as_agent_worker_wake();
    if (failed)
        ok = as_fail(call.err, AS_NO_MEMORY, "no thread can be started for the policy: %s", strerror(failed));
    return end_call(&call, ok);
}

int arenascope_dump_at(const char *when, const char *directory, unsigned flags)
{
    struct as_api_call call = begin_call();
    bool ok = as_agent_has_recorder() ? as_dump_at_start(when, directory, flags, call.err)
                                      : as_fail(call.err, AS_UNSUPPORTED, "an injected agent has no such code");
    return end_call(&call, ok);
}

int arenascope_policy_statistics(struct arenascope_policy_stats *out)
{
    struct as_api_call call = begin_call();
    bool ok = (out && out->size >= sizeof out->size) ||
              as_fail(call.err, AS_USAGE, "the statistics' size is not set (ARENASCOPE_INIT)");
    if (ok)
        as_policy_statistics(out);
    return end_call(&call, ok);
}

int arenascope_dump_on_signal(int signal, const char *pattern, unsigned flags)
{
    struct as_api_call call = begin_call();
    bool ok = signal >= 0 && (pattern || signal == 0) && !(flags & ~(unsigned)ARENASCOPE_CHUNKS)
                  ? as_signal_dump_on(signal, pattern, flags, call.err)
                  : as_fail(call.err, AS_USAGE, "a signal, a pattern, and no other flag than ARENASCOPE_CHUNKS");
    return end_call(&call, ok);
}

int arenascope_request_dump(void)
{
    return as_signal_request_dump();
}

// For an injector (control/protocol.h).
int arenascope_wake(void)
{
    int saved = errno;
    int failed = as_agent_is_privileged() ? EPERM : as_agent_worker_start();
    errno = saved;
    return failed;
}
