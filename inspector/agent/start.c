// SPDX-License-Identifier: MIT
// The start of the library, and of a child of fork().
#include "agent/agent.h"
#include "agent/own_process.h"
#include "agent/own_snapshot.h"
#include "agent/signals.h"
#include "agent/thread.h"
#include "agent/worker.h"
#include "recorder/enable.h"

#include <pthread.h>

#define FIRST_CHECK_NS UINT64_C(100000000) // of processor time: a child that does nothing has nothing to give back

// A child of fork() has its parent's memory, and none of its threads. No thread may be started at once (libc's own handlers may not
// have run). The signal's handler starts one later; for a policy, a timer sends the signal.
static void in_child(void)
{
    as_agent.pid = (pid_t)syscall(SYS_getpid);
    as_agent.wanted = as_agent.served = as_agent.finished = 0;
    as_agent.dumps = 0;
    as_agent.stats = (struct arenascope_policy_stats){0};
    if (as_agent.lock != 0)
        as_self_forget();
    as_agent.lock = 0;
    as_agent_worker_forget();
    as_agent_last_thread_in_child();
    as_signal_forget();
#ifndef AS_NO_RECORDER
    if (as_agent_has_profile)
        as_recorder_in_child();
    else if (as_agent_starts_recorder)
        as_recorder_in_child_of_start();
    as_agent_starts_recorder = false;
#endif
    if (as_agent.policy_set || as_agent.dump_at)
        as_signal_send_later(FIRST_CHECK_NS);
}

// Runs before environment.c's constructor. The other units rely on what it finds.
__attribute__((constructor(101))) static void prepare(void)
{
    if (as_agent_is_privileged())
        return;
    as_agent.pid = (pid_t)syscall(SYS_getpid);
    as_signal_safety_learn();
    as_agent_last_thread_prepare();
    pthread_atfork(NULL, NULL, in_child);
}
