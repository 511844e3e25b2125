// SPDX-License-Identifier: MIT
#include "inject/client.h"
#include "target/procfs.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum {
    BETWEEN_US = 2000,    // two attempts to connect
    MOST_ARENAS = 1 << 20 // in an answer
};
#define AWAKE_NS UINT64_C(3000000000)   // for an agent that was just woken to open its control socket
#define ANSWER_NS UINT64_C(60000000000) // for a whole answer

// Whether the target listens there: once the agent has ended, any process can take the name.
static bool is_target(int fd, pid_t pid)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid == pid;
}

// Why a connection failed.
enum failure { ABSENT = 1, FULL, REFUSED };

static enum failure try_to_connect(struct as_client *client, struct as_error *err)
{
    struct sockaddr_un address;
    socklen_t length;
    bool absent;
    if (!as_control_socket_find(client->pid, &address, &length, &absent, err))
        return absent ? ABSENT : REFUSED;
    AS_CLEANUP_FD int fd = as_control_socket_make(client->pid, err);
    if (fd < 0)
        return REFUSED;
    if (connect(fd, (const struct sockaddr *)&address, length) != 0) {
        if (errno == EAGAIN) {
            as_fail(err, AS_DENIED,
                    "the agent of process %d accepts no connection: the queue of its control socket is full. Is the "
                    "process stopped, or is the agent busy with other clients?",
                    client->pid);
            return FULL;
        }
        enum failure why = errno == ECONNREFUSED ? ABSENT : REFUSED;
        as_fail_errno(err, AS_DENIED, "the agent of process %d refuses the connection", client->pid);
        return why;
    }
    if (!is_target(fd, client->pid)) {
        as_fail(err, AS_DENIED, "the control socket of process %d belongs to another process", client->pid);
        return REFUSED;
    }
    client->socket = fd;
    fd = -1;
    return 0;
}

static bool say_hello(struct as_client *client, struct as_error *err)
{
    const struct as_control_request hello = {.protocol = AS_CONTROL_PROTOCOL, .operation = AS_CONTROL_HELLO};
    struct as_control_reply reply;
    if (!as_client_ask(client, &hello, &reply, NULL, err))
        return false;
    snprintf(client->version, sizeof client->version, "%.*s", (int)sizeof reply.version - 1, reply.version);
    return true;
}

bool as_client_connect(struct as_client *client, pid_t pid, uint64_t wait_ns, uint64_t patience_ns, bool *absent,
                       struct as_error *err)
{
    uint64_t began = as_now_ns();
    enum failure why;
    patience_ns = patience_ns ? patience_ns : ANSWER_NS;
    *client = (struct as_client){.socket = -1, .pid = pid, .answer_ns = patience_ns};
    while ((why = try_to_connect(client, err)) != 0) {
        uint64_t limit = why == ABSENT ? wait_ns : why == FULL ? patience_ns : 0;
        *absent = why == ABSENT;
        if (as_now_ns() - began >= limit)
            return false;
        as_sleep_ns(BETWEEN_US * 1000L);
    }
    *absent = false;
    if (!say_hello(client, err)) {
        as_client_close(client);
        return false;
    }
    client->answer_ns = ANSWER_NS;
    return true;
}

// A number may have become another process's; as long as the target lives it has not.
static bool is_still(struct as_client *client, struct as_target *t, struct as_error *err)
{
    if (t->ops->stop.intact(t, err))
        return true;
    as_client_close(client);
    return false;
}

bool as_client_reach(struct as_client *client, struct as_target *t, const struct as_inject_options *options,
                     struct as_inject_result *result, struct as_error *err)
{
    bool absent;
    uint64_t patience = options->patience_ns;
    *result = (struct as_inject_result){0};
    if (as_client_connect(client, t->pid, 0, patience, &absent, err))
        return is_still(client, t, err);
    if (!absent)
        return false;
    if (!as_inject(t, options, result, err))
        return false;
    if (as_client_connect(client, t->pid, AWAKE_NS, patience, &absent, err))
        return is_still(client, t, err);
    // Only now is it known that there is an agent: another thread may have the name of its thread.
    return absent && is_still(client, t, err) &&
           as_fail(err, AS_UNSUPPORTED,
                   "the agent in process %d was started, and has no control socket after %d s: a sandbox may forbid it "
                   "sockets of AF_UNIX (systemd's RestrictAddressFamilies)",
                   t->pid, (int)(AWAKE_NS / 1000000000));
}

