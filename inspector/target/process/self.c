// SPDX-License-Identifier: MIT
// Ourselves: read in place, stopped never. What /proc tells is read as of any other process.
#include "target/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

// The memory itself, as far as it is mapped readable and private without a gap (a shared file that is cut short raises
// SIGBUS; a copy made by the kernel just ends before it). By the mappings as they were read last: the caller
// sees to it that what it inspects is not unmapped meanwhile (it holds the arena's lock).
static const void *self_in_place(struct as_target *t, uint64_t address, size_t *length)
{
    AS_FOR_EACH(const struct as_range, r, &t->in_place.ranges) {
        if (address < r->start || address >= r->end)
            continue;
        if (r->end - address < *length)
            *length = (size_t)(r->end - address);
        return (const void *)(uintptr_t)address;
    }
    if (t->in_place.only)
        return NULL;
    const struct as_mapping *m = as_target_mapping_at(t, address);
    const struct as_mapping *behind = t->mappings.items + t->mappings.count;
    uint64_t end = address;
    for (; m && m < behind; ++m) {
        bool adjoins = end == address || m->start == end;
        if (!adjoins || (m->prot & (AS_PROT_READ | AS_PROT_SHARED)) != AS_PROT_READ || m->kind == AS_MAP_SPECIAL)
            break;
        end = m->end;
        if (end - address >= *length)
            return (const void *)(uintptr_t)address;
    }
    if (end == address)
        return NULL;
    *length = (size_t)(end - address);
    return (const void *)(uintptr_t)address;
}

static uint64_t own_thread_pointer(void)
{
    uint64_t tp;
#if defined(__x86_64__)
    __asm__("mov %%fs:0, %0" : "=r"(tp));
#elif defined(__aarch64__)
    __asm__("mrs %0, tpidr_el0" : "=r"(tp));
#endif
    return tp;
}

// Where a thread's list of robust futexes begins, which libc keeps at one and the same place of every thread's descriptor.
static uint64_t robust_list(pid_t tid)
{
    void *head = NULL;
    size_t length;
    return syscall(SYS_get_robust_list, tid, &head, &length) == 0 ? (uint64_t)(uintptr_t)head : 0;
}

// A thread that was not made by libc has no list, or one elsewhere. On x86-64 the word at the thread pointer is the thread
// pointer itself; on aarch64 (where libc's descriptor lies below it) it can only be memory that a descriptor may lie in.
static bool is_thread_pointer(struct as_target *t, uint64_t tp)
{
    uint64_t word;
    const struct as_mapping *m = as_target_mapping_at(t, tp);
    if (!m || m->kind != AS_MAP_ANON || !(m->prot & AS_PROT_WRITE) || tp % sizeof word != 0)
        return false;
    // Never in place: the thread may end meanwhile, and its memory be unmapped.
    return t->arch != AS_ARCH_X86_64 || (as_process_read(t, tp, &word, sizeof word) == sizeof word && word == tp);
}

// The thread pointers of all threads, though none is stopped. A thread's descriptor lies at the far end of its stack, so that the
// thread pointer does for a place in the stack, too; the main thread's stack is the one that the kernel names.
static void know_threads(struct as_process *p)
{
    struct as_target *t = &p->base;
    pid_t own_tid = (pid_t)syscall(SYS_gettid);
    uint64_t own_tp = own_thread_pointer();
    uint64_t own_list = robust_list(0);
    AS_FOR_EACH(struct as_thread, thread, &t->threads) {
        uint64_t list = thread->tid == own_tid ? own_list : robust_list(thread->tid);
        uint64_t tp = thread->tid == own_tid ? own_tp : list - own_list + own_tp;
        if (thread->tid != own_tid && (list == 0 || own_list == 0 || !is_thread_pointer(t, tp)))
            continue;
        thread->tp = tp;
        thread->sp = thread->tid == own_tid ? (uint64_t)(uintptr_t)__builtin_frame_address(0) : tp;
    }
    AS_FOR_EACH(struct as_thread, thread, &t->threads) {
        for (size_t k = 0; thread->tid == t->pid && thread->tid != own_tid && k < t->mappings.count; ++k)
            if (strcmp(as_mapping_path(t, &t->mappings.items[k]), "[stack]") == 0)
                thread->sp = t->mappings.items[k].end - sizeof(uint64_t);
    }
}

static const char BY_MINCORE[] = "the process has changed its user or group and may not read its own page map: mincore "
                                 "and move_pages were asked instead, which know nothing of swap";
static const char BY_MINCORE_ALONE[] =
    "the process has changed its user or group and may not read its own page map, and move_pages is forbidden too: "
    "mincore cannot tell memory from pages that were only ever read, so how much was resident, and how much came back, "
    "is unknown";

enum {
    ASKED = 256,  // pages in one call
    ATTEMPTS = 5, // a millisecond apart, at pages that are neither here nor there
};

// Has the kernel say again where pages lie that were on their way: compaction moves one in an instant. False: none is any more.
static bool ask_again(size_t count, void **addresses, int *status, const uint8_t *in_transit)
{
    void *left[ASKED];
    int nodes[ASKED];
    size_t many = 0;
    for (size_t i = 0; i < count; ++i)
        if (in_transit[i])
            left[many++] = addresses[i];
    if (many == 0)
        return false;
    as_sleep_ns(1000000);
    if (syscall(SYS_move_pages, 0, many, left, NULL, nodes, 0) != 0)
        return false;
    for (size_t i = count; i-- > 0;)
        if (in_transit[i])
            status[i] = nodes[--many];
    return true;
}

