// SPDX-License-Identifier: MIT
#include "debuginfo/dwarf_slots.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    LARGEST = 1 << 15,    // bytes of a type whose slots are kept; of a larger one each is looked up
    MOST_SLOTS = 1 << 24, // of all types
    MOST_STEPS = 1 << 20, // for the slots of one type, and for a path
    DEEPEST = 32,
    MOST_NODES = 4, // types of nodes that a container's base classes tell of
};

// The structs that a word lies in, while slots are filled in.
struct frame {
    const struct frame *above;
    uint32_t nodes[MOST_NODES]; // the types of which a container here makes its nodes
    unsigned count;
    uint32_t flags;    // of the pointers in a std::vector or std::deque
    uint32_t elements; // of a Vec or a hash table of Rust's, which have a pointer to bytes; 0: it is none
    bool table;        // it is a hash table
};

struct filling {
    struct as_dwarf_types *types;
    uint32_t *slots;
    uint64_t count, steps;
};

static const char *own_name(const struct as_dwarf_types *t, uint32_t type)
{
    const char *name = t->index->scopes.items[t->list.items[type].scope].name;
    return name ? name : "";
}

// Is it a class of the standard library?
static bool is_library(const struct as_dwarf_types *t, uint32_t type, const char *space, const char *name)
{
    const struct as_scope *s = &t->index->scopes.items[t->list.items[type].scope];
    for (int i = 0; i < DEEPEST && s->parent != 0; i++)
        s = &t->index->scopes.items[s->parent];
    return strncmp(own_name(t, type), name, strlen(name)) == 0 && s->name && strcmp(s->name, space) == 0;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEEPEST
static bool begins_with(struct as_dwarf_types *t, uint32_t type, uint32_t part, unsigned depth)
{
    const struct as_dwarf_type of = *as_dwarf_load(t, type); // what is loaded next may move the list
    uint32_t first = of.first, end = of.first + of.members;
    if (of.kind == AS_DWARF_ARRAY && depth < DEEPEST)
        return of.of == part || begins_with(t, of.of, part, depth + 1);
    for (uint32_t i = first; of.kind == AS_DWARF_AGGREGATE && depth < DEEPEST && i < end; i++) {
        struct as_dwarf_member m = t->members.items[i];
        if (m.offset == 0 && !m.variant && (m.type == part || begins_with(t, m.type, part, depth + 1)))
            return true;
        if (m.offset > 0)
            break;
    }
    return false;
}

bool as_dwarf_begins_with(struct as_dwarf_types *t, uint32_t type, uint32_t part)
{
    return begins_with(t, type, part, 0);
}

// Containers of the standard library know their nodes by a base class of these alone. But they derive from an allocator of the
// true type. Adds the types that the allocators among the base classes are for.
// NOLINTNEXTLINE(misc-no-recursion): no deeper than 4
static void find_nodes(struct as_dwarf_types *t, uint32_t type, struct frame *f, unsigned depth)
{
    const struct as_dwarf_type *of = as_dwarf_load(t, type);
    for (uint32_t i = of->first, end = of->first + of->members; depth < 4 && i < end; i++) {
        struct as_dwarf_member m = t->members.items[i];
        if (!m.base)
            continue;
        const struct as_dwarf_type *base = as_dwarf_load(t, m.type);
        const char *name = own_name(t, m.type), *end_of_name = strchr(name, '<');
        const char *word = strstr(name, "alloc");
        word = word ? word : strstr(name, "Alloc");
        uint32_t node = base->parameter;
        // From gcc 16 on it has the allocator as a member, of which gcc leaves the parameter out; but the allocator's base has one.
        if (is_library(t, m.type, "std", "_Hashtable_alloc<"))
            find_nodes(t, node, f, depth + 1);
        if (word && end_of_name && word < end_of_name && f->count < MOST_NODES &&
            t->list.items[node].kind == AS_DWARF_AGGREGATE)
            f->nodes[f->count++] = node;
        find_nodes(t, m.type, f, depth + 1);
    }
}

// The type of a container's nodes, of which `declared` is the base class; 0: it is no container.
static uint32_t node_of(struct as_dwarf_types *t, const struct frame *f, uint32_t declared)
{
    for (; f; f = f->above)
        for (unsigned i = 0; i < f->count; i++)
            if (f->nodes[i] != declared && as_dwarf_begins_with(t, f->nodes[i], declared))
                return f->nodes[i];
    return 0;
}

static uint32_t pointer_slot(struct as_dwarf_types *t, const struct frame *f, uint32_t type, uint32_t flags)
{
    uint32_t to = t->list.items[type].of;
    uint32_t node = t->list.items[to].kind == AS_DWARF_AGGREGATE ? node_of(t, f, to) : 0;
    for (const struct frame *up = f; up && t->list.items[to].kind == AS_DWARF_BASE; up = up->above) {
        to = up->elements != 0 ? up->elements : to;
        flags |= up->table ? AS_SLOT_TABLE : 0;
    }
    bool map = t->list.items[to].kind == AS_DWARF_POINTER;
    uint32_t container = f && (f->flags == AS_SLOT_ELEMENTS || map) ? f->flags : 0;
    if (node != 0 && !t->list.items[node].node) {
        t->list.items[node].node = true;
        t->list.items[node].slots = 0; // its own pointers are to its like
    }
    return AS_SLOT_POINTER | flags | (node != 0 ? AS_SLOT_NODE | node : to) | container;
}

// What two members that lie in the same place make of a word.
static uint32_t join_slots(uint32_t before, uint32_t slot)
{
    if (!(before & AS_SLOT_POINTER) || !(slot & AS_SLOT_POINTER))
        return before & AS_SLOT_POINTER ? before | AS_SLOT_WEAK : slot & AS_SLOT_POINTER ? slot : before | slot;
    bool same = (before & AS_SLOT_TYPE) == (slot & AS_SLOT_TYPE);
    return same ? before | slot : AS_SLOT_POINTER | AS_SLOT_WEAK; // to nothing that is known
}

static void fill_slots(struct filling *g, const struct frame *above, uint32_t type, uint64_t at, uint32_t flags,
                       unsigned depth);

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEEPEST
static void fill_members(struct filling *g, const struct frame *above, uint32_t type, uint64_t at, uint32_t flags,
                         unsigned depth)
{
    struct as_dwarf_types *t = g->types;
    struct as_dwarf_type of = *as_dwarf_load(t, type);
    struct frame f = {.above = above};
    f.flags = is_library(t, type, "std", "_Vector_impl")  ? AS_SLOT_ELEMENTS
              : is_library(t, type, "std", "_Deque_impl") ? AS_SLOT_MAP
                                                          : 0;
    // Room for an object, not yet made or made by now, is an array of bytes.
    bool room =
        is_library(t, type, "__gnu_cxx", "__aligned_membuf<") || is_library(t, type, "__gnu_cxx", "__aligned_buffer<");
    if (room && t->list.items[of.parameter].size <= of.size) {
        fill_slots(g, above, of.parameter, at, flags, depth + 1);
        return;
    }
    f.table = is_library(t, type, "hashbrown", "RawTable<");
    f.elements = f.table || is_library(t, type, "alloc", "RawVec<") ? of.parameter : 0;
    find_nodes(t, type, &f, 0);
    if (of.node && above == NULL) {
        f.nodes[0] = type;
        f.count = 1;
    }
    for (uint32_t i = of.first; i < of.first + of.members; i++) {
        struct as_dwarf_member m = t->members.items[i];
        bool shared = of.kind == AS_DWARF_UNION || m.variant;
        fill_slots(g, &f, m.type, at + m.offset, flags | (shared ? AS_SLOT_WEAK : 0), depth + 1);
    }
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEEPEST
static void fill_slots(struct filling *g, const struct frame *above, uint32_t type, uint64_t at, uint32_t flags,
                       unsigned depth)
{
    struct as_dwarf_type of = g->types->list.items[type];
    if (++g->steps > MOST_STEPS || depth > DEEPEST || at / WORD >= g->count)
        return;
    uint32_t *slot = &g->slots[at / WORD];
    switch (of.kind) {
    case AS_DWARF_POINTER:
        if (at % WORD == 0)
            *slot = join_slots(*slot, pointer_slot(g->types, above, type, flags));
        break;
    case AS_DWARF_BASE:
        if (of.size == WORD && of.real)
            *slot = join_slots(*slot, AS_SLOT_NUMBER);
        else if (of.size == WORD / 2)
            *slot = join_slots(*slot, at % WORD == 0 ? AS_SLOT_LOW : AS_SLOT_HIGH);
        break;
    case AS_DWARF_AGGREGATE:
    case AS_DWARF_UNION:
        fill_members(g, above, type, at, flags, depth);
        break;
    case AS_DWARF_ARRAY:
        for (uint64_t i = 0, size = g->types->list.items[of.of].size; size > 0 && i < of.count && at / WORD < g->count;
             i++, at += size)
            fill_slots(g, above, of.of, at, flags | AS_SLOT_WEAK, depth + 1);
        break;
    default:
        break;
    }
}

static uint32_t kept_slot(struct as_dwarf_types *t, uint32_t type, uint64_t place)
{
    uint64_t count = (t->list.items[type].size + WORD - 1) / WORD;
    if (t->list.items[type].slots == 0) {
        if (t->slots.count + count > MOST_SLOTS || !as_vec_reserve(&t->slots, count, NULL))
            return AS_SLOT_UNKNOWN;
        uint32_t first = (uint32_t)t->slots.count;
        t->slots.count += count;
        struct filling g = {.types = t, .slots = t->slots.items + first, .count = count};
        memset(g.slots, 0, count * sizeof *g.slots);
        fill_slots(&g, NULL, type, 0, 0, 0);
        t->list.items[type].slots = first;
    }
    return t->slots.items[t->list.items[type].slots + place];
}

static bool holds(const struct as_dwarf_types *t, const struct as_dwarf_member *m, uint64_t offset)
{
    return offset >= m->offset && offset - m->offset < t->list.items[m->type].size;
}

// The largest member in which an offset lies; NULL: none does.
static const struct as_dwarf_member *member_at(struct as_dwarf_types *t, uint32_t type, uint64_t offset)
{
    const struct as_dwarf_type *of = as_dwarf_load(t, type);
    const struct as_dwarf_member *found = NULL;
    for (uint32_t i = of->first; i < of->first + of->members; i++) {
        const struct as_dwarf_member *m = &t->members.items[i];
        if (holds(t, m, offset) && (!found || t->list.items[found->type].size < t->list.items[m->type].size))
            found = m;
    }
    return found;
}

uint32_t as_dwarf_slot(struct as_dwarf_types *t, uint32_t type, uint64_t offset)
{
    for (int i = 0; i < DEEPEST; i++) {
        struct as_dwarf_type of = t->list.items[type];
        if (offset >= of.size || offset % WORD != 0 || type == 0)
            return AS_SLOT_UNKNOWN;
        if (of.size <= LARGEST)
            return kept_slot(t, type, offset / WORD);
        const struct as_dwarf_member *m = of.kind == AS_DWARF_AGGREGATE ? member_at(t, type, offset) : NULL;
        uint64_t element = of.kind == AS_DWARF_ARRAY ? t->list.items[of.of].size : 0;
        if (!m && element == 0)
            return AS_SLOT_UNKNOWN;
        type = m ? m->type : of.of;
        offset = m ? offset - m->offset : offset % element;
    }
    return AS_SLOT_UNKNOWN;
}

static void append_text(char *text, size_t size, const char *part)
{
    size_t length = strlen(text);
    size_t more = strnlen(part, size - length - 1);
    memcpy(text + length, part, more);
    text[length + more] = '\0';
}

struct path {
    struct as_dwarf_types *types;
    char *text;
    size_t size;
    unsigned steps;
};

// NOLINTNEXTLINE(misc-no-recursion): no deeper than DEEPEST
static bool follow_member(struct path *p, uint32_t type, uint64_t offset, unsigned depth)
{
    struct as_dwarf_types *t = p->types;
    struct as_dwarf_type of = *as_dwarf_load(t, type);
    size_t length = strlen(p->text);
    if (depth > DEEPEST || ++p->steps > MOST_STEPS)
        return false;
    if (of.kind == AS_DWARF_POINTER || of.kind == AS_DWARF_BASE)
        return offset % WORD == 0 && of.size == WORD;
    if (of.kind == AS_DWARF_ARRAY) {
        append_text(p->text, p->size, "[]");
        if (t->list.items[of.of].size > 0 && follow_member(p, of.of, offset % t->list.items[of.of].size, depth + 1))
            return true;
    }
    if (type != 0 && is_library(t, type, "__gnu_cxx", "__aligned_") &&
        follow_member(p, of.parameter, offset, depth + 1))
        return true;
    for (uint32_t i = of.first; of.kind != AS_DWARF_ARRAY && i < of.first + of.members; i++) {
        struct as_dwarf_member m = t->members.items[i];
        p->text[length] = '\0';
        if (m.name != 0) {
            append_text(p->text, p->size, ".");
            append_text(p->text, p->size, as_strings_at(&t->names, m.name));
        }
        if (holds(t, &m, offset) && follow_member(p, m.type, offset - m.offset, depth + 1))
            return true;
    }
    p->text[length] = '\0';
    return false;
}

// NOLINTNEXTLINE(readability-non-const-parameter): written through the struct
bool as_dwarf_path(struct as_dwarf_types *t, uint32_t type, uint64_t offset, char *text, size_t size)
{
    struct path p = {.types = t, .text = text, .size = size};
    return follow_member(&p, type, offset, 0);
}
