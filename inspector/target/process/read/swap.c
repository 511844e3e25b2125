// SPDX-License-Identifier: MIT
// Moving pages of a live process to swap: those that reading brought back from there. It needs CAP_SYS_NICE and Linux 5.10;
// without either, the pages stay in memory, and the caller can tell (as_target_brought_back). To have a window's
// pages fetched in one go before it is read (MADV_WILLNEED) gained nothing over the kernel's own readahead.
#include "target/process/read/live_process.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

// The kernel's numbers, the same on every architecture, which older headers lack.
enum {
    PIDFD_OPEN = 434,
    PROCESS_MADVISE = 440,
    PIDFD_OF_THREAD = O_EXCL, // Linux 6.9
    ADVICE_PAGEOUT = 21,
    BATCH = 256,
};

void as_process_page_out(struct as_target *t, const struct as_range *ranges, size_t count)
{
    const struct as_process *p = as_process_of(t);
    AS_CLEANUP_FD int fd = (int)syscall(PIDFD_OPEN, p->view_tid, 0);
    if (fd < 0)
        fd = (int)syscall(PIDFD_OPEN, p->view_tid, PIDFD_OF_THREAD);
    // A process that lives has not given its pid to another.
    if (fd < 0 || !as_process_alive(p))
        return;
    for (size_t i = 0; i < count;) {
        struct iovec pages[BATCH];
        size_t batch = count - i < BATCH ? count - i : BATCH;
        for (size_t k = 0; k < batch; ++k)
            pages[k] = (struct iovec){(void *)(uintptr_t)ranges[i + k].start, ranges[i + k].end - ranges[i + k].start};
        if (!as_process_read_begin(p))
            return;
        ssize_t done = (ssize_t)syscall(PROCESS_MADVISE, fd, pages, batch, ADVICE_PAGEOUT, 0);
        as_process_read_end(p);
        if (done < 0 && errno != EINVAL && errno != ENOMEM)
            return;
        // It ends at the first range that cannot be moved (a locked one, say): that one is left out.
        uint64_t moved = done < 0 ? 0 : (uint64_t)done;
        size_t k = 0;
        for (; k < batch && moved >= pages[k].iov_len; ++k)
            moved -= pages[k].iov_len;
        i += k < batch ? k + 1 : k;
    }
}