// Where each page lies: a node, or an error. False: the kernel does not answer.
static bool ask_nodes(struct as_target *t, size_t count, void **addresses, const uint8_t *present, int *status)
{
    uint8_t in_transit[ASKED];
    if (syscall(SYS_move_pages, 0, count, addresses, NULL, status, 0) != 0)
        return false;
    for (int attempt = 0; attempt < ATTEMPTS; ++attempt) {
        for (size_t i = 0; i < count; ++i) {
            const struct as_mapping *m = NULL;
            if ((present[i] & 1) && status[i] == -ENOENT)
                m = as_target_mapping_at(t, (uint64_t)(uintptr_t)addresses[i]);
            in_transit[i] = m && m->kind == AS_MAP_ANON;
        }
        if (!ask_again(count, addresses, status, in_transit))
            break;
    }
    return true;
}

// What becomes of pages of which mincore says that they are there. It takes the zero page, which is not in Rss, for memory,
// and what is in the swap cache, too. move_pages without nodes moves nothing, and says of each page on which node
// it lies, or -EFAULT: it is the zero page. ENOENT: it is not mapped (swap cache), or held back to see who uses
// it (NUMA balancing); of a file's page it says that others have it in memory, and we do not. *known: the kernel answered.
static void settle_by_node(struct as_target *t, uint64_t start, size_t count, uint8_t *pages, bool *known)
{
    void *addresses[ASKED];
    int status[ASKED];
    for (size_t i = 0; i < count; ++i)
        addresses[i] = (void *)(uintptr_t)(start + i * t->page_size);
    *known = ask_nodes(t, count, addresses, pages, status);
    for (size_t i = 0; i < count; ++i) {
        const struct as_mapping *m =
            *known && status[i] == -ENOENT ? as_target_mapping_at(t, start + i * t->page_size) : NULL;
        bool cached = m && m->kind != AS_MAP_ANON;
        pages[i] = !(pages[i] & 1)        ? 0
                   : !*known              ? AS_RES_UNKNOWN
                   : status[i] >= 0       ? AS_RES_PRESENT
                   : status[i] == -EFAULT ? AS_RES_ZERO
                   : cached               ? 0
                                          : AS_RES_UNKNOWN;
    }
}

static bool machine_has_swap(void)
{
    struct sysinfo about;
    return sysinfo(&about) != 0 || about.totalswap != 0;
}

// Without pagemap. mincore does not inspect memory that is not mapped.
static bool self_residency(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err)
{
    if (as_process_of(t)->pagemap_fd >= 0)
        return as_process_residency(t, start, end, pages, err);
    t->residency.swap_unknown = machine_has_swap();
    for (uint64_t at = start; at < end;) {
        uint64_t step = (uint64_t)t->page_size * ASKED;
        uint64_t to = end - at < step ? end : at + step;
        size_t count = (to - at) / t->page_size;
        uint8_t *out = pages + (at - start) / t->page_size;
        bool mapped = mincore((void *)(uintptr_t)at, to - at, out) == 0;
        for (size_t i = 0; !mapped && i < count; ++i) // somewhere in between nothing is: one page after the other
            if (mincore((void *)(uintptr_t)(at + i * t->page_size), t->page_size, out + i) != 0)
                out[i] = 0;
        bool known;
        settle_by_node(t, at, count, out, &known);
        if (!known || !t->residency.note)
            t->residency.note = known ? BY_MINCORE : BY_MINCORE_ALONE;
        at = to;
    }
    return true;
}

static const struct as_target_ops self_ops = {
    .memory.read = as_process_read,
    .memory.in_place = self_in_place,
    .residency.pages = self_residency,
    .residency.absent_until = as_process_absent_until,
    .residency.count = as_process_count,
    .open_file = as_process_open_file,
    .close = as_process_close,
};

// Does the kernel tell the zero page (PAGEMAP_SCAN), or do we need its counts for that? Asked about a page of our stack.
static bool needs_counts(struct as_process *p)
{
    uint8_t page;
    uint64_t here = (uintptr_t)&page / p->base.page_size * p->base.page_size;
    return p->pagemap_fd >= 0 &&
           (!as_process_residency(&p->base, here, here + p->base.page_size, &page, NULL) || p->no_scan);
}

// The threads have a thread pointer, and a place in their stack for a stack pointer; the calling one has its own.
struct as_target *as_target_open_self(bool counted, struct as_error *err)
{
    struct as_process *p = as_process_new(&self_ops, AS_TARGET_SELF, err);
    if (!p)
        return NULL;
    p->base.pid = getpid();
#if defined(__x86_64__)
    p->base.arch = AS_ARCH_X86_64;
#elif defined(__aarch64__)
    p->base.arch = AS_ARCH_AARCH64;
#endif
    p->proc_fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->proc_fd < 0)
        as_fail_errno(err, AS_DENIED, "/proc is not mounted here (mount -t proc proc /proc)");
    else if (as_process_view(p, err) && as_process_attach_files(p, err) &&
             (!(counted || needs_counts(p)) || as_process_count(&p->base, err))) {
        know_threads(p);
        return &p->base;
    }
    as_process_close(&p->base);
    return NULL;
}
