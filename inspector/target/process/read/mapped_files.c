// SPDX-License-Identifier: MIT
// The files behind a live process's mappings, also when they are deleted, replaced, or in another mount namespace.
#include "target/paths.h"
#include "target/process/read/live_process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const char DELETED[] = " (deleted)";

static bool is_deleted(const char *path)
{
    size_t length = strlen(path);
    return length >= sizeof DELETED - 1 && strcmp(path + length - (sizeof DELETED - 1), DELETED) == 0;
}

// Opens what a handle leads to if it is the file that `m` maps (m NULL: any).
static int open_mapped(int handle, const struct as_mapping *m)
{
    struct stat stat;
    AS_CLEANUP_FD int fd = as_path_open(handle, &stat);
    if (fd < 0)
        return -1;
    bool same_dev = !m || (major(stat.st_dev) == m->dev_major && minor(stat.st_dev) == m->dev_minor);
    bool same_inode = !m || stat.st_ino == m->inode;
    // btrfs and overlayfs show one device in maps and another in stat. Both are devices without a disk of their own
    // (major 0); there the inode has to do, and libc/ checks the build-id in any case.
    bool may_differ = m && (m->dev_major == 0 || major(stat.st_dev) == 0);
    if (!same_inode || (!same_dev && !may_differ)) {
        errno = ESTALE;
        return -1;
    }
    int given = fd;
    fd = -1;
    return given;
}

// By one of the kernel's own links to it in the process's directory.
static int open_by_link(const struct as_process *p, const char *link, const struct as_mapping *m)
{
    AS_CLEANUP_FD int handle = openat(p->view_fd, link, O_PATH | O_CLOEXEC);
    return open_mapped(handle, m);
}

int as_process_open_root(struct as_target *t)
{
    return openat(as_process_of(t)->view_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

// By its name, in the target's own root. A deleted file has none that could be trusted.
static int open_by_name(struct as_process *p, const char *path, const struct as_mapping *m)
{
    if (is_deleted(path) || path[0] != '/')
        return -1;
    // The kernel tells names in a process that was chrooted from the root of its mount namespace: they begin with the chroot's own name,
    // which has to go.
    char root[PATH_MAX];
    ssize_t length = readlinkat(p->view_fd, "root", root, sizeof root);
    if (length > 1 && strncmp(path, root, (size_t)length) == 0 && path[length] == '/')
        path += length;
    AS_CLEANUP_FD int top = as_process_open_root(&p->base);
    AS_CLEANUP_FD int handle = top < 0 ? -1 : as_path_find(top, path);
    return open_mapped(handle, m);
}

int as_process_open_file(struct as_target *t, const struct as_mapping *m, struct as_error *err)
{
    struct as_process *p = as_process_of(t);
    const char *path = as_mapping_path(t, m);
    if (!as_mapping_of_file(m)) {
        as_fail(err, AS_USAGE, "the mapping at %#" PRIx64 " has no file", m->start);
        return -1;
    }
    // Right by construction, whatever happened to the name; the kernel wants CAP_CHECKPOINT_RESTORE for it (5.9 and
    // later; CAP_SYS_ADMIN before).
    char name[PATH_MAX + 8];
    snprintf(name, sizeof name, "map_files/%" PRIx64 "-%" PRIx64, m->start, m->end);
    int fd = open_by_link(p, name, NULL);
    int map_files_errno = errno;
    if (fd >= 0)
        return fd;
    fd = open_by_name(p, path, m);
    if (fd >= 0)
        return fd;
    // The program itself can be had by a link of its own, even when it is deleted.
    if (m->path && strcmp(path, as_strings_at(&t->strings, t->exe)) == 0) {
        fd = open_by_link(p, "exe", m);
        if (fd >= 0)
            return fd;
    }
    if (map_files_errno == EPERM || map_files_errno == EACCES)
        as_fail(err, AS_DENIED,
                "%s: the file of this name is not the mapped one (which was deleted or replaced), and only "
                "/proc/%d/map_files leads to the mapped one: run as root (CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN)",
                path, p->base.pid);
    else
        as_fail(err, AS_TARGET_GONE, "%s: the mapping at %#" PRIx64 " of process %d is gone, or its file is (%s)", path,
                m->start, p->base.pid, strerror(map_files_errno));
    return -1;
}
