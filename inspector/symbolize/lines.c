// SPDX-License-Identifier: MIT
#include "config.h"

#include "symbolize/lines.h"

#ifdef HAVE_LIBDW

#include "debuginfo/demangle.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 4096, MOST_INLINED = 64, MOST_DEPTH = 64, MOST_RANGES = 1 << 16 };
static const uint64_t MOST_BYTES = UINT64_C(1) << 30; // of one file's debug information
static const uint64_t MOST_STEPS = UINT64_C(1) << 30; // DIEs

static Dwarf_Die die_of(const struct as_lines_range *range)
{
    return (Dwarf_Die){.addr = range->address, .cu = range->unit};
}

// Adds the ranges of a DIE that is not empty.
static bool add_ranges(as_lines_ranges *out, Dwarf_Die *die, struct as_error *err)
{
    Dwarf_Addr base = 0;
    Dwarf_Addr start;
    Dwarf_Addr end;
    ptrdiff_t at = 0;
    for (int i = 0; i < MOST_RANGES && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0; i++) {
        if (start >= end || start == 0)
            continue;
        if (!as_vec_push(out, err,
                         (struct as_lines_range){.start = start, .end = end, .address = die->addr, .unit = die->cu}))
            return false;
    }
    return true;
}

static int by_address(const void *a, const void *b)
{
    const struct as_lines_range *x = a;
    const struct as_lines_range *y = b;
    return x->start != y->start ? (x->start > y->start) - (x->start < y->start) : (x->end < y->end) - (x->end > y->end);
}

static void sort(struct as_lines_range *items, size_t count)
{
    if (count > 0)
        qsort(items, count, sizeof *items, by_address);
}

// Returns the range that begins last of those that have the address.
static const struct as_lines_range *range_at(const struct as_lines_range *items, size_t count, uint64_t address)
{
    enum { BACK = 64 };
    size_t behind = AS_PARTITION_POINT(0, count, i, items[i].start <= address);
    for (size_t i = behind; i > 0 && behind - i < BACK; i--)
        if (address < items[i - 1].end)
            return &items[i - 1];
    return NULL;
}

bool as_source_lines_open(struct as_source_lines *l, const struct as_elf *file, const int *roots)
{
    char why[256];
    *l = (struct as_source_lines){.steps = MOST_STEPS};
    bool ok = as_debug_info_open(&l->info, file, MOST_BYTES, roots, true, why, sizeof why);
    Dwarf_CU *unit = NULL;
    Dwarf_Half version;
    uint8_t type;
    Dwarf_Die die;
    while (ok && dwarf_get_units(l->info.dwarf, unit, &unit, &version, &type, &die, NULL) == 0)
        if (type == DW_UT_compile)
            ok = add_ranges(&l->units, &die, NULL);
    sort(l->units.items, l->units.count);
    if (ok && l->units.count > 0)
        return true;
    as_source_lines_close(l);
    return false;
}

void as_source_lines_close(struct as_source_lines *l)
{
    as_debug_info_close(&l->info);
    AS_FREE_VECS(l, units, functions, read);
}

static bool holds_functions(int tag)
{
    return tag == DW_TAG_namespace || tag == DW_TAG_structure_type || tag == DW_TAG_class_type ||
           tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type || tag == DW_TAG_module;
}

// The functions of a unit: those in it, in its namespaces and in its classes. Not by libdw's own descent, which has no bound.
static bool add_functions(struct as_source_lines *l, Dwarf_Die *parent, unsigned depth, // NOLINT(misc-no-recursion)
                          struct as_error *err)
{
    Dwarf_Die die;
    if (depth == MOST_DEPTH || dwarf_child(parent, &die) != 0)
        return true;
    do {
        int tag = dwarf_tag(&die);
        if (l->steps == 0)
            return true;
        l->steps--;
        if (tag == DW_TAG_subprogram && !add_ranges(&l->functions, &die, err))
            return false;
        if (holds_functions(tag) && !add_functions(l, &die, depth + 1, err))
            return false;
    } while (dwarf_siblingof(&die, &die) == 0);
    return true;
}

// A unit's functions, listed when its first address is asked for.
static const struct as_lines_unit *functions_of(struct as_source_lines *l, Dwarf_Die *unit, struct as_error *err)
{
    for (size_t i = 0; i < l->read.count; i++)
        if (l->read.items[i].unit == unit->addr)
            return &l->read.items[i];
    struct as_lines_unit *added = as_vec_add(&l->read, err);
    if (!added)
        return NULL;
    *added = (struct as_lines_unit){.unit = unit->addr, .first = l->functions.count};
    if (!add_functions(l, unit, 0, err))
        return NULL;
    added->end = l->functions.count;
    sort(l->functions.items + added->first, added->end - added->first);
    return added;
}

