// SPDX-License-Identifier: MIT
// What is looked up in debug information once all of it has been read.
#include "config.h"

#include "debuginfo/dwarf_hash.h"
#include "debuginfo/dwarf_scan.h"

#ifdef HAVE_LIBDW

#include <stdlib.h>

enum {
    DEEPEST = 64,      // of classes that derive from each other
    MOST_STEPS = 4096, // of a search for derived classes
};

static uint64_t shape_key(const struct as_scope *s)
{
    uint64_t key = s->hash ^ (s->shape + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
    return key != 0 ? key : 1;
}

static bool settle_scope(struct as_dwarf_index *x, uint32_t i, struct as_error *err)
{
    const struct as_scope *s = &x->scopes.items[i];
    if (s->kind == AS_SCOPE_SPACE || s->hash == 0 || s->declared)
        return true;
    uint32_t same = as_number_map_get(&x->by_name, s->hash);
    if (same == 0 && !as_number_map_put(&x->by_name, s->hash, i, err))
        return false;
    if (same != 0 && x->scopes.items[same].shape != s->shape && !as_number_map_put(&x->twofold, s->hash, 1, err))
        return false;
    return as_number_map_get(&x->by_shape, shape_key(s)) != 0 || as_number_map_put(&x->by_shape, shape_key(s), i, err);
}

static int by_address(const void *a, const void *b)
{
    const struct as_dwarf_variable *x = a, *y = b;
    if (x->local != y->local)
        return x->local ? 1 : -1;
    if (x->local && x->module != y->module)
        return x->module < y->module ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

static int by_base(const void *a, const void *b)
{
    const struct as_derivation *x = a, *y = b;
    if (x->base != y->base)
        return x->base < y->base ? -1 : 1;
    if (x->derived != y->derived)
        return x->derived < y->derived ? -1 : 1;
    return x->size < y->size ? -1 : x->size > y->size;
}

// Each unit that uses two classes says which derives from which.
static void sort_derivations(struct as_dwarf_index *x)
{
    struct as_derivation *items = x->derivations.items;
    size_t kept = 0;
    qsort(items, x->derivations.count, sizeof *items, by_base);
    for (size_t i = 0; i < x->derivations.count; i++)
        if (kept == 0 || by_base(&items[kept - 1], &items[i]) != 0)
            items[kept++] = items[i];
    x->derivations.count = kept;
}

static int by_start(const void *a, const void *b)
{
    const struct as_scope_run *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

// By address, without those that are empty: so that a DIE's is soon found, of thousands that .dwo files make.
static void sort_runs(struct as_dwarf_index *x)
{
    size_t kept = 0;
    for (size_t i = 0; i < x->runs.count; i++) {
        struct as_scope_run run = x->runs.items[i];
        run.end = run.end < x->scopes.count ? run.end : (uint32_t)x->scopes.count;
        if (run.first >= run.end)
            continue;
        run.start = x->scopes.items[run.first].die.address;
        x->runs.items[kept++] = run;
    }
    x->runs.count = kept;
    if (kept > 0)
        qsort(x->runs.items, kept, sizeof *x->runs.items, by_start);
}

static const void *base_of(const struct as_dwarf_index *x, const struct as_derivation_of *d)
{
    return d->base ? d->base : x->signed_types.items[as_number_map_get(&x->by_signature, d->signature)].address;
}

// Gives declarations the names of their definitions; what lies in them has a qualified name then, too.
static void name_declarations(struct as_dwarf_index *x)
{
    AS_FOR_EACH(const struct as_declared_elsewhere, u, &x->unnamed) {
        const void *die = x->signed_types.items[as_number_map_get(&x->by_signature, u->signature)].address;
        x->scopes.items[u->scope].name = x->scopes.items[as_dwarf_scope_of(x, die)].name;
    }
    for (uint32_t i = 1; x->unnamed.count > 0 && i < x->scopes.count; i++)
        if (x->scopes.items[i].hash == 0)
            x->scopes.items[i].hash = as_dwarf_qualified_hash(x, i);
    as_vec_free(&x->unnamed);
}

bool as_dwarf_index_finish(struct as_dwarf_index *x, struct as_error *err)
{
    bool ok = true;
    sort_runs(x);
    name_declarations(x);
    for (uint32_t i = 1; ok && i < x->scopes.count; i++)
        ok = settle_scope(x, i, err);
    ok = ok && as_vec_reserve(&x->derivations, x->unsettled.count, err);
    for (size_t i = 0; ok && i < x->unsettled.count; i++) {
        const struct as_scope *derived = &x->scopes.items[x->unsettled.items[i].derived];
        uint64_t base = x->scopes.items[as_dwarf_scope_of(x, base_of(x, &x->unsettled.items[i]))].hash;
        if (base != 0 && derived->hash != 0)
            x->derivations.items[x->derivations.count++] = (struct as_derivation){base, derived->hash, derived->size};
    }
    as_vec_free(&x->unsettled);
    if (ok && x->variables.count > 0)
        qsort(x->variables.items, x->variables.count, sizeof *x->variables.items, by_address);
    if (ok && x->derivations.count > 0)
        sort_derivations(x);
    return ok;
}

static uint32_t scope_in(const struct as_dwarf_index *x, const struct as_scope_run *run, const void *die)
{
    size_t end = run->end < x->scopes.count ? run->end : x->scopes.count;
    size_t at = AS_PARTITION_POINT(run->first, end, i, x->scopes.items[i].die.address < die);
    return at < end && x->scopes.items[at].die.address == die ? (uint32_t)at : 0;
}

uint32_t as_dwarf_scope_among(const struct as_dwarf_index *x, uint32_t first_run, const void *die)
{
    uint32_t found = 0;
    for (size_t i = first_run; found == 0 && i < x->runs.count; i++)
        found = scope_in(x, &x->runs.items[i], die);
    return found;
}

uint32_t as_dwarf_scope_of(const struct as_dwarf_index *x, const void *die)
{
    size_t behind = AS_PARTITION_POINT(0, x->runs.count, i, x->runs.items[i].start <= die);
    return behind > 0 ? scope_in(x, &x->runs.items[behind - 1], die) : 0;
}

uint32_t as_dwarf_definition(const struct as_dwarf_index *x, uint32_t scope)
{
    const struct as_scope *s = &x->scopes.items[scope];
    if (s->hash == 0)
        return s->declared ? 0 : scope;
    if (!s->declared)
        return as_number_map_get(&x->by_shape, shape_key(s));
    return as_number_map_get(&x->twofold, s->hash) ? 0 : as_number_map_get(&x->by_name, s->hash);
}

uint32_t as_dwarf_find(const struct as_dwarf_index *x, const char *name)
{
    uint64_t hash = as_dwarf_hash(0, name);
    return as_number_map_get(&x->twofold, hash) ? 0 : as_number_map_get(&x->by_name, hash);
}

const struct as_dwarf_variable *as_dwarf_variable_at(const struct as_dwarf_index *x, bool local, uint32_t module,
                                                     uint64_t address)
{
    const struct as_dwarf_variable key = {.address = address, .module = module, .local = local};
    size_t behind = AS_PARTITION_POINT(0, x->variables.count, i, by_address(&x->variables.items[i], &key) <= 0);
    const struct as_dwarf_variable *v = behind > 0 ? &x->variables.items[behind - 1] : NULL;
    return v && v->local == local && v->module == module ? v : NULL;
}

// NOLINTNEXTLINE(misc-no-recursion): `steps` bounds it
static bool search_derived(const struct as_dwarf_index *x, uint64_t hash, uint64_t least, uint64_t most, unsigned depth,
                           unsigned *steps)
{
    size_t at = AS_PARTITION_POINT(0, x->derivations.count, i, x->derivations.items[i].base < hash);
    for (; at < x->derivations.count && x->derivations.items[at].base == hash; at++) {
        const struct as_derivation *d = &x->derivations.items[at];
        if (++*steps > MOST_STEPS || depth > DEEPEST || (d->size > least && d->size <= most))
            return true;
        if (d->size <= most && search_derived(x, d->derived, least, most, depth + 1, steps))
            return true;
    }
    return false;
}

bool as_dwarf_is_base(const struct as_dwarf_index *x, uint64_t hash, uint64_t least, uint64_t most)
{
    unsigned steps = 0;
    return search_derived(x, hash, least, most, 0, &steps);
}

#endif
