// SPDX-License-Identifier: MIT
// Counts what is resident of a process that stands still on a thread of its own: the kernel goes through all page tables for
// it, and meanwhile can be asked on another processor which pages these are, or what another process has.
#include "base/workers.h"
#include "target/process/read/live_process.h"

#include <sys/mman.h>

static const uint64_t RESERVATION = UINT64_C(1) << 32;

struct as_counting {
    pthread_t thread;
    struct as_process scratch; // of the process what reading its mappings needs, and what that makes
    struct as_error err;
    bool ok;
};

static void *count_in_thread(void *argument)
{
    struct as_counting *c = argument;
    c->ok = as_process_read_maps(&c->scratch, true, &c->err);
    return NULL;
}

// Is there memory to be passed over of which only its counts tell that nothing is there (absent_ranges.c)?
static bool has_reservation(const struct as_process *p)
{
    AS_FOR_EACH_WHILE(p->no_scan, const struct as_mapping, m, &p->base.mappings)
        if (m->kind == AS_MAP_ANON && m->end - m->start >= RESERVATION)
            return true;
    return false;
}

bool as_process_count_begin(struct as_target *t)
{
    struct as_process *p = as_process_of(t);
    if (has_reservation(p))
        return false;
    struct as_counting *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c == MAP_FAILED)
        return false;
    c->scratch.base.pid = t->pid;
    c->scratch.base.page_size = t->page_size;
    c->scratch.proc_fd = p->proc_fd;
    c->scratch.view_fd = p->view_fd;
    c->scratch.reads = p->reads;
    c->scratch.no_smaps = p->no_smaps;
    c->scratch.dev_shmem = p->dev_shmem;
    c->scratch.dev_tmpfs.items = p->dev_tmpfs.items;
    c->scratch.dev_tmpfs.count = p->dev_tmpfs.count;
    bool started = as_worker_start(&c->thread, count_in_thread, c);
    if (started)
        p->counter = c;
    else
        munmap(c, sizeof *c);
    return started;
}

// Takes over the counts of a mapping; false when it is another one.
static bool take_counts(struct as_mapping *m, const struct as_mapping *counted)
{
    if (m->start != counted->start || m->end != counted->end)
        return false;
    m->kind = counted->kind;
    m->rss = counted->rss;
    m->shared = counted->shared;
    m->anonymous = counted->anonymous;
    m->swap = counted->swap;
    m->hugetlb = counted->hugetlb;
    m->kernel_page_size = counted->kernel_page_size;
    m->not_inherited = counted->not_inherited;
    m->droppable = counted->droppable;
    m->locked = counted->locked;
    m->noreserve = counted->noreserve;
    return true;
}

static void end(struct as_counting *c)
{
    AS_FREE_VECS(&c->scratch.base, mappings, strings);
    munmap(c, sizeof *c);
}

bool as_process_count_end(struct as_target *t, struct as_error *err)
{
    struct as_process *p = as_process_of(t);
    struct as_counting *c = p->counter;
    p->counter = NULL;
    pthread_join(c->thread, NULL);
    struct as_target *counted = &c->scratch.base;
    bool same = c->ok && counted->mappings.count == t->mappings.count;
    for (size_t i = 0; same && i < t->mappings.count; ++i)
        same = take_counts(&t->mappings.items[i], &counted->mappings.items[i]);
    counted->counts.pending = t->counts.pending;
    t->counts = counted->counts;
    p->no_smaps = c->scratch.no_smaps;
    p->counting = c->scratch.counting;
    p->verdict_start = AS_UNKNOWN; // it was come to without counts
    end(c);
    return same || as_process_refresh_maps(p, true, err); // the main thread exited and took its files with it, say
}

bool as_process_count_take(struct as_target *t, struct as_error *err)
{
    struct as_process *p = as_process_of(t);
    struct as_counting *c = p->counter;
    p->counter = NULL;
    pthread_join(c->thread, NULL);
    struct as_target *counted = &c->scratch.base;
    bool ok = c->ok && as_vec_reserve(&t->mappings, counted->mappings.count, err);
    if (!c->ok)
        *err = c->err;
    else if (ok && counted->mappings.count == 0)
        ok = as_process_gone(p, err);
    t->mappings.count = 0;
    t->strings.count = p->strings_kept;
    uint32_t named = 0, name = 0; // neighbours often have one file
    for (size_t i = 0; ok && i < counted->mappings.count; ++i) {
        struct as_mapping m = counted->mappings.items[i];
        if (m.path != named) {
            named = m.path;
            name = as_strings_add(&t->strings, as_mapping_path(counted, &m), SIZE_MAX);
        }
        m.path = name;
        t->mappings.items[t->mappings.count++] = m;
    }
    t->counts = counted->counts;
    p->no_smaps = c->scratch.no_smaps;
    p->counting = c->scratch.counting;
    p->verdict_start = AS_UNKNOWN;
    p->occupied_start = AS_UNKNOWN;
    end(c);
    return ok;
}
