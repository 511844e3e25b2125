// SPDX-License-Identifier: MIT
#include "agent/log.h"
#include "agent/thread.h"
#include "target/procfs.h"

#include <fcntl.h>
#include <sched.h>

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

bool as_agent_leave_descriptors(void)
{
    enum { CLOSE_RANGE = 436, UNSHARE = 2 };
    bool keep = as_log_has_stderr();
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
