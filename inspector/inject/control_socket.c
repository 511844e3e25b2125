// SPDX-License-Identifier: MIT
// The kernel chose the name of the control socket. The agent's worker thread, which has a descriptor table of its own, has the
// listening socket open; /proc/PID/net/unix has the name for the socket's inode.
#include "control/protocol.h"
#include "inject/client.h"
#include "target/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

// An agent has one thread of its name, and few descriptors; a target may have any number of both.
enum { MOST_THREADS = 64, MOST_FDS = 256, MOST_SOCKETS = 1024 };
enum { LISTENING = 0x10000 }; // __SO_ACCEPTCON, as the kernel prints it

typedef AS_VEC(uint64_t) as_inode_vec;

// The sockets that thread `tid` has open. False: we may not know.
static bool list_sockets(int task, pid_t tid, as_inode_vec *inodes)
{
    for (int fd = 0; fd < MOST_FDS && inodes->count < MOST_SOCKETS; ++fd) {
        char name[48];
        char link[64];
        snprintf(name, sizeof name, "%d/fd/%d", tid, fd);
        ssize_t length = readlinkat(task, name, link, sizeof link - 1);
        if (length < 0 && errno != ENOENT)
            return false;
        if (length < 0)
            continue;
        link[length] = '\0';
        uint64_t *inode = strncmp(link, "socket:[", 8) == 0 ? as_vec_add(inodes, NULL) : NULL;
        if (inode)
            *inode = strtoull(link + 8, NULL, 10);
    }
    return true;
}

static bool holds(const as_inode_vec *inodes, uint64_t inode)
{
    for (size_t i = 0; i < inodes->count; ++i) {
        if (inodes->items[i] == inode)
            return true;
    }
    return false;
}

// The field of that number, counted from 0, in a line of words; NULL: there are not so many.
static const char *field(const char *line, const char *end, unsigned number)
{
    for (;; --number) {
        while (line < end && *line == ' ')
            ++line;
        if (line == end || number == 0)
            return line == end ? NULL : line;
        while (line < end && *line != ' ')
            ++line;
    }
}

// One line of net/unix: "Num: RefCount Protocol Flags Type St Inode Path". True: it is the control socket.
static bool is_control_socket(const char *line, size_t length, const as_inode_vec *inodes, struct sockaddr_un *address,
                              socklen_t *size)
{
    const char *end = line + length;
    const char *flags = field(line, end, 3);
    const char *type = field(line, end, 4);
    const char *inode = field(line, end, 6);
    const char *path = field(line, end, 7);
    if (!path || *path != '@' || !(as_parse_hex(&flags, end) & LISTENING) ||
        as_parse_hex(&type, end) != SOCK_SEQPACKET || !holds(inodes, as_parse_decimal(&inode, end)))
        return false;
    size_t name = (size_t)(end - path);
    if (name > sizeof address->sun_path)
        return false;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path + 1, path + 1, name - 1);
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name);
    return true;
}

// Through thread `tid`: a process whose first thread has ended has no namespaces in /proc/PID.
static bool find_by_inode(int task, pid_t tid, const as_inode_vec *inodes, struct sockaddr_un *address,
                          socklen_t *length)
{
    struct as_lines lines;
    bool found = false;
    if (inodes->count == 0 || !as_lines_open(&lines, task, as_proc_name("%d/net/unix", tid).text))
        return false;
    size_t size;
    for (const char *line; !found && (line = as_lines_next(&lines, &size));)
        found = is_control_socket(line, size, inodes, address, length);
    as_lines_close(&lines);
    return found;
}

bool as_control_socket_find(pid_t pid, struct sockaddr_un *address, socklen_t *length, bool *absent,
                            struct as_error *err)
{
    bool seen = true;
    as_pid_vec tids = {0};
    as_inode_vec inodes = {0};
    *absent = false;
    AS_CLEANUP_FD int process = open(as_proc_name("/proc/%d", pid).text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AS_CLEANUP_FD int task = process < 0 ? -1 : openat(process, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (task < 0 || !as_proc_threads(process, &tids))
        return as_fail(err, AS_TARGET_GONE, "process %d has ended", pid);
    unsigned named = 0;
    pid_t agent = 0;
    for (size_t i = 0; i < tids.count && named < MOST_THREADS; ++i) {
        char comm[32] = "";
        if (as_proc_read(task, as_proc_name("%d/comm", tids.items[i]).text, comm, sizeof comm) > 0 &&
            strcmp(comm, AS_AGENT_THREAD "\n") == 0) {
            named++;
            agent = tids.items[i];
            seen = list_sockets(task, tids.items[i], &inodes) && seen;
        }
    }
    bool found = find_by_inode(task, agent, &inodes, address, length);
    as_vec_free(&tids);
    as_vec_free(&inodes);
    if (found)
        return true;
    if (!seen)
        return as_fail(err, AS_DENIED,
                       "process %d has a thread called " AS_AGENT_THREAD ", but we may not see its files: run as the "
                       "process's user, or as root",
                       pid);
    *absent = true;
    return as_fail(err, AS_NO_TARGET, "process %d has no agent that answers", pid);
}

// The network of a process, as the first of its threads that lives has it. -1: we may not know it.
static int open_network(pid_t pid)
{
    as_pid_vec tids = {0};
    int network = -1;
    AS_CLEANUP_FD int process = open(as_proc_name("/proc/%d", pid).text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool listed = process >= 0 && as_proc_threads(process, &tids);
    for (size_t i = 0; listed && network < 0 && i < tids.count; i++) {
        network = openat(process, as_proc_name("task/%d/ns/net", tids.items[i]).text, O_RDONLY | O_CLOEXEC);
        if (network < 0 && errno != ENOENT && errno != ESRCH)
            break;
    }
    as_vec_free(&tids);
    return network;
}

int as_control_socket_make(pid_t pid, struct as_error *err)
{
    struct stat here;
    struct stat there;
    AS_CLEANUP_FD int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    AS_CLEANUP_FD int other = open_network(pid);
    bool same = own < 0 || other < 0 || fstat(own, &here) != 0 || fstat(other, &there) != 0 ||
                (here.st_ino == there.st_ino && here.st_dev == there.st_dev);
    if (!same && setns(other, CLONE_NEWNET) != 0) {
        as_fail_errno(err, AS_DENIED, "process %d is in another network namespace, which arenadump may not enter", pid);
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        as_fail_errno(err, AS_INTERNAL, "cannot make a socket for the agent");
    // The socket stays where it was made.
    if (!same && setns(own, CLONE_NEWNET) != 0) {
        as_fail_errno(err, AS_INTERNAL, "cannot return from the network namespace of process %d", pid);
        as_close_fd(&fd);
    }
    return fd;
}
