// SPDX-License-Identifier: MIT
// A live process, inspected from outside through /proc and process_vm_readv.
#include "target/process/process.h"
#include "target/process/clone/clone_target.h"
#include "target/process/read/pagemap.h"
#include "target/process/stop/quiesce.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

// So much of a command line is kept: enough to recognise a program by.
enum { CMDLINE_BYTES = 16 * 1024 };
// How many addresses one process_vm_readv gets. The kernel allows 1024; 256 keep the arrays on a small stack.
enum { GATHER = 256, MOST_AT_ONCE = 1 << 20 };
// For how long a process in the middle of an exec is opened again, and how long is between two attempts.
#define EXEC_NS UINT64_C(1000000000)
enum { AGAIN_NS = 200000 };

// May the mapping table's word be taken that [address, address + 1) is readable? Returns how far, at most `length`.
// /proc/PID/mem reads even PROT_NONE memory, and would map pages into the target by doing so.
static size_t readable_length(const struct as_target *t, uint64_t address, size_t length)
{
    const struct as_mapping *m = as_target_mapping_at(t, address);
    // The vdso is the only special memory that is read: reading a device may do something.
    if (!m || !(m->prot & AS_PROT_READ) || (m->kind == AS_MAP_SPECIAL && strcmp(as_mapping_path(t, m), "[vdso]") != 0))
        return 0;
    return m->end - address < length ? (size_t)(m->end - address) : length;
}

