// SPDX-License-Identifier: MIT
#include "graph/section_owners.h"
#include "base/sort.h"
#include "debuginfo/demangle.h"
#include "graph/types.h"

enum { MOST_BRANCHES = 10000, NAME = 4096 };

struct writing {
    struct as_owner_records *records;
    struct as_store *store;
    struct as_graph *graph;
    const struct as_owners *owners;
    const struct as_target *target;
    AS_VEC(uint32_t) modules; // by index in the graph's modules: the name in the store's strings; 0: not there yet
    uint32_t kinds[AS_ROOT_KINDS + 1]; // and the interpreter's
    struct as_error *err;
};

static uint32_t kind_string(struct writing *w, const struct as_owner *o)
{
    const struct as_roots *r = &w->graph->roots;
    uint32_t *known = &w->kinds[o->united ? AS_ROOT_KINDS : r->sources.items[o->source].kind];
    if (*known == 0)
        *known = as_strings_add(&w->store->strings, as_owner_kind_name(o, r), NAME);
    return *known;
}

static uint32_t module_string(struct writing *w, uint32_t module)
{
    uint32_t *known = &w->modules.items[module];
    const struct as_modules *modules = &w->graph->modules;
    if (*known == 0)
        *known = as_strings_add(&w->store->strings, as_module_name(modules, &modules->list.items[module]), NAME);
    return *known;
}

static void describe_owner(struct writing *w, const struct as_owner *o, struct as_graph_owner_record *record)
{
    const struct as_root_source *source = &w->graph->roots.sources.items[o->source];
    const struct as_target *t = w->target;
    char text[NAME];
    record->kind = kind_string(w, o);
    if (o->name != 0)
        record->name = as_strings_add(
            &w->store->strings, as_name_demangled(as_strings_at(&w->owners->names, o->name), false, text, sizeof text),
            AS_SECTION_NAME_BYTES);
    const char *type = as_graph_variable_type(w->graph, o, text, sizeof text);
    record->type = type ? as_strings_add(&w->store->strings, type, AS_SECTION_NAME_BYTES) : 0;
    record->address = as_owner_has_address(o, &w->graph->roots) ? o->address : AS_UNKNOWN;
    record->offset = AS_UNKNOWN;
    if (source->module < w->modules.count) {
        record->module = module_string(w, source->module);
        record->offset = o->united ? AS_UNKNOWN : o->address - w->graph->modules.list.items[source->module].base;
    } else if (source->mapping < w->store->mappings.count) {
        record->mapping = w->store->mappings.items[source->mapping].path;
    }
    if (source->thread < t->threads.count)
        record->thread = (uint32_t)t->threads.items[source->thread].tid;
}

// A record for what is no owner.
static uint32_t add_nobody(struct writing *w, const char *kind)
{
    if (!as_vec_push(&w->store->graph_owners, w->err,
                     (struct as_graph_owner_record){.kind = as_strings_add(&w->store->strings, kind, NAME),
                                                    .address = AS_UNKNOWN,
                                                    .offset = AS_UNKNOWN}))
        return UINT32_MAX;
    return (uint32_t)(w->store->graph_owners.count - 1);
}

static uint32_t add_owner(struct writing *w, uint32_t owner)
{
    if (owner == AS_SEVERAL_OWNERS)
        return w->records->several = add_nobody(w, "several");
    struct as_graph_owner_record *record = as_vec_add(&w->store->graph_owners, w->err);
    if (!record)
        return UINT32_MAX;
    describe_owner(w, &w->owners->list.items[owner], record);
    return w->records->of_owner.items[owner] = (uint32_t)(record - w->store->graph_owners.items);
}

// What a branch must retain to have a record: so that the MOST_BRANCHES that retain most have one. Of equals none has, if not
// all of them can.
static bool find_least(const struct as_tree *tree, uint64_t *least, struct as_error *err)
{
    AS_VEC(uint64_t) retained = {0};
    size_t count = tree->branches.count - 1;
    *least = 0;
    if (count <= MOST_BRANCHES)
        return true;
    bool ok = as_vec_reserve(&retained, count, err);
    for (size_t i = 0; ok && i < count; i++)
        retained.items[retained.count++] = tree->branches.items[i + 1].retained;
    ok = ok && as_sort_u64(retained.items, retained.count, err);
    if (ok)
        *least = retained.items[count - MOST_BRANCHES - 1] + 1;
    as_vec_free(&retained);
    return ok;
}

enum { DEPTHS = AS_TREE_DEPTH + 2 };

// The sums of branches that are left out, by depth; `flags` 0: none is.
struct left_out {
    struct as_graph_branch_record at[DEPTHS];
};