// Into what is inlined at the address. Returns how many DIEs there are in `chain`: the function, and what is inlined, outermost first.
static size_t descend(struct as_source_lines *l, uint64_t address, Dwarf_Die *chain)
{
    size_t count = 1;
    Dwarf_Die die = chain[0];
    for (unsigned depth = 0; depth < MOST_DEPTH && count < MOST_INLINED; depth++) {
        bool found = false;
        if (dwarf_child(&die, &die) != 0)
            break;
        do {
            int tag = dwarf_tag(&die);
            found =
                (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block) && dwarf_haspc(&die, address) == 1;
        } while (!found && l->steps > 0 && l->steps-- > 0 && dwarf_siblingof(&die, &die) == 0);
        if (!found)
            break;
        if (dwarf_tag(&die) == DW_TAG_inlined_subroutine)
            chain[count++] = die;
    }
    return count;
}

static uint32_t function_name(Dwarf_Die *die, struct as_strings *strings)
{
    Dwarf_Attribute attribute;
    char text[LONGEST];
    const char *name = NULL;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
        name = dwarf_formstring(&attribute);
    if (!name && dwarf_attr_integrate(die, DW_AT_name, &attribute))
        name = dwarf_formstring(&attribute);
    return name ? as_strings_add(strings, as_name_demangled(name, false, text, sizeof text), sizeof text) : 0;
}

// Compilers call a file as they were told to find it, from the directory in which they ran. (Where packages hide that directory, it is
// ".".)
static void set_file(struct as_code_place *place, Dwarf_Die *unit, const char *file, struct as_strings *strings)
{
    Dwarf_Attribute attribute;
    char path[LONGEST];
    const char *directory = file && file[0] != '/' && dwarf_attr_integrate(unit, DW_AT_comp_dir, &attribute)
                                ? dwarf_formstring(&attribute)
                                : NULL;
    if (directory && directory[0] == '/' && (size_t)snprintf(path, sizeof path, "%s/%s", directory, file) < sizeof path)
        file = path;
    place->file = file ? as_strings_add(strings, file, LONGEST) : 0;
}

// Where the code at the address was written.
static void set_line(struct as_code_place *place, Dwarf_Die *unit, uint64_t address, struct as_strings *strings)
{
    Dwarf_Line *line = dwarf_getsrc_die(unit, address);
    int number = 0;
    if (!line || dwarf_lineno(line, &number) != 0)
        return;
    place->line = number > 0 ? (uint32_t)number : 0;
    set_file(place, unit, dwarf_linesrc(line, NULL, NULL), strings);
}

// Where the call was that is inlined.
static void set_call(struct as_code_place *place, Dwarf_Die *unit, Dwarf_Die *inlined, struct as_strings *strings)
{
    Dwarf_Attribute attribute;
    Dwarf_Word line;
    Dwarf_Word index;
    Dwarf_Files *files;
    size_t count;
    if (dwarf_attr(inlined, DW_AT_call_line, &attribute) && dwarf_formudata(&attribute, &line) == 0 && line < INT32_MAX)
        place->line = (uint32_t)line;
    if (dwarf_attr(inlined, DW_AT_call_file, &attribute) && dwarf_formudata(&attribute, &index) == 0 &&
        dwarf_getsrcfiles(unit, &files, &count) == 0 && index < count)
        set_file(place, unit, dwarf_filesrc(files, index, NULL, NULL), strings);
}

bool as_source_lines_find(struct as_source_lines *l, uint64_t address, as_place_vec *places, struct as_strings *strings,
                          struct as_error *err)
{
    Dwarf_Die chain[MOST_INLINED];
    const struct as_lines_range *range = range_at(l->units.items, l->units.count, address);
    if (!range)
        return true;
    Dwarf_Die unit = die_of(range);
    const struct as_lines_unit *functions = functions_of(l, &unit, err);
    if (!functions)
        return false;
    range = range_at(l->functions.items + functions->first, functions->end - functions->first, address);
    if (!range)
        return true;
    chain[0] = die_of(range);
    size_t count = descend(l, address, chain);
    for (size_t i = count; i > 0; i--) {
        struct as_code_place *place = as_vec_add(places, err);
        if (!place)
            return false;
        *place = (struct as_code_place){.source = AS_PLACE_DEBUG_INFO, .inlined = i > 1};
        place->function = function_name(&chain[i - 1], strings);
        if (i == count)
            set_line(place, &unit, address, strings);
        else
            set_call(place, &unit, &chain[i], strings);
    }
    return true;
}

#else

bool as_source_lines_open(struct as_source_lines *l, const struct as_elf *file, const int *roots)
{
    (void)file;
    (void)roots;
    *l = (struct as_source_lines){0};
    return false;
}

void as_source_lines_close(struct as_source_lines *l)
{
    (void)l;
}

bool as_source_lines_find(struct as_source_lines *l, uint64_t address, as_place_vec *places, struct as_strings *strings,
                          struct as_error *err)
{
    (void)l;
    (void)address;
    (void)places;
    (void)strings;
    (void)err;
    return true;
}

#endif
