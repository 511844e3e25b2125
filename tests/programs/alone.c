// SPDX-License-Identifier: MIT
// A process with one thread, which says "ready"; upon input, whether the kernel still gives it a user namespace of its own, as only a
// process with one thread may have.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    char byte;
    puts("ready");
    fflush(stdout);
    if (read(STDIN_FILENO, &byte, 1) == 1)
        puts(unshare(CLONE_NEWUSER) == 0 ? "alone" : errno == EINVAL ? "EINVAL" : strerror(errno));
    return 0;
}
