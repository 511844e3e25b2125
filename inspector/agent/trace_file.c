// SPDX-License-Identifier: MIT
// The thread of a full record. It wakes when several buffers are full, and every 100 ms for what is in the others: so much is lost at most
// when the process is killed. In a child of fork() there is no such thread, and nothing is recorded (profile/enable.c); what the child
// executes is another program, with a record of its own.
#include "agent/trace_file.h"
#include "agent/descriptors.h"
#include "agent/last_thread.h"
#include "agent/log.h"
#include "agent/thread.h"
#include "profile/recorder.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NAMES = 100, PATIENCE_SECONDS = 10, TURN_MS = 100, TURNS_ALONE = 20 };
enum { STARTING, WRITING, FAILED, ENDED };

static struct {
    pid_t pid, writer;
    _Atomic uint32_t state;
    _Atomic bool stop;
    int error;
    char asked[PATH_MAX];
    char path[PATH_MAX + 32];
} record;

static void become(uint32_t state)
{
    atomic_store(&record.state, state);
    syscall(SYS_futex, &record.state, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

// Until the state is another one. False: PATIENCE_SECONDS are over.
static bool wait_for_change(uint32_t state)
{
    struct timespec until; // signals of the program's interrupt the wait, and must not prolong it
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_SECONDS;
    while (atomic_load(&record.state) == state)
        if (syscall(SYS_futex, &record.state, FUTEX_WAIT_BITSET_PRIVATE, state, &until, NULL, FUTEX_BITSET_MATCH_ANY) !=
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
            snprintf(record.path, sizeof record.path, "%s", record.asked);
        else if (i == 1)
            snprintf(record.path, sizeof record.path, "%s.%d", record.asked, (int)record.pid);
        else
            snprintf(record.path, sizeof record.path, "%s.%d.%d", record.asked, (int)record.pid, i);
        file = open(record.path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    return file;
}

static uint64_t milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

// False: the file takes no more.
static bool write_until_the_end(int proc)
{
    uint64_t next = milliseconds() + TURN_MS;
    for (uint64_t turns = 0;;) {
        bool stop = atomic_load(&record.stop);
        bool turn = stop || milliseconds() >= next;
        if (!as_recorder_drain(turn))
            return false;
        if (stop)
            return true;
        if (turn) {
            next = milliseconds() + TURN_MS;
            turns++;
            if (turns % TURNS_ALONE == 0 && as_agent_is_alone(proc))
                atomic_store(&record.stop, true);
        }
        as_recorder_buffers_wait((uint64_t)TURN_MS * 1000000);
    }
}

static const char *reason(int error)
{
    return error == ENOSPC ? "no room is left: a twentieth of its file system stays free" : strerror(error);
}

static void *fail(int error)
{
    record.error = error;
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
        unlink(record.path); // it says nothing
        close(file);
        return fail(error);
    }
    record.writer = (pid_t)syscall(SYS_gettid);
    as_agent_thread_name("arenascope-rec");
    int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    become(WRITING);
    as_log("the record is %s", record.path);
    bool whole = write_until_the_end(proc);
    int error = errno;
    atomic_store(&as_recorder.recording, false);
    if (!whole)
        as_log("the record %s ends here: %s", record.path, reason(error));
    as_recorder_drain_end();
    close(file);
    become(ENDED);
    return NULL;
}

// A child may have the process's number in a namespace of its own, but it has no thread that writes.
static bool has_writer(void)
{
    return record.pid == (pid_t)syscall(SYS_getpid) && atomic_load(&record.state) == WRITING &&
           syscall(SYS_tgkill, record.pid, record.writer, 0) == 0;
}

// After all of the program's own handlers (exit_look.c).
static void at_exit(void)
{
    if (!has_writer())
        return;
    atomic_store(&as_recorder.recording, false);
    atomic_store(&record.stop, true);
    as_recorder_buffers_wake();
    wait_for_change(WRITING);
}

bool as_agent_full_record_start(struct as_error *err)
{
    const char *asked = secure_getenv("ARENASCOPE_PROFILE_RECORD");
    if (!asked || strlen(asked) >= sizeof record.asked)
        return as_fail(err, AS_IO, "the file's name is too long");
    memcpy(record.asked, asked, strlen(asked) + 1);
    record.pid = (pid_t)syscall(SYS_getpid);
    int failed = as_agent_thread_start(run);
    bool answers = failed == 0 && wait_for_change(STARTING);
    if (answers && atomic_load(&record.state) == WRITING)
        return atexit(at_exit) == 0;
    if (failed == 0 && !answers)
        atomic_store(&record.stop, true);
    return as_fail(err, AS_IO, "%.150s: %s", record.path,
                   failed    ? strerror(failed)
                   : answers ? reason(record.error)
                             : "the thread that writes does not answer");
}
