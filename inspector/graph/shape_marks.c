// SPDX-License-Identifier: MIT
#include "graph/shapes.h"

void as_shape_unmark(struct as_shaping *s)
{
    const struct as_edges *e = s->edges;
    const uint8_t plain = (uint8_t) ~(AS_SHAPE_MARKED | AS_SHAPE_START);
    for (size_t k = 0; k < s->linked.count; k++) {
        uint32_t node = s->linked.items[k];
        s->of_node[node] &= plain;
        AS_FOR_EDGES_WHILE(as_edge_place(e, i) < AS_SHAPE_WORDS, e, node, i)
            if (as_shape_is_alike(s, node, as_edge_place(e, i)))
                s->of_node[as_edge_to(e, node, i)] &= plain;
    }
}
