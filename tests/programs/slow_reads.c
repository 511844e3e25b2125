// SPDX-License-Identifier: MIT
// Preloaded into arenadump: the first read of its target's memory after each supervisor that it has started, when the target has
// been caught, takes $SLOW_READS milliseconds. So any machine is too slow for a limit that is lower. If $SLOW_READS_FILE
// is set, it makes this file first, and goes on as soon as it is gone; if $SLOW_READS_TRACED is, as soon as nobody traces that
// process: who waits for the end of a pause cannot be faster than a limit of it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static atomic_bool armed;

static int is_traced(const char *pid)
{
    char line[256];
    int traced = 0;
    snprintf(line, sizeof line, "/proc/%s/status", pid);
    FILE *status = fopen(line, "re");
    while (status && fgets(line, sizeof line, status))
        traced |= strncmp(line, "TracerPid:\t", 11) == 0 && line[11] != '0';
    if (status)
        fclose(status);
    return traced;
}

static void dawdle(void)
{
    const char *ms = getenv("SLOW_READS");
    if (!ms || !atomic_exchange(&armed, 0))
        return;
    const char *file = getenv("SLOW_READS_FILE");
    if (file)
        close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    const char *traced = getenv("SLOW_READS_TRACED");
    const struct timespec rest = {.tv_nsec = 1000000};
    for (long left = strtol(ms, NULL, 10);
         left > 0 && (!file || access(file, F_OK) == 0) && (!traced || is_traced(traced)); left--)
        nanosleep(&rest, NULL);
}

pid_t fork(void)
{
    pid_t (*next)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
    pid_t pid = next();
    armed = pid > 0; // the supervisor itself is never slow
    return pid;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count, const struct iovec *remote,
                         unsigned long remote_count, unsigned long flags)
{
    dawdle();
    return syscall(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);
}

ssize_t pread64(int fd, void *buffer, size_t length, off64_t offset)
{
    char name[64];
    char path[256];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t got = readlink(name, path, sizeof path - 1);
    if (got > 4 && memcmp(path + got - 4, "/mem", 4) == 0)
        dawdle();
    return syscall(SYS_pread64, fd, buffer, length, offset);
}
