// SPDX-License-Identifier: MIT
#include "graph/edges.h"
#include "base/memory.h"

#include <inttypes.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the first unit of an edge has the lowest bits"
#endif

enum { WORD_UNITS = sizeof(uint64_t) / sizeof(uint16_t) }; // of which the last may be read behind an edge

static size_t spans_of(const struct as_edges *e)
{
    return (size_t)e->nodes / AS_EDGE_SPAN + 1;
}

bool as_edges_open(struct as_edges *e, uint32_t nodes, struct as_error *err)
{
    *e = (struct as_edges){.nodes = nodes};
    e->spans = as_memory_map_large(spans_of(e) * sizeof *e->spans, "the graph's edges", err);
    return e->spans && as_vec_reserve(&e->list, WORD_UNITS, err); // never no array at all
}

void as_edges_free(struct as_edges *e)
{
    as_memory_unmap(e->spans, spans_of(e) * sizeof *e->spans);
    AS_FREE_VECS(e, list, ends);
    *e = (struct as_edges){0};
}

void as_edges_forget(struct as_edges *e)
{
    struct as_edges numbers = {.pointers = e->pointers, .unread = e->unread};
    as_edges_free(e);
    *e = numbers;
}

void as_edge_batch_free(struct as_edge_batch *b)
{
    AS_FREE_VECS(b, firsts, list);
}

// Says where the edges of a span's nodes begin, and where the last end: so much behind `base`.
static bool write_span(struct as_edges *e, uint32_t span, const uint32_t at[AS_EDGE_SPAN + 1], uint32_t base,
                       struct as_error *err)
{
    struct as_edge_span *s = &e->spans[span];
    if (!as_edge_span_is_large(s) && at[AS_EDGE_SPAN] - at[0] <= UINT8_MAX) {
        s->first = base + at[0];
        for (int i = 0; i < AS_EDGE_SPAN; i++)
            s->ends[i] = (uint8_t)(at[i + 1] - at[0]);
        return true;
    }
    if (!as_edge_span_is_large(s)) {
        if (!as_vec_reserve(&e->ends, AS_EDGE_SPAN + 1, err))
            return false;
        *s = (struct as_edge_span){.first = (uint32_t)e->ends.count, .ends = {1}};
        e->ends.count += AS_EDGE_SPAN + 1;
    }
    for (uint32_t i = 0; i <= AS_EDGE_SPAN; i++)
        e->ends.items[s->first + i] = base + at[i];
    return true;
}

static void read_span(const struct as_edges *e, uint32_t span, uint32_t at[AS_EDGE_SPAN + 1])
{
    const struct as_edge_span *s = &e->spans[span];
    if (as_edge_span_is_large(s)) {
        memcpy(at, e->ends.items + s->first, (AS_EDGE_SPAN + 1) * sizeof *at);
        return;
    }
    at[0] = s->first;
    for (int i = 0; i < AS_EDGE_SPAN; i++)
        at[i + 1] = s->first + s->ends[i];
}

uint32_t as_edge_move(struct as_edges *e, uint32_t edge, uint32_t to)
{
    uint32_t units = as_edge_next(e, edge) - edge;
    if (edge != to)
        memmove(e->list.items + to, e->list.items + edge, units * sizeof *e->list.items);
    return to + units;
}

static bool make_room(struct as_edges *e, size_t more, struct as_error *err)
{
    if (e->list.count + more + WORD_UNITS >= UINT32_MAX)
        return as_fail(err, AS_NO_MEMORY,
                       "pointers that take more than %" PRIu32 " times 2 bytes are more than the graph can have",
                       UINT32_MAX - WORD_UNITS);
    size_t before = e->list.capacity;
    if (!as_vec_reserve(&e->list, more + WORD_UNITS, err))
        return false;
    if (e->list.capacity != before)
        as_memory_prefer_large_pages(e->list.items, e->list.capacity * sizeof *e->list.items);
    return true;
}

// Adds a node whose edges end there.
static bool add_node(struct as_edges *e, uint32_t end, struct as_error *err)
{
    uint32_t at = e->added++ % AS_EDGE_SPAN;
    e->open[at + 1] = end;
    if (at + 1 < AS_EDGE_SPAN)
        return true;
    bool ok = write_span(e, e->added / AS_EDGE_SPAN - 1, e->open, 0, err);
    e->open[0] = end;
    return ok;
}

// Up to the node `to`, none has an edge.
static bool leave_out(struct as_edges *e, uint64_t to, struct as_error *err)
{
    while (e->added < to)
        if (!add_node(e, (uint32_t)e->list.count, err))
            return false;
    return true;
}

static bool add_nodes(struct as_edges *e, const struct as_edge_batch *b, struct as_error *err)
{
    const uint32_t base = (uint32_t)e->list.count;
    for (size_t i = 0; i < b->firsts.count;) {
        bool whole = e->added % AS_EDGE_SPAN == 0 && b->firsts.count - i > AS_EDGE_SPAN; // all of a span's
        if (whole && !write_span(e, e->added / AS_EDGE_SPAN, b->firsts.items + i, base, err))
            return false;
        if (whole) {
            e->added += AS_EDGE_SPAN;
            i += AS_EDGE_SPAN;
            e->open[0] = base + b->firsts.items[i];
        } else {
            i++;
            if (!add_node(e, base + (uint32_t)(i < b->firsts.count ? b->firsts.items[i] : b->list.count), err))
                return false;
        }
    }
    return true;
}

bool as_edges_add(struct as_edges *e, uint32_t node, const struct as_edge_batch *b, struct as_error *err)
{
    const uint32_t base = (uint32_t)e->list.count;
    if (node < e->added || node > e->nodes || b->firsts.count > e->nodes - node) // no heap is there twice
        return true;
    if (!make_room(e, b->list.count, err) || !leave_out(e, node, err) || !add_nodes(e, b, err))
        return false;
    if (b->list.count > 0)
        memcpy(e->list.items + base, b->list.items, b->list.count * sizeof *b->list.items);
    e->list.count += b->list.count;
    e->pointers += b->count;
    return true;
}

bool as_edges_close(struct as_edges *e, struct as_error *err)
{
    return leave_out(e, (uint64_t)spans_of(e) * AS_EDGE_SPAN, err);
}

// Edges that follow each other and stay so, on their way from `from` to `to`.
struct move {
    uint32_t from, end, to;
};

static void end_move(struct as_edges *e, struct move *m)
{
    if (m->from != m->to && m->from != m->end)
        memmove(e->list.items + m->to, e->list.items + m->from, (m->end - m->from) * sizeof *e->list.items);
    m->to += m->end - m->from;
}

bool as_edges_sieve(struct as_edges *e, as_edge_owner *keep, void *context, struct as_error *err)
{
    uint32_t was[AS_EDGE_SPAN + 1], is[AS_EDGE_SPAN + 1];
    struct move m = {0};
    for (size_t span = 0; span < spans_of(e); span++) {
        read_span(e, (uint32_t)span, was);
        for (uint32_t i = 0; i < AS_EDGE_SPAN; i++) {
            is[i] = m.to + (m.end - m.from);
            if (was[i] == was[i + 1])
                continue;
            uint32_t end = keep(context, e, (uint32_t)span * AS_EDGE_SPAN + i, was[i], was[i + 1]);
            if (m.end != was[i]) {
                end_move(e, &m);
                m.from = was[i];
            }
            m.end = end;
        }
        is[AS_EDGE_SPAN] = m.to + (m.end - m.from);
        if (!write_span(e, (uint32_t)span, is, 0, err))
            return false;
    }
    end_move(e, &m);
    e->list.count = m.to;
    return true;
}
