// SPDX-License-Identifier: MIT
#include "snapshot/snapshot.h"
#include "base/clock.h"
#include "base/memory.h"
#include "ledger/builder.h"
#include "ledger/ledger.h"
#include "libc/libc.h"
#include "malloc/find.h"
#include "malloc/heaps.h"
#include "profile/head.h"
#include "profile/read.h"
#include "snapshot/steps.h"

#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

enum {
    TEXT = 512,
};

// Walks every arena and counts it, and then the mmapped chunks.
static bool walk(struct as_heaps *h, struct as_ledger_builder *b, const struct as_arena_hold *hold,
                 struct as_error *err)
{
    struct as_ledger_partial mmapped = {0};
    if (!as_pool_walk(h, b, hold, err))
        return false;
    as_caches_check(h);
    b->err = err;
    as_ledger_partial_open(b, &mmapped, true);
    bool ok = true;
    for (size_t i = 0; ok && i < h->mmapped.count; i++)
        ok = as_ledger_mmapped(b, &h->mmapped.items[i]);
    return as_ledger_partial_close(b->store, &mmapped, err) && ok;
}

#define FORGETS "with hugetlb pages glibc 2.35 to 2.42 cannot unmap a block that realloc made smaller, and forgets it"

static bool is_running(enum as_mode mode)
{
    return mode == AS_MODE_LIVE || mode == AS_MODE_IN_PROCESS;
}

// Caches that nobody can empty, and what may be such.
static void report_lost(struct as_store *s, const struct as_heaps *h, enum as_mode mode)
{
    uint64_t chunks = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < h->lost_tcaches.count; i++) {
        chunks += h->lost_tcaches.items[i].count;
        bytes += h->lost_tcaches.items[i].bytes;
    }
    if (h->lost_tcaches.count > 0 && is_running(mode))
        as_store_warn(s, AS_WARN_ESTIMATED, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "%zu tcaches belong to threads that started during the snapshot, or to no thread (after a fork): "
                      "their %" PRIu64 " chunks (%" PRIu64 " bytes) are free, but shown as in use",
                      h->lost_tcaches.count, chunks, bytes);
    else if (h->lost_tcaches.count > 0)
        as_store_warn(
            s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
            "the row tcache includes %" PRIu64 " chunks (%" PRIu64
            " bytes) in %zu tcaches that no thread has: their threads ran in the parent before a fork, or ended after "
            "using a libc of another namespace. Neither malloc nor a trim can get these chunks back",
            chunks, bytes, h->lost_tcaches.count);
    if (h->ambiguous_segment_bytes > 0)
        as_store_warn(
            s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
            "several libcs have main arenas in neighbouring mappings, and the owner of %" PRIu64
            " bytes there is unknown: the sums over all arenas are right, the numbers of a single arena may not be",
            h->ambiguous_segment_bytes);
    if (h->zero_candidates > 0 && (h->lost_tcaches.count > 0 || h->zero_candidates_likely > 0))
        as_store_warn(s, AS_WARN_ESTIMATED, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "up to %" PRIu64 " chunks (%" PRIu64
                      " bytes) that count as in use may be empty tcaches of threads that are gone (after a fork): "
                      "these chunks have the size of a tcache and hold only zeros",
                      h->zero_candidates, h->zero_candidate_bytes);
}