// Until the socket can be written to or read from (`events`), or the deadline has passed.
static bool await_socket(const struct as_client *client, short events, uint64_t deadline, struct as_error *err)
{
    struct pollfd other = {.fd = client->socket, .events = events};
    for (;;) {
        uint64_t now = as_now_ns();
        uint64_t left = deadline > now ? deadline - now : 0;
        const struct timespec limit = as_time_of(left);
        int ready = ppoll(&other, 1, &limit, NULL);
        if (ready > 0 && left > 0)
            return true;
        if (left == 0)
            return as_fail(err, AS_DENIED,
                           "the agent of process %d has not answered within %.1f s: is the process stopped, or one of "
                           "its arenas locked for ever?",
                           client->pid, (double)client->answer_ns / 1e9);
    }
}

static bool send_request(const struct as_client *client, const struct as_control_request *request, uint64_t deadline,
                         struct as_error *err)
{
    ssize_t sent;
    do {
        if (!await_socket(client, POLLOUT, deadline, err))
            return false;
        sent = send(client->socket, request, sizeof *request, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && (errno == EINTR || errno == EAGAIN));
    return sent == (ssize_t)sizeof *request ||
           as_fail_errno(err, AS_TARGET_GONE, "the agent of process %d has closed the connection", client->pid);
}

// One message of exactly that size.
static bool receive(const struct as_client *client, void *out, size_t size, uint64_t deadline, struct as_error *err)
{
    ssize_t got;
    do {
        if (!await_socket(client, POLLIN, deadline, err))
            return false;
        got = recv(client->socket, out, size, MSG_TRUNC | MSG_DONTWAIT);
    } while (got < 0 && (errno == EINTR || errno == EAGAIN));
    if (got <= 0)
        return as_fail(err, AS_TARGET_GONE, "process %d, or the agent in it, ended before it had answered",
                       client->pid);
    return (size_t)got == size ||
           as_fail(err, AS_UNSUPPORTED,
                   "the agent in process %d has another version: its answer has %zd bytes instead of %zu", client->pid,
                   got, size);
}

static bool receive_arenas(const struct as_client *client, uint64_t count, as_control_arena_vec *arenas,
                           uint64_t deadline, struct as_error *err)
{
    if (count > MOST_ARENAS)
        return as_fail(err, AS_BAD_INPUT, "the agent of process %d claims to have %llu arenas", client->pid,
                       (unsigned long long)count);
    for (uint64_t i = 0; i < count; ++i) {
        struct as_control_arena arena;
        if (!receive(client, &arena, sizeof arena, deadline, err))
            return false;
        struct as_control_arena *item = arenas ? as_vec_add(arenas, err) : NULL;
        if (arenas && !item)
            return false;
        if (item)
            *item = arena;
    }
    return true;
}

bool as_client_ask(const struct as_client *client, const struct as_control_request *request,
                   struct as_control_reply *reply, as_control_arena_vec *arenas, struct as_error *err)
{
    uint64_t deadline = as_now_ns() + client->answer_ns;
    *reply = (struct as_control_reply){0};
    if (!send_request(client, request, deadline, err) || !receive(client, reply, sizeof *reply, deadline, err))
        return false;
    if (reply->protocol != AS_CONTROL_PROTOCOL)
        return as_fail(err, AS_UNSUPPORTED, "the agent in process %d speaks another protocol", client->pid);
    reply->error[sizeof reply->error - 1] = '\0';
    if (reply->code != AS_OK)
        return as_fail(err, reply->code <= AS_NO_MALLOC ? (enum as_code)reply->code : AS_INTERNAL, "%s", reply->error);
    return receive_arenas(client, reply->count, arenas, deadline, err);
}

uint64_t as_client_resident(const struct as_client *client)
{
    const struct as_control_request request = {.protocol = AS_CONTROL_PROTOCOL, .operation = AS_CONTROL_RESIDENT};
    struct as_control_reply reply;
    struct as_error err;
    return as_client_ask(client, &request, &reply, NULL, &err) ? reply.resident : AS_UNKNOWN;
}

void as_client_close(struct as_client *client)
{
    as_close_fd(&client->socket);
}
