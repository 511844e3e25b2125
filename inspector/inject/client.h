// SPDX-License-Identifier: MIT
// A client of the agent's control socket in another process (control/protocol.h).
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "control/protocol.h"
#include "inject/inject.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

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

// As as_client_connect, but injects or wakes the agent where it does not listen. `result->how` says what was done; 0: nothing.
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

// Finds the agent's control socket in another process. Internal to inject/.

// The address of the control socket of process `pid`. False with *absent: there is none (AS_NO_TARGET); or AS_DENIED.
bool as_control_socket_find(pid_t pid, struct sockaddr_un *address, socklen_t *length, bool *absent,
                            struct as_error *err);

// Makes a socket in the network namespace of process `pid`: its abstract names are known there alone. -1 and `err` on failure.
int as_control_socket_make(pid_t pid, struct as_error *err);

// The recorder's code for an agent that was injected, which has room for it only. From outside, by whoever may trace the process: the
// control socket alone brings no code into it.

// Begins a profile, which ends with the connection; carries the code first where it is missing. `rates` as $ARENASCOPE_PROFILE has
// them. `entries`: without hooks in slots; those at entries are the caller's to write (inject/entry/entry_guard.h). *page: for such hooks,
// if the process has one; 0. AS_USAGE: the recorder refuses, and why. AS_UNSUPPORTED: the agent cannot record, or is another build than
// the library (inject/library.h).
bool as_load_recorder_begin(const struct as_client *client, struct as_target *t, const char *rates, bool entries,
                            uint64_t *page, struct as_error *err);
// Ends any profile of the process's. *page: as above.
bool as_load_recorder_end(const struct as_client *client, uint64_t *page, struct as_error *err);
