// SPDX-License-Identifier: MIT
// Whether there is room for a clone. Each page that the target writes while the clone exists is copied, and the copy is charged to the
// target's memory cgroup. At most that is all of its private memory: how fast it writes does not matter then. It is no proof against other
// processes of the cgroup, nor against what the target allocates meanwhile: clone_watch.c is.
#include "target/process/clone/clone_room.h"

// What else the kernel charges for a clone, beside its page tables: the process itself, and what describes a mapping.
#define KERNEL_BYTES UINT64_C(262144)
#define KERNEL_BYTES_PER_MAPPING UINT64_C(1024)

// A page in swap that is read in the clone comes back, and the target, or the reader, has it copied then. (Read by process_vm_readv, 353 MB
// in swap took 704 MB.)
enum { TIMES_SWAPPED = 2 };

// All that may be copied; AS_UNKNOWN: nobody has counted it.
static uint64_t copied_at_most(const struct as_process *p)
{
    const struct as_target *t = &p->base;
    uint64_t bytes = 0;
    AS_FOR_EACH_WHILE(p->counting, const struct as_mapping, m, &t->mappings) {
        if (!(m->prot & AS_PROT_SHARED) && !m->not_inherited) // what is read-only now may be made writable
            bytes += m->anonymous + TIMES_SWAPPED * m->swap;
    }
    if (p->counting)
        return bytes;
    return t->hint.anonymous == AS_UNKNOWN || t->hint.swap == AS_UNKNOWN
               ? AS_UNKNOWN
               : t->hint.anonymous + TIMES_SWAPPED * t->hint.swap;
}

// What the kernel promises the clone once more, where it keeps its promises.
static uint64_t promised_to(const struct as_target *t)
{
    uint64_t bytes = 0;
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings)
        bytes += (m->prot & AS_PROT_WRITE) && !(m->prot & AS_PROT_SHARED) ? m->end - m->start : 0;
    return bytes;
}

bool as_process_has_room(struct as_process *p, struct as_room *room, struct as_error *err)
{
    struct as_room_left left;
    uint64_t copied = copied_at_most(p);
    uint64_t tables = as_proc_status(p->view_fd, "status", "VmPTE:");
    uint64_t needed = copied + (tables == AS_PROC_NONE ? 0 : tables * 1024) + KERNEL_BYTES +
                      p->base.mappings.count * KERNEL_BYTES_PER_MAPPING;
    const char *why = room->why;
    if (copied == AS_UNKNOWN)
        why = "how much memory it has cannot be read";
    if (why[0] || !as_room_read(room, needed + AS_ROOM_MARGIN, &left))
        return as_fail(
            err, AS_UNSUPPORTED,
            "a clone of process %d may meet a limit of memory, for which the kernel would kill the process: %s",
            p->base.pid, why);
    if (left.bytes < needed + AS_ROOM_MARGIN)
        return as_fail(err, AS_UNSUPPORTED,
                       "a clone of process %d might get it killed for lack of memory: what it writes meanwhile is "
                       "copied, up to %.1f MB with %.1f MB to spare, and %s",
                       p->base.pid, (double)(needed + AS_ROOM_MARGIN) / 1e6, (double)AS_ROOM_MARGIN / 1e6, left.where);
    uint64_t promised = promised_to(&p->base);
    if (left.promised != UINT64_MAX && left.promised < promised + AS_ROOM_MARGIN)
        return as_fail(err, AS_UNSUPPORTED,
                       "a clone of process %d would take %.1f MB of the %.1f MB that the kernel still promises "
                       "(vm.overcommit_memory=2, CommitLimit), and the process could get no more memory",
                       p->base.pid, (double)promised / 1e6, (double)left.promised / 1e6);
    return true;
}
