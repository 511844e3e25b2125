// SPDX-License-Identifier: MIT
// Whether there is room for what a read brings back from swap. A page that is read while it is swapped out is charged
// to the target's memory cgroup, not to the reader's. It stays charged as a page of the swap cache, even where it is
// sent back at once: 341 of 353 MB did. At the limit the kernel then finds nothing that it could move to swap in its
// place, and kills the target, however much swap is free: 29 of 32 inspects a process with 57 MB in swap did so where
// at most 8 MB were left. (The target itself may touch these pages: for a fault of its own the kernel waits, and tries
// again.)
#include "base/align.h"
#include "target/process/read/live_process.h"
#include "target/process/read/pagemap.h"
#include "target/process/read/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct as_swap_room {
    struct as_room room;
    pid_t owner; // a supervisor, which is forked, has closed its files
};

void as_process_forget_swap_room(struct as_process *p)
{
    if (p->swap_room && p->swap_room->owner == getpid())
        as_room_close(&p->swap_room->room);
    free(p->swap_room);
    p->swap_room = NULL;
}

static struct as_room *find_room(struct as_process *p)
{
    if (p->swap_room && p->swap_room->owner != getpid())
        as_process_forget_swap_room(p);
    if (!p->swap_room && (p->swap_room = malloc(sizeof *p->swap_room))) {
        p->swap_room->owner = getpid();
        as_room_open(&p->swap_room->room, p->view_fd, "");
    }
    return p->swap_room ? &p->swap_room->room : NULL;
}

static bool has_room(struct as_process *p, uint64_t bytes, char *why, size_t size)
{
    struct as_room_left left;
    uint64_t needed = bytes == 0 ? AS_ROOM_LEAST : bytes + AS_ROOM_MARGIN;
    struct as_room *room = find_room(p);
    if (!room || room->why[0] || !as_room_read(room, needed, &left)) {
        snprintf(why, size, "%s", room ? room->why : "there is no memory to find out");
        return false;
    }
    if (left.bytes >= needed)
        return true;
    snprintf(why, size, "%s", left.where);
    return false;
}

bool as_process_has_swap_room(struct as_target *t, uint64_t bytes, char *why, size_t size)
{
    struct as_process *p = as_process_of(t);
    pthread_mutex_lock(&p->lock);
    bool ok = has_room(p, bytes, why, size);
    pthread_mutex_unlock(&p->lock);
    return ok;
}

size_t as_process_unswapped(const struct as_process *p, uint64_t address, size_t length)
{
    const uint64_t SWAPPED = UINT64_C(1) << 62;
    uint64_t entries[AS_ENTRIES];
    uint64_t size = p->base.page_size;
    uint64_t at = address - address % size;
    while (at < address + length) {
        size_t count = as_process_read_entries(p, at, as_align_up(address + length, size), entries);
        size_t i = 0;
        while (i < count && !(entries[i] & SWAPPED))
            i++;
        at += i * size;
        if (count == 0 || i < count)
            break;
    }
    uint64_t bytes = at > address ? at - address : 0;
    return bytes < length ? (size_t)bytes : length;
}
