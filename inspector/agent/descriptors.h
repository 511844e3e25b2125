// SPDX-License-Identifier: MIT
// A descriptor table of its own for a thread of the agent's: nothing that the application does with its table touches the agent's
// descriptors, and the application's children inherit none of them.
#pragma once

#include <stdbool.h>

// A thread does this first: until then it shares the application's table. It keeps stderr alone, where the log goes there, and gets
// its own working directory and root. False: the kernel or a sandbox refuses it.
bool as_agent_leave_descriptors(void);
