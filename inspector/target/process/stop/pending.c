// SPDX-License-Identifier: MIT
#include "target/process/stop/pending.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Masks of signals.
struct pending {
    uint64_t own, shared; // that wait: for this thread, for any thread of the process
    uint64_t blocked;
};

static void take_field(const char *line, size_t length, const char *key, uint64_t *out)
{
    size_t key_length = strlen(key);
    const char *at = line + key_length;
    if (length > key_length && memcmp(line, key, key_length) == 0)
        *out = as_parse_hex(&at, line + length);
}

// From the thread's `status`: PTRACE_PEEKSIGINFO lists what is queued, and a signal for which the kernel had no memory is
// pending without that. The line of groups in that file may be long.
static bool read_pending(const struct as_process *p, pid_t tid, struct pending *out)
{
    struct as_lines lines;
    *out = (struct pending){AS_UNKNOWN, AS_UNKNOWN, AS_UNKNOWN};
    if (!as_lines_open(&lines, p->proc_fd, as_proc_name("task/%d/status", tid).text))
        return false;
    size_t length;
    for (const char *line; (line = as_lines_next(&lines, &length));) {
        take_field(line, length, "SigPnd:\t", &out->own);
        take_field(line, length, "ShdPnd:\t", &out->shared);
        take_field(line, length, "SigBlk:\t", &out->blocked);
    }
    as_lines_close(&lines);
    return out->own != AS_UNKNOWN && out->shared != AS_UNKNOWN && out->blocked != AS_UNKNOWN;
}

uint64_t as_faults(void)
{
    return as_signal_bit(SIGSEGV) | as_signal_bit(SIGBUS) | as_signal_bit(SIGILL) | as_signal_bit(SIGFPE) |
           as_signal_bit(SIGTRAP) | as_signal_bit(SIGSYS);
}

// One that the thread blocks was sent by a process: the kernel opens the mask for its own.
bool as_has_fault_pending(const struct as_process *p, pid_t tid)
{
    struct pending pending;
    return !read_pending(p, tid, &pending) || ((pending.own | pending.shared) & ~pending.blocked & as_faults()) != 0;
}

// A SIGCONT that came later is still pending, as the thread blocked everything; had it come before, the SIGSTOP would have
// removed it. The two together leave the process running.
void as_give_back_stop(const struct as_process *p, pid_t tid, int signal)
{
    struct pending pending;
    if (signal == 0)
        return;
    if (read_pending(p, tid, &pending) && ((pending.own | pending.shared) & as_signal_bit(SIGCONT)) != 0)
        return;
    syscall(SYS_tgkill, p->base.pid, tid, signal);
}
