// SPDX-License-Identifier: MIT
#include "graph/owners.h"
#include "base/sort.h"

#include <string.h>

// Names the variables that hold pointers. `symbols` is parallel to the roots' list.
static bool name_variables(struct as_owners *o, const struct as_roots *r, struct as_symbol *symbols,
                           struct as_error *err)
{
    AS_VEC(uint64_t) addresses = {0};
    AS_VEC(struct as_symbol) found = {0};
    AS_VEC(uint32_t) places = {0};
    bool ok = as_vec_reserve(&addresses, r->list.count, err) && as_vec_reserve(&found, r->list.count, err) &&
              as_vec_reserve(&places, r->list.count, err);
    uint64_t before = 0;
    for (size_t i = 0; ok && i < r->list.count; i++) {
        const struct as_root_source *source = &r->sources.items[r->list.items[i].source];
        symbols[i] = (struct as_symbol){.module = UINT32_MAX};
        // Mappings are searched by address, so these are ascending.
        if (source->kind != AS_ROOT_GLOBAL || source->module == UINT32_MAX || r->list.items[i].address <= before)
            continue;
        before = r->list.items[i].address;
        addresses.items[addresses.count++] = before;
        found.items[found.count++] = (struct as_symbol){.module = source->module};
        places.items[places.count++] = (uint32_t)i;
    }
    if (ok)
        as_symbols_find(&r->modules, addresses.items, addresses.count, found.items, &o->names);
    for (size_t i = 0; ok && i < places.count; i++)
        symbols[places.items[i]] = found.items[i];
    as_vec_free(&addresses);
    as_vec_free(&found);
    as_vec_free(&places);
    return ok;
}

// A variable without a symbol is each word for itself: how far it reaches is unknown. A runtime's heap is one owner, wherever its parts
// lie.
static bool same_owner(const struct as_owner *o, enum as_root_kind before, const struct as_root *root,
                       const struct as_root_source *source, const struct as_symbol *symbol)
{
    if (source->kind == AS_ROOT_RUNTIME && before == AS_ROOT_RUNTIME)
        return true;
    if (o->source != root->source)
        return false;
    return source->kind != AS_ROOT_GLOBAL || (symbol->name != 0 && o->name != 0 && o->address == symbol->start);
}

bool as_owners_find(struct as_owners *o, const struct as_roots *r, struct as_error *err)
{
    AS_VEC(struct as_symbol) symbols = {0};
    *o = (struct as_owners){0};
    bool ok = as_vec_reserve(&symbols, r->list.count, err) && name_variables(o, r, symbols.items, err);
    for (size_t i = 0; ok && i < r->list.count; i++) {
        const struct as_root *root = &r->list.items[i];
        const struct as_root_source *source = &r->sources.items[root->source];
        const struct as_symbol *symbol = &symbols.items[i];
        struct as_owner *last = o->list.count > 0 ? &o->list.items[o->list.count - 1] : NULL;
        if (last && same_owner(last, r->sources.items[last->source].kind, root, source, symbol)) {
            last->count++;
            continue;
        }
        struct as_owner *owner = as_vec_add(&o->list, err);
        ok = owner;
        if (!ok)
            break;
        *owner = (struct as_owner){.source = root->source, .first = (uint32_t)i, .count = 1, .name = symbol->name};
        owner->address = source->kind != AS_ROOT_GLOBAL ? source->start
                         : symbol->name != 0            ? symbol->start
                                                        : root->address;
    }
    as_vec_free(&symbols);
    return ok;
}

uint32_t as_owner_of(const struct as_owners *o, uint32_t root)
{
    size_t low = 0, high = o->list.count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (o->list.items[middle].first <= root)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

void as_owners_free(struct as_owners *o)
{
    as_vec_free(&o->list);
    as_vec_free(&o->names);
}
