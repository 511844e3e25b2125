// SPDX-License-Identifier: MIT
// DWARF, through libdw: the compiler's own word on where things are. Reads one compilation unit, that of malloc.c.
#include "config.h"

#include "libc/debug_info.h"
#include "libc/layouts.h"
#include "libc/sources.h"

#ifdef HAVE_LIBDW

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stddef.h>
#include <string.h>

// So many bytes of debug information are read at most: more than twice what any libc has.
static const uint64_t MOST_BYTES = UINT64_C(64) << 20;
enum { MAX_UNITS = 64, MAX_UNITS_IN_ALL = 65536, MAX_DIES = 200000 };

// The kinds of thing that are searched for, as bits of what was found.
enum { STATE = 1, PAR = 2, HEAP_INFO = 4, TCACHE = 8, MAIN_ARENA = 16, MP = 32 };

struct dwarf_reading {
    struct as_answer *answer;
    unsigned found;
    unsigned dies; // inspected so far
};

struct member {
    const char *name;
    size_t slot; // offsetof in the layout's part, an int32_t
};

#define MEMBER(part, name, field)                                                                                      \
    {                                                                                                                  \
        name, offsetof(struct part, field)                                                                             \
    }
static const struct member state_members[] = {
    MEMBER(as_state_layout, "mutex", mutex),
    MEMBER(as_state_layout, "flags", flags),
    MEMBER(as_state_layout, "have_fastchunks", have_fastchunks),
    MEMBER(as_state_layout, "fastbinsY", fastbins),
    MEMBER(as_state_layout, "top", top),
    MEMBER(as_state_layout, "bins", bins),
    MEMBER(as_state_layout, "binmap", binmap),
    MEMBER(as_state_layout, "next", next),
    MEMBER(as_state_layout, "next_free", next_free),
    MEMBER(as_state_layout, "attached_threads", attached_threads),
    MEMBER(as_state_layout, "system_mem", system_mem),
    MEMBER(as_state_layout, "max_system_mem", max_system_mem),
};
static const struct member par_members[] = {
    MEMBER(as_par_layout, "trim_threshold", trim_threshold),
    MEMBER(as_par_layout, "top_pad", top_pad),
    MEMBER(as_par_layout, "mmap_threshold", mmap_threshold),
    MEMBER(as_par_layout, "arena_test", arena_test),
    MEMBER(as_par_layout, "arena_max", arena_max),
    MEMBER(as_par_layout, "thp_pagesize", thp_pagesize),
    MEMBER(as_par_layout, "hp_pagesize", hp_pagesize),
    MEMBER(as_par_layout, "n_mmaps", n_mmaps),
    MEMBER(as_par_layout, "n_mmaps_max", n_mmaps_max),
    MEMBER(as_par_layout, "no_dyn_threshold", no_dyn_threshold),
    MEMBER(as_par_layout, "mmapped_mem", mmapped_mem),
    MEMBER(as_par_layout, "sbrk_base", sbrk_base),
    MEMBER(as_par_layout, "tcache_bins", tcache_bins),
    MEMBER(as_par_layout, "tcache_small_bins", tcache_bins),
    MEMBER(as_par_layout, "tcache_max_bytes", tcache_max_bytes),
    MEMBER(as_par_layout, "tcache_count", tcache_count),
};

// The next DIE at that level, if there is one, and if not too many have been inspected: of a file that lies, levels overlap.
static bool go_on(struct dwarf_reading *reading, Dwarf_Die *die)
{
    return ++reading->dies <= MAX_DIES && dwarf_siblingof(die, die) == 0;
}

static bool read_size(Dwarf_Die *type, int32_t *size)
{
    Dwarf_Word bytes;
    if (dwarf_aggregate_size(type, &bytes) != 0 || bytes == 0 || bytes > 65536)
        return false;
    *size = (int32_t)bytes;
    return true;
}

// The offset of a struct's member in bytes; false for a bit-field or an expression, which none of ours is.
static bool member_offset(Dwarf_Die *member, int32_t *offset)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;
    if (!dwarf_attr(member, DW_AT_data_member_location, &attribute) || dwarf_formudata(&attribute, &value) != 0 ||
        value > 65536)
        return false;
    *offset = (int32_t)value;
    return true;
}

