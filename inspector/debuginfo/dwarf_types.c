// SPDX-License-Identifier: MIT
#include "config.h"

#include "debuginfo/dwarf_hash.h"
#include "debuginfo/dwarf_scan.h"
#include "debuginfo/dwarf_types.h"

#ifdef HAVE_LIBDW

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <string.h>

enum {
    MOST_TYPES = 1 << 22,
    MOST_MEMBERS = 1 << 24,
    MOST_LOADS = 1 << 26,
    MOST_CHAIN = 32,
    LONGEST_NAME = 1024,
    TYPE_VOID = 1,
};

static Dwarf_Die again(struct as_die die)
{
    return (Dwarf_Die){.addr = die.address, .cu = die.unit};
}

static uint32_t add_type(struct as_dwarf_types *t, struct as_dwarf_type type)
{
    struct as_dwarf_type *added = t->list.count < MOST_TYPES ? as_vec_add(&t->list, NULL) : NULL;
    if (!added)
        return 0;
    *added = type;
    return (uint32_t)(t->list.count - 1);
}

bool as_dwarf_types_open(struct as_dwarf_types *t, struct as_dwarf_index *index, struct as_error *err)
{
    *t = (struct as_dwarf_types){.index = index};
    if (!as_vec_reserve(&t->list, TYPE_VOID + 1, err) || !as_vec_reserve(&t->members, 1, err) ||
        !as_vec_reserve(&t->slots, 1, err))
        return false;
    t->list.count = TYPE_VOID + 1;
    t->list.items[TYPE_VOID].name = as_strings_add(&t->names, "void", LONGEST_NAME);
    t->members.count = t->slots.count = 1;
    return true;
}

void as_dwarf_types_free(struct as_dwarf_types *t)
{
    AS_FREE_VECS(t, list, members, slots, names);
    as_number_map_free(&t->by_die);
    as_number_map_free(&t->by_shape);
    as_number_map_free(&t->composed);
    *t = (struct as_dwarf_types){0};
}

// A pointer or an array: the same type for the same parts.
static uint32_t compose(struct as_dwarf_types *t, struct as_dwarf_type type)
{
    uint64_t key = (uint64_t)type.of << 8 | type.kind;
    key = (key ^ (type.count + 1) * UINT64_C(0x9e3779b97f4a7c15)) | 1;
    uint32_t found = as_number_map_get(&t->composed, key);
    const struct as_dwarf_type *same = &t->list.items[found];
    if (found != 0 && same->of == type.of && same->kind == type.kind && same->count == type.count)
        return found;
    uint32_t added = add_type(t, type);
    if (added != 0)
        as_number_map_put(&t->composed, key, added, NULL);
    return added;
}

static uint32_t type_of(struct as_dwarf_types *t, Dwarf_Die *die, unsigned depth);

// The type that a DIE has; 0: not known.
// NOLINTNEXTLINE(misc-no-recursion): no deeper than MOST_CHAIN
static uint32_t type_under(struct as_dwarf_types *t, Dwarf_Die *die, unsigned depth)
{
    Dwarf_Attribute attribute;
    Dwarf_Die type;
    uint64_t signature;
    if (!dwarf_attr_integrate(die, DW_AT_type, &attribute))
        return TYPE_VOID;
    if (!as_dwarf_refer(t->index, &attribute, &type, &signature))
        return 0;
    return type_of(t, &type, depth + 1);
}

static uint32_t base_type(struct as_dwarf_types *t, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    Dwarf_Word encoding = 0;
    int bytes = dwarf_bytesize(die);
    const char *name = dwarf_diename(die);
    if (bytes <= 0)
        return 0;
    if (dwarf_attr(die, DW_AT_encoding, &attribute))
        dwarf_formudata(&attribute, &encoding);
    uint64_t key = as_dwarf_hash((uint64_t)bytes, name ? name : "") | 1;
    uint32_t found = as_number_map_get(&t->by_shape, key);
    if (found != 0)
        return found;
    found = add_type(t, (struct as_dwarf_type){.kind = AS_DWARF_BASE,
                                               .size = (uint64_t)bytes,
                                               .real = encoding == DW_ATE_float,
                                               .name = name ? as_strings_add(&t->names, name, LONGEST_NAME) : 0});
    as_number_map_put(&t->by_shape, key, found, NULL);
    return found;
}

// How many elements an array has in all dimensions; 0: not said.
static uint64_t count_elements(Dwarf_Die *array)
{
    uint64_t count = 1;
    Dwarf_Die range;
    if (dwarf_child(array, &range) != 0)
        return 0;
    for (int i = 0; i < MOST_CHAIN; i++) {
        Dwarf_Attribute attribute;
        Dwarf_Word value;
        bool upper = !dwarf_attr(&range, DW_AT_count, &attribute);
        if ((upper && !dwarf_attr(&range, DW_AT_upper_bound, &attribute)) || dwarf_formudata(&attribute, &value) != 0 ||
            value >= UINT32_MAX || count > UINT32_MAX)
            return 0;
        count *= value + upper;
        if (dwarf_siblingof(&range, &range) != 0)
            return count;
    }
    return 0;
}

