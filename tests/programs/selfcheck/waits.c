// SPDX-License-Identifier: MIT
// Threads that wait in system calls, each in another one. No signal is ever sent to them, so each call must end as if
// nobody had inspected: after its time, or with the byte that it waits for.
#define _GNU_SOURCE
#include "selfcheck.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void judge_with(const char *call, bool ok, uint64_t began, uint64_t early_ms)
{
    if (!ok && errno == EINTR)
        interrupted(call);
    else if (!ok)
        harmed("%s failed: %s", call, strerror(errno));
    else if (now_ns() - began < (WAIT_MS - early_ms) * UINT64_C(1000000))
        harmed("%s came back after %llu us", call, (unsigned long long)(now_ns() - began) / 1000);
    else
        checked();
}

void judge(const char *call, bool ok, uint64_t began)
{
    judge_with(call, ok, began, 1);
}

void judge_by_ticks(const char *call, bool ok, uint64_t began)
{
    judge_with(call, ok, began, 12);
}

static void *sleeps(void *unused)
{
    (void)unused;
    while (!stopping) {
        struct timespec time = {.tv_nsec = WAIT_MS * 1000000};
        uint64_t began = now_ns();
        judge("nanosleep", nanosleep(&time, NULL) == 0, began);
        struct timespec until;
        began = now_ns(); // first: a thread that loses its processor between the two sleeps for less after that
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += WAIT_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        judge("clock_nanosleep", errno == 0, began);
    }
    return NULL;
}

static void *polls(void *unused)
{
    int fds[2];
    (void)unused;
    if (pipe(fds) != 0)
        abort();
    while (!stopping) {
        struct pollfd p = {.fd = fds[0], .events = POLLIN};
        uint64_t began = now_ns();
        judge("poll", poll(&p, 1, WAIT_MS) == 0, began);
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fds[0], &set);
        struct timeval time = {.tv_usec = WAIT_MS * 1000};
        began = now_ns();
        judge("select", select(fds[0] + 1, &set, NULL, NULL, &time) == 0, began);
        sigset_t none;
        sigfillset(&none);
        struct timespec limit = {.tv_nsec = WAIT_MS * 1000000};
        began = now_ns();
        judge("ppoll", ppoll(&p, 1, &limit, &none) == 0, began);
    }
    return NULL;
}

static void *futexes(void *unused)
{
    static uint32_t word;
    (void)unused;
    while (!stopping) {
        struct timespec time = {.tv_nsec = WAIT_MS * 1000000};
        uint64_t began = now_ns();
        long got = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0);
        judge("futex", got == -1 && errno == ETIMEDOUT, began);
    }
    return NULL;
}

// Ends that a peer writes a byte into now and then.
struct ends {
    int read_pipe, write_pipe, socket, peer, epoll, queue, semaphores;
};

static void *feeds(void *argument)
{
    struct ends *e = argument;
    struct {
        long type;
        char byte;
    } message = {1, 'x'};
    while (!stopping) {
        usleep(WAIT_MS * 1000);
        if (write(e->write_pipe, "x", 1) != 1 || write(e->peer, "x", 1) != 1 || write(e->peer, "y", 1) != 1)
            harmed("write failed: %s", strerror(errno));
        if (e->queue >= 0)
            msgsnd(e->queue, &message, 1, IPC_NOWAIT);
        if (e->semaphores >= 0)
            semop(e->semaphores, &(struct sembuf){.sem_op = 1}, 1);
    }
    for (int i = 0; i < 3; i++) // whoever still waits may go
        if (write(e->write_pipe, "xx", 2) != 2 || write(e->peer, "xyxy", 4) != 4)
            break;
    if (e->queue >= 0)
        msgctl(e->queue, IPC_RMID, NULL);
    if (e->semaphores >= 0)
        semctl(e->semaphores, 0, IPC_RMID);
    return NULL;
}

static void judge_bytes(const char *call, bool ok)
{
    if (ok)
        checked();
    else if (errno == EINTR)
        interrupted(call);
    else if (!stopping)
        harmed("%s failed: %s", call, strerror(errno));
}

static void *reads(void *argument)
{
    struct ends *e = argument;
    char byte;
    while (!stopping) {
        judge_bytes("read of a pipe", read(e->read_pipe, &byte, 1) == 1 && byte == 'x');
    }
    return NULL;
}

static void *receives(void *argument)
{
    struct ends *e = argument;
    char bytes[2];
    while (!stopping) {
        struct epoll_event event;
        judge_bytes("epoll_wait", epoll_wait(e->epoll, &event, 1, -1) == 1);
        judge_bytes("recv", recv(e->socket, bytes, 1, 0) == 1);
        judge_bytes("recv", recv(e->socket, bytes, 1, 0) == 1);
    }
    return NULL;
}

static void *messages(void *argument)
{
    struct ends *e = argument;
    struct {
        long type;
        char byte;
    } message;
    while (!stopping)
        judge_bytes("msgrcv", msgrcv(e->queue, &message, 1, 0, 0) == 1 || errno == EIDRM);
    return NULL;
}

static void *semaphores(void *argument)
{
    struct ends *e = argument;
    while (!stopping)
        judge_bytes("semop", semop(e->semaphores, &(struct sembuf){.sem_op = -1}, 1) == 0 || errno == EIDRM);
    return NULL;
}

void waits_start(void)
{
    struct ends *e = calloc(1, sizeof *e);
    int pair[2];
    if (!e || pipe(pair) != 0)
        abort();
    e->read_pipe = pair[0];
    e->write_pipe = pair[1];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        abort();
    e->socket = pair[0];
    e->peer = pair[1];
    e->epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->socket, &event);
    e->queue = msgget(IPC_PRIVATE, 0600);
    e->semaphores = semget(IPC_PRIVATE, 1, 0600);
    start(sleeps, NULL, 0);
    start(polls, NULL, 0);
    start(futexes, NULL, 0);
    start(reads, e, 0);
    start(receives, e, 0);
    if (e->queue >= 0)
        start(messages, e, 0);
    if (e->semaphores >= 0)
        start(semaphores, e, 0);
    start(feeds, e, 0);
}
