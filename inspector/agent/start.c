// SPDX-License-Identifier: MIT
// How the agent begins, and how it goes on in a child of fork(); and its signal.
#include "agent/agent.h"
#include "agent/errors.h"
#include "agent/log.h"
#include "agent/pattern.h"
#include "agent/self.h"
#include "agent/signal_safety.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>

#define FIRST_LOOK_NS UINT64_C(100000000) // of processor time: a child that does nothing has nothing to give back

struct as_agent as_agent;

bool as_agent_is_privileged(void)
{
    return getauxval(AT_SECURE) != 0;
}

// The memory is our parent's; its threads are not here. Nothing may be started now (libc's own handlers may not have run): the
// signal does it later, and for a policy a timer sends the signal.
static void in_child(void)
{
    as_agent.pid = (pid_t)syscall(SYS_getpid);
    as_agent.wanted = as_agent.served = 0;
    as_agent.dumps = 0;
    as_agent.stats = (struct arenascope_policy_stats){0};
    if (as_agent.lock != 0)
        as_self_forget();
    as_agent_worker_forget();
    as_signal_forget();
    if (as_agent.policy_set)
        as_signal_send_later(FIRST_LOOK_NS);
}

// What everything else stands on, once: before environment.c's constructor.
__attribute__((constructor(101))) static void prepare(void)
{
    if (as_agent_is_privileged())
        return;
    as_agent.pid = (pid_t)syscall(SYS_getpid);
    as_signal_safety_learn();
    pthread_atfork(NULL, NULL, in_child);
}

bool as_signal_dump_on(int signal, const char *pattern, unsigned flags, struct as_error *err)
{
    char absolute[PATH_MAX];
    if (signal != 0 && !as_pattern_resolve(pattern, absolute, sizeof absolute))
        return as_fail(err, AS_USAGE, "the dumps' name '%s' is empty or too long, or the current directory has no name",
                       pattern);
    if (signal != 0) {
        as_agent_lock();
        memcpy(as_agent.pattern, absolute, strlen(absolute) + 1);
        as_agent.flags = flags;
        as_agent_unlock();
    }
    return as_signal_install(signal, err);
}

int arenascope_dump_on_signal(int signal, const char *pattern, unsigned flags)
{
    struct as_api_call call = as_api_begin();
    bool ok = signal >= 0 && (pattern || signal == 0) && !(flags & ~(unsigned)ARENASCOPE_CHUNKS)
                  ? as_signal_dump_on(signal, pattern, flags, call.err)
                  : as_fail(call.err, AS_USAGE, "a signal, a pattern, and no other flag than ARENASCOPE_CHUNKS");
    return as_api_end(&call, ok);
}

int arenascope_request_dump(void)
{
    return as_signal_request_dump();
}
