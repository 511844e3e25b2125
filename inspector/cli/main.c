// SPDX-License-Identifier: MIT
// arenadump: the small program for a bare machine.
#include "cli/commands.h"
#include "cli/serve.h"

#include <signal.h>
#include <string.h>

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); // a limit on the size of files (ulimit -f) is an error like a full disk
    return argc == 2 && strcmp(argv[1], "serve") == 0 ? as_serve() : as_command_run(argc, argv, false);
}
