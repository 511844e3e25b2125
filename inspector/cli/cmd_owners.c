// SPDX-License-Identifier: MIT
// Who holds the chunks in use: variables, stacks and mappings, by what would be free without each.
#include "cli/cli.h"
#include "cli/graph.h"
#include "cli/json.h"
#include "cli/text.h"
#include "graph/owners.h"
#include "graph/tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct shown {
    const struct as_graph_look *look;
    const struct as_owners *owners;
    const struct as_tree *tree;
    uint32_t *order; // the branches but the trunk, each behind the one that it hangs on; those that retain most first
    uint32_t count;
};

static const struct as_branch *sorted; // qsort takes no context

static int by_parent(const void *a, const void *b)
{
    const struct as_branch *x = &sorted[*(const uint32_t *)a], *y = &sorted[*(const uint32_t *)b];
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    return x->retained > y->retained ? -1 : x->retained < y->retained;
}

// Where the children of each branch begin in `by_parent`, which has `count` branches.
static void find_children(const struct as_tree *tree, const uint32_t *children, uint32_t count, uint32_t *first)
{
    for (uint32_t i = 0, at = 0; i <= tree->branches.count; i++) {
        while (at < count && tree->branches.items[children[at]].parent < i)
            at++;
        first[i] = at;
    }
}

// From the trunk up, with the way back in `open`: at most one branch for each depth.
static void put_in_order(struct shown *s, const uint32_t *children, const uint32_t *first)
{
    struct {
        uint32_t next, end;
    } open[AS_TREE_DEPTH + 3] = {{first[0], first[1]}};
    for (int depth = 0; depth >= 0;) {
        if (open[depth].next == open[depth].end) {
            depth--;
            continue;
        }
        uint32_t branch = children[open[depth].next++];
        s->order[s->count++] = branch;
        open[++depth].next = first[branch];
        open[depth].end = first[branch + 1];
    }
}

static bool sort_branches(struct shown *s, struct as_error *err)
{
    uint32_t count = (uint32_t)s->tree->branches.count;
    uint32_t *children = calloc(count + 1, sizeof *children), *first = calloc(count + 2, sizeof *first);
    s->order = calloc(count + 1, sizeof *s->order);
    bool ok = children && first && s->order;
    for (uint32_t i = 1; ok && i < count; i++)
        children[i - 1] = i;
    sorted = s->tree->branches.items;
    if (ok) {
        qsort(children, count - 1, sizeof *children, by_parent);
        find_children(s->tree, children, count - 1, first);
        put_in_order(s, children, first);
    }
    free(children);
    free(first);
    return ok || as_fail(err, AS_NO_MEMORY, "no memory for the tree of owners");
}

static void put_json(const struct shown *s)
{
    struct as_json j = {.out = stdout, .empty = true};
    as_json_object(&j, NULL);
    as_graph_put_head(&j, "arenascope.owners/1", s->look);
    as_json_number(&j, "reached", s->tree->branches.items[0].retained);
    as_json_number(&j, "unreached", s->tree->unreached);
    as_json_array(&j, "branches");
    for (uint32_t i = 0; i < s->count; i++) {
        const struct as_branch *b = &s->tree->branches.items[s->order[i]];
        as_json_object(&j, NULL);
        as_json_number(&j, "depth", b->depth - 1);
        as_graph_put_owner(&j, s->look, s->owners, b->owner);
        as_graph_put_type(&j, s->look, b->type);
        as_json_number(&j, "count", b->count);
        as_json_number(&j, "bytes", b->bytes);
        as_json_number(&j, "retained", b->retained);
        as_json_object_end(&j);
    }
    as_json_array_end(&j);
    as_json_object_end(&j);
    putchar('\n');
}

// What retains less than this share of all is not shown, nor what lies deeper.
enum { SHARE = 200, DEEPEST = 7, TYPE_COLUMNS = 70 };

static void print_text(const struct shown *s)
{
    char text[AS_GRAPH_NAME], retained[AS_SIZE_TEXT], bytes[AS_SIZE_TEXT];
    uint64_t least = s->tree->branches.items[0].retained / SHARE;
    uint32_t hidden = DEEPEST; // below a branch that is not shown, nothing is
    as_graph_print_head(s->look);
    printf("\n%10s  %10s  %10s  %s\n", "retained", "own", "chunks", "held by");
    for (uint32_t i = 0; i < s->count; i++) {
        const struct as_branch *b = &s->tree->branches.items[s->order[i]];
        if (b->depth > hidden)
            continue;
        hidden = b->retained < least ? b->depth : DEEPEST;
        if (b->retained < least)
            continue;
        printf("%10s  %10s  %10" PRIu64 "  %*s%s\n", as_format_size(b->retained, retained),
               as_format_size(b->bytes, bytes), b->count, (int)(2 * (b->depth - 1)), "",
               b->owner == AS_SEVERAL_OWNERS ? "several owners together"
               : b->owner != AS_NO_OWNER     ? as_graph_owner_text(s->look, s->owners, b->owner, text)
                                             : as_graph_type_text(s->look, b->type, TYPE_COLUMNS, text));
    }
    if (s->tree->unreached > 0)
        printf("%10s  lost: nothing points to it (arenadump leaks)\n", as_format_size(s->tree->unreached, bytes));
}

bool as_cmd_owners(const struct as_options *o, struct as_error *err)
{
    struct as_graph_look look;
    struct as_owners owners = {0};
    struct as_dominators d = {0};
    struct as_tree tree = {0};
    struct shown s = {.look = &look, .owners = &owners, .tree = &tree};
    const struct as_graph *g = &look.graph;
    bool ok = as_graph_look_open(&look, o, err) && as_graph_look_take(&look, o, err) &&
              as_owners_find(&owners, &g->roots, err) && as_dominators_find(&d, &g->edges, &g->roots, &owners, err) &&
              as_dominators_add_up(&d, &g->index, err) && as_tree_grow(&tree, g, &d, err) && sort_branches(&s, err);
    if (ok && o->json)
        put_json(&s);
    else if (ok)
        print_text(&s);
    free(s.order);
    as_tree_free(&tree);
    as_dominators_free(&d);
    as_owners_free(&owners);
    as_graph_look_close(&look);
    return ok;
}
