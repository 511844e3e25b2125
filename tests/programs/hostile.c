// SPDX-License-Identifier: MIT
// hostile HOW [WHAT]: a process that wants to harm who inspects it, or loads something into it. Says "ready"; ends when
// stdin does.
//
//   swaps FILE   whatever descriptor appears from 1000 on becomes one of FILE, which is opened for reading only
//   full         has a thread with the name of the agent's, and a control socket whose queue is full
//   silent       ... with a control socket that accepts connections and never answers
//   arenas       ... that announces a million arenas, and tells of one at a time
//   shouts       ... whose version is what a terminal obeys
//   older        ... that knows no operation but the greeting, as an agent of an earlier version
//   greets       ... that answers the greeting, and nothing afterwards
//   traces PID   traces that process, and goes by the name of an inspector's supervisor
//   waits        has memory that never answers (userfaultfd), in a chunk of malloc's
//   heir         a child has that thread, and a control socket that is its parent's, which answers there
#define _GNU_SOURCE
#include "control/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST = 1000, AFTER = 1004, DRIP_US = 20000, ARENAS = 1 << 20 };

static int listener;
static pthread_barrier_t named;
static const char *how;

static void wait_for_end(void)
{
    char byte;
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    exit(0);
}

static void *swap(void *file)
{
    int other = open(file, O_RDONLY | O_CLOEXEC);
    if (other < 0)
        abort();
    for (;;)
        for (int fd = FIRST; fd < AFTER; fd++)
            if (fcntl(fd, F_GETFD) >= 0)
                dup2(other, fd);
    return NULL;
}

static bool answer(int client)
{
    struct as_control_request request;
    struct as_control_reply reply = {.protocol = AS_CONTROL_PROTOCOL, .version = "0"};
    struct as_control_arena arena = {.before = {.arena = 4096}};
    if (recv(client, &request, sizeof request, 0) != (ssize_t)sizeof request)
        return false;

    if (strcmp(how, "older") == 0 && request.operation != AS_CONTROL_HELLO)
        reply.code = AS_UNSUPPORTED;
    if (strcmp(how, "greets") == 0 && request.operation != AS_CONTROL_HELLO)
        pause();
    if (strcmp(how, "arenas") == 0)
        reply.count = ARENAS;
    if (strcmp(how, "shouts") == 0)
        strcpy(reply.version, "\033[31mred\n");
    bool ok = send(client, &reply, sizeof reply, MSG_NOSIGNAL) > 0;
    for (uint64_t i = 0; ok && i < reply.count; i++) {
        ok = send(client, &arena, sizeof arena, MSG_NOSIGNAL) > 0;
        usleep(DRIP_US);
    }
    return ok;
}

static void serve(void)
{
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (strcmp(how, "silent") != 0)
            while (answer(client))
                ;
        else
            pause();
        close(client);
    }
}

static void *keep_listener(void *unused)
{
    prctl(PR_SET_NAME, AS_AGENT_THREAD);
    pthread_barrier_wait(&named);
    if (strcmp(how, "full") != 0 && strcmp(how, "heir") != 0)
        serve();
    pause();
    return unused;
}

static void open_listener(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = sizeof address;
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address.sun_family) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        abort();
    while (strcmp(how, "full") == 0) {
        int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connect(client, (struct sockaddr *)&address, size) != 0)
            return;
    }
}

// Memory that is absent there, and stays so.
static void wait_for_pages(void)
{
    enum { SIZE = 4 << 20, PAGE = 65536 };
    char *chunk = malloc(SIZE);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register memory = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    memory.range.start = ((uintptr_t)chunk + PAGE) & -(uintptr_t)PAGE;
    memory.range.len = SIZE - 4 * PAGE;
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0 || ioctl(fd, UFFDIO_REGISTER, &memory) != 0)
        puts("no userfaultfd");
    wait_for_end();
}

// Under the name of who is let finish, and is waited for: an inspector's supervisor.
static void trace(pid_t pid)
{
    prctl(PR_SET_NAME, "arenadump-guard");
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) != 0)
        abort();
    wait_for_end();
}

int main(int argc, char **argv)
{
    pthread_t thread;
    how = argc > 1 ? argv[1] : "";
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    free(malloc(100));
    if (strcmp(how, "swaps") == 0 && argc == 3) {
        pthread_create(&thread, NULL, swap, argv[2]);
        wait_for_end();
    }
    if (strcmp(how, "waits") == 0)
        wait_for_pages();
    if (strcmp(how, "traces") == 0 && argc == 3)
        trace(atoi(argv[2]));
    open_listener();
    if (strcmp(how, "heir") == 0 && fork() != 0)
        serve();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_barrier_init(&named, NULL, 2);
    pthread_create(&thread, NULL, keep_listener, NULL);
    pthread_barrier_wait(&named);
    wait_for_end();
    return 0;
}