static size_t read_mem(struct as_process *p, uint64_t address, uint8_t *buffer, size_t length)
{
    size_t done = 0;
    while (done < length) {
        size_t part = readable_length(&p->base, address + done, length - done);
        // A file offset is signed: what lies in the upper half is the kernel's anyway.
        if (part == 0 || address + done + part > INT64_MAX)
            break;
        ssize_t got = pread(p->mem_fd, buffer + done, part, (off_t)(address + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

// process_vm_readv goes by number, and follows an exec. Was what it has just read the memory that we opened? A thread
// that we have stopped keeps its number and its program until we let it go, even when it is killed; of another one,
// that the memory still lives says it.
static bool same_memory(const struct as_process *p)
{
    return p->base.stop.active || as_target_is_self(&p->base) || as_process_alive(p);
}

// Whether to read through /proc/PID/mem. process_vm_readv is faster, but pins the pages that it copies, and of a page that a
// process shares with others since a fork (or by KSM) the kernel gives it a copy of its own then: to read a clone, or one of
// a server's forked workers, would cost all of the heap's memory once more, from the target's memory cgroup.
static bool by_file(const struct as_process *p)
{
    const struct as_target *t = &p->base;
    if (p->no_vm_readv || as_target_is_self(t))
        return p->no_vm_readv;
    // One that runs may fork at any time, and then all that we read would be copied.
    return p->clone.pid != 0 || t->counts.shared != 0 || !t->stop.active;
}

// What to do about a process_vm_readv of thread `tid` that failed. True: try again, for we reads through another thread now.
static bool try_again(struct as_process *p, pid_t tid)
{
    if (errno == EPERM || errno == ENOSYS)
        p->no_vm_readv = true;
    if (errno != ESRCH)
        return false;
    // The thread through which we read has ended; others may still have the memory.
    pthread_mutex_lock(&p->lock);
    bool found = p->view_tid != tid || (as_process_view(p, NULL) && p->view_tid != tid);
    pthread_mutex_unlock(&p->lock);
    p->lost = p->lost || !found;
    return found;
}

// Was the target let go because its time was up? as_process_intact will say so; what is still to be read is not worth it.
static bool is_past(const struct as_process *p)
{
    return p->reads->over || (p->due_ns != 0 && as_now_ns() >= p->due_ns);
}

uint64_t as_process_reads(const struct as_process *p, bool *pending)
{
    *pending = as_reads_pending(p->reads);
    return p->reads->ended;
}

static size_t read_any(struct as_process *p, uint64_t address, void *buffer, size_t length)
{
    p->verdict_start = AS_UNKNOWN; // reading an absent page maps the zero page there
    if (length > UINT64_MAX - address)
        length = (size_t)(UINT64_MAX - address);
    size_t done = 0;
    while (done < length && !by_file(p)) {
        struct iovec local = {(uint8_t *)buffer + done, length - done};
        struct iovec remote = {(void *)(uintptr_t)(address + done), length - done};
        pid_t tid = p->view_tid;
        ssize_t got = process_vm_readv(tid, &local, 1, &remote, 1, 0);
        if (got < 0 && try_again(p, tid))
            continue;
        // Short, it stopped before a page that cannot be read, and the next call says so with EFAULT.
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    if (by_file(p))
        return done + read_mem(p, address + done, (uint8_t *)buffer + done, length - done);
    return done > 0 && !same_memory(p) ? 0 : done;
}

// Copies up to `length` bytes; returns how many, from the start, could be read. 0 also when the process is gone.
size_t as_process_read(struct as_target *t, uint64_t address, void *buffer, size_t length)
{
    struct as_process *p = as_process_of(t);
    size_t done = 0;
    // In parts: while one is read, its memory cannot be freed.
    while (done < length && !is_past(p) && as_process_read_begin(p)) {
        size_t part = length - done < MOST_AT_ONCE ? length - done : MOST_AT_ONCE;
        // Each read asks: a page may be swapped out since the page map was read.
        if (t->residency.fetch == AS_FETCH_REFUSED)
            part = as_process_unswapped(p, address + done, part);
        size_t got = part == 0 ? 0 : read_any(p, address + done, (uint8_t *)buffer + done, part);
        as_process_read_end(p);
        done += got;
        if (got < part || part == 0)
            break;
    }
    return done;
}

static size_t read_kept(struct as_target *t, uint64_t address, void *buffer, size_t length)
{
    const struct as_process *p = as_process_of(t);
    struct iovec local = {buffer, length};
    struct iovec remote = {(void *)(uintptr_t)address, length};
    ssize_t got = p->clone.pid != 0 && !is_past(p) ? process_vm_readv(t->pid, &local, 1, &remote, 1, 0) : 0;
    return got > 0 ? (size_t)got : 0;
}

static bool kept_pages(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages)
{
    enum { ENTRIES = 512 };
    const struct as_process *p = as_process_of(t);
    uint64_t entries[ENTRIES];
    if (p->clone.pid == 0 || is_past(p))
        return false;
    for (uint64_t at = start; at < end;) {
        uint64_t left = (end - at) / t->page_size;
        size_t count = left < ENTRIES ? (size_t)left : ENTRIES;
        if (pread(p->clone.pagemap_fd, entries, count * sizeof *entries,
                  (off_t)(at / t->page_size * sizeof *entries)) != (ssize_t)(count * sizeof *entries))
            return false;
        for (size_t i = 0; i < count; i++, at += t->page_size) // bits 63 and 62 of pagemap: present, swapped
            *pages++ = entries[i] >> 62 ? AS_RES_PRESENT : 0;
    }
    return true;
}

void as_process_gather(struct as_target *t, const uint64_t *addresses, size_t count, size_t length, void *out,
                       size_t stride, bool *ok)
{
    struct as_process *p = as_process_of(t);
    p->verdict_start = AS_UNKNOWN;
    memset(ok, 0, count * sizeof *ok);
    size_t i = 0;
    for (; i < count && length > 0 && t->residency.fetch == AS_FETCH_REFUSED; ++i)
        ok[i] = as_process_read(t, addresses[i], (uint8_t *)out + i * stride, length) == length;
    if (length == 0 || i == count || is_past(p) || !as_process_read_begin(p))
        return;
    while (i < count && !by_file(p) && !p->lost && !p->reads->over) {
        struct iovec local[GATHER];
        struct iovec remote[GATHER];
        size_t batch = count - i < GATHER ? count - i : GATHER;
        for (size_t k = 0; k < batch; ++k) {
            local[k] = (struct iovec){(uint8_t *)out + (i + k) * stride, length};
            remote[k] = (struct iovec){(void *)(uintptr_t)addresses[i + k], length};
        }
        pid_t tid = p->view_tid;
        ssize_t got = process_vm_readv(tid, local, batch, remote, batch, 0);
        if (got < 0 && (try_again(p, tid) || p->no_vm_readv))
            continue;
        size_t whole = got < 0 ? 0 : (size_t)got / length;
        memset(ok + i, 1, whole * sizeof *ok);
        i += whole;
        // The transfer ended at the first address that cannot be read, or not wholly: that one is false.
        if (whole < batch)
            ++i;
    }
    for (; i < count && !p->lost && !p->reads->over; ++i)
        ok[i] = read_mem(p, addresses[i], (uint8_t *)out + i * stride, length) == length;
    if (!by_file(p) && !same_memory(p))
        memset(ok, 0, count * sizeof *ok);
    as_process_read_end(p);
}

struct as_process *as_process_new(const struct as_target_ops *ops, enum as_target_kind kind, struct as_error *err)
{
    struct as_process *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        as_fail_errno(err, AS_NO_MEMORY, "no memory to describe a process");
        return NULL;
    }
    // Nobody else reads our own process, and no supervisor watches.
    void *shared = kind == AS_TARGET_SELF
                       ? &p->own_reads
                       : mmap(NULL, sizeof *p->reads, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    p->reads = shared == MAP_FAILED ? &p->own_reads : shared;
    p->base.ops = ops;
    p->base.kind = kind;
    p->base.page_size = (uint32_t)sysconf(_SC_PAGESIZE);
    p->base.residency.known = true;
    pthread_mutex_init(&p->lock, NULL);
    p->occupied_start = AS_UNKNOWN;
    p->proc_fd = p->view_fd = p->mem_fd = p->pagemap_fd = p->kpageflags_fd = -1;
    return p;
}

void as_process_close(struct as_target *t)
{
    struct as_process *p = as_process_of(t);
    as_close_fd(&p->proc_fd);
    as_close_fd(&p->view_fd);
    as_close_fd(&p->mem_fd);
    as_close_fd(&p->pagemap_fd);
    as_close_fd(&p->kpageflags_fd);
    as_process_forget_swap_room(p);
    AS_FREE_VECS(p, tracees, tids, dev_tmpfs, occupied);
    AS_FREE_VECS(t, mappings, threads, strings);
    if (p->reads != &p->own_reads)
        munmap(p->reads, sizeof *p->reads);
    munmap(p, sizeof *p);
}

// The kernel reads them from the process's memory, where they may be in swap.
static bool may_read_arguments(struct as_process *p)
{
    char why[AS_NO_ROOM];
    uint64_t swap = as_proc_status(p->view_fd, "status", "VmSwap:");
    return swap == 0 || swap == AS_PROC_NONE || as_process_has_swap_room(&p->base, 0, why, sizeof why);
}

static void read_names(struct as_process *p)
{
    struct as_target *t = &p->base;
    char text[CMDLINE_BYTES];
    ssize_t length = as_proc_read(p->view_fd, "comm", text, sizeof t->comm + 1);
    if (length > 0 && text[length - 1] == '\n')
        --length;
    if (length > 0)
        memcpy(t->comm, text, (size_t)length < sizeof t->comm ? (size_t)length : sizeof t->comm - 1);
    char path[PATH_MAX];
    length = readlinkat(p->view_fd, "exe", path, sizeof path);
    if (length > 0)
        t->exe = as_strings_add(&t->strings, path, (size_t)length);
    length = may_read_arguments(p) ? as_proc_read(p->view_fd, "cmdline", text, sizeof text) : 0;
    while (length > 0 && text[length - 1] == '\0')
        --length;
    for (ssize_t i = 0; i < length; ++i) {
        if (text[i] == '\0')
            text[i] = ' ';
    }
    if (length > 0)
        t->cmdline = as_strings_add(&t->strings, text, (size_t)length);
    p->strings_kept = t->strings.count;
}

// The architecture by the program's own header. Without permission to open it, that the program is ours or the
// kernel's native one is not assumed: the caller fails on /proc/PID/mem then, with a better message.
static bool read_arch(struct as_process *p, struct as_error *err)
{
    unsigned char header[EI_NIDENT + 4];
    AS_CLEANUP_FD int fd = openat(p->view_fd, "exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return as_process_denied(p, "which program it runs", err);
    // It has given up its memory. (Kernel threads, which have none, were told apart before.)
    if (fd < 0 && (errno == ENOENT || errno == ESRCH))
        return as_process_gone(p, err);
    if (fd < 0)
        return as_fail_errno(err, as_process_unopened(AS_UNSUPPORTED), "the program of process %d cannot be opened",
                             p->base.pid);
    if (pread(fd, header, sizeof header, 0) != sizeof header || memcmp(header, ELFMAG, SELFMAG) != 0)
        return as_fail(err, AS_UNSUPPORTED, "the program of process %d is not an ELF file", p->base.pid);
    unsigned machine = header[EI_NIDENT + 2] | (unsigned)header[EI_NIDENT + 3] << 8;
    if (header[EI_CLASS] != ELFCLASS64)
        return as_fail(err, AS_UNSUPPORTED, "process %d (%s) runs 32-bit code: only 64-bit programs are supported",
                       p->base.pid, p->base.comm);
    if (header[EI_DATA] != ELFDATA2LSB || (machine != EM_X86_64 && machine != EM_AARCH64))
        return as_fail(err, AS_UNSUPPORTED,
                       "process %d (%s) is a program for ELF machine %u: only x86-64 and aarch64 are supported",
                       p->base.pid, p->base.comm, machine);
    p->base.arch = machine == EM_X86_64 ? AS_ARCH_X86_64 : AS_ARCH_AARCH64;
    return true;
}

bool as_process_attach_files(struct as_process *p, struct as_error *err)
{
    // Our own files may be out of reach, when we have changed our user; what is in them can be had otherwise (self.c).
    bool own = as_target_is_self(&p->base);
    read_names(p);
    if (!own && !read_arch(p, err))
        return false;
    p->pagemap_fd = openat(p->view_fd, "pagemap", O_RDONLY | O_CLOEXEC);
    if (p->pagemap_fd < 0 && !own && (errno == EACCES || errno == EPERM))
        return as_process_denied(p, "which of its pages are resident", err);
    if (p->pagemap_fd < 0 && !own)
        return as_process_unread(p, "its pagemap in /proc cannot be opened", err);
    p->mem_fd = openat(p->view_fd, "mem", O_RDONLY | O_CLOEXEC);
    if (p->mem_fd < 0 && !own && (errno == EACCES || errno == EPERM))
        return as_process_denied(p, "its memory", err);
    if (p->mem_fd < 0 && !own)
        return as_process_unread(p, "its mem in /proc cannot be opened", err);
    p->kpageflags_fd = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
    as_process_learn_tmpfs(p);
    if (!as_process_refresh_maps(p, false, err) || !as_process_refresh_threads(p, err))
        return false;
    uint64_t anonymous = as_proc_status(p->view_fd, "status", "RssAnon:");
    uint64_t swap = as_proc_status(p->view_fd, "status", "VmSwap:");
    // Whether the kernel knows PAGEMAP_SCAN decides how a snapshot begins.
    uint64_t first = p->base.mappings.items[0].start;
    if (p->pagemap_fd >= 0)
        as_process_scan_first(p, first, first + p->base.page_size);
    p->base.hint.anonymous = anonymous == AS_PROC_NONE ? AS_UNKNOWN : anonymous * 1024;
    p->base.hint.swap = swap == AS_PROC_NONE ? AS_UNKNOWN : swap * 1024;
    return true;
}

bool as_process_count(struct as_target *t, struct as_error *err)
{
    return as_process_refresh_maps(as_process_of(t), true, err);
}

static const struct as_target_ops process_ops = {
    .memory.read = as_process_read,
    .residency.pages = as_process_residency,
    .residency.absent_until = as_process_absent_until,
    .residency.count = as_process_count,
    .residency.count_begin = as_process_count_begin,
    .residency.count_end = as_process_count_end,
    .open_file = as_process_open_file,
    .open_root = as_process_open_root,
    .open_files = as_process_open_files,
    .stop.stop = as_process_stop,
    .stop.stop_clean = as_process_stop_clean,
    .stop.fork = as_process_fork,
    .stop.resume = as_process_let_go,
    .stop.intact = as_process_intact,
    .close = as_process_close,
    .memory.gather = as_process_gather,
    .memory.read_kept = read_kept,
    .residency.kept = kept_pages,
    .residency.page_out = as_process_page_out,
    .residency.has_room = as_process_has_swap_room,
};

// Checks that /proc is there and numbers processes as our own system calls do (it may be another namespace's).
static bool check_proc(struct as_error *err)
{
    char self[32];
    ssize_t length = readlink("/proc/self", self, sizeof self);
    if (length < 0)
        return as_fail_errno(err, AS_DENIED, "/proc is not mounted here (mount -t proc proc /proc)");
    const char *at = self;
    if (as_parse_decimal(&at, self + length) != (uint64_t)getpid())
        return as_fail(err, AS_DENIED, "/proc belongs to another PID namespace than arenadump: mount /proc anew");
    return true;
}

static struct as_process *open_once(pid_t pid, struct as_error *err)
{
    struct as_process *p = as_process_new(&process_ops, AS_TARGET_PROCESS, err);
    if (!p)
        return NULL;
    p->base.pid = pid;
    p->proc_fd = pid > 0 ? open(as_proc_name("/proc/%d", pid).text, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool ok = p->proc_fd >= 0;
    if (!ok && pid > 0 && (kill(pid, 0) == 0 || errno == EPERM))
        as_fail(err, AS_DENIED, "process %d exists, but /proc hides it (hidepid): run as root", pid);
    else if (!ok)
        as_fail(err, AS_NO_TARGET, "there is no process with pid %d (ps -e lists all)", pid);
    uint64_t group = ok ? as_proc_status(p->proc_fd, "status", "Tgid:") : 0;
    if (ok && group != AS_PROC_NONE && group != (uint64_t)pid)
        ok = as_fail(err, AS_NO_TARGET, "%d is not a process but a thread of process %d: give the process id", pid,
                     (int)group);
    if (ok && as_process_view(p, err) && as_process_attach_files(p, err))
        return p;
    as_process_close(&p->base);
    return NULL;
}

// While a thread executes a program, the others end, the program's memory goes, and the first thread's id becomes that thread's: what we
// have opened may be of either, and be gone. So a process that lives is opened again.
struct as_target *as_target_open_process(pid_t pid, struct as_error *err)
{
    uint64_t deadline = as_now_ns() + EXEC_NS;
    struct as_process *p;
    if (!check_proc(err))
        return NULL;
    while (!(p = open_once(pid, err)) && err->code == AS_TARGET_GONE && as_process_runs(pid) && as_now_ns() < deadline)
        as_sleep_ns(AGAIN_NS);
    if (p)
        as_target_may_fetch(&p->base);
    return p ? &p->base : NULL;
}
