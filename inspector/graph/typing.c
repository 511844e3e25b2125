// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "graph/typing.h"
#include "config.h"

#ifdef HAVE_LIBDW

#include "base/memory.h"
#include "graph/dwarf_names.h"
#include "graph/dwarf_slots.h"
#include "graph/names.h"
#include "libc/sources.h"
#include "target/process/procfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// How sure a type is. What a weak word leads to may have become something else since.
enum rank { RANK_NONE, RANK_WEAK, RANK_NODE, RANK_SURE };

enum {
    WORD = sizeof(uint64_t),
    SLACK = 31, // bytes that malloc may give beyond what was asked for: it rounds up, and splits off no less than 32
    SMALLEST_PAGE = 4096,
    MOST_ROUNDS = 8,
    LONGEST_NAME = 4096,
};
static const uint64_t MOST_BYTES = UINT64_C(512) << 20, MOST_BYTES_IN_ALL = UINT64_C(1) << 30;

struct spread {
    struct as_typing *typing;
    const struct as_typing_input *in;
    struct as_error *err;
    uint32_t *units;            // of each node: its size, in 16 bytes
    AS_VEC(uint32_t) queues[2]; // nodes whose edges are to be followed: those that are sure, and the weak ones
    uint32_t *classes;          // of each vtable: its class's type
    uint64_t steps, most_steps;
    bool weak; // all that is sure is known
    bool conflicts, failed;
};

static uint64_t usable(const struct spread *s, uint32_t node)
{
    return (uint64_t)s->units[node] * AS_ALIGNMENT - WORD;
}

// May malloc have given the chunk for so many bytes? One with a mapping of its own is rounded up to pages.
static bool fits(const struct spread *s, uint32_t node, uint64_t bytes)
{
    uint64_t room = usable(s, node);
    uint64_t slack = (room + WORD) % SMALLEST_PAGE == 0 ? SMALLEST_PAGE + SLACK : SLACK;
    return bytes <= room && room - bytes <= slack;
}

static bool is_scalar(const struct as_dwarf_type *type)
{
    return type->kind == AS_DWARF_BASE || type->kind == AS_DWARF_POINTER;
}

// Has the chunk a pointer where the type says there is none?
static bool contradicts(struct spread *s, uint32_t node, uint32_t type)
{
    const struct as_edges *e = s->in->edges;
    struct as_dwarf_types *t = &s->typing->types;
    bool array = t->list.items[type].kind == AS_DWARF_ARRAY;
    uint32_t element = array ? t->list.items[type].of : type;
    uint64_t size = t->list.items[element].size;
    for (uint32_t i = e->first[node]; size >= WORD && i < e->first[node + 1]; i++) {
        uint32_t place = as_edge_place(e, i);
        uint64_t offset = array ? (uint64_t)place * WORD % size : (uint64_t)place * WORD;
        if (place < AS_PLACE_FAR && as_dwarf_slot(t, element, offset) == AS_SLOT_NUMBER)
            return true;
    }
    return false;
}

