// SPDX-License-Identifier: MIT
// What nothing points to any more.
#include "cli/cli.h"
#include "cli/graph_command.h"
#include "cli/humanize.h"
#include "cli/not_searched.h"
#include "graph/leaks.h"

#include <inttypes.h>
#include <stdio.h>

enum { LINES = 20, TYPE_COLUMNS = 60 };

static const char *const names[AS_LEAK_KINDS] = {
    [AS_LEAK_DIRECT] = "direct", [AS_LEAK_INDIRECT] = "indirect", [AS_LEAK_SUSPECT] = "suspects"};

static void put_sums(struct as_json *j, const struct as_leak_sum sums[AS_LEAK_KINDS])
{
    for (int i = AS_LEAK_DIRECT; i < AS_LEAK_KINDS; i++) {
        as_json_object(j, names[i]);
        as_json_number(j, "count", sums[i].count);
        as_json_number(j, "bytes", sums[i].bytes);
        as_json_object_end(j);
    }
}

static void put_json(const struct as_graph_snapshot *snapshot, const struct as_leaks *leaks,
                     const struct as_not_searched *left)
{
    struct as_json j = {.out = stdout, .empty = true};
    as_json_object(&j, NULL);
    as_graph_put_head(&j, "arenascope.leaks/1", snapshot);
    as_not_searched_put(&j, left);
    put_sums(&j, leaks->sums);
    as_json_array(&j, "by_type");
    for (size_t i = 0; i < leaks->groups.count; i++) {
        const struct as_leak_group *g = &leaks->groups.items[i];
        as_json_object(&j, NULL);
        as_graph_put_type(&j, snapshot, g->type);
        as_json_number(&j, "size", g->size != 0 ? g->size : AS_UNKNOWN);
        put_sums(&j, g->sums);
        as_json_address(&j, "example", g->example);
        as_json_object_end(&j);
    }
    as_json_array_end(&j);
    as_json_object_end(&j);
    putchar('\n');
}

static void print_sum(const char *words, const struct as_leak_sum *sum)
{
    char bytes[AS_SIZE_TEXT];
    printf("%-44s %12" PRIu64 "  %10s\n", words, sum->count, as_format_size(sum->bytes, bytes));
}

static void print_text(const struct as_graph_snapshot *snapshot, const struct as_leaks *leaks,
                       const struct as_not_searched *left)
{
    char text[AS_GRAPH_NAME], bytes[AS_SIZE_TEXT], size[AS_SIZE_TEXT];
    as_not_searched_print(left);
    as_graph_print_head(snapshot);
    printf("\n%-44s %12s  %10s\n", "", "chunks", "bytes");
    print_sum("lost: nothing points to them", &leaks->sums[AS_LEAK_DIRECT]);
    print_sum("lost with them: only lost chunks do", &leaks->sums[AS_LEAK_INDIRECT]);
    print_sum("suspects: only one word of a stack does", &leaks->sums[AS_LEAK_SUSPECT]);
    for (size_t i = 0; i < leaks->groups.count && i < LINES; i++) {
        const struct as_leak_group *g = &leaks->groups.items[i];
        uint64_t count = 0, all = 0;
        for (int k = AS_LEAK_DIRECT; k < AS_LEAK_KINDS; k++) {
            count += g->sums[k].count;
            all += g->sums[k].bytes;
        }
        if (i == 0)
            printf("\n%12s  %10s  %9s  %-18s  %s\n", "chunks", "bytes", "each", "example", "type");
        printf("%12" PRIu64 "  %10s  %9s  0x%-16" PRIx64 "  %s%s\n", count, as_format_size(all, bytes),
               g->size ? as_format_size(g->size, size) : "various", g->example,
               as_graph_type_text(snapshot, g->type, TYPE_COLUMNS, text),
               g->sums[AS_LEAK_DIRECT].count == 0 && g->sums[AS_LEAK_INDIRECT].count > 0 ? "  (lost with others)"
               : g->sums[AS_LEAK_DIRECT].count + g->sums[AS_LEAK_INDIRECT].count == 0    ? "  (suspects)"
                                                                                         : "");
    }
    if (leaks->groups.count > LINES)
        printf("... and %zu more kinds (--json lists all)\n", leaks->groups.count - LINES);
}

bool as_cmd_leaks(const struct as_options *o, struct as_error *err)
{
    struct as_graph_snapshot snapshot;
    struct as_leaks leaks = {0};
    bool ok = as_graph_snapshot_open(&snapshot, o, err) && as_graph_snapshot_take(&snapshot, o, err) &&
              as_leaks_find(&leaks, &snapshot.graph, err) && as_graph_find_types(&snapshot.graph, leaks.of_node, err) &&
              as_graph_find_shapes(&snapshot.graph, leaks.of_node, err) &&
              as_leaks_add_up(&leaks, &snapshot.graph, err);
    if (ok) {
        const struct as_not_searched left = as_not_searched_find(&snapshot, false);
        o->json ? put_json(&snapshot, &leaks, &left) : print_text(&snapshot, &leaks, &left);
        ok = as_not_searched_judge(&left, err);
    }
    as_leaks_free(&leaks);
    as_graph_snapshot_close(&snapshot);
    return ok;
}
