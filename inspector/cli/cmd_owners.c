// SPDX-License-Identifier: MIT
// Who holds the chunks in use: variables, stacks and mappings, by what would be free without each.
#include "cli/cli.h"
#include "cli/graph_command.h"
#include "cli/json.h"
#include "cli/not_searched.h"
#include "findings/humanize.h"
#include "graph/dominators.h"
#include "graph/graph.h"
#include "graph/owners.h"
#include "graph/type_tree.h"

#include <inttypes.h>
#include <stdio.h>

struct shown {
    struct as_graph_snapshot *snapshot;
    const struct as_owners *owners;
    const struct as_tree *tree;
    const struct as_tree_order *order;
    const struct as_several *several;
    struct as_not_searched left;
};

static void put_json(const struct shown *s)
{
    struct as_json j = as_json_begin("arenascope.owners/1");
    as_graph_put_head(&j, s->snapshot);
    as_not_searched_put(&j, &s->left);
    as_json_number(&j, "reached", s->tree->branches.items[0].retained);
    as_json_number(&j, "unreached", s->tree->unreached);
    as_json_array(&j, "branches");
    for (uint32_t i = 0; i < s->order->count; i++) {
        const struct as_branch *b = &s->tree->branches.items[s->order->branches[i]];
        as_json_object(&j, NULL);
        as_json_number(&j, "depth", b->depth - 1);
        as_graph_put_owner(&j, s->snapshot, s->owners, b->owner);
        as_graph_put_type(&j, s->snapshot, b->type);
        AS_JSON_NUMBERS(&j, b, count, bytes, retained);
        as_json_address(&j, "example", as_graph_example(s->snapshot, b->example));
        as_json_object_end(&j);
    }
    as_json_array_end(&j);
    as_json_object(&j, "several");
    AS_JSON_NUMBERS(&j, s->several, bytes, owners, asked);
    as_json_array(&j, "leading");
    for (uint32_t i = 0; i < s->several->count; i++) {
        as_json_object(&j, NULL);
        as_graph_put_owner(&j, s->snapshot, s->owners, s->several->leading[i].owner);
        as_json_number(&j, "bytes", s->several->leading[i].bytes);
        as_json_object_end(&j);
    }
    as_json_array_end(&j);
    as_json_object_end(&j);
    as_json_object_end(&j);
}

// What retains less than this share of all is not shown, nor what lies deeper.
enum { SHARE = 200, DEEPEST = 7, TYPE_COLUMNS = 70, SHOWN_LEADING = 8 };

// Who leads to what several owners have together.
static void print_several(const struct shown *s)
{
    char text[AS_GRAPH_NAME];
    const struct as_several *several = s->several;
    uint32_t shown = several->count < SHOWN_LEADING ? several->count : SHOWN_LEADING;
    printf("\n%s has several owners. It stays while one of them leads to it:\n", as_size_text(several->bytes).text);
    for (uint32_t i = 0; i < shown; i++)
        printf("%10s  %s\n", as_size_text(several->leading[i].bytes).text,
               as_graph_owner_text(s->snapshot, s->owners, several->leading[i].owner, text));
    if (several->owners > shown)
        printf("%10s  %" PRIu32 " more owners (--json lists those that lead to most)\n", "", several->owners - shown);
    if (several->asked < several->owners)
        printf("%10s  Only the %" PRIu32 " owners that lead to most directly were asked to how much they lead.\n", "",
               several->asked);
}

static void print_text(const struct shown *s)
{
    char text[AS_GRAPH_NAME], example[24];
    uint64_t least = s->tree->branches.items[0].retained / SHARE;
    uint32_t hidden = DEEPEST; // below a branch that is not shown, nothing is
    as_not_searched_print(&s->left);
    as_graph_print_head(s->snapshot);
    printf("\n%10s  %10s  %10s  %-18s  %s\n", "retained", "own", "chunks", "example", "held by");
    for (uint32_t i = 0; i < s->order->count; i++) {
        const struct as_branch *b = &s->tree->branches.items[s->order->branches[i]];
        if (b->depth > hidden)
            continue;
        hidden = b->retained < least ? b->depth : DEEPEST;
        if (b->retained < least)
            continue;
        if (b->example != AS_NO_NODE)
            snprintf(example, sizeof example, "0x%" PRIx64, as_graph_example(s->snapshot, b->example));
        printf("%10s  %10s  %10" PRIu64 "  %-18s  %*s%s\n", as_size_text(b->retained).text, as_size_text(b->bytes).text,
               b->count, b->example != AS_NO_NODE ? example : "", (int)(2 * (b->depth - 1)), "",
               b->owner == AS_SEVERAL_OWNERS ? "several owners together"
               : b->owner != AS_NO_OWNER     ? as_graph_owner_text(s->snapshot, s->owners, b->owner, text)
                                             : as_graph_type_text(s->snapshot, b->type, TYPE_COLUMNS, text));
    }
    if (s->tree->unreached > 0)
        printf("%10s  lost: nothing, or only lost chunks point to it (arenadump leaks)\n",
               as_size_text(s->tree->unreached).text);
    if (s->several->bytes > least)
        print_several(s);
    if (s->snapshot->graph.objects.of_node)
        puts("\nObjects that an interpreter surely holds count for it alone: words of other owners' chunks\n"
             "that lead to them, too, are mostly left over, and own nothing of them.");
}

bool as_cmd_owners(const struct as_options *o, struct as_error *err)
{
    struct as_graph_snapshot snapshot;
    struct as_owners owners = {0};
    struct as_dominators d = {0};
    struct as_tree tree = {0};
    struct as_tree_order order = {0};
    struct as_several several;
    struct shown s = {&snapshot, &owners, &tree, &order, &several, {0}};
    struct as_graph *g = &snapshot.graph;
    bool ok = as_graph_snapshot_open(&snapshot, o, err) && as_graph_snapshot_take(&snapshot, o, err) &&
              as_graph_find_all_types(g, err) && as_graph_leave_unused(g, err) && as_graph_settle_objects(g, err) &&
              as_owners_find(&owners, &g->roots, err) &&
              as_dominators_find(&d, &g->edges, &g->objects, &g->roots, &owners, err) &&
              as_dominators_add_up(&d, &g->index, err) && as_tree_grow(&tree, g, &d, err) &&
              as_tree_sort(&order, &tree, err) && as_several_find(&several, &d, err);
    if (ok) {
        s.left = as_not_searched_find(&snapshot, true);
        o->json ? put_json(&s) : print_text(&s);
        ok = as_not_searched_judge(&s.left, err);
    }
    as_tree_order_free(&order);
    as_tree_free(&tree);
    as_dominators_free(&d);
    as_owners_free(&owners);
    as_graph_snapshot_close(&snapshot);
    return ok;
}
