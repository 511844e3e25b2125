// SPDX-License-Identifier: MIT
#include "config.h"

#include "graph/dwarf_index.h"

#ifdef HAVE_LIBDW

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>
#include <string.h>

// Bounds of what any number of modules may have in all. A build of clang with -g has some 100 million DIEs.
enum {
    MOST_DIES = 200000000,
    MOST_UNITS = 1000000,
    MOST_SCOPES = 8000000,
    MOST_VARIABLES = 4000000,
    MOST_DERIVATIONS = 8000000,
    DEEPEST = 64,      // of scopes in each other
    MOST_CHAIN = 32,   // of typedefs, const and the like
    MOST_STEPS = 4096, // of a search for derived classes
};

struct scan {
    struct as_dwarf_index *index;
    struct as_error *err;
    uint64_t base;
    uint32_t module;
    bool failed;
    bool c; // the unit is in C
};

static const uint64_t FIRST_HASH = UINT64_C(0xcbf29ce484222325), PRIME = UINT64_C(0x100000001b3); // FNV-1a

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * PRIME;
    return hash;
}

uint64_t as_dwarf_hash(uint64_t parent, const char *name)
{
    uint64_t hash = hash_text(parent == 0 ? FIRST_HASH : hash_text(parent, "::"), name);
    return hash != 0 ? hash : 1;
}

static struct as_die die_of(const Dwarf_Die *die)
{
    return (struct as_die){die->addr, die->cu};
}

// The next DIE at that level, if there is one, and if not too many have been looked at: of a file that lies, levels overlap.
static bool go_on(struct scan *s, Dwarf_Die *die)
{
    s->index->cut = s->index->cut || ++s->index->dies > MOST_DIES;
    return !s->failed && !s->index->cut && dwarf_siblingof(die, die) == 0;
}

static uint32_t add_scope(struct scan *s, Dwarf_Die *die, uint32_t parent, const char *name, enum as_scope_kind kind)
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

