// SPDX-License-Identifier: MIT
// A profile that somebody asked for at the control socket. Used by the worker thread alone.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "control/protocol.h"

// Is the recorder's code here? An agent that was injected has room for it only (inject/load_recorder.c).
bool as_agent_has_recorder(void);
// Makes the room for the missing code writable (AS_CONTROL_RECORDER_ROOM). AS_UNSUPPORTED: the kernel forbids it.
bool as_agent_open_recorder_room(struct as_error *err);
// Begins a profile; `entries`: AS_CONTROL_PROFILE_ENTRIES. False with reply->missing: the code is to be written there first.
// AS_UNSUPPORTED, too: the code is there, and may not be run.
bool as_agent_profile_begin(const char rates[static AS_CONTROL_RATES], bool entries, struct as_control_reply *reply,
                            struct as_error *err);
// Ends the profile and gives its tables back, whoever began it.
bool as_agent_profile_end(struct as_error *err);
// The page for hooks at entries, once there has been one; 0.
uint64_t as_agent_entries(void);
