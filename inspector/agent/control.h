// SPDX-License-Identifier: MIT
// The control socket, at which other processes ask for trims and forecasts (control/protocol.h). Used by the worker thread alone.
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

enum { AS_CONTROL_CLIENTS = 8, AS_CONTROL_FDS = AS_CONTROL_CLIENTS + 1 };

struct as_control_server {
    int listener; // -1: there is none
    int clients[AS_CONTROL_CLIENTS];
    int profiling; // which of them began the profile; -1: none
    bool refused;  // no descriptor is left for a client that waits: the listener is left out once
};

// Opens the control socket. Where that fails, the log says why, and the agent works without one.
void as_control_server_open(struct as_control_server *server);
// Fills in the descriptors for poll() that are in use; returns how many, AS_CONTROL_FDS at most.
size_t as_control_server_poll(struct as_control_server *server, struct pollfd *fds);
// Accepts new clients and answers requests; `fds` as poll() has left them.
void as_control_server_handle(struct as_control_server *server, const struct pollfd *fds, size_t count);