// The state of a node if a pointer to `type` leads to it; 0: it cannot be that.
static uint32_t judge(struct spread *s, uint32_t node, uint32_t type, uint32_t flags)
{
    struct as_dwarf_types *t = &s->typing->types;
    struct as_dwarf_type of = *as_dwarf_load(t, type);
    uint64_t room = usable(s, node);
    if (of.kind == AS_DWARF_NONE || of.size == 0 || of.size > room)
        return 0;
    uint64_t hash = s->typing->debug.scopes.items[of.scope].hash;
    bool elements = flags & AS_SLOT_ELEMENTS;
    const struct as_vtable *vtable = &s->in->vtables->list.items[s->in->vtables->of_node[node]];
    // A class of which others derive may be any of these: as large as fits, or known by the vtable alone.
    bool base = of.scope != 0 && !(flags & AS_SLOT_NODE) && !elements &&
                as_dwarf_is_base(&s->typing->debug, hash, of.virtual ? 0 : of.size, room);
    if (of.virtual && !vtable->proven)
        return 0;
    if (of.virtual || of.flexible || (of.size * 2 > room && !is_scalar(&of) && !elements)) {
        bool fit = fits(s, node, of.size) || (of.flexible && of.size <= room);
        return fit ? type | (base ? AS_TYPING_UNNAMED : 0) : base || vtable->proven ? type | AS_TYPING_UNNAMED : 0;
    }
    if (!fits(s, node, room / of.size * of.size))
        return base ? type | AS_TYPING_UNNAMED : 0;
    if (base)
        return type | AS_TYPING_UNNAMED;
    return as_dwarf_array_of(t, type, 0) | (elements ? AS_TYPING_ELEMENTS : flags & AS_SLOT_MAP ? AS_TYPING_MAP : 0);
}

bool as_typing_is_bytes(const struct as_typing *y, uint32_t type)
{
    const struct as_dwarf_type *of = &y->types.list.items[type];
    of = of->kind == AS_DWARF_ARRAY ? &y->types.list.items[of->of] : of;
    return of->kind == AS_DWARF_BASE && of->size == 1;
}

static void push(struct spread *s, uint32_t node, enum rank rank)
{
    uint32_t *added = as_vec_add(&s->queues[rank == RANK_WEAK], s->err);
    if (added)
        *added = node;
    s->failed = s->failed || !added;
}

static void set(struct spread *s, uint32_t node, uint32_t state, enum rank rank)
{
    s->typing->of_node[node] = state | (uint32_t)rank << AS_TYPING_RANK_SHIFT;
    push(s, node, rank);
}

// Does a chunk's type say more than another that it begins with? Then both are right.
static bool is_more(struct spread *s, uint32_t type, uint32_t part)
{
    struct as_dwarf_types *t = &s->typing->types;
    if (as_typing_is_bytes(s->typing, part))
        return true;
    const struct as_dwarf_type *of = &t->list.items[part];
    return as_dwarf_begins_with(t, type, of->kind == AS_DWARF_ARRAY && of->count == 0 ? of->of : part);
}

// A pointer gives a node another type than it has.
static void settle(struct spread *s, uint32_t node, uint32_t state, enum rank rank)
{
    uint32_t before = s->typing->of_node[node];
    enum rank held = (enum rank)(before >> AS_TYPING_RANK_SHIFT & 3);
    uint32_t type = state & AS_TYPING_TYPE, old = before & AS_TYPING_TYPE;
    if (type == old) {
        if (rank > held)
            set(s, node, before & state & AS_TYPING_UNNAMED ? state : type, rank);
        return;
    }
    if (is_more(s, old, type))
        return;
    if (is_more(s, type, old)) {
        if (rank >= RANK_NODE || held == RANK_WEAK)
            set(s, node, state, rank > held ? rank : held);
        return;
    }
    if (rank > held) {
        set(s, node, state, rank);
    } else if (rank == held) {
        s->typing->of_node[node] = AS_TYPING_BLOCKED;
        s->conflicts = true;
    }
}

// The word of a chunk from which an edge comes.
struct word {
    uint32_t slot;  // what its type says of it
    enum rank rank; // how sure that is
    bool used;      // it belongs to the object
    bool stale;     // or may be left over there
};

static enum rank rank_of(uint32_t state)
{
    return (enum rank)(state >> AS_TYPING_RANK_SHIFT & 3);
}

