// SPDX-License-Identifier: MIT
// The verdict in the summary: its members "verdict" and "findings".
#include "cli/json.h"
#include "cli/summary/summary.h"
#include "findings/findings.h"

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
