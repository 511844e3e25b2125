// SPDX-License-Identifier: MIT
#include "config.h"

#include "debuginfo/dwarf_hash.h"
#include "debuginfo/dwarf_scan.h"

#ifdef HAVE_LIBDW

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <string.h>

// Bounds of what any number of modules may have in all. A build of clang with -g has some 100 million DIEs.
enum {
    MOST_DIES = 200000000,
    MOST_SCOPES = 8000000,
    MOST_VARIABLES = 4000000,
    MOST_DERIVATIONS = 8000000,
    DEEPEST = 64,    // of scopes in each other
    MOST_CHAIN = 32, // of typedefs, const and the like
};

static struct as_die die_of(const Dwarf_Die *die)
{
    return (struct as_die){die->addr, die->cu};
}

// The next DIE at that level, if there is one, and if not too many have been inspected: of a file that lies, levels overlap.
static bool go_on(struct as_dwarf_scan *s, Dwarf_Die *die)
{
    s->index->cut = s->index->cut || ++s->index->dies > MOST_DIES || as_dwarf_index_is_stopped(s->index);
    return !s->failed && !s->index->cut && dwarf_siblingof(die, die) == 0;
}

static uint32_t add_scope(struct as_dwarf_scan *s, Dwarf_Die *die, uint32_t parent, const char *name,
                          enum as_scope_kind kind)
{
    struct as_dwarf_index *x = s->index;
    x->cut = x->cut || x->scopes.count >= MOST_SCOPES;
    struct as_scope *added = x->cut ? NULL : as_vec_add(&x->scopes, s->err);
    if (!added) {
        s->failed = s->failed || !x->cut;
        return 0;
    }
    // What lies in something without a name has none that anybody could look up.
    bool named = name && (parent == 0 || x->scopes.items[parent].hash != 0);
    *added = (struct as_scope){
        .hash = named ? as_dwarf_hash(parent == 0 ? 0 : x->scopes.items[parent].hash, name) : 0,
        .name = name,
        .die = die_of(die),
        .parent = parent,
        .kind = (uint8_t)kind,
    };
    return (uint32_t)(x->scopes.count - 1);
}

// The signature that an attribute has; 0: it has none. libdw reads it only with the unit that it searches for, in the same file alone.
static uint64_t read_signature(Dwarf_Attribute attribute)
{
    Dwarf_Word signature = 0;
    if (dwarf_whatform(&attribute) != DW_FORM_ref_sig8)
        return 0;
    attribute.form = DW_FORM_data8;
    attribute.code = DW_AT_byte_size; // any whose value is a number
    return dwarf_formudata(&attribute, &signature) == 0 ? signature : 0;
}

static bool find_signed(const struct as_dwarf_index *x, uint64_t signature, Dwarf_Die *die)
{
    struct as_die found = x->signed_types.items[as_number_map_get(&x->by_signature, signature)];
    if (found.address)
        *die = (Dwarf_Die){.addr = found.address, .cu = found.unit};
    return found.address;
}

bool as_dwarf_refer(const struct as_dwarf_index *x, Dwarf_Attribute *attribute, Dwarf_Die *die, uint64_t *signature)
{
    uint64_t its = read_signature(*attribute);
    *signature = 0;
    if (its == 0)
        return dwarf_whatform(attribute) != DW_FORM_ref_sig8 && dwarf_formref_die(attribute, die);
    bool found = find_signed(x, its, die);
    *signature = found ? 0 : its;
    return found;
}

uint64_t as_dwarf_own_unit(const struct as_dwarf_index *x, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    uint64_t signature = dwarf_attr(die, DW_AT_signature, &attribute) ? read_signature(attribute) : 0;
    return signature == 0 || find_signed(x, signature, die) ? 0 : signature;
}

