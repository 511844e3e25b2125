// SPDX-License-Identifier: MIT
// arenadump: the small program for a bare machine.
#include "cli/commands.h"

#include <signal.h>

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); // a limit on the size of files (ulimit -f) is an error like a full disk
    return as_command_run(argc, argv);
}
