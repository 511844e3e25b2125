// SPDX-License-Identifier: MIT
#include "graph/type_tree.h"
#include "base/memory.h"
#include "graph/types.h"

enum {
    MOST_BRANCHES = 1 << 20,
    BUCKET_BITS = 21,
    BUCKETS = 1 << BUCKET_BITS,
    MOST_TRIES = 256,
};

struct growth {
    struct as_tree *tree;
    uint32_t *buckets;
};

// The branch of a type below a parent. The parent itself, where it has that type too (a list's nodes), or there is no room.
static uint32_t branch_at(struct growth *g, uint32_t parent, uint32_t owner, uint32_t type)
{
    const struct as_branch *above = &g->tree->branches.items[parent];
    if (owner == AS_NO_OWNER && above->owner == AS_NO_OWNER && (above->type == type || above->depth == AS_TREE_DEPTH))
        return parent;
    uint64_t key = ((uint64_t)parent << 32 | (owner == AS_NO_OWNER ? type : owner)) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < MOST_TRIES; i++) {
        uint32_t *bucket = &g->buckets[((key >> (64 - BUCKET_BITS)) + i) % BUCKETS];
        const struct as_branch *b = *bucket != 0 ? &g->tree->branches.items[*bucket] : NULL;
        if (b && b->parent == parent && b->owner == owner && b->type == type)
            return *bucket;
        if (b)
            continue;
        uint32_t depth = above->depth + 1;
        struct as_branch *added = g->tree->branches.count < MOST_BRANCHES ? as_vec_add(&g->tree->branches, NULL) : NULL;
        if (!added)
            break;
        *added =
            (struct as_branch){.parent = parent, .owner = owner, .type = type, .depth = depth, .example = AS_NO_NODE};
        *bucket = (uint32_t)(g->tree->branches.count - 1);
        return *bucket;
    }
    return parent;
}

// The branch of a place below the branch of its parent.
static uint32_t branch_of(struct growth *g, const struct as_graph *graph, const struct as_dominators *d, uint32_t place,
                          uint32_t parent)
{
    uint32_t vertex = d->vertex[place];
    if (vertex < d->owners)
        return branch_at(g, 0, vertex, 0);
    if (d->parent[place] == 0) {
        parent = branch_at(g, 0, AS_SEVERAL_OWNERS, 0);
        g->tree->branches.items[parent].retained += d->retained[place];
    }
    uint32_t at = branch_at(g, parent, AS_NO_OWNER, as_graph_type(graph, vertex - d->owners));
    if (g->tree->branches.items[at].count++ == 0)
        g->tree->branches.items[at].example = vertex - d->owners;
    g->tree->branches.items[at].retained += at != parent ? d->retained[place] : 0;
    return at;
}

// Puts each place on its branch. `branch`: of each place.
static void grow_branches(struct growth *g, const struct as_graph *graph, const struct as_dominators *d,
                          uint32_t *branch)
{
    for (uint32_t place = 1; place < d->count; place++) {
        uint32_t parent = d->parent[place];
        branch[place] = branch_of(g, graph, d, place, branch[parent]);
        if (d->vertex[place] < d->owners)
            g->tree->branches.items[branch[place]].retained = d->retained[place];
        // Its own bytes are what it retains, less what the places right below it do.
        g->tree->branches.items[branch[place]].bytes += d->retained[place];
        if (parent != 0)
            g->tree->branches.items[branch[parent]].bytes -= d->retained[place];
    }
}

bool as_tree_grow(struct as_tree *tree, const struct as_graph *graph, const struct as_dominators *d,
                  struct as_error *err)
{
    struct growth g = {.tree = tree};
    *tree = (struct as_tree){0};
    uint32_t *branch = as_memory_map_large(((size_t)d->count + 1) * sizeof *branch, "the tree of owners", err);
    g.buckets = as_memory_map(BUCKETS * sizeof *g.buckets, "the tree of owners", err);
    bool ok = branch && g.buckets && as_vec_reserve(&tree->branches, 1, err);
    if (ok) {
        tree->branches.count = 1;
        tree->branches.items[0].owner = AS_NO_OWNER;
        grow_branches(&g, graph, d, branch);
        tree->branches.items[0].retained = d->retained[0];
        tree->unreached = graph->index.chunk_bytes - d->retained[0];
    }
    as_memory_unmap(branch, ((size_t)d->count + 1) * sizeof *branch);
    as_memory_unmap(g.buckets, BUCKETS * sizeof *g.buckets);
    return ok;
}

void as_tree_free(struct as_tree *tree)
{
    as_vec_free(&tree->branches);
}
