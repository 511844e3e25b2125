// SPDX-License-Identifier: MIT
// What the summary says of files in memory that are open and not mapped: beside the ledger, as no Rss counts them.
#include "cli/json.h"
#include "cli/summary/summary.h"
#include "ledger/ledger.h"

void as_summary_open_files(struct as_json *j, const struct as_view *v)
{
    if (v->meta->descriptors == AS_UNKNOWN) {
        as_json_null(j, "open_files");
        return;
    }
    struct as_largest largest = {.most = 20};
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < v->open_file_count; i++) {
        bytes = as_add(bytes, v->open_files[i].bytes);
        as_largest_offer(&largest, i, v->open_files[i].bytes);
    }
    as_json_object(j, "open_files");
    as_json_number(j, "count", v->open_file_count);
    as_json_number(j, "bytes", bytes);
    as_json_number(j, "descriptors_left", v->meta->descriptors_left);
    as_json_array(j, "largest");
    for (uint32_t i = 0; i < largest.count; i++) {
        const struct as_open_file_record *f = &v->open_files[largest.index[i]];
        as_json_object(j, NULL);
        as_json_string(j, "name", as_string_or_null(v, f->name));
        AS_JSON_NUMBERS(j, f, descriptors, bytes);
        as_json_object_end(j);
    }
    as_json_array_end(j);
    as_json_object_end(j);
}
