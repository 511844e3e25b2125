// SPDX-License-Identifier: MIT
// As many chunks of 112 bytes as the argument says, so that a snapshot of them takes its time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    for (long left = count > 1 ? atol(arguments[1]) : 0; left > 0; left--) {
        char *block = malloc(100);
        if (!block)
            return 1;
        memset(block, 0x5a, 100);
    }
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
