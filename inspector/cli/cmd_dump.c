// SPDX-License-Identifier: MIT
#include "cli/cli.h"
#include "cli/graph_command.h"
#include "findings/humanize.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void report(const struct as_options *o, const struct as_snapshot *snapshot)
{
    const struct as_meta_record *m = snapshot->view.meta;
    fprintf(stderr, "arenadump: %s: Rss %s in %" PRIu64 " arenas and elsewhere, target stood still for %s", o->output,
            as_size_text(m->rss).text, snapshot->view.arena_count, as_duration_text(m->pause_ns).text);
    if (snapshot->view.warning_count)
        fprintf(stderr, ", %" PRIu64 " warning%s (arenadump summary shows them)", snapshot->view.warning_count,
                snapshot->view.warning_count == 1 ? "" : "s");
    fputc('\n', stderr);
}

// "-": standard output. What cannot be read back, a pipe, gets a copy when all is written.
static bool begin(struct as_dump_writer *w, const char *path, bool *copied, struct as_error *err)
{
    if (strcmp(path, "-") != 0)
        return as_dump_begin(w, path, err);
    if (isatty(STDOUT_FILENO))
        return as_fail(err, AS_USAGE, "a dump is not for a terminal: give -o FILE, or redirect standard output");
    int mode = fcntl(STDOUT_FILENO, F_GETFL, 0);
    struct stat st;
    bool readable = mode >= 0 && (mode & (O_ACCMODE | O_APPEND)) == O_RDWR && fstat(STDOUT_FILENO, &st) == 0;
    *copied = !readable || !S_ISREG(st.st_mode);
    return *copied ? as_dump_begin(w, NULL, err) : as_dump_begin_fd(w, STDOUT_FILENO, err);
}

bool as_cmd_dump(const struct as_options *o, struct as_error *err)
{
    return as_dump_profile(o, NULL, err);
}

bool as_dump_profile(const struct as_options *o, const struct as_profile_baseline *baseline, struct as_error *err)
{
    struct as_graph_snapshot g = {0};
    struct as_snapshot *snapshot = &g.snapshot;
    struct as_dump_writer writer = {AS_OUTPUT_CLOSED};
    bool copied = false;
    bool ok = as_graph_snapshot_open_if_asked(&g, o, err);
    snapshot->baseline = baseline;
    if (snapshot->from_dump)
        ok = as_fail(err, AS_USAGE, "'%s' is a dump already", o->target);
    if (ok) {
        as_signals_guard(&writer.file);
        ok = begin(&writer, o->output, &copied, err) && as_snapshot_take(snapshot, o, &writer, o->chunks, err) &&
             (!copied || as_output_copy(&writer.file, STDOUT_FILENO, err));
        if (ok && isatty(STDERR_FILENO))
            report(o, snapshot);
        as_dump_close(&writer);
        as_signals_guard(NULL);
    }
    as_graph_snapshot_close(&g);
    return ok;
}