static Dwarf_Die *member_type(Dwarf_Die *member, Dwarf_Die *type)
{
    Dwarf_Attribute attribute;
    if (!dwarf_attr_integrate(member, DW_AT_type, &attribute) || !dwarf_formref_die(&attribute, type))
        return NULL;
    return dwarf_peel_type(type, type) == 0 ? type : NULL;
}

// The number of elements of an array and the size of one, bytes.
static bool read_array(Dwarf_Die *member, int32_t *count, int32_t *element)
{
    Dwarf_Die type;
    Dwarf_Die of;
    int32_t whole;
    return member_type(member, &type) && dwarf_tag(&type) == DW_TAG_array_type && read_size(&type, &whole) &&
           member_type(&type, &of) && read_size(&of, element) && (*count = whole / *element) > 0;
}

static void read_struct(struct dwarf_reading *reading, Dwarf_Die *type, const struct member *members, size_t count,
                        void *part)
{
    Dwarf_Die child;
    if (dwarf_child(type, &child) != 0)
        return;
    do {
        const char *name = dwarf_diename(&child);
        for (size_t i = 0; name && i < count; i++) {
            if (strcmp(name, members[i].name) == 0)
                member_offset(&child, (int32_t *)(void *)((char *)part + members[i].slot));
        }
    } while (go_on(reading, &child));
}

static bool find_member(struct dwarf_reading *reading, Dwarf_Die *type, const char *wanted, Dwarf_Die *member)
{
    if (dwarf_child(type, member) != 0)
        return false;
    do {
        const char *name = dwarf_diename(member);
        if (name && strcmp(name, wanted) == 0)
            return true;
    } while (go_on(reading, member));
    return false;
}

static void read_state(struct dwarf_reading *reading, Dwarf_Die *type)
{
    struct as_state_layout *state = &reading->answer->layout.state;
    Dwarf_Die fastbins;
    int32_t element;
    if (!read_size(type, &state->size))
        return;
    read_struct(reading, type, state_members, sizeof state_members / sizeof *state_members, state);
    if (find_member(reading, type, "fastbinsY", &fastbins))
        read_array(&fastbins, &state->fastbin_count, &element);
    bool whole = state->flags != AS_NONE && state->top != AS_NONE && state->bins != AS_NONE &&
                 state->binmap != AS_NONE && state->next != AS_NONE && state->system_mem != AS_NONE &&
                 (state->fastbins == AS_NONE) == (state->fastbin_count == 0);
    reading->found |= whole ? STATE : 0;
}

static void read_par(struct dwarf_reading *reading, Dwarf_Die *type)
{
    struct as_par_layout *par = &reading->answer->layout.par;
    if (!read_size(type, &par->size))
        return;
    read_struct(reading, type, par_members, sizeof par_members / sizeof *par_members, par);
    bool whole = par->trim_threshold != AS_NONE && par->mmap_threshold != AS_NONE && par->n_mmaps != AS_NONE &&
                 par->mmapped_mem != AS_NONE && par->sbrk_base != AS_NONE;
    reading->answer->has_tcache = par->tcache_count != AS_NONE;
    reading->found |= whole ? PAR : 0;
}

static void read_heap_info(struct dwarf_reading *reading, Dwarf_Die *type)
{
    struct as_heap_layout *heap = &reading->answer->layout.heap;
    Dwarf_Die pagesize;
    if (!read_size(type, &heap->heap_info_size))
        return;
    if (find_member(reading, type, "pagesize", &pagesize))
        member_offset(&pagesize, &heap->heap_pagesize);
    reading->found |= HEAP_INFO;
}

static void read_tcache(struct dwarf_reading *reading, Dwarf_Die *type)
{
    struct as_heap_layout *heap = &reading->answer->layout.heap;
    Dwarf_Die counts;
    Dwarf_Die entries;
    heap->tcache_counts_down = find_member(reading, type, "num_slots", &counts);
    if ((heap->tcache_counts_down || find_member(reading, type, "counts", &counts)) &&
        find_member(reading, type, "entries", &entries) && read_size(type, &heap->tcache_size) &&
        read_array(&counts, &heap->tcache_bins, &heap->tcache_count_size) &&
        member_offset(&entries, &heap->tcache_entries))
        reading->found |= TCACHE;
}

