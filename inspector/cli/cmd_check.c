// SPDX-License-Identifier: MIT
// For those who map a dump themselves: whatever a reader relies on has been checked then.
#include "cli/cli.h"
#include "cli/summary/summary.h"
#include "config.h"
#include "dump/dump.h"

#include <stdlib.h>
#include <string.h>

// The summary that a dump has is that of its records. Another version may have had other words for it: nobody reads it then.
static bool check_summary(const struct as_view *v, const char *name, struct as_error *err)
{
    char *text = NULL;
    size_t size = 0;
    if (v->summary_size == 0 || strcmp(as_view_string(v, v->meta->tool_version), AS_VERSION) != 0)
        return true;
    bool ok = as_summary_text(v, &text, &size, err);
    if (ok && (size != v->summary_size || memcmp(text, v->summary, size) != 0))
        ok = as_fail(err, AS_BAD_INPUT, "'%s' is damaged: its summary is not that of its records", name);
    free(text);
    return ok;
}

bool as_cmd_check(const struct as_options *o, struct as_error *err)
{
    bool ok = true;
    for (int i = 0; ok && i < o->target_count; i++) {
        struct as_dump_file dump;
        ok = as_dump_open(&dump, o->targets[i], err) && check_summary(&dump.view, o->targets[i], err);
        as_dump_file_close(&dump);
    }
    return ok;
}