uint32_t as_dwarf_array_of(struct as_dwarf_types *t, uint32_t type, uint64_t count)
{
    uint64_t size = t->list.items[type].size;
    if (type == 0 || size > UINT32_MAX)
        return 0;
    return compose(t, (struct as_dwarf_type){.kind = AS_DWARF_ARRAY, .of = type, .count = count, .size = count * size});
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than MOST_CHAIN
static uint32_t array_type(struct as_dwarf_types *t, Dwarf_Die *die, unsigned depth)
{
    uint32_t of = type_under(t, die, depth);
    return as_dwarf_array_of(t, of, count_elements(die));
}

// One number for all definitions that are the same. `alias`: the name by which a struct is known that has none of its own.
static uint32_t record_type(struct as_dwarf_types *t, Dwarf_Die *die, const char *alias)
{
    struct as_dwarf_index *x = t->index;
    uint32_t scope = as_dwarf_definition(x, as_dwarf_scope_of(x, die->addr));
    if (scope == 0)
        return 0;
    const struct as_scope *s = &x->scopes.items[scope];
    bool aliased = alias && !s->name;
    uint64_t key = (aliased ? as_dwarf_hash(s->shape, alias) : UINT64_C(1) << 62 | scope) | UINT64_C(1) << 63;
    uint32_t found = as_number_map_get(&t->by_shape, key);
    if (found != 0)
        return found;
    found = add_type(t, (struct as_dwarf_type){.kind = s->kind == AS_SCOPE_UNION ? AS_DWARF_UNION : AS_DWARF_AGGREGATE,
                                               .size = s->size,
                                               .die = s->die,
                                               .scope = scope,
                                               .name = aliased ? as_strings_add(&t->names, alias, LONGEST_NAME) : 0});
    as_number_map_put(&t->by_shape, key, found, NULL);
    return found;
}

// Goes through typedefs, const and the like. *alias: the last typedef's name.
static bool resolve_typedefs(const struct as_dwarf_index *x, Dwarf_Die *type, const char **alias)
{
    for (int i = 0; i < MOST_CHAIN; i++) {
        Dwarf_Attribute attribute;
        uint64_t signature = 0;
        switch (dwarf_tag(type)) {
        case DW_TAG_typedef:
            *alias = dwarf_diename(type);
            break;
        case DW_TAG_const_type:
        case DW_TAG_volatile_type:
        case DW_TAG_restrict_type:
        case DW_TAG_atomic_type:
            break;
        default:
            as_dwarf_own_unit(x, type);
            return true;
        }
        if (!dwarf_attr(type, DW_AT_type, &attribute) || !as_dwarf_refer(x, &attribute, type, &signature))
            return false; // of void
    }
    return false;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than MOST_CHAIN
static uint32_t make_type(struct as_dwarf_types *t, Dwarf_Die *type, const char *alias, unsigned depth)
{
    switch (dwarf_tag(type)) {
    case DW_TAG_base_type:
    case DW_TAG_enumeration_type:
        return base_type(t, type);
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
        return compose(t, (struct as_dwarf_type){
                              .kind = AS_DWARF_POINTER, .of = type_under(t, type, depth), .size = sizeof(uint64_t)});
    case DW_TAG_array_type:
        return array_type(t, type, depth);
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
        return record_type(t, type, alias);
    default:
        return 0;
    }
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than MOST_CHAIN
static uint32_t type_of(struct as_dwarf_types *t, Dwarf_Die *die, unsigned depth)
{
    uint64_t key = (uint64_t)(uintptr_t)die->addr;
    uint32_t found = as_number_map_get(&t->by_die, key);
    if (found != 0 || depth > MOST_CHAIN)
        return found;
    const char *alias = NULL;
    Dwarf_Die type = *die;
    bool peeled = resolve_typedefs(t->index, &type, &alias);
    found = peeled ? make_type(t, &type, alias, depth) : dwarf_hasattr(&type, DW_AT_type) ? 0 : TYPE_VOID;
    if (found != 0)
        as_number_map_put(&t->by_die, key, found, NULL);
    return found;
}

uint32_t as_dwarf_type_of_variable(struct as_dwarf_types *t, const struct as_dwarf_variable *v)
{
    Dwarf_Die die = again(v->die);
    return type_under(t, &die, 0);
}

uint32_t as_dwarf_type_named(struct as_dwarf_types *t, const char *name)
{
    uint32_t scope = as_dwarf_find(t->index, name);
    if (scope == 0)
        return 0;
    Dwarf_Die die = again(t->index->scopes.items[scope].die);
    return type_of(t, &die, 0);
}

// Where a member or a base lies; false: not known before the program runs (a virtual base), or a field of bits.
static bool find_offset(Dwarf_Die *member, bool in_union, uint64_t *offset)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    *offset = 0;
    if (dwarf_hasattr(member, DW_AT_bit_size) || dwarf_hasattr(member, DW_AT_external) ||
        dwarf_hasattr(member, DW_AT_declaration))
        return false;
    if (!dwarf_attr(member, DW_AT_data_member_location, &attribute))
        return in_union || dwarf_tag(member) == DW_TAG_member;
    if (dwarf_formudata(&attribute, offset) == 0)
        return true;
    if (dwarf_getlocation(&attribute, &ops, &count) != 0 || count != 1 || ops[0].atom != DW_OP_plus_uconst)
        return false;
    *offset = ops[0].number;
    return true;
}

static void load_member(struct as_dwarf_types *t, uint32_t type, Dwarf_Die *die, bool variant)
{
    uint64_t offset;
    if (!find_offset(die, t->list.items[type].kind == AS_DWARF_UNION, &offset))
        return;
    uint32_t of = type_under(t, die, 0);
    if (of == 0 || offset > t->list.items[type].size || t->members.count >= MOST_MEMBERS)
        return;
    const char *name = dwarf_diename(die);
    bool base = dwarf_tag(die) == DW_TAG_inheritance;
    uint32_t stored = base || !name ? 0 : as_strings_add(&t->names, name, LONGEST_NAME);
    if (!as_vec_push(
            &t->members, NULL,
            (struct as_dwarf_member){.name = stored, .type = of, .offset = offset, .base = base, .variant = variant}))
        return;
    if (name && offset == 0 && strncmp(name, "_vptr", 5) == 0)
        t->list.items[type].virtual = true;
}

// Rust's enums: each variant has its members, all of which lie in the same place.
static void load_variants(struct as_dwarf_types *t, uint32_t type, Dwarf_Die *part)
{
    Dwarf_Die variant, member;
    if (dwarf_child(part, &variant) != 0)
        return;
    do {
        if (dwarf_tag(&variant) != DW_TAG_variant || dwarf_child(&variant, &member) != 0)
            continue;
        do
            if (dwarf_tag(&member) == DW_TAG_member)
                load_member(t, type, &member, true);
        while (++t->loads < MOST_LOADS && dwarf_siblingof(&member, &member) == 0);
    } while (++t->loads < MOST_LOADS && dwarf_siblingof(&variant, &variant) == 0);
}

static void load_child(struct as_dwarf_types *t, uint32_t type, Dwarf_Die *child)
{
    uint32_t parameter;
    switch (dwarf_tag(child)) {
    case DW_TAG_member:
    case DW_TAG_inheritance:
        load_member(t, type, child, false);
        break;
    case DW_TAG_variant_part:
        load_variants(t, type, child);
        break;
    case DW_TAG_template_type_parameter:
        if (t->list.items[type].parameter != 0)
            break;
        parameter = type_under(t, child, 0); // which may move the list
        t->list.items[type].parameter = parameter;
        break;
    default:
        break;
    }
}

// What a type has of its first and of its last member.
// NOLINTNEXTLINE(misc-no-recursion): no deeper than MOST_CHAIN
static void note_ends(struct as_dwarf_types *t, uint32_t type)
{
    uint32_t first = t->list.items[type].first, count = t->list.items[type].members;
    for (uint32_t i = first; i < first + count; i++) {
        struct as_dwarf_member m = t->members.items[i];
        if (m.base && m.offset == 0 && t->depth < MOST_CHAIN && as_dwarf_load(t, m.type)->virtual)
            t->list.items[type].virtual = true;
    }
    if (count < 2)
        return;
    const struct as_dwarf_type *last = &t->list.items[t->members.items[first + count - 1].type];
    t->list.items[type].flexible = last->kind == AS_DWARF_ARRAY && last->count <= 1;
}

// NOLINTNEXTLINE(misc-no-recursion): each type is loaded once, and one that is being loaded counts as loaded
struct as_dwarf_type *as_dwarf_load(struct as_dwarf_types *t, uint32_t type)
{
    struct as_dwarf_type *of = &t->list.items[type];
    if (of->loaded || (of->kind != AS_DWARF_AGGREGATE && of->kind != AS_DWARF_UNION))
        return of;
    of->loaded = true;
    Dwarf_Die die = again(of->die), child;
    uint32_t first = (uint32_t)t->members.count;
    if (dwarf_child(&die, &child) == 0)
        do
            load_child(t, type, &child);
        while (++t->loads < MOST_LOADS && dwarf_siblingof(&child, &child) == 0);
    t->list.items[type].first = first;
    t->list.items[type].members = (uint32_t)t->members.count - first;
    t->depth++;
    note_ends(t, type);
    t->depth--;
    return &t->list.items[type];
}

#endif
