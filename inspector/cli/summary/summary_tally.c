// SPDX-License-Identifier: MIT
#include "cli/json.h"
#include "cli/summary/summary.h"

void as_summary_tally(struct as_json *j, const char *key, struct as_tally tally)
{
    as_json_object(j, key);
    as_json_number(j, "count", tally.count);
    as_json_number(j, "bytes", tally.bytes);
    as_json_object_end(j);
}
