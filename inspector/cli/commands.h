// SPDX-License-Identifier: MIT
// All commands of arenadump, by their names.
#pragma once

// Runs the command that the words name, as the program does: prints its answer on stdout, and on stderr what is wrong. Returns
// the exit code, an as_code.
int as_command_run(int argc, char **argv);
