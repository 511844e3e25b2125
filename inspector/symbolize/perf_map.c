// SPDX-License-Identifier: MIT
#include "base/memory.h"
#include "symbolize/functions.h"
#include "target/paths.h"
#include "target/procfs.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t MOST_BYTES = (size_t)256 << 20;
enum { LONGEST_NAME = 4096 };

static bool add_line(struct as_functions *f, const char *line, const char *end, struct as_error *err)
{
    uint64_t start = as_parse_hex(&line, end);
    if (line == end || *line++ != ' ')
        return true;
    uint64_t size = as_parse_hex(&line, end);
    if (line == end || *line++ != ' ' || size == 0 || line == end)
        return true;
    struct as_function *added = as_vec_add(&f->list, err);
    if (!added)
        return false;
    size_t length = (size_t)(end - line);
    *added = (struct as_function){.start = start, .end = start + size, .rank = 1};
    added->name = as_strings_add(&f->names, line, length < LONGEST_NAME ? length : LONGEST_NAME);
    return true;
}

// The file's bytes, as many as it has at this time; NULL: it is not to be believed, or cannot be read.
static char *read_file(int root, const char *path, uid_t owner, size_t *size, size_t *room)
{
    struct stat st;
    char folder[PATH_MAX];
    const char *name = strrchr(path, '/');
    if (!name || (size_t)(name - path) >= sizeof folder)
        return NULL;
    memcpy(folder, path, (size_t)(name - path));
    folder[name - path] = '\0';
    AS_CLEANUP_FD int parent = as_path_find(root, folder[0] ? folder : "/");
    AS_CLEANUP_FD int handle = parent < 0 ? -1 : openat(parent, name + 1, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    AS_CLEANUP_FD int fd = as_path_open(handle, &st);
    if (fd < 0 || st.st_uid != owner || (st.st_mode & 022) != 0 || st.st_size <= 0)
        return NULL;
    *room = (uint64_t)st.st_size < MOST_BYTES ? (size_t)st.st_size : MOST_BYTES;
    char *text = as_memory_map(*room, "a perf map", NULL);
    for (ssize_t got = 1; text && got > 0 && *size < *room; *size += (size_t)(got > 0 ? got : 0))
        got = pread(fd, text + *size, *room - *size, (off_t)*size);
    return text;
}

bool as_perf_map_read(struct as_functions *f, int root, const char *path, uid_t owner, struct as_error *err)
{
    size_t size = 0;
    size_t room = 0;
    bool ok = true;
    char *text = read_file(root, path, owner, &size, &room);
    for (const char *at = text; text && ok && at < text + size;) {
        const char *end = memchr(at, '\n', (size_t)(text + size - at));
        if (!end) // it is being written
            break;
        ok = add_line(f, at, end, err);
        at = end + 1;
    }
    as_memory_unmap(text, room);
    as_functions_sort(f);
    return ok;
}
