// SPDX-License-Identifier: MIT
#include "agent/door.h"
#include "agent/agent.h"
#include "agent/log.h"
#include "agent/protocol.h"
#include "agent/serve.h"
#include "target/procfs.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

void as_door_open(struct as_door *door)
{
    *door = (struct as_door){.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    for (int i = 0; i < AS_DOOR_CLIENTS; i++)
        door->clients[i] = -1;
    // No name given: the kernel chooses one that nobody has.
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    if (door->listener < 0 || bind(door->listener, (struct sockaddr *)&any, sizeof any.sun_family) != 0 ||
        listen(door->listener, AS_DOOR_CLIENTS) != 0) {
        as_log("the control socket cannot be opened, so trim and inject cannot reach the agent: %s", strerror(errno));
        if (door->listener >= 0)
            close(door->listener);
        door->listener = -1;
    }
}

size_t as_door_poll(const struct as_door *door, struct pollfd *fds)
{
    fds[0] = (struct pollfd){.fd = door->listener, .events = POLLIN}; // poll() passes over what is -1
    for (int i = 0; i < AS_DOOR_CLIENTS; i++)
        fds[1 + i] = (struct pollfd){.fd = door->clients[i], .events = POLLIN};
    return AS_DOOR_FDS;
}

// In a user namespace whoever has no number there is called by that of nobody, which may be ours.
static bool is_anybody(uid_t uid)
{
    char text[64] = "";
    const char *at = text;
    uint64_t nobody = 65534;
    if (as_proc_read(AT_FDCWD, "/proc/sys/kernel/overflowuid", text, sizeof text) > 0)
        nobody = as_parse_decimal(&at, text + strlen(text));
    return uid == nobody && (as_proc_read(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) <= 0 ||
                             !strstr(text, " 4294967295")); // all there are
}

// Root may, and whoever we run as.
static bool may_enter(int client)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == 0 || (peer.uid == geteuid() && !is_anybody(peer.uid)));
}

static void let_in(struct as_door *door)
{
    int client = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    // Who does not take his answer within a second is shown out.
    struct timeval patience = {.tv_sec = 1};
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    for (int i = 0; i < AS_DOOR_CLIENTS; i++) {
        if (door->clients[i] >= 0 || !may_enter(client))
            continue;
        door->clients[i] = client;
        return;
    }
    close(client);
}

// Receives a request, if there is one (*asked), and the descriptor that may come with it (-1: none). False: the client has gone,
// or makes no sense.
static bool receive(int client, struct as_agent_request *request, int *fd, bool *asked)
{
    enum { DESCRIPTORS = 4 };
    union {
        char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {request, sizeof *request};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    *request = (struct as_agent_request){0};
    *fd = -1;
    *asked = false;
    ssize_t length = recvmsg(client, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0)
        return errno == EAGAIN || errno == EINTR;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        int fds[DESCRIPTORS];
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(c), count * sizeof(int));
        close_all(fds + 1, count - 1);
        *fd = fds[0];
    }
    bool whole = length == sizeof *request && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
    *asked = whole;
    if (!whole && *fd >= 0)
        close(*fd);
    return whole;
}

void as_door_serve(struct as_door *door, const struct pollfd *fds)
{
    for (int i = 0; i < AS_DOOR_CLIENTS; i++) {
        struct as_agent_request request;
        int fd;
        bool asked;
        if (door->clients[i] < 0 || !fds[1 + i].revents)
            continue;
        bool stays = (fds[1 + i].revents & POLLIN) && receive(door->clients[i], &request, &fd, &asked);
        if (stays && asked) {
            stays = as_serve(door->clients[i], &request, fd);
            if (fd >= 0)
                close(fd);
        }
        if (!stays) {
            close(door->clients[i]);
            door->clients[i] = -1;
        }
    }
    if (fds[0].revents & POLLIN)
        let_in(door);
}

void as_door_close(struct as_door *door)
{
    if (door->listener >= 0)
        close(door->listener);
    for (int i = 0; i < AS_DOOR_CLIENTS; i++)
        if (door->clients[i] >= 0)
            close(door->clients[i]);
}
