// SPDX-License-Identifier: MIT
// The units of a file: those of a module, and the rest of those of which the module has a skeleton alone. libdw is
// never asked for this rest: it would open whatever a skeleton names.
#include "config.h"

#include "debuginfo/dwarf_scan.h"

#ifdef HAVE_LIBDW

#include <dwarf.h>
#include <limits.h>
#include <string.h>

// Bounds of all files together; and of a module's .dwo files.
enum { MOST_UNITS = 2000000, MOST_SKELETONS = 1 << 16 };

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
    return as_vec_push(&x->runs, err, (struct as_scope_run){.first = (uint32_t)x->scopes.count, .end = UINT32_MAX});
}

struct dwarf_unit {
    Dwarf_CU *cu;
    Dwarf_Die die, type; // type: of a unit for one type
    uint64_t id;         // its signature, or that of a .dwo file's unit
    Dwarf_Half version;
    uint8_t kind; // DW_UT_*
};

static bool is_for_type(const struct dwarf_unit *u)
{
    return u->kind == DW_UT_type || u->kind == DW_UT_split_type;
}

// What libdw says of the unit's own bytes.
static bool read_unit(struct dwarf_unit *u)
{
    if (!dwarf_cu_die(u->cu, &u->die, NULL, NULL, NULL, NULL, NULL, NULL) ||
        dwarf_cu_info(u->cu, &u->version, &u->kind, NULL, NULL, &u->id, NULL, NULL) != 0)
        return false;
    return !is_for_type(u) || dwarf_cu_info(u->cu, NULL, NULL, NULL, &u->type, NULL, NULL, NULL) == 0;
}

// A part of a path.
static const char *text_of(Dwarf_Die *die, unsigned name, unsigned older)
{
    Dwarf_Attribute attribute;
    bool has = dwarf_attr(die, name, &attribute) || (older != 0 && dwarf_attr(die, older, &attribute));
    const char *text = has ? dwarf_formstring(&attribute) : NULL;
    return text && strnlen(text, PATH_MAX) < PATH_MAX ? text : NULL;
}

static void note_skeleton(struct as_dwarf_scan *s, struct dwarf_unit *u, const char *name)
{
    struct as_dwarf_index *x = s->index;
    Dwarf_Attribute attribute;
    Dwarf_Word addresses = 0;
    bool has = dwarf_attr(&u->die, DW_AT_addr_base, &attribute) || dwarf_attr(&u->die, DW_AT_GNU_addr_base, &attribute);
    if (has && dwarf_formudata(&attribute, &addresses) != 0)
        addresses = UINT64_MAX; // no variable has an address then
    x->cut = x->cut || x->skeletons.count >= MOST_SKELETONS;
    struct as_dwarf_skeleton *added = x->cut ? NULL : as_vec_add(&x->skeletons, s->err);
    if (added)
        *added = (struct as_dwarf_skeleton){
            .folder = text_of(&u->die, DW_AT_comp_dir, 0), .name = name, .id = u->id, .addresses = addresses};
    s->failed = s->failed || (!added && !x->cut) ||
                (added && u->id != 0 && !as_number_map_put(&x->by_unit, u->id, (uint32_t)x->skeletons.count, s->err));
}

// Takes the part of .debug_addr that the unit's skeleton names. False: the module does not have its skeleton, or the unit has been read.
static bool take_skeleton(struct as_dwarf_scan *s, const uint8_t *addresses, uint64_t size, uint64_t id)
{
    struct as_dwarf_index *x = s->index;
    uint32_t at = id != 0 ? as_number_map_get(&x->by_unit, id) : 0;
    struct as_dwarf_skeleton *skeleton = at != 0 ? &x->skeletons.items[at - 1] : NULL;
    if (!skeleton || skeleton->found)
        return false;
    skeleton->found = true;
    bool inside = addresses && skeleton->addresses < size;
    s->addresses = inside ? addresses + skeleton->addresses : (const uint8_t *)"";
    s->address_count = inside ? (size - skeleton->addresses) / sizeof(uint64_t) : 0;
    return true;
}

static void scan_unit(struct as_dwarf_scan *s, struct dwarf_unit *u)
{
    struct as_dwarf_index *x = s->index;
    uint32_t first = (uint32_t)x->scopes.count;
    s->own_type = is_for_type(u) && u->id != 0 ? u->type.addr : NULL;
    s->signature = u->id;
    s->c = is_c(&u->die);
    x->runs.items[x->runs.count - 1].end = UINT32_MAX;
    as_dwarf_scan_children(s, &u->die, 0, 1);
    as_dwarf_scan_settle(s, first);
    x->runs.items[x->runs.count - 1].end = (uint32_t)x->scopes.count;
}

