// SPDX-License-Identifier: MIT
// One line for each chunk, for other programs: "0x55d0c0de02a0 48 in_use".
#include "cli/cli.h"
#include "cli/enum_names.h"
#include "cli/open_target.h"
#include "model/chunks.h"

#include <inttypes.h>
#include <stdio.h>

static bool print_chunks(const struct as_view *v, const char *target, struct as_error *err)
{
    uint64_t torn = 0;
    for (uint64_t i = 0; i < v->heap_count; i++) {
        struct as_chunk_cursor cursor = as_chunks_of(v, &v->heaps[i]);
        struct as_chunk_entry chunk;
        const char *mapped = v->heaps[i].kind == AS_HEAP_MMAPPED ? " mmapped" : "";
        while (as_chunk_next(&cursor, &chunk))
            printf("0x%" PRIx64 " %" PRIu64 " %s%s\n", chunk.address, chunk.size, as_chunk_name(chunk.kind), mapped);
        torn += cursor.torn;
    }
    return torn == 0 ||
           as_fail(err, AS_BAD_INPUT, "the chunk records of %" PRIu64 " heaps of '%s' do not cover them", torn, target);
}

bool as_cmd_chunks(const struct as_options *o, struct as_error *err)
{
    struct as_snapshot snapshot;
    struct as_dump_writer memory = {AS_OUTPUT_CLOSED};
    bool ok = as_snapshot_open(&snapshot, o->target, err) &&
              (snapshot.from_dump || as_dump_begin(&memory, NULL, err)) &&
              as_snapshot_take(&snapshot, o, &memory, true, err) && as_snapshot_needs_glibc(&snapshot, o, err);
    if (ok && !snapshot.view.chunks)
        ok = as_fail(err, AS_BAD_INPUT, "'%s' has no chunk records: take it with arenadump dump --chunks", o->target);
    ok = ok && print_chunks(&snapshot.view, o->target, err);
    as_dump_close(&memory);
    as_snapshot_close(&snapshot);
    return ok;
}
