// SPDX-License-Identifier: MIT
#include "cli/cli.h"
#include "cli/graph.h"
#include "cli/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static void report(const struct as_options *o, const struct as_look *look)
{
    char rss[AS_SIZE_TEXT], pause[AS_SIZE_TEXT];
    const struct as_meta_record *m = look->view.meta;
    fprintf(stderr, "arenadump: %s: Rss %s in %" PRIu64 " arenas and elsewhere, target stood still for %s", o->output,
            as_format_size(m->rss, rss), look->view.arena_count, as_format_duration(m->pause_ns, pause));
    if (look->view.warning_count)
        fprintf(stderr, ", %" PRIu64 " warning%s (arenadump summary shows them)", look->view.warning_count,
                look->view.warning_count == 1 ? "" : "s");
    fputc('\n', stderr);
}

bool as_cmd_dump(const struct as_options *o, struct as_error *err)
{
    struct as_graph_look g = {0};
    struct as_look *look = &g.look;
    struct as_dump_writer writer = {AS_OUTPUT_CLOSED};
    bool ok = as_graph_look_open_if_asked(&g, o, err);
    if (look->from_dump)
        ok = as_fail(err, AS_USAGE, "'%s' is a dump already", o->target);
    if (ok) {
        as_signals_guard(&writer.file);
        ok = as_dump_begin(&writer, o->output, err) && as_look_take(look, o, &writer, o->chunks, err);
        if (ok && isatty(STDERR_FILENO))
            report(o, look);
        as_dump_close(&writer);
        as_signals_guard(NULL);
    }
    as_graph_look_close(&g);
    return ok;
}
