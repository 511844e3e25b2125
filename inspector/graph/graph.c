// SPDX-License-Identifier: MIT
#include "graph/graph.h"
#include "base/workers.h"
#include "graph/edge_reader.h"
#include "graph/mapped.h"
#include "graph/mark.h"
#include "graph/shapes.h"

#include <stddef.h>
#include <string.h>

// All but the modules and their files.
static void forget(struct as_graph *g)
{
    as_typing_free(&g->typing);
    as_roots_free(&g->roots);
    as_tls_free(&g->tls);
    as_edges_free(&g->edges);
    as_vtables_close(&g->vtables);
    as_patterns_close(&g->patterns);
    as_index_free(&g->index);
    as_objects_free(&g->objects);
    // A thread may be at work on the files, where they are.
    memset(&g->objects, 0, sizeof *g - offsetof(struct as_graph, objects));
}

bool as_graph_open(struct as_graph *g, struct as_target *t, const struct as_recogniser *recognisers, bool debug_info,
                   struct as_error *err)
{
    *g = (struct as_graph){.recognisers = recognisers};
    return as_modules_find(&g->modules, t, err) && (!debug_info || as_dwarf_files_open(&g->files, &g->modules, err));
}

void as_graph_begin(void *graph)
{
    struct as_graph *g = graph;
    as_dwarf_files_begin(&g->files);
}

// The boundaries are no longer needed then.
static bool build_index(struct as_graph *g, struct as_roots_plan *plan, as_boundary_vec *chunks, struct as_error *err)
{
    as_boundary_vec *all = g->objects.boundaries.count > 0 ? &g->objects.boundaries : chunks;
    as_mapped_vec mapped = {0};
    bool ok = as_mapped_find(&mapped, plan, &g->objects, all, err) &&
              as_index_build(&g->index, all->items, all->count, &mapped, err);
    as_vec_free(&mapped);
    as_vec_free(chunks);
    return ok;
}

static bool recognise(struct as_graph *g, struct as_target *t, struct as_error *err)
{
    const struct as_recogniser_input in = {&g->patterns, &g->edges,   &g->roots, &g->modules,
                                           &g->tls,      &g->vtables, t,         err};
    return as_recognise(g->recognisers, &in);
}

static bool read_nodes(struct as_graph *g, struct as_roots_plan *plan, as_boundary_vec *chunks, struct as_error *err)
{
    struct as_target *t = plan->target;
    if (!build_index(g, plan, chunks, err) || !as_objects_place(&g->objects, &g->index, err) ||
        !as_vtables_open(&g->vtables, t, g->index.count, err) ||
        !as_patterns_open(&g->patterns, &g->index, &g->vtables, t->page_size, err))
        return false;
    const struct as_edge_readers readers = {&g->vtables, &g->patterns, &g->objects};
    return as_edges_read(&g->edges, &g->index, t, &readers, err) &&
           as_roots_find(&g->roots, &g->index, &g->patterns, &g->objects, plan, err);
}

bool as_graph_read(void *graph, struct as_target *t, const struct as_malloc *m, const struct as_store *s,
                   as_boundary_vec *boundaries, struct as_error *err)
{
    struct as_graph *g = graph;
    struct as_roots_plan plan = {0};
    forget(g); // of an attempt that was given up
    as_modules_refresh(&g->modules);
    bool ok = as_objects_find(&g->objects, t, s, boundaries->items, boundaries->count, err) &&
              as_roots_plan_make(&plan, t, &g->modules, &g->objects, m, s, err) &&
              read_nodes(g, &plan, boundaries, err);
    as_roots_plan_free(&plan);
    if (!ok || !as_tls_find(&g->tls, &g->modules, err) ||
        !as_interpreter_find(&g->interpreter, &g->roots, &g->objects, t, err) ||
        !as_edges_settle(&g->edges, &g->patterns, err) || !as_mapped_roots(&g->roots, &g->index, &g->edges, err))
        return false;
    as_vtables_prove(&g->vtables, &g->modules);
    as_anchors_confirm(&g->patterns.anchors, t);
    return recognise(g, t, err);
}

// Makes all objects of runtimes that are not in `reached` roots of a source of their own.
static bool add_unreached(struct as_graph *g, const struct as_marks *reached, struct as_error *err)
{
    struct as_roots *r = &g->roots;
    if (!as_vec_push(&r->sources, err,
                     (struct as_root_source){
                         .kind = AS_ROOT_UNREACHED, .mapping = UINT32_MAX, .thread = UINT32_MAX, .module = UINT32_MAX}))
        return false;
    for (uint32_t node = 0; node < g->objects.nodes; node++) {
        if (!as_object_is_collectors(&g->objects, node) || as_marked(reached, node))
            continue;
        if (!as_vec_push(&r->list, err,
                         (struct as_root){.node = node, .source = (uint32_t)(r->sources.count - 1) & AS_MOST_SOURCES}))
            return false;
    }
    return true;
}

bool as_graph_settle_objects(struct as_graph *g, struct as_error *err)
{
    struct as_marks reached = {0};
    if (!g->objects.of_node)
        return true;
    bool ok = as_interpreter_unite(&g->interpreter, &g->roots, &g->objects, &g->edges, &g->index, err) &&
              as_marks_open(&reached, &g->index, err);
    for (enum as_root_kind kind = 0; ok && kind < AS_ROOT_KINDS; kind++)
        as_marks_add_roots(&reached, &g->edges, &g->roots, kind);
    ok = ok && add_unreached(g, &reached, err);
    as_marks_free(&reached);
    return ok;
}

bool as_graph_is_whole(const struct as_graph *g)
{
    return !g->objects.changed && g->edges.unread == 0 && !g->roots.running && g->roots.unsearched == 0;
}

bool as_graph_find_shapes(struct as_graph *g, const uint8_t *only, struct as_error *err)
{
    return as_shapes_find(&g->patterns, &g->edges, &g->vtables, only, err);
}

bool as_graph_find_types(struct as_graph *g, const uint8_t *only, struct as_error *err)
{
    const struct as_typing_input in = {&g->index,   &g->edges,    &g->roots, &g->tls,
                                       &g->vtables, &g->patterns, &g->files, only};
    return g->roots.modules == NULL || as_typing_find(&g->typing, &in, err);
}

struct shaping_thread {
    struct as_graph *graph;
    struct as_error err;
    bool ok;
};

static void *find_shapes(void *thread)
{
    struct shaping_thread *s = thread;
    s->ok = as_graph_find_shapes(s->graph, NULL, &s->err);
    return NULL;
}

// Neither reads what the other one writes.
bool as_graph_find_all_types(struct as_graph *g, struct as_error *err)
{
    struct shaping_thread shaping = {.graph = g};
    pthread_t id;
    bool started = as_worker_start(&id, find_shapes, &shaping);
    bool ok = as_graph_find_types(g, NULL, err);
    if (started)
        pthread_join(id, NULL);
    else
        find_shapes(&shaping);
    return ok && (shaping.ok || as_fail(err, shaping.err.code, "%s", shaping.err.text));
}

void as_graph_free(struct as_graph *g)
{
    forget(g);
    as_dwarf_files_close(&g->files);
    as_modules_free(&g->modules);
}
