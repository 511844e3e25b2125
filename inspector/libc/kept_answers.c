// SPDX-License-Identifier: MIT
#include "libc/kept_answers.h"

#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#ifndef XFS_SUPER_MAGIC // headers before Linux 4.20
#define XFS_SUPER_MAGIC 0x58465342
#endif

enum {
    MOST = 8,   // objects of which something is kept
    RESTED = 2, // seconds: file systems tell times to within some milliseconds, two seconds at the worst
    SOURCES = AS_LAYOUT_SCAN + 1,
};

// Which file, in which state. ctime is the kernel's: nobody sets it.
struct file_state {
    uint64_t device, number, size;
    struct timespec modified, changed;
};

struct as_kept_answers {
    struct file_state file, debug; // debug: all 0 where there is none
    uint64_t used;                 // when, in requests
    bool asked[SOURCES], found[SOURCES], has_code;
    struct as_answer answers[SOURCES];
    struct as_banner text;
    bool has_text;
    uint64_t malloc_start, malloc_end, code_start, code_end;
};

static struct as_kept_answers table[MOST];
static uint64_t requests;
static bool keeping;

void as_answers_keep(void)
{
    keeping = true;
}

// Only where the kernel itself writes the times, at each change: another machine's word for them comes late.
static bool is_local(int fd)
{
    static const uint32_t local[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC,
                                     TMPFS_MAGIC,      F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};
    struct statfs system;
    if (fstatfs(fd, &system) != 0)
        return false;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if ((uint32_t)system.f_type == local[i])
            return true;
    return false;
}

static bool has_rested(const struct timespec *since, const struct timespec *now)
{
    return since->tv_sec < now->tv_sec - RESTED;
}

// False: of this file nothing may be kept. One that has changed just now may change again within the same tick of its clock.
static bool read_state(int fd, struct file_state *state)
{
    struct stat stat;
    struct timespec now;
    memset(state, 0, sizeof *state);
    if (fstat(fd, &stat) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0 || !has_rested(&stat.st_ctim, &now) ||
        !has_rested(&stat.st_mtim, &now) || !is_local(fd))
        return false;
    state->device = stat.st_dev;
    state->number = stat.st_ino;
    state->size = (uint64_t)stat.st_size;
    state->modified = stat.st_mtim;
    state->changed = stat.st_ctim;
    return true;
}

static bool is_same(const struct file_state *a, const struct file_state *b)
{
    return memcmp(a, b, sizeof *a) == 0; // of words alone, without gaps
}

struct as_kept_answers *as_answers_of(const struct as_object *object)
{
    struct file_state file, debug = {0};
    struct as_kept_answers *oldest = table;
    if (!keeping || object->elf->fd < 0 || !read_state(object->elf->fd, &file) ||
        (object->debug.fd >= 0 && !read_state(object->debug.fd, &debug)))
        return NULL;
    ++requests;
    for (struct as_kept_answers *k = table; k < table + MOST; k++) {
        if (k->used != 0 && is_same(&k->file, &file) && is_same(&k->debug, &debug)) {
            k->used = requests;
            return k;
        }
        oldest = k->used < oldest->used ? k : oldest;
    }
    *oldest = (struct as_kept_answers){.file = file, .debug = debug, .used = requests};
    return oldest;
}

bool as_kept_ask(struct as_kept_answers *kept, struct as_object *object, enum as_layout_source source,
                 struct as_answer *answer)
{
    // DWARF may lie in further files.
    if (!kept || source == AS_LAYOUT_DWARF)
        return as_object_ask(object, source, answer);
    if (!kept->asked[source]) {
        kept->found[source] = as_object_ask(object, source, &kept->answers[source]);
        kept->asked[source] = true;
    }
    *answer = kept->answers[source];
    return kept->found[source];
}

const struct as_banner *as_kept_banner(struct as_kept_answers *kept, struct as_object *object)
{
    if (!kept)
        return as_object_banner(object);
    if (kept->has_text && !object->has_text) {
        object->text = kept->text;
        object->has_text = true;
    }
    const struct as_banner *text = as_object_banner(object);
    if (!kept->has_text)
        kept->text = *text;
    kept->has_text = true;
    return text;
}

void as_kept_code(struct as_kept_answers *kept, const struct as_elf *elf, struct as_libc *libc)
{
    if (!kept || !kept->has_code)
        as_code_find(elf, 0, libc);
    if (!kept)
        return;
    if (!kept->has_code) {
        kept->malloc_start = libc->malloc_start;
        kept->malloc_end = libc->malloc_end;
        kept->code_start = libc->code_start;
        kept->code_end = libc->code_end;
        kept->has_code = true;
    }
    libc->malloc_start = kept->malloc_start;
    libc->malloc_end = kept->malloc_end;
    libc->code_start = kept->code_start;
    libc->code_end = kept->code_end;
}
