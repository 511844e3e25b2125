// SPDX-License-Identifier: MIT
// The verdict in the summary: the members "verdict" and "findings", and the first lines of the table.
#include "cli/json.h"
#include "cli/summary/summary.h"
#include "cli/terminal.h"
#include "findings/findings.h"
#include "findings/humanize.h"

#include <inttypes.h>
#include <stdlib.h>

static void put_finding(struct as_json *j, const struct as_finding *f)
{
    static const char *const ranks[] = {"premise", "row", "part", "beside"}, *const trims[] = {NULL, "plain", "deep"};
    static const char *const tells[] = {"size", "type", "leak"};
    as_json_object(j, NULL);
    as_json_string(j, "rule", f->rule);
    as_json_string(j, "rank", ranks[f->rank]);
    as_json_number(j, "bytes", f->bytes);
    as_json_share(j, "share", f->share);
    as_json_string(j, "sentence", f->sentence);
    as_json_string(j, "estimate", *f->estimate ? f->estimate : NULL);
    as_json_array(j, "rows");
    for (int row = 0; row < AS_ROW_COUNT; row++)
        if (f->rows >> row & 1)
            as_json_string(j, NULL, as_row_words[row].name);
    as_json_array_end(j);
    as_json_string(j, "lights", f->lights);
    as_json_string(j, "trim", trims[f->trim]);
    as_json_array(j, "tells");
    for (unsigned i = 0; i < sizeof tells / sizeof *tells; i++)
        if (f->tells >> i & 1)
            as_json_string(j, NULL, tells[i]);
    as_json_array_end(j);
    as_json_object_end(j);
}

bool as_summary_findings(struct as_json *j, const struct as_view *v, struct as_error *err)
{
    struct as_verdict *verdict = as_verdict_make(v, err);
    if (!verdict)
        return false;
    as_json_object(j, "verdict");
    as_json_string(j, "lead", verdict->lead);
    as_json_array(j, "caveats");
    for (uint32_t i = 0; i < verdict->caveat_count; i++)
        as_json_string(j, NULL, verdict->caveats[i]);
    as_json_array_end(j);
    as_json_number(j, "least", verdict->least);
    as_json_object_end(j);
    as_json_array(j, "findings");
    for (uint32_t i = 0; i < verdict->finding_count; i++)
        put_finding(j, &verdict->findings[i]);
    as_json_array_end(j);
    free(verdict);
    return true;
}

// As a terminal takes it: with `ascii`, what is beyond ASCII is escaped.
static void put_words(struct as_writer *w, uint32_t number, const char *words, const char *estimate)
{
    char text[AS_SENTENCE], label[16] = "";
    if (number > 0)
        snprintf(label, sizeof label, "%" PRIu32 ". ", number);
    as_safe_text(words, SIZE_MAX, SIZE_MAX, w->style->ascii, text, sizeof text);
    as_wrapped(w, number > 0 ? 2 : 0, "%s%s%s%s%s", label, text, *estimate ? " (An estimate: " : "", estimate,
               *estimate ? ".)" : "");
}

// What arenadump itself can do about a finding, or tells more of it; of a process that runs.
static void put_commands(struct as_writer *w, const struct as_view *v, const struct as_finding *f)
{
    uint32_t pid = v->meta->pid;
    bool asks = f->rows >> AS_ROW_in_use & 1 && v->meta->malloc_kind == AS_MALLOC_GLIBC && v->graph_count == 0;
    if (!w->style->live)
        return;
    if (f->trim != AS_TRIM_NONE)
        as_put(w, "     arenadump trim %" PRIu32 "%s\n", pid, f->trim == AS_TRIM_DEEP ? " --deep" : "");
    if (asks)
        as_put(w, "     arenadump owners %" PRIu32 "\n", pid);
    if (asks && f->tells & AS_TELLS_LEAK)
        as_put(w, "     arenadump leaks %" PRIu32 "\n", pid);
}

bool as_summary_verdict(struct as_writer *w, const struct as_view *v, struct as_error *err)
{
    struct as_verdict *verdict = as_verdict_make(v, err);
    if (!verdict)
        return false;
    as_put(w, "\n");
    put_words(w, 0, verdict->lead, "");
    for (uint32_t i = 0; i < verdict->finding_count; i++) {
        put_words(w, i + 1, verdict->findings[i].sentence, verdict->findings[i].estimate);
        put_commands(w, v, &verdict->findings[i]);
    }
    for (uint32_t i = 0; i < verdict->caveat_count; i++)
        put_words(w, 0, verdict->caveats[i], "");
    free(verdict);
    return true;
}
