// SPDX-License-Identifier: MIT
// The files behind a live process's mappings, also when they are deleted, replaced, or in another mount namespace.
#define _GNU_SOURCE
#include "target/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const char DELETED[] = " (deleted)";

static bool is_deleted(const char *path)
{
    size_t length = strlen(path);
    return length >= sizeof DELETED - 1 && strcmp(path + length - (sizeof DELETED - 1), DELETED) == 0;
}

// Opens dir/name for reading if it is a regular file, and the one that `m` maps (m NULL: any). O_PATH first: opening a
// device or a FIFO that took the file's name could have effects, or block.
static int open_regular(int dir, const char *name, const struct as_mapping *m)
{
    AS_CLEANUP_FD int handle = openat(dir, name, O_PATH | O_CLOEXEC);
    struct stat stat;
    if (handle < 0 || fstat(handle, &stat) != 0)
        return -1;
    bool same_dev = !m || (major(stat.st_dev) == m->dev_major && minor(stat.st_dev) == m->dev_minor);
    bool same_inode = !m || stat.st_ino == m->inode;
    // btrfs and overlayfs show one device in maps and another in stat. Both are devices without a disk of their own
    // (major 0); there the inode has to do, and libc/ checks the build-id in any case.
    bool may_differ = m && (m->dev_major == 0 || major(stat.st_dev) == 0);
    if (!S_ISREG(stat.st_mode) || !same_inode || (!same_dev && !may_differ)) {
        errno = ESTALE;
        return -1;
    }
    char reopen[48];
    snprintf(reopen, sizeof reopen, "/proc/thread-self/fd/%d", handle);
    return open(reopen, O_RDONLY | O_CLOEXEC);
}

// By its name, in the target's own root. A deleted file has none that could be trusted.
static int open_by_name(const struct as_process *p, const char *path, const struct as_mapping *m)
{
    if (is_deleted(path) || path[0] != '/')
        return -1;
    // Of a process that was chrooted the kernel tells names from the root of its mount namespace: they begin with the
    // chroot's own name, which has to go.
    char root[PATH_MAX];
    ssize_t length = readlinkat(p->view_fd, "root", root, sizeof root);
    if (length > 1 && strncmp(path, root, (size_t)length) == 0 && path[length] == '/')
        path += length;
    char name[PATH_MAX + 8];
    if ((size_t)snprintf(name, sizeof name, "root%s", path) >= sizeof name)
        return -1;
    return open_regular(p->view_fd, name, m);
}

int as_process_open_file(struct as_target *t, const struct as_mapping *m, struct as_error *err)
{
    struct as_process *p = as_process_of(t);
    const char *path = as_mapping_path(t, m);
    if (m->kind != AS_MAP_FILE && m->kind != AS_MAP_SHMEM) {
        as_fail(err, AS_USAGE, "the mapping at %#" PRIx64 " has no file", m->start);
        return -1;
    }
    // Right by construction, whatever happened to the name; the kernel wants CAP_CHECKPOINT_RESTORE for it (5.9 and
    // later; CAP_SYS_ADMIN before).
    char name[PATH_MAX + 8];
    snprintf(name, sizeof name, "map_files/%" PRIx64 "-%" PRIx64, m->start, m->end);
    int fd = open_regular(p->view_fd, name, NULL);
    int map_files_errno = errno;
    if (fd >= 0)
        return fd;
    fd = open_by_name(p, path, m);
    if (fd >= 0)
        return fd;
    // The program itself can be had by a link of its own, even when it is deleted.
    if (m->path && strcmp(path, as_strings_at(&t->strings, t->exe)) == 0) {
        fd = open_regular(p->view_fd, "exe", m);
        if (fd >= 0)
            return fd;
    }
    if (map_files_errno == EPERM || map_files_errno == EACCES)
        as_fail(err, AS_DENIED,
                "%s: no file of that name is the one that is mapped (it was deleted or replaced), and only "
                "/proc/%d/map_files still leads to it: run as root (CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN)",
                path, p->base.pid);
    else
        as_fail(err, AS_TARGET_GONE, "%s: the mapping at %#" PRIx64 " of process %d is gone, or its file is (%s)", path,
                m->start, p->base.pid, strerror(map_files_errno));
    return -1;
}