static void report_faults(struct as_store *s, const struct as_heaps *h, enum as_mode mode)
{
    uint64_t changed = 0;
    AS_FOR_EACH(const struct as_fault, f, &h->faults) {
        // A fault of no arena is a thread's cache's, unless something is missing.
        if (is_running(mode) && !h->incomplete && f->arena == UINT32_MAX && f->address != AS_UNKNOWN) {
            changed++;
            continue;
        }
        if (f->what == AS_FAULT_NO_MP) {
            as_store_warn(s, AS_WARN_LAYOUT, f->arena, f->heap, f->address, "%s", f->what);
            continue;
        }
        bool mmapped = f->address == AS_UNKNOWN && f->arena == UINT32_MAX;
        as_store_warn(s, mmapped ? AS_WARN_MMAPPED : AS_WARN_CORRUPT, f->arena, f->heap, f->address, "%s", f->what);
        if (f->arena != UINT32_MAX && f->arena < s->arenas.count)
            s->arenas.items[f->arena].flags |= AS_ARENA_CORRUPT;
    }
    if (changed > 0)
        as_store_warn(s, AS_WARN_ESTIMATED, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "threads ran on while their tcaches were read, and %" PRIu64
                      " entries changed meanwhile: as many chunks of the row tcache may be in use, or chunks of the "
                      "row in_use cached",
                      changed);
    if (h->munmap_failed > 0 && h->munmap_failed_ambiguous)
        as_store_warn(s, AS_WARN_MMAPPED, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "%" PRIu64 " of the mmapped blocks shown as in use (%" PRIu64
                      " bytes) have been freed, and it is unknown which: " FORGETS,
                      h->munmap_failed, h->munmap_failed_bytes);
    else if (h->munmap_failed > 0)
        as_store_warn(s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "%" PRIu64 " mmapped block%s that the program freed (%" PRIu64
                      " bytes) stay mapped for good: " FORGETS,
                      h->munmap_failed, h->munmap_failed == 1 ? "" : "s", h->munmap_failed_bytes);
}

// What was found before the stop, as it is in files: none is opened while the target stands still.
struct prepared {
    struct as_malloc malloc;
    struct as_hotspot hotspot;
};

static bool begin_chunks(struct as_chunk_writer *chunks, struct as_error *err)
{
    if (!chunks)
        return true;
    chunks->offset = chunks->start;
    chunks->count = chunks->pending = 0;
    return ftruncate(chunks->fd, (off_t)chunks->start) == 0 ||
           as_fail_errno(err, AS_IO, "the dump cannot be restarted");
}

static struct as_collecting collecting(const struct as_snapshot_options *options, struct as_target *t,
                                       const struct as_malloc *m)
{
    bool profile = options->profile && as_profile_find(t) != 0;
    if (options->reader || profile)
        return (struct as_collecting){.from = 1, .gaps = true, .free = profile};
    return (struct as_collecting){.from = options->objects ? options->objects->chunks_from(m) : 0};
}

// Finds the heaps and walks them; again where the walk came by tcaches that no thread has: only then is it known that what
// these hold is free.
static bool find_and_walk(struct as_target *t, const struct as_malloc *m, enum as_mode mode,
                          struct as_chunk_writer *chunks, const struct as_snapshot_options *options,
                          const as_span_vec *foreign, struct as_store *s, struct as_heaps *h,
                          struct as_ledger_builder *b, struct as_error *err)
{
    size_t warnings = s->warnings.count;
    bool ok = as_heaps_find(t, m, foreign, h, err);
    for (bool again = true; ok && again;) {
        ok = as_ledger_open(b, s, t, chunks, collecting(options, t, m), err) && as_records_copy(s, h, err) &&
             walk(h, b, options->hold, err) && as_lost_tcaches_find(h, &again, err);
        if (!ok || !again || is_running(mode))
            break;
        as_ledger_close(b);
        as_store_clear_walk(s, warnings);
        ok = begin_chunks(chunks, err) && as_heaps_find_again(h, err);
    }
    return ok;
}