// `split`: a .dwo file, for which a module has the addresses.
struct file {
    Dwarf *dwarf;
    const uint8_t *addresses;
    uint64_t size;
    bool split;
};

static bool is_wanted(struct as_dwarf_scan *s, const struct file *f, struct dwarf_unit *u)
{
    const char *name = text_of(&u->die, DW_AT_dwo_name, DW_AT_GNU_dwo_name);
    if (u->kind == DW_UT_split_compile || u->kind == DW_UT_skeleton) {
        // libdw says of a skeleton with functions in it that it is none.
        if (!f->split)
            note_skeleton(s, u, name ? name : "");
        return f->split && u->kind == DW_UT_split_compile && take_skeleton(s, f->addresses, f->size, u->id);
    }
    return is_for_type(u) || (!f->split && (u->kind == DW_UT_compile || u->kind == DW_UT_partial));
}

// libdw keeps some hundred bytes of each unit: their number is bounded over all files.
static bool next_unit(struct as_dwarf_index *x, const struct file *f, struct dwarf_unit *u)
{
    if (x->cut || dwarf_get_units(f->dwarf, u->cu, &u->cu, NULL, NULL, NULL, NULL) != 0)
        return false;
    x->cut = ++x->units > MOST_UNITS;
    return !x->cut;
}

// Does a .dwo file have a unit of which the module has the skeleton alone? Else it is another build's, whose types are not the module's.
static bool has_unit_of_module(struct as_dwarf_index *x, const struct file *f)
{
    struct dwarf_unit u = {0};
    while (next_unit(x, f, &u)) {
        bool may_be = read_unit(&u) && u.kind == DW_UT_split_compile && u.id != 0;
        uint32_t at = may_be ? as_number_map_get(&x->by_unit, u.id) : 0;
        if (at != 0 && !x->skeletons.items[at - 1].found)
            return true;
    }
    return false;
}

static void scan_file(struct as_dwarf_scan *s, const struct file *f)
{
    struct as_dwarf_index *x = s->index;
    struct dwarf_unit u = {0};
    const void *last = NULL;
    bool types = false; // in the section of types, which DWARF 4 has
    while (!s->failed && next_unit(x, f, &u)) {
        if (!read_unit(&u) || !is_wanted(s, f, &u))
            continue;
        bool another = (u.version < 5 && is_for_type(&u)) != types;
        types = types != another;
        if (last == NULL || another || (const void *)u.die.addr < last)
            s->failed = !begin_run(x, s->err);
        last = u.die.addr;
        if (!s->failed)
            scan_unit(s, &u);
    }
}

static bool scan_units(struct as_dwarf_scan *s, const struct file *f)
{
    scan_file(s, f);
    as_vec_free(&s->forward);
    return !s->failed;
}

bool as_dwarf_index_add(struct as_dwarf_index *x, const struct as_debug_info *info, uint32_t module, uint64_t base,
                        struct as_error *err)
{
    struct as_dwarf_scan s = {
        .index = x, .err = err, .module = module, .base = base, .first_run = (uint32_t)x->runs.count};
    x->skeletons.count = 0;
    as_number_map_free(&x->by_unit);
    if (x->scopes.count == 0) {
        if (!as_vec_reserve(&x->scopes, 1, err) || !as_vec_reserve(&x->signed_types, 1, err))
            return false;
        x->scopes.count = x->signed_types.count = 1;
    }
    const struct file shared = {.dwarf = info->shared}, own = {.dwarf = info->dwarf};
    return (!info->shared || scan_units(&s, &shared)) && scan_units(&s, &own);
}

bool as_dwarf_index_add_split(struct as_dwarf_index *x, const struct as_debug_info *split,
                              const struct as_dwarf_module *of, bool *taken, struct as_error *err)
{
    struct as_dwarf_scan s = {.index = x,
                              .err = err,
                              .module = of->module,
                              .base = of->base,
                              .tls_start = of->tls_start,
                              .tls_size = of->tls_size,
                              .first_run = (uint32_t)x->runs.count};
    struct file f = {.dwarf = split->dwarf, .split = true};
    f.addresses = as_debug_info_section(of->info, ".debug_addr", &f.size);
    *taken = has_unit_of_module(x, &f);
    return !*taken || scan_units(&s, &f);
}

#endif
