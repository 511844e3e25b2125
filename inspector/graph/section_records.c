// SPDX-License-Identifier: MIT
#include "graph/graph.h"
#include "graph/section_owners.h"

// What is searched once, for all records.
struct graph_facts {
    struct as_owners owners;
    struct as_dominators dominators;
    struct as_tree tree;
    struct as_several several;
    struct as_leaks leaks;
    struct as_type_records type_records;
    struct as_owner_records owner_records;
};

static bool find_facts(struct graph_facts *f, struct as_graph *g, struct as_error *err)
{
    return as_graph_leave_unused(g, err) && as_graph_settle_objects(g, err) && as_leaks_find(&f->leaks, g, err) &&
           as_leaks_add_up(&f->leaks, g, err) && as_owners_find(&f->owners, &g->roots, err) &&
           as_dominators_find(&f->dominators, &g->edges, &g->objects, &g->roots, &f->owners, err) &&
           as_dominators_add_up(&f->dominators, &g->index, err) && as_tree_grow(&f->tree, g, &f->dominators, err) &&
           as_several_find(&f->several, &f->dominators, err);
}

static bool record(struct graph_facts *f, struct as_store *s, struct as_graph *g, const struct as_target *t,
                   struct as_error *err)
{
    const struct as_holding h = {g, &f->dominators, &f->leaks, &f->type_records, &f->owner_records};
    return as_type_records_make(&f->type_records, s, g, err) &&
           as_type_records_retain(&f->type_records, s, g, &f->dominators, err) &&
           as_owner_records_make(&f->owner_records, s, g, &f->owners, &f->tree, &f->several, &f->type_records, t,
                                 err) &&
           as_page_users_make(&h, s, err);
}

static struct as_tally tally(const struct as_leaks *leaks, enum as_leak kind)
{
    return (struct as_tally){leaks->sums[kind].count, leaks->sums[kind].bytes};
}

static bool add_head(const struct graph_facts *f, struct as_store *s, const struct as_graph *g, struct as_error *err)
{
    return as_vec_push(&s->graph, err,
                       (struct as_graph_record){
                           .chunks = g->index.chunks,
                           .bytes = g->index.chunk_bytes,
                           .objects = g->objects.blocks,
                           .object_bytes = g->objects.bytes,
                           .pointers = g->edges.pointers,
                           .roots = g->roots.list.count,
                           .unread = g->edges.unread,
                           .unsearched = g->roots.unsearched,
                           .reached = f->tree.branches.items[0].retained,
                           .unreached = f->tree.unreached,
                           .direct = tally(&f->leaks, AS_LEAK_DIRECT),
                           .indirect = tally(&f->leaks, AS_LEAK_INDIRECT),
                           .suspects = tally(&f->leaks, AS_LEAK_SUSPECT),
                           .flags = as_graph_is_whole(g) && s->meta.flags & AS_META_EXACT ? AS_GRAPH_EXACT : 0,
                           .asked = f->several.asked,
                           .mappings = g->index.mapped.count,
                           .mapping_bytes = as_index_mapped_bytes(&g->index),
                       });
}

bool as_graph_add_records(struct as_store *s, struct as_graph *g, const struct as_target *t,
                          const struct as_profile_baseline *baseline, const as_boundary_vec *noted,
                          struct as_error *err)
{
    struct graph_facts f = {0};
    bool ok = find_facts(&f, g, err) && record(&f, s, g, t, err) && add_head(&f, s, g, err) &&
              (!baseline || !baseline->typed || as_growth_records_make(&f.type_records, s, g, baseline, noted, err));
    as_owner_records_free(&f.owner_records);
    as_type_records_free(&f.type_records);
    as_leaks_free(&f.leaks);
    as_tree_free(&f.tree);
    as_dominators_free(&f.dominators);
    as_owners_free(&f.owners);
    return ok;
}

bool as_graph_add_types(struct as_store *s, const struct as_graph *g, struct as_error *err)
{
    struct as_type_records types;
    bool ok = as_type_records_make(&types, s, g, err);
    as_type_records_free(&types);
    return ok;
}