// Everything between stop and resume.
static bool take(struct as_target *t, const struct prepared *p, struct as_stop_plan *plan,
                 struct as_chunk_writer *chunks, const struct as_snapshot_options *options, struct as_store *s,
                 struct as_error *err)
{
    const struct as_malloc *m = &p->malloc;
    struct as_heaps h = {0};
    struct as_ledger_builder b = {0};
    as_span_vec foreign = {0};
    struct as_variable_words words = {0};
    t->residency.preparing = false;
    if (options->reader && options->reader->begin && (plan->mode != AS_MODE_FREEZE || t->kind == AS_TARGET_CORE))
        options->reader->begin(options->reader->context);
    // Our own process runs on: its pages are asked for heap by heap.
    bool ok = (as_target_is_self(t) || as_target_read_residency_map(t, err)) &&
              as_runtimes_find_first(t, m, options->runtime_pages, &words, s, &foreign, err) &&
              find_and_walk(t, m, plan->mode, chunks, options, &foreign, s, &h, &b, err) &&
              as_runtimes_find(t, m, &p->hotspot, options->runtime_pages, &words, s, err) &&
              as_runtimes_count_objects(&b, m, options->objects, is_running(plan->mode), err) &&
              (!options->profile || as_profile_read(t, &b.collected, options->baseline, options->noted, s, err)) &&
              (!options->reader || options->reader->read(options->reader->context, t, m, s, &b.collected, err));
    if (ok)
        as_ledger_runtimes_open(&b);
    // Half of the heap is missing where the target was killed under our eyes: no answer is better than that one.
    ok = ok && (!t->ops->stop.intact || t->ops->stop.intact(t, err));
    ok = ok && as_stop_plan_is_whole(t, m, &h, s->meta.torn_chunks != 0, plan, err);
    uint64_t left = 0;
    if (plan->mode != AS_MODE_CLONE) { // a clone ends now, and has brought nothing back for the target
        as_target_send_back(t);
        left = as_target_brought_back(t);
    }
    // The target may run on: what is left is arithmetic.
    as_target_resume(t);
    if (ok) {
        if (left > 0)
            as_store_warn(s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                          "%" PRIu64 " bytes of the target were swapped out, had to be read, and stay in memory; "
                          "sending them back to swap takes root (CAP_SYS_NICE) and Linux 5.10",
                          left);
        report_faults(s, &h, plan->mode);
        report_lost(s, &h, plan->mode);
        bool all_found = m->libcs.count > 0 ? !h.incomplete : m->kind != AS_MALLOC_GLIBC && m->objects > 0;
        for (size_t i = 0; i < m->libcs.count; i++)
            all_found &= m->libcs.items[i].proven;
        ok = as_ledger_finish(&b, all_found) && (!chunks || as_chunk_flush(chunks, err));
    }
    as_ledger_close(&b);
    as_heaps_free(&h);
    as_vec_free(&foreign);
    as_variable_words_free(&words);
    return ok;
}

// A libc that failed the proof while the target ran, or was locked, may pass now. An unproven one is shown with a warning.
static void prove_libc_again(struct as_target *t, struct as_malloc *m, struct as_store *s)
{
    AS_FOR_EACH(struct as_libc, libc, &m->libcs) {
        char why[TEXT / 2];
        if (libc->proven || (libc->proven = as_libc_prove(t, libc, why, sizeof why)))
            continue;
        as_store_warn(s, AS_WARN_LAYOUT, UINT32_MAX, UINT32_MAX, libc->main_arena,
                      "the layout of malloc that fits %s does not hold on the target's memory: %s",
                      as_strings_at(&t->strings, libc->path), why);
    }
}

static bool touches_a_number(uint32_t code)
{
    return code != AS_WARN_NOTE && code != AS_WARN_ALLOCATOR;
}

static void describe_target(struct as_store *s, const struct as_target *t, const struct as_malloc *m)
{
    s->meta.target_kind = t->kind;
    s->meta.arch = t->arch;
    s->meta.page_size = t->page_size;
    s->meta.pid = (uint32_t)t->pid;
    s->meta.thread_count = (uint32_t)t->threads.count;
    s->meta.malloc_kind = m->kind;
    s->meta.rss = t->counts.rss;
    s->meta.swap = t->counts.swap;
    memcpy(s->meta.comm, t->comm, sizeof s->meta.comm);
    s->meta.exe = as_records_string(s, t, t->exe);
    s->meta.cmdline = as_records_string(s, t, t->cmdline);
    s->meta.malloc_detail = as_strings_add(&s->strings, m->detail, sizeof m->detail);
    s->meta.flags = t->residency.known ? AS_META_RESIDENCY_KNOWN : 0;
    if (t->residency.fetch == AS_FETCH_REFUSED)
        as_store_warn(s, AS_WARN_RESIDENCY, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "memory of the target that is swapped out (%" PRIu64 " bytes) was not read, as far as it was not "
                      "read before: it would come back into memory, which might get the target killed, and %s",
                      t->counts.swap, t->residency.no_room);
    if (t->residency.note)
        as_store_warn(s, AS_WARN_RESIDENCY, UINT32_MAX, UINT32_MAX, AS_UNKNOWN, "%s", t->residency.note);
    if (m->kind != AS_MALLOC_GLIBC)
        as_store_warn(s, AS_WARN_ALLOCATOR, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "%s (%s): malloc's rows show only the memory in glibc's arenas",
                      m->kind == AS_MALLOC_UNKNOWN ? "it is unknown which malloc this process uses"
                                                   : "the malloc of this process is not glibc's",
                      m->detail);
    if (m->interpreters.left_out > 0)
        as_store_warn(s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "%" PRIu32 " objects have an interpreter's code: in the last %" PRIu32
                      " of them nothing was searched for, and heaps that only they lead to are counted in other rows",
                      m->interpreters.count + m->interpreters.left_out, m->interpreters.left_out);
    if (m->left_out[0])
        as_store_warn(s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN, "%s", m->left_out);
    if (m->libcs.count == 0 && (m->kind == AS_MALLOC_GLIBC || m->objects == 0))
        as_store_warn(s, AS_WARN_LAYOUT, UINT32_MAX, UINT32_MAX, AS_UNKNOWN, "%s: %s",
                      m->kind == AS_MALLOC_GLIBC ? "glibc's malloc could not be read"
                                                 : "it is unknown which part of this memory is malloc's",
                      m->detail);
}

