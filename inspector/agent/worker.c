// SPDX-License-Identifier: MIT
// The worker thread does all of the agent's work, one request after another, so that little has to be locked. It waits in poll(),
// for its wake descriptor, for the control socket, and for the policy's time. It never calls malloc, which would make an arena
// for it.
//
// The wake descriptor is a signalfd of WAKE_SIGNAL. The signal is sent to the worker thread, where it is blocked, so that it stays
// pending until the descriptor is read. An eventfd would have to lie in the application's descriptor table: a program that
// closes all descriptors that it does not know would close it, and might get its number again for a file of its own.
//
// The worker thread has a descriptor table of its own. Nothing that the application does with its table touches the agent's
// descriptors, the application's children inherit none of them, and none of the application's sockets stays open because of the
// agent. The worker thread has its own working directory and root, too: those of the time at which it was started.
#include "agent/worker.h"
#include "agent/agent.h"
#include "agent/control.h"
#include "agent/log.h"
#include "agent/own_snapshot.h"
#include "agent/policy.h"
#include "agent/thread.h"
#include "control/protocol.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

enum {
    // SIGSTKFLT: no kernel has ever sent it, and no program waits for it. The signal that asks for dumps would not do: a signalfd
    // of it would also take it from a program that blocks it in all of its threads, and waits for it.
    WAKE_SIGNAL = 16,
    ALONE_MS = 2000, // between two checks whether the agent's threads are alone
};

static int earlier(int a, int b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

static const uint64_t wake_mask = UINT64_C(1) << (WAKE_SIGNAL - 1);

// As poll(). A program may lower RLIMIT_NOFILE below the number of our descriptors, which are more than poll() takes then: the signal
// that wakes us is waited for without them.
static int wait_for(struct pollfd *fds, size_t count, int ms)
{
    int ready = poll(fds, count, ms);
    if (ready >= 0 || errno == EINTR)
        return ready;
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    return syscall(SYS_rt_sigtimedwait, &wake_mask, NULL, &time, sizeof wake_mask) == WAKE_SIGNAL ? -1 : 0;
}

static void *run_worker(void)
{
    if (!as_agent_leave_descriptors()) {
        // In a shared table the agent could use a descriptor of the application's by its number, and the other way round.
        as_log("the agent's thread ends: the kernel or a sandbox refuses it a descriptor table of its own");
        __atomic_store_n(&as_agent.worker, AS_AGENT_WORKER_NONE, __ATOMIC_RELEASE);
        return NULL;
    }
    as_agent_thread_name(AS_AGENT_THREAD);
    int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int wake_fd = (int)syscall(SYS_signalfd4, -1, &wake_mask, sizeof wake_mask, SFD_CLOEXEC | SFD_NONBLOCK);
    struct as_control_server server;
    struct as_policy policy;
    as_control_server_open(&server);
    as_policy_init(&policy);
    __atomic_store_n(&as_agent.worker_tid, (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    __atomic_store_n(&as_agent.worker, AS_AGENT_WORKER_RUNNING, __ATOMIC_RELEASE);
    as_log("ready");
    for (;;) {
        as_agent_dump_requested();
        int wait = as_policy_run(&policy);
        if (as_agent.dump_at)
            wait = earlier(wait, as_agent.dump_at());
        struct pollfd fds[1 + AS_CONTROL_FDS] = {{.fd = wake_fd, .events = POLLIN}};
        size_t count = 1 + as_control_server_poll(&server, fds + 1);
        as_agent_thread_release_stack();
        int ready = wait_for(fds, count, earlier(wait, ALONE_MS));
        if (ready == 0 && as_agent_is_alone(proc))
            break;
        struct signalfd_siginfo info;
        while (fds[0].revents && read(wake_fd, &info, sizeof info) == sizeof info)
            continue;
        if (ready > 0)
            as_control_server_handle(&server, fds + 1, count - 1);
    }
    as_log("the agent's thread ends");
    __atomic_store_n(&as_agent.worker_tid, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&as_agent.worker, AS_AGENT_WORKER_NONE, __ATOMIC_RELEASE);
    return NULL; // the descriptor table goes with the thread
}

int as_agent_worker_start(void)
{
    uint32_t none = AS_AGENT_WORKER_NONE;
    if (!__atomic_compare_exchange_n(&as_agent.worker, &none, AS_AGENT_WORKER_STARTING, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return 0;
    int failed = as_agent_thread_start(run_worker); // which sets the state itself from then on
    if (failed)
        __atomic_store_n(&as_agent.worker, AS_AGENT_WORKER_NONE, __ATOMIC_RELEASE);
    return failed;
}

void as_agent_worker_wake(void)
{
    pid_t tid = __atomic_load_n(&as_agent.worker_tid, __ATOMIC_SEQ_CST);
    if (tid != 0)
        syscall(SYS_tgkill, as_agent.pid, tid, WAKE_SIGNAL);
}

void as_agent_worker_forget(void)
{
    as_agent.worker = AS_AGENT_WORKER_NONE;
    as_agent.worker_tid = 0;
}
