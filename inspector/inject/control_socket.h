// SPDX-License-Identifier: MIT
// Where the agent's door is. Internal to inject/.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

// The address of the agent's door in process `pid`. False with *absent: it has none (AS_NO_TARGET); or AS_DENIED.
bool as_control_socket_find(pid_t pid, struct sockaddr_un *address, socklen_t *length, bool *absent,
                            struct as_error *err);

// A socket in the network namespace of process `pid`, where alone its abstract names are known; -1 and `err`.
int as_control_socket_make(pid_t pid, struct as_error *err);
