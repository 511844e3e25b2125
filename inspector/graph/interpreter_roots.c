// SPDX-License-Identifier: MIT
#include "graph/graph.h"
#include "graph/mark.h"

enum {
    WORD = sizeof(uint64_t),
    LEAST_STACK = 16 << 10, // bytes: DATA_STACK_CHUNK_SIZE
    BEFORE_PAGE = 1024,     // bytes: more than a slot has, and less than a page
};

// _PyStackChunk (Include/cpython/pystate.h, 3.11 to 3.14). Behind it is the first frame.
struct stack_chunk {
    uint64_t previous; // such a chunk; 0: this is the first
    uint64_t size;     // bytes, this included
    uint64_t top;      // words, once there is a chunk behind this one
};

// Where a frame has the addresses of its globals and, behind that, its builtins (_PyInterpreterFrame): bytes, in 3.11 and later.
static const uint64_t globals_at[] = {1 * WORD, 3 * WORD};

static bool is_dict(const struct as_objects *o, uint32_t node)
{
    uint32_t type = as_object_of(o, node);
    return type != 0 && type == o->dict;
}

// Is the root at `address`, which leads to a dict as the word behind it does, in a stack's first frame? Then the stack.
static bool is_stack(struct as_target *t, uint64_t address, struct as_range *stack)
{
    for (size_t i = 0; i < 2 * sizeof globals_at / sizeof *globals_at; i++) {
        bool first = i % 2 == 0; // in the first chunk of all, a word is left out before the first frame
        uint64_t start = address - globals_at[i / 2] - sizeof(struct stack_chunk) - (first ? WORD : 0);
        const struct as_mapping *m = as_target_mapping_at(t, start);
        struct stack_chunk chunk;
        if (start % t->page_size != 0 || !m || !as_target_read(t, start, &chunk, sizeof chunk))
            continue;
        *stack = (struct as_range){start, start + chunk.size};
        if (chunk.size >= LEAST_STACK && chunk.size % LEAST_STACK == 0 && chunk.size <= m->end - start &&
            chunk.top <= chunk.size / WORD && (chunk.previous == 0) == first &&
            (first || as_target_mapping_at(t, chunk.previous)))
            return true;
    }
    return false;
}

// Gives the roots in a stack a source of their own.
static bool add_frames(struct as_roots *r, size_t from, const struct as_range *stack, struct as_error *err)
{
    uint32_t source = r->list.items[from].source;
    struct as_root_source *added = as_vec_add(&r->sources, err);
    if (!added)
        return false;
    *added = r->sources.items[source];
    added->kind = AS_ROOT_FRAMES;
    added->start = stack->start;
    added->end = stack->end;
    while (from > 0 && r->list.items[from - 1].source == source && r->list.items[from - 1].address >= stack->start)
        from--;
    for (; from < r->list.count && r->list.items[from].source == source && r->list.items[from].address < stack->end;
         from++)
        r->list.items[from].source = (uint32_t)(r->sources.count - 1) & AS_MOST_SOURCES;
    return true;
}

bool as_interpreter_find(struct as_interpreter *i, struct as_roots *r, const struct as_objects *o, struct as_target *t,
                         struct as_error *err)
{
    *i = (struct as_interpreter){.module = UINT32_MAX};
    if (o->interpreter == 0)
        return true;
    for (uint32_t k = 0; k < r->modules->list.count; k++) {
        const struct as_module *m = &r->modules->list.items[k];
        if (o->interpreter >= m->start && o->interpreter < m->end)
            i->module = k;
    }
    for (size_t k = 0; k + 1 < r->list.count; k++) {
        const struct as_root *root = &r->list.items[k], *next = root + 1;
        struct as_range stack;
        enum as_root_kind kind = r->sources.items[root->source].kind;
        // The kernel may make one mapping of it and of the main thread's variables.
        if ((kind == AS_ROOT_MEMORY || kind == AS_ROOT_THREAD) && next->address == root->address + WORD &&
            is_dict(o, root->node) && is_dict(o, next->node) && is_stack(t, root->address, &stack) &&
            !add_frames(r, k, &stack, err))
            return false;
    }
    return true;
}

// Ruby also owns a slot before its pages that could not be a node; what other runtimes have is not their own.
static bool is_own(const struct as_interpreter *i, const struct as_roots *r, const struct as_objects *o,
                   const struct as_root *root)
{
    const struct as_root_source *source = &r->sources.items[root->source];
    return (source->kind == AS_ROOT_GLOBAL && source->module == i->module) ||
           (source->kind == AS_ROOT_RUNTIME && o->evidence == AS_OBJECTS_OF_RUBY &&
            as_objects_has(o, root->address + BEFORE_PAGE));
}

// Adds the interpreter's own structures, to which its roots lead without an object between.
static void mark_structures(struct as_marks *m, const struct as_objects *o, const struct as_edges *e)
{
    while (m->head < m->tail) {
        uint32_t node = m->queue[m->head++];
        struct as_edge_range edges = as_edges_of(e, node);
        for (uint32_t k = edges.first; as_object_of(o, node) == 0 && k < edges.end; k = as_edge_next(e, k))
            as_mark(m, as_edge_to(e, node, k));
    }
}

bool as_interpreter_unite(const struct as_interpreter *i, struct as_roots *r, const struct as_objects *o,
                          const struct as_edges *e, const struct as_index *x, struct as_error *err)
{
    AS_VEC(struct as_root) sorted = {0};
    struct as_marks reached = {0};
    if (i->module == UINT32_MAX)
        return true;
    bool ok = as_marks_open(&reached, x, err) && as_vec_reserve(&sorted, r->list.count, err);
    AS_FOR_EACH_WHILE(ok, struct as_root, root, &r->list) {
        root->united = is_own(i, r, o, root);
        if (root->united)
            as_mark(&reached, root->node);
    }
    if (ok)
        mark_structures(&reached, o, e);
    AS_FOR_EACH_WHILE(ok, struct as_root, root, &r->list) {
        bool of_thread = r->sources.items[root->source].kind == AS_ROOT_THREAD;
        root->united |= of_thread && as_marked(&reached, root->node) && as_object_of(o, root->node) == 0;
    }
    for (int united = 0; ok && united < 2; united++)
        for (size_t k = 0; k < r->list.count; k++)
            if (r->list.items[k].united == (unsigned)united)
                sorted.items[sorted.count++] = r->list.items[k];
    for (size_t k = 0; ok && k < r->list.count; k++)
        r->list.items[k] = sorted.items[k];
    as_marks_free(&reached);
    as_vec_free(&sorted);
    return ok;
}
