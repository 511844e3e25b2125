// SPDX-License-Identifier: MIT
// A client of the agent's control socket in another process (control/protocol.h).
#pragma once

#include "base/vec.h"
#include "control/protocol.h"
#include "inject/inject.h"

struct as_client {
    int socket;
    pid_t pid;
    uint64_t answer_ns; // the deadline for a whole answer, from its request
    char version[16];   // of the agent
};

typedef AS_VEC(struct as_control_arena) as_control_arena_vec;

// Connects to the agent in process `pid`. Tries again for `wait_ns` where there is no control socket, and for `patience_ns` (0: a
// minute) where its queue is full. The agent has `patience_ns` to answer the first request, too. False with *absent: no worker
// thread listens there (AS_NO_TARGET). AS_DENIED: the control socket is not accessible, or the agent did not answer in time.
// AS_UNSUPPORTED: the agent has another version.
bool as_client_connect(struct as_client *client, pid_t pid, uint64_t wait_ns, uint64_t patience_ns, bool *absent,
                       struct as_error *err);

// As as_client_connect, but injects or wakes the agent where it does not listen. `options` may leave the library NULL:
// as_inject_library finds it. `result->how` says what was done; 0: nothing.
bool as_client_reach(struct as_client *client, struct as_target *t, const struct as_inject_options *options,
                     struct as_inject_result *result, struct as_error *err);

// Sends a request and waits for the answer. `arenas` get the arenas that follow the reply; NULL: they are dropped. False: with
// the agent's own error; AS_TARGET_GONE; or AS_DENIED where the whole answer has not arrived within client->answer_ns.
bool as_client_ask(const struct as_client *client, const struct as_control_request *request,
                   struct as_control_reply *reply, as_control_arena_vec *arenas, struct as_error *err);

// How many bytes the agent itself keeps resident in the target now: its library's mappings and its worker thread's stack, by the
// kernel's page tables. AS_UNKNOWN: the kernel does not tell, or the agent did not answer.
uint64_t as_client_resident(const struct as_client *client);

// Also for a client that never connected (socket -1).
void as_client_close(struct as_client *client);
