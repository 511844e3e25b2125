// SPDX-License-Identifier: MIT
#include "target/paths.h"
#include "target/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef SYS_openat2 // headers before Linux 5.6; one number on every architecture
#define SYS_openat2 437
#endif

enum { MOST_LINKS = 40, MOST_DEPTH = 128, MOST_TRIES = 100 };

// linux/openat2.h, which older headers lack.
struct how {
    uint64_t flags, mode, resolve;
};
enum { NO_MAGICLINKS = 0x02, IN_ROOT = 0x10 };

// The way from the root directory to where we are.
struct way {
    int root;
    int held[MOST_DEPTH]; // the directories below it
    size_t depth;
    unsigned links;
    char rest[PATH_MAX]; // what is still to be walked
};

static int here(const struct way *w)
{
    return w->depth > 0 ? w->held[w->depth - 1] : w->root;
}

static void go_up(struct way *w, size_t depth)
{
    while (w->depth > depth)
        as_close_fd(&w->held[--w->depth]);
}

static int fail(int number)
{
    errno = number;
    return -1;
}

// Puts what a link says before what is still to be walked.
static bool follow_link(struct way *w, int link)
{
    char text[PATH_MAX];
    struct statfs system;
    ssize_t length = readlinkat(link, "", text, sizeof text);
    size_t rest = strlen(w->rest);
    if (length <= 0 || fstatfs(link, &system) != 0)
        return false;
    errno = ELOOP;
    if (++w->links > MOST_LINKS || system.f_type == PROC_SUPER_MAGIC)
        return false;
    errno = ENAMETOOLONG;
    if ((size_t)length + rest + 1 > sizeof w->rest)
        return false;
    memmove(w->rest + length, w->rest, rest + 1); // begins with a slash, or is empty
    memcpy(w->rest, text, (size_t)length);
    if (text[0] == '/')
        go_up(w, 0);
    return true;
}

// Takes the next component off what is still to be walked. False: there is none, or it is too long (errno).
static bool take_component(struct way *w, char name[NAME_MAX + 1])
{
    const char *at = w->rest + strspn(w->rest, "/");
    size_t length = strcspn(at, "/");
    errno = length == 0 ? EISDIR : ENAMETOOLONG;
    if (length == 0 || length > NAME_MAX)
        return false;
    memcpy(name, at, length);
    name[length] = '\0';
    memmove(w->rest, at + length, strlen(at + length) + 1);
    return true;
}

// One component further. False: that was the last, and *found is what it names, or -1 (errno).
static bool step(struct way *w, int *found)
{
    char name[NAME_MAX + 1];
    struct stat stat;
    *found = -1;
    if (!take_component(w, name))
        return false;
    if (strcmp(name, ".") == 0)
        return true;
    if (strcmp(name, "..") == 0) {
        go_up(w, w->depth > 0 ? w->depth - 1 : 0);
        return true;
    }
    AS_CLEANUP_FD int fd = openat(here(w), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &stat) != 0)
        return false;
    if (S_ISLNK(stat.st_mode))
        return follow_link(w, fd);
    if (S_ISDIR(stat.st_mode) && w->depth == MOST_DEPTH) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (!S_ISDIR(stat.st_mode) && w->rest[0] != '\0') {
        errno = ENOTDIR;
        return false;
    }
    bool is_directory = S_ISDIR(stat.st_mode);
    *(is_directory ? &w->held[w->depth++] : found) = fd;
    fd = -1;
    return is_directory;
}

int as_path_find_by_steps(int root, const char *path)
{
    struct way w = {.root = root};
    int found;
    size_t length = strlen(path);
    if (length >= sizeof w.rest)
        return fail(ENAMETOOLONG);
    memcpy(w.rest, path, length + 1);
    while (step(&w, &found))
        ;
    go_up(&w, 0);
    return found;
}

int as_path_find(int root, const char *path)
{
    struct how how = {.flags = O_PATH | O_CLOEXEC, .resolve = IN_ROOT | NO_MAGICLINKS};
    long fd;
    int tries = 0;
    // EAGAIN: something was renamed meanwhile, and the kernel is not sure that it has not been led out.
    do
        fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    while (fd < 0 && (errno == EAGAIN || errno == EINTR) && ++tries < MOST_TRIES);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EAGAIN))
        return as_path_find_by_steps(root, path);
    return (int)fd;
}

// In these, files are what the kernel makes of a read or of an open; some wait, some forget what has been read.
static bool is_made_up(const struct statfs *system)
{
    static const uint32_t magics[] = {
        PROC_SUPER_MAGIC,   SYSFS_MAGIC,         DEBUGFS_MAGIC, TRACEFS_MAGIC,  SECURITYFS_MAGIC, SELINUX_MAGIC,
        CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC,  PSTOREFS_MAGIC, EFIVARFS_MAGIC,   DEVPTS_SUPER_MAGIC,
    };
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; ++i) {
        if ((uint32_t)system->f_type == magics[i])
            return true;
    }
    return false;
}

int as_path_open(int handle, struct stat *stat)
{
    struct statfs system;
    if (handle < 0 || fstat(handle, stat) != 0 || fstatfs(handle, &system) != 0)
        return -1;
    if (!S_ISREG(stat->st_mode) || is_made_up(&system))
        return fail(ESTALE);
    // O_NONBLOCK: the owner of a file may hold a lease on it (F_SETLEASE), and need not give it up for 45 s.
    return open(as_proc_name("/proc/thread-self/fd/%d", handle).text, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

int as_path_open_below(int root, const char *path)
{
    struct stat stat;
    AS_CLEANUP_FD int handle = as_path_find(root, path);
    return as_path_open(handle, &stat);
}
