// SPDX-License-Identifier: MIT
// The mappings of a live process, from /proc/PID/smaps, and its threads.
//
// smaps, not maps: its counts are read from the page tables, where statm and status are kept per CPU and lag. That takes
// some 15 ms a GB, so before a process is caught, when counts would be stale anyway, maps has to do.
#include "target/process/read/live_process.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static bool starts_with(const char *text, size_t length, const char *prefix)
{
    size_t prefix_length = strlen(prefix);
    return length >= prefix_length && memcmp(text, prefix, prefix_length) == 0;
}

static bool equals(const char *text, size_t length, const char *other)
{
    return length == strlen(other) && memcmp(text, other, length) == 0;
}

// Learns which devices hold tmpfs. The kernel's own instance (behind memfd, SysV and shared anonymous memory) is
// mounted nowhere, but any memfd of ours lies on it too.
void as_process_learn_tmpfs(struct as_process *p)
{
    p->dev_shmem = UINT64_MAX;
    AS_CLEANUP_FD int memfd = memfd_create("arenascope", MFD_CLOEXEC);
    struct stat stat;
    if (memfd >= 0 && fstat(memfd, &stat) == 0)
        p->dev_shmem = AS_DEV(major(stat.st_dev), minor(stat.st_dev));
    p->dev_tmpfs.count = 0;
    struct as_lines lines;
    if (!as_lines_open(&lines, p->view_fd, "mountinfo"))
        return;
    size_t length;
    for (const char *line; (line = as_lines_next(&lines, &length));) {
        // "36 35 0:25 / /dev/shm rw shared:2 - tmpfs tmpfs rw": the third field, and the one after " - ".
        const char *end = line + length;
        const char *type = memmem(line, length, " - tmpfs ", 9);
        const char *at = type ? memchr(line, ' ', length) : NULL;
        at = at ? memchr(at + 1, ' ', (size_t)(end - at - 1)) : NULL;
        if (!at)
            continue;
        ++at;
        uint64_t dev_major = as_parse_decimal(&at, end);
        if (at == end || *at++ != ':')
            continue;
        uint64_t dev_minor = as_parse_decimal(&at, end);
        uint64_t *dev = as_vec_add(&p->dev_tmpfs, NULL);
        if (dev)
            *dev = AS_DEV(dev_major, dev_minor);
    }
    as_lines_close(&lines);
}

bool as_process_is_tmpfs(const struct as_process *p, uint64_t dev)
{
    if (dev == p->dev_shmem)
        return true;
    for (size_t i = 0; i < p->dev_tmpfs.count; ++i) {
        if (dev == p->dev_tmpfs.items[i])
            return true;
    }
    return false;
}

static enum as_mapping_kind classify_mapping(const struct as_process *p, const struct as_mapping *m, const char *path,
                                             size_t length)
{
    bool shared = m->prot & AS_PROT_SHARED;
    if (length == 0)
        return shared ? AS_MAP_SHMEM : AS_MAP_ANON;
    if (path[0] == '[') {
        if (starts_with(path, length, "[heap]") || starts_with(path, length, "[stack") ||
            starts_with(path, length, "[anon:"))
            return AS_MAP_ANON;
        return starts_with(path, length, "[anon_shmem:") ? AS_MAP_SHMEM : AS_MAP_SPECIAL;
    }
    // MAP_HUGETLB memory without a file of the target's own, and MAP_PRIVATE of /dev/zero: anonymous by another name.
    if (!shared && (starts_with(path, length, "/anon_hugepage") || equals(path, length, "/dev/zero")))
        return AS_MAP_ANON;
    if (as_process_is_tmpfs(p, AS_DEV(m->dev_major, m->dev_minor)) || starts_with(path, length, "/dev/shm/") ||
        starts_with(path, length, "/memfd:") || starts_with(path, length, "/SYSV") ||
        equals(path, length, "/dev/zero (deleted)") || starts_with(path, length, "/anon_hugepage"))
        return AS_MAP_SHMEM;
    return AS_MAP_FILE;
}

// Stores a path with its newlines, which the kernel writes as \012, unescaped. The mappings of one library follow one
// another: a path that the mapping before has too is stored once.
static uint32_t store_path(struct as_target *t, const char *path, size_t length)
{
    char plain[8192];
    if (length > sizeof plain)
        length = sizeof plain;
    size_t used = 0;
    for (size_t i = 0; i < length;) {
        if (path[i] == '\\' && starts_with(path + i, length - i, "\\012")) {
            plain[used++] = '\n';
            i += 4;
        } else {
            plain[used++] = path[i++];
        }
    }
    size_t count = t->mappings.count;
    if (count > 1) {
        uint32_t before = t->mappings.items[count - 2].path;
        if (equals(plain, used, as_strings_at(&t->strings, before)))
            return before;
    }
    return as_strings_add(&t->strings, plain, used);
}

