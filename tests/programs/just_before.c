// SPDX-License-Identifier: MIT
// A library to preload: SIGTERM comes once, after the program has decided to wait, and before the kernel lets it wait.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>

enum { LONG = 5000 }; // milliseconds: shorter waits are not those that the tests are about

static void come_just_before(int timeout)
{
    static atomic_flag came = ATOMIC_FLAG_INIT;
    if ((timeout < 0 || timeout > LONG) && !atomic_flag_test_and_set(&came))
        raise(SIGTERM);
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    come_just_before(timeout);
    int (*next)(int, struct epoll_event *, int, int) =
        (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    return next(epoll, events, most, timeout);
}

int poll(struct pollfd *waited, nfds_t count, int timeout)
{
    if (timeout > 0)
        come_just_before(timeout);
    int (*next)(struct pollfd *, nfds_t, int) = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
    return next(waited, count, timeout);
}