// How sure is what edge `i` of a node of that state leads to?
static struct word look_at(struct spread *s, uint32_t node, uint32_t state, uint32_t i)
{
    struct as_dwarf_types *t = &s->typing->types;
    const struct as_dwarf_type *type = &t->list.items[state & AS_TYPING_TYPE];
    bool array = type->kind == AS_DWARF_ARRAY && type->count == 0;
    uint32_t element = array ? type->of : state & AS_TYPING_TYPE;
    uint64_t size = t->list.items[element].size, place = as_edge_place(s->in->edges, i);
    bool vector = state & AS_TYPING_ELEMENTS, sure = state & (AS_TYPING_ELEMENTS | AS_TYPING_MAP);
    struct word w = {.rank = rank_of(state) == RANK_WEAK ? RANK_WEAK : RANK_SURE};
    // Far behind the beginning it is not known which word an edge is; but of an array of pointers all are alike.
    if (place == AS_PLACE_FAR && !(array && !vector && size == WORD))
        return w;
    w.used = size >= WORD && (!vector || place < s->in->patterns->used[node]);
    w.slot = w.used ? as_dwarf_slot(t, element, array ? place * WORD % size : place * WORD) : AS_SLOT_UNKNOWN;
    w.stale = (array && !sure) || w.slot & AS_SLOT_WEAK;
    w.rank = w.stale ? RANK_WEAK : w.rank;
    return w;
}

// An array may be larger than what is in use of it, and the rest is what lay there before. If any of its words leads to what it cannot
// lead to, nobody knows which are in use.
static bool is_doubtful(struct spread *s, uint32_t node, uint32_t state)
{
    const struct as_edges *e = s->in->edges;
    const struct as_dwarf_types *t = &s->typing->types;
    const struct as_dwarf_type *type = &t->list.items[state & AS_TYPING_TYPE];
    if (type->kind != AS_DWARF_ARRAY || type->count != 0 || state & (AS_TYPING_ELEMENTS | AS_TYPING_MAP))
        return false;
    for (uint32_t i = e->first[node]; i < e->first[node + 1]; i++) {
        struct word w = look_at(s, node, state, i);
        uint32_t to = e->to.items[i], before = s->typing->of_node[to];
        if (w.slot == AS_SLOT_NUMBER)
            return true;
        if (!(w.slot & AS_SLOT_POINTER) || t->list.items[w.slot & AS_SLOT_TYPE & AS_TYPING_TYPE].kind == AS_DWARF_NONE)
            continue;
        uint32_t made = as_edge_begins(e, i) ? judge(s, to, w.slot & AS_SLOT_TYPE & AS_TYPING_TYPE, w.slot) : 0;
        uint32_t new = made &AS_TYPING_TYPE, old = before &AS_TYPING_TYPE;
        if (made == 0 || contradicts(s, to, new) || before & AS_TYPING_BLOCKED ||
            (old != 0 && old != new && !is_more(s, old, new) && !is_more(s, new, old)))
            return true;
    }
    return false;
}

// Does a chunk look like what a word leads to that may be out of use, or lies in such an object?
static bool is_plausible(struct spread *s, uint32_t node, uint32_t state, bool stale)
{
    const struct as_edges *e = s->in->edges;
    const struct as_dwarf_types *t = &s->typing->types;
    const struct as_dwarf_type *type = &t->list.items[state & AS_TYPING_TYPE];
    bool pointers = e->first[node] < e->first[node + 1];
    if (type->kind != AS_DWARF_ARRAY || type->count != 0 || !stale)
        return !contradicts(s, node, state & AS_TYPING_TYPE);
    const struct as_dwarf_type *element = &t->list.items[type->of];
    if (element->kind == AS_DWARF_POINTER)
        return pointers && !is_doubtful(s, node, state);
    // Nearly any chunk has room for several of a struct.
    return element->kind == AS_DWARF_BASE && (element->size == 1 ? s->in->patterns->text[node] != 0 : !pointers);
}

