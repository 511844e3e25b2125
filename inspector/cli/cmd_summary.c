// SPDX-License-Identifier: MIT
#include "cli/cli.h"
#include "cli/graph_command.h"
#include "cli/summary/summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MIN_COLUMNS = 80, MAX_COLUMNS = 160 };

// setlocale would say so too, but a static program often cannot load a locale.
static bool locale_is_utf8(void)
{
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

static struct as_table_style table_style(bool live)
{
    struct as_table_style style = {.columns = MIN_COLUMNS, .ascii = !locale_is_utf8(), .live = live};
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        style.columns = size.ws_col;
    if (style.columns < MIN_COLUMNS)
        style.columns = MIN_COLUMNS;
    if (style.columns > MAX_COLUMNS)
        style.columns = MAX_COLUMNS;
    const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
    style.colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour) && terminal && strcmp(terminal, "dumb") != 0;
    return style;
}

bool as_cmd_summary(const struct as_options *o, struct as_error *err)
{
    struct as_graph_snapshot g = {0};
    struct as_snapshot *snapshot = &g.snapshot;
    bool ok = as_graph_snapshot_open_if_asked(&g, o, err) && as_snapshot_take(snapshot, o, NULL, false, err);
    if (ok && o->json) {
        ok = as_summary_json(stdout, &snapshot->view, snapshot->from_dump, err);
    } else if (ok) {
        struct as_table_style style = table_style(snapshot->target && snapshot->target->kind == AS_TARGET_PROCESS);
        ok = as_summary_table(stdout, &snapshot->view, &style, err);
    }
    as_graph_snapshot_close(&g);
    return ok;
}