// clang declares what a type lies in by the signature alone.
static void note_unnamed(struct as_dwarf_scan *s, Dwarf_Die *die, uint32_t scope)
{
    Dwarf_Attribute attribute;
    uint64_t signature = dwarf_attr(die, DW_AT_signature, &attribute) ? read_signature(attribute) : 0;
    if (signature == 0)
        return;
    s->failed |= !as_vec_push(&s->index->unnamed, s->err, (struct as_declared_elsewhere){signature, scope});
}

// Where a type is defined that typedefs, const and the like lead to. *signature: of its unit, if this is not known yet; else 0.
static bool resolve_type(const struct as_dwarf_index *x, Dwarf_Die *of, Dwarf_Die *type, uint64_t *signature)
{
    Dwarf_Attribute attribute;
    *type = *of;
    for (int i = 0; i < MOST_CHAIN; i++) {
        *signature = 0;
        if (!dwarf_attr(type, DW_AT_type, &attribute) || !as_dwarf_refer(x, &attribute, type, signature))
            return *signature != 0;
        int tag = dwarf_tag(type);
        if (tag != DW_TAG_typedef && tag != DW_TAG_const_type && tag != DW_TAG_volatile_type) {
            *signature = as_dwarf_own_unit(x, type);
            return true;
        }
    }
    return false;
}

static bool is_at_start(Dwarf_Die *member)
{
    Dwarf_Attribute attribute;
    Dwarf_Word offset = 0;
    return !dwarf_attr(member, DW_AT_data_member_location, &attribute) ||
           (dwarf_formudata(&attribute, &offset) == 0 && offset == 0);
}

// Notes the struct that another one begins with: its base, or in C its first member.
static void note_beginning(struct as_dwarf_scan *s, Dwarf_Die *member, uint32_t scope)
{
    struct as_dwarf_index *x = s->index;
    Dwarf_Die base;
    uint64_t signature;
    if (!is_at_start(member) || !resolve_type(x, member, &base, &signature) ||
        (signature == 0 && (dwarf_tag(&base) == DW_TAG_base_type || dwarf_tag(&base) == DW_TAG_pointer_type)))
        return;
    x->cut = x->cut || x->unsettled.count >= MOST_DERIVATIONS;
    struct as_derivation_of *added = x->cut ? NULL : as_vec_add(&x->unsettled, s->err);
    if (added)
        *added = (struct as_derivation_of){signature == 0 ? base.addr : NULL, signature, scope};
    s->failed = s->failed || (!added && !x->cut);
}

// Members make the shape; types inside are scopes of their own.
// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEEPEST
static void scan_members(struct as_dwarf_scan *s, Dwarf_Die *type, uint32_t scope, unsigned depth)
{
    uint64_t shape = AS_FIRST_HASH ^ s->index->scopes.items[scope].size;
    unsigned members = 0;
    Dwarf_Die child;
    if (dwarf_child(type, &child) == 0) {
        do {
            int tag = dwarf_tag(&child);
            if (tag == DW_TAG_member && !dwarf_hasattr(&child, DW_AT_external)) {
                const char *name = dwarf_diename(&child);
                shape = as_dwarf_hash_text(shape * AS_HASH_PRIME, name ? name : "");
                if (members++ == 0 && s->c)
                    note_beginning(s, &child, scope);
            } else if (tag == DW_TAG_inheritance) {
                note_beginning(s, &child, scope);
            }
        } while (go_on(s, &child));
    }
    s->index->scopes.items[scope].shape = (uint32_t)(shape ^ shape >> 32);
    as_dwarf_scan_children(s, type, scope, depth);
}

// What is defined outside of what it was declared in lies there all the same: *scope becomes that. False: it is not known where,
// but in what declares this DIE.
static bool find_declared(struct as_dwarf_scan *s, Dwarf_Die *die, uint32_t *scope, Dwarf_Die *declaration)
{
    Dwarf_Attribute attribute;
    if (!dwarf_attr(die, DW_AT_specification, &attribute) || !dwarf_formref_die(&attribute, declaration))
        return true;
    uint32_t found = as_dwarf_scope_among(s->index, s->first_run, declaration->addr);
    *scope = found != 0 ? s->index->scopes.items[found].parent : 0;
    return found != 0;
}