// A variable's place: its address, or (thread-local) its offset in the TLS block.
static bool read_place(Dwarf_Die *variable, bool thread_local, uint64_t *place)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    if (!dwarf_attr_integrate(variable, DW_AT_location, &attribute) || dwarf_getlocation(&attribute, &ops, &count) != 0)
        return false;
    if (!thread_local && count == 1 && ops[0].atom == DW_OP_addr) {
        *place = ops[0].number;
        return true;
    }
    if (thread_local && count == 2 && (ops[0].atom == DW_OP_const8u || ops[0].atom == DW_OP_const4u) &&
        (ops[1].atom == DW_OP_GNU_push_tls_address || ops[1].atom == DW_OP_form_tls_address)) {
        *place = ops[0].number;
        return true;
    }
    return false;
}

static void read_die(struct dwarf_reading *reading, Dwarf_Die *die)
{
    int tag = dwarf_tag(die);
    const char *name = tag == DW_TAG_structure_type || tag == DW_TAG_variable ? dwarf_diename(die) : NULL;
    if (!name)
        return;
    if (tag == DW_TAG_structure_type) {
        if (dwarf_hasattr(die, DW_AT_declaration))
            return;
        if (strcmp(name, "malloc_state") == 0)
            read_state(reading, die);
        else if (strcmp(name, "malloc_par") == 0)
            read_par(reading, die);
        else if (strcmp(name, "_heap_info") == 0)
            read_heap_info(reading, die);
        else if (strcmp(name, "tcache_perthread_struct") == 0)
            read_tcache(reading, die);
        return;
    }
    if (strcmp(name, "main_arena") == 0 && read_place(die, false, &reading->answer->main_arena))
        reading->found |= MAIN_ARENA;
    else if (strcmp(name, "mp_") == 0 && read_place(die, false, &reading->answer->mp))
        reading->found |= MP;
    else if (strcmp(name, "tcache") == 0)
        read_place(die, true, &reading->answer->tcache);
    else if (strcmp(name, "thread_arena") == 0)
        read_place(die, true, &reading->answer->thread_arena);
}

// The top level of a unit, and of the partial units that it imports (dwz moves shared types there).
static void read_unit(struct dwarf_reading *reading, const Dwarf_Die *unit)
{
    Dwarf_Die units[MAX_UNITS] = {*unit};
    size_t count = 1;
    for (size_t i = 0; i < count; i++) {
        Dwarf_Die die;
        if (dwarf_child(&units[i], &die) != 0)
            continue;
        do {
            Dwarf_Attribute import;
            if (dwarf_tag(&die) != DW_TAG_imported_unit)
                read_die(reading, &die);
            else if (count < MAX_UNITS && dwarf_attr(&die, DW_AT_import, &import) &&
                     dwarf_formref_die(&import, &units[count]))
                count++;
        } while (go_on(reading, &die));
    }
}

static bool is_malloc_unit(Dwarf_Die *unit)
{
    const char *name = dwarf_diename(unit);
    const char *base = name ? strrchr(name, '/') : NULL;
    base = base ? base + 1 : name;
    return base && (strcmp(base, "malloc.c") == 0 || strcmp(base, "malloc-debug.c") == 0);
}

// malloc's address leads to its unit through .debug_aranges, without a snapshot of the other 1,700.
static bool unit_by_address(Dwarf *dwarf, const struct as_elf *elf, Dwarf_Die *unit)
{
    Elf64_Sym symbol;
    return as_elf_dynamic_symbol(elf, "malloc_trim", &symbol) && dwarf_addrdie(dwarf, symbol.st_value, unit) &&
           is_malloc_unit(unit);
}

