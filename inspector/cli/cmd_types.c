// SPDX-License-Identifier: MIT
// What the chunks in use are: counts and bytes by type.
#include "cli/cli.h"
#include "cli/graph_command.h"
#include "cli/not_searched.h"
#include "findings/humanize.h"
#include "graph/section_owners.h"

#include <inttypes.h>
#include <stdio.h>

enum { LINES = 30, TYPE_COLUMNS = 80 };

static void put_json(const struct as_graph_snapshot *snapshot, const struct as_store *types,
                     const struct as_type_records *records, const struct as_not_searched *left)
{
    struct as_json j = as_json_begin("arenascope.types/1");
    as_graph_put_head(&j, snapshot);
    as_not_searched_put(&j, left);
    as_json_array(&j, "types");
    for (size_t i = 0; i < types->graph_types.count; i++) {
        const struct as_graph_type_record *r = &types->graph_types.items[i];
        as_json_object(&j, NULL);
        as_json_string(&j, "type", r->name ? as_strings_at(&types->strings, r->name) : NULL);
        as_json_string(&j, "evidence", r->evidence ? as_strings_at(&types->strings, r->evidence) : NULL);
        as_json_bool(&j, "others", r->flags & AS_GRAPH_OTHERS);
        AS_JSON_NUMBERS(&j, r, count, bytes);
        as_json_address(&j, "example", as_graph_example(snapshot, records->examples.items[i]));
        as_json_object_end(&j);
    }
    as_json_array_end(&j);
    as_json_object_end(&j);
}

static void print_text(const struct as_graph_snapshot *snapshot, const struct as_store *types,
                       const struct as_type_records *records, const struct as_not_searched *left)
{
    char text[AS_GRAPH_NAME], example[24];
    as_not_searched_print(left);
    as_graph_print_head(snapshot);
    printf("\n%12s  %10s  %-18s  %s\n", "chunks", "bytes", "example", "type");
    for (size_t i = 0; i < types->graph_types.count && i < LINES; i++) {
        const struct as_graph_type_record *r = &types->graph_types.items[i];
        const char *name = r->flags & AS_GRAPH_OTHERS ? "other types" : as_strings_at(&types->strings, r->name);
        const uint64_t address = as_graph_example(snapshot, records->examples.items[i]);
        snprintf(example, sizeof example, "0x%" PRIx64, address);
        printf("%12" PRIu64 "  %10s  %-18s  %s\n", r->count, as_size_text(r->bytes).text,
               address == AS_UNKNOWN ? "" : example,
               name[0] ? as_safe_text(name, AS_GRAPH_NAME, TYPE_COLUMNS, true, text, sizeof text) : "type not known");
    }
    if (types->graph_types.count > LINES)
        printf("... and %zu more types (--json lists all)\n", types->graph_types.count - LINES);
}

bool as_cmd_types(const struct as_options *o, struct as_error *err)
{
    struct as_graph_snapshot snapshot;
    struct as_store types = {0};
    struct as_type_records records = {0};
    bool ok = as_graph_snapshot_open(&snapshot, o, err) && as_graph_snapshot_take(&snapshot, o, err) &&
              as_graph_find_all_types(&snapshot.graph, err) &&
              as_type_records_make(&records, &types, &snapshot.graph, err);
    if (ok) {
        const struct as_not_searched left = as_not_searched_find(&snapshot, true);
        o->json ? put_json(&snapshot, &types, &records, &left) : print_text(&snapshot, &types, &records, &left);
        ok = as_not_searched_judge(&left, err);
    }
    as_type_records_free(&records);
    as_store_free(&types);
    as_graph_snapshot_close(&snapshot);
    return ok;
}