// Parses "start-end rwxp offset major:minor inode      path" into a new mapping. NULL: memory ran out (err is
// written), or there is nothing to keep of it (err is not).
static struct as_mapping *add_mapping(struct as_process *p, const char *line, size_t length, struct as_error *err)
{
    struct as_target *t = &p->base;
    const char *at = line;
    const char *end = line + length;
    struct as_mapping m = {.kernel_page_size = t->page_size};
    m.start = as_parse_hex(&at, end);
    at += at < end;
    m.end = as_parse_hex(&at, end);
    at += at < end;
    if (end - at < 5 || m.end <= m.start)
        return NULL;
    m.prot = (at[0] == 'r' ? AS_PROT_READ : 0u) | (at[1] == 'w' ? AS_PROT_WRITE : 0u) |
             (at[2] == 'x' ? AS_PROT_EXEC : 0u) | (at[3] == 's' ? AS_PROT_SHARED : 0u);
    at += 5;
    m.offset = as_parse_hex(&at, end);
    at += at < end;
    m.dev_major = (uint32_t)as_parse_hex(&at, end);
    at += at < end;
    m.dev_minor = (uint32_t)as_parse_hex(&at, end);
    at += at < end;
    m.inode = as_parse_decimal(&at, end);
    while (at < end && *at == ' ')
        ++at;
    m.kind = classify_mapping(p, &m, at, (size_t)(end - at));
    if (!p->counting)
        m.rss = m.shared = m.anonymous = m.swap = m.hugetlb = AS_UNKNOWN;
    // A running target can change its mappings between two reads of the file, so that one may be seen twice.
    uint64_t floor = t->mappings.count ? t->mappings.items[t->mappings.count - 1].end : 0;
    if (m.end <= floor)
        return NULL;
    if (m.start < floor) {
        m.offset += m.kind == AS_MAP_ANON ? 0 : floor - m.start;
        m.start = floor;
    }
    struct as_mapping *added = as_vec_add(&t->mappings, err);
    if (!added)
        return NULL;
    *added = m;
    added->path = store_path(t, at, (size_t)(end - at));
    return added;
}

// "Rss:      1234 kB" and its like, of one mapping.
static void add_count(struct as_mapping *m, const char *line, size_t length)
{
    const char *end = line + length;
    const char *at = memchr(line, ':', length);
    if (!at)
        return;
    size_t key = (size_t)(at - line);
    ++at;
    while (at < end && *at == ' ')
        ++at;
    if (equals(line, key, "VmFlags")) {
        // io: device registers; pf: page frames without a struct page. Neither is ever in Rss.
        for (; end - at >= 2; at += at + 2 < end ? 3 : 2) {
            if (memcmp(at, "io", 2) == 0 || memcmp(at, "pf", 2) == 0)
                m->kind = AS_MAP_SPECIAL;
            m->not_inherited |= memcmp(at, "dc", 2) == 0 || memcmp(at, "wf", 2) == 0;
            m->droppable |= memcmp(at, "dp", 2) == 0;
            m->locked |= memcmp(at, "lo", 2) == 0;
            m->noreserve |= memcmp(at, "nr", 2) == 0;
        }
        return;
    }
    uint64_t *field = equals(line, key, "Rss")              ? &m->rss
                      : equals(line, key, "Anonymous")      ? &m->anonymous
                      : equals(line, key, "Swap")           ? &m->swap
                      : equals(line, key, "KernelPageSize") ? &m->kernel_page_size
                                                            : NULL;
    bool hugetlb = equals(line, key, "Private_Hugetlb") || equals(line, key, "Shared_Hugetlb");
    // Clean pages of a file are the page cache's.
    bool shared = !(m->prot & AS_PROT_SHARED) &&
                  (equals(line, key, "Shared_Dirty") || (m->kind == AS_MAP_ANON && equals(line, key, "Shared_Clean")));
    if (!field && !hugetlb && !shared)
        return;
    uint64_t bytes = as_parse_decimal(&at, end);
    if (__builtin_mul_overflow(bytes, 1024, &bytes))
        return;
    if (hugetlb)
        m->hugetlb += bytes;
    else if (shared)
        m->shared += bytes;
    else
        *field = bytes;
}

