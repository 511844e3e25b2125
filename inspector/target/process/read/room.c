// SPDX-License-Identifier: MIT
// Swap never counts as room: that the kernel makes room by moving the target's memory to swap would slow it down. So a limit of swap alone
// (memory.swap.max) needs no snapshot; the first version's limit of memory and swap together does.
//
// In a container, the cgroups above its root cannot be seen. They are taken not to be tighter than the ones that can,
// as they are made to hold them; where the first version tells of one that is (hierarchical_memory_limit), the room is
// not known.
#include "target/process/read/room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The kernel slows everything down before the last byte of the machine is used.
enum { RESERVED_SHARE = 64 };
// The first version writes "no limit" as the largest multiple of a page.
#define NO_LIMIT (UINT64_MAX / 4)

static const struct kind {
    bool v2;
    const char *limit, *usage;
} kinds[] = {
    {true, "memory.max", "memory.current"},
    {true, "memory.high", "memory.current"}, // past it the kernel lets the process wait
    {false, "memory.limit_in_bytes", "memory.usage_in_bytes"},
    {false, "memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

// A file with one number; UINT64_MAX: "max". False: it cannot be read.
static bool read_number(int fd, uint64_t *value)
{
    char text[32];
    ssize_t length = pread(fd, text, sizeof text, 0);
    if (length <= 0)
        return false;
    const char *at = text;
    *value = text[0] == 'm' ? UINT64_MAX : as_parse_decimal(&at, text + length);
    return text[0] == 'm' || at > text;
}

// How a level is named in a message, for "%.*s".
static const char *level_name(const struct as_cgroups *c, size_t level, int *length)
{
    enum { MOST = 256 };
    *length = c->ends[level] == 0 ? 1 : c->ends[level] < MOST ? c->ends[level] : MOST;
    return c->ends[level] == 0 ? "/" : c->path;
}

static bool unread(struct as_room *room, size_t level, const char *file)
{
    int length;
    const char *name = level_name(&room->cgroups, level, &length);
    snprintf(room->why, sizeof room->why, "%s of its memory cgroup %.*s cannot be read: %s", file, length, name,
             strerror(errno));
    return false;
}

static bool add_gauge(struct as_room *room, size_t level, size_t kind)
{
    const struct as_cgroups *c = &room->cgroups;
    struct as_room_gauge gauge = {.level = (uint16_t)level, .kind = (uint8_t)kind};
    gauge.limit = openat(c->dirs[level], kinds[kind].limit, O_RDONLY | O_CLOEXEC);
    if (gauge.limit < 0 && errno == ENOENT) // the controller is not enabled here, or this is the root
        return true;
    gauge.usage = gauge.limit < 0 ? -1 : openat(c->dirs[level], kinds[kind].usage, O_RDONLY | O_CLOEXEC);
    if (gauge.usage < 0 || room->count == AS_ROOM_LIMITS) {
        as_close_fd(&gauge.limit);
        as_close_fd(&gauge.usage);
        return unread(room, level, kinds[kind].limit);
    }
    room->gauges[room->count++] = gauge;
    return true;
}

static uint64_t stat_of(const struct as_cgroups *c, size_t level, const char *key)
{
    uint64_t value = as_proc_status(c->dirs[level], "memory.stat", key);
    return value == AS_PROC_NONE ? 0 : value;
}

// The tightest limit of the first version that memory.stat tells of, where none that can be seen is as tight; UINT64_MAX: one is.
static uint64_t limit_above(const struct as_room *room, const char *key, const char *file)
{
    uint64_t least = as_proc_status(room->cgroups.dirs[0], "memory.stat", key);
    uint64_t limit;
    for (size_t i = 0; least != AS_PROC_NONE && i < room->count; ++i)
        if (strcmp(kinds[room->gauges[i].kind].limit, file) == 0 && read_number(room->gauges[i].limit, &limit) &&
            limit <= least)
            return UINT64_MAX;
    return least == AS_PROC_NONE ? UINT64_MAX : least;
}

// Is there a limit above what can be seen that is tighter? Only the first version tells.
static bool is_limited_above(struct as_room *room)
{
    const struct as_cgroups *c = &room->cgroups;
    if (c->v2 || c->top || c->count == 0)
        return false;
    uint64_t memory = limit_above(room, "hierarchical_memory_limit", "memory.limit_in_bytes");
    uint64_t both = limit_above(room, "hierarchical_memsw_limit", "memory.memsw.limit_in_bytes");
    uint64_t least = memory < both ? memory : both;
    if (least == UINT64_MAX)
        return false;
    snprintf(room->why, sizeof room->why,
             "a memory cgroup above those that can be seen here limits it to %.1f MB: snapshot from outside of this "
             "container",
             (double)least / 1e6);
    return true;
}

bool as_room_open(struct as_room *room, int process, const char *root)
{
    char name[PATH_MAX];
    char text[16];
    room->count = 0;
    room->why[0] = '\0';
    snprintf(name, sizeof name, "%s/proc/meminfo", root);
    room->meminfo = open(name, O_RDONLY | O_CLOEXEC);
    snprintf(name, sizeof name, "%s/proc/sys/vm/overcommit_memory", root);
    room->strict = as_proc_read(AT_FDCWD, name, text, sizeof text) > 0 && text[0] == '2';
    if (!as_cgroups_open(&room->cgroups, process, root)) {
        snprintf(room->why, sizeof room->why, "%s", room->cgroups.why);
        return false;
    }
    for (size_t level = 0; level < room->cgroups.count; ++level)
        for (size_t kind = 0; kind < KINDS; ++kind)
            if (kinds[kind].v2 == room->cgroups.v2 && !add_gauge(room, level, kind))
                return false;
    return !is_limited_above(room);
}

// Memory of files in the page cache that was not used for long, is not to be written first, and is not protected (memory.min): the
// kernel takes it back before it kills.
static uint64_t reclaimable(const struct as_cgroups *c, size_t level, uint64_t usage)
{
    uint64_t bytes = stat_of(c, level, c->v2 ? "inactive_file" : "total_inactive_file");
    uint64_t dirty = stat_of(c, level, c->v2 ? "file_dirty" : "total_dirty") +
                     stat_of(c, level, c->v2 ? "file_writeback" : "total_writeback");
    bytes -= dirty < bytes ? dirty : bytes;
    for (size_t i = 0; c->v2 && i <= level; ++i) {
        uint64_t kept = 0;
        int fd = openat(c->dirs[i], "memory.min", O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read_number(fd, &kept) && kept > 0)
            bytes = 0;
        as_close_fd(&fd);
    }
    return bytes < usage ? bytes : usage;
}

static bool read_gauge(struct as_room *room, const struct as_room_gauge *g, uint64_t enough, struct as_room_left *left)
{
    const struct as_cgroups *c = &room->cgroups;
    uint64_t limit;
    uint64_t usage;
    if (!read_number(g->limit, &limit))
        return unread(room, g->level, kinds[g->kind].limit);
    if (limit >= NO_LIMIT)
        return true;
    if (!read_number(g->usage, &usage))
        return unread(room, g->level, kinds[g->kind].usage);
    uint64_t bytes = limit > usage ? limit - usage : 0;
    left->plain = bytes < left->plain ? bytes : left->plain;
    uint64_t cache = bytes < enough ? reclaimable(c, g->level, usage) : 0;
    uint64_t least = limit < usage ? cache - (usage - limit < cache ? usage - limit : cache) : bytes + cache;
    if (least >= left->bytes)
        return true;
    int length;
    const char *name = level_name(c, g->level, &length);
    left->bytes = least;
    snprintf(left->where, sizeof left->where, "its memory cgroup %.*s has room for %.1f MB (%s %.1f MB, used %.1f MB)",
             length, name, (double)least / 1e6, kinds[g->kind].limit, (double)limit / 1e6,
             (double)(usage - cache) / 1e6);
    return true;
}

// The number of kB behind a word of /proc/meminfo, in bytes; 0: there is none.
static uint64_t bytes_of(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    if (!at)
        return 0;
    at += strlen(word);
    while (*at == ' ')
        ++at;
    return as_parse_decimal(&at, text + strlen(text)) * 1024;
}

static bool read_machine(struct as_room *room, struct as_room_left *left)
{
    char text[4096];
    ssize_t length = pread(room->meminfo, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    if (!strstr(text, "MemAvailable:")) {
        snprintf(room->why, sizeof room->why, "how much memory the machine has left (MemAvailable) cannot be read");
        return false;
    }
    uint64_t available = bytes_of(text, "MemAvailable:");
    uint64_t reserved = bytes_of(text, "MemTotal:") / RESERVED_SHARE;
    uint64_t bytes = available > reserved ? available - reserved : 0;
    left->plain = bytes < left->plain ? bytes : left->plain;
    if (bytes < left->bytes) {
        left->bytes = bytes;
        snprintf(left->where, sizeof left->where, "the machine has %.1f MB left (MemAvailable %.1f MB)",
                 (double)bytes / 1e6, (double)available / 1e6);
    }
    uint64_t most = bytes_of(text, "CommitLimit:");
    uint64_t promised = bytes_of(text, "Committed_AS:");
    left->promised = !room->strict ? UINT64_MAX : most > promised ? most - promised : 0;
    return true;
}

bool as_room_read(struct as_room *room, uint64_t enough, struct as_room_left *left)
{
    left->bytes = left->plain = UINT64_MAX;
    left->where[0] = '\0';
    for (size_t i = 0; i < room->count; ++i)
        if (!read_gauge(room, &room->gauges[i], enough, left))
            return false;
    return read_machine(room, left);
}

void as_room_close(struct as_room *room)
{
    for (size_t i = 0; i < room->count; ++i) {
        as_close_fd(&room->gauges[i].limit);
        as_close_fd(&room->gauges[i].usage);
    }
    room->count = 0;
    as_close_fd(&room->meminfo);
    as_cgroups_close(&room->cgroups);
}
