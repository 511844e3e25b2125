// SPDX-License-Identifier: MIT
// The memory of a recorder in a target, told apart from all other anonymous memory: it is ours, and not the program's. Each of its
// mappings begins with a head that names its own address and size.
#include "runtimes/regions.h"
#include "profile/head.h"
#include "profile/read.h"

#include <inttypes.h>

#define LEAST_BYTES (UINT64_C(1) << 20)
#define MOST_BYTES (UINT64_C(5) << 30) // tables have 4 GiB at most, and buffers 512 MiB more (trace_buffers.c)

enum own_kind { NOTHING, TABLES, BUFFERS, UNPROVEN };

struct own_memory {
    uint64_t bytes;
    uint32_t tables, buffers;
    bool unproven;
};

static enum own_kind what_begins(struct as_target *t, const struct as_mapping *m)
{
    struct as_profile_head head;
    struct as_profile_buffers buffers;
    uint64_t room = m->end - m->start, magic;
    if (!as_is_runtime_memory(m) || m->out_of_reach || room < LEAST_BYTES || room > MOST_BYTES ||
        !as_target_read_u64(t, m->start, &magic))
        return NOTHING;
    if (magic == AS_PROFILE_MAGIC && as_target_read(t, m->start, &head, sizeof head) && head.self == m->start)
        return as_profile_head_holds(&head, m->start, room) ? TABLES : UNPROVEN;
    if (magic == AS_PROFILE_BUFFERS && as_target_read(t, m->start, &buffers, sizeof buffers) &&
        buffers.self == m->start)
        return buffers.size == room ? BUFFERS : UNPROVEN;
    return NOTHING;
}

bool as_profile_find_regions(struct as_target *t, struct as_store *s, struct as_error *err)
{
    struct own_memory own = {0};
    size_t first = s->regions.count;
    uint32_t runtime = UINT32_MAX;
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings) {
        enum own_kind found = what_begins(t, m);
        if (found == NOTHING)
            continue;
        if (runtime == UINT32_MAX)
            runtime = as_runtime_add(s, AS_RUNTIME_RECORDER, AS_ROW_recorder, err);
        // The whole mapping: what an earlier profile has left there is the recorder's, too.
        if (runtime == UINT32_MAX ||
            (found != UNPROVEN && !as_regions_add(t, s, runtime, m->start, m->end, &own.bytes, err)))
            return false;
        own.tables += found == TABLES;
        own.buffers += found == BUFFERS;
        own.unproven |= found == UNPROVEN;
    }
    if (own.unproven)
        as_runtime_unproven(
            s, runtime, first,
            "what begins as the memory of arenascope's recorder is not as this arenadump knows it (another "
            "version made it?): the row recorder is unknown, and its bytes are in the other rows");
    else if (runtime != UINT32_MAX)
        as_runtime_found(s, runtime, own.bytes, NULL,
                         "%" PRIu32 " tables and %" PRIu32 " buffers begin with heads that name their address and size",
                         own.tables, own.buffers);
    return true;
}
