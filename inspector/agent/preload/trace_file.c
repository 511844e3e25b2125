// SPDX-License-Identifier: MIT
// The thread of a trace. It wakes when several buffers are full, and every 100 ms for what is in the others: so much is lost at most
// when the process is killed. In a child of fork() there is no such thread, and nothing is recorded (recorder/enable.c); what the child
// executes is another program, with a record of its own.
#include "agent/log.h"
#include "agent/preload/preloaded.h"
#include "agent/thread.h"
#include "base/clock.h"
#include "recorder/recorder.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAMES = 100, PATIENCE_SECONDS = 10, WAKE_NS = 100000000, WAKES_ALONE = 20 };
enum { STARTING, WRITING, FAILED, ENDED };

static struct {
    pid_t pid, writer;
    _Atomic uint32_t state;
    _Atomic bool stop;
    int error;
    char asked[PATH_MAX];
    char path[PATH_MAX + 32];
} trace;

static void become(uint32_t state)
{
    atomic_store(&trace.state, state);
    syscall(SYS_futex, &trace.state, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

// Until the state is another one. False: PATIENCE_SECONDS are over.
static bool wait_for_change(uint32_t state)
{
    struct timespec until; // signals of the program's interrupt the wait, and must not prolong it
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_SECONDS;
    while (atomic_load(&trace.state) == state)
        if (syscall(SYS_futex, &trace.state, FUTEX_WAIT_BITSET_PRIVATE, state, &until, NULL, FUTEX_BITSET_MATCH_ANY) !=
                0 &&
            errno == ETIMEDOUT)
            return false;
    return true;
}

// Never an existing file. The program that was asked for has the name itself, programs that it starts have names with their pids.
static int create(void)
{
    int file = -1;
    for (int i = 0; i < NAMES && (i == 0 || (file < 0 && errno == EEXIST)); i++) {
        if (i == 0)
            snprintf(trace.path, sizeof trace.path, "%s", trace.asked);
        else if (i == 1)
            snprintf(trace.path, sizeof trace.path, "%s.%d", trace.asked, (int)trace.pid);
        else
            snprintf(trace.path, sizeof trace.path, "%s.%d.%d", trace.asked, (int)trace.pid, i);
        file = open(trace.path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    return file;
}

// False: the file takes no more.
static bool write_until_the_end(int proc)
{
    uint64_t next = as_clock_ns(CLOCK_MONOTONIC) + WAKE_NS;
    for (uint64_t wakes = 0;;) {
        bool stop = atomic_load(&trace.stop);
        bool wake = stop || as_clock_ns(CLOCK_MONOTONIC) >= next;
        if (!as_recorder_drain(wake))
            return false;
        if (stop)
            return true;
        if (wake) {
            next = as_clock_ns(CLOCK_MONOTONIC) + WAKE_NS;
            wakes++;
            if (wakes % WAKES_ALONE == 0 && as_agent_is_alone(proc))
                atomic_store(&trace.stop, true);
        }
        as_recorder_buffers_wait(WAKE_NS);
    }
}

static const char *reason(int error)
{
    return error == ENOSPC ? "no room is left: a twentieth of its file system stays free" : strerror(error);
}

static void *fail(int error)
{
    trace.error = error;
    become(FAILED);
    return NULL;
}

static void *run(void)
{
    int file = as_agent_leave_descriptors() ? create() : -1;
    if (file < 0)
        return fail(errno);
    if (!as_recorder_drain_begin(file)) {
        int error = errno;
        unlink(trace.path); // it says nothing
        close(file);
        return fail(error);
    }
    trace.writer = (pid_t)syscall(SYS_gettid);
    as_agent_thread_name("arenascope-rec");
    int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    become(WRITING);
    as_log("the trace is %s", trace.path);
    bool whole = write_until_the_end(proc);
    int error = errno;
    atomic_store(&as_recorder.profiling, false);
    if (!whole)
        as_log("the trace %s ends here: %s", trace.path, reason(error));
    as_recorder_drain_end();
    close(file);
    become(ENDED);
    return NULL;
}

// A child may have the process's number in a namespace of its own, but it has no thread that writes.
static bool has_writer(void)
{
    return trace.pid == (pid_t)syscall(SYS_getpid) && atomic_load(&trace.state) == WRITING &&
           syscall(SYS_tgkill, trace.pid, trace.writer, 0) == 0;
}

// After all of the program's own handlers (exit_snapshot.c).
static void at_exit(void)
{
    if (!has_writer())
        return;
    atomic_store(&as_recorder.profiling, false);
    atomic_store(&trace.stop, true);
    as_recorder_buffers_wake();
    wait_for_change(WRITING);
}

bool as_agent_trace_start(struct as_error *err)
{
    const char *asked = secure_getenv("ARENASCOPE_PROFILE_TRACE");
    if (!asked || strlen(asked) >= sizeof trace.asked)
        return as_fail(err, AS_IO, "the file's name is too long");
    memcpy(trace.asked, asked, strlen(asked) + 1);
    trace.pid = (pid_t)syscall(SYS_getpid);
    int failed = as_agent_thread_start(run);
    bool answers = failed == 0 && wait_for_change(STARTING);
    if (answers && atomic_load(&trace.state) == WRITING)
        return atexit(at_exit) == 0;
    if (failed == 0 && !answers)
        atomic_store(&trace.stop, true);
    return as_fail(err, AS_IO, "%.150s: %s", trace.path,
                   failed    ? strerror(failed)
                   : answers ? reason(trace.error)
                             : "the thread that writes does not answer");
}
