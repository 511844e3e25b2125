// SPDX-License-Identifier: MIT
// The keeper: the one thread that does the agent's work, one thing after another, so that little has to be locked. It waits in
// poll(), for the signal, for the door, and for the policy's time. It never calls malloc: an arena would be made for it.
//
// It is woken by a signal of its own, AS_KEEPER_SIGNAL, sent to it in particular: blocked here, it stays pending, and a
// signalfd in the keeper's table shows it. That serves the agent better than an eventfd, which would have to lie in the
// application's table: a program that closes all descriptors that it does not know would close it, and might get the number
// again for a file of its own.
//
// It has a table of descriptors of its own. Nothing that the application does with its table touches ours, its children inherit
// nothing, and none of its sockets stays open because of us. It has its own working directory and root, too: those of the
// moment at which it was started.
#include "agent/agent.h"
#include "agent/door.h"
#include "agent/log.h"
#include "agent/look.h"
#include "agent/name.h"
#include "agent/policy.h"
#include "agent/protocol.h"
#include "target/procfs.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

enum { ALONE_MS = 2000 };

// Before Linux 5.11 (close_range's CLOSE_RANGE_UNSHARE): the table is copied, and every descriptor of the copy closed.
static bool close_one_by_one(unsigned first)
{
    if (unshare(CLONE_FILES) != 0)
        return false;
    int dir = open("/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct entry {
        uint64_t inode, offset;
        uint16_t length;
        uint8_t type;
        char name[];
    };
    _Alignas(struct entry) char buffer[4096];
    long got;
    while (dir >= 0 && (got = syscall(SYS_getdents64, dir, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < got;) {
            const struct entry *entry = (const struct entry *)(buffer + at);
            const char *name = entry->name;
            uint64_t fd = as_parse_decimal(&name, name + strlen(name));
            if (name != entry->name && fd >= first && fd != (uint64_t)dir)
                close((int)fd);
            at += entry->length;
        }
    if (dir < 0)
        return false;
    close(dir);
    return true;
}

// The thread's first deed: until then it shares the application's table. Only the log's stderr is kept.
static bool part_from_application(void)
{
    enum { CLOSE_RANGE = 436, UNSHARE = 2 };
    bool keep = as_log_wants_stderr();
    if (syscall(CLOSE_RANGE, keep ? 3 : 0, ~0U, UNSHARE) != 0) {
        if (!close_one_by_one(keep ? 3 : 0))
            return false;
    }
    if (keep) {
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
    }
    unshare(CLONE_FS);
    return true;
}

// A process whose main thread has called pthread_exit() ends with its last thread. That must not be us.
static bool is_alone(int proc)
{
    struct as_proc_stat stat;
    return as_proc_stat(proc, "stat", &stat) && as_proc_is_dead(stat.state) && stat.threads <= 2;
}

static void dump_if_wanted(void)
{
    uint32_t wanted = __atomic_load_n(&as_agent.wanted, __ATOMIC_SEQ_CST);
    if (wanted == as_agent.served)
        return;
    as_agent.served = wanted; // signals that come while we write ask for one more
    char path[PATH_MAX];
    as_agent_lock();
    bool fits = as_name_expand(as_agent.pattern, ++as_agent.dumps, path, sizeof path);
    unsigned flags = as_agent.flags;
    as_agent_unlock();
    struct as_error err = {0};
    uint64_t before = as_now_ns();
    if (!fits)
        as_log("no dump: its name would be longer than %d bytes", PATH_MAX);
    else if (as_own_dump(path, -1, flags & ARENASCOPE_CHUNKS, &err))
        as_log("wrote %s in %llu ms", path, (unsigned long long)((as_now_ns() - before) / 1000000));
    else
        as_log("no dump: %s", err.text);
}

static int earlier(int a, int b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

void *as_keeper_run(void *unused)
{
    if (!part_from_application()) {
        // In the application's table our descriptors could become the application's, and the other way round.
        as_log("the agent's thread ends: the kernel or a sandbox refuses it a descriptor table of its own");
        __atomic_store_n(&as_agent.thread, AS_THREAD_NONE, __ATOMIC_RELEASE);
        return unused;
    }
    prctl(PR_SET_NAME, AS_AGENT_THREAD);
    int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const uint64_t mask = UINT64_C(1) << (AS_KEEPER_SIGNAL - 1);
    int bell = (int)syscall(SYS_signalfd4, -1, &mask, sizeof mask, SFD_CLOEXEC | SFD_NONBLOCK);
    struct as_door door;
    struct as_policy policy;
    as_door_open(&door);
    as_policy_open(&policy);
    __atomic_store_n(&as_agent.keeper, (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    __atomic_store_n(&as_agent.thread, AS_THREAD_RUNNING, __ATOMIC_RELEASE);
    as_log("ready");
    while (!as_agent.standby) {
        dump_if_wanted();
        int wait = as_policy_look(&policy);
        struct pollfd fds[1 + AS_DOOR_FDS] = {{.fd = bell, .events = POLLIN}};
        size_t count = 1 + as_door_poll(&door, fds + 1);
        as_thread_rest();
        int ready = poll(fds, count, earlier(wait, ALONE_MS));
        if (ready == 0 && is_alone(proc))
            break;
        struct signalfd_siginfo info;
        while (fds[0].revents && read(bell, &info, sizeof info) == sizeof info)
            continue;
        if (ready > 0)
            as_door_serve(&door, fds + 1);
    }
    as_log("the agent's thread ends");
    as_agent.standby = false;
    __atomic_store_n(&as_agent.keeper, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&as_agent.thread, AS_THREAD_NONE, __ATOMIC_RELEASE);
    return unused; // our table of descriptors is closed with us
}
