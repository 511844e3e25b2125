// SPDX-License-Identifier: MIT
#include "recorder/recorder.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

// The kernel reads the set before it refuses what is to be done with it (EINVAL). libc's own threads need this call, so that sandboxes
// allow it; one that does not has another error.
bool as_recorder_is_readable(uintptr_t address)
{
    return syscall(SYS_rt_sigprocmask, ~0L, address, NULL, sizeof(uint64_t)) != 0 && errno == EINVAL;
}
