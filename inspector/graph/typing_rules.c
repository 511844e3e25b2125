// SPDX-License-Identifier: MIT
#include "graph/typing_rules.h"
#include "config.h"

#ifdef HAVE_LIBDW

#include "debuginfo/dwarf_slots.h"

enum {
    WORD = sizeof(uint64_t),
    SLACK = 31, // bytes that malloc may give beyond what was asked for: it rounds up, and splits off no less than 32
    SMALLEST_PAGE = 4096,
    SURE_ELEMENTS = AS_TYPING_ELEMENTS | AS_TYPING_MAP | AS_TYPING_TABLE, // which are in use is known
};

uint64_t as_typing_usable(const struct as_typing_rules *r, uint32_t node)
{
    uint64_t bytes = (uint64_t)as_typing_units(r->sizes, node) * AS_ALIGNMENT;
    return bytes > 0 ? bytes - WORD : 0;
}

// May malloc have given the chunk for so many bytes? One with a mapping of its own is rounded up to pages.
static bool fits_size(const struct as_typing_rules *r, uint32_t node, uint64_t bytes)
{
    uint64_t room = as_typing_usable(r, node);
    uint64_t slack = (room + WORD) % SMALLEST_PAGE == 0 ? SMALLEST_PAGE + SLACK : SLACK;
    return bytes <= room && room - bytes <= slack;
}

static bool is_scalar(const struct as_dwarf_type *type)
{
    return type->kind == AS_DWARF_BASE || type->kind == AS_DWARF_POINTER;
}

// Has the chunk a pointer where the type says there is none?
static bool contradicts(struct as_typing_rules *r, uint32_t node, uint32_t type)
{
    const struct as_edges *e = r->edges;
    struct as_dwarf_types *t = r->types;
    bool array = t->list.items[type].kind == AS_DWARF_ARRAY;
    uint32_t element = array ? t->list.items[type].of : type;
    uint64_t size = t->list.items[element].size;
    for (uint32_t i = as_edges_first(e, node); size >= WORD && i < as_edges_end(e, node); i = as_edge_next(e, i)) {
        uint32_t place = as_edge_place(e, i);
        uint64_t offset = array ? (uint64_t)place * WORD % size : (uint64_t)place * WORD;
        if (place < AS_PLACE_FAR && as_dwarf_slot(t, element, offset) == AS_SLOT_NUMBER)
            return true;
    }
    return false;
}

// A table of Rust's is proven by its own bytes. The type's size must be that of a bucket.
static uint32_t judge_table(struct as_typing_rules *r, uint32_t node, uint32_t type)
{
    struct as_buckets table = as_pattern_buckets(r->patterns, node);
    uint64_t size = as_dwarf_load(r->types, type)->size;
    bool fits = size > 0 && table.count > 0 && as_align_up(table.count * size, AS_ALIGNMENT) == table.before;
    return fits ? as_dwarf_array_of(r->types, type, 0) | AS_TYPING_TABLE : 0;
}

uint32_t as_typing_judge(struct as_typing_rules *r, uint32_t node, uint32_t type, uint32_t flags)
{
    if (flags & AS_SLOT_TABLE)
        return judge_table(r, node, type);
    struct as_dwarf_types *t = r->types;
    struct as_dwarf_type of = *as_dwarf_load(t, type);
    uint64_t room = as_typing_usable(r, node);
    if (of.kind == AS_DWARF_NONE || of.size == 0 || of.size > room)
        return 0;
    uint64_t hash = r->debug->scopes.items[of.scope].hash;
    bool elements = flags & AS_SLOT_ELEMENTS;
    const struct as_vtable *vtable = &r->vtables->list.items[as_vtable_of(r->vtables, node)];
    // A class of which others derive may be any of these: as large as fits, or known by the vtable alone.
    bool base = of.scope != 0 && !(flags & AS_SLOT_NODE) && !elements &&
                as_dwarf_is_base(r->debug, hash, of.virtual ? 0 : of.size, room);
    if (of.virtual && !vtable->proven)
        return 0;
    if (of.virtual || of.flexible || (of.size * 2 > room && !is_scalar(&of) && !elements)) {
        bool fit = fits_size(r, node, of.size) || (of.flexible && of.size <= room);
        return fit ? type | (base ? AS_TYPING_UNNAMED : 0) : base || vtable->proven ? type | AS_TYPING_UNNAMED : 0;
    }
    if (!fits_size(r, node, room / of.size * of.size))
        return base ? type | AS_TYPING_UNNAMED : 0;
    if (base)
        return type | AS_TYPING_UNNAMED;
    return as_dwarf_array_of(t, type, 0) | (elements ? AS_TYPING_ELEMENTS : flags & AS_SLOT_MAP ? AS_TYPING_MAP : 0);
}

bool as_typing_name_is_bytes(const struct as_dwarf_types *types, uint32_t type)
{
    const struct as_dwarf_type *of = &types->list.items[type];
    of = of->kind == AS_DWARF_ARRAY ? &types->list.items[of->of] : of;
    return of->kind == AS_DWARF_BASE && of->size == 1;
}

bool as_typing_is_more(struct as_typing_rules *r, uint32_t type, uint32_t part)
{
    struct as_dwarf_types *t = r->types;
    if (as_typing_name_is_bytes(r->types, part))
        return true;
    const struct as_dwarf_type *of = &t->list.items[part];
    return as_dwarf_begins_with(t, type, of->kind == AS_DWARF_ARRAY && of->count == 0 ? of->of : part);
}

