// SPDX-License-Identifier: MIT
#include "graph/typing.h"
#include "config.h"

#ifdef HAVE_LIBDW

#include "base/memory.h"
#include "debuginfo/demangle.h"
#include "debuginfo/dwarf_slots.h"
#include "debuginfo/dwarf_types.h"

enum {
    WORD = sizeof(uint64_t),
    MOST_ROUNDS = 8,
    LONGEST_NAME = 4096,
};

struct spread {
    struct as_typing *typing;
    const struct as_typing_input *in;
    struct as_error *err;
    struct as_typing_rules rules;
    struct as_typing_sizes sizes;
    AS_VEC(uint32_t) queues[2]; // nodes whose edges are to be followed: those that are sure, and the weak ones
    uint32_t *classes;          // of each vtable: its class's type
    uint64_t steps, most_steps;
    bool any_class; // any of them has one
    bool weak;      // all that is sure is known
    bool conflicts, failed;
};

static void push(struct spread *s, uint32_t node, enum as_typing_rank rank)
{
    s->failed |= !as_vec_push(&s->queues[rank == AS_RANK_WEAK], s->err, node);
}

static void set(struct spread *s, uint32_t node, uint32_t state, enum as_typing_rank rank)
{
    s->typing->of_node[node] = state | (uint32_t)rank << AS_TYPING_RANK_SHIFT;
    push(s, node, rank);
}

