// SPDX-License-Identifier: MIT
// Says "ready" once, and then becomes itself again (exec) every millisecond.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    char *again[] = {arguments[0], "again", NULL};
    if (!malloc(1000))
        return 1;
    if (count == 1) {
        puts("ready");
        fflush(stdout);
    }
    usleep(1000);
    execv("/proc/self/exe", again);
    return 1;
}
