// SPDX-License-Identifier: MIT
// As the injector and the supervisor, a process that blocks every signal and belongs to no terminal. It holds no thread of the target
// while it waits.
#include "inject/entry/entry_guard.h"
#include "target/process/clone/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_NS UINT64_C(10000000000) // briefly at which the target can be stopped
#define LONG_NS UINT64_C(60000000000)     // likewise, when nobody is there any more to try again
#define ANSWER_MS 150000                  // for all that the guard does between two answers

enum { WAIT_MS = 1000 }; // between two checks of whether the target still lives

static void send_outcome(int socket, bool ok, const struct as_error *err)
{
    struct as_error outcome = ok ? (struct as_error){0} : *err;
    outcome.code = ok ? AS_OK : outcome.code;
    while (send(socket, &outcome, sizeof outcome, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

static bool hear(int socket, const struct as_target *t, struct as_error *err)
{
    struct as_error outcome;
    struct pollfd other = {.fd = socket, .events = POLLIN};
    int ready;
    while ((ready = poll(&other, 1, ANSWER_MS)) < 0 && errno == EINTR)
        ;
    if (ready <= 0 || recv(socket, &outcome, sizeof outcome, MSG_DONTWAIT) != (ssize_t)sizeof outcome)
        return as_fail(err, AS_INTERNAL,
                       "the process that guards the entries of malloc in process %d gave no answer: was it killed? "
                       "arenadump profile %d --stop takes out what it has left",
                       t->pid, t->pid);
    return outcome.code == AS_OK || as_fail(err, outcome.code, "%s", outcome.text);
}

// True: the inspector wants an answer. False: it has ended.
static bool await_end(struct as_process *p, int socket)
{
    struct pollfd other = {.fd = socket, .events = POLLIN};
    char byte;
    while (as_process_alive(p)) {
        if (poll(&other, 1, WAIT_MS) > 0)
            return recv(socket, &byte, 1, MSG_DONTWAIT) > 0;
    }
    return false;
}

_Noreturn static void guard(struct as_process *p, uint64_t page, bool mend, int socket)
{
    struct as_error err = {0};
    as_supervisor_stand_apart(p, socket);
    bool ok = mend ? as_entries_take_out(p, page, PATIENCE_NS, &err) : as_entries_write(p, page, PATIENCE_NS, &err);
    send_outcome(socket, ok, &err);
    if (mend || !ok)
        _exit(0);
    bool asked = await_end(p, socket);
    ok = as_entries_take_out(p, page, asked ? PATIENCE_NS : LONG_NS, &err);
    send_outcome(socket, ok, &err);
    // A thread that would not stop, and has not been let go yet: the kernel does it as we end.
    _exit(0);
}

static bool start(struct as_entry_guard *g, struct as_target *t, uint64_t page, bool mend, struct as_error *err)
{
    int ends[2];
    *g = (struct as_entry_guard){.socket = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return as_fail_errno(err, AS_INTERNAL, "cannot make a socket for the guard of entries");
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        guard(as_process_of(t), page, mend, ends[1]);
    }
    int saved = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    errno = saved;
    if (pid < 0) {
        as_fail_errno(err, AS_INTERNAL, "cannot start the guard of entries");
        close(ends[0]);
        return false;
    }
    *g = (struct as_entry_guard){.pid = pid, .socket = ends[0]};
    return true;
}

// It has told all that it has to say, or nothing for long. (A target that it still holds then is let go by the kernel.)
static void reap(struct as_entry_guard *g)
{
    as_close_fd(&g->socket);
    kill(g->pid, SIGKILL);
    while (g->pid > 0 && waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    g->pid = 0;
}

bool as_entry_guard_begin(struct as_entry_guard *g, struct as_target *t, uint64_t page, struct as_error *err)
{
    if (!start(g, t, page, false, err))
        return false;
    if (hear(g->socket, t, err))
        return true;
    reap(g);
    return false;
}

bool as_entries_mend(struct as_target *t, uint64_t page, struct as_error *err)
{
    struct as_entry_guard g;
    if (!start(&g, t, page, true, err))
        return false;
    bool ok = hear(g.socket, t, err);
    reap(&g);
    return ok;
}

bool as_entry_guard_end(struct as_entry_guard *g, struct as_target *t, uint64_t page, struct as_error *err)
{
    if (g->pid == 0)
        return true;
    struct as_error why;
    bool asked = send(g->socket, "", 1, MSG_NOSIGNAL) == 1;
    bool ok = asked && hear(g->socket, t, &why);
    reap(g);
    // A guard that was killed has left them.
    return ok || as_entries_mend(t, page, err);
}