// The target may run on: what its descriptors lead to is asked after the pause, however many there are. AS_NO_MEMORY.
static bool add_open_files(struct as_store *s, struct as_target *t, struct as_error *err)
{
    struct as_open_files open = {.descriptors = AS_UNKNOWN};
    bool ok = !t->ops->open_files || t->ops->open_files(t, &open, err);
    s->meta.descriptors = open.descriptors;
    s->meta.descriptors_left = open.descriptors == AS_UNKNOWN ? AS_UNKNOWN : open.left;
    AS_FOR_EACH_WHILE(ok, const struct as_open_file, f, &open.files) {
        ok = as_vec_push(&s->open_files, err,
                         (struct as_open_file_record){.name = as_records_string(s, t, f->name),
                                                      .descriptors = f->descriptors,
                                                      .bytes = f->bytes});
    }
    as_vec_free(&open.files);
    if (t->ops->open_files && s->meta.descriptors == AS_UNKNOWN)
        as_store_warn(
            s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
            "the descriptors of process %d could not be listed: what it has in files in memory (memfd, tmpfs) that are "
            "open and not mapped is not known",
            t->pid);
    else if (open.left > 0)
        as_store_warn(s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "process %d has %" PRIu64 " descriptors; the last %" PRIu64
                      " were not searched for files in memory",
                      t->pid, open.descriptors + open.left, open.left);
    return ok;
}

static void set_exact(struct as_store *s)
{
    bool exact = !is_running((enum as_mode)s->meta.mode) && s->meta.torn_chunks == 0;
    for (size_t i = 0; i < s->warnings.count; i++)
        exact &= !touches_a_number(s->warnings.items[i].code);
    if (exact)
        s->meta.flags |= AS_META_EXACT;
}

static bool is_swapping(const struct as_target *t)
{
    return !as_target_is_self(t) && t->kind == AS_TARGET_PROCESS && t->hint.swap != 0 && t->hint.swap != AS_UNKNOWN;
}

// Files are read, and DWARF is, before the target is stopped.
static bool find_malloc(struct as_target *t, uint32_t allowed_sources, struct as_malloc *m, struct as_error *err)
{
    // The proof of a layout reads here and there. What was swapped out when the snapshot began is to be found so.
    t->residency.runs.count = t->residency.fetched.count = 0;
    t->residency.preparing = is_swapping(t);
    return (!t->residency.preparing || (t->ops->residency.count(t, err) && as_target_read_residency_map(t, err))) &&
           as_malloc_find(t, allowed_sources, m, err);
}

static bool copy_malloc(const struct as_malloc *from, struct as_malloc *to, struct as_error *err)
{
    *to = *from;
    to->libcs = (as_libc_vec){0};
    if (!as_vec_reserve(&to->libcs, from->libcs.count, err))
        return false;
    to->libcs.count = from->libcs.count;
    for (size_t i = 0; i < from->libcs.count; i++)
        to->libcs.items[i] = from->libcs.items[i];
    return true;
}