// A word that is known to be a pointer leads to the beginning of a node.
static void offer(struct spread *s, uint32_t node, uint32_t slot, enum rank rank, bool stale)
{
    uint32_t before = s->typing->of_node[node];
    uint32_t type = slot & AS_SLOT_TYPE & AS_TYPING_TYPE;
    if (before & AS_TYPING_BLOCKED || s->classes[s->in->vtables->of_node[node]] != 0 || ++s->steps > s->most_steps)
        return;
    if (slot & AS_SLOT_NODE && rank > RANK_NODE)
        rank = RANK_NODE;
    uint32_t state = judge(s, node, type, slot);
    if (state == 0 || (rank == RANK_WEAK && !is_plausible(s, node, state, stale)))
        return;
    if (before == 0)
        set(s, node, state, rank);
    else
        settle(s, node, state, rank);
}

// The part of a std::deque's pointers that is in use lies between those to its first and last blocks, to which its own iterators lead as well.
static void find_used(struct spread *s, uint32_t node, uint32_t *first, uint32_t *last)
{
    const struct as_edges *e = s->in->edges;
    struct as_dwarf_types *t = &s->typing->types;
    uint32_t pointer = t->list.items[s->typing->of_node[node] & AS_TYPING_TYPE].of;
    uint32_t block = as_dwarf_array_of(t, t->list.items[pointer].of, 0);
    *first = 1;
    *last = 0;
    for (uint32_t i = e->first[node]; i < e->first[node + 1]; i++) {
        uint32_t state = s->typing->of_node[e->to.items[i]];
        if (!as_edge_begins(e, i) || (state & AS_TYPING_TYPE) != block || rank_of(state) != RANK_SURE)
            continue;
        *first = *first > *last ? i : *first;
        *last = i;
    }
    if (*first <= *last && as_edge_place(e, *last) - as_edge_place(e, *first) != *last - *first)
        *first = *last + 1;
}

static void follow_edges(struct spread *s, uint32_t node)
{
    const struct as_edges *e = s->in->edges;
    uint32_t state = s->typing->of_node[node];
    if (state & AS_TYPING_BLOCKED || (state & AS_TYPING_TYPE) == 0)
        return;
    bool doubtful = s->weak && is_doubtful(s, node, state), later = false;
    uint32_t first = e->first[node], last = e->first[node + 1] - 1;
    if (state & AS_TYPING_MAP)
        find_used(s, node, &first, &last);
    for (uint32_t i = first; i + 1 < last + 2; i++) {
        struct word w = look_at(s, node, state, i);
        if (!(w.slot & AS_SLOT_POINTER) || !as_edge_begins(e, i) || (doubtful && w.rank == RANK_WEAK))
            continue;
        if (w.rank == RANK_WEAK && !s->weak)
            later = true;
        else
            offer(s, e->to.items[i], w.slot, w.rank, w.stale);
    }
    if (later) // once all that is sure is known
        push(s, node, RANK_WEAK);
}

uint32_t as_typing_variable(struct as_typing *y, uint32_t module, uint64_t address, uint64_t *start)
{
    const struct as_dwarf_variable *v = y->of_node ? as_dwarf_variable_at(&y->debug, false, module, address) : NULL;
    uint32_t type = v ? as_dwarf_type_of_variable(&y->types, v) : 0;
    if (type == 0 || address - v->address >= y->types.list.items[type].size)
        return 0;
    *start = v->address;
    return type;
}

// The type of the thread-local variable in which an address lies; 0: not known. *start: where the thread has it.
static uint32_t type_in_block(struct as_typing *y, const struct as_tls_block *b, uint64_t address, uint64_t *start)
{
    uint64_t offset = address - b->start;
    const struct as_dwarf_variable *v = as_dwarf_variable_at(&y->debug, true, b->module, offset);
    uint32_t type = v ? as_dwarf_type_of_variable(&y->types, v) : 0;
    if (type == 0 || offset - v->address >= y->types.list.items[type].size)
        return 0;
    *start = b->start + v->address;
    return type;
}

