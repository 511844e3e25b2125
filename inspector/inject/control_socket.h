// SPDX-License-Identifier: MIT
// Finds the agent's control socket in another process. Internal to inject/.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

// The address of the control socket of process `pid`. False with *absent: there is none (AS_NO_TARGET); or AS_DENIED.
bool as_control_socket_find(pid_t pid, struct sockaddr_un *address, socklen_t *length, bool *absent,
                            struct as_error *err);

// Makes a socket in the network namespace of process `pid`: its abstract names are known there alone. -1 and `err` on failure.
int as_control_socket_make(pid_t pid, struct as_error *err);
