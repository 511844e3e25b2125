// SPDX-License-Identifier: MIT
// The directory of dumps that were written at a condition, as `arenascope watch --dump-at` keeps it: the newest ones, in a bounded part of
// the disk. The directory is locked while a dump is added. Nothing is allocated here. libc's calendar reads files: the time is told without
// it. System calls are made by number: each of libc's names would add to an injected library, which comes without this code.
#include "agent/preload/dump_at.h"
#include "base/output.h"
#include "target/procfs.h"

#include <errno.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <time.h>

enum {
    PART_OF_DISK = 10, // which all dumps may take
    TRIES = 50,
    TRY_MS = 20,
    STALE_SECONDS = 3600, // what nobody has finished in this time is of a process that was killed
    TIME_LENGTH = 20,     // 20261123T140311.204Z
    MOST_GO = 64,         // old dumps that one call takes away: a scan of the directory for each. The next call goes on
};

struct kept {
    uint64_t count, bytes;    // of dumps
    uint64_t unfinished;      // bytes
    char first[NAME_MAX + 1]; // the one that goes first; "": there is none
    uint64_t first_bytes;
    bool first_is_ahead; // its time is still to come
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Where the time of a dump's name begins; 0: this is no such name. NAME.PID.TIME.REASONS.dump
static size_t time_of(const char *name)
{
    static const char shape[TIME_LENGTH + 1] = "00000000T000000.000Z";
    size_t end = strlen(name);
    if (end < 5 || memcmp(name + end - 5, ".dump", 5) != 0)
        return 0;
    size_t reasons = end -= 5;
    while (end > 0 && ((name[end - 1] >= 'a' && name[end - 1] <= 'z') || name[end - 1] == '+'))
        end--;
    if (end == reasons || end < TIME_LENGTH + 4 || name[end - 1] != '.')
        return 0;
    size_t begin = end - 1 - TIME_LENGTH;
    for (size_t i = 0; i < TIME_LENGTH; i++)
        if (shape[i] == '0' ? !is_digit(name[begin + i]) : name[begin + i] != shape[i])
            return 0;
    size_t pid = begin - 1;
    while (pid > 0 && is_digit(name[pid - 1]))
        pid--;
    return name[begin - 1] == '.' && pid < begin - 1 && pid > 1 && name[pid - 1] == '.' ? begin : 0;
}

// Where the file system knows no files without a name, a dump has such a name until it is whole.
static bool is_unfinished(const char *name)
{
    static const char begin[] = ".arenascope-";
    static const char end[] = ".partial";
    size_t length = strlen(name);
    return strncmp(name, begin, sizeof begin - 1) == 0 && length > sizeof end &&
           strcmp(name + length - (sizeof end - 1), end) == 0;
}

static bool is_stale(const struct stat *st)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return st->st_mtime + STALE_SECONDS < now.tv_sec;
}

// 2026-11-23 from the days since 1970: eras of 400 years, in years that begin in March.
static void now_text(char out[TIME_LENGTH + 1])
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t days = (uint64_t)now.tv_sec / 86400;
    unsigned second = (unsigned)((uint64_t)now.tv_sec % 86400);
    uint64_t since = days + 719468; // 0000-03-01
    uint64_t of_era = since % 146097;
    uint64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = (unsigned)(of_era - (365 * year + year / 4 - year / 100));
    unsigned month = (5 * of_year + 2) / 153;
    unsigned day = of_year - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 3 : month - 9;
    year += since / 146097 * 400 + (month <= 2);
    char text[64];
    snprintf(text, sizeof text, "%04u%02u%02uT%02u%02u%02u.%03uZ", (unsigned)year, month, day, second / 3600,
             second / 60 % 60, second % 60, (unsigned)(now.tv_nsec / 1000000));
    memcpy(out, text, TIME_LENGTH);
    out[TIME_LENGTH] = '\0';
}

