// SPDX-License-Identifier: MIT
#include "agent/preload/preloaded.h"
#include "agent/log.h"
#include "agent/own_snapshot.h"
#include "agent/preload/dump_at.h"
#include "recorder/enable.h"

// A trace has a profile with it.
static void start_recorder(const char *rates, const char *record)
{
    struct as_error err;
    if (as_recorder_start(rates ? rates : "1", false, record ? as_agent_trace_start : NULL, &err))
        as_agent_has_profile = true;
    else
        as_log("%s: %s", record ? "ARENASCOPE_PROFILE_TRACE" : "ARENASCOPE_PROFILE", err.text);
}

void as_preloaded_start(const char *(*asked)(const char *variable), unsigned flags)
{
    const char *exit_leaks = asked("ARENASCOPE_EXIT_LEAKS");
    const char *rates = asked("ARENASCOPE_PROFILE");
    const char *record = asked("ARENASCOPE_PROFILE_TRACE");
    const char *when = asked("ARENASCOPE_DUMP_AT");
    struct as_error err = {0};
    if (exit_leaks && !as_exit_leaks_wait(exit_leaks, &err))
        as_log("%s", err.text);
    if (rates || record)
        start_recorder(rates, record);
    if (when && !as_dump_at_start(when, asked("ARENASCOPE_DUMPS"), flags, &err))
        as_log("%s", err.text);
}
