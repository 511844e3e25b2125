// SPDX-License-Identifier: MIT
// A snapshot of a small process takes less time than the start of a program. So a command that takes many snapshots keeps one
// arenadump, which runs a command for each request. A request must find what a fresh program finds: what a command may change of the
// process is undone in one place, end_request.
#include "cli/serve.h"
#include "base/blocks.h"
#include "base/error.h"
#include "cli/commands.h"
#include "config.h"
#include "libc/kept_answers.h"
#include "target/procfs.h"
#include "target/window.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range // headers before Linux 5.9
#define SYS_close_range 436
#endif

enum {
    MOST_BYTES = 1 << 16, // of a request
    MOST_WORDS = 64,
    KEPT_KB = 16 << 10, // of what is resident of us between two requests
};

struct server {
    int socket;
    int nowhere; // /dev/null
    int errors;  // standard error of the server itself, between two requests
};

struct request {
    char text[MOST_BYTES];
    char *words[MOST_WORDS + 1]; // NULL behind the last
    int count;
    int streams[2]; // for standard output and standard error; -1: none
};

// Keeps the socket, out of reach of a command that reads standard input, and the three standard streams. Nothing else is inherited.
static bool open_server(struct server *s, struct as_error *err)
{
    int type = 0;
    socklen_t size = sizeof type;
    if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET)
        return as_fail(
            err, AS_USAGE,
            "serve is for arenascope, which talks to it by a socket (SOCK_SEQPACKET) that is standard input");
    syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
    s->socket = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    s->errors = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    s->nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (s->socket < 0 || s->errors < 0 || s->nowhere < 0)
        return as_fail_errno(err, AS_INTERNAL, "serve: no descriptors");
    dup2(s->nowhere, STDIN_FILENO);
    dup2(s->nowhere, STDOUT_FILENO);
    // The buffer is the same whatever a request's output is: the first use would decide for all.
    setvbuf(stdout, NULL, _IOFBF, BUFSIZ);
    return true;
}

static bool say(const struct server *s, const char *text, size_t length)
{
    ssize_t sent;
    do
        sent = send(s->socket, text, length, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)length;
}

static bool say_hello(const struct server *s)
{
    char text[128];
    int length = snprintf(text, sizeof text, "arenadump serve %d %s", AS_SERVE_PROTOCOL, AS_VERSION);
    return say(s, text, (size_t)length);
}

// The exit code, and the processor time of the server and of what it has started, since its start: who waits for programs that
// end learns it of the kernel.
static bool say_code(const struct server *s, int code)
{
    char text[64];
    struct rusage own, others;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &others);
    long long seconds =
        (long long)own.ru_utime.tv_sec + own.ru_stime.tv_sec + others.ru_utime.tv_sec + others.ru_stime.tv_sec;
    long long us =
        (long long)own.ru_utime.tv_usec + own.ru_stime.tv_usec + others.ru_utime.tv_usec + others.ru_stime.tv_usec;
    int length = snprintf(text, sizeof text, "%d %lld", code, seconds * 1000000 + us);
    return say(s, text, (size_t)length);
}

static void take_streams(struct msghdr *message, struct request *r)
{
    r->streams[0] = r->streams[1] = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof r->streams))
            memcpy(r->streams, CMSG_DATA(c), sizeof r->streams);
}

// "dump\0-o\0-\0--\0123\0"
static bool split(struct request *r, size_t length)
{
    static char name[] = "arenadump";
    r->words[0] = name;
    r->count = 1;
    if (length == 0 || r->text[length - 1] != '\0')
        return false;
    for (char *word = r->text; word < r->text + length; word += strlen(word) + 1) {
        if (r->count == MOST_WORDS)
            return false;
        r->words[r->count++] = word;
    }
    r->words[r->count] = NULL;
    return true;
}

// 1: a request; 0: the other end is closed; -1: no request.
static int receive(const struct server *s, struct request *r)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof r->streams)];
    } control;
    struct iovec part = {r->text, sizeof r->text};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got;
    do
        got = recvmsg(s->socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return 0;
    take_streams(&message, r);
    bool whole = !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && r->streams[0] >= 0;
    return whole && split(r, (size_t)got) ? 1 : -1;
}

static void begin_request(const struct request *r)
{
    for (int i = 0; i < 2; i++) {
        dup2(r->streams[i], STDOUT_FILENO + i);
        close(r->streams[i]);
    }
}

// Undoes what a command has left. What it could not print glibc has dropped.
static void end_request(const struct server *s)
{
    as_blocks_close();
    clearerr(stdout);
    clearerr(stderr);
    dup2(s->nowhere, STDOUT_FILENO);
    dup2(s->errors, STDERR_FILENO);
    // A supervisor that was given time to finish.
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    uint64_t resident = as_proc_status(AT_FDCWD, "/proc/self/status", "VmRSS:");
    if (resident != AS_PROC_NONE && resident > KEPT_KB)
        malloc_trim(0);
}

int as_serve(void)
{
    static struct request r; // too large for a stack
    struct server s = {-1, -1, -1};
    struct as_error err = {0};
    int got = 0;
    if (!open_server(&s, &err)) {
        fprintf(stderr, "arenadump: %s\n", err.text);
        return err.code;
    }
    as_answers_keep();
    as_blocks_keep();
    as_windows_keep();
    for (bool there = say_hello(&s); there && (got = receive(&s, &r)) > 0;) {
        begin_request(&r);
        int code = as_command_run(r.count, r.words, true);
        there = say_code(&s, code); // before the streams are closed: who waits for all three wakes up once
        end_request(&s);
    }
    return got < 0 ? AS_BAD_INPUT : AS_OK;
}
