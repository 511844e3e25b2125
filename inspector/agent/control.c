// SPDX-License-Identifier: MIT
// Serves the control socket. The worker thread runs all of this.
#include "agent/control.h"
#include "agent/log.h"
#include "agent/own_process.h"
#include "agent/policy.h"
#include "agent/profile_session.h"
#include "control/protocol.h"
#include "target/procfs.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

void as_control_server_open(struct as_control_server *server)
{
    *server = (struct as_control_server){.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                                         .profiling = -1};
    for (int i = 0; i < AS_CONTROL_CLIENTS; i++)
        server->clients[i] = -1;
    // An address without a name: the kernel chooses a name that is not in use.
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    if (server->listener < 0 || bind(server->listener, (struct sockaddr *)&any, sizeof any.sun_family) != 0 ||
        listen(server->listener, AS_CONTROL_CLIENTS) != 0) {
        as_log("the control socket cannot be opened, so trim and inject cannot reach the agent: %s", strerror(errno));
        if (server->listener >= 0)
            close(server->listener);
        server->listener = -1;
    }
}

size_t as_control_server_poll(struct as_control_server *server, struct pollfd *fds)
{
    size_t count = 0;
    if (server->listener >= 0 && !server->refused)
        fds[count++] = (struct pollfd){.fd = server->listener, .events = POLLIN};
    server->refused = false;
    for (int i = 0; i < AS_CONTROL_CLIENTS; i++)
        if (server->clients[i] >= 0)
            fds[count++] = (struct pollfd){.fd = server->clients[i], .events = POLLIN};
    return count;
}

// Whether a uid may stand for anybody: a user namespace shows each user that it has no uid for as the overflow uid (nobody), which
// may also be the uid of this process.
static bool is_anybody(uid_t uid)
{
    char text[64] = "";
    const char *at = text;
    uint64_t nobody = 65534;
    if (as_proc_read(AT_FDCWD, "/proc/sys/kernel/overflowuid", text, sizeof text) > 0)
        nobody = as_parse_decimal(&at, text + strlen(text));
    return uid == nobody && (as_proc_read(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) <= 0 ||
                             !strstr(text, " 4294967295")); // every uid has a mapping
}

// Root may connect, and the user that this process runs as.
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
    if (client < 0) {
        // Where the program or the machine has no descriptor left, the client still waits, and poll() would return at once for ever.
        server->refused = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
        return;
    }
    // A client that does not read its reply within a second is disconnected.
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

