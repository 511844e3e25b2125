// SPDX-License-Identifier: MIT
// Talking with the agent in another process, through its door (control/protocol.h).
#pragma once

#include "base/vec.h"
#include "control/protocol.h"
#include "inject/inject.h"

struct as_client {
    int socket;
    pid_t pid;
    uint64_t answer_ns; // for how long the whole answer to a question is waited for
    char version[16];   // of the agent
};

typedef AS_VEC(struct as_control_arena) as_control_arena_vec;

// Knocks at the door of process `pid`, and tries again for `wait_ns` where there is none, and for `patience_ns` where too many
// wait there (0: a minute); as long it has to answer that it is there. False with *absent: there is no agent that is awake (AS_NO_TARGET);
// AS_DENIED: we may not see its door, or it does not serve us in time; AS_UNSUPPORTED: it is of another version.
bool as_client_connect(struct as_client *client, pid_t pid, uint64_t wait_ns, uint64_t patience_ns, bool *absent,
                       struct as_error *err);

// As as_client_connect, but injects or wakes the agent where it does not answer. `options`
// may leave the library NULL: as_inject_library finds it. `result->how` says what was done; 0: nothing.
bool as_client_reach(struct as_client *client, struct as_target *t, const struct as_inject_options *options,
                     struct as_inject_result *result, struct as_error *err);

// Asks, and waits for the answer. `arenas` get what follows the answer; NULL: they are dropped. False: what the agent itself says, or AS_TARGET_GONE, or AS_DENIED when the whole answer is not there after
// client->answer_ns, whatever has come by then.
bool as_client_ask(const struct as_client *client, const struct as_control_request *request,
                   struct as_control_reply *reply, as_control_arena_vec *arenas, struct as_error *err);

// Bytes that the agent itself keeps in memory in the target, now: its library's mappings and its thread's stack, by the kernel's
// page tables. AS_UNKNOWN: it does not know, or is of a version that cannot say.
uint64_t as_client_resident(const struct as_client *client);

// NULL-safe on an agent that never connected (socket -1).
void as_client_close(struct as_client *client);