// Is all of it here? libdw opens other files by names that a unit has (DW_AT_dwo_name), and a target's may lead anywhere.
static bool is_whole(Dwarf *dwarf)
{
    Dwarf_CU *unit = NULL;
    uint8_t type = 0;
    int more = 0;
    for (int i = 0; i < MAX_UNITS_IN_ALL; i++) {
        more = dwarf_get_units(dwarf, unit, &unit, NULL, &type, NULL, NULL);
        if (more != 0 || type == DW_UT_skeleton)
            break;
    }
    return more == 1; // came to the end
}

static bool unit_by_name(Dwarf *dwarf, Dwarf_Die *unit)
{
    Dwarf_Off offset = 0;
    Dwarf_Off next;
    size_t header;
    while (dwarf_nextcu(dwarf, offset, &next, &header, NULL, NULL, NULL) == 0) {
        if (dwarf_offdie(dwarf, offset + header, unit) && is_malloc_unit(unit))
            return true;
        offset = next;
    }
    return false;
}

// The rules that no struct shows come from the row that DWARF's structs agree with, as for every other source.
static void complete_layout(struct as_object *object, struct as_answer *answer)
{
    struct as_layout said = answer->layout;
    uint32_t rows =
        as_layout_rows_with_state_size((uint64_t)said.state.size) & as_layout_rows_with_next((uint64_t)said.state.next);
    uint32_t heap_info = as_layout_rows_with_heap_info((uint64_t)said.heap.heap_info_size);
    for (unsigned i = 0; i < AS_LAYOUT_ROWS; i++) {
        if (said.heap.tcache_size && as_layout_row(i)->heap.tcache_size != said.heap.tcache_size)
            heap_info &= ~(1u << i);
    }
    enum as_layout_source source = answer->source;
    answer->source = AS_LAYOUT_NONE; // compose as for a source without a layout of its own
    answer->state_rows = rows ? rows : AS_LAYOUT_ALL_ROWS;
    answer->par_rows = 0;
    as_object_compose(as_object_banner(object), &heap_info, 1, answer);
    answer->source = source;
    struct as_layout *out = &answer->layout;
    said.heap.safe_linking = out->heap.safe_linking;
    said.heap.mmap_extra = out->heap.mmap_extra;
    bool same = memcmp(&said.state, &out->state, sizeof said.state) == 0;
    said.versions = same ? out->versions : "no row of the table";
    said.source = same ? "DWARF; the table agrees" : "DWARF; the table has no such row";
    *out = said;
}

static bool read_dwarf(struct as_object *object, Dwarf *dwarf, struct as_answer *answer)
{
    memset(&answer->layout.state, 0xff, sizeof answer->layout.state); // AS_NONE in every field
    memset(&answer->layout.par, 0xff, sizeof answer->layout.par);
    answer->layout.state.fastbin_count = 0;
    answer->layout.heap = (struct as_heap_layout){.heap_pagesize = AS_NONE};
    struct dwarf_reading reading = {.answer = answer};
    Dwarf_Die unit;
    if (unit_by_address(dwarf, object->elf, &unit) || unit_by_name(dwarf, &unit))
        read_unit(&reading, &unit);
    unsigned needed = STATE | PAR | HEAP_INFO | MAIN_ARENA | MP | (answer->has_tcache ? TCACHE : 0);
    return (reading.found & needed) == needed;
}

// Where the debug information is: in the debug file, or in the object that was never stripped.
static const struct as_elf *find_file(struct as_object *object, const struct as_answer *answer)
{
    if (object->debug.fd >= 0)
        return &object->debug;
    // A program's may be of any size, so its names are asked first whether there is a malloc in it at all.
    struct as_answer named = *answer;
    return object->elf->fd >= 0 && as_source_symtab(object, &named) ? object->elf : NULL;
}

bool as_source_dwarf(struct as_object *object, struct as_answer *answer)
{
    struct as_debug_info info = {0};
    const struct as_elf *file = find_file(object, answer);
    bool ok = file &&
              as_debug_info_open(&info, file, MOST_BYTES, NULL, false, object->left_out, sizeof object->left_out) &&
              is_whole(info.dwarf) && read_dwarf(object, info.dwarf, answer);
    as_debug_info_close(&info);
    if (!ok)
        return false;
    if (!answer->has_tcache)
        as_layout_without_tcache(&answer->layout);
    complete_layout(object, answer);
    return true;
}

#endif
