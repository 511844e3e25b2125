// SPDX-License-Identifier: MIT
// What it takes to inspect the process of another user, besides being root.
#pragma once

// The names of the capabilities that this process lacks for it: "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH", or one of the two;
// "" if it lacks none.
const char *as_capabilities_missing(void);
