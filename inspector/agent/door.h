// SPDX-License-Identifier: MIT
// The agent's door: a socket at which others ask for what the agent does (protocol.h). Belongs to the keeper.
#pragma once

#include <poll.h>
#include <stddef.h>

enum { AS_DOOR_CLIENTS = 8, AS_DOOR_FDS = AS_DOOR_CLIENTS + 1 };

struct as_door {
    int listener; // -1: there is none
    int clients[AS_DOOR_CLIENTS];
};

// Opens it. Where that fails the log says why, and the agent does without.
void as_door_open(struct as_door *door);
// Fills in what to wait for; how many.
size_t as_door_poll(const struct as_door *door, struct pollfd *fds);
// Lets in who knocks, and answers who asks.
void as_door_serve(struct as_door *door, const struct pollfd *fds);
