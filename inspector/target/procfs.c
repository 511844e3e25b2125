// SPDX-License-Identifier: MIT
#include "target/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void as_close_fd(int *fd)
{
    int saved = errno;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    errno = saved;
}

uint64_t as_now_ns(void)
{
    return as_clock_ns(CLOCK_MONOTONIC);
}

uint64_t as_parse_decimal(const char **text, const char *end)
{
    uint64_t value = 0;
    for (; *text < end && **text >= '0' && **text <= '9'; ++*text) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(**text - '0'), &value))
            value = UINT64_MAX;
    }
    return value;
}

uint64_t as_parse_hex(const char **text, const char *end)
{
    uint64_t value = 0;
    for (; *text < end; ++*text) {
        char c = **text;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 16;
        if (digit == 16)
            break;
        value = value >> 60 ? UINT64_MAX : value << 4 | digit;
    }
    return value;
}

struct as_proc_name as_proc_name(const char *format, ...)
{
    struct as_proc_name name;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name.text, sizeof name.text, format, arguments);
    va_end(arguments);
    return name;
}

ssize_t as_proc_read(int dir, const char *name, char *buffer, size_t size)
{
    AS_CLEANUP_FD int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t length = 0;
    while (length < size - 1) {
        ssize_t got = read(fd, buffer + length, size - 1 - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        length += (size_t)got;
    }
    buffer[length] = '\0';
    return (ssize_t)length;
}

bool as_proc_stat(int dir, const char *name, struct as_proc_stat *out)
{
    char text[1024];
    ssize_t length = as_proc_read(dir, name, text, sizeof text);
    if (length <= 0)
        return false;
    // The name in parentheses may itself hold parentheses and spaces: the fields begin after the last one.
    const char *at = strrchr(text, ')');
    const char *end = text + length;
    if (!at || end - at < 3)
        return false;
    out->state = at[2];
    out->ticks = 0;
    at += 3;
    // Field 3 is the state; flags is field 9, utime and stime fields 14 and 15, num_threads field 20.
    for (int field = 4; field <= 20; ++field) {
        while (at < end && *at == ' ')
            ++at;
        if (at == end)
            return false;
        if (field == 9)
            out->flags = as_parse_decimal(&at, end);
        else if (field == 14 || field == 15)
            out->ticks += as_parse_decimal(&at, end);
        else if (field == 20)
            out->threads = as_parse_decimal(&at, end);
        while (at < end && *at != ' ')
            ++at;
    }
    return true;
}

// ENOENT is the answer for the directory of a process that has ended.
static bool is_unlisted(void)
{
    errno = errno == ENOENT ? ESRCH : errno;
    return false;
}

bool as_proc_threads(int dir, as_pid_vec *out)
{
    out->count = 0;
    AS_CLEANUP_FD int fd = openat(dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return is_unlisted();
    // opendir would allocate.
    _Alignas(struct dirent64) char buffer[4096];
    for (;;) {
        long got = syscall(SYS_getdents64, fd, buffer, sizeof buffer);
        if (got < 0)
            return is_unlisted();
        if (got == 0)
            return true;
        for (long at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
            at += entry->d_reclen;
            const char *name = entry->d_name;
            uint64_t tid = as_parse_decimal(&name, name + strlen(name));
            if (tid == 0 || tid > INT32_MAX) // "." and ".."
                continue;
            pid_t *item = as_vec_add(out, NULL);
            if (!item) {
                errno = ENOMEM;
                return false;
            }
            *item = (pid_t)tid;
        }
    }
}

enum { LINES_BYTES = 64 * 1024 };

bool as_lines_open(struct as_lines *lines, int dir, const char *name)
{
    *lines = (struct as_lines){.fd = openat(dir, name, O_RDONLY | O_CLOEXEC)};
    if (lines->fd < 0)
        return false;
    if (as_vec_reserve(&lines->buffer, LINES_BYTES, NULL))
        return true;
    as_close_fd(&lines->fd);
    errno = ENOMEM;
    return false;
}

const char *as_lines_next(struct as_lines *lines, size_t *length)
{
    char *buffer = lines->buffer.items;
    size_t searched = lines->begin;
    for (;;) {
        char *newline = memchr(buffer + searched, '\n', lines->end - searched);
        if (newline && !lines->passing) {
            const char *line = buffer + lines->begin;
            *length = (size_t)(newline - line);
            lines->begin += *length + 1;
            return line;
        }
        if (newline) {
            lines->passing = false;
            lines->begin = searched = (size_t)(newline - buffer) + 1;
            continue;
        }
        if (lines->passing)
            lines->begin = lines->end;
        searched = lines->end - lines->begin;
        memmove(buffer, buffer + lines->begin, searched);
        lines->begin = 0;
        lines->end = searched;
        if (lines->end == LINES_BYTES) {
            lines->passing = true;
            *length = lines->begin = LINES_BYTES;
            return buffer;
        }
        ssize_t got = read(lines->fd, buffer + lines->end, LINES_BYTES - lines->end);
        if (got < 0 && errno == EINTR)
            continue;
        lines->error = got < 0 ? errno : 0;
        if (got <= 0)
            return NULL;
        lines->end += (size_t)got;
    }
}

void as_lines_close(struct as_lines *lines)
{
    as_close_fd(&lines->fd);
    as_vec_free(&lines->buffer);
}

char as_proc_state(pid_t id)
{
    struct as_proc_stat stat;
    return as_proc_stat(AT_FDCWD, as_proc_name("/proc/%d/stat", id).text, &stat) ? stat.state : '\0';
}

static uint64_t find_status(int dir, const char *name, const char *key, uint64_t parse(const char **, const char *))
{
    struct as_lines lines;
    size_t length;
    size_t key_length = strlen(key);
    uint64_t value = AS_PROC_NONE;
    if (!as_lines_open(&lines, dir, name))
        return AS_PROC_NONE;
    for (const char *line; (line = as_lines_next(&lines, &length));) {
        if (length <= key_length || memcmp(line, key, key_length) != 0)
            continue;
        const char *at = line + key_length;
        const char *end = line + length;
        while (at < end && (*at == ' ' || *at == '\t'))
            ++at;
        const char *number = at;
        value = parse(&at, end);
        value = at > number ? value : AS_PROC_NONE;
        break;
    }
    as_lines_close(&lines);
    return value;
}

uint64_t as_proc_status(int dir, const char *name, const char *key)
{
    return find_status(dir, name, key, as_parse_decimal);
}

uint64_t as_proc_status_mask(int dir, const char *name, const char *key)
{
    return find_status(dir, name, key, as_parse_hex);
}

pid_t as_proc_inner_pid(pid_t pid)
{
    static const char key[] = "NSpid:";
    struct as_lines lines;
    pid_t inner = pid; // a kernel without the line has no namespaces of PIDs to tell of
    size_t length;
    if (!as_lines_open(&lines, AT_FDCWD, as_proc_name("/proc/%d/status", pid).text))
        return 0;
    for (const char *line; (line = as_lines_next(&lines, &length)) != NULL;) {
        if (length < sizeof key || memcmp(line, key, sizeof key - 1) != 0)
            continue;
        const char *end = line + length, *at = end;
        while (at > line && at[-1] >= '0' && at[-1] <= '9')
            --at;
        inner = (pid_t)as_parse_decimal(&at, end);
        break;
    }
    if (lines.error)
        inner = 0;
    as_lines_close(&lines);
    return inner;
}
