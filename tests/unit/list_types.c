// SPDX-License-Identifier: MIT
// The type of each chunk in use, for tests/graph/test_types.py: lines "ADDRESS SIZE EVIDENCE NAME", separated by tabs; "-" where a chunk
// has no type. ADDRESS: what malloc returned. SIZE: bytes, with the header.
//     list_types PID|CORE [no-debug-information]
#include "cli/graph_command.h"

#include <inttypes.h>
#include <stdio.h>

static void list(const struct as_graph_snapshot *lookup)
{
    for (struct as_used_cursor c = as_used_begin(&lookup->graph.index); as_used_next(&c);) {
        char text[AS_GRAPH_NAME];
        uint32_t type = as_graph_type(&lookup->graph, c.chunk.node);
        const char *evidence = as_evidence_name(as_graph_type_evidence(&lookup->graph, type));
        printf("0x%" PRIx64 "\t%" PRIu64 "\t%s\t%s\n", c.chunk.address + AS_HEADER, c.chunk.size,
               evidence ? evidence : "-", as_graph_type_text(lookup, type, SIZE_MAX, text));
    }
}

int main(int argc, char **argv)
{
    struct as_graph_snapshot lookup;
    struct as_error err;
    const struct as_options options = {.target = argc > 1 ? argv[1] : "",
                                       .allowed_sources =
                                           argc > 2 ? AS_LAYOUT_ANY & ~(1u << AS_LAYOUT_DWARF) : AS_LAYOUT_ANY};
    bool ok = as_graph_snapshot_open(&lookup, &options, &err) && as_graph_snapshot_take(&lookup, &options, &err) &&
              as_graph_find_types(&lookup.graph, NULL, &err) && as_graph_find_shapes(&lookup.graph, NULL, &err);
    if (ok)
        list(&lookup);
    else
        fprintf(stderr, "list_types: %s\n", err.text);
    as_graph_snapshot_close(&lookup);
    return ok ? 0 : 1;
}
