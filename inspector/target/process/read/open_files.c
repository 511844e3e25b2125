// SPDX-License-Identifier: MIT
// The descriptors of a live process that lead to files in memory. No file is opened, and only those are asked whose name
// may be of one in memory, and of what is known of them already: the server of a network's file system might never answer.
#include "target/open_files.h"

#include "target/process/read/live_process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 512 }; // bytes: the unit of stx_blocks

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool may_be_in_memory(const char *name)
{
    static const char deleted[] = " (deleted)";
    size_t length = strlen(name);
    return starts_with(name, "/memfd:") || starts_with(name, "/dev/shm/") ||
           (length > sizeof deleted && strcmp(name + length - (sizeof deleted - 1), deleted) == 0);
}

// Adds the file of a descriptor if it is one in memory. False: AS_NO_MEMORY.
static bool add_descriptor(struct as_process *p, int folder, const char *number, struct as_open_files *out,
                           struct as_error *err)
{
    char name[PATH_MAX];
    struct statx found;
    ssize_t length = readlinkat(folder, number, name, sizeof name - 1);
    if (length <= 0)
        return true; // closed meanwhile
    name[length] = '\0';
    if (!may_be_in_memory(name) || statx(folder, number, AT_STATX_DONT_SYNC, STATX_INO | STATX_BLOCKS, &found) != 0)
        return true;
    uint64_t dev = AS_DEV(found.stx_dev_major, found.stx_dev_minor);
    if (!as_process_is_tmpfs(p, dev))
        return true;
    return as_vec_push(&out->files, err,
                       (struct as_open_file){.dev = dev,
                                             .inode = found.stx_ino,
                                             .bytes = found.stx_blocks * BLOCK,
                                             .descriptors = 1,
                                             .name = as_strings_add(&p->base.strings, name, sizeof name)});
}

static int by_inode(const void *a, const void *b)
{
    const struct as_open_file *x = a, *y = b;
    return x->dev != y->dev ? (x->dev > y->dev) - (x->dev < y->dev) : (x->inode > y->inode) - (x->inode < y->inode);
}

static void merge_same(struct as_open_files *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < out->files.count; i++) {
        struct as_open_file *each = &out->files.items[i], *before = kept ? &out->files.items[kept - 1] : NULL;
        if (before && by_inode(before, each) == 0)
            before->descriptors++;
        else
            out->files.items[kept++] = *each;
    }
    out->files.count = kept;
}

// Those that are mapped, by however few pages, are in the ledger, and go.
static void drop_mapped(const struct as_target *t, struct as_open_files *out)
{
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings) {
        struct as_open_file key = {.dev = AS_DEV(m->dev_major, m->dev_minor), .inode = m->inode};
        struct as_open_file *found = m->kind == AS_MAP_SHMEM && out->files.count > 0
                                         ? bsearch(&key, out->files.items, out->files.count, sizeof key, by_inode)
                                         : NULL;
        if (found)
            found->descriptors = 0;
    }
    size_t kept = 0;
    for (size_t i = 0; i < out->files.count; i++)
        if (out->files.items[i].descriptors > 0)
            out->files.items[kept++] = out->files.items[i];
    out->files.count = kept;
}

static bool list(struct as_process *p, DIR *folder, struct as_open_files *out, struct as_error *err)
{
    struct dirent *entry;
    while (errno = 0, (entry = readdir(folder))) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        if (out->descriptors == AS_OPEN_FILES_LIMIT)
            out->left++;
        else if (out->descriptors++, !add_descriptor(p, dirfd(folder), entry->d_name, out, err))
            return false;
    }
    if (errno != 0)
        out->descriptors = AS_UNKNOWN;
    return true;
}

bool as_process_open_files(struct as_target *t, struct as_open_files *out, struct as_error *err)
{
    struct as_process *p = as_process_of(t);
    *out = (struct as_open_files){.descriptors = AS_UNKNOWN};
    int fd = openat(p->view_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (!folder) {
        as_close_fd(&fd);
        return true;
    }
    out->descriptors = 0;
    bool ok = list(p, folder, out, err);
    closedir(folder);
    if (out->files.count > 0)
        qsort(out->files.items, out->files.count, sizeof *out->files.items, by_inode);
    merge_same(out);
    drop_mapped(t, out);
    return ok;
}