// A pointer gives a node another type than it has.
static void resolve_conflict(struct spread *s, uint32_t node, uint32_t state, enum as_typing_rank rank)
{
    uint32_t before = s->typing->of_node[node];
    enum as_typing_rank held = (enum as_typing_rank)(before >> AS_TYPING_RANK_SHIFT & 3);
    uint32_t type = state & AS_TYPING_TYPE, old = before & AS_TYPING_TYPE;
    if (type == old) {
        if (rank > held)
            set(s, node, before & state & AS_TYPING_UNNAMED ? state : type, rank);
        return;
    }
    if (as_typing_is_more(&s->rules, old, type))
        return;
    if (as_typing_is_more(&s->rules, type, old)) {
        if (rank >= AS_RANK_NODE || held == AS_RANK_WEAK)
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

// Does an edge lead to where a pointer of that kind does? Of a hash table of Rust's, this is behind the elements.
static bool leads_where(uint32_t slot, bool begins)
{
    return slot & AS_SLOT_POINTER && (slot & AS_SLOT_TABLE ? !begins : begins);
}

// A word that is known to be a pointer leads to the beginning of a node, or into a table.
static void offer(struct spread *s, uint32_t node, uint32_t slot, enum as_typing_rank rank, bool stale)
{
    uint32_t before = s->typing->of_node[node];
    uint32_t type = slot & AS_SLOT_TYPE & AS_TYPING_TYPE;
    if (before & AS_TYPING_BLOCKED || s->classes[as_vtable_of(s->in->vtables, node)] != 0)
        return;
    if (++s->steps > s->most_steps) {
        s->typing->unfollowed++;
        return;
    }
    if (slot & AS_SLOT_NODE && rank > AS_RANK_NODE)
        rank = AS_RANK_NODE;
    uint32_t state = as_typing_judge(&s->rules, node, type, slot);
    if (state == 0 || (rank == AS_RANK_WEAK && !as_typing_is_plausible(&s->rules, node, state, stale)))
        return;
    if (before == 0)
        set(s, node, state, rank);
    else
        resolve_conflict(s, node, state, rank);
}

// The part of a std::deque's pointers that is in use lies between those to its first and last blocks, to which its own iterators lead as
// well.
static struct as_edge_range find_used(struct spread *s, uint32_t node)
{
    const struct as_edges *e = s->in->edges;
    struct as_dwarf_types *t = &s->typing->types;
    uint32_t pointer = t->list.items[s->typing->of_node[node] & AS_TYPING_TYPE].of;
    uint32_t element = t->list.items[pointer].of, block = as_dwarf_array_of(t, element, 0);
    struct as_edge_range used = {0};
    uint32_t last = 0;
    for (uint32_t i = as_edges_first(e, node), end = as_edges_end(e, node), next; i < end; i = next) {
        uint32_t state = s->typing->of_node[as_edge_to(e, node, i)], type = state & AS_TYPING_TYPE;
        next = as_edge_next(e, i);
        // A block with room for one element has the element's type.
        if (!as_edge_begins(e, i) || (type != block && type != element) || as_typing_rank_of(state) != AS_RANK_SURE)
            continue;
        used.first = used.first == used.end ? i : used.first;
        used.end = next;
        last = i;
    }
    if (used.first < used.end &&
        as_edge_place(e, last) - as_edge_place(e, used.first) + 1 != as_edges_count(e, used.first, used.end))
        used.first = used.end;
    return used;
}

static void follow_edges(struct spread *s, uint32_t node)
{
    const struct as_edges *e = s->in->edges;
    uint32_t state = s->typing->of_node[node];
    if (state & AS_TYPING_BLOCKED || (state & AS_TYPING_TYPE) == 0)
        return;
    bool doubtful = s->weak && as_typing_is_doubtful(&s->rules, node, state), later = false;
    struct as_edge_range used = state & AS_TYPING_MAP ? find_used(s, node) : as_edges_of(e, node);
    for (uint32_t i = used.first; i < used.end; i = as_edge_next(e, i)) {
        struct as_typing_word w = as_typing_read(&s->rules, node, state, i);
        if (as_typing_is_chain(&s->rules, node, state, i))
            w.stale = false, w.rank = as_typing_rank_of(state);
        s->typing->unfollowed += w.far && !s->weak;
        if (!leads_where(w.slot, as_edge_begins(e, i)) || (doubtful && w.rank == AS_RANK_WEAK))
            continue;
        if (w.rank == AS_RANK_WEAK && !s->weak)
            later = true;
        else
            offer(s, as_edge_to(e, node, i), w.slot, w.rank, w.stale);
    }
    if (later) // once all that is sure is known
        push(s, node, AS_RANK_WEAK);
}

// The type of the thread-local variable in which an address lies; 0: not known. *start: where the thread has it.
static uint32_t type_in_block(struct as_typing *y, const struct as_tls_block *b, uint64_t address, uint64_t *start)
{
    uint64_t offset = address - b->start;
    const struct as_dwarf_variable *v = as_dwarf_variable_at(y->debug, true, b->module, offset);
    uint32_t type = v ? as_dwarf_type_of_variable(&y->types, v) : 0;
    if (type == 0 || offset - v->address >= y->types.list.items[type].size)
        return 0;
    *start = b->start + v->address;
    return type;
}

// The word at `address`, of a variable of that type which begins at `start`, leads to a node; `begins`: to its beginning.
static void start_at(struct spread *s, uint32_t type, uint64_t start, uint64_t address, uint32_t node, bool begins)
{
    uint32_t slot = type != 0 ? as_dwarf_slot(&s->typing->types, type, address - start) : 0;
    if (leads_where(slot, begins))
        offer(s, node, slot, AS_RANK_SURE, false);
}

static void start_at_variables(struct spread *s)
{
    const struct as_roots *r = s->in->roots;
    AS_FOR_EACH(const struct as_root, root, &r->list) {
        const struct as_root_source *source = &r->sources.items[root->source];
        bool table = as_pattern_buckets(s->in->patterns, root->node).count > 0;
        const struct as_tls_block *block = root->begins || table ? as_tls_at(s->in->tls, root->address) : NULL;
        uint64_t start = 0;
        uint32_t type = 0;
        if (block)
            type = type_in_block(s->typing, block, root->address, &start);
        else if (source->kind == AS_ROOT_GLOBAL && (root->begins || table))
            type = as_typing_variable(s->typing, source->module, root->address, &start);
        start_at(s, type, start, root->address, root->node, root->begins);
    }
}

// Thread-local variables of a library that was loaded later lie in chunks.
static void start_in_chunks(struct spread *s)
{
    const struct as_edges *e = s->in->edges;
    AS_FOR_EACH(const struct as_tls_block, block, &s->in->tls->blocks) {
        uint32_t node = as_index_target(s->in->index, block->start);
        if (node == AS_NO_NODE)
            continue;
        uint64_t memory = as_index_address(s->in->index, node) + AS_HEADER, start = 0;
        AS_FOR_EDGES_WHILE(as_edge_place(e, i) < AS_PLACE_FAR, e, node, i) {
            uint64_t address = memory + (uint64_t)as_edge_place(e, i) * WORD;
            if (!as_edge_begins(e, i) || address < block->start || address - block->start >= block->size)
                continue;
            uint32_t type = type_in_block(s->typing, block, address, &start);
            start_at(s, type, start, address, as_edge_to(e, node, i), true);
        }
    }
}

// Objects whose class a vtable names have its members, wherever a pointer to them comes from.
static void start_at_vtables(struct spread *s)
{
    const struct as_vtables *v = s->in->vtables;
    for (uint32_t node = 0; s->any_class && node < s->in->index->count; node++) {
        uint32_t type = s->classes[as_vtable_of(v, node)];
        if (type != 0 && s->typing->types.list.items[type].size <= as_typing_usable(&s->rules, node))
            set(s, node, type, AS_RANK_SURE);
    }
}

static void find_classes(struct spread *s)
{
    const struct as_vtables *v = s->in->vtables;
    char name[LONGEST_NAME];
    for (size_t i = 1; i < v->list.count; i++) {
        if (!v->list.items[i].proven || v->list.items[i].name == 0 || v->list.items[i].plain)
            continue;
        s->classes[i] =
            as_dwarf_type_named(&s->typing->types, as_name_demangled(as_strings_at(&v->names, v->list.items[i].name),
                                                                     true, name, sizeof name));
        s->any_class = s->any_class || s->classes[i] != 0;
    }
}

// Has any node whose type is wanted a class that has a name, and (`classes`, unless it is NULL) a type? What no variable leads to can have
// its type from there alone.
static bool is_wanted(const struct as_typing_input *in, const uint32_t *classes)
{
    const struct as_vtables *v = in->vtables;
    const uint32_t count = in->index->count;
    if (in->only == NULL)
        return true;
    for (uint32_t node = 0; (node = as_next_byte(in->only, node, count)) < count; node++) {
        const struct as_vtable *vtable = &v->list.items[as_vtable_of(v, node)];
        if (classes ? classes[as_vtable_of(v, node)] != 0 : vtable->proven && vtable->name != 0)
            return true;
    }
    return false;
}

// Forgets all types, but not which nodes cannot have one.
static void start_again(struct spread *s)
{
    for (uint32_t node = 0; node < s->typing->nodes; node++)
        s->typing->of_node[node] &= AS_TYPING_BLOCKED;
    s->queues[0].count = s->queues[1].count = 0;
    s->conflicts = false;
    s->steps = s->typing->unfollowed = 0;
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
        while (!s->failed && !s->sizes.failed && (at[0] < s->queues[0].count || at[1] < s->queues[1].count)) {
            s->weak = at[0] == s->queues[0].count;
            follow_edges(s, s->queues[s->weak].items[at[s->weak]++]);
        }
        if (!s->conflicts)
            return;
    }
}

// A chunk whose type has no name that anybody could write (an anonymous struct, a pointer to what is not known) has none. Each node that
// has a type is in a queue.
static void take_unnamed_out(struct spread *s)
{
    const struct as_dwarf_types *t = &s->typing->types;
    for (size_t queue = 0; queue < sizeof s->queues / sizeof *s->queues; queue++)
        for (size_t i = 0; i < s->queues[queue].count; i++) {
            uint32_t *state = &s->typing->of_node[s->queues[queue].items[i]];
            char name[2];
            if ((*state & AS_TYPING_TYPE) != 0 && !as_dwarf_type_name(t, *state & AS_TYPING_TYPE, name, sizeof name))
                *state |= AS_TYPING_UNNAMED;
        }
}

bool as_typing_find(struct as_typing *y, const struct as_typing_input *in, struct as_error *err)
{
    as_typing_free(y);
    if (in->files->list.count == 0 || !is_wanted(in, NULL))
        return true;
    if (!as_dwarf_files_read(in->files, err))
        return false;
    y->debug = &in->files->index;
    struct spread s = {.typing = y,
                       .in = in,
                       .err = err,
                       .sizes = {.index = in->index, .err = err},
                       .rules = {.edges = in->edges,
                                 .vtables = in->vtables,
                                 .patterns = in->patterns,
                                 .debug = y->debug,
                                 .types = &y->types}};
    size_t bytes = ((size_t)in->index->count + 1) * sizeof *y->of_node, vtables = AS_MOST_VTABLES + 1;
    s.most_steps = 64 * in->edges->pointers + UINT16_MAX;
    y->nodes = in->index->count;
    s.classes = as_memory_map(vtables * sizeof *s.classes, "the classes' types", err);
    bool ok = s.classes && as_dwarf_types_open(&y->types, y->debug, err);
    if (ok)
        find_classes(&s);
    bool wanted = ok && is_wanted(in, s.classes);
    if (wanted) {
        y->of_node = as_memory_map(bytes, "the chunks' types", err);
        s.rules.of_node = y->of_node;
        s.rules.sizes = &s.sizes;
        ok = y->of_node;
    }
    if (wanted && ok) {
        spread_types(&s);
        take_unnamed_out(&s);
    }
    as_typing_sizes_free(&s.sizes);
    as_memory_unmap(s.classes, vtables * sizeof *s.classes);
    as_vec_free(&s.queues[0]);
    as_vec_free(&s.queues[1]);
    return ok && !s.failed && !s.sizes.failed;
}

void as_typing_free(struct as_typing *y)
{
    as_memory_unmap(y->of_node, ((size_t)y->nodes + 1) * sizeof *y->of_node);
    as_dwarf_types_free(&y->types);
    *y = (struct as_typing){0};
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

#endif
