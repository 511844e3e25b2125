// SPDX-License-Identifier: MIT
#include "base/memory.h"
#include "graph/section_owners.h"
#include "graph/types.h"

#include <stdlib.h>
#include <string.h>

enum { BEFORE = 1, AFTER = 2 };

// Types of one name, and what they had when the profile began (BEFORE), and have (AFTER).
struct named_growth {
    const char *name; // in the strings of either
    uint32_t record;  // of AFTER: index in graph_types
    uint32_t flags, sides;
    struct as_tally before, after;
    uint64_t recorded;
};

typedef AS_VEC(struct named_growth) growth_vec;

// --- What is new of each type -----------------------------------------------------------------------------------------

static void add_recorded(uint64_t *sum, uint64_t more)
{
    *sum = *sum == AS_UNKNOWN || more == AS_UNKNOWN ? AS_UNKNOWN : *sum + more;
}

// What a chunk in use stands for among those that were recorded; AS_UNKNOWN: it is no chunk of malloc, and no recorder sees it.
static uint64_t recorded_of(const struct as_used_chunk *chunk, const as_boundary_vec *noted, size_t *at, uint32_t rate)
{
    while (*at < noted->count && as_untagged(noted->items[*at]) < chunk->address)
        ++*at;
    if (*at == noted->count || as_untagged(noted->items[*at]) != chunk->address)
        return AS_UNKNOWN;
    switch ((enum as_noted)as_tag(noted->items[*at])) {
    case AS_NOTED_ON_PAGE:
        return rate;
    case AS_NOTED_LARGE:
        return 1;
    default:
        return 0;
    }
}

static void count_recorded(const struct as_type_records *r, const struct as_store *s, const struct as_graph *g,
                           const as_boundary_vec *noted, uint64_t *recorded)
{
    size_t at = 0;
    for (struct as_used_cursor c = as_used_begin(&g->index); as_used_next(&c);) {
        const uint32_t record = as_type_record_of(r, as_graph_type(g, c.chunk.node));
        if (record < s->graph_types.count)
            add_recorded(&recorded[record], recorded_of(&c.chunk, noted, &at, s->profile.items[0].page_rate));
    }
}

// --- Both graphs ------------------------------------------------------------------------------------------------------

static bool add_side(growth_vec *all, const as_graph_type_vec *types, const struct as_strings *strings,
                     const uint64_t *recorded, struct as_error *err)
{
    for (size_t i = 0; i < types->count; i++) {
        const struct as_graph_type_record *type = &types->items[i];
        const struct as_tally held = {type->count, type->bytes};
        struct named_growth one = {.name = as_strings_at(strings, type->name), .flags = type->flags};
        one.record = (uint32_t)i;
        one.sides = recorded ? AFTER : BEFORE;
        one.recorded = recorded ? recorded[i] : 0;
        *(recorded ? &one.after : &one.before) = held;
        if (!as_vec_push(all, err, one))
            return false;
    }
    return true;
}

// Others are last.
static int by_name(const void *a, const void *b)
{
    const struct named_growth *x = a, *y = b;
    return x->flags != y->flags ? (x->flags > y->flags) - (x->flags < y->flags) : strcmp(x->name, y->name);
}

static void add(struct named_growth *to, const struct named_growth *from)
{
    to->record = from->sides & AFTER ? from->record : to->record;
    to->sides |= from->sides;
    to->before.count += from->before.count;
    to->before.bytes += from->before.bytes;
    to->after.count += from->after.count;
    to->after.bytes += from->after.bytes;
    add_recorded(&to->recorded, from->recorded);
}

static void sort(growth_vec *all, int (*how)(const void *, const void *))
{
    if (all->count > 0)
        qsort(all->items, all->count, sizeof *all->items, how);
}

static void join_names(growth_vec *all)
{
    size_t kept = 0;
    sort(all, by_name);
    for (size_t i = 0; i < all->count; i++) {
        if (kept > 0 && by_name(&all->items[kept - 1], &all->items[i]) == 0)
            add(&all->items[kept - 1], &all->items[i]);
        else
            all->items[kept++] = all->items[i];
    }
    all->count = kept;
}

// A type for which one of the graphs had no room is one of the others: of these, the sums of both are right.
static void join_others(growth_vec *all)
{
    struct named_growth *others = all->count > 0 ? &all->items[all->count - 1] : NULL;
    size_t kept = 0;
    if (!others || !(others->flags & AS_GRAPH_OTHERS))
        return;
    const uint32_t limited = others->sides;
    struct named_growth sum = *others;
    for (size_t i = 0; i + 1 < all->count; i++) {
        if (limited & ~all->items[i].sides)
            add(&sum, &all->items[i]);
        else
            all->items[kept++] = all->items[i];
    }
    all->items[kept++] = sum;
    all->count = kept;
}

// --- Records ----------------------------------------------------------------------------------------------------------

static bool has_changed(const struct named_growth *one)
{
    return one->before.count != one->after.count || one->before.bytes != one->after.bytes ||
           (one->recorded != 0 && one->recorded != AS_UNKNOWN);
}

static int by_growth(const void *a, const void *b)
{
    const struct named_growth *x = a, *y = b;
    const int64_t more_x = (int64_t)(x->after.bytes - x->before.bytes);
    const int64_t more_y = (int64_t)(y->after.bytes - y->before.bytes);
    return more_x != more_y ? (more_x < more_y) - (more_x > more_y) : by_name(a, b);
}

static bool write_records(growth_vec *all, struct as_store *s, struct as_error *err)
{
    sort(all, by_growth);
    for (size_t i = 0; i < all->count; i++) {
        const struct named_growth *one = &all->items[i];
        const bool others = one->flags & AS_GRAPH_OTHERS;
        struct as_profile_type_record *record = has_changed(one) ? as_vec_add(&s->profile_types, err) : NULL;
        if (!record && has_changed(one))
            return false;
        if (!record)
            continue;
        *record = (struct as_profile_type_record){.flags = one->flags,
                                                  .before_count = one->before.count,
                                                  .before_bytes = one->before.bytes,
                                                  .after_count = one->after.count,
                                                  .after_bytes = one->after.bytes,
                                                  .recorded = one->recorded};
        record->name = others               ? 0
                       : one->sides & AFTER ? s->graph_types.items[one->record].name
                                            : as_strings_add(&s->strings, one->name, AS_SECTION_NAME_BYTES);
    }
    return true;
}

bool as_growth_records_make(const struct as_type_records *r, struct as_store *s, const struct as_graph *g,
                            const struct as_profile_baseline *baseline, const as_boundary_vec *noted,
                            struct as_error *err)
{
    const size_t size = (s->graph_types.count + 1) * sizeof(uint64_t);
    growth_vec all = {0};
    if (s->profile.count == 0)
        return true;
    uint64_t *recorded = as_memory_map(size, "what is new, by type", err);
    bool ok = recorded != NULL;
    if (ok)
        count_recorded(r, s, g, noted, recorded);
    ok = ok && add_side(&all, &baseline->types, &baseline->strings, NULL, err) &&
         add_side(&all, &s->graph_types, &s->strings, recorded, err);
    if (ok) {
        join_names(&all);
        join_others(&all);
        s->profile.items[0].types_exact =
            baseline->types_exact && as_graph_is_whole(g) && s->meta.flags & AS_META_EXACT ? 1 : 0;
    }
    ok = ok && write_records(&all, s, err);
    as_memory_unmap(recorded, size);
    as_vec_free(&all);
    return ok;
}
