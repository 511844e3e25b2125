// SPDX-License-Identifier: MIT
// What a client and the agent say to each other, over a SOCK_SEQPACKET connection to the agent's door: one request, one reply,
// and one message for each arena that the reply announces. Both sides are of the same machine; sizes tell versions apart.
//
// The door is an abstract AF_UNIX socket whose name the kernel chose (autobind): no file, nothing to guess. A client finds
// it through /proc/PID/task/TID/fd of the thread named AS_AGENT_THREAD (its inode) and /proc/PID/net/unix (its name), and
// connects from inside the target's network namespace. The agent serves only its own user and root (SO_PEERCRED).
//
// The agent's threads have a table of descriptors of their own (CLOSE_RANGE_UNSHARE): a program that closes all descriptors, or
// forks, has no part in them, and none of its own stays open because of us.
#pragma once

#include "arenascope.h"
#include "base/error.h"

#include <stdint.h>

#define AS_AGENT_THREAD "arenascope"      // the name of the agent's worker thread
#define AS_AGENT_WAKE "arenascope_wake"   // the exported function that starts it, below
#define AS_AGENT_MEMFD "arenascope-agent" // the name of the memfd that an injected library lies in

enum { AS_CONTROL_PROTOCOL = 2 };

// Bytes that an injected agent keeps in memory at most while nothing is asked of it (docs/agent.md has what they are): 256 KiB
// with pages of 4 KiB. Each of its eight pieces ends somewhere in a page.
static inline uint64_t as_agent_most_resident(uint64_t page_size)
{
    return 224 * UINT64_C(1024) + 8 * page_size;
}

enum as_control_operation {
    AS_CONTROL_HELLO = 1,    // which version the agent has
    AS_CONTROL_FORECAST = 2, // what a trim would return
    AS_CONTROL_TRIM = 3,
    AS_CONTROL_RESIDENT = 4, // how much memory the agent itself takes
};

struct as_control_request {
    uint32_t protocol;  // AS_CONTROL_PROTOCOL
    uint32_t operation; // as_control_operation
    struct arenascope_trim_options trim;
};

struct as_control_reply {
    uint32_t protocol; // AS_CONTROL_PROTOCOL
    uint32_t code;     // as_code
    uint64_t
        count; // AS_CONTROL_FORECAST, AS_CONTROL_TRIM: arenas that follow, as one more message of as_control_arena each
    char version[16];
    union {
        struct arenascope_trim_result trim;
        uint64_t resident; // bytes in memory of the library's own mappings and of its thread's stack; AS_UNKNOWN
    };
    char error[sizeof((struct as_error *)0)->text];
};

// Exported for the injector, beside arenascope.h's functions: starts the agent's thread, and with it the door, if it does not
// run yet; to be called where the loader and malloc may be. Returns 0 or an errno. The door opens a little later.
__attribute__((visibility("default"))) int arenascope_wake(void);

// One arena of a forecast or a trim.
struct as_control_arena {
    struct arenascope_arena_forecast before;
    uint64_t returned; // AS_UNKNOWN for a forecast
    uint64_t longest_hold;
};
