// SPDX-License-Identifier: MIT
#include "agent/own_process.h"
#include "agent/agent.h"
#include "agent/thread.h"
#include "base/clock.h"

#include <elf.h>
#include <string.h>
#include <time.h>

enum {
    KEPT = 4, // libcs; a process with more is searched each time
    ATTEMPTS = 50,
};

static struct {
    uint64_t fingerprint;    // of the objects that were mapped; 0: nothing has been kept
    struct as_malloc malloc; // its list of libcs is this one:
    struct as_libc libcs[KEPT];
} kept; // under as_agent_lock

// FNV-1a over where which file is mapped as code.
static uint64_t fingerprint_of(const struct as_target *t)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings) {
        if (!as_mapping_of_file(m) || !(m->prot & AS_PROT_EXEC))
            continue;
        hash = (hash ^ m->start) * UINT64_C(0x100000001b3);
        hash = (hash ^ m->inode) * UINT64_C(0x100000001b3);
    }
    return hash | 1;
}

static bool recall(struct as_self *own, uint64_t fingerprint, struct as_error *err)
{
    struct as_malloc *m = &own->malloc;
    as_agent_lock();
    as_libc_vec libcs = {0};
    bool known = kept.fingerprint == fingerprint && as_vec_reserve(&libcs, kept.malloc.libcs.count, err);
    if (known) {
        *m = kept.malloc;
        m->libcs = libcs;
        m->libcs.count = kept.malloc.libcs.count;
        if (m->libcs.count > 0)
            memcpy(m->libcs.items, kept.libcs, m->libcs.count * sizeof *kept.libcs);
    }
    as_agent_unlock();
    // The names are those of the mappings as they were read now.
    for (size_t i = 0; known && i < m->libcs.count; i++) {
        const struct as_mapping *data = as_target_mapping_at(own->target, m->libcs.items[i].main_arena);
        m->libcs.items[i].path = data ? data->path : 0;
    }
    return known;
}

static void keep_own_malloc(const struct as_malloc *m, uint64_t fingerprint)
{
    if (m->libcs.count > KEPT)
        return;
    as_agent_lock();
    kept.fingerprint = fingerprint;
    kept.malloc = *m;
    kept.malloc.libcs.items = NULL;
    if (m->libcs.count > 0)
        memcpy(kept.libcs, m->libcs.items, m->libcs.count * sizeof *kept.libcs);
    as_agent_unlock();
}

void as_self_close(struct as_self *own)
{
    as_malloc_free(&own->malloc);
    as_target_close(own->target);
    *own = (struct as_self){0};
}

static bool open_target(struct as_self *own, bool counted, struct as_error *err)
{
    *own = (struct as_self){.target = as_target_open_self(counted, err)};
    if (own->target)
        own->target->in_place.only = true;
    return own->target != NULL;
}

// The proof reads arenas that other threads are changing, and a list of mappings that is outdated as soon as an arena grows. It
// may fail for that reason alone, so it is tried again.
static bool find_own_malloc(struct as_self *own, bool counted, uint64_t fingerprint, struct as_error *err)
{
    for (int attempt = 0;; attempt++) {
        if (!as_malloc_find(own->target, AS_LAYOUT_ANY, &own->malloc, err))
            return false;
        bool proven = true;
        for (size_t i = 0; i < own->malloc.libcs.count; i++)
            proven &= own->malloc.libcs.items[i].proven;
        if (proven)
            keep_own_malloc(&own->malloc, fingerprint);
        if (proven || attempt == ATTEMPTS)
            return true;
        as_self_close(own);
        as_sleep_ns(5000000);
        if (!open_target(own, counted, err))
            return false;
    }
}

bool as_self_open(struct as_self *own, bool counted, struct as_error *err)
{
    if (!open_target(own, counted, err))
        return false;
    uint64_t fingerprint = fingerprint_of(own->target);
    if (!recall(own, fingerprint, err) && !find_own_malloc(own, counted, fingerprint, err))
        return false;
    return own->malloc.kind == AS_MALLOC_GLIBC ||
           as_fail(err, AS_NO_MALLOC,
                   "malloc is not glibc's in this process (%s: %s): the agent leaves it alone; `arenadump summary` "
                   "shows what can be seen from outside",
                   as_malloc_kind_name(own->malloc.kind), own->malloc.detail);
}

// Where the linker puts the library's first byte, and one past its last.
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

// The last segment of this library's.
static struct as_range last_segment(void)
{
    uintptr_t base = (uintptr_t)&__ehdr_start;
    struct as_range last = {0};
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(base + __ehdr_start.e_phoff);
    for (unsigned i = 0; i < __ehdr_start.e_phnum; i++) {
        uint64_t start = base + segments[i].p_vaddr;
        if (segments[i].p_type == PT_LOAD && start >= last.start)
            last = (struct as_range){start, start + segments[i].p_memsz};
    }
    return last;
}

struct as_range as_self_recorder(void)
{
    return last_segment(); // agent/cold.ld
}

static bool count_resident(struct as_target *t, uint64_t start, uint64_t end, uint64_t *bytes, struct as_error *err)
{
    uint8_t pages[64];
    uint64_t size = t->page_size;
    end = (end + size - 1) / size * size;
    for (uint64_t at = start / size * size; at < end;) {
        uint64_t to = end - at < sizeof pages * size ? end : at + sizeof pages * size;
        if (!as_target_residency(t, at, to, pages, err))
            return false;
        for (size_t i = 0; i < (to - at) / size; i++) {
            if (pages[i] & AS_RES_UNKNOWN)
                *bytes = AS_UNKNOWN;
            else if (*bytes != AS_UNKNOWN)
                *bytes += pages[i] & AS_RES_PRESENT ? size : 0;
        }
        at = to;
    }
    return true;
}

// Resident bytes of a stack. The calling thread's is counted first, while it is about as deep as during a wait. mincore needs
// little stack itself, and is exact here: each page that is mapped was written.
static uint64_t count_stack(struct as_range stack)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint8_t present[64];
    uint64_t bytes = 0;
    for (uint64_t at = stack.start / page * page; at < stack.end; at += sizeof present * page) {
        uint64_t end = (stack.end + page - 1) / page * page;
        size_t count = (end - at) / page < sizeof present ? (size_t)((end - at) / page) : sizeof present;
        if (mincore((void *)(uintptr_t)at, count * page, present) != 0)
            return AS_UNKNOWN;
        for (size_t i = 0; i < count; i++)
            bytes += present[i] & 1 ? page : 0;
    }
    return bytes;
}

bool as_self_resident(uint64_t *bytes, struct as_error *err)
{
    uint64_t stack = count_stack(as_agent_thread_stack());
    uint64_t last = count_stack(as_agent_last_thread_stack());
    struct as_target *t = as_target_open_self(false, err);
    *bytes = 0;
    bool ok = t && count_resident(t, (uintptr_t)&__ehdr_start, last_segment().end, bytes, err);
    if (t)
        as_target_close(t);
    *bytes = stack == AS_UNKNOWN || last == AS_UNKNOWN || *bytes == AS_UNKNOWN ? AS_UNKNOWN : *bytes + stack + last;
    return ok;
}

void as_self_forget(void)
{
    kept.fingerprint = 0;
}
