// SPDX-License-Identifier: MIT
#include "agent/log.h"
#include "agent/agent.h"
#include "agent/signal_mask.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

// An absolute copy: programs change their directory, and write their title over their environment.
static char path[PATH_MAX] AS_AGENT_RARE; // if is_on
static bool is_on, to_stderr;
static dev_t stderr_device; // what stderr was, if to_stderr
static ino_t stderr_inode;

void as_log_set(const char *where)
{
    is_on = false;
    to_stderr = where && (strcmp(where, "1") == 0 || strcmp(where, "stderr") == 0);
    if (!where || !*where || strcmp(where, "0") == 0)
        return;
    struct stat st = {0};
    if (to_stderr && fstat(STDERR_FILENO, &st) != 0)
        return;
    stderr_device = st.st_dev;
    stderr_inode = st.st_ino;
    char here[PATH_MAX] = "";
    if (!to_stderr && where[0] != '/' && syscall(SYS_getcwd, here, sizeof here) < 0)
        return;
    int length = snprintf(path, sizeof path, "%s%s%s", here, here[0] ? "/" : "", where);
    is_on = length >= 0 && (size_t)length < sizeof path;
}

bool as_log_has_stderr(void)
{
    struct stat st;
    return is_on && to_stderr && fstat(STDERR_FILENO, &st) == 0 && st.st_dev == stderr_device &&
           st.st_ino == stderr_inode;
}

// False: others may have put the file there, or may read what is added to it by another name. A FIFO waits for its reader.
static bool may_append(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return false;
    if (S_ISCHR(st.st_mode)) // a terminal, /dev/null
        return true;
    return S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0 && st.st_nlink == 1;
}

// A line is one write, so that lines of several processes do not mix. The file is opened for each line: nothing stays open. These
// are bare system calls, because libc's functions are cancellation points, and this may be a handler that interrupted a thread
// which is to be cancelled.
void as_log(const char *format, ...)
{
    if (!is_on || (to_stderr && !as_log_has_stderr()))
        return;
    char line[1200];
    int length = snprintf(line, sizeof line, "arenascope[%d]: ", (int)getpid());
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + length, sizeof line - (size_t)length - 1, format, args);
    va_end(args);
    length += more < 0 ? 0 : more;
    if ((size_t)length > sizeof line - 2)
        length = (int)sizeof line - 2;
    line[length++] = '\n';
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = to_stderr ? STDERR_FILENO : (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
    if (fd < 0)
        return;
    struct as_signal_mask mask;
    as_signal_mask_block(&mask);
    if (to_stderr || may_append(fd))
        syscall(SYS_write, fd, line, (size_t)length);
    as_signal_mask_restore(&mask);
    if (!to_stderr)
        syscall(SYS_close, fd);
}
