// SPDX-License-Identifier: MIT
// Without the C library's stdio and as_output, which format: a process may be inspected while any of its threads hold their locks.
#include "unwind/table.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h> // renameat
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NAME = 2 * AS_UNWIND_ID + 32 };

static char *append_to_path(char *at, const char *end, const char *text)
{
    while (*text && at + 1 < end)
        *at++ = *text++;
    *at = '\0';
    return at;
}

static char *append_hex(char *at, const char *end, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size && at + 2 < end; i++) {
        *at++ = "0123456789abcdef"[bytes[i] >> 4];
        *at++ = "0123456789abcdef"[bytes[i] & 15];
    }
    *at = '\0';
    return at;
}

// A directory that nobody else can write into.
static bool is_ours(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0;
}

static int open_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && !is_ours(fd)) {
        close(fd);
        return -1;
    }
    return fd;
}

// What a line of /proc/PID/status says of filters: the mode, and since Linux 5.9 how many there are. 0: nothing.
static uint64_t filters_in(const char *line)
{
    if (strncmp(line, "Seccomp:", 8) == 0)
        return strtoul(line + 8, NULL, 10);
    return strncmp(line, "Seccomp_filters:", 16) == 0 ? strtoul(line + 16, NULL, 10) << 8 : 0;
}

// In small pieces, as the thread's stack may be small.
uint64_t as_unwind_cache_filters(void)
{
    char bytes[512], line[32];
    size_t length = 0;
    uint64_t filters = 0;
    int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got;
    while ((got = read(fd, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] == '\n') {
                line[length] = '\0';
                filters += filters_in(line);
                length = 0;
            } else if (length + 1 < sizeof line) {
                line[length++] = bytes[i];
            }
        }
    close(fd);
    return filters;
}

bool as_unwind_cache_directory(char *path, size_t size)
{
    const char *cache = secure_getenv("XDG_CACHE_HOME"); // nothing in a setuid program
    const char *home = secure_getenv("HOME");
    const char *end = path + size;
    if (size == 0 || ((!cache || *cache != '/') && (!home || *home != '/')))
        return false;
    char *at = append_to_path(path, end, cache && *cache == '/' ? cache : home);
    if (!cache || *cache != '/')
        at = append_to_path(at, end, "/.cache");
    mkdir(path, 0700); // it may be there
    at = append_to_path(at, end, "/arenascope");
    mkdir(path, 0700);
    if (at + 1 == end) // cut off
        return false;
    int fd = open_directory(path);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

// BUILD-ID.unwind2: another version of the format is another file.
static void name_file(char *name, const struct as_unwind_image *image)
{
    static const char version[] = {'0' + AS_UNWIND_VERSION, '\0'};
    char *at = append_hex(name, name + NAME, image->id, image->id_size);
    append_to_path(append_to_path(at, name + NAME, ".unwind"), name + NAME, version);
}

static bool read_file(struct as_unwind_table *table, const struct as_unwind_image *image, int directory,
                      const char *name)
{
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    void *memory = MAP_FAILED;
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0 &&
        st.st_size > 0)
        memory = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return false;
    if (as_unwind_table_read(table, memory, (size_t)st.st_size, image)) {
        // All of it was read for the checksum. Little of it will be inspected: that alone is in memory then.
        madvise(memory, (size_t)st.st_size, MADV_DONTNEED);
        return true;
    }
    munmap(memory, (size_t)st.st_size);
    return false;
}

static const uint64_t beyond_limit = UINT64_C(1) << (SIGXFSZ - 1);

// The thread is the application's. A write beyond RLIMIT_FSIZE fails, and raises a signal in it, which ends a process that has no
// handler. Returns which of the signals were blocked before, for unblock().
static uint64_t block(bool *pending)
{
    uint64_t before = 0, now = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &beyond_limit, &before, sizeof before);
    syscall(SYS_rt_sigpending, &now, sizeof now);
    *pending = now & beyond_limit;
    return before;
}

static void unblock(uint64_t before, bool pending)
{
    siginfo_t info;
    // A signal of the kernel's has this process's pid. A signal that another process sent is sent again.
    if (!pending &&
        syscall(SYS_rt_sigtimedwait, &beyond_limit, &info, &(struct timespec){0}, sizeof beyond_limit) > 0 &&
        info.si_pid != getpid())
        syscall(SYS_kill, getpid(), SIGXFSZ);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

static bool write_all(int fd, const void *bytes, size_t size)
{
    for (const uint8_t *at = bytes; size > 0;) {
        ssize_t written = write(fd, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        at += written;
        size -= (size_t)written;
    }
    return true;
}

// A file that appears when it is complete. Failing is no error: the next process makes the table again.
static bool write_file(const struct as_unwind_table *table, int directory, const char *name)
{
    uint8_t random[8];
    char temporary[NAME];
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != sizeof random)
        return false;
    append_to_path(append_hex(append_to_path(temporary, temporary + NAME, ".arenascope-"), temporary + NAME, random,
                              sizeof random),
                   temporary + NAME, ".partial");
    int fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool pending;
    uint64_t before = block(&pending);
    bool ok = write_all(fd, table->head, table->bytes);
    unblock(before, pending);
    close(fd);
    if (ok && renameat(directory, temporary, directory, name) == 0)
        return true;
    unlinkat(directory, temporary, 0);
    return false;
}

// A table that was just made goes to its file, and is used from there: as memory of its own the process would have all of it.
static void hand_over(struct as_unwind_table *table, const struct as_unwind_image *image, int directory,
                      const char *name)
{
    struct as_unwind_table mapped;
    if (!write_file(table, directory, name) || !read_file(&mapped, image, directory, name))
        return;
    as_unwind_table_free(table);
    *table = mapped;
}

bool as_unwind_cache_table(struct as_unwind_table *table, const struct as_unwind_image *image, const char *directory,
                           bool *cached)
{
    char name[NAME];
    int fd = directory && image->id_size > 0 ? open_directory(directory) : -1;
    if (fd >= 0)
        name_file(name, image);
    *cached = fd >= 0 && read_file(table, image, fd, name);
    bool ok = *cached || as_unwind_table_make(table, image);
    if (fd >= 0) {
        if (ok && !*cached)
            hand_over(table, image, fd, name);
        close(fd);
    }
    return ok;
}
