// SPDX-License-Identifier: MIT
#include "agent/control.h"
#include "agent/agent.h"
#include "agent/log.h"
#include "agent/serve.h"
#include "control/protocol.h"
#include "target/process/procfs.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

void as_control_server_open(struct as_control_server *server)
{
    *server = (struct as_control_server){.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    for (int i = 0; i < AS_CONTROL_CLIENTS; i++)
        server->clients[i] = -1;
    // No name given: the kernel chooses one that nobody has.
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    if (server->listener < 0 || bind(server->listener, (struct sockaddr *)&any, sizeof any.sun_family) != 0 ||
        listen(server->listener, AS_CONTROL_CLIENTS) != 0) {
        as_log("there is no door, so trim and inject cannot ask: %s", strerror(errno));
        if (server->listener >= 0)
            close(server->listener);
        server->listener = -1;
    }
}

size_t as_control_server_poll(const struct as_control_server *server, struct pollfd *fds)
{
    fds[0] = (struct pollfd){.fd = server->listener, .events = POLLIN}; // poll() passes over what is -1
    for (int i = 0; i < AS_CONTROL_CLIENTS; i++)
        fds[1 + i] = (struct pollfd){.fd = server->clients[i], .events = POLLIN};
    return AS_CONTROL_FDS;
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
static bool is_allowed(int client)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == 0 || (peer.uid == geteuid() && !is_anybody(peer.uid)));
}

static void accept_client(struct as_control_server *server)
{
    int client = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    // Who does not take his answer within a second is shown out.
    struct timeval patience = {.tv_sec = 1};
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    for (int i = 0; i < AS_CONTROL_CLIENTS; i++) {
        if (server->clients[i] >= 0 || !is_allowed(client))
            continue;
        server->clients[i] = client;
        return;
    }
    close(client);
}

// Receives a request, if there is one (*asked). One of another size is of no protocol that is known here. The kernel drops a
// descriptor that comes with a request, as recv has no place for it. False: the client has closed the connection.
static bool receive(int client, struct as_control_request *request, bool *asked)
{
    ssize_t length = recv(client, request, sizeof *request, MSG_DONTWAIT | MSG_TRUNC);
    if (length != sizeof *request)
        *request = (struct as_control_request){0};
    *asked = length > 0;
    return *asked || (length < 0 && (errno == EAGAIN || errno == EINTR));
}

void as_control_server_handle(struct as_control_server *server, const struct pollfd *fds)
{
    for (int i = 0; i < AS_CONTROL_CLIENTS; i++) {
        struct as_control_request request;
        bool asked;
        if (server->clients[i] < 0 || !fds[1 + i].revents)
            continue;
        bool stays = (fds[1 + i].revents & POLLIN) && receive(server->clients[i], &request, &asked);
        if (stays && asked)
            stays = as_control_answer(server->clients[i], &request);
        if (!stays) {
            close(server->clients[i]);
            server->clients[i] = -1;
        }
    }
    if (fds[0].revents & POLLIN)
        accept_client(server);
}
