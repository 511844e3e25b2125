// SPDX-License-Identifier: MIT
// The agent's door: a socket at which others ask for what the agent does (protocol.h). Belongs to the keeper.
#pragma once

#include <poll.h>
#include <stddef.h>

enum { AS_CONTROL_CLIENTS = 8, AS_CONTROL_FDS = AS_CONTROL_CLIENTS + 1 };

struct as_control_server {
    int listener; // -1: there is none
    int clients[AS_CONTROL_CLIENTS];
};

// Opens it. Where that fails the log says why, and the agent does without.
void as_control_server_open(struct as_control_server *server);
// Fills in what to wait for; how many.
size_t as_control_server_poll(const struct as_control_server *server, struct pollfd *fds);
// Lets in who knocks, and answers who asks.
void as_control_server_handle(struct as_control_server *server, const struct pollfd *fds);
