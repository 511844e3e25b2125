// SPDX-License-Identifier: MIT
// Holds some memory, and a child of vfork() runs in it. At SIGUSR1 the child becomes a process of its own, the same
// program with the argument "alone".
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int signal;
    sigset_t go;
    for (int i = 0; i < 1000; i++)
        memset(malloc(50000), 1, 50000);
    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    sigprocmask(SIG_BLOCK, &go, NULL);
    puts("ready");
    fflush(stdout);
    if (strcmp(argv[argc - 1], "alone") != 0 && vfork() == 0) {
        sigwait(&go, &signal);
        execl("/proc/self/exe", argv[0], argv[1], "alone", (char *)NULL);
        _exit(1);
    }
    pause();
}
