// SPDX-License-Identifier: MIT
// Threads that wait with a time limit in those system calls that the kernel does not restart after a stop: they may fail
// with EINTR (counted), and with nothing else, and never too early.
#define _GNU_SOURCE
#include "selfcheck.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const struct timespec limit = {.tv_nsec = WAIT_MS * 1000000};

static void *epolls(void *unused)
{
    int epoll = epoll_create1(0);
    struct epoll_event event;
    (void)unused;
    while (!stopping) {
        uint64_t began = now_ns();
        judge("epoll_wait with a time limit", epoll_wait(epoll, &event, 1, WAIT_MS) == 0, began);
    }
    return NULL;
}

static void *semaphores(void *unused)
{
    int set = semget(IPC_PRIVATE, 1, 0600);
    (void)unused;
    while (!stopping && set >= 0) {
        uint64_t began = now_ns();
        int got = semtimedop(set, &(struct sembuf){.sem_op = -1}, 1, &limit);
        judge("semtimedop", got == -1 && errno == EAGAIN, began);
    }
    semctl(set, 0, IPC_RMID);
    return NULL;
}

static void *signals(void *unused)
{
    sigset_t set;
    (void)unused;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2); // which nobody sends
    while (!stopping) {
        uint64_t began = now_ns();
        judge("sigtimedwait", sigtimedwait(&set, NULL, &limit) == -1 && errno == EAGAIN, began);
    }
    return NULL;
}

static void *events(void *unused)
{
    aio_context_t context = 0;
    struct io_event event;
    (void)unused;
    if (syscall(SYS_io_setup, 1, &context) != 0)
        return NULL; // this kernel has none, or its limit is reached
    while (!stopping) {
        struct timespec time = limit;
        uint64_t began = now_ns();
        judge("io_getevents", syscall(SYS_io_getevents, context, 1, 1, &event, &time) == 0, began);
    }
    syscall(SYS_io_destroy, context);
    return NULL;
}

static void *receives(void *unused)
{
    int pair[2];
    char byte;
    struct timeval time = {.tv_usec = WAIT_MS * 1000};
    (void)unused;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        abort();
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    while (!stopping) {
        uint64_t began = now_ns();
        ssize_t got = recv(pair[0], &byte, 1, 0);
        judge_by_ticks("recv with SO_RCVTIMEO", got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK), began);
    }
    return NULL;
}

static void *accepts(void *unused)
{
    int door = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval time = {.tv_usec = WAIT_MS * 1000};
    (void)unused;
    setsockopt(door, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    if (bind(door, (struct sockaddr *)&any, sizeof any) != 0 || listen(door, 1) != 0)
        return NULL; // no network here
    while (!stopping) {
        uint64_t began = now_ns();
        int got = accept(door, NULL, NULL);
        judge_by_ticks("accept with SO_RCVTIMEO", got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK), began);
    }
    return NULL;
}

void limits_start(void)
{
    start(epolls, NULL, 0);
    start(semaphores, NULL, 0);
    start(signals, NULL, 0);
    start(events, NULL, 0);
    start(receives, NULL, 0);
    start(accepts, NULL, 0);
}
