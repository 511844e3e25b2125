// SPDX-License-Identifier: MIT
#include "agent/own_snapshot.h"
#include "agent/agent.h"
#include "agent/log.h"
#include "agent/own_process.h"
#include "dump/dump.h"
#include "target/procfs.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>

bool as_agent_has_profile;
bool as_agent_starts_recorder;

bool as_agent_snapshot(struct as_agent_snapshot *snapshot, int chunk_fd, struct as_error *err)
{
    *snapshot = (struct as_agent_snapshot){0};
    struct as_self own = {0};
    struct as_arena_hold hold = as_arena_locks_hooks(&snapshot->locks);
    struct as_snapshot_options options = {
        .chunk_fd = chunk_fd,
        .chunk_start = AS_DUMP_DATA_START,
        .malloc = &own.malloc,
        .hold = &hold,
        .profile = as_agent_has_profile,
    };
    struct as_store *s = &snapshot->store;
    bool ok = as_self_open(&own, true, err) && as_snapshot_make(own.target, &options, s, err);
    as_self_close(&own);
    if (!ok)
        return false;
    s->meta.tool_version = as_strings_add(&s->strings, AS_VERSION, sizeof AS_VERSION);
    if (snapshot->locks.missed > 0)
        as_store_warn(s, AS_WARN_LOCKED, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
                      "%llu arenas stayed locked for longer than a second: they were read without their lock",
                      (unsigned long long)snapshot->locks.missed);
    return true;
}

void as_agent_snapshot_free(struct as_agent_snapshot *snapshot)
{
    as_store_free(&snapshot->store);
}

// The chunk records are made while an arena is locked, so they go to memory first. A write to a file may have to wait for a disk,
// or for the application itself where it serves the file system, and every thread that allocates from the arena would wait as
// long.
static bool open_records(int *records, struct as_error *err)
{
    *records = memfd_create("arenascope-chunks", MFD_CLOEXEC);
    return *records >= 0 || as_fail_errno(err, AS_IO, "cannot make a memfd for the chunk records");
}

static bool copy_records(struct as_dump_writer *w, int records, uint64_t count, struct as_error *err)
{
    size_t bytes = (size_t)count * sizeof(uint32_t);
    if (bytes == 0)
        return true;
    char *from = mmap(NULL, AS_DUMP_DATA_START + bytes, PROT_READ, MAP_SHARED, records, 0);
    if (from == MAP_FAILED)
        return as_fail_errno(err, AS_NO_MEMORY, "no space for the chunk records");
    bool ok = as_output_write(&w->file, from + AS_DUMP_DATA_START, bytes, AS_DUMP_DATA_START, err);
    munmap(from, AS_DUMP_DATA_START + bytes);
    return ok;
}

bool as_agent_dump(const char *path, int fd, bool chunks, struct as_error *err)
{
    struct as_dump_writer w = {AS_OUTPUT_CLOSED};
    struct as_agent_snapshot snapshot = {0};
    int records = -1;
    bool ok = (fd < 0 ? as_dump_begin(&w, path, err) : as_dump_begin_fd(&w, fd, err)) &&
              (!chunks || open_records(&records, err)) && as_agent_snapshot(&snapshot, records, err) &&
              (!chunks || copy_records(&w, records, snapshot.store.chunk_count, err)) &&
              as_dump_finish(&w, &snapshot.store, err);
    if (records >= 0)
        close(records);
    as_agent_snapshot_free(&snapshot);
    as_dump_close(&w);
    return ok;
}

void as_agent_dump_requested(void)
{
    uint32_t wanted = __atomic_load_n(&as_agent.wanted, __ATOMIC_SEQ_CST);
    if (wanted == as_agent.served)
        return;
    as_agent.served = wanted; // a signal that arrives during the dump asks for one more
    char path[PATH_MAX];
    as_agent_lock();
    bool fits = as_pattern_expand(as_agent_pattern, ++as_agent.dumps, path, sizeof path);
    unsigned flags = as_agent.flags;
    as_agent_unlock();
    struct as_error err = {0};
    uint64_t before = as_now_ns();
    if (!fits)
        as_log("no dump: its name would be longer than %d bytes", PATH_MAX);
    else if (as_agent_dump(path, -1, flags & ARENASCOPE_CHUNKS, &err))
        as_log("wrote %s in %llu ms", path, (unsigned long long)((as_now_ns() - before) / 1000000));
    else
        as_log("no dump: %s", err.text);
    __atomic_store_n(&as_agent.finished, wanted, __ATOMIC_RELEASE);
    syscall(SYS_futex, &as_agent.finished, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void as_agent_summary(const struct as_agent_snapshot *snapshot, struct arenascope_summary *out)
{
    const struct as_store *s = &snapshot->store;
    uint64_t heaps = 0;
    for (size_t i = 0; i < s->heaps.count; i++)
        heaps += s->heaps.items[i].kind != AS_HEAP_MMAPPED;
    struct arenascope_summary full = {
        .size = sizeof full,
        .rss = s->meta.rss,
        .swap = s->meta.swap,
        .arenas = s->arenas.count,
        .heaps = heaps,
        .threads = s->meta.thread_count,
        .torn_chunks = s->meta.torn_chunks,
        .longest_hold = snapshot->locks.longest_ns,
        .exact = (s->meta.flags & AS_META_EXACT) != 0,
        .ruby_page_count = s->meta.ruby == AS_RUBY_UNPROVEN ? AS_UNKNOWN : s->ruby.count,
        .ruby_slots = s->meta.ruby == AS_RUBY_UNPROVEN ? AS_UNKNOWN : 0,
        .ruby_free_slots = s->meta.ruby == AS_RUBY_UNPROVEN ? AS_UNKNOWN : 0,
    };
#define AS_ROW(name, ...) full.name = s->totals.ledger.name;
#include "model/rows.def"
    for (size_t i = 0; i < s->ruby.count; i++) {
        full.ruby_slots += s->ruby.items[i].total_slots;
        full.ruby_free_slots += s->ruby.items[i].free_slots;
    }
    // An older program knows fewer fields. A newer one knows more: these stay as they are.
    size_t size = out->size < sizeof full ? out->size : sizeof full;
    size_t given = out->size;
    memcpy(out, &full, size);
    out->size = given;
}
