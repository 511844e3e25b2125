// SPDX-License-Identifier: MIT
#include "inject/call_write.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

// By words, each in one piece where it is on one page: so is a jump at a function's entry.
static bool poke(pid_t tid, uint64_t address, const uint8_t *bytes, size_t length)
{
    enum { LEAST_PAGE = 4096 };
    long word;
    for (size_t take = 0; length > 0; address += take, bytes += take, length -= take) {
        uint64_t at = address % LEAST_PAGE > LEAST_PAGE - sizeof word ? address & -(uint64_t)sizeof word : address;
        size_t skip = (size_t)(address - at);
        take = length < sizeof word - skip ? length : sizeof word - skip;
        errno = 0;
        word = ptrace(PTRACE_PEEKDATA, tid, at, NULL);
        if (errno != 0)
            return false;
        memcpy((uint8_t *)&word + skip, bytes, take);
        if (ptrace(PTRACE_POKEDATA, tid, at, word) != 0)
            return false;
    }
    return true;
}

bool as_call_write(const struct as_process *p, pid_t tid, uint64_t address, const void *bytes, size_t length,
                   struct as_error *err)
{
    uint64_t mask;
    AS_CLEANUP_FD int fd = openat(p->proc_fd, as_proc_name("task/%d/mem", tid).text, O_WRONLY | O_CLOEXEC);
    // An exec by another thread would have ended this one: held still, it proves that the memory which was opened is not
    // another program's, one perhaps with rights that the target has not.
    if (fd >= 0 && ptrace(PTRACE_GETSIGMASK, tid, sizeof mask, &mask) != 0)
        return as_fail(err, AS_TARGET_GONE, "thread %d of process %d ended before its memory was written", tid,
                       p->base.pid);
    if (fd >= 0 && pwrite(fd, bytes, length, (off_t)address) == (ssize_t)length)
        return true;
    // To code nobody may write that way, where the kernel was told so (proc_mem.force_override=never, since Linux 6.12).
    if (fd < 0 || errno != EIO || !poke(tid, address, bytes, length))
        return as_fail_errno(err, AS_DENIED, "the memory of process %d cannot be written", p->base.pid);
    return true;
}