// The kernel keeps a page that was just brought back from swap in the processor's own note for a while, and does not
// move it out again at another processor's word. So where there is swap, one processor does both. False: nothing to
// undo.
static bool pin(const struct as_target *t, cpu_set_t *before)
{
    cpu_set_t here;
    int cpu = is_swapping(t) ? sched_getcpu() : -1;
    if (cpu < 0 || sched_getaffinity(0, sizeof *before, before) != 0)
        return false;
    CPU_ZERO(&here);
    CPU_SET((size_t)cpu, &here);
    return sched_setaffinity(0, sizeof here, &here) == 0;
}

// One snapshot in plan->mode, or what that falls back to.
static bool attempt(struct as_target *t, struct prepared *p, const struct as_snapshot_options *options,
                    struct as_stop_plan *plan, struct as_chunk_writer *chunks, struct as_store *out,
                    struct as_error *err)
{
    struct as_malloc *m = &p->malloc;
    bool ok = as_stop_plan_catch(t, m, options, plan, err);
    if (ok)
        prove_libc_again(t, m, out);
    out->meta.time_ns = as_clock_ns(CLOCK_REALTIME);
    uint64_t before = as_clock_ns(CLOCK_MONOTONIC);
    bool stopped = t->stop.active;
    ok = ok && take(t, p, plan, chunks, options, out, err);
    as_target_resume(t);
    ok = ok && add_open_files(out, t, err);
    if (ok) {
        out->meta.read_ns = as_clock_ns(CLOCK_MONOTONIC) - before;
        out->meta.pause_ns = plan->stood_ns + (stopped ? t->stop.duration_ns : 0);
        out->meta.mode = plan->mode;
        out->chunk_count = chunks ? chunks->count : 0;
        describe_target(out, t, m);
        out->meta.flags |= chunks ? AS_META_HAS_CHUNKS : 0;
        as_stop_plan_report(plan, t, out);
        if (options->max_pause_ns != 0 && out->meta.pause_ns > options->max_pause_ns)
            as_store_warn(
                out, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                "the target stood still for %.1f ms, longer than --max-pause: it was let go as soon as possible",
                (double)out->meta.pause_ns / 1e6);
        set_exact(out);
    }
    return ok;
}

static bool take_snapshot(struct as_target *t, const struct as_snapshot_options *options, struct as_store *out,
                          struct as_error *err)
{
    *out = (struct as_store){0};
    struct prepared p = {0};
    as_target_ask_anew(t);
    as_target_may_fetch(t);
    if (options->malloc ? !copy_malloc(options->malloc, &p.malloc, err)
                        : !find_malloc(t, options->allowed_sources, &p.malloc, err))
        return false;
    as_hotspot_open(&p.hotspot, t);
    struct as_chunk_writer *chunks = NULL;
    if (options->chunk_fd >= 0) {
        chunks = as_memory_map(sizeof *chunks, "a buffer of chunk records", err);
        if (!chunks) {
            as_malloc_free(&p.malloc);
            return false;
        }
        chunks->fd = options->chunk_fd;
        chunks->start = chunks->offset = options->chunk_start;
    }
    struct as_stop_plan plan = as_stop_plan_make(t, options);
    bool ok = attempt(t, &p, options, &plan, chunks, out, err);
    while (!ok && as_stop_plan_yield(t, options, &plan, err)) {
        as_store_free(out);
        *out = (struct as_store){0};
        ok = begin_chunks(chunks, err) && attempt(t, &p, options, &plan, chunks, out, err);
    }
    as_memory_unmap(chunks, sizeof *chunks);
    as_malloc_free(&p.malloc);
    if (!ok && err->code == AS_DENIED && plan.mode != AS_MODE_LIVE)
        as_error_add(err, ". To snapshot without stopping it: --mode live");
    return ok;
}

bool as_snapshot_make(struct as_target *t, const struct as_snapshot_options *options, struct as_store *out,
                      struct as_error *err)
{
    cpu_set_t before;
    bool pinned = pin(t, &before);
    bool ok = take_snapshot(t, options, out, err);
    if (pinned)
        sched_setaffinity(0, sizeof before, &before);
    return ok;
}