// Is the element of a table in which a byte lies in use? *offset: of the byte, in the element.
static bool is_in_full_bucket(const struct as_typing_rules *r, uint32_t node, uint64_t size, uint64_t *offset)
{
    struct as_buckets table = as_pattern_buckets(r->patterns, node);
    uint64_t first = table.before - table.count * size, at = *offset - first;
    if (*offset < first || at / size >= table.count)
        return false;
    uint64_t bucket = table.count - 1 - at / size;
    *offset = at % size;
    return table.full[bucket / 64] >> bucket % 64 & 1;
}

struct as_typing_word as_typing_read(struct as_typing_rules *r, uint32_t node, uint32_t state, uint32_t i)
{
    struct as_dwarf_types *t = r->types;
    const struct as_dwarf_type *type = &t->list.items[state & AS_TYPING_TYPE];
    bool array = type->kind == AS_DWARF_ARRAY && type->count == 0;
    uint32_t element = array ? type->of : state & AS_TYPING_TYPE;
    uint64_t size = t->list.items[element].size, place = as_edge_place(r->edges, i);
    bool vector = state & AS_TYPING_ELEMENTS, table = state & AS_TYPING_TABLE, sure = state & SURE_ELEMENTS;
    struct as_typing_word w = {.rank = as_typing_rank_of(state) == AS_RANK_WEAK ? AS_RANK_WEAK : AS_RANK_SURE};
    // Far behind the beginning it is not known which word an edge is; but of an array of pointers all are alike.
    w.far = place == AS_PLACE_FAR && !(array && !vector && size == WORD);
    if (w.far)
        return w;
    uint64_t offset = array && !table ? place * WORD % size : place * WORD;
    w.used = size >= WORD && (!vector || place < as_pattern_used(r->patterns, node)) &&
             (!table || is_in_full_bucket(r, node, size, &offset));
    w.slot = w.used ? as_dwarf_slot(t, element, offset) : AS_SLOT_UNKNOWN;
    w.stale = (array && !sure) || w.slot & AS_SLOT_WEAK;
    w.rank = w.stale ? AS_RANK_WEAK : w.rank;
    return w;
}

bool as_typing_is_chain(const struct as_typing_rules *r, uint32_t node, uint32_t state, uint32_t i)
{
    const struct as_dwarf_type *type = &r->types->list.items[state & AS_TYPING_TYPE];
    uint32_t element = type->of, to = as_edge_to(r->edges, node, i);
    uint64_t offset = (uint64_t)as_edge_place(r->edges, i) * WORD;
    if (type->kind != AS_DWARF_ARRAY || type->count != 0 || state & SURE_ELEMENTS || !as_edge_begins(r->edges, i) ||
        offset >= r->types->list.items[element].size)
        return false;
    uint32_t slot = as_dwarf_slot(r->types, element, offset);
    return slot & AS_SLOT_POINTER && !(slot & AS_SLOT_WEAK) && (slot & AS_SLOT_TYPE) == element &&
           as_typing_units(r->sizes, to) == as_typing_units(r->sizes, node);
}

// The place from which on a chunk's words may lie behind what was asked for. The first word never does.
static uint64_t spare_from(const struct as_typing_rules *r, uint32_t node)
{
    uint64_t words = as_typing_usable(r, node) / WORD, spare = SLACK / WORD;
    return words > spare ? words - spare : 1;
}

bool as_typing_is_doubtful(struct as_typing_rules *r, uint32_t node, uint32_t state)
{
    const struct as_edges *e = r->edges;
    const struct as_dwarf_types *t = r->types;
    const struct as_dwarf_type *type = &t->list.items[state & AS_TYPING_TYPE];
    if (type->kind != AS_DWARF_ARRAY || type->count != 0 || state & SURE_ELEMENTS)
        return false;
    uint64_t spare = spare_from(r, node);
    AS_FOR_EDGES_WHILE(as_edge_place(e, i) < spare, e, node, i) {
        struct as_typing_word w = as_typing_read(r, node, state, i);
        uint32_t to = as_edge_to(e, node, i), before = r->of_node[to];
        if (w.slot == AS_SLOT_NUMBER)
            return true;
        if (!(w.slot & AS_SLOT_POINTER) || t->list.items[w.slot & AS_SLOT_TYPE & AS_TYPING_TYPE].kind == AS_DWARF_NONE)
            continue;
        uint32_t made =
            as_edge_begins(e, i) ? as_typing_judge(r, to, w.slot & AS_SLOT_TYPE & AS_TYPING_TYPE, w.slot) : 0;
        uint32_t new = made &AS_TYPING_TYPE, old = before &AS_TYPING_TYPE;
        if (made == 0 || contradicts(r, to, new) || before & AS_TYPING_BLOCKED ||
            (old != 0 && old != new && !as_typing_is_more(r, old, new) && !as_typing_is_more(r, new, old)))
            return true;
    }
    return false;
}

bool as_typing_is_plausible(struct as_typing_rules *r, uint32_t node, uint32_t state, bool stale)
{
    const struct as_edges *e = r->edges;
    const struct as_dwarf_types *t = r->types;
    const struct as_dwarf_type *type = &t->list.items[state & AS_TYPING_TYPE];
    bool pointers = as_edges_first(e, node) < as_edges_end(e, node);
    if (state & AS_TYPING_TABLE)
        return true;
    if (type->kind != AS_DWARF_ARRAY || type->count != 0 || !stale)
        return !contradicts(r, node, state & AS_TYPING_TYPE);
    const struct as_dwarf_type *element = &t->list.items[type->of];
    if (element->kind == AS_DWARF_POINTER)
        return pointers && !as_typing_is_doubtful(r, node, state);
    // Nearly any chunk has room for several of a struct.
    return element->kind == AS_DWARF_BASE && (element->size == 1 ? as_pattern_text(r->patterns, node) != 0 : !pointers);
}

#endif
