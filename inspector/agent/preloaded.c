// SPDX-License-Identifier: MIT
#include "agent/preloaded.h"
#include "agent/own_snapshot.h"
#include "agent/dump_at.h"
#include "agent/exit_leaks.h"
#include "agent/trace_file.h"
#include "agent/log.h"
#include "profile/enable.h"

// A full record has a profile with it.
static void start_recorder(const char *rates, const char *record)
{
    struct as_error err;
    if (as_recorder_start(rates ? rates : "1", false, record ? as_agent_full_record_start : NULL, &err))
        as_agent_records = true;
    else
        as_log("%s: %s", record ? "ARENASCOPE_PROFILE_RECORD" : "ARENASCOPE_PROFILE", err.text);
}

void as_preloaded_start(const char *(*asked)(const char *variable), unsigned flags)
{
    const char *exit_look = asked("ARENASCOPE_EXIT_LOOK");
    const char *rates = asked("ARENASCOPE_PROFILE");
    const char *record = asked("ARENASCOPE_PROFILE_RECORD");
    const char *when = asked("ARENASCOPE_DUMP_AT");
    struct as_error err = {0};
    if (exit_look && !as_exit_look_on(exit_look, &err))
        as_log("%s", err.text);
    if (rates || record)
        start_recorder(rates, record);
    if (when && !as_dump_at_start(when, asked("ARENASCOPE_DUMPS"), flags, &err))
        as_log("%s", err.text);
}
