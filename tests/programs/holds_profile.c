// SPDX-License-Identifier: MIT
// Preloaded into arenadump: when the agent has answered that it records ("exact" is in the request), makes the file $HELD, and goes on when
// that is gone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef ssize_t send_fn(int, const void *, size_t, int);
typedef ssize_t recv_fn(int, void *, size_t, int);

static bool is_asked;

ssize_t send(int socket, const void *bytes, size_t size, int flags)
{
    is_asked = memmem(bytes, size, "exact", 5) != NULL;
    return ((send_fn *)dlsym(RTLD_NEXT, "send"))(socket, bytes, size, flags);
}

ssize_t recv(int socket, void *bytes, size_t size, int flags)
{
    ssize_t got = ((recv_fn *)dlsym(RTLD_NEXT, "recv"))(socket, bytes, size, flags);
    const char *held = getenv("HELD");
    if (!is_asked || got <= 0 || !held)
        return got;
    is_asked = false;
    close(open(held, O_CREAT | O_WRONLY, 0600));
    while (access(held, F_OK) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return got;
}
