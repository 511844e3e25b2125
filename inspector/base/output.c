// SPDX-License-Identifier: MIT
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

// The name says whose it is, for whoever finds one after a power cut.
static bool random_name(char *name, size_t size, struct as_error *err)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return as_fail_errno(err, AS_INTERNAL, "cannot get random bytes for the name of a temporary file");
    snprintf(name, size, ".arenascope-%016llx.partial", (unsigned long long)random);
    return true;
}

// as_fail_errno blames the target for EACCES; an output that cannot be written is AS_IO whatever the errno.
static bool io_error(const struct as_output *o, const char *what, struct as_error *err)
{
    as_fail_errno(err, AS_IO, "cannot %s '%s'", what, o->path ? o->path : "a file in memory");
    if (err)
        err->code = AS_IO;
    return false;
}

// False when something that is not ours to replace stands at the wanted name.
static bool may_replace(const struct as_output *o, struct as_error *err)
{
    struct stat st;
    if (fstatat(o->directory, o->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT || io_error(o, "write", err);
    if (S_ISREG(st.st_mode))
        return true;
    const char *what = S_ISLNK(st.st_mode) ? "a symbolic link" : S_ISDIR(st.st_mode) ? "a directory" : "a special file";
    return as_fail(err, AS_IO, "will not write '%s': %s stands there, and only a regular file is replaced", o->path,
                   what);
}

// A file without a name where the file system has such (nothing is left even after kill -9), else one with a random name.
static bool create(struct as_output *o, struct as_error *err)
{
    o->fd = openat(o->directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (o->fd >= 0)
        return true;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)
        return io_error(o, "create", err);
    if (!random_name(o->temporary, sizeof o->temporary, err))
        return false;
    o->fd = openat(o->directory, o->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (o->fd >= 0)
        return true;
    o->temporary[0] = '\0';
    return io_error(o, "create", err);
}

// Starts the file that `path` means: `name` in `directory`.
static bool begin_file(struct as_output *o, int directory, const char *name, const char *path, struct as_error *err)
{
    *o = (struct as_output)AS_OUTPUT_CLOSED;
    o->path = path;
    size_t length = strlen(name);
    if (length == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return as_fail(err, AS_IO, "'%s' does not name a file", path);
    if (length > NAME_MAX)
        return as_fail(err, AS_IO, "the file name of '%s' is longer than %d bytes", path, NAME_MAX);
    memcpy(o->name, name, length + 1);
    o->directory = fcntl(directory, F_DUPFD_CLOEXEC, 0);
    if (o->directory < 0)
        return io_error(o, "create", err);
    return may_replace(o, err) && create(o, err);
}

bool as_output_begin_at(struct as_output *o, int directory, const char *name, struct as_error *err)
{
    return begin_file(o, directory, name, name, err);
}

bool as_output_begin(struct as_output *o, const char *path, struct as_error *err)
{
    *o = (struct as_output)AS_OUTPUT_CLOSED;
    if (!path) {
        o->fd = memfd_create("arenascope", MFD_CLOEXEC);
        return o->fd >= 0 || io_error(o, "create", err);
    }
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0; // with its slash: "/x" lies in "/"
    if (length >= sizeof directory)
        return as_fail(err, AS_IO, "the path of the output is longer than %d bytes", PATH_MAX);
    memcpy(directory, slash ? path : ".", slash ? length : 1);
    directory[slash ? length : 1] = '\0';
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        as_fail_errno(err, AS_IO, "cannot open the directory '%s' to write into", directory);
        if (err)
            err->code = AS_IO;
        return false;
    }
    bool ok = begin_file(o, fd, slash ? slash + 1 : path, path, err);
    close(fd);
    return ok;
}

bool as_output_begin_fd(struct as_output *o, int fd, struct as_error *err)
{
    *o = (struct as_output)AS_OUTPUT_CLOSED;
    o->path = "the descriptor given";
    struct stat st;
    int mode = fcntl(fd, F_GETFL, 0);
    if (mode < 0 || fstat(fd, &st) != 0)
        return as_fail_errno(err, AS_USAGE, "descriptor %d is not open", fd);
    if (!S_ISREG(st.st_mode) || (mode & (O_ACCMODE | O_APPEND)) != O_RDWR)
        return as_fail(err, AS_USAGE,
                       "a dump needs a regular file or a memfd, open for reading and writing, without O_APPEND");
    o->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return (o->fd >= 0 && ftruncate(fd, 0) == 0) || as_fail_errno(err, AS_IO, "cannot empty the file given");
}

bool as_output_write(struct as_output *o, const void *data, size_t size, uint64_t offset, struct as_error *err)
{
    const char *from = data;
    while (size) {
        ssize_t n = pwrite(o->fd, from, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return io_error(o, "write", err);
        from += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

// Gives a file without a name this one, which nothing must have yet.
static bool link_as(const struct as_output *o, const char *name)
{
    // By descriptor where the kernel allows it (root, or Linux 6.10), else by way of /proc; of the thread, for the agent's have
    // their own table of descriptors.
    if (linkat(o->fd, "", o->directory, name, AT_EMPTY_PATH) == 0)
        return true;
    char self[40];
    snprintf(self, sizeof self, "/proc/thread-self/fd/%d", o->fd);
    return linkat(AT_FDCWD, self, o->directory, name, AT_SYMLINK_FOLLOW) == 0;
}

bool as_output_finish(struct as_output *o, struct as_error *err)
{
    if (o->directory < 0)
        return true;
    // Before the name: after a power cut the name must not stand for a file with a hole in it.
    if (fsync(o->fd) != 0)
        return io_error(o, "write", err);
    if (!may_replace(o, err))
        return false;
    if (!o->temporary[0]) {
        // At once where nothing has the name: a kill leaves the whole file or none.
        if (link_as(o, o->name))
            return true;
        // linkat cannot replace an existing file; the rename that follows can.
        if (!random_name(o->temporary, sizeof o->temporary, err))
            return false;
        if (!link_as(o, o->temporary)) {
            o->temporary[0] = '\0';
            return io_error(o, "give a name to", err);
        }
    }
    if (renameat(o->directory, o->temporary, o->directory, o->name) != 0)
        return io_error(o, "put in place", err);
    o->temporary[0] = '\0';
    return true;
}

bool as_output_copy(struct as_output *o, int to, struct as_error *err)
{
    char bytes[1 << 16];
    off_t at = 0;
    for (;;) {
        ssize_t n = pread(o->fd, bytes, sizeof bytes, at);
        if (n == 0)
            return true;
        for (ssize_t sent = 0, more; n > 0 && sent < n; sent += more)
            if ((more = write(to, bytes + sent, (size_t)(n - sent))) < 0 && errno != EINTR)
                return as_fail(err, AS_IO, "cannot write to standard output: %s", strerror(errno));
            else if (more < 0)
                more = 0;
        if (n < 0 && errno != EINTR)
            return as_fail(err, AS_IO, "cannot read what was written: %s", strerror(errno));
        at += n > 0 ? n : 0;
    }
}

void as_output_abandon(const struct as_output *o)
{
    if (o->temporary[0])
        unlinkat(o->directory, o->temporary, 0);
}

void as_output_close(struct as_output *o)
{
    as_output_abandon(o);
    if (o->fd >= 0)
        close(o->fd);
    if (o->directory >= 0)
        close(o->directory);
    *o = (struct as_output)AS_OUTPUT_CLOSED;
}
