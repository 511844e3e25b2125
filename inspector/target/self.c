// SPDX-License-Identifier: MIT
// Ourselves: read in place, stopped never. What /proc tells is read as of any other process.
#define _GNU_SOURCE
#include "target/process.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

// The memory itself, as far as it is mapped readable and private without a gap (a shared file that is cut short raises
// SIGBUS; a copy made by the kernel just ends before it). By the mappings as they were read last: the caller
// sees to it that what it looks at is not unmapped meanwhile (it holds the arena's lock).
static const void *self_in_place(struct as_target *t, uint64_t address, size_t *length)
{
    for (size_t i = 0; i < t->steady.count; ++i) {
        const struct as_range *r = &t->steady.items[i];
        if (address < r->start || address >= r->end)
            continue;
        if (r->end - address < *length)
            *length = (size_t)(r->end - address);
        return (const void *)(uintptr_t)address;
    }
    if (t->steady_only)
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

static void know_this_thread(struct as_process *p)
{
    pid_t tid = (pid_t)syscall(SYS_gettid);
    for (size_t i = 0; i < p->base.threads.count; ++i) {
        struct as_thread *thread = &p->base.threads.items[i];
        if (thread->tid != tid)
            continue;
        uint64_t tp;
#if defined(__x86_64__)
        __asm__("mov %%fs:0, %0" : "=r"(tp));
#elif defined(__aarch64__)
        __asm__("mrs %0, tpidr_el0" : "=r"(tp));
#endif
        thread->tp = tp;
        thread->sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    }
}

static bool self_stop(struct as_target *t, struct as_error *err)
{
    (void)t, (void)err;
    return true;
}

static void self_resume(struct as_target *t)
{
    (void)t;
}

static const struct as_target_ops self_ops = {
    .read = as_process_read,
    .in_place = self_in_place,
    .residency = as_process_residency,
    .count = as_process_count,
    .open_file = as_process_open_file,
    .stop = self_stop,
    .resume = self_resume,
    .close = as_process_close,
};

// The threads have no registers but the calling one, which has its thread pointer and its stack pointer.
struct as_target *as_target_open_self(struct as_error *err)
{
    struct as_process *p = as_process_new(&self_ops, AS_TARGET_SELF, err);
    if (!p)
        return NULL;
    p->base.pid = getpid();
    p->proc_fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->proc_fd < 0)
        as_fail_errno(err, AS_DENIED, "/proc is not mounted here (mount -t proc proc /proc)");
    else if (as_process_view(p, err) && as_process_attach_files(p, err) && as_process_count(&p->base, err)) {
        know_this_thread(p);
        return &p->base;
    }
    as_process_close(&p->base);
    return NULL;
}