// Receives a request, if there is one (*asked). A request of another size gets protocol 0, which no client has. The kernel closes
// a descriptor that comes with a request, as recv has no space for it. False: the client has closed the connection.
static bool receive(int client, struct as_control_request *request, bool *asked)
{
    ssize_t length = recv(client, request, sizeof *request, MSG_DONTWAIT | MSG_TRUNC);
    if (length != sizeof *request)
        *request = (struct as_control_request){0};
    *asked = length > 0;
    return *asked || (length < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool send_message(int client, const void *message, size_t size)
{
    return send(client, message, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static bool send_arenas(int client, const struct as_trim_outcome *out, bool forecast)
{
    AS_FOR_EACH(const struct as_trim_arena, a, &out->arenas) {
        struct as_control_arena arena = {
            .place = a->place,
            .before = {.arena = a->address,
                       .resident = a->resident,
                       .releasable = a->releasable,
                       .withheld = a->withheld},
            .returned = forecast ? ARENASCOPE_UNKNOWN : a->returned,
            .longest_hold = forecast ? ARENASCOPE_UNKNOWN : a->longest_hold_ns,
        };
        if (!send_message(client, &arena, sizeof arena))
            return false;
    }
    return true;
}

static void disconnect(struct as_control_server *server, int i)
{
    close(server->clients[i]);
    server->clients[i] = -1;
}

// A profile lasts no longer than the connection of who began it: whatever becomes of a client, the process runs as before.
static bool end_profile(struct as_control_server *server, int by, struct as_error *err)
{
    int owner = server->profiling;
    server->profiling = -1;
    if (owner >= 0 && owner != by)
        disconnect(server, owner);
    return as_agent_profile_end(err);
}

static void reply_with_policy(struct as_control_reply *reply)
{
    reply->policy.stats.size = sizeof reply->policy.stats;
    reply->policy.on = as_policy_statistics(&reply->policy.stats);
}

static bool answer(struct as_control_server *server, int i, const struct as_control_request *request)
{
    int client = server->clients[i];
    struct as_control_reply reply = {.protocol = AS_CONTROL_PROTOCOL};
    struct as_error err = {0};
    struct as_trim_outcome out = {0};
    bool ok = true;
    snprintf(reply.version, sizeof reply.version, "%s", AS_VERSION);
    if (request->protocol != AS_CONTROL_PROTOCOL)
        ok = as_fail(&err, AS_UNSUPPORTED, "the agent in the process is of version %s and speaks protocol %d, not %u",
                     AS_VERSION, AS_CONTROL_PROTOCOL, request->protocol);
    else
        switch (request->operation) {
        case AS_CONTROL_HELLO:
            break;
        case AS_CONTROL_FORECAST:
            ok = as_agent_forecast(&request->trim, &out, &err);
            break;
        case AS_CONTROL_TRIM:
            reply.trim.size = sizeof reply.trim;
            ok = as_agent_trim(&request->trim, &reply.trim, &out, &err);
            break;
        case AS_CONTROL_RESIDENT:
            ok = as_self_resident(&reply.resident, &err);
            break;
        case AS_CONTROL_PROFILE:
        case AS_CONTROL_PROFILE_ENTRIES:
            ok = as_agent_profile_begin(request->rates, request->operation == AS_CONTROL_PROFILE_ENTRIES, &reply, &err);
            server->profiling = ok ? i : server->profiling;
            reply.missing.entries = as_agent_entries();
            break;
        case AS_CONTROL_PROFILE_END:
            ok = end_profile(server, i, &err);
            reply.missing.entries = as_agent_entries();
            break;
        case AS_CONTROL_RECORDER_ROOM:
            ok = as_agent_open_recorder_room(&err);
            break;
        case AS_CONTROL_POLICY:
            reply_with_policy(&reply);
            break;
        default:
            ok = as_fail(&err, AS_UNSUPPORTED, "the agent in the process (version %s) does not know operation %u",
                         AS_VERSION, request->operation);
        }
    if (!ok)
        as_log("operation %u of a client failed: %s", request->operation, err.text);
    reply.code = ok ? AS_OK : err.code;
    reply.count = ok ? out.arenas.count : 0;
    // A trim that succeeds may have left arenas out: its note says so.
    snprintf(reply.error, sizeof reply.error, "%s", ok ? out.note : err.text);
    bool sent = send_message(client, &reply, sizeof reply) &&
                (!ok || send_arenas(client, &out, request->operation == AS_CONTROL_FORECAST));
    as_trim_free(&out);
    return sent;
}

// What poll() says of a descriptor; 0: nothing, or it was not asked.
static short said_of(int descriptor, const struct pollfd *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i].fd == descriptor)
            return fds[i].revents;
    return 0;
}

void as_control_server_handle(struct as_control_server *server, const struct pollfd *fds, size_t count)
{
    for (int i = 0; i < AS_CONTROL_CLIENTS; i++) {
        struct as_control_request request;
        bool asked;
        short said = said_of(server->clients[i], fds, count);
        if (!said)
            continue;
        bool stays = (said & POLLIN) && receive(server->clients[i], &request, &asked);
        if (stays && asked)
            stays = answer(server, i, &request);
        if (stays)
            continue;
        struct as_error err = {0};
        if (server->profiling == i && !end_profile(server, i, &err))
            as_log("%s", err.text);
        disconnect(server, i);
    }
    if (said_of(server->listener, fds, count) & POLLIN)
        accept_client(server);
}
