// SPDX-License-Identifier: MIT
// Finds the separate debug file of an object, where distributions put it. Only a file with the very same build-id is
// taken: names and time stamps prove nothing.
#include "libc/sources.h"
#include "target/paths.h"
#include "target/procfs.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A file that several share has no program headers. The agent reads no types, so no such file.
static bool open_elf(struct as_elf *elf, int fd)
{
#ifndef AS_AGENT
    return as_elf_open(elf, fd, NULL) || as_elf_open_sections(elf, fd, NULL);
#else
    return as_elf_open(elf, fd, NULL);
#endif
}

// Opens `path` below `root` when it is an ELF file of that machine and build-id, else -1.
static int open_same_build(int root, const char *path, const struct as_elf *elf)
{
    int fd = as_path_open_below(root, path);
    struct as_elf debug;
    if (fd < 0)
        return -1;
    if (open_elf(&debug, fd) && debug.machine == elf->machine && strcmp(debug.build_id, elf->build_id) == 0)
        return fd;
    close(fd);
    return -1;
}

static int open_joined(const struct as_elf *elf, int root, const char *const parts[], size_t count)
{
    char path[PATH_MAX];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(parts[i]);
        if (length >= sizeof path - used)
            return -1;
        memcpy(path + used, parts[i], length);
        used += length;
    }
    path[used] = '\0';
    return open_same_build(root, path, elf);
}

static int open_by_build_id(const struct as_elf *elf, int root)
{
    char first[3] = {elf->build_id[0], elf->build_id[1], '\0'};
    const char *const parts[] = {"/usr/lib/debug/.build-id/", first, "/", elf->build_id + 2, ".debug"};
    return open_joined(elf, root, parts, sizeof parts / sizeof *parts);
}

// .gnu_debuglink: a name, to be searched for beside the object, in .debug beside it, and below usr/lib/debug.
static int open_by_link(const struct as_elf *elf, int root, const char *path)
{
    Elf64_Shdr section;
    char name[256];
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) >= sizeof folder || !as_elf_section(elf, ".gnu_debuglink", &section) ||
        section.sh_size < 6)
        return -1;
    size_t length = section.sh_size < sizeof name ? (size_t)section.sh_size : sizeof name;
    if (!as_elf_read_offset(elf, section.sh_offset, name, length) || !memchr(name, '\0', length) || name[0] == '\0' ||
        strchr(name, '/'))
        return -1;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = '\0';
    const char *const beside[] = {folder, "/", name};
    const char *const below[] = {folder, "/.debug/", name};
    const char *const apart[] = {"/usr/lib/debug", folder, "/", name};
    int fd = open_joined(elf, root, beside, 3);
    if (fd < 0)
        fd = open_joined(elf, root, below, 3);
    return fd < 0 ? open_joined(elf, root, apart, 4) : fd;
}

// What debuginfod's client has fetched before: it is only inspected, and nothing is fetched.
static int open_cached(const struct as_elf *elf, int root)
{
    const char *cache = getenv("DEBUGINFOD_CACHE_PATH"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *const own[] = {cache, "/", elf->build_id, "/debuginfo"};
    const char *const users[] = {xdg ? xdg : home, xdg ? "" : "/.cache", "/debuginfod_client/", elf->build_id,
                                 "/debuginfo"};
    if (cache)
        return open_joined(elf, root, own, sizeof own / sizeof *own);
    return users[0] ? open_joined(elf, root, users, sizeof users / sizeof *users) : -1;
}

int as_debug_file_open(const struct as_elf *elf, const int *roots, const char *path)
{
    const int ours = *roots;
    if (strlen(elf->build_id) < 8)
        return -1;
    int fd = -1;
    for (; fd < 0 && *roots >= 0; roots++) {
        fd = open_by_build_id(elf, *roots);
        if (fd < 0)
            fd = open_by_link(elf, *roots, path);
    }
    return fd < 0 && ours >= 0 ? open_cached(elf, ours) : fd;
}

int as_debug_file_of(const struct as_elf *elf, struct as_target *t, const char *path)
{
    AS_CLEANUP_FD int ours = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    AS_CLEANUP_FD int its = t->ops->open_root ? t->ops->open_root(t) : -1;
    const int roots[] = {ours, its, -1};
    return as_debug_file_open(elf, roots, path);
}

// As .gnu_debugaltlink says: a name, which may be relative to anywhere, and a build-id.
int as_debug_file_open_shared(const struct as_elf *debug, const int *roots)
{
    enum { ID_BYTES = 20 };
    Elf64_Shdr section;
    char link[PATH_MAX + ID_BYTES];
    struct as_elf shared = {.machine = debug->machine};
    if (!as_elf_section(debug, ".gnu_debugaltlink", &section) || section.sh_size > sizeof link ||
        !as_elf_read_offset(debug, section.sh_offset, link, section.sh_size))
        return -1;
    const char *end = memchr(link, '\0', section.sh_size);
    if (!end || (size_t)(link + section.sh_size - end) != 1 + ID_BYTES)
        return -1;
    for (int i = 0; i < ID_BYTES; i++)
        snprintf(shared.build_id + 2 * i, 3, "%02x", (unsigned char)end[1 + i]);
    const char *place = strstr(link, ".dwz/");
    int fd = -1;
    for (; fd < 0 && *roots >= 0; roots++) {
        const char *const parts[] = {"/usr/lib/debug/", place};
        fd = place ? open_joined(&shared, *roots, parts, 2) : -1;
        if (fd < 0)
            fd = open_by_build_id(&shared, *roots);
    }
    return fd;
}
