// SPDX-License-Identifier: MIT
// A core file, written by the kernel or by gdb's gcore. Read with pread only: a file that shrinks while we inspect would
// kill us with SIGBUS if it were mapped.
#include "target/core/core.h"
#include "target/paths.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static size_t core_read(struct as_target *t, uint64_t address, void *buffer, size_t length)
{
    const struct as_core *c = as_core_of(t);
    size_t done = 0;
    while (done < length) {
        uint64_t at;
        const struct as_segment *s = __builtin_add_overflow(address, done, &at) ? NULL : as_core_segment_at(c, at);
        if (!s)
            break;
        uint64_t skip = at - s->start;
        uint64_t stored = as_core_stored(c, s);
        if (skip >= stored) // not in the file: read as nothing, never as zeros
            break;
        size_t part = stored - skip < length - done ? (size_t)(stored - skip) : length - done;
        size_t got = as_core_pread(c, s->offset + skip, (uint8_t *)buffer + done, part);
        done += got;
        if (got < part)
            break;
    }
    return done;
}

// A header may claim any amount of memory, and a filter or a short disk may have kept most of it out of the file. So may the
// list of mapped files: a mapping that only this list has is in no segment, as a mapping ends where a segment begins.
static uint64_t core_missing_until(struct as_target *t, uint64_t address)
{
    const struct as_core *c = as_core_of(t);
    const struct as_segment *s = as_core_segment_at(c, address);
    if (!s) {
        const struct as_mapping *m = as_target_mapping_at(t, address);
        return m ? m->end : address;
    }
    return address - s->start >= as_core_stored(c, s) ? s->end : address;
}

// Does the file begin with the very page that the core has of it? 1 yes, 0 no, -1 the core has none.
static int same_first_page(struct as_core *c, const struct as_mapping *m, int fd)
{
    AS_FOR_EACH(const struct as_mapping, first, &c->base.mappings) {
        if (first->path != m->path || first->offset != 0 || (first->prot & AS_PROT_WRITE))
            continue;
        uint8_t in_core[4096];
        uint8_t in_file[4096] = {0}; // behind the file's end a mapping has zeros
        if (core_read(&c->base, first->start, in_core, sizeof in_core) != sizeof in_core)
            continue;
        return as_core_read_file(fd, 0, in_file, sizeof in_file) > 0 && memcmp(in_core, in_file, sizeof in_file) == 0;
    }
    return -1;
}

// A core knows its files by name only. The file of that name on this machine is taken for the one that was mapped if it
// begins with the page that the core keeps of it (which has the build-id, in programs and libraries); or, where the
// core keeps none, if it was not changed or put there after the core was written.
static int core_open_file(struct as_target *t, const struct as_mapping *m, struct as_error *err)
{
    struct as_core *c = as_core_of(t);
    const char *path = as_mapping_path(t, m);
    if (path[0] != '/') {
        as_fail(err, AS_USAGE, "the mapping at %#llx has no file", (unsigned long long)m->start);
        return -1;
    }
    // A core may name anything.
    AS_CLEANUP_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    AS_CLEANUP_FD int fd = root < 0 ? -1 : as_path_open_below(root, path);
    struct stat stat;
    if (fd < 0 || fstat(fd, &stat) != 0) {
        as_fail_errno(err, AS_NO_TARGET, "%s, which the process of the core had mapped, is not on this machine", path);
        return -1;
    }
    int same = same_first_page(c, m, fd);
    if (same == 0 || (same < 0 && as_ns_of(stat.st_ctim) > c->mtime_ns)) {
        as_fail(err, AS_NO_TARGET,
                "%s on this machine is not the file that the process of the core had mapped: it is %s", path,
                same == 0 ? "another build" : "newer than the core");
        return -1;
    }
    int given = fd;
    fd = -1;
    return given;
}

static void core_close(struct as_target *t)
{
    struct as_core *c = as_core_of(t);
    as_close_fd(&c->fd);
    AS_FREE_VECS(c, segments, files, scratch);
    AS_FREE_VECS(t, mappings, threads, strings);
    munmap(c, sizeof *c);
}

static const struct as_target_ops core_ops = {
    .memory.read = core_read,
    .memory.missing_until = core_missing_until,
    .residency.pages = as_core_residency,
    .residency.absent_until = as_core_absent_until,
    .open_file = core_open_file,
    .close = core_close,
};

static bool open_file(struct as_core *c, const char *path, struct as_error *err)
{
    // O_NONBLOCK: a FIFO would let us wait for a writer.
    c->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat stat;
    if (c->fd < 0 || fstat(c->fd, &stat) != 0)
        return as_fail_errno(err, AS_NO_TARGET, "the core file cannot be opened");
    if (!S_ISREG(stat.st_mode))
        return as_fail(err, AS_BAD_INPUT, "this is not a regular file: save the core to one (holes are needed)");
    c->file_size = (uint64_t)stat.st_size;
    c->block_size = stat.st_blksize > 0 ? (uint64_t)stat.st_blksize : 0;
    c->mtime_ns = as_ns_of(stat.st_mtim);
    return true;
}

static void name_program(struct as_core *c)
{
    const struct as_mapping *m = as_target_mapping_at(&c->base, c->program_headers);
    if (m && c->program_headers != 0)
        c->base.exe = m->path;
    if (c->base.pid == 0 && c->base.threads.count > 0)
        c->base.pid = c->base.threads.items[0].tid;
}

struct as_target *as_target_open_core(const char *path, struct as_error *err)
{
    struct as_core *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c == MAP_FAILED) {
        as_fail_errno(err, AS_NO_MEMORY, "no memory to describe a core file");
        return NULL;
    }
    c->fd = -1;
    c->base = (struct as_target){.ops = &core_ops,
                                 .kind = AS_TARGET_CORE,
                                 .page_size = 4096, // until NT_AUXV says otherwise
                                 .counts = {.rss = AS_UNKNOWN, .swap = AS_UNKNOWN, .shared = AS_UNKNOWN}};
    struct as_error why = {0};
    if (open_file(c, path, &why) && as_core_read_headers(c, &why) && as_core_make_mappings(c, &why) &&
        as_core_find_residency(c, &why)) {
        name_program(c);
        if (as_core_find_thread_pointers(c, &why))
            return &c->base;
    }
    as_fail(err, why.code, "%s: %s", path, why.text);
    core_close(&c->base);
    return NULL;
}
