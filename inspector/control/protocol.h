// SPDX-License-Identifier: MIT
// The protocol of the control socket: over a SOCK_SEQPACKET connection, the client sends a request, and the agent a reply and one
// message for each arena that the reply announces. Both sides run on the same machine, so structs are sent as they are. A message
// of another size is of another version.
//
// The control socket is an abstract AF_UNIX socket whose name the kernel chose (autobind): there is no file, and no name to guess.
// A client finds its inode in /proc/PID/task/TID/fd of the thread named AS_AGENT_THREAD and its name in /proc/PID/net/unix, and
// connects from inside the target's network namespace. The agent serves only its own user and root (SO_PEERCRED).
//
// The agent's worker thread has a descriptor table of its own (CLOSE_RANGE_UNSHARE). A program that closes all descriptors, or
// forks, does not reach the agent's descriptors, and none of the program's own stay open because of the agent.
#pragma once

#include "arenascope.h"
#include "base/error.h"
#include "model/view.h"

#include <stdint.h>

#define AS_AGENT_THREAD "arenascope"      // the name of the agent's worker thread
#define AS_AGENT_WAKE "arenascope_wake"   // the exported function that starts it, below
#define AS_AGENT_MEMFD "arenascope-agent" // the name of the memfd that an injected library lies in

enum { AS_CONTROL_PROTOCOL = 1, AS_CONTROL_RATES = 96 };

// The most bytes that an injected agent keeps resident while it waits (docs/agent.md lists them): 256 KiB with pages of 4 KiB. Each of
// its eight pieces may end within a page.
static inline uint64_t as_agent_most_resident(uint64_t page_size)
{
    return 224 * UINT64_C(1024) + 8 * page_size;
}

enum as_control_operation {
    AS_CONTROL_HELLO = 1,    // which version the agent has
    AS_CONTROL_FORECAST = 2, // what a trim would return
    AS_CONTROL_TRIM = 3,
    AS_CONTROL_RESIDENT = 4, // how much memory the agent itself takes
    // Begins a profile, which ends with the connection at the latest. Where the agent came without the recorder's code, the reply has
    // the code AS_UNSUPPORTED and says where the code is to be written (inject/load_recorder.c); then the same request again.
    AS_CONTROL_PROFILE = 5,
    AS_CONTROL_PROFILE_END = 6, // ends a profile, whoever began it; the connection that began it is closed
    AS_CONTROL_POLICY = 7,      // what the policy did so far
    // As AS_CONTROL_PROFILE, but with hooks at the entries of libc's functions. The client writes them (inject/entry/entry_guard.h).
    AS_CONTROL_PROFILE_ENTRIES = 8,
    // Where that code is missing, its room becomes writable, until AS_CONTROL_PROFILE. Asked only where a tracer may not write to code
    // (proc_mem.force_override=never): many services are not allowed to run what was writable once (MemoryDenyWriteExecute).
    AS_CONTROL_RECORDER_ROOM = 9,
};

struct as_control_request {
    uint32_t protocol;  // AS_CONTROL_PROTOCOL
    uint32_t operation; // as_control_operation
    struct arenascope_trim_options trim;
    char rates[AS_CONTROL_RATES]; // AS_CONTROL_PROFILE: as $ARENASCOPE_PROFILE has them
};

struct as_control_reply {
    uint32_t protocol; // AS_CONTROL_PROTOCOL
    uint32_t code;     // as_code
    uint64_t count;    // messages of as_control_arena that follow (AS_CONTROL_FORECAST, AS_CONTROL_TRIM)
    char version[16];
    union {
        struct arenascope_trim_result trim;
        uint64_t resident; // bytes of the library's mappings and of the worker thread's stack; AS_UNKNOWN
        struct {
            uint64_t start, size; // of AS_CONTROL_PROFILE; size 0: no code is missing
            // A reply to one of the three operations on profiles has the address of the page for hooks at entries (struct as_entry_page);
            // 0: there has been none.
            uint64_t entries;
        } missing;
        struct {
            uint64_t on; // 1: there is a policy now
            struct arenascope_policy_stats stats;
        } policy; // of AS_CONTROL_POLICY
    };
    char error[sizeof((struct as_error *)0)->text];
};

// An agent without AS_CONTROL_POLICY answers all the rest as long as its reply has this size.
_Static_assert(sizeof((struct as_control_reply *)0)->policy <= sizeof(struct arenascope_trim_result),
               "a reply has grown");

// Exported for the injector, beside arenascope.h's functions: starts the worker thread unless it runs. Call it where malloc and the
// loader may be called. Returns 0 or an errno. The worker thread opens the control socket a little later.
__attribute__((visibility("default"))) int arenascope_wake(void);

// One arena of a forecast or a trim.
struct as_control_arena {
    struct as_arena_place place;
    struct arenascope_arena_forecast before;
    uint64_t returned; // AS_UNKNOWN for a forecast
    uint64_t longest_hold;
};