// In a unit for one type the declaration is behind the definition.
static void search_later(struct as_dwarf_scan *s, Dwarf_Die *die, const Dwarf_Die *declaration, uint32_t scope)
{
    const struct as_dwarf_forward added = {declaration->addr, dwarf_diename(die), scope};
    s->failed |= !as_vec_push(&s->forward, s->err, added);
}

void as_dwarf_scan_settle(struct as_dwarf_scan *s, uint32_t first)
{
    struct as_dwarf_index *x = s->index;
    for (size_t i = 0; i < s->forward.count; i++) {
        const struct as_dwarf_forward *f = &s->forward.items[i];
        uint32_t found = as_dwarf_scope_among(x, s->first_run, f->declaration);
        if (found != 0) {
            x->scopes.items[f->scope].parent = x->scopes.items[found].parent;
            x->scopes.items[f->scope].name = f->name;
        }
    }
    for (uint32_t i = first; s->forward.count > 0 && i < x->scopes.count; i++)
        x->scopes.items[i].hash = as_dwarf_qualified_hash(x, i);
    s->forward.count = 0;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEEPEST
static void scan_record(struct as_dwarf_scan *s, Dwarf_Die *die, uint32_t parent, unsigned depth)
{
    struct as_dwarf_index *x = s->index;
    bool is_union = dwarf_tag(die) == DW_TAG_union_type;
    int bytes = dwarf_bytesize(die);
    Dwarf_Die declaration;
    bool known = find_declared(s, die, &parent, &declaration);
    const char *name = known ? dwarf_diename(die) : NULL;
    uint32_t scope = add_scope(s, die, parent, name, is_union ? AS_SCOPE_UNION : AS_SCOPE_AGGREGATE);
    if (scope == 0)
        return;
    if (!known)
        search_later(s, die, &declaration, scope);
    else if (!name)
        note_unnamed(s, die, scope);
    x->scopes.items[scope].declared = dwarf_hasattr(die, DW_AT_declaration) || bytes < 0;
    x->scopes.items[scope].size = bytes < 0 ? 0 : (uint64_t)bytes;
    if (x->scopes.items[scope].declared) // what is declared in it may be defined
        as_dwarf_scan_children(s, die, scope, depth + 1);
    else
        scan_members(s, die, scope, depth + 1);
}

// A number of the module's .debug_addr: of a .dwo file, in which no address is.
static bool find_number(const struct as_dwarf_scan *s, Dwarf_Attribute *location, const Dwarf_Op *op, uint64_t *number)
{
    Dwarf_Attribute address;
    if (!s->addresses)
        return dwarf_getlocation_attr(location, op, &address) == 0 && dwarf_formaddr(&address, number) == 0;
    if (op->number >= s->address_count)
        return false;
    *number = as_load_u64(s->addresses + op->number * sizeof *number);
    return true;
}

// The offset in a thread's block: gcc's .debug_addr has an address in the file's own copy of the block instead.
static bool find_offset(const struct as_dwarf_scan *s, uint64_t *number)
{
    bool address = *number >= s->tls_start && *number - s->tls_start < s->tls_size;
    if (!s->addresses || *number < s->tls_size)
        return !s->addresses || !address; // else it may be either
    *number -= s->tls_start;
    return address;
}

// A variable's place: its address, or the offset in each thread's block of the module.
static bool find_place(const struct as_dwarf_scan *s, Dwarf_Die *die, uint64_t *place, bool *local)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    if (!dwarf_attr(die, DW_AT_location, &attribute) || dwarf_getlocation(&attribute, &ops, &count) != 0 || count == 0)
        return false;
    *local = count == 2 && (ops[1].atom == DW_OP_GNU_push_tls_address || ops[1].atom == DW_OP_form_tls_address);
    *place = ops[0].number;
    switch (ops[0].atom) {
    case DW_OP_addr:
        return *local || count == 1;
    case DW_OP_const8u:
    case DW_OP_const4u:
        return *local;
    case DW_OP_constx:
    case DW_OP_GNU_const_index:
        return *local && find_number(s, &attribute, &ops[0], place) && find_offset(s, place);
    case DW_OP_addrx:
    case DW_OP_GNU_addr_index:
        return (*local || count == 1) && find_number(s, &attribute, &ops[0], place) &&
               (!*local || find_offset(s, place));
    default:
        return false;
    }
}