// The word at `address`, of a variable of that type which begins at `start`, leads to the beginning of a node.
static void start_at(struct spread *s, uint32_t type, uint64_t start, uint64_t address, uint32_t node)
{
    uint32_t slot = type != 0 ? as_dwarf_slot(&s->typing->types, type, address - start) : 0;
    if (slot & AS_SLOT_POINTER)
        offer(s, node, slot, RANK_SURE, false);
}

static void start_at_variables(struct spread *s)
{
    const struct as_roots *r = s->in->roots;
    for (size_t i = 0; i < r->list.count; i++) {
        const struct as_root *root = &r->list.items[i];
        const struct as_root_source *source = &r->sources.items[root->source];
        const struct as_tls_block *block = root->begins ? as_tls_at(s->in->tls, root->address) : NULL;
        uint64_t start = 0;
        uint32_t type = 0;
        if (block)
            type = type_in_block(s->typing, block, root->address, &start);
        else if (source->kind == AS_ROOT_GLOBAL && root->begins)
            type = as_typing_variable(s->typing, source->module, root->address, &start);
        start_at(s, type, start, root->address, root->node);
    }
}

// Thread-local variables of a library that was loaded later lie in chunks.
static void start_in_chunks(struct spread *s)
{
    const struct as_edges *e = s->in->edges;
    for (size_t k = 0; k < s->in->tls->blocks.count; k++) {
        const struct as_tls_block *block = &s->in->tls->blocks.items[k];
        uint32_t node = as_index_target(s->in->index, block->start);
        if (node == AS_NO_NODE)
            continue;
        uint64_t memory = as_index_address(s->in->index, node) + AS_HEADER, start = 0;
        for (uint32_t i = e->first[node]; i < e->first[node + 1] && as_edge_place(e, i) < AS_PLACE_FAR; i++) {
            uint64_t address = memory + (uint64_t)as_edge_place(e, i) * WORD;
            if (!as_edge_begins(e, i) || address < block->start || address - block->start >= block->size)
                continue;
            uint32_t type = type_in_block(s->typing, block, address, &start);
            start_at(s, type, start, address, e->to.items[i]);
        }
    }
}

// Objects whose class a vtable names have its members, wherever a pointer to them comes from.
static void start_at_vtables(struct spread *s)
{
    const struct as_vtables *v = s->in->vtables;
    for (uint32_t node = 0; node < s->in->index->count; node++) {
        uint32_t type = s->classes[v->of_node[node]];
        if (type != 0 && s->typing->types.list.items[type].size <= usable(s, node))
            set(s, node, type, RANK_SURE);
    }
}

static void find_classes(struct spread *s)
{
    const struct as_vtables *v = s->in->vtables;
    char name[LONGEST_NAME];
    for (size_t i = 1; i < v->list.count; i++)
        if (v->list.items[i].proven && v->list.items[i].name != 0)
            s->classes[i] = as_dwarf_type_named(
                &s->typing->types,
                as_name_demangled(as_strings_at(&v->names, v->list.items[i].name), true, name, sizeof name));
}

// Forgets all types, but not which nodes cannot have one.
static void start_again(struct spread *s)
{
    for (uint32_t node = 0; node < s->typing->nodes; node++)
        s->typing->of_node[node] &= AS_TYPING_BLOCKED;
    s->queues[0].count = s->queues[1].count = 0;
    s->conflicts = false;
    s->steps = 0;
}

// What a node was given before two types turned out not to go together, its edges have passed on. So all begins again without it.
static void spread_types(struct spread *s)
{
    for (int round = 0; round < MOST_ROUNDS; round++) {
        if (round > 0) // most nodes get no type, and their pages are never touched
            start_again(s);
        start_at_vtables(s);
        start_at_variables(s);
        start_in_chunks(s);
        size_t at[2] = {0};
        while (!s->failed && (at[0] < s->queues[0].count || at[1] < s->queues[1].count)) {
            s->weak = at[0] == s->queues[0].count;
            follow_edges(s, s->queues[s->weak].items[at[s->weak]++]);
        }
        if (!s->conflicts)
            return;
    }
}

