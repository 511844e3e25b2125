// SPDX-License-Identifier: MIT
// All commands of arenadump, by their names.
#pragma once

#include <stdbool.h>

// Runs the command that the words name, as the program does: prints its answer on stdout, and on stderr what is wrong. Returns
// the exit code, an as_code. `served`: the process goes on to other commands, so what leaves something behind is refused.
int as_command_run(int argc, char **argv, bool served);
