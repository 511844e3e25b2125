// SPDX-License-Identifier: MIT
// The order in which the branches of a tree are shown.
#include "graph/type_tree.h"

#include <stdlib.h>

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
static void put_in_order(struct as_tree_order *s, const uint32_t *children, const uint32_t *first)
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
        s->branches[s->count++] = branch;
        open[++depth].next = first[branch];
        open[depth].end = first[branch + 1];
    }
}

bool as_tree_sort(struct as_tree_order *order, const struct as_tree *tree, struct as_error *err)
{
    uint32_t count = (uint32_t)tree->branches.count;
    *order = (struct as_tree_order){0};
    uint32_t *children = calloc(count + 1, sizeof *children), *first = calloc(count + 2, sizeof *first);
    order->branches = calloc(count + 1, sizeof *order->branches);
    bool ok = children && first && order->branches;
    for (uint32_t i = 1; ok && i < count; i++)
        children[i - 1] = i;
    sorted = tree->branches.items;
    if (ok) {
        qsort(children, count - 1, sizeof *children, by_parent);
        find_children(tree, children, count - 1, first);
        put_in_order(order, children, first);
    }
    free(children);
    free(first);
    return ok || as_fail(err, AS_NO_MEMORY, "no memory for the tree of owners");
}

void as_tree_order_free(struct as_tree_order *order)
{
    free(order->branches);
    *order = (struct as_tree_order){0};
}