// A chunk whose type has no name that anybody could write (an anonymous struct, a pointer to what is not known) has none.
static void take_unnamed_out(struct as_typing *y)
{
    const struct as_dwarf_types *t = &y->types;
    for (uint32_t node = 0; node < y->nodes; node++) {
        uint32_t type = y->of_node[node] & AS_TYPING_TYPE;
        char name[2];
        if (type != 0 && !as_dwarf_type_name(t, type, name, sizeof name))
            y->of_node[node] |= AS_TYPING_UNNAMED;
    }
}

static void measure(struct spread *s)
{
    struct as_used_cursor c = as_used_begin(s->in->index);
    struct as_used_chunk chunk;
    while (as_used_next(&c, &chunk))
        s->units[chunk.node] = chunk.size / AS_ALIGNMENT < UINT32_MAX ? (uint32_t)(chunk.size / AS_ALIGNMENT) : 0;
}

// Opens the debug information of a module: a file of its own, or else its own.
static bool open_file(struct as_typing *y, const struct as_modules *modules, struct as_module *module, uint64_t most,
                      struct as_debug_info *info)
{
    struct as_target *t = modules->target;
    AS_CLEANUP_FD int ours = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    AS_CLEANUP_FD int its = t->ops->open_root ? t->ops->open_root(t) : -1;
    const int roots[] = {ours, its, -1};
    const char *path = as_mapping_path(t, &t->mappings.items[module->first_mapping]);
    struct as_elf debug;
    AS_CLEANUP_FD int fd = as_debug_file_of(&module->elf, t, path);
    bool apart = fd >= 0 && as_elf_open(&debug, fd, NULL);
    char why[sizeof y->left_out / 2];
    bool ok = as_debug_info_open(info, apart ? &debug : &module->elf, most, roots, why, sizeof why);
    if (!ok && why[0] && !y->left_out[0])
        snprintf(y->left_out, sizeof y->left_out, "debug information of %.60s was left out: %s",
                 as_module_name(modules, module), why);
    return ok;
}

static bool read_module(struct as_typing *y, const struct as_modules *modules, uint32_t i, uint64_t *room,
                        struct as_error *err)
{
    struct as_module module = modules->list.items[i];
    struct as_debug_info info = {0};
    struct as_debug_info *kept = NULL;
    if (!as_module_open(modules, &module))
        return true;
    bool there = open_file(y, modules, &module, *room < MOST_BYTES ? *room : MOST_BYTES, &info);
    as_module_close(&module);
    if (there)
        kept = as_vec_add(&y->files, err);
    if (!kept) {
        as_debug_info_close(&info);
        return !there;
    }
    *kept = info;
    uint64_t bytes = info.image.count + info.shared_image.count;
    *room -= bytes < *room ? bytes : *room;
    return as_dwarf_index_add(&y->debug, kept, i, module.base, err);
}

// The program's own first.
static bool read_modules(struct as_typing *y, const struct as_modules *modules, struct as_error *err)
{
    uint64_t room = MOST_BYTES_IN_ALL;
    for (int program = 1; program >= 0; program--)
        for (uint32_t i = 0; i < modules->list.count; i++)
            if (modules->list.items[i].is_program == program && !read_module(y, modules, i, &room, err))
                return false;
    return y->files.count == 0 || as_dwarf_index_finish(&y->debug, err);
}