// Whether a dump's time is later than now: the clock was set back since.
static bool is_ahead(const char *time, const char *now)
{
    return strncmp(time, now, TIME_LENGTH) > 0;
}

// Whether `name` goes before the one that would go first so far. Dumps of a time to come go before all others: as the newest they would
// stay for ever, and each new dump would go at once.
static bool goes_first(const char *name, const char *now, const struct kept *kept)
{
    if (!kept->first[0])
        return true;
    const char *time = name + time_of(name);
    bool ahead = is_ahead(time, now);
    if (ahead != kept->first_is_ahead)
        return ahead;
    int order = strncmp(time, kept->first + time_of(kept->first), TIME_LENGTH);
    return order < 0 || (order == 0 && strcmp(name, kept->first) < 0);
}

// `stays`: the name of a dump that does not go; NULL: none.
static void count_dump(int directory, const char *name, const char *now, const char *stays, struct kept *kept)
{
    struct stat st;
    size_t at = time_of(name);
    if ((at == 0 && !is_unfinished(name)) || fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode))
        return;
    if (at == 0) {
        bool gone = is_stale(&st) && unlinkat(directory, name, 0) == 0;
        kept->unfinished += gone ? 0 : (uint64_t)st.st_size;
        return;
    }
    kept->count++;
    kept->bytes += (uint64_t)st.st_size;
    if ((!stays || strcmp(name, stays) != 0) && goes_first(name, now, kept)) {
        snprintf(kept->first, sizeof kept->first, "%s", name);
        kept->first_bytes = (uint64_t)st.st_size;
        kept->first_is_ahead = is_ahead(name + at, now);
    }
}