// Where a type is defined that typedefs, const and the like lead to.
static bool peel(Dwarf_Die *of, Dwarf_Die *type)
{
    Dwarf_Attribute attribute;
    *type = *of;
    for (int i = 0; i < MOST_CHAIN; i++) {
        if (!dwarf_attr(type, DW_AT_type, &attribute) || !dwarf_formref_die(&attribute, type))
            return false;
        int tag = dwarf_tag(type);
        if (tag != DW_TAG_typedef && tag != DW_TAG_const_type && tag != DW_TAG_volatile_type)
            return true;
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
static void note_beginning(struct scan *s, Dwarf_Die *member, uint32_t scope)
{
    struct as_dwarf_index *x = s->index;
    Dwarf_Die base;
    if (!is_at_start(member) || !peel(member, &base) || dwarf_tag(&base) == DW_TAG_base_type ||
        dwarf_tag(&base) == DW_TAG_pointer_type)
        return;
    x->cut = x->cut || x->unsettled.count >= MOST_DERIVATIONS;
    struct as_derivation_of *added = x->cut ? NULL : as_vec_add(&x->unsettled, s->err);
    if (added)
        *added = (struct as_derivation_of){base.addr, scope};
    s->failed = s->failed || (!added && !x->cut);
}

static void scan_children(struct scan *s, Dwarf_Die *parent, uint32_t scope, unsigned depth);

// Members make the shape; types inside are scopes of their own.
// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEEPEST
static void scan_members(struct scan *s, Dwarf_Die *type, uint32_t scope, unsigned depth)
{
    uint64_t shape = FIRST_HASH ^ s->index->scopes.items[scope].size;
    unsigned members = 0;
    Dwarf_Die child;
    if (dwarf_child(type, &child) == 0) {
        do {
            int tag = dwarf_tag(&child);
            if (tag == DW_TAG_member && !dwarf_hasattr(&child, DW_AT_external)) {
                const char *name = dwarf_diename(&child);
                shape = hash_text(shape * PRIME, name ? name : "");
                if (members++ == 0 && s->c)
                    note_beginning(s, &child, scope);
            } else if (tag == DW_TAG_inheritance) {
                note_beginning(s, &child, scope);
            }
        } while (go_on(s, &child));
    }
    s->index->scopes.items[scope].shape = (uint32_t)(shape ^ shape >> 32);
    scan_children(s, type, scope, depth);
}

// What is defined outside of what it was declared in lies there all the same: *scope becomes that. False: it is not known where.
static bool find_declared(struct scan *s, Dwarf_Die *die, uint32_t *scope)
{
    Dwarf_Attribute attribute;
    Dwarf_Die declaration;
    if (!dwarf_attr(die, DW_AT_specification, &attribute) || !dwarf_formref_die(&attribute, &declaration))
        return true;
    uint32_t found = as_dwarf_scope_of(s->index, declaration.addr);
    *scope = found != 0 ? s->index->scopes.items[found].parent : 0;
    return found != 0;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEEPEST
static void scan_record(struct scan *s, Dwarf_Die *die, uint32_t parent, unsigned depth)
{
    struct as_dwarf_index *x = s->index;
    bool is_union = dwarf_tag(die) == DW_TAG_union_type;
    int bytes = dwarf_bytesize(die);
    const char *name = find_declared(s, die, &parent) ? dwarf_diename(die) : NULL;
    uint32_t scope = add_scope(s, die, parent, name, is_union ? AS_SCOPE_UNION : AS_SCOPE_RECORD);
    if (scope == 0)
        return;
    x->scopes.items[scope].declared = dwarf_hasattr(die, DW_AT_declaration) || bytes < 0;
    x->scopes.items[scope].size = bytes < 0 ? 0 : (uint64_t)bytes;
    if (x->scopes.items[scope].declared) // what is declared in it may be defined
        scan_children(s, die, scope, depth + 1);
    else
        scan_members(s, die, scope, depth + 1);
}

// A variable's place: its address, or the offset in each thread's block of the module.
static bool find_place(Dwarf_Die *die, uint64_t *place, bool *local)
{
    Dwarf_Attribute attribute;
    Dwarf_Attribute address;
    Dwarf_Op *ops;
    size_t count;
    if (!dwarf_attr(die, DW_AT_location, &attribute) || dwarf_getlocation(&attribute, &ops, &count) != 0 || count == 0)
        return false;
    *local = count == 2 && (ops[1].atom == DW_OP_GNU_push_tls_address || ops[1].atom == DW_OP_form_tls_address);
    *place = ops[0].number;
    if (*local)
        return ops[0].atom == DW_OP_const8u || ops[0].atom == DW_OP_const4u || ops[0].atom == DW_OP_addr;
    if (count != 1)
        return false;
    if (ops[0].atom == DW_OP_addr)
        return true;
    return (ops[0].atom == DW_OP_addrx || ops[0].atom == DW_OP_GNU_addr_index) &&
           dwarf_getlocation_attr(&attribute, &ops[0], &address) == 0 && dwarf_formaddr(&address, place) == 0;
}

static void scan_variable(struct scan *s, Dwarf_Die *die)
{
    struct as_dwarf_index *x = s->index;
    uint64_t place;
    bool local;
    if (!find_place(die, &place, &local))
        return;
    x->cut = x->cut || x->variables.count >= MOST_VARIABLES;
    struct as_dwarf_variable *added = x->cut ? NULL : as_vec_add(&x->variables, s->err);
    if (added)
        *added = (struct as_dwarf_variable){
            .address = local ? place : s->base + place, .die = die_of(die), .module = s->module, .local = local};
    s->failed = s->failed || (!added && !x->cut);
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEEPEST
static void scan_die(struct scan *s, Dwarf_Die *die, uint32_t scope, unsigned depth)
{
    const char *name;
    switch (dwarf_tag(die)) {
    case DW_TAG_namespace:
    case DW_TAG_module:
        name = dwarf_diename(die);
        scan_children(s, die, add_scope(s, die, scope, name ? name : "(anonymous namespace)", AS_SCOPE_SPACE),
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
        name = find_declared(s, die, &scope) ? dwarf_diename(die) : NULL;
        scan_children(s, die, add_scope(s, die, scope, name, AS_SCOPE_SPACE), depth + 1);
        break;
    case DW_TAG_lexical_block:
        scan_children(s, die, scope, depth + 1);
        break;
    case DW_TAG_variable:
        scan_variable(s, die);
        break;
    default:
        break;
    }
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEEPEST
static void scan_children(struct scan *s, Dwarf_Die *parent, uint32_t scope, unsigned depth)
{
    Dwarf_Die child;
    if (depth > DEEPEST || dwarf_child(parent, &child) != 0)
        return;
    do
        scan_die(s, &child, scope, depth);
    while (go_on(s, &child));
}

static bool is_c(Dwarf_Die *unit)
{
    switch (dwarf_srclang(unit)) {
    case DW_LANG_C:
    case DW_LANG_C89:
    case DW_LANG_C99:
    case DW_LANG_C11:
        return true;
    default:
        return false;
    }
}

static bool begin_run(struct as_dwarf_index *x, struct as_error *err)
{
    struct as_scope_run *run = as_vec_add(&x->runs, err);
    if (run)
        *run = (struct as_scope_run){(uint32_t)x->scopes.count, UINT32_MAX};
    return run;
}

// All units of one file, but neither those whose types are in a file of their own (-gsplit-dwarf: libdw would open what the unit
// names), nor units for a single type (-fdebug-types-section), which declare what the type lies in only behind it.
static void scan_file(struct scan *s, Dwarf *dwarf)
{
    struct as_dwarf_index *x = s->index;
    Dwarf_CU *unit = NULL;
    uint8_t type = 0;
    const void *last = NULL;
    for (int i = 0; i < MOST_UNITS && !x->cut && !s->failed; i++) {
        Dwarf_Die die;
        if (dwarf_get_units(dwarf, unit, &unit, NULL, &type, NULL, NULL) != 0)
            break;
        if ((type != DW_UT_compile && type != DW_UT_partial) ||
            !dwarf_cu_die(unit, &die, NULL, NULL, NULL, NULL, NULL, NULL))
            continue;
        if (last == NULL || (const void *)die.addr < last) // another section
            s->failed = !begin_run(x, s->err);
        last = die.addr;
        s->c = is_c(&die);
        scan_children(s, &die, 0, 1);
        x->runs.items[x->runs.count - 1].end = (uint32_t)x->scopes.count;
    }
}

bool as_dwarf_index_add(struct as_dwarf_index *x, const struct as_debug_info *info, uint32_t module, uint64_t base,
                        struct as_error *err)
{
    struct scan s = {.index = x, .err = err, .module = module, .base = base};
    if (x->scopes.count == 0) {
        if (!as_vec_reserve(&x->scopes, 1, err))
            return false;
        x->scopes.count = 1;
    }
    if (info->shared)
        scan_file(&s, info->shared);
    if (!s.failed)
        scan_file(&s, info->dwarf);
    return !s.failed;
}

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

bool as_dwarf_index_finish(struct as_dwarf_index *x, struct as_error *err)
{
    bool ok = true;
    for (uint32_t i = 1; ok && i < x->scopes.count; i++)
        ok = settle_scope(x, i, err);
    ok = ok && as_vec_reserve(&x->derivations, x->unsettled.count, err);
    for (size_t i = 0; ok && i < x->unsettled.count; i++) {
        const struct as_scope *derived = &x->scopes.items[x->unsettled.items[i].derived];
        uint64_t base = x->scopes.items[as_dwarf_scope_of(x, x->unsettled.items[i].base)].hash;
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

void as_dwarf_index_free(struct as_dwarf_index *x)
{
    as_vec_free(&x->scopes);
    as_vec_free(&x->runs);
    as_vec_free(&x->variables);
    as_vec_free(&x->derivations);
    as_vec_free(&x->unsettled);
    as_number_map_free(&x->by_name);
    as_number_map_free(&x->by_shape);
    as_number_map_free(&x->twofold);
    *x = (struct as_dwarf_index){0};
}

uint32_t as_dwarf_scope_of(const struct as_dwarf_index *x, const void *die)
{
    for (size_t i = 0; i < x->runs.count; i++) {
        const struct as_scope_run *run = &x->runs.items[i];
        uint32_t end = run->end < x->scopes.count ? run->end : (uint32_t)x->scopes.count, low = run->first, high = end;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (x->scopes.items[middle].die.address < die)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < end && x->scopes.items[low].die.address == die)
            return low;
    }
    return 0;
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
    size_t low = 0, high = x->variables.count;
    while (low < high) { // the first behind it
        size_t middle = low + (high - low) / 2;
        if (by_address(&x->variables.items[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    const struct as_dwarf_variable *v = low > 0 ? &x->variables.items[low - 1] : NULL;
    return v && v->local == local && v->module == module ? v : NULL;
}

// NOLINTNEXTLINE(misc-no-recursion): `steps` bounds it
static bool search_derived(const struct as_dwarf_index *x, uint64_t hash, uint64_t least, uint64_t most, unsigned depth,
                           unsigned *steps)
{
    size_t low = 0, high = x->derivations.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->derivations.items[middle].base < hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < x->derivations.count && x->derivations.items[low].base == hash; low++) {
        const struct as_derivation *d = &x->derivations.items[low];
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
