// SPDX-License-Identifier: MIT
// What nothing points to any more.
#include "cli/cli.h"
#include "cli/graph_command.h"
#include "cli/not_searched.h"
#include "findings/humanize.h"
#include "graph/leaks.h"

#include <inttypes.h>
#include <stdio.h>

enum { LINES = 20, TYPE_COLUMNS = 60 };

static const char *const names[AS_LEAK_KINDS] = {
    [AS_LEAK_DIRECT] = "direct", [AS_LEAK_INDIRECT] = "indirect", [AS_LEAK_SUSPECT] = "suspects"};

static void put_sums(struct as_json *j, const struct as_leak_sum sums[AS_LEAK_KINDS], int end)
{
    for (int i = AS_LEAK_DIRECT; i < end; i++)
        AS_JSON_OBJECT(j, names[i], &sums[i], count, bytes);
}

static void put_json(const struct as_graph_snapshot *snapshot, const struct as_leaks *leaks,
                     const struct as_not_searched *left)
{
    struct as_json j = as_json_begin("arenascope.leaks/1");
    as_graph_put_head(&j, snapshot);
    as_not_searched_put(&j, left);
    put_sums(&j, leaks->sums, AS_LEAK_KINDS);
    as_json_object(&j, "in_cycles");
    put_sums(&j, leaks->in_cycles, AS_LEAK_SUSPECT);
    as_json_object_end(&j);
    if (leaks->garbage.count == AS_UNKNOWN)
        as_json_null(&j, "garbage");
    else
        as_json_counts(&j, "garbage", leaks->garbage.count, leaks->garbage.bytes);
    as_json_array(&j, "by_type");
    AS_FOR_EACH(const struct as_leak_group, g, &leaks->groups) {
        as_json_object(&j, NULL);
        as_graph_put_type(&j, snapshot, g->type);
        as_json_number(&j, "size", g->size != 0 ? g->size : AS_UNKNOWN);
        put_sums(&j, g->sums, AS_LEAK_KINDS);
        as_json_number(&j, "in_cycles", g->in_cycles);
        as_json_address(&j, "example", g->example);
        as_json_object_end(&j);
    }
    as_json_array_end(&j);
    as_json_object_end(&j);
}

static void print_sum(const char *words, struct as_leak_sum sum)
{
    printf("%-64s %12" PRIu64 "  %10s\n", words, sum.count, as_size_text(sum.bytes).text);
}

static struct as_leak_sum less(const struct as_leak_sum *sum, const struct as_leak_sum *part)
{
    return (struct as_leak_sum){sum->count - part->count, sum->bytes - part->bytes};
}

// How the chunks of a kind are lost, where this is not plain.
static const char *remark_of(const struct as_leak_group *g)
{
    uint64_t direct = g->sums[AS_LEAK_DIRECT].count, lost = direct + g->sums[AS_LEAK_INDIRECT].count;
    if (lost == 0)
        return "  (suspects)";
    return g->in_cycles == lost ? "  (lost in a cycle)" : direct == 0 ? "  (lost with others)" : "";
}

static void print_text(const struct as_graph_snapshot *snapshot, const struct as_leaks *leaks,
                       const struct as_not_searched *left)
{
    char text[AS_GRAPH_NAME];
    as_not_searched_print(left);
    as_graph_print_head(snapshot);
    printf("\n%-64s %12s  %10s\n", "", "chunks", "bytes");
    const struct as_leak_sum *direct = &leaks->in_cycles[AS_LEAK_DIRECT], *more = &leaks->in_cycles[AS_LEAK_INDIRECT];
    print_sum("lost: nothing points to them", less(&leaks->sums[AS_LEAK_DIRECT], direct));
    print_sum("lost with them: only lost chunks do", less(&leaks->sums[AS_LEAK_INDIRECT], more));
    print_sum("lost in a cycle: they point to each other",
              (struct as_leak_sum){direct->count + more->count, direct->bytes + more->bytes});
    print_sum("suspects: only one word of a stack does", leaks->sums[AS_LEAK_SUSPECT]);
    if (leaks->garbage.count != AS_UNKNOWN)
        print_sum("not lost: garbage not yet collected, or held in an unknown way", leaks->garbage);
    for (size_t i = 0; i < leaks->groups.count && i < LINES; i++) {
        const struct as_leak_group *g = &leaks->groups.items[i];
        uint64_t count = 0, all = 0;
        for (int k = AS_LEAK_DIRECT; k < AS_LEAK_KINDS; k++) {
            count += g->sums[k].count;
            all += g->sums[k].bytes;
        }
        if (i == 0)
            printf("\n%12s  %10s  %9s  %-18s  %s\n", "chunks", "bytes", "each", "example", "type");
        printf("%12" PRIu64 "  %10s  %9s  0x%-16" PRIx64 "  %s%s\n", count, as_size_text(all).text,
               g->size ? as_size_text(g->size).text : "various", g->example,
               as_graph_type_text(snapshot, g->type, TYPE_COLUMNS, text), remark_of(g));
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
