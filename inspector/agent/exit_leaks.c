// SPDX-License-Identifier: MIT
#include "agent/agent.h"
#include "agent/log.h"
#include "agent/preload/preloaded.h"
#include "base/clock.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

// The listener may be busy with other processes, but no process waits for ever.
enum { PATIENCE_SECONDS = 300 };

static struct sockaddr_un asker;
static socklen_t asker_size;

static bool is_ours(int connection, struct ucred *peer)
{
    socklen_t size = sizeof *peer;
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, peer, &size) == 0 &&
           (peer->uid == 0 || peer->uid == geteuid());
}

// Seconds of a clock that nobody sets.
static time_t now_seconds(void)
{
    return (time_t)(as_clock_ns(CLOCK_MONOTONIC) / 1000000000);
}

static void wait_for_reader(int connection)
{
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    struct ucred peer;
    char answer;
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); // bounds connect(), too
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(connection, (const struct sockaddr *)&asker, asker_size) != 0 || !is_ours(connection, &peer)) {
        as_log("nobody inspects this process at its exit: %s", errno ? strerror(errno) : "another user listens");
        return;
    }
    // Where Yama is in force, a process may be traced by its ancestors, and by the one that it names.
    prctl(PR_SET_PTRACER, (unsigned long)peer.pid, 0, 0, 0);
    // A timer of the program's interrupts each wait, and must not prolong it.
    const time_t until = now_seconds() + PATIENCE_SECONDS;
    while (recv(connection, &answer, sizeof answer, 0) < 0 && errno == EINTR && now_seconds() < until) {
        const struct timeval left = {.tv_sec = until - now_seconds() + 1}; // 0 would be for ever
        setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &left, sizeof left);
    }
    prctl(PR_SET_PTRACER, 0, 0, 0, 0);
}

// Runs before the handlers that were registered before the library was loaded, and after all others: what the program itself
// destroys at its end is gone, and libc's own memory is not yet.
static void at_exit(void)
{
    if (as_agent.pid != (pid_t)syscall(SYS_getpid)) // a child of vfork() runs in its parent's memory
        return;
    errno = 0;
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connection < 0) {
        as_log("nobody inspects this process at its exit: %s", strerror(errno));
        return;
    }
    wait_for_reader(connection);
    close(connection);
}

bool as_exit_leaks_wait(const char *name, struct as_error *err)
{
    size_t length = strlen(name);
    if (length == 0 || length >= sizeof asker.sun_path)
        return as_fail(err, AS_USAGE, "ARENASCOPE_EXIT_LEAKS: '%.200s' is not the name of a socket", name);
    asker.sun_family = AF_UNIX;
    memcpy(asker.sun_path + 1, name, length);
    asker_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    return atexit(at_exit) == 0 || as_fail(err, AS_NO_MEMORY, "no handler can be registered for exit()");
}
