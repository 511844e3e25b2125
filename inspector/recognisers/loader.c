// SPDX-License-Identifier: MIT
// What ld.so has allocated: the threads' dtvs, their blocks of thread-local variables, and the link_maps of modules.
#include "recognisers/libraries.h"

enum { DTV_ENTRY = 2 * sizeof(uint64_t) };

// Names the chunk that begins at `pointer`.
static void name(struct as_patterns *p, uint64_t pointer, enum as_shape shape)
{
    bool begins = false;
    uint32_t node = as_index_pointer(p->index, pointer, &begins);
    if (node != AS_NO_NODE && begins)
        as_pattern_give(p, node, shape);
}

bool as_loader_find(const struct as_recogniser_input *in)
{
    const struct as_tls *tls = in->tls;
    for (size_t i = 0; i < tls->dtvs.count; i++)
        name(in->patterns, tls->dtvs.items[i] - DTV_ENTRY, AS_SHAPE_DTV);
    for (size_t i = 0; i < tls->blocks.count; i++) {
        uint32_t node = as_index_target(in->patterns->index, tls->blocks.items[i].start);
        if (node != AS_NO_NODE && tls->blocks.items[i].on_demand)
            as_pattern_give(in->patterns, node, AS_SHAPE_TLS);
    }
    for (size_t i = 0; i < in->modules->list.count; i++)
        name(in->patterns, in->modules->list.items[i].link_map, AS_SHAPE_LINK_MAP);
    return true;
}
