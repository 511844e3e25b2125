// SPDX-License-Identifier: MIT
#include "base/memory.h"
#include "graph/typing_rules.h"

// Where debug information names few chunks, a search for each takes less than all of them.
enum { FEW = 64 };

static size_t bytes_of(const struct as_typing_sizes *s)
{
    return ((size_t)s->index->count + 1) * sizeof *s->units;
}

// Nobody knows how much of mapped memory one pointer is meant to lead to.
static uint32_t units_in(const struct as_index *x, const struct as_used_chunk *chunk)
{
    if (as_index_is_mapped(x, chunk->node))
        return 0;
    return chunk->size / AS_ALIGNMENT < UINT32_MAX ? (uint32_t)(chunk->size / AS_ALIGNMENT) : 0;
}

static void measure(struct as_typing_sizes *s)
{
    s->units = as_memory_map_large(bytes_of(s), "the chunks' sizes", s->err);
    s->failed = s->units == NULL;
    for (struct as_used_cursor c = as_used_begin(s->index); s->units && as_used_next(&c);)
        s->units[c.chunk.node] = units_in(s->index, &c.chunk);
}

uint32_t as_typing_units(struct as_typing_sizes *s, uint32_t node)
{
    if (!s->units && !s->failed && ++s->asked > FEW)
        measure(s);
    if (s->units)
        return s->units[node];
    struct as_used_cursor c = as_used_from(s->index, node);
    return as_used_next(&c) && c.chunk.node == node ? units_in(s->index, &c.chunk) : 0;
}

void as_typing_sizes_free(struct as_typing_sizes *s)
{
    if (s->units)
        as_memory_unmap(s->units, bytes_of(s));
    s->units = NULL;
}