bool as_typing_find(struct as_typing *y, const struct as_typing_input *in, struct as_error *err)
{
    as_typing_free(y);
    if (!read_modules(y, in->roots->modules, err))
        return false;
    if (y->files.count == 0)
        return true;
    struct spread s = {.typing = y, .in = in, .err = err};
    size_t bytes = ((size_t)in->index->count + 1) * sizeof *y->of_node, vtables = AS_MOST_VTABLES + 1;
    s.most_steps = 64 * (uint64_t)in->edges->to.count + UINT16_MAX;
    y->nodes = in->index->count;
    y->of_node = as_memory_map(bytes, "the chunks' types", err);
    s.units = as_memory_map_large(bytes, "the chunks' sizes", err);
    s.classes = as_memory_map(vtables * sizeof *s.classes, "the classes' types", err);
    bool ok = y->of_node && s.units && s.classes && as_dwarf_types_open(&y->types, &y->debug, err);
    if (ok) {
        measure(&s);
        find_classes(&s);
        spread_types(&s);
        take_unnamed_out(y);
    }
    as_memory_unmap(s.units, bytes);
    as_memory_unmap(s.classes, vtables * sizeof *s.classes);
    as_vec_free(&s.queues[0]);
    as_vec_free(&s.queues[1]);
    return ok && !s.failed;
}

void as_typing_free(struct as_typing *y)
{
    as_memory_unmap(y->of_node, ((size_t)y->nodes + 1) * sizeof *y->of_node);
    as_dwarf_types_free(&y->types);
    as_dwarf_index_free(&y->debug);
    for (size_t i = 0; i < y->files.count; i++)
        as_debug_info_close(&y->files.items[i]);
    as_vec_free(&y->files);
    *y = (struct as_typing){0};
}

const char *as_typing_name(const struct as_typing *y, uint32_t type, char *text, size_t size)
{
    return as_dwarf_type_name(&y->types, type, text, size);
}

const char *as_typing_part(struct as_typing *y, uint32_t type, uint64_t offset, char *text, size_t size)
{
    text[0] = '\0';
    return as_dwarf_path(&y->types, type, offset, text, size) ? text : NULL;
}

const char *as_typing_member(struct as_typing *y, uint32_t node, uint64_t offset, char *text, size_t size)
{
    uint32_t state = y->of_node ? y->of_node[node] : 0;
    uint32_t type = state & AS_TYPING_TYPE;
    if (type == 0 || state & AS_TYPING_BLOCKED)
        return NULL;
    const struct as_dwarf_type *of = &y->types.list.items[type];
    bool array = of->kind == AS_DWARF_ARRAY && of->count == 0;
    uint32_t element = array ? of->of : type;
    char part[LONGEST_NAME] = "";
    uint64_t its = y->types.list.items[element].size;
    if (its == 0 || (!array && offset >= its) ||
        !as_dwarf_path(&y->types, element, array ? offset % its : offset, part, sizeof part) ||
        !as_dwarf_type_name(&y->types, type, text, size))
        return NULL;
    size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s",
             array            ? ""
             : part[0] == '.' ? "::"
                              : "",
             array || part[0] != '.' ? part : part + 1);
    return text;
}

#else

bool as_typing_find(struct as_typing *y, const struct as_typing_input *in, struct as_error *err)
{
    (void)y;
    (void)in;
    (void)err;
    return true;
}

void as_typing_free(struct as_typing *y)
{
    (void)y;
}

bool as_typing_is_bytes(const struct as_typing *y, uint32_t type)
{
    (void)y;
    return type == 0;
}

const char *as_typing_name(const struct as_typing *y, uint32_t type, char *text, size_t size)
{
    (void)y;
    (void)type;
    (void)text;
    (void)size;
    return NULL;
}

const char *as_typing_member(struct as_typing *y, uint32_t node, uint64_t offset, char *text, size_t size)
{
    (void)offset;
    return as_typing_name(y, node, text, size);
}

uint32_t as_typing_variable(struct as_typing *y, uint32_t module, uint64_t address, uint64_t *start)
{
    (void)y;
    (void)module;
    (void)address;
    (void)start;
    return 0;
}

const char *as_typing_part(struct as_typing *y, uint32_t type, uint64_t offset, char *text, size_t size)
{
    (void)offset;
    return as_typing_name(y, type, text, size);
}

#endif