static void scan_variable(struct as_dwarf_scan *s, Dwarf_Die *die)
{
    struct as_dwarf_index *x = s->index;
    uint64_t place;
    bool local;
    if (!find_place(s, die, &place, &local))
        return;
    x->cut = x->cut || x->variables.count >= MOST_VARIABLES;
    struct as_dwarf_variable *added = x->cut ? NULL : as_vec_add(&x->variables, s->err);
    if (added)
        *added = (struct as_dwarf_variable){
            .address = local ? place : s->base + place, .die = die_of(die), .module = s->module, .local = local};
    s->failed = s->failed || (!added && !x->cut);
}

// The type that the unit is for. The first of several with the same signature will do.
static void note_own_type(struct as_dwarf_scan *s, Dwarf_Die *die)
{
    struct as_dwarf_index *x = s->index;
    if (as_number_map_get(&x->by_signature, s->signature) != 0)
        return;
    s->failed = !as_vec_push(&x->signed_types, s->err, die_of(die)) || s->failed ||
                !as_number_map_put(&x->by_signature, s->signature, (uint32_t)(x->signed_types.count - 1), s->err);
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEEPEST
static void scan_die(struct as_dwarf_scan *s, Dwarf_Die *die, uint32_t scope, unsigned depth)
{
    const char *name;
    Dwarf_Die declaration;
    if (die->addr == s->own_type)
        note_own_type(s, die);
    switch (dwarf_tag(die)) {
    case DW_TAG_namespace:
    case DW_TAG_module:
        name = dwarf_diename(die);
        as_dwarf_scan_children(s, die, add_scope(s, die, scope, name ? name : "(anonymous namespace)", AS_SCOPE_SPACE),
                               depth + 1);
        break;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
        scan_record(s, die, scope, depth);
        break;
    case DW_TAG_subprogram:
        if (dwarf_haschildren(die) <= 0 || dwarf_hasattr(die, DW_AT_declaration))
            break;
        name = find_declared(s, die, &scope, &declaration) ? dwarf_diename(die) : NULL;
        as_dwarf_scan_children(s, die, add_scope(s, die, scope, name, AS_SCOPE_SPACE), depth + 1);
        break;
    case DW_TAG_lexical_block:
        as_dwarf_scan_children(s, die, scope, depth + 1);
        break;
    case DW_TAG_variable:
        scan_variable(s, die);
        break;
    default:
        break;
    }
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEEPEST
void as_dwarf_scan_children(struct as_dwarf_scan *s, Dwarf_Die *parent, uint32_t scope, unsigned depth)
{
    Dwarf_Die child;
    if (depth > DEEPEST || dwarf_child(parent, &child) != 0)
        return;
    do
        scan_die(s, &child, scope, depth);
    while (go_on(s, &child));
}

bool as_dwarf_index_is_stopped(const struct as_dwarf_index *x)
{
    return atomic_load_explicit(&x->stopped, memory_order_relaxed);
}

void as_dwarf_index_stop(struct as_dwarf_index *x)
{
    atomic_store_explicit(&x->stopped, true, memory_order_relaxed);
}

void as_dwarf_index_free(struct as_dwarf_index *x)
{
    AS_FREE_VECS(x, scopes, runs, variables, derivations, unsettled, unnamed, skeletons, signed_types);
    as_number_map_free(&x->by_signature);
    as_number_map_free(&x->by_unit);
    as_number_map_free(&x->by_name);
    as_number_map_free(&x->by_shape);
    as_number_map_free(&x->twofold);
    *x = (struct as_dwarf_index){0};
}

#endif
