// SPDX-License-Identifier: MIT
#pragma once

#include "control/protocol.h"

#include <stdbool.h>

// Does what a client asks for, and answers. False: the client cannot be answered.
bool as_control_answer(int client, const struct as_control_request *request);