static void clear(struct left_out *out, int depth)
{
    out->at[depth] = (struct as_graph_branch_record){.depth = (uint32_t)depth, .owner = UINT32_MAX, .type = UINT32_MAX};
}

static void add_left_out(struct as_graph_branch_record *sum, const struct as_branch *b)
{
    sum->flags = AS_GRAPH_OTHERS;
    sum->count += b->count;
    sum->bytes += b->bytes;
    sum->retained += b->bytes;
}

// A branch at `depth` comes next, or its sum: all sums below it are complete.
static bool close_below(struct writing *w, struct left_out *out, int depth)
{
    for (int at = DEPTHS - 1; at > depth; at--) {
        if (out->at[at].flags == 0)
            continue;
        if (!as_vec_push(&w->store->graph_branches, w->err, out->at[at]))
            return false;
        clear(out, at);
    }
    return true;
}

static bool write_branch(struct writing *w, const struct as_branch *b, const struct as_type_records *types)
{
    bool is_owner = b->owner != AS_NO_OWNER;
    struct as_graph_branch_record *record = as_vec_add(&w->store->graph_branches, w->err);
    if (!record)
        return false;
    *record = (struct as_graph_branch_record){
        .depth = b->depth - 1, .count = b->count, .bytes = b->bytes, .retained = b->retained};
    record->owner = is_owner ? add_owner(w, b->owner) : UINT32_MAX;
    record->type = is_owner ? UINT32_MAX : as_type_record_of(types, b->type);
    if (is_owner && record->owner != UINT32_MAX)
        w->store->graph_owners.items[record->owner].retained = b->retained;
    return !is_owner || record->owner != UINT32_MAX;
}

// The branches left out come last of those that hang on one: they retain less.
static bool write_branches(struct writing *w, const struct as_tree *tree, const struct as_tree_order *order,
                           const struct as_type_records *types, uint64_t least)
{
    struct left_out out;
    int hidden = INT32_MAX; // the depth of the branch left out on which the next ones may hang
    for (int depth = 0; depth < DEPTHS; depth++)
        clear(&out, depth);
    for (uint32_t i = 0; i < order->count; i++) {
        const struct as_branch *b = &tree->branches.items[order->branches[i]];
        int depth = (int)b->depth - 1;
        if (depth <= hidden)
            hidden = b->retained < least ? depth : INT32_MAX;
        bool shown = hidden == INT32_MAX;
        if (!close_below(w, &out, shown ? depth : hidden) || (shown && !write_branch(w, b, types)))
            return false;
        if (!shown)
            add_left_out(&out.at[hidden], b);
    }
    return close_below(w, &out, -1);
}

// The owners that lead to what several have: those without a branch get a record here.
static bool write_leading(struct writing *w, const struct as_several *several)
{
    for (uint32_t i = 0; i < several->count; i++) {
        uint32_t *owner = &w->records->of_owner.items[several->leading[i].owner];
        if (*owner == w->records->others && add_owner(w, several->leading[i].owner) == UINT32_MAX)
            return false;
        if (!as_vec_push(&w->store->graph_leading, w->err,
                         (struct as_graph_leading_record){*owner, several->owners, several->leading[i].bytes}))
            return false;
    }
    return true;
}

bool as_owner_records_make(struct as_owner_records *r, struct as_store *s, struct as_graph *g,
                           const struct as_owners *owners, const struct as_tree *tree, const struct as_several *several,
                           const struct as_type_records *types, const struct as_target *t, struct as_error *err)
{
    struct writing w = {r, s, g, owners, t, {0}, {0}, err};
    struct as_tree_order order = {0};
    uint64_t least;
    *r = (struct as_owner_records){0};
    bool ok = as_vec_reserve(&r->of_owner, owners->list.count, err) &&
              as_vec_reserve(&w.modules, g->modules.list.count, err) && find_least(tree, &least, err) &&
              as_tree_sort(&order, tree, err);
    if (ok) {
        w.modules.count = g->modules.list.count;
        r->of_owner.count = owners->list.count;
        r->others = add_nobody(&w, "others");
        r->lost = add_nobody(&w, "lost");
        r->several = r->others;
        for (size_t i = 0; i < owners->list.count; i++)
            r->of_owner.items[i] = r->others;
        ok = r->others != UINT32_MAX && r->lost != UINT32_MAX && write_branches(&w, tree, &order, types, least) &&
             write_leading(&w, several);
    }
    as_tree_order_free(&order);
    as_vec_free(&w.modules);
    return ok;
}

void as_owner_records_free(struct as_owner_records *r)
{
    as_vec_free(&r->of_owner);
}
