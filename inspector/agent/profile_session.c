// SPDX-License-Identifier: MIT
#include "agent/profile_session.h"
#include "agent/own_process.h"
#include "agent/own_snapshot.h"
#include "recorder/enable.h"

#include <sys/mman.h>

#ifndef AS_NO_RECORDER

// Code does not begin with zeros; its room does, until the last of it has been written.
bool as_agent_has_recorder(void)
{
    return *(const volatile uint64_t *)(uintptr_t)as_self_recorder().start != 0;
}

static uint64_t entries_page;
static bool room_is_writable;

static bool protect_recorder(int protection)
{
    const struct as_range code = as_self_recorder();
    return mprotect((void *)(uintptr_t)code.start, (size_t)(code.end - code.start), protection) == 0;
}

bool as_agent_open_recorder_room(struct as_error *err)
{
    if (as_agent_has_recorder() || room_is_writable)
        return true;
    room_is_writable = protect_recorder(PROT_READ | PROT_WRITE);
    return room_is_writable || as_fail_errno(err, AS_UNSUPPORTED, "no code may be loaded");
}

uint64_t as_agent_entries(void)
{
    return entries_page;
}

bool as_agent_profile_begin(const char rates[static AS_CONTROL_RATES], bool entries, struct as_control_reply *reply,
                            struct as_error *err)
{
    const struct as_range code = as_self_recorder();
    struct as_error refused;
    if (rates[AS_CONTROL_RATES - 1] != '\0')
        return as_fail(err, AS_USAGE, "rates");
    if (!as_agent_has_recorder()) {
        reply->missing.start = code.start;
        reply->missing.size = code.end - code.start;
        return as_fail(err, AS_UNSUPPORTED, "no recorder");
    }
    if (room_is_writable && !protect_recorder(PROT_READ | PROT_EXEC))
        return as_fail_errno(err, AS_UNSUPPORTED, "the recorder's code may not be run where it was written");
    room_is_writable = false;
    __builtin___clear_cache((char *)(uintptr_t)code.start, (char *)(uintptr_t)code.end);
    as_agent_starts_recorder = true;
    bool ok = entries ? as_recorder_start_at_entries(rates, &entries_page, &refused)
                      : as_recorder_start(rates, true, NULL, &refused);
    as_agent_has_profile = as_agent_has_profile || ok;
    as_agent_starts_recorder = false;
    return ok || as_fail(err, refused.code, "no profile was begun: %s", refused.text);
}

bool as_agent_profile_end(struct as_error *err)
{
    if (as_agent_has_profile && as_recorder_writes_trace())
        return as_fail(err, AS_DENIED, "a trace is being made: it ends with the process");
    return !as_agent_has_profile || as_recorder_stop() ||
           as_fail(err, AS_DENIED, "a thread is still in the recorder, which is off: its tables stay");
}

#else // the gem: what lies with the recorder in the library is code like any other here

bool as_agent_has_recorder(void)
{
    return true;
}

uint64_t as_agent_entries(void)
{
    return 0;
}

bool as_agent_open_recorder_room(struct as_error *err)
{
    (void)err;
    return true;
}

bool as_agent_profile_begin(const char rates[static AS_CONTROL_RATES], bool entries, struct as_control_reply *reply,
                            struct as_error *err)
{
    (void)rates;
    (void)entries;
    (void)reply;
    return as_fail(err, AS_UNSUPPORTED, "the agent in the process is that of the gem, which records nothing");
}

bool as_agent_profile_end(struct as_error *err)
{
    (void)err;
    return true;
}

#endif