static bool scan_dump_folder(int directory, const char *stays, struct kept *kept)
{
    struct directory_entry {
        uint64_t inode, offset;
        uint16_t length;
        uint8_t type;
        char name[];
    };
    _Alignas(struct directory_entry) char buffer[4096];
    long got;
    char now[TIME_LENGTH + 1];
    now_text(now);
    *kept = (struct kept){0};
    if (syscall(SYS_lseek, directory, 0, SEEK_SET) != 0)
        return false;
    while ((got = syscall(SYS_getdents64, directory, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < got;) {
            const struct directory_entry *entry = (const struct directory_entry *)(buffer + at);
            count_dump(directory, entry->name, now, stays, kept);
            at += entry->length;
        }
    return got == 0;
}

static bool io_error(const struct as_dump_wish *wish, const char *why, struct as_error *err)
{
    return as_fail(err, AS_IO, "cannot keep a dump in '%s': %s", wish->directory, why);
}

static bool lock(int directory)
{
    const struct timespec pause = {.tv_nsec = TRY_MS * 1000000L};
    for (int i = 0; i < TRIES; i++) {
        if (syscall(SYS_flock, directory, LOCK_EX | LOCK_NB) == 0)
            return true;
        syscall(SYS_nanosleep, &pause, NULL);
    }
    return false;
}

// Open and locked; -1: it is not one that we use.
static int open_folder(const struct as_dump_wish *wish, struct as_error *err)
{
    if (syscall(SYS_mkdirat, AT_FDCWD, wish->directory, 0700) != 0 && errno != EEXIST) {
        io_error(wish, strerror(errno), err);
        return -1;
    }
    int fd = open(wish->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    const char *why = NULL;
    if (fd < 0 || fstat(fd, &st) != 0)
        why = strerror(errno);
    else if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
        why = "others can write to it, or own it: choose another directory (ARENASCOPE_DUMPS)";
    else if (!lock(fd))
        why = "another process has it locked, arenascope watch for example: choose another directory "
              "(ARENASCOPE_DUMPS)";
    if (!why)
        return fd;
    io_error(wish, why, err);
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool drop_first(int directory, struct kept *kept)
{
    return kept->first[0] && unlinkat(directory, kept->first, 0) == 0 && scan_dump_folder(directory, NULL, kept);
}

static bool has_room(const struct kept *kept, uint64_t needed, uint64_t most, uint64_t free, uint64_t spare)
{
    return kept->bytes + kept->unfinished + needed <= most && free >= spare;
}

// Lets old dumps go, if that is of use.
static bool make_room(const struct as_dump_wish *wish, int directory, uint64_t needed, struct kept *kept,
                      struct as_error *err)
{
    struct statfs disk;
    if (!scan_dump_folder(directory, NULL, kept) || syscall(SYS_fstatfs, directory, &disk) != 0)
        return io_error(wish, strerror(errno), err);
    uint64_t unit = (uint64_t)(disk.f_frsize != 0 ? disk.f_frsize : disk.f_bsize);
    uint64_t whole = (uint64_t)disk.f_blocks * unit;
    uint64_t free = (uint64_t)disk.f_bavail * unit;
    uint64_t most = wish->most < whole / PART_OF_DISK ? wish->most : whole / PART_OF_DISK;
    uint64_t spare = whole / AS_OUTPUT_PART_FREE + needed;
    bool of_use = kept->unfinished + needed <= most && free + kept->bytes >= spare;
    for (int i = 0; i < MOST_GO && of_use && !has_room(kept, needed, most, free, spare); i++) {
        free += kept->first_bytes;
        if (!drop_first(directory, kept))
            return io_error(wish, strerror(errno), err);
    }
    uint64_t ours = kept->bytes + kept->unfinished;
    return has_room(kept, needed, most, free, spare) ||
           as_fail(err, AS_IO,
                   "a dump of %llu bytes is not kept in '%s': %llu of %llu are free there, %llu is the limit for all "
                   "dumps, of which there are %llu bytes, and a twentieth of the disk stays free",
                   (unsigned long long)needed, wish->directory, (unsigned long long)free, (unsigned long long)whole,
                   (unsigned long long)most, (unsigned long long)ours);
}

static void name_it(const char *reasons, char name[NAME_MAX + 1])
{
    char program[64] = "";
    char when[TIME_LENGTH + 1];
    if (as_proc_read(AT_FDCWD, "/proc/self/comm", program, sizeof program) <= 0)
        program[0] = '\0';
    program[strcspn(program, "\n")] = '\0';
    for (char *c = program; *c; c++)
        if (!is_digit(*c) && !(*c >= 'a' && *c <= 'z') && !(*c >= 'A' && *c <= 'Z') && !strchr("_+-", *c))
            *c = '_';
    now_text(when);
    snprintf(name, NAME_MAX + 1, "%s.%d.%s.%s.dump", program[0] ? program : "_", (int)getpid(), when, reasons);
}

static bool copy(struct as_output *out, int fd, uint64_t size, struct as_error *err)
{
    void *from = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (from == MAP_FAILED)
        return as_fail_errno(err, AS_NO_MEMORY, "no space for the dump");
    bool ok = as_output_write(out, from, size, 0, err);
    munmap(from, size);
    return ok && as_output_finish(out, err);
}

bool as_dump_folder_keep(const struct as_dump_wish *wish, int fd, const char *reasons, char name[NAME_MAX + 1],
                         struct as_error *err)
{
    struct stat st;
    struct kept kept;
    if (fstat(fd, &st) != 0)
        return as_fail_errno(err, AS_IO, "cannot ask for the size of the dump");
    int directory = open_folder(wish, err);
    if (directory < 0)
        return false;
    struct as_output out = AS_OUTPUT_CLOSED;
    bool ok = make_room(wish, directory, (uint64_t)st.st_size, &kept, err);
    if (ok) {
        name_it(reasons, name);
        ok = as_output_begin_at(&out, directory, name, err) && copy(&out, fd, (uint64_t)st.st_size, err);
    }
    as_output_close(&out);
    for (int i = 0; ok && i < MOST_GO && scan_dump_folder(directory, name, &kept) && kept.count > wish->keep; i++)
        if (unlinkat(directory, kept.first, 0) != 0)
            break;
    close(directory); // and its lock
    return ok;
}