// The next line; the kernel goes through the page tables of its mapping for it.
static const char *next_line(const struct as_process *p, struct as_lines *lines, size_t *length)
{
    if (!as_process_read_begin(p))
        return NULL;
    const char *line = as_lines_next(lines, length);
    as_process_read_end(p);
    return line;
}

bool as_process_read_maps(struct as_process *p, bool count, struct as_error *err)
{
    struct as_target *t = &p->base;
    p->counting = count && !p->no_smaps;
    t->mappings.count = 0;
    t->strings.count = p->strings_kept;
    p->verdict_start = AS_UNKNOWN;
    p->occupied_start = AS_UNKNOWN;
    struct as_lines lines;
    bool opened = as_lines_open(&lines, p->view_fd, p->counting ? "smaps" : "maps");
    if (!opened && errno == ENOENT && p->counting) {
        p->no_smaps = true; // CONFIG_PROC_PAGE_MONITOR is off; if the process is gone instead, maps is too
        p->counting = false;
        opened = as_lines_open(&lines, p->view_fd, "maps");
    }
    if (!opened && (errno == EACCES || errno == EPERM))
        return as_process_denied(p, "its mappings", err);
    if (!opened)
        return as_process_unread(p, "its mappings cannot be read", err);
    struct as_error memory = {0};
    struct as_mapping *current = NULL;
    size_t length;
    for (const char *line; memory.code == AS_OK && (line = next_line(p, &lines, &length));) {
        // A mapping begins with a lower-case hexadecimal digit, a count with an upper-case letter.
        if (length > 0 && (line[0] < 'A' || line[0] > 'Z'))
            current = add_mapping(p, line, length, &memory);
        else if (current)
            add_count(current, line, length);
    }
    as_lines_close(&lines);
    if (lines.error != 0 && lines.error != ESRCH) { // the process ended: what is left of the list tells
        errno = lines.error;
        return as_fail_errno(err, AS_INTERNAL, "the mappings of process %d cannot be read to their end", t->pid);
    }
    t->counts.rss = t->counts.shared = t->counts.swap = p->counting ? 0 : AS_UNKNOWN;
    for (size_t i = 0; i < t->mappings.count && p->counting; ++i) {
        t->counts.rss += t->mappings.items[i].rss;
        t->counts.shared += t->mappings.items[i].shared;
        t->counts.swap += t->mappings.items[i].swap;
    }
    return memory.code == AS_OK || as_fail(err, memory.code, "%s", memory.text);
}

bool as_process_refresh_maps(struct as_process *p, bool count, struct as_error *err)
{
    // Empty when the thread through which we read has just ended: try another one.
    for (int attempt = 0; attempt < 3; ++attempt) {
        if (!as_process_view(p, err) || !as_process_read_maps(p, count, err))
            return false;
        if (p->base.mappings.count > 0)
            break;
    }
    if (p->base.mappings.count == 0)
        return as_process_gone(p, err);
    p->lost = false;
    return as_process_intact(&p->base, err);
}

void as_process_read_thread_name(const struct as_process *p, struct as_thread *thread)
{
    char comm[sizeof thread->name + 1];
    ssize_t length = as_proc_read(p->proc_fd, as_proc_name("task/%d/comm", thread->tid).text, comm, sizeof comm);
    if (length > 0 && comm[length - 1] == '\n')
        --length;
    if (length > 0)
        memcpy(thread->name, comm, (size_t)length < sizeof thread->name ? (size_t)length : sizeof thread->name - 1);
}

bool as_process_refresh_threads(struct as_process *p, struct as_error *err)
{
    struct as_target *t = &p->base;
    t->threads.count = 0;
    if (!as_process_list_threads(p, err))
        return false;
    for (size_t i = 0; i < p->tids.count; ++i) {
        struct as_proc_stat stat;
        if (!as_proc_stat(p->proc_fd, as_proc_name("task/%d/stat", p->tids.items[i]).text, &stat) ||
            as_proc_is_dead(stat.state))
            continue;
        struct as_thread *thread = as_vec_add(&t->threads, err);
        if (!thread)
            return false;
        *thread = (struct as_thread){.tid = p->tids.items[i], .tp = AS_UNKNOWN, .sp = AS_UNKNOWN, .pc = AS_UNKNOWN};
        as_process_read_thread_name(p, thread);
    }
    return true;
}
