// SPDX-License-Identifier: MIT
#include "graph/owners.h"

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
        if (r->list.items[i].united || source->kind != AS_ROOT_GLOBAL || source->module == UINT32_MAX ||
            r->list.items[i].address <= before)
            continue;
        before = r->list.items[i].address;
        addresses.items[addresses.count++] = before;
        found.items[found.count++] = (struct as_symbol){.module = source->module};
        places.items[places.count++] = (uint32_t)i;
    }
    if (ok)
        as_symbols_find(r->modules, addresses.items, addresses.count, found.items, &o->names);
    for (size_t i = 0; ok && i < places.count; i++)
        symbols[places.items[i]] = found.items[i];
    as_vec_free(&addresses);
    as_vec_free(&found);
    as_vec_free(&places);
    return ok;
}

// A variable without a symbol is each word for itself: how far it reaches is unknown. One with a symbol may lie in two mappings, as
// .data and .bss do. A runtime's heap is one owner, wherever its parts lie.
static bool same_owner(const struct as_owner *o, const struct as_root_source *before, const struct as_root *root,
                       const struct as_root_source *source, const struct as_symbol *symbol)
{
    if (root->united || o->united)
        return root->united && o->united;
    if (source->kind == AS_ROOT_RUNTIME && before->kind == AS_ROOT_RUNTIME)
        return true;
    if (source->kind == AS_ROOT_GLOBAL && before->kind == AS_ROOT_GLOBAL)
        return source->module == before->module && symbol->name != 0 && o->name != 0 && o->address == symbol->start;
    return o->source == root->source;
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
        if (last && same_owner(last, &r->sources.items[last->source], root, source, symbol)) {
            last->count++;
            if (last->united && source->kind == AS_ROOT_GLOBAL) // it tells the module
                last->source = root->source;
            continue;
        }
        struct as_owner *owner = as_vec_add(&o->list, err);
        ok = owner;
        if (!ok)
            break;
        *owner = (struct as_owner){
            .source = root->source, .first = (uint32_t)i, .count = 1, .name = symbol->name, .united = root->united};
        owner->address = source->kind != AS_ROOT_GLOBAL ? source->start
                         : symbol->name != 0            ? symbol->start
                                                        : root->address;
    }
    as_vec_free(&symbols);
    return ok;
}

uint32_t as_owner_of(const struct as_owners *o, uint32_t root)
{
    return (uint32_t)AS_PARTITION_POINT(1, o->list.count, i, o->list.items[i].first <= root) - 1;
}

const char *as_owner_kind_name(const struct as_owner *o, const struct as_roots *r)
{
    return o->united ? "interpreter" : as_root_kind_name(r->sources.items[o->source].kind);
}

bool as_owner_has_address(const struct as_owner *o, const struct as_roots *r)
{
    enum as_root_kind kind = r->sources.items[o->source].kind;
    return !o->united && kind != AS_ROOT_REGISTER && kind != AS_ROOT_UNREACHED;
}

void as_owners_free(struct as_owners *o)
{
    AS_FREE_VECS(o, list, names);
}
