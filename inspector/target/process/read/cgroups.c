// SPDX-License-Identifier: MIT
// A process may be in a memory cgroup of the first version, whose hierarchy has a mount and a line of its own, or of the second. From
// inside a container only what lies below its own root can be seen; the cgroups above that are not counted (room.c).
#include "target/process/read/cgroups.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The kernel's number of the first namespace of cgroups, the same on every machine.
static const char FIRST_NAMESPACE[] = "cgroup:[4026531835]";

static bool unknown(struct as_cgroups *c, const char *why)
{
    snprintf(c->why, sizeof c->why, "its memory cgroup %.300s %s", c->path, why);
    return false;
}

// Is `word` one of the list, whose words are separated by commas?
static bool lists(const char *list, size_t length, const char *word)
{
    size_t wanted = strlen(word);
    for (const char *at = list, *end = list + length; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *next = comma ? comma : end;
        if ((size_t)(next - at) == wanted && memcmp(at, word, wanted) == 0)
            return true;
        at = next + 1;
    }
    return false;
}

// Reads the path from "4:memory:/a/b", or "0::/a/b" where the first version does not have the controller. False: neither is there.
static bool read_path(struct as_cgroups *c, int process)
{
    struct as_lines lines;
    size_t length;
    bool found = false;
    if (!as_lines_open(&lines, process, "cgroup"))
        return false;
    for (const char *line; (line = as_lines_next(&lines, &length));) {
        const char *first = memchr(line, ':', length);
        const char *second = first ? memchr(first + 1, ':', length - (size_t)(first + 1 - line)) : NULL;
        if (!second)
            continue;
        bool v1 = lists(first + 1, (size_t)(second - first - 1), "memory");
        size_t size = length - (size_t)(second + 1 - line);
        if ((!v1 && (second != first + 1 || (found && !c->v2))) || size >= sizeof c->path)
            continue;
        memcpy(c->path, second + 1, size);
        c->path[size] = '\0';
        c->v2 = !v1;
        found = true;
    }
    as_lines_close(&lines);
    return found;
}

// Ends a field at its end, and undoes what the kernel has written of it in octal ("\040"). Returns where the next one begins.
static char *end_field(char *field)
{
    char *out = field;
    while (*field && *field != ' ') {
        bool octal = field[0] == '\\' && field[1] >= '0' && field[1] <= '3' && field[2] && field[3];
        *out++ = octal ? (char)((field[1] - '0') * 64 + (field[2] - '0') * 8 + (field[3] - '0')) : *field;
        field += octal ? 4 : 1;
    }
    char *next = *field ? field + 1 : field;
    *out = '\0';
    return next;
}

// A line of mountinfo: "36 35 0:25 /root /point rw shared:2 - cgroup cgroup rw,memory". True: it mounts the hierarchy.
static bool parse_mount(const struct as_cgroups *c, char *line, char **root, char **point)
{
    char *type = strstr(line, " - ");
    if (!type)
        return false;
    type += 3;
    char *source = end_field(type);
    char *options = end_field(source);
    if (strcmp(type, c->v2 ? "cgroup2" : "cgroup") != 0 || (!c->v2 && !lists(options, strlen(options), "memory")))
        return false;
    for (int field = 1; field < 4; ++field) {
        line = strchr(line, ' ');
        if (!line)
            return false;
        ++line;
    }
    *root = line;
    *point = end_field(*root);
    end_field(*point);
    return true;
}

// What of the path lies below the mount's root; NULL: nothing does.
static const char *below(const char *path, const char *root)
{
    size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    bool inside = strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == '\0');
    return inside && strncmp(path + length, "/..", 3) != 0 ? path + length : NULL;
}

static int open_level(const char *root, const char *point, const char *path, size_t length)
{
    char name[2 * PATH_MAX];
    if (snprintf(name, sizeof name, "%s%s%.*s", root, point, (int)length, path) >= (int)sizeof name)
        return -1;
    return open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

// Opens the process's own cgroup, and each above it up to the root of the mount.
static bool open_levels(struct as_cgroups *c, const char *root, const char *point, const char *path)
{
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/')
        --length;
    for (c->count = 0; c->count < AS_CGROUP_LEVELS; ++c->count) {
        int dir = open_level(root, point, path, length);
        if (dir < 0 || faccessat(dir, "cgroup.procs", F_OK, 0) != 0) {
            as_close_fd(&dir);
            break;
        }
        c->dirs[c->count] = dir;
        c->ends[c->count] = (uint16_t)length;
        if (length == 0) {
            ++c->count;
            memmove(c->path, path, strlen(path) + 1);
            return true;
        }
        while (length > 0 && path[--length] != '/')
            ;
    }
    as_cgroups_close(c);
    return false;
}

static bool is_first_namespace(const char *root)
{
    char name[PATH_MAX];
    char text[64] = "";
    snprintf(name, sizeof name, "%s/proc/self/ns/cgroup", root);
    ssize_t length = readlink(name, text, sizeof text - 1);
    return length < 0 ? errno == ENOENT : strcmp(text, FIRST_NAMESPACE) == 0;
}

static bool open_mounted(struct as_cgroups *c, const char *root)
{
    char name[PATH_MAX];
    struct as_lines lines;
    size_t length;
    bool found = false;
    snprintf(name, sizeof name, "%s/proc/self/mountinfo", root);
    if (!as_lines_open(&lines, AT_FDCWD, name))
        return false;
    for (const char *line; !found && (line = as_lines_next(&lines, &length));) {
        char text[3 * PATH_MAX];
        char *top;
        char *point;
        if (length >= sizeof text)
            continue;
        memcpy(text, line, length);
        text[length] = '\0';
        const char *path = parse_mount(c, text, &top, &point) ? below(c->path, top) : NULL;
        c->top = path && strcmp(top, "/") == 0 && is_first_namespace(root);
        found = path && open_levels(c, root, point, path);
    }
    as_lines_close(&lines);
    return found;
}

bool as_cgroups_open(struct as_cgroups *c, int process, const char *root)
{
    c->count = 0;
    c->path[0] = c->why[0] = '\0';
    c->v2 = c->top = false;
    errno = 0;
    if (!read_path(c, process)) {
        if (errno == 0 || errno == ENOENT) // no hierarchy has the controller, or the kernel knows no cgroups
            return c->top = true;
        return unknown(c, "cannot be read");
    }
    // In the root there is no limit, whether or not it is mounted.
    if (strcmp(c->path, "/") == 0 && is_first_namespace(root))
        return c->top = true;
    return open_mounted(c, root) ||
           unknown(c, "cannot be seen here (no mounted hierarchy shows it): snapshot from outside of this container");
}

void as_cgroups_close(struct as_cgroups *c)
{
    for (size_t i = 0; i < c->count; ++i)
        as_close_fd(&c->dirs[i]);
    c->count = 0;
}
