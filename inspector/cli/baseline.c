// SPDX-License-Identifier: MIT
#include "cli/baseline.h"
#include "cli/graph_command.h"

#include <stdio.h>

struct first_walk {
    struct as_profile_baseline *out;
    struct as_graph *graph; // NULL: types are not asked for
};

static void begin(void *context)
{
    const struct first_walk *c = context;
    if (c->graph)
        as_graph_begin(c->graph);
}

// Perhaps more than once: a freeze that took too long is given up for a clone.
static bool count(void *context, struct as_target *t, const struct as_malloc *m, const struct as_store *s,
                  as_boundary_vec *boundaries, struct as_error *err)
{
    const struct first_walk *c = context;
    c->out->sizes.count = 0;
    return as_profile_count_sizes(boundaries, &c->out->sizes, err) &&
           (!c->graph || as_graph_read(c->graph, t, m, s, boundaries, err));
}

// The types that the snapshot's store has become the baseline's, with all its strings.
static bool take_types(struct as_graph_snapshot *g, struct as_profile_baseline *out, struct as_error *err)
{
    struct as_store *s = &g->snapshot.store;
    if (!as_graph_find_all_types(&g->graph, err) || !as_graph_add_types(s, &g->graph, err))
        return false;
    out->types = s->graph_types;
    out->strings = s->strings;
    s->graph_types = (as_graph_type_vec){0};
    s->strings = (struct as_strings){0};
    out->typed = true;
    out->types_exact = as_graph_is_exact(g);
    return true;
}

static bool take(const struct as_options *o, struct as_profile_baseline *out, struct as_error *err)
{
    struct as_graph_snapshot g = {0};
    struct as_snapshot *snapshot = &g.snapshot;
    struct first_walk counting = {out, o->graph ? &g.graph : NULL};
    const struct as_stopped_reader reader = {count, &counting, begin};
    const struct as_snapshot_options how = {.chunk_fd = -1,
                                            .reader = &reader,
                                            .allowed_sources = o->allowed_sources,
                                            .mode = o->mode,
                                            .force = o->force,
                                            .max_pause_ns = o->max_pause_ns};
    *out = (struct as_profile_baseline){0};
    bool ok =
        as_graph_snapshot_open_if_asked(&g, o, err) && as_snapshot_make(snapshot->target, &how, &snapshot->store, err);
    snapshot->view = as_store_view(&snapshot->store);
    ok = ok && as_snapshot_needs_glibc(snapshot, o, err);
    out->time_ns = snapshot->store.meta.time_ns;
    out->exact = snapshot->store.meta.flags & AS_META_EXACT;
    ok = ok && (!o->graph || take_types(&g, out, err));
    as_graph_snapshot_close(&g);
    if (!ok)
        as_profile_baseline_free(out);
    return ok;
}

bool as_baseline_take(const struct as_options *o, struct as_profile_baseline *out, struct as_error *err)
{
    bool ok = take(o, out, err);
    if (ok || !o->graph || err->code != AS_NO_MEMORY)
        return ok;
    const struct as_error why = *err;
    struct as_options less = *o;
    less.graph = false;
    ok = take(&less, out, err);
    if (ok)
        fprintf(stderr, "arenadump: what grows is known by size alone, and not by type: %s\n", why.text);
    return ok;
}
